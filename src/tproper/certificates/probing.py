"""Numerical verdicts on functions about which nothing is known but their values.

A "no" comes with a counterexample, which is proof; a "yes" means that a search found none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, centre, checks
from ..errors import InputError
from ..potentials import BayesRisk, NotComputedError, Potential
from ..transitions import Transition
from .descent import Index, nelder_mead

LossTable = Callable[[FloatArray], FloatArray]  # probabilities (n, K) -> losses of all weak labels (n, M)
GAIN_TOL = 1e-7  # a smaller advantage over the truth counts as rounding


def violates_convexity(F: Potential, K: int, seed: int) -> dict[str, Any] | None:
    """Two scores whose midpoint lies above their chord, or a ray on which F(v) - max v keeps falling; else None.

    A `BayesRisk` is judged by its S, between probabilities: F, a maximum of linear functions, is convex whatever S is,
    but the search for that maximum rests on the convexity of S.
    """
    rng = np.random.default_rng(seed)
    if isinstance(F, BayesRisk):
        p, q = (torch.as_tensor(0.999 * rng.dirichlet(np.ones(K), 1000) + 0.001 / K) for _ in range(2))
        return _above_chord(F.function, p, q, ("p", "q"))
    size = 10 ** rng.uniform(-2, 1.5, (1000, 1))
    a, b = (centre(torch.as_tensor(size * rng.standard_normal((1000, K)))) for _ in range(2))
    above = _above_chord(F._value, a, b, ("v", "w"))
    if above is not None:
        return above
    ray = a[:200] / a[:200].abs().amax(-1, keepdim=True)
    near, far = (F._value(t * ray) - t * ray.amax(-1) for t in (1e3, 1e4))
    falls = far - near < -1.0
    if bool(falls.any()):
        i = int(falls.nonzero()[0])
        return {"direction": ray[i].numpy(), "F_minus_max_falls_by": float(near[i] - far[i])}
    return None


def _above_chord(
    function: Callable[[Tensor], Tensor], a: Tensor, b: Tensor, names: tuple[str, str]
) -> dict[str, Any] | None:
    """The rows of a and b between which the function bulges most above its chord; None if it never does."""
    fa, fb, middle = function(a), function(b), function((a + b) / 2)
    gap = middle - (fa + fb) / 2
    bad = gap > 1e-8 * (1 + fa.abs() + fb.abs())
    if not bool(bad.any()):
        return None
    i = int(torch.where(bad, gap, -math.inf).argmax())
    return {names[0]: a[i].numpy(), names[1]: b[i].numpy(), "midpoint_above_chord_by": float(gap[i])}


def strictness(F: Potential, K: int, seed: int, notes: list[str]) -> tuple[bool, dict[str, Any] | None]:
    """Whether F* is strictly convex on the faces of the simplex, by a search, and where it is not."""
    try:
        kink = None if isinstance(F, BayesRisk) else shared_minimiser(F, K, seed)
        if kink is not None:
            notes.append(
                "F is not differentiable: proper, but probabilities share a minimiser at its kinks (those of the "
                "counterexample share v), where the link is one fixed subgradient"
            )
            return False, kink
        flat = not_strictly_convex_on_faces(F, K, seed)
        return flat is None, flat
    except NotComputedError as failure:
        notes.append(f"strictness was not decided: {failure}")
        return False, None


def not_strictly_convex_on_faces(F: Potential, K: int, seed: int) -> dict[str, Any] | None:
    """Appendix D asks that F* be strictly convex on every face: two points of a face with a straight chord, or None.

    Chords are taken between random points, and around each of them along the differences of two classes and along the
    directions in which F* curves least there: a function that is flat along one direction is not found by chance.
    """
    rng = np.random.default_rng(seed)
    faces = (
        [f for m in range(2, K + 1) for f in combinations(range(K), m)]
        if K <= 6
        else [tuple(range(K)), (0, 1), (K - 2, K - 1)]
    )
    for face in faces:
        starts = rng.dirichlet(np.ones(len(face)), 6)
        p, q = (np.array(ends) for ends in zip(*_chords(F, starts, list(face), K, rng), strict=True))
        inside = [torch.as_tensor((1 - 1e-9) * x + 1e-9 / K) for x in (p, q)]
        chord = (F.conjugate(inside[0]) + F.conjugate(inside[1])) / 2
        slack = chord - F.conjugate((inside[0] + inside[1]) / 2)
        flat = slack < 1e-9 * (inside[0] - inside[1]).square().sum(-1)
        if bool(flat.any()):
            i = int(flat.nonzero()[0])
            return {"p": p[i], "q": q[i], "face": list(face), "chord_minus_middle": float(slack[i])}
    return None


def shared_minimiser(F: Potential, K: int, seed: int) -> dict[str, Any] | None:
    """Two probabilities p, q with one minimiser v, at which F has a kink; None if none was met.

    Minimisers are looked up for random p. Where F's gradients on two sides of v differ however near they are taken, p
    may be moved towards one of them, and v stays the best score for it: every point of a subdifferential shares v.
    """
    rng = np.random.default_rng(seed)
    p = torch.as_tensor(0.99 * rng.dirichlet(np.ones(K), 24) + 0.01 / K)
    v = F.inverse_link(p)
    directions = centre(torch.as_tensor(rng.standard_normal((24, 1, K))))
    near = 1e-6 * (1 + v.abs().amax(-1))[:, None, None] * directions / directions.norm(dim=-1, keepdim=True)
    sides = [F.link(v[:, None] + s * near) for s in (1.0, -1.0, 0.01, -0.01)]  # (24, 1, K) each
    jump, closer = ((sides[i] - sides[i + 1]).abs().amax((-2, -1)) for i in (0, 2))
    for i in ((closer > 1e-3) & (closer > 0.5 * jump)).nonzero()[:, 0].tolist():
        move = sides[2][i, 0] - p[i]
        room = torch.where(move < 0, -p[i] / move, math.inf).min()
        q = p[i] + 0.5 * min(1.0, float(room)) * move
        q = q / q.sum()
        if float((q - p[i]).abs().max()) > 1e-4 and float(F.value(v[i]) + F.conjugate(q) - q @ v[i]) <= 1e-6:
            return {"p": p[i].numpy(), "q": q.numpy(), "v": v[i].numpy()}
    return None


def _chords(
    F: Potential, starts: FloatArray, face: list[int], K: int, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Pairs of points (K,) on a face, between which F* might be flat."""
    n = len(face)

    def whole(x: FloatArray) -> FloatArray:
        out = np.zeros(K)
        out[face] = x
        return out

    for x, other in zip(starts, rng.dirichlet(np.ones(n), len(starts)), strict=True):
        yield whole(x), whole(other)
        directions = [np.eye(n)[i] - np.eye(n)[j] for i, j in combinations(range(min(n, 6)), 2)]
        directions += _flattest(F, x, face, K)
        for d in directions:
            room = np.where(d != 0, x / np.where(d != 0, np.abs(d), 1.0), np.inf).min()  # both ends stay on the face
            yield whole(x - 0.5 * room * d), whole(x + 0.5 * room * d)


