"""Losses called in every way, by their names and as plain data, wrong calls, and what monitors say of them."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.figures.said import each, said
from tests.laws.registry import LOSSES, TRANSITIONS
from torch import Tensor

import tproper as tp
from tproper import losses as rooms
from tproper.transitions import transition_to_dict

Cases = dict[str, Callable[[], Any]]
UNEVEN = [[0.7, 0.1, 0.25], [0.1, 0.6, 0.15], [0.2, 0.3, 0.6]]
SEARCHED = (
    "forward by F",
    "forward tsallis:0.5",
    "forward tsallis:3",
    "squeezed Brier",
    "gLS 0.3, 1.5",
)  # bounds take long
UNLIKE = (
    "symmetric",
    "biased complementary",
    "partial",
    "multi-complementary",
    "three annotators",
    "yes or no, with errors",
    "noisy partial",
    "two sources",
)
WEIGHTS = [0.5, 2.0, 0.0, 1.0, 3.0, 0.25, 1.5, 0.75]


def scores(n: int, K: int, seed: int = 0, size: float = 2.0) -> Tensor:
    """Irregular scores (n, K), some of them tied."""
    v = size * np.random.default_rng([seed, n, K]).normal(size=(n, K))
    v[0], v[1, 1] = v[0, 0], v[1, 0]
    return torch.as_tensor(v)


def sloped(loss: Any, v: Tensor, *arguments: Any, **settings: Any) -> list[Any]:
    """The value of a call, its gradient, and a gradient of that."""
    x = v.clone().requires_grad_()
    value = loss(x, *arguments, **settings)
    (g,) = torch.autograd.grad(value.sum(), x, create_graph=True)
    out = [value, g]
    if g.requires_grad:
        (again,) = torch.autograd.grad(g.square().sum(), x, allow_unused=True)
        out.append(again)
    return out


def makers() -> dict[str, Callable[[Any], Any]]:
    """Losses of a T by name."""
    return LOSSES | {
        "weighted": lambda T: tp.BackwardLoss(T, class_weights=np.arange(1.0, T.num_classes + 1), reduction="none"),
        "Tsallis 1.5": lambda T: tp.BackwardLoss(T, tp.Tsallis(1.5), reduction="none"),
        "squeezed Brier": lambda T: tp.BackwardLoss(T, tp.Brier(), (0.7, 1.5), reduction="none"),
        "pinv": lambda T: tp.BackwardLoss(T, reconstruction="pinv", reduction="none"),
        "tightest": lambda T: tp.BackwardLoss(T, reconstruction="tightest", reduction="none"),
        "forward brier": lambda T: tp.ForwardLoss(T, score="brier", reduction="none"),
        "forward spherical": lambda T: tp.ForwardLoss(T, score="spherical", reduction="none"),
        "forward tsallis:0.5": lambda T: tp.ForwardLoss(T, score="tsallis:0.5", reduction="none"),
        "forward tsallis:3": lambda T: tp.ForwardLoss(T, score="tsallis:3", reduction="none"),
        "forward by F": lambda T: tp.ForwardLoss(T, score=tp.LogSumExp().squeezed(0.5, 2), reduction="none"),
        "forward, link": lambda T: tp.ForwardLoss(T, link=tp.Tsallis(0.5), reduction="none"),
        "between": lambda T: tp.ForwardBackwardLoss(T, 0.3, reduction="none"),
        "between, all": lambda T: tp.ForwardBackwardLoss(T, 0, reduction="none"),
        "GA": tp.GradientAscentLoss,
        "NN": tp.NonNegativeLoss,
    }


def called() -> Cases:
    """Every loss of every kind of label: weights, other shapes and types, soft labels, solvers' way, bounds."""
    out: Cases = {}
    for name in UNLIKE:
        T = TRANSITIONS[name]()
        K = T.num_classes
        y = T.encode(T.sample(np.arange(8) % K, seed=7))
        v = scores(8, K)
        w = torch.tensor(WEIGHTS, dtype=torch.float64)
        shares = None
        if T.label_shape == () and T.num_weak_labels < 20:
            s = np.random.default_rng(1).dirichlet(np.full(T.num_weak_labels, 0.3), 8)
            shares = tp.SoftLabels(np.where(s < 0.02, 0, s) / np.where(s < 0.02, 0, s).sum(1, keepdims=True))
        for kind, make in makers().items():
            if kind in SEARCHED[:3] and name != "symmetric":
                continue

            def call(
                make: Any = make,
                T: Any = T,
                y: Any = y,
                v: Any = v,
                w: Any = w,
                shares: Any = shares,
                bounded: bool = kind not in (*SEARCHED, "between", "between, all"),
            ) -> list[Any]:
                loss = make(T)
                mean, total = (tp.fuse(loss) for _ in range(2))
                mean.reduction, total.reduction = "mean", "sum"
                wide = torch.stack([v, v.flip(0)], 1)
                labels = torch.stack([y, y.flip(0)], 1)
                out = [
                    sloped(loss, v, y),
                    sloped(mean, v, y, w),
                    sloped(total, v, y, w),
                    sloped(mean, v, y),
                    sloped_once(mean, v, y),
                    sloped_once(total, v, y, w),
                    loss(v.float(), y),
                    loss(v.half(), y),
                    loss(v.bfloat16(), y),
                    loss(wide, labels),
                    mean(wide, labels, torch.stack([w, w], 1)),
                    loss.probabilities(v),
                    loss.extra_repr(),
                    repr(loss),
                ]
                if bounded:
                    out += [loss.lower_bounds(), (b := loss.bounds()), b.of(y), b.bounded]
                if not isinstance(loss, rooms.BatchRiskLoss):
                    out += [
                        loss.bind(y)(v),
                        loss.bind(y, w, class_major=True)(v.T.contiguous().T),
                        loss.bind(y, w, torch.float32)(v.float()),
                        loss.per_example(v, y, w),
                    ]
                if shares is not None:
                    out += [said(loss, v, shares), said(mean, v, shares, w)]
                return out

            out[f"{kind} of {name}"] = call
    return each(out)


