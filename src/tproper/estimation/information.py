"""How many answers of known class an annotator's answers are worth: what the intervals of T rest on.

Dawid-Skene's counts ``C_a[y, z] = sum of P[i, z]`` treat the posteriors as if they were the classes; intervals from
them are far too narrow where classes are doubtful. The information in the answers themselves is that of the scores

    d log L_i / d eta_a[y, z] = P[i, z] (1[a answered y] - T_a[y, z]),        T_a[:, z] = softmax(eta_a[:, z])

and of ``P[i, z] - p_z`` for the shares of the classes (Louis, 1982): ``I = sum_i s_i s_i'``, of all annotators at once,
for an error in one T is made up for by others. ``V = J I^-1 J'``, J being the softmax's Jacobian, is the covariance of
T, and an annotator's answers to class z are worth the n for which a Dirichlet has the same total variance,
``sum_y T (1 - T) / (n + 1)``. What T takes over from the crowd is worth ``1 / (1 / strength + 1 / N)``, N being what
all answers to the class are worth: a crowd cannot know more of one annotator than of itself.

References: Louis (1982), Finding the observed information matrix when using the EM algorithm.
"""

from __future__ import annotations

import numpy as np
import torch

from .._core import FloatArray
from .dawid_skene import EVEN, Crowd, Fit

LARGEST = 1000  # entries of all T together, beyond which each annotator is taken alone
WORK = 4e9  # products, about, that the information of a sample of items is computed with
SMALLEST_EIGENVALUE = 1e-11  # relative to the largest: the directions in which a softmax does not move


def concentration(crowd: Crowd, fit: Fit, P: FloatArray, shares_known: bool) -> FloatArray:
    """Dirichlet parameters (m, M, K) whose means are T and whose spread is that of its error; P are posteriors (n, K).

    `shares_known` says that the prior of each item is given (by its features), not estimated from the answers.
    """
    T = fit.T
    if T.size <= LARGEST:
        own = np.maximum(_together(crowd, T.astype(np.float64), fit.prior, P, shares_known), EVEN)
    else:
        own = _over_answers(crowd.counts(np.square(P.astype(crowd.dtype)))) + EVEN
    source = np.repeat(own.sum(axis=0)[None], len(own), axis=0)
    if fit.apart is not None:  # these take over what their answers to all classes say
        source[fit.apart] = own[fit.apart].sum(axis=1, keepdims=True)
    shared = 1.0 / (1.0 / fit.strengths[:, None] + 1.0 / source)
    complete = _over_answers(fit.counts) + fit.strengths[:, None] + EVEN  # were the classes known
    return np.multiply(T, np.minimum(own + shared, complete)[:, None, :], dtype=np.float64)


def _over_answers(counts: FloatArray) -> FloatArray:
    """Sums (m, K) of counts (m, M, K)."""
    return torch.as_tensor(counts).sum(1).double().numpy()


def _together(crowd: Crowd, T: FloatArray, prior: FloatArray, P: FloatArray, shares_known: bool) -> FloatArray:
    """What the answers of each annotator to each class are worth (m, K), from the information on all parameters."""
    m, M, K = T.shape
    information = _information(crowd, T, prior, P, shares_known)
    eta = information[: T.size, : T.size].reshape(m, M, K, m, M, K)  # a view
    jacobian = np.einsum("ayz,yw->azyw", T, np.eye(M)) - np.einsum("ayz,awz->azyw", T, T)  # (m, K, M, M)
    a, z = np.ix_(range(m), range(K))
    eta[a, :, z, a, :, z] += EVEN * jacobian  # half an answer, as T itself has it
    values, vectors = np.linalg.eigh(information)
    kept = values > SMALLEST_EIGENVALUE * values[-1]
    half = (vectors[:, kept] / np.sqrt(values[kept]))[: T.size].reshape(m, M, K, -1)
    moved = np.einsum("azyw,awzd->azyd", jacobian, half)
    variance = np.einsum("azyd,azyd->az", moved, moved)
    out: FloatArray = (T * (1 - T)).sum(axis=1) / np.maximum(variance, 1e-300) - 1.0
    return out


def _information(crowd: Crowd, T: FloatArray, prior: FloatArray, P: FloatArray, shares_known: bool) -> FloatArray:
    """``sum_i s_i s_i'`` over the items that have answers, or a sample of them."""
    m, M, K = T.shape
    items = np.flatnonzero(crowd.degree > 0)
    most = max(10 * T.size, int(WORK / T.size**2))
    if len(items) > most:
        items = np.sort(np.random.default_rng(0).choice(items, most, replace=False))
    scale = int((crowd.degree > 0).sum()) / len(items)
    size = T.size + (0 if shares_known else K)
    out = np.zeros((size, size))
    step = max(1, (1 << 21) // size)
    for block in (items[i : i + step] for i in range(0, len(items), step)):
        place, column = crowd.of(block)
        given = np.bincount(place * (m * M) + column, minlength=len(block) * m * M).reshape(-1, m, M)
        given[:, crowd.silent, -1] += given[:, crowd.silent].sum(axis=2) == 0  # silence
        gaps = given[..., None] - given.sum(axis=2)[:, :, None, None] * T
        scores = (P[block][:, None, None, :] * gaps).reshape(len(block), -1)
        if not shares_known:
            scores = np.concatenate([scores, P[block] - prior], axis=1)
        out += scores.T @ scores
    return scale * out