def _flattest(F: Potential, x: FloatArray, face: list[int], K: int) -> list[FloatArray]:
    """Directions within a face in which a negative Bayes risk curves least at x, by its Hessian."""
    if not isinstance(F, BayesRisk):
        return []
    p = np.full(K, 1e-9)
    p[face] = x
    H = F.hessian(torch.as_tensor(p / p.sum())[None])[0].numpy()[np.ix_(face, face)]
    n, size = len(face), 1 + np.abs(H).max()
    centring = np.eye(n) - 1 / n
    values, vectors = np.linalg.eigh(centring @ H @ centring + size)  # + size 1 1^T: (1, ..., 1) is not among the least
    return [vectors[:, i] for i in np.flatnonzero(values < 1e-6 * size)]


@dataclass
class CallableVerdict:
    """What the search found about a loss on probabilities."""

    proper: bool
    strictly_proper: bool
    bounds: FloatArray
    counterexample: dict[str, Any] | None
    ray: tuple[FloatArray, float, int] | None  # direction of log-probabilities, slope and label of an endless fall


def _interior(x: FloatArray) -> FloatArray:
    """softmax of rows x, short of the boundary: a search that runs away must not leave the loss's domain."""
    e = np.exp(np.maximum(x - x.max(axis=-1, keepdims=True), -600.0))
    return np.asarray(e / e.sum(axis=-1, keepdims=True))


