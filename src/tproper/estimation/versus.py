"""Is the estimate better than the majority here? From the answers alone.

What the two say differs by ``d_i = e(estimate) - e(majority)`` (ties of the majority shared), and given T an item's
classes have the posterior P_i: the difference of the two accuracies is ``mean_i <P_i, d_i>`` on average, with variance
``sum_i Var_i / n^2``. T is drawn from what the answers leave open of it (classes and T in turn, as in `posterior`), and
the draws' own spread is added; with the estimated T itself the estimate could never lose. As T was fitted to the item's
own answers too, the value is moved by what it changes to leave these out. Items with the same answers of sources that
abstain are right or wrong together (two rules that see the same words), so these count as one each.

It is a statement of the model, with all that the answers say of it: where sources err together beyond what the design
effect shows, only items of known class can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .._core import FloatArray, drawn_classes
from ..metrics import PairedTest
from .dawid_skene import Crowd, Fit
from .gold import without_own

FIRST, DRAWS = 20, 100
WORK = 2e9  # answers x classes x draws, beyond which there are fewer draws
Z = 1.959963984540054
LEAST = 1e-12  # of T
NOTE = "a is the estimate, b the majority; from the answers alone, if sources err independently"


def versus_vote(
    fit: Fit,
    posteriors: FloatArray,
    concentration: FloatArray | None,
    of_evidence: Callable[[FloatArray, NDArray[np.int64]], FloatArray],
    seed: int,
) -> PairedTest:
    """The accuracy of the estimate less that of the majority.

    `concentration` (C, m, M, K) are the Dirichlet parameters of T; without them classes and T are drawn in turn, from
    where EM ended. `of_evidence` makes posteriors of the evidence of some items, by the discount and the prior of the
    estimate.
    """
    crowd = fit.crowd
    K, rng = crowd.num_classes, np.random.default_rng(seed)
    items = np.flatnonzero(crowd.degree > 0)
    draws = int(np.clip(WORK / (len(crowd.answers) * K), 10, DRAWS))
    votes = crowd.given(items)[:, :K].astype(np.float64)
    vote = votes == votes.max(axis=1, keepdims=True)
    d = np.eye(K)[posteriors[items].argmax(axis=1)] - vote / vote.sum(axis=1, keepdims=True)
    d[crowd.known[items] >= 0] = 0.0  # the estimate has been told
    rows = np.flatnonzero(np.abs(d).sum(axis=1) > 0)
    n, values, spread = len(items), [], []
    if not len(rows):
        note = "both say the same of every item"
        return PairedTest("accuracy", 0.0, 0.0, (0.0, 0.0), n, True, note, (-1.0, 1.0))
    d, items = d[rows], items[rows]
    together = _patterns(crowd, items) if len(crowd.silent) else np.arange(len(items))
    everyone = np.arange(crowd.n)
    a = fit.concentration if concentration is None else concentration[0]
    for draw in range(-FIRST if concentration is None else 0, draws):
        T = rng.standard_gamma(a)
        T = np.maximum(T / np.maximum(T.sum(axis=1, keepdims=True), LEAST), LEAST)
        evidence = crowd.evidence(T.astype(crowd.dtype)).astype(np.float64)
        if concentration is None:
            one = np.zeros((crowd.n, K), dtype=crowd.dtype)
            z = drawn_classes(of_evidence(evidence, everyone).astype(crowd.dtype), rng)
            z[crowd.fixed] = crowd.known[crowd.fixed]
            one[everyone, z] = 1.0
            a = crowd.counts(one) + fit.before
        if draw < 0:
            continue
        P = of_evidence(evidence[items], items)
        mean = (P * d).sum(axis=1)
        values.append(float(mean.sum()) / n)
        deviation = np.sqrt(np.maximum((P * d**2).sum(axis=1) - mean**2, 0.0))
        spread.append(float((np.bincount(together, deviation) ** 2).sum()) / n**2)
    if concentration is None:
        whole, without = fit.evidence[items].astype(np.float64), without_own(fit, items)
        gain = of_evidence(without, items) - of_evidence(whole, items)
        values = [v + float((gain * d).sum()) / n for v in values]
    value, stderr = float(np.mean(values)), math.sqrt(float(np.var(values)) + float(np.mean(spread)))
    low, high = max(value - Z * stderr, -1.0), min(value + Z * stderr, 1.0)
    p_value = float(2 * ndtr(-abs(value) / stderr)) if stderr > 0 else 1.0
    better: Literal["a", "b"] | None = None
    if not low <= 0 <= high:
        better = "a" if value > 0 else "b"
    interval = (low, high)
    return PairedTest("accuracy", value, stderr, interval, n, True, NOTE, (-1.0, 1.0), p_value=p_value, better=better)


def _patterns(crowd: Crowd, items: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of the row of answers that each item has, the same for the same row."""
    place, column = crowd.of(items)
    rng = np.random.default_rng(0)
    code = rng.integers(0, 1 << 62, size=crowd.m * crowd.num_answers, dtype=np.int64)
    total = np.zeros(len(items), dtype=np.int64)
    np.add.at(total, place, code[column])  # wraps around: a hash of the set of answers
    return np.unique(total, return_inverse=True)[1].ravel()
