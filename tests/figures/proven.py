"""Certificates of losses of every kind, potentials of one's own and at the edge of what floats hold."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.figures.keeping import Word
from torch import Tensor

import tproper as tp

Cases = dict[str, Callable[[], Any]]


def told(found: tp.Certificate) -> list[Any]:
    """Everything that a certificate holds, its notes by their number."""
    flags = [found.reconstructible, found.proper, found.strictly_proper, found.lower_bounded, found.searched]
    more = [list((found.counterexample or {}).values()), len(found.notes), *found.notes]
    witness = None if found.witness is None else [found.witness.direction, found.witness.slope, str(found.witness)]
    return [*flags, Word(found.evidence), found.bounds, [b for _, b in found.groups], witness, *more, str(found)]


def tables() -> dict[str, tuple[Callable[[Tensor], Tensor], str]]:
    """Losses (n, M) of probabilities that are written by hand."""

    def log(q: Tensor) -> Tensor:
        return -q.log()

    def brier(q: Tensor) -> Tensor:
        return q.square().sum(-1, keepdim=True) - 2 * q

    def shifted(q: Tensor) -> Tensor:
        return -(q + 0.1).log()

    def turned(q: Tensor) -> Tensor:
        return -(1 - q).log().roll(1, -1)

    def falls(q: Tensor) -> Tensor:
        return -q.log() + 3 * (1 - q).log()

    def deep(q: Tensor) -> Tensor:  # a pole inside the simplex
        return -q.log() + 0.2 * (q[..., :1] - 0.3).abs().log()

    def root(q: Tensor) -> Tensor:  # falls like a root of the score: ever more slowly, but without end
        return -q.log() - 4 * (-q.amin(-1, keepdim=True).log()).sqrt()

    def levels_off(q: Tensor) -> Tensor:
        return -torch.tanh(-q.amin(-1, keepdim=True).log() / 40) * q

    def constant(q: Tensor) -> Tensor:
        return 0 * q + 1.5

    def steps(q: Tensor) -> Tensor:  # a zero-one loss: many guesses are as good
        return 1.0 - torch.nn.functional.one_hot(q.argmax(-1), q.shape[-1]).double()

    def half(q: Tensor) -> Tensor:
        return -2 * q.sqrt() + q.sqrt().sum(-1, keepdim=True)

    plain = {f.__name__: (f, "identity:3") for f in (log, brier, shifted, turned, falls, deep, root, levels_off)}
    plain |= {f.__name__: (f, "identity:3") for f in (constant, steps, half)}
    pair = torch.as_tensor(tp.pair_noise(3, 0.3).matrix())
    plain["forward by hand"] = (lambda q: -(q @ pair.T).log(), "pair:3,0.3")
    return plain


def losses() -> dict[str, Callable[[], Any]]:
    """Losses of the library of which a certificate speaks."""
    comp, noisy, pair = tp.complementary(4), tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.3)
    flat = tp.Transition([[0.5, 0.5, 0.2], [0.5, 0.5, 0.8]])
    lse = tp.LogSumExp()

    class Scaled(tp.BackwardLoss):
        """A loss that computes something else than its base."""

        def pointwise(self, *given: Any, **more: Any) -> Tensor:
            return 2 * super().pointwise(*given, **more)

    potentials: dict[str, Callable[[], tp.Potential]] = {
        "alpha .8": lambda: tp.Squeezed(lse, 1.0, 0.8, allow_improper=True),
        "alpha 1, k .3": lambda: tp.Squeezed(lse, 0.3, 1.0),
        "alpha 1, k .6": lambda: tp.Squeezed(lse, 0.6, 1.0),
        "alpha 1, k 1": lambda: tp.Squeezed(lse, 1.0, 1.0),
        "alpha 1, k 3": lambda: tp.Squeezed(lse, 3.0, 1.0),
        "max": tp.Max,
        "max, squeezed": lambda: tp.Squeezed(tp.Max(), 1.0, 2.0),
        "radius": lambda: tp.Spherical(domain="simplex"),
        "affine": tp.Brier,
    }
    out: dict[str, Callable[[], Any]] = {}
    for name, F in potentials.items():
        for kind, T in {"complementary": comp, "symmetric": noisy}.items():
            out[f"{name}, {kind}"] = lambda F=F, T=T: tp.BackwardLoss(T, F())
    out |= {
        "weights of classes": lambda: tp.BackwardLoss(noisy, class_weights=[1.0, 3.0, 0.5]),
        "weights, squeezed": lambda: tp.BackwardLoss(noisy, squeeze=(0.4, 1.0), class_weights=[0.2, 3.0, 0.5]),
        "affine, weights": lambda: tp.BackwardLoss(noisy, tp.Brier(), class_weights=[1.0, 3.0, 0.5]),
        "forward, flat T": lambda: tp.ForwardLoss(flat),
        "forward, Brier": lambda: tp.ForwardLoss(pair, score="brier"),
        "forward, spherical": lambda: tp.ForwardLoss(pair, score="spherical"),
        "forward, gaps": lambda: tp.ForwardLoss(tp.annotators([noisy, pair])),
        "forward-backward": lambda: tp.ForwardBackwardLoss(pair),
        "forward-backward, complementary": lambda: tp.ForwardBackwardLoss(comp),
        "gradient ascent": lambda: tp.GradientAscentLoss(comp),
        "nonnegative": lambda: tp.NonNegativeLoss(comp),
        "gradient ascent, clean": lambda: tp.GradientAscentLoss(tp.identity(3)),
        "pairs": lambda: tp.PairLoss(tp.pairs("similarity", K=3)),
        "pairs, uneven": lambda: tp.PairLoss(tp.pairs("comparison", K=3, prior=[0.5, 0.3, 0.2])),
        "pairs of samples": lambda: tp.PairLoss(tp.pairs("sdu", prior=[0.5, 0.3, 0.2], sizes=[40, 60, 100])),
        "counts": lambda: tp.BagCountLoss(3),
        "at least one": lambda: tp.AtLeastOneLoss(),
        "many labels": lambda: tp.BackwardLoss(tp.partial_labels(6, 0.3)),
        "very many labels": lambda: tp.BackwardLoss(tp.partial_labels(14, 0.3), squeeze=(0.2, 1.0)),
        "scaled": lambda: Scaled(noisy),
    }
    return out


def own() -> dict[str, Callable[[], tp.Potential]]:
    """Potentials of one's own, some of which are not what they say."""
    convex, risk = tp.ConvexPotential, tp.BayesRisk

    def lse(v: Tensor) -> Tensor:
        return v.logsumexp(-1)

    return {
        "quartic": lambda: convex(lambda v: v.pow(4).sum(-1) / 4, "affine"),
        "log-sum-exp": lambda: convex(lse, "simplex"),
        "half of it": lambda: convex(lambda v: lse(2 * v) / 2, "simplex"),
        "too flat": lambda: convex(lambda v: lse(v) / 2, "simplex"),
        "called affine": lambda: convex(lse, "affine"),
        "called simplex": lambda: convex(lambda v: v.square().sum(-1), "simplex"),
        "grows unevenly": lambda: convex(lambda v: lse(v) + torch.relu(v[..., 0]).square(), "simplex"),
        "kinks": lambda: convex(lambda v: v.amax(-1) + v.abs().sum(-1), "affine"),
        "kinks on a parabola": lambda: convex(lambda v: v.square().sum(-1) / 2 + v.abs().sum(-1) / 5, "affine"),
        "not convex": lambda: convex(lambda v: lse(v) + torch.sin(3 * v).sum(-1) / 5, "simplex"),
        "flat of two": lambda: convex(lambda v: lse(torch.cat([v, v[..., :1]], -1)), "simplex"),
        "Gini": lambda: risk(lambda p: p.square().sum(-1)),
        "Shannon": lambda: risk(lambda p: (p * p.log()).sum(-1)),
        "uneven": lambda: risk(lambda p: (p.square() * p.new_tensor(range(1, p.shape[-1] + 1))).sum(-1)),
        "risk that is not convex": lambda: risk(lambda p: p.square().sum(-1) - 3 * p[..., 0].square()),
    }


