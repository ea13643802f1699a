"""What labels cannot say about T: classes that T confuses, and columns that no labels confirm."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr

from .._core import FloatArray
from .groups import surest
from .hull import Block, fit_hull
from .views import OneLabel, SetLabel, SeveralAnswers, View

SUREST = (0.05, 0.1, 0.25, 0.5)  # shares of the examples, the surest first, whose labels may be too pure for T
FEWEST_SURE = 50  # examples
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


def purity(view: OneLabel, p: FloatArray) -> tuple[float, float, int]:
    """Are the labels of the surest examples purer than T allows? Statistic, p-value, and how many examples.

    Noise that differs within a class, as people's on easy and hard images, is least where a model is surest. With
    ``h_z(y) = T[y, z] / sum_z' T[y, z']``, how much label y speaks for class z, and whatever the classes of examples
    predicted as z are, the mean of h_z over their labels is at most ``b_z = max_z' sum_y h_z(y) T[y, z']``, reached
    where all are of the class that the maximum is at. So the sum of ``h_z(y) - b_z`` over examples that p alone has
    chosen has a mean of at most 0, whatever the model's calibration is; all classes count together, with one degree of
    freedom where the test by groups has many. The least p-value over the `SUREST` shares, times their number.
    """
    T = view.T
    h = (T / np.maximum(T.sum(axis=1, keepdims=True), 1e-300)).T  # (K, M)
    means, squares = h @ T, h**2 @ T
    at = means.argmax(axis=1)
    every = np.arange(len(h))
    bound, variance = means[every, at], np.maximum(squares[every, at] - means[every, at] ** 2, 0.0)
    moved = None if view.draws is None else np.einsum("zm,smz->sz", h, view.draws[:, :, at]) - bound
    top, order = p.argmax(axis=1), np.argsort(-p.max(axis=1), kind="stable")
    found = (0.0, 1.0, 0)
    for share in SUREST if view.n >= FEWEST_SURE else ():
        rows = order[: max(FEWEST_SURE, round(share * view.n))]
        number = np.bincount(top[rows], minlength=len(h))
        spread = float(number @ variance) + (0.0 if moved is None else float(np.mean((moved @ number) ** 2)))
        if spread > 1e-12:
            z = float((h[top[rows], view.index[rows]] - bound[top[rows]]).sum()) / np.sqrt(spread)
            found = min(found, (z, float(ndtr(-z)), len(rows)), key=lambda f: f[1])
    return found[0], min(1.0, len(SUREST) * found[1]), found[2]


def _at_corner(block: Block, z: int) -> Callable[[FloatArray], FloatArray]:
    """E[phi phi^T] where `near` mixes class z into every class: pi of the mixture, then as before."""

    def second(pi: FloatArray) -> FloatArray:
        mixed = 0.05 * pi
        mixed[z] += 0.95 * pi.sum()
        return block.second(mixed)

    return second