def probe_callable(loss: Callable[[Tensor], Tensor], transition: Transition, seed: int) -> CallableVerdict:
    """Search for violations of properness, strictness and boundedness of a loss table on probabilities."""
    T, K = transition.matrix(), transition.num_classes
    rng = np.random.default_rng(seed)

    def table(q: FloatArray) -> FloatArray:
        values = checks.array(loss(torch.as_tensor(q)), "loss").astype(np.float64)
        if values.shape != (len(q), len(T)):
            raise InputError(
                f"loss: expected a table of shape {(len(q), len(T))} for {len(q)} probabilities, got {values.shape}"
            )
        if np.isnan(values).any():
            raise InputError("loss: expected no NaN inside the simplex, got one")
        return values

    truths = np.concatenate([rng.dirichlet(np.full(K, a), 12) for a in (0.3, 1.0, 5.0)])
    truths = 0.999 * truths + 0.001 / K
    guesses = np.concatenate([rng.dirichlet(np.full(K, a), 500) for a in (0.3, 1.0, 3.0)])
    guesses = np.concatenate([(1 - 1e-6) * guesses + 1e-6 / K, truths])
    at_guesses = table(guesses)
    worst, tie = _against_the_truth(table, T, truths, guesses, at_guesses)
    bounds, ray = _probe_bounds(table, K, guesses, at_guesses)
    proper = worst is None
    return CallableVerdict(proper, proper and tie is None, bounds + 0.0, worst or tie, ray)  # no -0


def _against_the_truth(
    table: LossTable, T: FloatArray, truths: FloatArray, guesses: FloatArray, at_guesses: FloatArray
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """A guess q whose mean loss under a truth p is below that of p itself, and one far from p that is as good."""
    weak = truths @ T.T  # (truths, M)
    own, values = (table(truths) * weak).sum(axis=1), weak @ at_guesses.T
    start = np.log(guesses[values.argmin(axis=1)])

    def risk(x: FloatArray, which: Index) -> FloatArray:
        return np.asarray((table(_interior(x)) * weak[which]).sum(axis=1))

    first = np.repeat(start[:, None], start.shape[1] + 1, axis=1)
    first[:, 1:] += np.where(start == 0, 2.5e-4, 0.05 * start)[:, None] * np.eye(start.shape[1])
    x, least = nelder_mead(risk, first, 200 * start.shape[1], xatol=1e-9, fatol=1e-13)
    worst: dict[str, Any] | None = None
    tie: dict[str, Any] | None = None
    for i, p in enumerate(truths):
        better = least[i] < values[i].min()
        q, value = (_interior(x[i]), float(least[i])) if better else (guesses[values[i].argmin()], values[i].min())
        gain, size = float(own[i] - value), 1 + abs(own[i])
        if gain > GAIN_TOL * size and (worst is None or gain > worst["gain"]):
            worst = {"p": p, "q": q, "gain": gain}
        far = np.abs(guesses - p).sum(axis=1) > 0.05
        close = far & (values[i] <= own[i] + 1e-10 * size)
        if np.abs(q - p).sum() > 0.05 and gain >= -1e-11 * size:
            tie = {"p": p, "q": q, "gain": gain}
        elif close.any():
            tie = {"p": p, "q": guesses[close.argmax()], "gain": 0.0}
    return worst, tie


def _probe_bounds(
    table: LossTable, K: int, guesses: FloatArray, at_guesses: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, float, int] | None]:
    """The smallest value of each label's loss that a search finds, ``-inf`` where it falls without end.

    The loss is followed along straight rays of log-probabilities to the faces of the simplex, where a steady fall gives
    a witness, and down from its smallest samples, along whatever curve and to whatever pole inside the simplex it
    leads.
    """
    bounds, ray = _along_rays(table, K, at_guesses)
    labels = np.flatnonzero(bounds > -math.inf)
    if len(labels):
        bounds[labels] = np.minimum(bounds[labels], _deepest(table, guesses, at_guesses, labels))
    return bounds, ray