def outcome(call: Callable[[], Any]) -> Any:
    """What a call returns, or the kind of its refusal."""
    try:
        return call()
    except tp.InputError as error:
        return Word(f"refused: {error.argument}")
    except (ValueError, RuntimeError) as error:
        return Word(type(error).__name__)


def of_own(make: Callable[[], tp.Potential]) -> list[Any]:
    """A potential's functions, their derivatives, and what is certified of it."""
    v = torch.as_tensor(np.random.default_rng(3).normal(size=(5, 3)) * [[0.1], [1], [3], [10], [1e3]])
    p = torch.softmax(v / v.abs().amax(), -1)
    F = make()

    def differentiated(function: Callable[[Tensor], Tensor], at: Tensor) -> list[Tensor]:
        x = at.clone().requires_grad_()
        first = torch.autograd.grad((function(x) * torch.arange(1.0, 4.0)[: 3 if x.ndim else 1]).sum(), x)[0]
        return [first]

    calls: list[Callable[[], Any]] = [
        lambda: F.value(v),
        lambda: F.link(v),
        lambda: F.conjugate(p),
        lambda: F.inverse_link(p),
        lambda: differentiated(F.link, v[:3]),
        lambda: differentiated(F.inverse_link, p[:3]),
        lambda: differentiated(lambda x: F.conjugate(x)[:, None], p[:3]),
        lambda: F.conjugate(torch.tensor([[1.2, -0.1, -0.1], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]], dtype=torch.float64)),
        lambda: told(tp.certify(tp.BackwardLoss(tp.symmetric_noise(2, 0.2), F))),
    ]
    if isinstance(F, tp.BayesRisk):
        calls.append(lambda: F.savage_losses(p))
    return [outcome(call) for call in calls]


