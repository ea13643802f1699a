"""Sources that are near-copies of each other, found by agreement beyond what T explains, and counted as one.

Agreement alone says nothing: two honest sources who are right in .97 agree in .944, rules of one class wherever both
speak. If sources are independent given the class, the agreement of a and b above chance,

    c_ab = (A_ab - sum_y q_a(y) q_b(y)) / (1 - the same),          is about  r_a r_b,

r being how far each is above chance: rank one. Copies stand out of it, and only in the entries between themselves, so
r is found by medians over the others. A pair that turns most of the expected disagreements into agreements is
tested once more by what the class is according to all sources outside of its group.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from .._core import FloatArray
from .answers import Answers
from .dependence import Copies

MOST = 500  # sources that are compared ...
PAIRS = 3_000_000  # ... on items with as many pairs of answers, about
FEWEST = 20  # items that two of them share
ALIKE = 0.88  # agreement from which a pair is left out where r is found: it may be honest or not
ERRORS = 2.0  # standard errors of r by which a pair's agreement may be larger
HALF = 0.6  # of the expected disagreements that copies turn into agreements
SAME = 0.8  # the same of the rows that a rule speaks on, as a share of what is left beyond chance
LEVEL = 0.01  # of all pairs together
ROUNDS = 30
EM_ROUNDS = 60  # for the T of one of a pair


def tables(answers: Answers, m: int, M: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """How many items two sources share, on how many they agree (m, m), and each one's answers (m, M)."""
    from scipy.sparse import csr_array

    n, ones = len(answers.items), np.ones(len(answers))
    code = csr_array((ones, (answers.item, answers.annotator * M + answers.answer)), shape=(n, m * M))
    code.data[:] = np.minimum(code.data, 1.0)
    who = csr_array((ones, (answers.item, answers.annotator)), shape=(n, m))
    who.data[:] = 1.0
    together = (code.T @ code).tocoo()
    same = together.row % M == together.col % M
    agree = np.zeros((m, m))
    np.add.at(agree, (together.row[same] // M, together.col[same] // M), together.data[same])
    return (
        (who.T @ who).toarray(),
        agree,
        np.bincount(answers.annotator * M + answers.answer, minlength=m * M).reshape(m, M).astype(np.float64),
    )


def candidates(answers: Answers, m: int, M: int) -> list[Copies]:
    """Pairs of sources that stand out of rank one."""
    if m < 4 or m > MOST:
        return []
    degree = np.bincount(answers.item, minlength=len(answers.items)).astype(np.float64)
    share = PAIRS / max(float((degree**2).sum()), 1.0)
    if share < 1:
        some = np.random.default_rng(0).random(len(degree)) < share
        keep = some[answers.item]
        whole, answers = answers, answers.replaced(answers.answer[keep])
        answers.item, answers.annotator = whole.item[keep], whole.annotator[keep]
    shared, agree, times = tables(answers, m, M)
    np.fill_diagonal(shared, 0.0)
    usable = shared >= FEWEST
    if not usable.any():
        return []
    q = times / np.maximum(times.sum(axis=1, keepdims=True), 1.0)
    chance = q @ q.T
    A = np.where(usable, agree / np.maximum(shared, 1.0), 0.0)
    c = np.where(usable, (A - chance) / np.maximum(1 - chance, 1e-9), np.nan)
    alike = usable & (A >= ALIKE)
    enough = ((usable & ~alike).sum(axis=1) >= 2)[:, None]
    r, error = _above_chance(np.where(alike & enough, np.nan, c), usable & ~alike)
    most = np.minimum(np.outer(r, r) + ERRORS * np.hypot(np.outer(r, error), np.outer(error, r)), 0.999)
    return _beyond(A, chance + (1 - chance) * np.maximum(most, 0.0), shared, usable)


def _above_chance(c: FloatArray, usable: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """r (m,) with ``c_ab = r_a r_b`` for most pairs, medians over the others by turns; and their standard errors."""
    m = len(c)
    if not (usable & ~np.isnan(c)).any():
        return np.ones(m), np.zeros(m)
    r = np.full(m, np.sqrt(max(float(np.nanmedian(np.where(usable, c, np.nan))), 0.01)))
    spread = np.ones(m)
    for _ in range(ROUNDS):
        ratio = np.where(~np.isnan(c) & (r > 0.05), c / np.maximum(r, 0.05), np.nan)
        some = (~np.isnan(ratio)).sum(axis=1) >= 2
        new = r.copy()
        centre = np.nanmedian(ratio[some], axis=1)
        new[some] = np.clip(centre, 0.0, 1.0)
        deviation = 1.4826 * np.nanmedian(np.abs(ratio[some] - centre[:, None]), axis=1)
        spread[some] = 1.25 * deviation / np.sqrt((~np.isnan(ratio[some])).sum(axis=1))
        done = float(np.abs(new - r).max()) < 1e-4
        r = new if done else (r + new) / 2
        if done:
            break
    return r, spread


def _beyond(A: FloatArray, expected: FloatArray, shared: FloatArray, usable: NDArray[np.bool_]) -> list[Copies]:
    pairs = np.argwhere(np.triu(usable, 1))
    level, out = LEVEL / max(len(pairs), 1), []
    for a, b in pairs:
        e, k = float(expected[a, b]), float(shared[a, b])
        z = (A[a, b] - e - 0.5 / k) / np.sqrt(max(e * (1 - e), 1e-4) / k)
        if (A[a, b] - e) >= HALF * (1 - e) and z > ndtri(1 - level):
            p = float(min((1 - ndtr(z)) * len(pairs), 1.0))
            out.append(Copies(int(a), int(b), int(k), float(A[a, b]), e, p))
    return out


def confirmed(pair: Copies, answers: Answers, P: FloatArray, M: int) -> Copies | None:
    """The pair, if it agrees too often given the classes (n, K) as sources outside of its group see them.

    T of each of the two is the likeliest beside what those see: counts by their posteriors alone would make two that
    are better than all others look as doubtful as these are.
    """
    n = len(answers.items)
    said = np.full((n, 2), -1)
    for column, a in enumerate((pair.first, pair.second)):
        mine = answers.annotator == a
        said[answers.item[mine], column] = answers.answer[mine]
    rows = np.flatnonzero((said >= 0).all(axis=1))
    P, said = P[rows], said[rows]
    expected = np.ones(len(rows))
    parts = []
    for column in range(2):
        parts.append(_likeliest(said[:, column], P, M))
    expected = P @ (parts[0] * parts[1]).sum(axis=0)
    agreed, e = float((said[:, 0] == said[:, 1]).mean()), float(expected.mean())
    z = (agreed - e - 0.5 / len(rows)) / np.sqrt(max(float((expected * (1 - expected)).mean()), 1e-4) / len(rows))
    if agreed - e < HALF * (1 - e) or z < ndtri(1 - LEVEL):
        return None
    return Copies(pair.first, pair.second, len(rows), agreed, e, max(pair.p_value, float(1 - ndtr(z))))


def _likeliest(said: NDArray[np.int64], P: FloatArray, M: int) -> FloatArray:
    """T (M, K) of a source beside prior probabilities (n, K) of the classes, by EM."""
    one, Q = np.eye(M)[said], P
    for _ in range(EM_ROUNDS):
        T = one.T @ Q + 0.5 / M
        T /= T.sum(axis=0)
        Q = P * T[said]
        Q /= Q.sum(axis=1, keepdims=True)
    return T


def groups_of(pairs: list[Copies], m: int) -> NDArray[np.int64]:
    """For each source the first of its group (m,); itself where it has no copy."""
    head = np.arange(m)
    for _ in range(m):
        before = head.copy()
        for p in pairs:
            head[p.first] = head[p.second] = min(head[p.first], head[p.second])
        if (head == before).all():
            break
    return head


def merged(answers: Answers, head: NDArray[np.int64]) -> Answers:
    """Answers of a group as those of its first source: the first one's own, else another's to an item."""
    who = head[answers.annotator]
    order = np.lexsort((answers.annotator != who, who, answers.item))
    item, to = answers.item[order], who[order]
    copy = answers.annotator[order] != to
    again = np.zeros(len(order), dtype=bool)
    again[1:] = (item[1:] == item[:-1]) & (to[1:] == to[:-1]) & copy[1:]
    keep = np.sort(order[~again])
    out = answers.replaced(answers.answer[keep])
    out.item, out.annotator = answers.item[keep], who[keep]
    return out


def same_rows(
    answers: Answers, silent: NDArray[np.int64], m: int, M: int, T: FloatArray, p: FloatArray
) -> list[Copies]:
    """Pairs of sources that abstain and say the same on the same items, beyond what T and the shares p explain."""
    if m > MOST:
        return []
    _, agree, times = tables(answers, m, M)
    n = len(answers.items)
    T = T[:, : T.shape[1] - 1]
    expected = n * np.einsum("ayz,byz,z->ab", T, T, p, optimize=True)
    spoken, out = times.sum(axis=1), []
    level = LEVEL / max(len(silent) * (len(silent) - 1) / 2, 1)
    for i, a in enumerate(silent):
        for b in silent[i + 1 :]:
            most, e = float(min(spoken[a], spoken[b])), float(expected[a, b])
            least = float(max(spoken[a], spoken[b]))
            if most < FEWEST or most < SAME * least or e >= most:
                continue
            z = (agree[a, b] - e) / np.sqrt(max(e, 1.0))
            if agree[a, b] - e >= SAME * (most - e) and z > ndtri(1 - level):
                agreed = float(agree[a, b] / most)
                out.append(Copies(int(a), int(b), int(most), agreed, e / most, float(1 - ndtr(z))))
    return out