def _deepest(table: LossTable, guesses: FloatArray, at_guesses: FloatArray, labels: Index) -> FloatArray:
    """The least loss of each label by descent in ever wider boxes of scores and with ever finer steps.

    Where the last two widenings, or refinements, each gain as much as the one before them, nothing stops the fall.
    """
    order = at_guesses[:, labels].argsort(axis=0)
    picked = np.concatenate([order[0], order[len(order) // 100]])  # two starts per label
    wanted = np.tile(labels, 2)
    x = np.log(guesses[picked])
    x -= x.mean(axis=1, keepdims=True)
    depths = np.empty((len(x), 0))
    going = np.arange(len(x))
    endless = np.zeros(len(x), dtype=bool)
    for width, fine in ((8.0, 1e-3), (20.0, 1e-5), (50.0, 1e-7), (125.0, 1e-9), (300.0, 1e-11)):

        def boxed(x: FloatArray, width: float = width) -> FloatArray:
            return np.clip(x - x.max(axis=-1, keepdims=True), -width, 0.0)

        def value(x: FloatArray, which: Index, going: Index = going, boxed: Any = boxed) -> FloatArray:
            return table(_interior(boxed(x)))[np.arange(len(x)), wanted[going[which]]]

        at, depth = nelder_mead(value, _simplexes_around(x[going], fine, width), 80 * x.shape[1], fine, 0.0)
        x[going] = boxed(at)
        last = depths[:, -1:] if depths.shape[1] else np.full((len(x), 1), math.inf)
        depths = np.concatenate([depths, last], axis=1)
        depths[going, -1] = depth
        endless |= depths[:, -1] == -math.inf
        with np.errstate(invalid="ignore"):
            gains, scale = -np.diff(depths, axis=1), 1e-6 * (1 + np.abs(depths[:, 0]))
        done = endless if gains.shape[1] < 2 else endless | (gains[:, -1] <= scale)  # no more to gain
        going = going[~done[going]]
        if not len(going):
            break
    if len(going):  # followed to the end, and still falling
        g = gains[going]
        endless[going] = (g[:, -2:] > scale[going, None]).all(1) & (g[:, -1] > 0.7 * g[:, -2])
        endless[going] &= 0.7 * g[:, -2] > 0.49 * g[:, -3]
    least = np.where(endless, -math.inf, depths[:, -1]).reshape(2, -1).min(axis=0)
    return np.minimum(least, at_guesses[:, labels].min(axis=0))


def _simplexes_around(x: FloatArray, fine: float, width: float) -> FloatArray:
    """Nelder-Mead's first simplexes: wide in the first rounds, when the place is sought, and along the fall later."""
    step = max(min(1.0, 1e3 * fine), width / 20)
    return np.concatenate([x[:, None], x[:, None] + step * np.eye(x.shape[1])], axis=1)


def _along_rays(
    table: LossTable, K: int, at_guesses: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, float, int] | None]:
    """The smallest values on rays to the faces of the simplex; a steady fall at their ends means no bound."""
    exponents = np.array([0, 1, 2, 4, 8, 16, 32, 64, 128, 250]) * math.log(10)
    faces = (
        [f for m in range(1, K) for f in combinations(range(K), m)]
        if K <= 6
        else [(z,) for z in range(K)] + [tuple(i for i in range(K) if i != z) for z in range(K)]
    )
    bounds = at_guesses.min(axis=0)
    ray = None
    steepest = 0.0
    for face in faces:
        direction = np.full(K, -1.0)
        direction[list(face)] = 0.0  # these classes keep their probability, the others lose it
        logits = exponents[:, None] * direction
        q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        values = table(q)
        bounds = np.minimum(bounds, values.min(axis=0))
        slopes = (values[-1] - values[-3]) / (exponents[-1] - exponents[-3])
        early = (values[-3] - values[-5]) / (exponents[-3] - exponents[-5])
        # no bound: still falling at the end, and not noticeably slower than before
        falling = (slopes < -1e-6) & (slopes < 0.5 * early)
        bounds = np.where(falling, -math.inf, bounds)
        if falling.any() and slopes[falling].min() < steepest:
            steepest = float(slopes[falling].min())
            y = int(np.where(falling, slopes, 0.0).argmin())
            ray = (direction - direction.mean(), steepest, y)
    return bounds, ray
