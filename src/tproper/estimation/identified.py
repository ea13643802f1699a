"""Which classes an estimated T of annotators does not tell apart.

Two columns of T coincide where the answers are as likely under one column as under two: the likelihood ratio

    2 sum_i log(sum_z p_z prod_a T_a[y_ia, z]) - the same with both columns replaced by their mean

stays below the 95% quantile of chi-square, one degree of freedom for each entry that differs. Classes by such columns
have the odds of their shares whatever is answered, and any other division of their items is as likely.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from .._core import FloatArray
from .dawid_skene import Crowd, Fit, normalised

LEVEL = 0.95
APART = 1e-6  # tail probability at which the answers of all annotators together already tell two classes apart
MOST = 50  # classes, up to which every pair is compared


def one_class_each(crowd: Crowd) -> bool:
    """Whether every annotator only ever gives one answer, though not all the same one.

    Given that such an annotator answers, the answer says the same whatever the class is.
    """
    given = np.diff(crowd.by_answer.indptr).reshape(crowd.m, crowd.num_answers) > 0
    return bool((given.sum(axis=1) <= 1).all() and given.any(axis=0).sum() > 1)


def coinciding(crowd: Crowd, fit: Fit, log_prior: FloatArray) -> list[tuple[int, int]]:
    """Pairs of classes whose columns of T the answers do not tell apart."""
    from scipy.stats import chi2

    K = crowd.num_classes
    if K > MOST or len(crowd.fixed):
        return []
    total, out = fit.total, []
    T = fit.T.astype(np.float64)
    seen = (fit.counts.sum(axis=2) > 0).sum(axis=1)  # (m,) different answers of each annotator
    entries = int(np.maximum(seen - 1, 0).sum())
    value: float | None = None
    for a, b in combinations(np.flatnonzero(crowd.named), 2):
        two = total[:, [a, b]]
        if _ratio(two) > chi2.ppf(1 - APART, len(two) - 1):
            continue
        if value is None:
            value = _likelihood(crowd, T, log_prior)
        merged, share = T.copy(), two.sum(axis=0) / max(float(two.sum()), 1e-300)
        merged[:, :, [a, b]] = (T[:, :, [a, b]] @ share)[:, :, None]
        if 2 * (value - _likelihood(crowd, merged, log_prior)) < chi2.ppf(LEVEL, max(entries, 1)):
            out.append((int(a), int(b)))
    return out


def _ratio(counts: FloatArray) -> float:
    """Twice the log likelihood ratio of independence in a table of counts (M, 2)."""
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / max(float(counts.sum()), 1e-300)
    some = counts > 0
    return 2 * float((counts[some] * np.log(counts[some] / expected[some])).sum())


def _likelihood(crowd: Crowd, T: FloatArray, log_prior: FloatArray) -> float:
    return float(normalised(crowd.evidence(T).astype(np.float64) + log_prior)[0].sum())
