"""A row of weight zero is as if it were not there, whatever it holds: in every loss, score, test and fit."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.solvers.linear import fit_linear

#: Label 3 cannot occur: its forward loss is infinite, its probability zero.
IMPOSSIBLE = tp.Transition(
    [[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7], [0.0, 0.0, 0.0]], weak_labels=["a", "b", "c", "never"]
)
UNNAMED = tp.Transition(IMPOSSIBLE.matrix())  # of which scores take rows by number
LOSSES = {
    "forward": lambda: tp.ForwardLoss(IMPOSSIBLE),
    "forward, brier": lambda: tp.ForwardLoss(IMPOSSIBLE, score="brier"),
    "forward, tsallis": lambda: tp.ForwardLoss(IMPOSSIBLE, score="tsallis:0.5"),
    "forward, sparse link": lambda: tp.ForwardLoss(IMPOSSIBLE, link=tp.Sparsemax()),
    "backward": lambda: tp.BackwardLoss(IMPOSSIBLE),
    "backward, tsallis": lambda: tp.BackwardLoss(IMPOSSIBLE, potential=tp.Tsallis(0.5)),
    "backward, sparsemax": lambda: tp.BackwardLoss(IMPOSSIBLE, potential=tp.Sparsemax()),
    "backward, spherical": lambda: tp.BackwardLoss(IMPOSSIBLE, potential=tp.Spherical()),
    "gLS": lambda: tp.BackwardLoss(IMPOSSIBLE, squeeze=(0.5, 1.5)),
    "gradient ascent": lambda: tp.GradientAscentLoss(IMPOSSIBLE),
    "non-negative": lambda: tp.NonNegativeLoss(IMPOSSIBLE),
}
JUNK = {
    "an impossible label": [0.3, -0.2, 0.1],
    "huge scores": [1e300, -1e300, 0.0],
    "infinite scores": [math.inf, 0.0, -math.inf],
    "no number": [math.nan, 0.0, 0.0],
    "masked": [-math.inf, 0.0, -math.inf],
}


def rows(n: int = 6) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(0)
    v = torch.as_tensor(0.2 * rng.standard_normal((n, 3)))  # inside the ball that the spherical potential lives on
    return v, torch.as_tensor(rng.integers(0, 3, n)), torch.as_tensor(rng.uniform(0.5, 2.0, n))


#: Batch losses take one T.
WAYS = [
    (n, given) for n in LOSSES for given in (False, True) if not given or n not in ("gradient ascent", "non-negative")
]


@pytest.mark.parametrize("junk", JUNK)
@pytest.mark.parametrize(("name", "given"), WAYS)
def test_losses(name: str, given: bool, junk: str) -> None:
    loss = LOSSES[name]()
    v, y, w = rows()
    more = torch.cat([v[:2], torch.tensor([JUNK[junk]]).double(), v[2:]]).requires_grad_()
    labels, weights = (torch.cat([x[:2], torch.tensor([z], dtype=x.dtype), x[2:]]) for x, z in ((y, 3), (w, 0)))
    T = torch.as_tensor(IMPOSSIBLE.matrix())
    with_T = {"transitions": T.expand(len(more), 4, 3)} if given else {}
    without_T = {"transitions": T.expand(len(v), 4, 3)} if given else {}
    x = v.clone().requires_grad_()
    value, expected = loss(more, labels, weights=weights, **with_T), loss(x, y, weights=w, **without_T)
    torch.testing.assert_close(value, expected)
    (slope,) = torch.autograd.grad(value, more)
    (same,) = torch.autograd.grad(expected, x)
    assert torch.equal(slope[2], torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(torch.cat([slope[:2], slope[3:]]), same)


@pytest.mark.parametrize("junk", ["an impossible label", "huge scores"])
@pytest.mark.parametrize("name", [n for n in LOSSES if "gradient" not in n and "non-" not in n])
def test_the_solvers_view(name: str, junk: str) -> None:
    loss = LOSSES[name]()
    v, y, w = rows()
    more = torch.cat([v, torch.tensor([JUNK[junk]]).double()])
    losses, slopes = loss.bind(torch.cat([y, torch.tensor([3])]), torch.cat([w, torch.zeros(1).double()]))(more)
    alone, same = loss.bind(y, w)(v)
    assert float(losses[-1]) == 0
    assert torch.equal(slopes[-1], torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(losses[:-1], alone)
    torch.testing.assert_close(slopes[:-1], same)


def numbers(score: Any) -> list[float]:
    """All that a score says."""
    out = [score.value, score.stderr, *np.ravel(score.interval)] if hasattr(score, "value") else []
    return [*out, *([score.p_value] if hasattr(score, "p_value") else [])]


SCORES = {
    "accuracy": lambda y, q, w, T: tp.weak_accuracy(y, q.argmax(1), T, sample_weight=w),
    "brier": lambda y, q, w, T: tp.weak_brier(y, q, T, sample_weight=w),
    "log loss": lambda y, q, w, T: tp.weak_log_loss(y, q, T, sample_weight=w),
    "calibration": lambda y, q, w, T: tp.weak_calibration(y, q, T, sample_weight=w),
    "class-wise calibration": lambda y, q, w, T: tp.weak_calibration(y, q, T, classwise=True, sample_weight=w),
    "balanced accuracy": lambda y, q, w, T: tp.weak_balanced_accuracy(y, q.argmax(1), T, sample_weight=w),
    "paired accuracy": lambda y, q, w, T: tp.paired_test(
        y, q.argmax(1), q[:, ::-1].argmax(1), T, score="accuracy", sample_weight=w
    ),
    "paired log loss": lambda y, q, w, T: tp.paired_test(y, q, 0.9 * q + 0.1 / 3, T, score="log_loss", sample_weight=w),
}


@pytest.mark.parametrize("label", [0, 3], ids=["a label that occurs", "an impossible label"])
@pytest.mark.parametrize("name", SCORES)
def test_scores(name: str, label: int) -> None:
    """The row's predictions give probability zero to what its label says, so that its loss alone is infinite."""
    rng = np.random.default_rng(1)
    n = 80
    z = rng.integers(0, 3, n)
    y = np.asarray(UNNAMED.sample(z, seed=2))
    q = 0.98 * rng.dirichlet(np.ones(3), n) + 0.02 / 3
    w = rng.uniform(0.5, 2.0, n)
    q_junk = np.array([[0.0, 1.0, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        alone = SCORES[name](y, q, w, UNNAMED)
        junked = SCORES[name](np.append(y, label), np.vstack([q, q_junk]), np.append(w, 0.0), UNNAMED)
    np.testing.assert_allclose(numbers(junked), numbers(alone), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["forward", "backward", "gLS", "forward, brier"])
def test_linear_fits(loss: str) -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 2))
    y = rng.integers(0, 3, 60)
    w = rng.uniform(0.5, 2.0, 60)
    module = LOSSES[loss]()
    fits = [
        fit_linear(A, torch.as_tensor(b), module, c, 0.1, 1e-8, 500)
        for A, b, c in (
            (X, y, w),
            (np.vstack([X, [[1e6, -1e6]]]), np.append(y, 3), np.append(w, 0.0)),
        )
    ]
    np.testing.assert_allclose(fits[1].coef, fits[0].coef, atol=1e-5)
    assert fits[1].objective == pytest.approx(fits[0].objective, rel=1e-6)


def test_calibration_maps() -> None:
    rng = np.random.default_rng(4)
    scores, y, w = rng.standard_normal((200, 3)), rng.integers(0, 3, 200), rng.uniform(0.5, 2.0, 200)
    maps = [
        tp.calibrate(s, labels, UNNAMED, method="temperature", sample_weight=weights)
        for s, labels, weights in (
            (scores, y, w),
            (np.vstack([scores, [[1e3, -1e3, 0.0]]]), np.append(y, 3), np.append(w, 0.0)),
        )
    ]
    np.testing.assert_allclose(maps[1].probabilities(scores), maps[0].probabilities(scores), atol=1e-6)
