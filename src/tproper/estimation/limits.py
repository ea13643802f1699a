"""What labels cannot say about T: classes that T confuses, and columns that no labels confirm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from .._core import FloatArray
from .groups import surest
from .hull import Block, fit_hull
from .views import OneLabel, SetLabel, SeveralAnswers, View

SUREST = (0.05, 0.1, 0.25, 0.5)  # shares of the examples, the surest first, whose labels may be too pure for T
HALVES = (0.25, 0.5, 1.0)  # the same on one side of a feature
FEWEST_SURE = 50  # examples
SIMULATED, NEARLY = 4000, 0.02  # sums drawn from T, where the normal tail is below this ...
LARGEST = 1 << 13  # ... and h has at most so many entries
HARDLY = 0.2  # columns of T whose L1 distance (at most 2) is below this are hardly told apart


def confusions(view: View) -> list[str]:
    """Classes whose columns of T are equal, or nearly."""
    from scipy.spatial.distance import pdist

    every = ""
    if isinstance(view, SetLabel):
        apart = np.array([2 * abs(view.T[0, 0] - view.T[0, 1])])
        every = f"any two of the {view.num_classes} classes"
    else:
        tables = [view.T] if isinstance(view, OneLabel) else view.tables
        apart = np.max([pdist(T.T, "cityblock") for T in tables], axis=0)  # in the order of `triu_indices`
    close = np.flatnonzero(apart < HARDLY)
    if not len(close):
        return []
    close = close[np.argsort(apart[close], kind="stable")]
    first, second = np.triu_indices(view.num_classes, 1)
    shown = [
        f"{every or f'classes {first[i]} and {second[i]}'} (columns of T differ by {apart[i]:.2g} of at most 2)"
        for i in close[:5]
    ]
    more = f" and {len(close) - 5} more pairs" if len(close) > 5 else ""
    verb = "cannot tell apart" if apart[close[0]] < 1e-12 else "hardly tells apart"
    return [f"T {verb} " + ", ".join(shown) + more]


def testable(view: View) -> tuple[bool, list[str]]:
    """Whether labels alone could confirm T: only where label shares have more dimensions than class shares."""
    if isinstance(view, SeveralAnswers):
        if (view.has.sum(axis=1) >= 2).any():
            return True, []
        return False, ["No item has two answers: nothing in these labels can confirm T"]
    if isinstance(view, SetLabel):
        return False, [
            "The sizes of the sets speak for T or against it; which classes join a set is tested by its shares alone"
        ]
    rank = int(np.linalg.matrix_rank(view.T))
    if rank < len(view.T):
        return True, []
    y = int(np.argmax(np.ptp(view.T, axis=1)))
    low, high = view.T[y].min(), view.T[y].max()
    return False, [
        f"Nothing in these labels alone can confirm T: with suitable class shares it allows any share of "
        f"{view.names[y]} from {low:.3g} to {high:.3g}; pass a model's probabilities to test more, and look at the "
        "sensitivity"
    ]


def anchors(view: View, p: FloatArray) -> tuple[bool, list[str]]:
    """For each class: do the labels of its surest examples look like its column of T?

    They do where mixing up to 5% of other classes into the column explains them (likelihood ratio below 6.6, p = .01).
    """
    if isinstance(view, SeveralAnswers):
        return testable(view)
    reached, lacking = set(), []
    for g in surest(p):
        block, z = view.block(g.rows, g.mean), g.predicted
        if block is None:  # so pure that no second label is common enough for a test
            reached.add(z)
            continue
        free = fit_hull([block], view.shifts([block]))
        share = float(free.priors[0][z] / free.priors[0].sum())
        near = 0.95 * block.A[:, [z]] + 0.05 * block.A
        close = fit_hull([Block(block.f, near, block.n, _at_corner(block, z))])
        if close.statistic - free.statistic < 6.6 or share >= 0.95:
            reached.add(z)
        else:
            lacking.append((z, share, g))
    missing = sorted(set(range(view.num_classes)) - reached)
    if not missing:
        return True, []
    notes = [
        f"The surest examples of class {z} do not have the labels of class {z}: as far as T goes, only {share:.0%} of "
        f"{g} are of that class. Either they are not, or column {z} of T is wrong: nothing in these labels can tell, "
        "so nothing confirms T; look at the sensitivity"
        for z, share, g in lacking
    ]
    silent = [z for z in missing if z not in {z for z, _, _ in lacking}]
    if silent:
        listed = ", ".join(map(str, silent[:12]))
        notes.append(
            f"Nothing in these labels can confirm T's column of class {listed}: too few examples are predicted as such"
        )
    return False, notes


class Purity:
    """Are labels purer than T allows, whatever the classes are?

    Noise that differs within a class, as people's on easy and hard images, is least where a model is surest. With
    ``h_z(y) = T[y, z] / sum_z' T[y, z']``, how much label y speaks for class z, and whatever the classes of examples
    predicted as z are, the mean of h_z over their labels is at most ``b_z = max_z' sum_y h_z(y) T[y, z']``, reached
    where all are of the class that the maximum is at. So the sum of ``h_z(y) - b_z`` over examples that p or features
    alone have chosen has a mean of at most 0, whatever the model's calibration is; all classes count together, with one
    degree of freedom where the test by groups has many. With `likeliest` = 2 the same holds of the two likeliest
    classes together, ``h_a + h_b``: errors that go to the runner-up leave the other labels out.

    Where few labels decide the sum is not normal: its tail is then counted among sums drawn from T.
    """

    def __init__(self, view: OneLabel, p: FloatArray, likeliest: int = 1) -> None:
        T, K = view.T, view.num_classes
        own = (T / np.maximum(T.sum(axis=1, keepdims=True), 1e-300)).T  # (K, M)
        top = np.argsort(-p, axis=1, kind="stable")[:, :likeliest]
        chosen, self.code = np.unique(np.sort(top, axis=1) @ K ** np.arange(likeliest), return_inverse=True)
        h = sum(own[chosen // K**i % K] for i in range(likeliest))  # (C, M)
        means, squares = h @ T, h**2 @ T
        at, every = means.argmax(axis=1), np.arange(len(h))
        self.bound = means[every, at]
        self.variance = np.maximum(squares[every, at] - self.bound**2, 0.0)
        self.h, self.columns = h, T[:, at].T  # (C, M)
        self.drawn = None if view.draws is None else view.draws[:, :, at].transpose(0, 2, 1)  # (S, C, M)
        self.moved = None if self.drawn is None else np.einsum("cm,scm->sc", h, self.drawn) - self.bound
        self.excess = h[self.code, view.index] - self.bound[self.code]
        self.order = np.argsort(-p.max(axis=1), kind="stable")

    def test(self, rows: NDArray[np.int64], shares: Sequence[float]) -> tuple[float, float, int]:
        """Statistic, p-value and number of examples of the surest share of rows that says most; p times their number.

        `rows` stand in the order of `self.order`.
        """
        found = (0.0, 1.0, 0)
        for share in shares if len(rows) >= FEWEST_SURE else ():
            some = rows[: max(FEWEST_SURE, round(share * len(rows)))]
            number = np.bincount(self.code[some], minlength=len(self.h))
            moved = 0.0 if self.moved is None else self.moved @ number
            spread = float(number @ self.variance) + float(np.mean(np.square(moved)))
            if spread > 1e-12:
                total = float(self.excess[some].sum())
                z = total / np.sqrt(spread)
                found = min(found, (z, self._tail(total, z, number), len(some)), key=lambda f: f[1])
        return found[0], min(1.0, len(shares) * found[1]), found[2]

    def _tail(self, total: float, z: float, number: NDArray[np.int64]) -> float:
        """P(sum >= total): the normal tail, or, where that is small and few labels decide, a larger one.

        That is the share of sums drawn from T that are as large, or Chernoff's bound for those that no draw reaches.
        """
        normal = float(ndtr(-z))
        if normal > NEARLY or self.h.size > LARGEST:
            return normal
        rng, sums = np.random.default_rng(0), np.zeros(SIMULATED)
        for c in np.flatnonzero(number):
            columns = self.columns[c] if self.drawn is None else self.drawn[np.arange(SIMULATED) % len(self.drawn), c]
            columns = columns / columns.sum(axis=-1, keepdims=True)
            sums += rng.multinomial(number[c], columns, SIMULATED) @ self.h[c] - number[c] * self.bound[c]
        as_large = (1 + int((sums >= total - 1e-9).sum())) / (1 + SIMULATED)
        return max(normal, min(as_large, self._chernoff(total, number)))

    def _chernoff(self, total: float, number: NDArray[np.int64]) -> float:
        """``min_t exp(K(t) - t total)`` with K the cumulants of the sum; an estimated T's error adds a normal's."""
        from scipy.optimize import minimize_scalar

        more = 0.0 if self.moved is None else float(np.mean(np.square(self.moved @ number)))

        def exponent(log_t: float) -> float:
            t = np.exp(log_t)
            with np.errstate(divide="ignore"):
                each = np.log((self.columns * np.exp(t * self.h)).sum(axis=1)) - t * self.bound
            return float(number @ each) + 0.5 * t**2 * more - t * total

        best = minimize_scalar(exponent, bounds=(-12.0, 6.0), method="bounded").fun
        return float(np.exp(min(best, 0.0)))


def purity(view: OneLabel, p: FloatArray, likeliest: int = 1) -> tuple[float, float, int]:
    """`Purity` of the surest examples: statistic, p-value, and how many they are."""
    test = Purity(view, p, likeliest)
    return test.test(test.order, SUREST)


def purity_by_feature(view: OneLabel, p: FloatArray, X: FloatArray) -> tuple[float, float, int, int, bool]:
    """`Purity` above and below the middle of each feature: statistic, p-value, examples, which feature, and above.

    Noise that a feature decides, within predicted classes, is purer on one side than T, an average, allows.
    """
    test = Purity(view, p)
    found, tried = (0.0, 1.0, 0, -1, False), 0
    for j in range(X.shape[1]):
        middle = np.median(X[:, j])
        above = X[:, j] > middle
        for side in (above, ~above) if middle < X[:, j].max() else (X[:, j] >= middle, X[:, j] < middle):
            rows = test.order[side[test.order]]
            z, p_value, n = test.test(rows, HALVES)
            if n:
                tried += 1
                found = min(found, (z, p_value, n, j, bool(side is above)), key=lambda f: f[1])
    return found[0], min(1.0, max(tried, 1) * found[1]), found[2], found[3], found[4]


def _at_corner(block: Block, z: int) -> Callable[[FloatArray], FloatArray]:
    """E[phi phi^T] where `near` mixes class z into every class: pi of the mixture, then as before."""

    def second(pi: FloatArray) -> FloatArray:
        mixed = 0.05 * pi
        mixed[z] += 0.95 * pi.sum()
        return block.second(mixed)

    return second
