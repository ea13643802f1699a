"""T for groups of rows, from several answers a row: noise that depends on x, where the answers show it.

One T for all rows is an average. Where noise goes with a feature, or with how hard a row is, three answers a row tell T
in each group: given the class, the answers of a row are independent, and their agreement says how often they err
(Dawid and Skene, 1979). Which rows belong together has to be known from something else than their answers.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from .._core import FloatArray, checks, group_codes
from ..errors import InputError
from ..transitions import EstimatedTransition
from .answers import Answers, as_answers, check_order
from .warnings import IdentifiabilityWarning

FEWEST_ITEMS = 60  # of a group, with three answers or more
DRAWS, FEWEST_DRAWS, MOST_CELLS = 400, 50, 1 << 23  # of T; fewer where items are of many kinds
START, ROUNDS, SETTLED = 0.7, 500, 1e-4


@dataclass(frozen=True)
class GroupTransitions:
    """T in each group of items, from `transitions_by_group`. Prints as a table.

    Attributes
    ----------
    groups : dict
        An `EstimatedTransition` for each group, by name.
    transitions : (n, M, K) array
        The T of each item's group: ``loss(scores, labels, transitions=...)``.
    whole : EstimatedTransition
        T of all items together.
    p_value : float
        Of the hypothesis that all groups have the same T.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z, hard = rng.integers(2, size=600), np.arange(600) < 300
    >>> wrong = rng.random((600, 3)) < np.where(hard, 0.4, 0.1)[:, None]
    >>> found = tp.transitions_by_group(np.where(wrong, 1 - z[:, None], z[:, None]), hard)
    >>> list(found.groups), found.p_value < 0.05
    ([False, True], True)
    """

    groups: dict[Any, EstimatedTransition]  # by name, in order
    items: dict[Any, int]  # how many items each group has
    whole: EstimatedTransition  # of all items together
    p_value: float  # of the hypothesis that all groups have the same T
    notes: list[str]
    _code: NDArray[np.int64] = field(repr=False)

    @property
    def transitions(self) -> FloatArray:
        """(n, M, K), the T of each item's group: ``loss(scores, labels, transitions=...)``."""
        return np.stack([T.matrix() for T in self.groups.values()])[self._code]

    def __str__(self) -> str:
        lines = [f"{'group':<20}{'items':>8}  probability that an answer is the class (95% interval), for each class"]
        for name, T in self.groups.items():
            low, high = (side.diagonal() for side in T.interval())
            entries = zip(T.matrix().diagonal(), low, high, strict=True)
            told = ", ".join(f"{t:.2f} ({a:.2f} to {b:.2f})" for t, a, b in entries)
            lines.append(f"{str(name)[:19]:<20}{self.items[name]:>8}  {told}")
        differ = "differs between groups" if self.p_value < 0.05 else "is not shown to differ between groups"
        lines.append(f"T {differ} (p = {self.p_value:.2g})")
        return "\n".join([*lines, *(f"note  {note}" for note in self.notes)])


def transitions_by_group(
    answers: Answers | ArrayLike,
    groups: ArrayLike,
    *,
    num_classes: int | None = None,
    random_state: int = 0,
) -> GroupTransitions:
    """T for each group of items, from three answers a row or more: for noise that depends on features.

    Answers of an item are taken to be independent given its class *within its group*, and alike in quality, whoever
    gave them; each group has its own class shares and its own T.

    Parameters
    ----------
    answers : (n, m) integers, -1 = no answer, or `tp.Answers(item, annotator, answer)`
        At least three an item.
    groups : (n,) names, one for each item in the order of `answers.items`
        Made of features, or of what a model says of them (halves by its confidence: easy and hard rows). Never made of
        the answers: rows whose answers agree would then be called easy because they agree.
    num_classes : int, optional
        Default: as many as there are different answers.
    random_state : int
        Seed of the draws behind the intervals.

    Returns
    -------
    GroupTransitions
        `groups`, `transitions` (n, M, K), `p_value` that T is the same in all; prints as a table.

    Examples
    --------
    >>> import numpy as np
    >>> import tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z, hard = rng.integers(3, size=900), rng.random(900) < 0.5
    >>> wrong = rng.random((900, 3)) < np.where(hard, 0.4, 0.1)[:, None]
    >>> answers = np.where(wrong, (z[:, None] + rng.integers(1, 3, (900, 3))) % 3, z[:, None])
    >>> found = tp.transitions_by_group(answers, np.where(hard, "hard", "easy"))
    >>> found.transitions.shape, found.p_value < 0.001
    ((900, 3, 3), True)
    """
    seed = checks.integer(random_state, "random_state", 0)
    given = as_answers(answers)
    check_order(answers, groups=groups)
    n = len(given.items)
    code = group_codes(groups, n)
    assert code is not None
    names = np.unique(checks.array(groups, "groups")).tolist()
    enough = np.bincount(given.item, minlength=n) >= 3
    few = [name for g, name in enumerate(names) if (enough & (code == g)).sum() < FEWEST_ITEMS]
    if few:
        raise InputError(
            f"groups: expected at least {FEWEST_ITEMS} items with three answers in every group, got fewer in "
            f"{checks.short(few)}; join groups"
        )
    classes = num_classes if num_classes is not None else max(2, len(given.classes))
    rng = np.random.default_rng(seed)
    parts = {name: _estimate(given, np.flatnonzero(code == g), classes, rng) for g, name in enumerate(names)}
    whole = _estimate(given, np.arange(n), classes, rng)
    notes = [
        "assumes that the answers of an item are independent given its class within its group, and that groups were "
        "not made from the answers"
    ]
    for name, T in parts.items():
        told = T.diagnose().smallest_singular_value
        if told < 2 * float(np.linalg.norm(T.stderr, 2)):
            notes.append(f"group {name}: the answers hardly tell the classes apart there, so T is uncertain")
            warnings.warn(notes[-1], IdentifiabilityWarning, stacklevel=2)
    sizes = dict(zip(names, np.bincount(code).tolist(), strict=True))
    return GroupTransitions(parts, sizes, whole, _same(list(parts.values())), notes, code)