def given() -> Cases:
    """T that comes with a call, masked classes, labels left out, large batches."""
    T = tp.Transition(UNEVEN)
    v, y, w = scores(8, 3), torch.tensor([0, 1, 2, 0, 1, 2, 2, 1]), torch.tensor(WEIGHTS, dtype=torch.float64)
    own = torch.as_tensor(np.random.default_rng(3).dirichlet([4.0, 1, 1], (8, 3)).swapaxes(1, 2).copy())
    bad = own.clone()
    bad[3, 1, 2] = -0.1
    turned = own.swapaxes(1, 2)
    masks = torch.tensor([[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 0, 1]] * 2).bool()
    minus = torch.where(torch.eye(8, 3).bool(), -torch.inf, v)
    kinds: dict[str, Callable[..., Any]] = {
        "forward": tp.ForwardLoss,
        "backward": tp.BackwardLoss,
        "weighted": lambda T, **s: tp.BackwardLoss(T, class_weights=[1, 2, 3.5], **s),
        "brier": lambda T, **s: tp.ForwardLoss(T, score="brier", **s),
        "squeezed": lambda T, **s: tp.BackwardLoss(T, squeeze=(1, 1.5), **s),
        "between": lambda T, **s: tp.ForwardBackwardLoss(T, 0.4, **s),
        "Brier": lambda T, **s: tp.BackwardLoss(T, tp.Brier(), **s),
        "sparse": lambda T, **s: tp.BackwardLoss(T, tp.Sparsemax(), **s),
        "link": lambda T, **s: tp.ForwardLoss(T, link=tp.Tsallis(0.5), **s),
    }
    soft = tp.SoftLabels([[0.2, 0.3, 0.5], [1, 0, 0]] * 4)
    others: dict[str, Any] = {
        "one": own[0],
        "one of each": own,
        "one, first": own[:1],
        "float32": own.float(),
        "half": own[0].half(),
        "halves": own.bfloat16(),
        "integers": torch.eye(3, dtype=torch.int64),
        "bad": bad,
        "turned": turned,
        "list": UNEVEN,
        "text": "x",
        "complex": own[0].to(torch.complex64),
        "wrong": own[:3],
        "wide": own[:, :, :2],
        "far": own[0] * 1.01,
        "near": own[0] * 1.00005,
        "zeros": torch.eye(3, dtype=torch.float64),
    }
    out: Cases = {}
    for kind, make in kinds.items():

        def call(make: Any = make) -> list[Any]:
            loss = make(T, reduction="none")
            found = [said(sloped, loss, v, y, transitions=t) for t in others.values()]
            found += [
                said(loss, v, y, w, own),
                said(loss, v, masks, transitions=own),
                said(loss, v, masks, transitions=own[0]),
            ]
            found += [
                said(loss, v, soft, transitions=own),
                said(loss, v, soft, transitions=own[0]),
                said(make(T, validate=False), v, y, transitions=own),
            ]
            found += [
                said(loss, v[None], y[None], transitions=own[None]),
                said(loss, v, tp.SoftLabels([[0.5, 0.5]] * 8), transitions=own),
            ]
            return found

        def learned(make: Any = make) -> list[Any]:
            free = own.clone().requires_grad_()
            one = torch.eye(3, dtype=torch.float64).requires_grad_()
            found = []
            for t, labels in ((free, y), (one, y), (one, masks), (free, masks)):
                found.append(said(lambda t=t, labels=labels: torch.autograd.grad(make(T)(v, labels, transitions=t), t)))
            return found

        def masked(make: Any = make) -> list[Any]:
            loss = make(T, reduction="none")
            equal = tp.symmetric_noise(3, 0.3)
            return [
                said(sloped, loss, minus, y),
                said(sloped, make(equal, reduction="none"), minus, y),
                said(sloped, make(tp.identity(3), reduction="none"), minus, y),
                said(sloped, make(tp.complementary(3), reduction="none"), minus, y),
                loss.probabilities(minus),
                said(sloped, make(T), v * 1e4, y),
            ]

        def left_out(make: Any = make) -> list[Any]:
            some = torch.where(torch.arange(8) % 3 == 1, -100, y)
            loss = make(T, ignore_index=-100)
            none = make(T, ignore_index=-100, reduction="none")
            return [
                sloped(loss, v, some),
                sloped(loss, v, some, w),
                sloped(none, v, some),
                sloped(none, v, some, w),
                said(loss, v, torch.full((8,), -100)),
                said(loss, v, soft),
                said(make(T), v, some),
                said(loss, v[:0], some[:0]),
            ]

        out |= {
            f"{kind}, given": call,
            f"{kind}, learned": learned,
            f"{kind}, masked": masked,
            f"{kind}, left out": left_out,
        }
    for K, n in ((4, 11000), (70, 500)):
        big = scores(n, K, 5)
        names = torch.as_tensor(np.random.default_rng(6).integers(0, K, n))
        sets = tp.partial_labels(K, 0.4).sample(names.numpy(), seed=1)
        share = torch.arange(n) % 5 / 4.0
        for kind, make in {**kinds, "plain": tp.BackwardLoss}.items():
            if kind == "weighted":
                continue

            def lots(
                make: Any = make, big: Tensor = big, names: Tensor = names, sets: Any = sets, share: Tensor = share
            ) -> list[Any]:
                K = big.shape[1]
                found: list[Any] = []
                for t, lab in (
                    (tp.symmetric_noise(K, 0.3), names),
                    (tp.partial_labels(K, 0.4), torch.as_tensor(sets)),
                    (tp.identity(K), names),
                ):
                    loss = make(t)
                    x = big.clone().requires_grad_()
                    value = loss(x, lab)
                    (g,) = torch.autograd.grad(value, x)
                    x32 = big.float().requires_grad_()
                    weighted = loss(x32, lab, share)
                    (g32,) = torch.autograd.grad(3 * weighted, x32)
                    rows, slopes = loss.bind(t.encode(lab), share.double())(big)
                    found += [
                        value,
                        g[:: len(g) // 9],
                        g.abs().sum(),
                        weighted,
                        g32[:: len(g) // 9],
                        g32.abs().sum(),
                        rows[::1000],
                        rows.sum(),
                        slopes.abs().sum(),
                    ]
                return found

            out[f"{kind}, {n} x {K}"] = lots
    return each(out)


def by_name() -> Cases:
    """Losses and potentials by their names, as plain data, and what is refused."""
    T = tp.Transition(UNEVEN)
    pot = [
        "logsumexp",
        "brier",
        "brier:simplex",
        "brier:x",
        "spherical",
        "spherical:simplex",
        "sparsemax",
        "max",
        "tsallis:1.5",
        "tsallis:x",
        "tsallis",
        "tsallis:1",
        "max:2",
        "none",
        3,
    ]
    los: list[Any] = [
        "forward",
        "forward:brier",
        "forward:tsallis:1.5",
        "forward:tsallis:x",
        "forward:no",
        "backward",
        "gls",
        "ga",
        "nonnegative",
        "forward_backward",
        "forward_backward:0.25",
        "forward_backward:x",
        "forward_backward:2",
        "other",
        3,
        lambda T: tp.ForwardLoss(T),
        lambda T: 3,
        tp.ForwardLoss(T),
        tp.ForwardLoss("symmetric:3,0.1"),
        torch.nn.ReLU(),
    ]
    settings: list[dict[str, Any]] = [
        {},
        {"potential": "brier"},
        {"squeeze": (0.5, 1.5)},
        {"reconstruction": "pinv"},
        {"reconstruction": "no"},
        {"potential": "spherical"},
        {"reconstruction": np.linalg.inv(np.array(UNEVEN))},
    ]

    def made(loss: Any, some: dict[str, Any]) -> list[Any]:
        found = rooms.make_loss(loss, T, **some)
        data = said(rooms.loss_to_dict, found)
        again = rooms.loss_from_dict(rooms.loss_to_dict(found), T) if isinstance(found, rooms.WeakLabelLoss) else found
        v, y = scores(4, 3), torch.tensor([0, 1, 2, 1])
        return [type(found).__name__, repr(found), data, again(v, y) if isinstance(again, rooms.WeakLabelLoss) else 0]

    out: Cases = {
        f"loss {i}": lambda loss=loss: [said(made, loss, some) for some in settings] for i, loss in enumerate(los)
    }
    out |= {
        f"F {name}": lambda name=name: (F := rooms.make_potential(name)) and [F.name, F.domain, F.value(scores(3, 3))]
        for name in pot
    }
    kept: dict[str, Any] = {
        "weights": tp.BackwardLoss(T, tp.Tsallis(1.5).squeezed(0.3, 1.2), class_weights=[1, 2, 3], ignore_index=-1),
        "link": tp.ForwardLoss(T, link=tp.Spherical("simplex"), ignore_index=2),
        "score": tp.ForwardLoss(T, score="tsallis:2.5"),
        "a score of F": tp.ForwardLoss(T, score=tp.LogSumExp().squeezed(1, 2)),
        "F": tp.BackwardLoss(T, tp.ConvexPotential(lambda v: v.square().sum(-1), "affine")),
        "middle": tp.ForwardBackwardLoss(T, [[0.5, 0.5, 0.2], [0.5, 0.5, 0.8]]),
        "R": tp.BackwardLoss(
            tp.annotators([T, T]), reconstruction=tp.annotators([T, T]).reconstruction("min_variance", [0.2, 0.3, 0.5])
        ),
        "GA": tp.GradientAscentLoss(T, ignore_index=-5),
        "F by domain": tp.BackwardLoss(T, tp.Brier("simplex")),
        "F once": tp.BackwardLoss(T, tp.Max()),
    }
    out |= {
        f"kept {name}": lambda loss=loss: (
            (d := rooms.loss_to_dict(loss))
            and [
                d,
                repr(rooms.loss_from_dict(d, loss.transition)),
                rooms.loss_to_dict(rooms.loss_from_dict(d, loss.transition)) == d,
            ]
        )
        for name, loss in kept.items()
    }
    wrong: list[dict[str, Any]] = [
        {"kind": "x"},
        {},
        {"kind": "backward", "reconstruction": "auto", "potential": {"name": "x"}, "class_weights": None},
        {"kind": "forward", "score": "x"},
        {"kind": "forward_backward", "middle": 2, "reconstruction": "auto"},
    ]
    out["kept, wrong"] = lambda: [said(rooms.loss_from_dict, d, T) for d in wrong]
    crowd = tp.annotators([T, T])
    refusals: dict[str, Callable[[], Any]] = {
        "F": lambda: tp.BackwardLoss(T, "brier"),
        "squeeze": lambda: tp.BackwardLoss(T, squeeze=3),
        "squeeze, three": lambda: tp.BackwardLoss(T, squeeze=(1, 2, 3)),
        "alpha": lambda: tp.BackwardLoss(T, squeeze=(1, 0.5)),
        "weights": lambda: [
            said(lambda w: tp.BackwardLoss(T, class_weights=w), w)
            for w in ([1, 2], [1, 0, 2], [1, -1, 2], [1, 2, np.inf], "abc", [1, 2, 3])
        ],
        "reduction": lambda: tp.ForwardLoss(T, "median"),
        "ignored": lambda: [said(lambda i: tp.ForwardLoss(T, ignore_index=i), i) for i in (True, 1.5, "a", 3)],
        "ignored, sets": lambda: tp.ForwardLoss("partial:3,0.2", ignore_index=1),
        "link": lambda: [
            said(lambda F: tp.ForwardLoss(T, link=F), F)
            for F in ("x", tp.Max(), tp.Sparsemax(), tp.LogSumExp(), tp.Tsallis(1.5))
        ],
        "score, crowd": lambda: tp.ForwardLoss(crowd, score="brier"),
        "score, many": lambda: [
            said(lambda s: tp.ForwardLoss("partial:20,0.3", score=s).lower_bounds(), s)
            for s in ("log", "brier", "spherical", "tsallis:2")
        ],
        "score": lambda: [
            said(lambda s: tp.ForwardLoss(T, score=s).score.name, s)
            for s in (
                "log",
                tp.Tsallis(2.5),
                tp.Brier(),
                tp.Spherical(),
                tp.Sparsemax(),
                tp.LogSumExp(),
                tp.Max(),
                tp.LogSumExp().squeezed(1, 0.5, True),
                3,
                "tsallis:1",
            )
        ],
        "middle": lambda: [
            said(lambda m: tp.ForwardBackwardLoss(T, m).middle, m)
            for m in (
                0.0,
                1.0,
                0.25,
                1.5,
                True,
                "symmetric:0.2",
                "nothing:1",
                tp.complementary(3),
                np.eye(2),
                [[0.5, 0.5, 0.2], [0.5, 0.5, 0.8]],
            )
        ],
        "middle, wide": lambda: tp.ForwardBackwardLoss(tp.coarse_labels([[0], [1], [2]]), 0.25).middle,
        "middle, bounds": lambda: [
            (L := tp.ForwardBackwardLoss(t, m)) and [L.weights(), L.is_bounded(), L.lower_bounds()]
            for t in (T, tp.complementary(3), tp.binary_noise(0.2, 0.3))
            for m in (0.0, 0.05, 0.5, 1.0)
        ],
        "middle, zeros": lambda: (
            (L := tp.ForwardBackwardLoss(tp.complementary(3), [[1.0, 0.2, 0.0], [0.0, 0.8, 0.3], [0.0, 0.0, 0.7]]))
            and [L.weights(), L.is_bounded(), L.lower_bounds(), str(L.certify())]
        ),
        "middle, many classes": lambda: tp.ForwardBackwardLoss("complementary:18", np.eye(18)).lower_bounds(),
        "fuse": lambda: (
            [said(lambda b: tp.fuse(tp.ForwardLoss(T), b).backend_for(scores(3, 3)), b) for b in ("auto", "torch", "x")]
            + [said(tp.fuse, 3)]
        ),
        "triton": lambda: [
            said(tp.fuse, loss, "triton")
            for loss in (
                tp.ForwardLoss(T),
                tp.BackwardLoss(T),
                tp.BackwardLoss("symmetric:3,0.2", tp.Brier()),
                tp.ForwardLoss("symmetric:3,0.2", score="brier"),
                tp.ForwardLoss(T, link=tp.Tsallis(0.5)),
                tp.BackwardLoss("symmetric:3,0.2", class_weights=[1, 2, 3]),
                tp.GradientAscentLoss(T),
                tp.BackwardLoss("symmetric:3,0.2", tp.LogSumExp().squeezed(1, 0.5, True)),
            )
        ],
        "plans": lambda: [
            str(rooms.plan_of(F, R))
            for F in (tp.LogSumExp(), tp.LogSumExp().squeezed(0.5, 1.5), tp.LogSumExp().squeezed(0, 2), tp.Brier())
            for R in (
                tp.symmetric_noise(4, 0.3).reconstruction(),
                T.reconstruction(),
                tp.partial_labels(4, 0.3).reconstruction(),
                tp.multi_complementary(4, 2).reconstruction("pinv"),
            )
        ],
        "backend": lambda: (
            [tp.ForwardLoss(T).backend_for(v) for v in (scores(3, 3), scores(3, 3).float())]
            + [tp.fuse(tp.ForwardLoss(T), "torch").backend_for(scores(3, 3))]
        ),
    }
    return each(out | {f"refused {name}": call for name, call in refusals.items()})


def wrong_calls() -> Cases:
    """Scores, labels and weights that cannot be used."""
    losses = {
        "noisy": tp.ForwardLoss(tp.Transition(UNEVEN)),
        "sets": tp.BackwardLoss("partial:3,0.3"),
        "fixed": tp.BackwardLoss("multi_complementary:3,1"),
        "pu": tp.ForwardLoss("pu:0.4"),
        "crowd": tp.ForwardLoss(tp.annotators([tp.Transition(UNEVEN)] * 2)),
    }
    v = scores(4, 3)
    labels: list[Any] = [
        [0, 1, 2, 1],
        [0, 1, 2],
        [0, 1, 3, 1],
        [0, -1, 2, 1],
        [0.0, 1.0, 2.0, 1.0],
        [0.5, 1, 2, 1],
        ["a", "b", "c", "a"],
        [None, 1, 2, 1],
        [True, False, True, True],
        np.array([0, 1, 2, 1], dtype=np.uint8),
        torch.tensor([0, 1, 2, 1], dtype=torch.int32),
        torch.tensor([0.0, 1, 2, 1]),
        [[0, 1]] * 4,
        [[0, -1]] * 4,
        [[3, 0]] * 4,
        [[1, 0, 1]] * 4,
        [[True, True, False]] * 4,
        [[False, False, False]] * 4,
        [[1, 0, 2]] * 4,
        [[0.5, 0, 1]] * 4,
        [{0, 1}, {2}, {0}, {1}],
        [],
        3,
        "abc",
        [0, 1, 1, 0],
        np.array([0, np.nan, 1, 1]),
        np.array([1 + 1j, 0, 0, 0]),
        [[True, False, False], [True, True, False], [False, False, True], [True, True, True]],
    ]
    weights: list[Any] = [
        None,
        [1, 2, 3, 4],
        [1, 2, 3],
        [0, 0, 0, 0],
        [1, -1, 2, 3],
        [1, np.nan, 2, 3],
        [1, np.inf, 2, 3],
        "abcd",
        torch.ones(4),
        torch.ones(4, 1),
        torch.tensor([1, 2, 3, 4]),
        [[1, 2, 3, 4]],
        np.array([True, False, True, True]),
    ]
    inputs: list[Any] = [
        v,
        v.numpy(),
        v.long(),
        v[:, :2],
        v[0],
        torch.zeros(0, 3),
        v.to(torch.complex64),
        "x",
        v[None],
        torch.full((4, 3), torch.nan),
        torch.full((4, 3), -torch.inf),
        torch.full((4, 3), torch.inf),
    ]
    out: Cases = {}
    for name, loss in losses.items():
        x = v[:, :2] if name == "pu" else v
        out[f"labels of {name}"] = lambda loss=loss, x=x: [said(loss, x, y) for y in labels]
        out[f"labels of {name}, unchecked"] = lambda loss=loss: [said(loss.transition.encode, y) for y in labels]
    out["weights"] = lambda: [said(losses["noisy"], v, [0, 1, 2, 1], w) for w in weights]
    out["weights, some ignored"] = lambda: [
        said(tp.ForwardLoss("symmetric:3,0.2", ignore_index=1), v, [0, 1, 2, 1], w) for w in weights
    ]
    out["scores"] = lambda: (
        [said(losses["noisy"], x, [0, 1, 2, 1]) for x in inputs]
        + [said(losses["noisy"].probabilities, x) for x in inputs]
    )
    out["states"] = states
    return each(out)


def states() -> list[Any]:
    """States of other losses are refused."""
    T = tp.Transition(UNEVEN)
    made = {
        "forward": tp.ForwardLoss(T),
        "backward": tp.BackwardLoss(T),
        "other": tp.ForwardLoss(tp.Transition(np.roll(UNEVEN, 1, 1))),
        "noisy": tp.ForwardLoss("symmetric:3,0.2"),
        "other noisy": tp.ForwardLoss("symmetric:3,0.3"),
        "sets": tp.BackwardLoss("partial:3,0.2"),
        "other sets": tp.BackwardLoss("partial:3,0.25"),
        "pinv": tp.BackwardLoss("partial:3,0.2", reconstruction="pinv"),
        "weights": tp.BackwardLoss(T, class_weights=[1, 2, 3]),
    }
    out = [[list(loss.state_dict()), loss.state_dict()] for loss in made.values()]
    for loss in made.values():
        for other in made.values():
            out.append(said(loss.load_state_dict, other.state_dict()))
    half = tp.BackwardLoss(T, class_weights=[1, 2, 3]).half()
    buffer = io.BytesIO()
    torch.save(made["backward"].state_dict(), buffer)
    single = {name: t.half() for name, t in made["forward"].state_dict().items()}
    return [*out, half.class_weights, half.tables, half.float().tables, said(made["forward"].load_state_dict, single)]


def joint() -> Cases:
    """Pairs and bags."""
    v, u = scores(6, 3), scores(6, 3, 1)
    prior = [0.5, 0.3, 0.2]
    made: dict[str, tuple[Any, dict[str, Any]]] = {
        "similarity": ("similarity", {"K": 3}),
        "similarity, prior": ("similarity", {"prior": prior}),
        "sd": ("sd", {"prior": prior, "sizes": [3, 4]}),
        "su": ("su", {"prior": prior, "sizes": [3, 4]}),
        "du": ("du", {"prior": prior, "sizes": [3, 4]}),
        "sdu": ("sdu", {"prior": prior, "sizes": [3, 4, 7]}),
        "comparison": ("comparison", {"K": 3}),
        "comparison, prior": ("comparison", {"prior": prior}),
        "su, two": ("su", {"prior": [0.7, 0.3], "sizes": [10, 25]}),
        "comparison, two": ("comparison", {"prior": [0.7, 0.3]}),
        "x": ("x", {}),
        "no prior": ("sd", {"K": 3, "sizes": [3, 4]}),
        "no K": ("similarity", {}),
        "K apart": ("sd", {"K": 4, "prior": prior, "sizes": [3, 4]}),
        "no sizes": ("sd", {"prior": prior}),
        "sizes": ("sd", {"prior": prior, "sizes": [3, 4, 5]}),
        "size 0": ("sd", {"prior": prior, "sizes": [3, 0]}),
        "K 1": ("similarity", {"K": 1}),
    }

    def told(kind: str, some: dict[str, Any]) -> list[Any]:
        kernel = tp.pairs(kind, **some)
        K, p, q = kernel.num_classes, v[:, : kernel.num_classes].softmax(-1), u[:, : kernel.num_classes].softmax(-1)
        y = kernel.sample(np.arange(6) % K, np.arange(6)[::-1] % K, seed=3)
        loss = tp.PairLoss(kernel, "none")
        x = v[:, :K].clone().requires_grad_()
        w = torch.tensor([0.5, 2, 0, 1, 3, 1], dtype=torch.float64)
        value = loss(x, u[:, :K], y)
        value.sum().backward()
        soft = np.random.default_rng(2).dirichlet(np.ones(kernel.num_labels), 6)
        names = [kernel.names[i] for i in y]
        return [
            repr(kernel),
            kernel.names,
            kernel.weights,
            kernel.probability(p, q),
            y,
            kernel.encode(names),
            said(kernel.encode, ["x"]),
            said(kernel.encode, [5]),
            kernel.symmetries(),
            said(lambda: describe(kernel.apart())),
            kernel.bags(y),
            value,
            x.grad,
            tp.PairLoss(kernel)(x, u[:, :K], y, w),
            tp.PairLoss(kernel, "sum")(x, u[:, :K], y),
            loss(x, u[:, :K], tp.SoftLabels(soft)),
            loss.lower_bounds(),
            str(loss.certify()),
            loss.extra_repr(),
            loss.log_probability(x, u[:, :K]),
        ]

    def describe(T: Any) -> list[Any]:
        return [transition_to_dict(T)["matrix"], T.pooled, T.name]

    out: Cases = {name: lambda kind=kind, some=some: told(kind, some) for name, (kind, some) in made.items()}
    out |= {
        "kernels": lambda: [
            said(lambda *a: repr(tp.PairKernel(*a)), *a)
            for a in (
                ([np.eye(2), 1 - np.eye(2)],),
                ([np.eye(2), 1 - np.eye(2)], ["a"]),
                (np.eye(2),),
                ([np.eye(2), np.eye(2)],),
                ([-np.eye(2), 2 * np.ones((2, 2))],),
                ([[[np.inf, 1], [1, 1]]],),
                ([[[1.0]]],),
                (np.ones((0, 2, 2)),),
            )
        ],
        "nine classes": lambda: tp.pairs("similarity", K=9).symmetries(),
        "nine, certified": lambda: str(tp.PairLoss(tp.pairs("similarity", K=9)).certify()),
        "prior": lambda: [said(tp.pair_prior, s) for s in (0.5, 0.58, 1.0, 0.49, 1.1)],
        "a loss of none": lambda: tp.PairLoss(3),
        "shapes": lambda: tp.PairLoss(tp.pairs("similarity", K=3))(v, u[:5], [0] * 6),
        "soft shapes": lambda: tp.PairLoss(tp.pairs("similarity", K=3))(v, u, tp.SoftLabels([[1, 0, 0]] * 6)),
        "far": lambda: sloped(
            lambda x: tp.PairLoss(tp.pairs("similarity", K=3), "none")(x, u * 300, [0, 1] * 3), v * 300
        ),
    }
    rng = np.random.default_rng(8)
    bag_sets = {
        "one": ([0] * 6, [[3, 2, 1]]),
        "three": ([0, 0, 1, 1, 1, 2], [[1, 1, 0], [0, 3, 0], [0, 0, 1]]),
        "mixed order": ([2, 0, 1, 0, 2, 1], [[1, 0, 1], [0, 2, 0], [1, 1, 0]]),
        "an empty bag": ([0, 0, 2, 2, 2, 2], [[1, 1, 0], [0, 0, 0], [2, 2, 0]]),
    }
    for name, (bags, counts) in bag_sets.items():
        for kind in ("auto", "joint", "marginal"):
            out[f"bags {name}, {kind}"] = lambda bags=bags, counts=counts, kind=kind: [
                sloped_once(tp.BagCountLoss(3, kind, r), v * s, bags, counts)
                for r in ("none", "mean", "sum")
                for s in (1.0, 200.0)
            ]
    sizes = [1, 2, 7, 40, 130]
    many = np.repeat(np.arange(5), sizes)
    wide = {K: scores(sum(sizes), K, 9) for K in (2, 3, 4)}
    for K in (2, 3, 4):
        c = np.stack([rng.multinomial(n, np.ones(K) / K) for n in sizes])
        far = np.zeros_like(c)
        far[np.arange(5), rng.integers(0, K, 5)] = sizes
        out[f"large bags, {K}"] = lambda K=K, c=c: sloped_once(tp.BagCountLoss(K, reduction="none"), wide[K], many, c)
        out[f"large bags of one class, {K}"] = lambda K=K, far=far: [
            sloped_once(tp.BagCountLoss(K, reduction="none"), wide[K] * s, many, far) for s in (1.0, 30.0)
        ]
    positive: list[Any] = [[True, False, True], [1, 0, 0], [0.5, 0, 1], [True, False], [[True]], "ab"]
    two = scores(6, 2)
    out |= {
        "instances": lambda: [
            [sloped_once(tp.AtLeastOneLoss(r), two * s, b, [True, False, True]) for r in ("none", "mean", "sum")]
            for s in (1.0, 50.0, 1000.0)
            for b in ([0, 0, 1, 1, 1, 2], [2, 0, 1, 1, 0, 2])
        ],
        "instances, unlikely": lambda: sloped_once(
            tp.AtLeastOneLoss("none"), two + torch.tensor([3.0, 0.0]), [0, 0, 1, 1, 1, 2], [True, False, True]
        ),
        "instances, wrong": lambda: (
            [said(tp.AtLeastOneLoss(), two, [0, 0, 1, 1, 1, 2], p) for p in positive]
            + [
                said(tp.AtLeastOneLoss(), two, b, [True, False, True])
                for b in ([0, 0, 1, 1, 1, 1], [0, 0, 1], [0, 0, 1, 1, 1, 7])
            ]
        ),
        "counts, wrong": lambda: [
            said(tp.BagCountLoss(3), v, *a)
            for a in (
                ([0] * 6, [[3, 2, 2]]),
                ([0] * 6, [[3, 3]]),
                ([0] * 6, [[3.0, 2, 1]]),
                ([0] * 6, [[7, -2, 1]]),
                ([0] * 5, [[3, 2, 1]]),
                ([0] * 5 + [1], [[3, 2, 1]]),
                ([0] * 6, "x"),
            )
        ],
        "joint, too many": lambda: tp.BagCountLoss(4, "joint")(
            wide[4], many, [[1, 0, 0, 0], [1, 1, 0, 0], [4, 1, 1, 1], [10, 10, 10, 10], [40, 30, 30, 30]]
        ),
        "a kind": lambda: tp.BagCountLoss(3, "x"),
        "one class": lambda: tp.BagCountLoss(1),
        "certified": lambda: [
            str(tp.BagCountLoss(3).certify()),
            str(tp.AtLeastOneLoss().certify()),
            tp.BagCountLoss(3).probabilities(v),
        ],
    }
    return each(out)


def sloped_once(loss: Any, v: Tensor, *arguments: Any) -> list[Any]:
    """The value of a call and its gradient."""
    x = v.clone().requires_grad_()
    value = loss(x, *arguments)
    (g,) = torch.autograd.grad(value.sum(), x)
    return [value, g[:: max(1, len(g) // 9)], g.abs().sum()]


def watched() -> Cases:
    """What a monitor says of losses that fall, jump, stop or are not finite."""
    T = tp.Transition(UNEVEN)
    made: dict[str, Callable[[], Any]] = {
        "bounded": lambda: tp.ForwardLoss(T),
        "unbounded": lambda: tp.BackwardLoss(T),
        "sum": lambda: tp.BackwardLoss(T, reduction="sum"),
        "ignored": lambda: tp.ForwardLoss(T, ignore_index=-1),
    }
    t = np.arange(120)
    noise = np.random.default_rng(5).normal(size=120)
    paths = {
        "level": 1 + 0.1 * noise,
        "falls": 1 - 0.03 * t + 0.1 * noise,
        "near": 0.02 + 0.1 * noise,
        "below": -0.03 + 0.1 * noise,
        "nan": np.where(t == 50, np.nan, 1.0),
        "down": np.where(t == 50, -np.inf, 1.0),
        "up": np.where(t == 50, np.inf, 1.0 + 0.1 * noise),
        "short": np.ones(15),
        "swings": (1 - 0.03 * t) * (1 + noise),
    }
    labels = np.random.default_rng(6).integers(0, 3, (120, 7))
    settings: dict[str, dict[str, Any]] = {
        "plain": {},
        "window": {"window": 25, "every": 1},
        "examples": {"window": 30, "num_examples": 70, "every": 7},
        "strict": {"threshold": 1.5, "every": 3, "window": 20},
    }
    out: Cases = {}
    for name, make in made.items():
        for setting, some in settings.items():

            def call(make: Any = make, some: Any = some) -> list[Any]:
                def walk(path: Any) -> list[Any]:
                    monitor = tp.LossMonitor(make(), **some)
                    for i, x in enumerate(path):
                        y: Any = labels[i]
                        if monitor.loss.ignore_index is not None:
                            y = torch.as_tensor(np.where(np.arange(7) < i % 8, y, -1))
                        monitor.update(torch.tensor(x) if i % 2 else x, y)
                    h = monitor.history
                    return [
                        str(monitor),
                        repr(monitor),
                        monitor.alarm,
                        monitor.alarm_step,
                        monitor.bounded,
                        monitor.bound,
                        monitor.floor,
                        {k: x[:: max(1, len(x) // 12)] for k, x in h.items()},
                        len(h["mean"]),
                    ]

                return [said(walk, path) for path in paths.values()]

            out[f"{name}, {setting}"] = call
    long = 40000

    def thinned() -> list[Any]:
        monitor = tp.LossMonitor(tp.ForwardLoss(T), every=1000)
        for i in range(long):
            monitor.update(1.0 + i / long, n=4)
        h = monitor.history
        return [len(h["update"]), h["update"][:5], h["update"][-5:], h["mean"][-3:]]

    out |= {
        "thinned": thinned,
        "wrong": lambda: [
            said(tp.LossMonitor, *a)
            for a in (
                (3,),
                (tp.ForwardLoss(T, "none"),),
                (tp.ForwardLoss(T), 19),
                (tp.ForwardLoss(T), 20),
                (tp.ForwardLoss(T), 30, 0),
                (tp.ForwardLoss(T), 30, 5, 0),
                (tp.ForwardLoss(T), 30, 5, 31.0),
                (tp.ForwardLoss(T), 30, 5, 4.5, 0),
            )
        ],
        "updates": lambda: [
            said(tp.LossMonitor(loss, num_examples=e).update, *a)
            for loss, e in ((tp.ForwardLoss(T), None), (tp.ForwardLoss(T, "sum"), None), (tp.ForwardLoss(T), 5))
            for a in (
                (1.0,),
                (torch.ones(2),),
                ("x",),
                (None,),
                (1.0, [0, 1]),
                (1.0, [0, 1], 3),
                (1.0, None, 3),
                (1.0, None, 0),
                (1.0, [0, 5]),
                (torch.ones(1, 1),),
            )
        ],
        "fresh": lambda: (m := tp.LossMonitor(tp.BackwardLoss(T))) and [str(m), m.history],
    }
    return each(out)


def calls() -> Cases:
    """Every case by its name."""
    parts = {
        "called": called,
        "given": given,
        "named": by_name,
        "wrong": wrong_calls,
        "joint": joint,
        "watched": watched,
    }
    return {f"{head} {name}": call for head, part in parts.items() for name, call in part().items()}