def edges() -> Cases:
    """Squeezed potentials where scores and conjugates leave what floats hold, and rows of one batch differ."""
    lse, two = tp.LogSumExp(), tp.Tsallis(2.0)
    rows = torch.tensor(
        [
            [0.2, 0.3, 0.5],
            [1.7, -0.4, -0.3],
            [30.0, -14.0, -15.0],
            [1.0, 0.0, 0.0],
            [0.4, 0.4, 0.2],
            [2e4, -1e4, 1 - 1e4],
        ],
        dtype=torch.float64,
    )
    inside = rows[[0, 3, 4]]
    out: Cases = {}
    for base_name, base in {"log-sum-exp": lse, "Tsallis 2": two, "Brier": tp.Brier(), "max": tp.Max()}.items():
        for k, alpha in ((1.0, 1.01), (0.2, 1.04), (3.0, 1.3), (0.5, 1.0), (2.0, 2.0), (0.7, 3.5)):

            def call(base: tp.Potential = base, k: float = k, alpha: float = alpha) -> list[Any]:
                F = tp.Squeezed(base, k, alpha)

                def slope(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
                    x = at.clone().requires_grad_()
                    (g,) = torch.autograd.grad((function(x) * torch.tensor([1.0, 2.0, 4.0])).sum(), x)
                    return g

                calls: list[Callable[[], Any]] = [
                    lambda: F.conjugate(rows),
                    lambda: F.conjugate(rows[:1]),
                    lambda: F.inverse_link(inside),
                    lambda: slope(F.inverse_link, inside[[0, 2]]),
                    lambda: slope(lambda x: F.conjugate(x)[:, None].expand(-1, 3), rows[[0, 1, 4]]),
                    lambda: F.value(rows),
                    lambda: F.link(rows),
                    lambda: slope(F.link, rows[[0, 1, 2]]),
                    lambda: [F.recession(rows), str(F), F.radius, Word(F.domain), F.proper, F.strictly_proper],
                ]
                return [outcome(c) for c in calls]

            out[f"{base_name}, {k}, {alpha}"] = call
    return out


def parts() -> Cases:
    """Theorem 7's parts, the least k, and certificates side by side."""
    T = tp.Transition([[0.6, 0.1, 0.1], [0.2, 0.5, 0.1], [0.1, 0.2, 0.6], [0.1, 0.2, 0.2]])
    q = np.random.default_rng(5).dirichlet(np.ones(3), 7)
    forward = -np.log(q @ T.matrix().T)
    wrong = forward + np.random.default_rng(6).normal(size=forward.shape) / 10

    def split(table: Any, **more: Any) -> list[Any]:
        d = tp.decompose(table, T, **more)
        return [d.scores, d.potential, d.delta, d.residual < 1e-12, d.violation, str(d), Word(d.reconstruction.method)]

    some = ("affine, symmetric", "max, complementary", "pairs")
    return {
        "decomposed": lambda: split(forward, points=q),
        "decomposed, no points": lambda: split(forward),
        "decomposed, wrong": lambda: split(wrong, points=q, reconstruction="tightest"),
        "least k": lambda: [tp.critical_k(name) for name in ("complementary:4", "partial:5,0.3", "pair:3,0.3")],
        "side by side": lambda: tp.comparison({n: tp.certify(m()) for n, m in losses().items() if n in some}),
    }


def watched() -> Cases:
    """Monitors of losses that stay, fall and go below their bound."""

    def run(loss: Any, labels: Any, values: list[float], **settings: Any) -> list[Any]:
        monitor = tp.LossMonitor(loss, **settings)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for i, value in enumerate(values):
                given = {"labels": labels[: 5 + i % 3]} if labels is not None else {"n": 5 + i % 3}
                monitor.update(value, **given)
        told = [[type(w.message).__name__, str(w.message)] for w in caught]
        return [len(told), [Word(kind) for kind, _ in told], [text for _, text in told], str(monitor.history)]

    T, sets = tp.complementary(3), tp.partial_labels(3, 0.4)
    y, masks = (torch.as_tensor(t.sample(np.arange(9) % 3, seed=1)) for t in (T, sets))
    squeezed = functools.partial(tp.BackwardLoss, squeeze=(1.0, 2.0))
    falling = [1.0 - 0.3 * i for i in range(50)]
    level = [1.0 + 0.1 * (i % 4) for i in range(50)]
    return {
        "falling": lambda: run(tp.BackwardLoss(T), y, falling, window=20, every=3),
        "level": lambda: run(tp.BackwardLoss(T), y, level, window=20, every=3),
        "below its bound": lambda: run(squeezed(T), y, falling, window=20, every=1),
        "sets": lambda: run(squeezed(sets), masks, falling, window=20, every=4),
        "sums": lambda: run(squeezed(sets, reduction="sum"), masks, [7 * x for x in falling], window=20, every=4),
        "ignored": lambda: run(
            squeezed(T, ignore_index=-100), torch.where(torch.arange(9) % 4 == 0, -100, y), falling, window=20, every=2
        ),
        "numbers alone": lambda: run(squeezed(T), None, falling, window=20, num_examples=40, every=1),
        "nan": lambda: run(squeezed(T), y, [1.0, math.nan, 0.5, math.inf] * 6, window=20, every=1),
    }


def proven() -> Cases:
    """Every case by its name."""
    out: Cases = {}
    for name, (loss, T) in tables().items():
        for seed in (0, 3):
            told_of = lambda loss=loss, T=T, seed=seed: told(tp.certify(loss, T, seed=seed))  # noqa: E731
            out[f"by hand, {name}, {seed}"] = told_of
    out |= {f"loss, {n}": lambda m=m: told(tp.certify(m())) for n, m in losses().items()}
    out |= {f"own, {n}": lambda m=m: of_own(m) for n, m in own().items()}
    out |= {f"edge, {n}": call for n, call in edges().items()}
    out |= {f"parts, {n}": call for n, call in parts().items()}
    out |= {f"watched, {n}": call for n, call in watched().items()}
    return {f"proven: {n}": call for n, call in out.items()}