def _estimate(given: Answers, items: NDArray[np.int64], K: int, rng: np.random.Generator) -> EstimatedTransition:
    """One T for all answers to some items, whoever gave them: EM, and EM again on items drawn with random weights.

    How often each answer was given to an item is all that counts, so that items fall into a few kinds. The draws are
    those of the Bayesian bootstrap (Rubin, 1981).
    """
    M = max(len(given.classes), K)
    counts = np.zeros((len(given.items), M))
    np.add.at(counts, (given.item, given.answer), 1)
    counts = counts[items]
    kinds, kind = np.unique(counts[counts.sum(axis=1) > 0], axis=0, return_inverse=True)
    often = np.bincount(kind.ravel(), minlength=len(kinds)).astype(np.float64)
    size = int(np.clip(MOST_CELLS // (len(kinds) * K), FEWEST_DRAWS, DRAWS))
    weights = rng.standard_gamma(often, (size, len(kinds)))
    weights *= len(items) / weights.sum(axis=1, keepdims=True)
    T = _em(kinds, np.vstack([often, weights]), K)
    return EstimatedTransition(T[0], draws=T[1:])


def _em(kinds: FloatArray, weights: FloatArray, K: int) -> FloatArray:
    """T (B, M, K) of latent classes for kinds of items (U, M) that occur as often as `weights` (B, U) say.

    EM starts from answers that are mostly right, which names the classes. A column has one answer more than were
    given, spread evenly, so that no entry is 0 for want of answers.
    """
    B, M = len(weights), kinds.shape[1]
    T = np.full((B, M, K), (1 - START) / (M - 1))
    T[:, np.arange(K), np.arange(K)] = START
    share = np.full((B, K, 1), 1.0 / K)
    total = weights.sum(axis=1)[:, None, None] + 1.0
    for _ in range(ROUNDS):
        # classes stand before kinds: sums over classes then run along the kinds
        P = np.log(share) + np.log(T).swapaxes(1, 2) @ kinds.T  # (B, K, U)
        P -= P.max(axis=1, keepdims=True)
        np.exp(P, out=P)
        P *= weights[:, None] / P.sum(axis=1, keepdims=True)
        share = (P.sum(axis=2, keepdims=True) + 1.0 / K) / total
        new = (P @ kinds).swapaxes(1, 2) + 1.0 / M
        new /= new.sum(axis=1, keepdims=True)
        moved = float(np.abs(new - T).max())
        T = new
        if moved < SETTLED:
            break
    return T


def _same(parts: list[EstimatedTransition]) -> float:
    """P-value of "all have the same diagonal": each entry beside the weighted mean of the groups, Bonferroni."""
    value = np.stack([T.matrix().diagonal() for T in parts])  # (G, K)
    error = np.maximum(np.stack([T.stderr.diagonal() for T in parts]), 1e-12)
    weight = error**-2 / (error**-2).sum(axis=0)
    off = value - (weight * value).sum(axis=0)
    spread = error * np.sqrt(np.maximum(1 - weight, 1e-12))
    z = float(np.abs(off / spread).max())
    tests = value.size if len(parts) > 2 else value.shape[1]  # of two groups, both say the same
    return float(min(1.0, 2 * tests * ndtr(-z)))
