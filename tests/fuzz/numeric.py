"""Losses, links, targets, bounds and scores against references of 40 digits, and against the rules they promise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import torch

import tproper as tp

from .harness import check, pick, refused

DIGITS = 40
Rng = np.random.Generator


# References: nothing of tproper in them.


def centred(v: list[Any]) -> list[Any]:
    mean = sum(v) / len(v)
    return [x - mean for x in v]


def softmax(v: list[Any]) -> list[Any]:
    top = max(v)
    e = [mp.exp(x - top) for x in v]
    total = sum(e)
    return [x / total for x in e]


def projected(u: list[Any]) -> list[Any]:
    """The nearest point of the simplex."""
    best = sorted(u, reverse=True)
    total, threshold = mp.mpf(0), mp.mpf(0)
    for i, x in enumerate(best, 1):
        total += x
        if x - (total - 1) / i > 0:
            threshold = (total - 1) / i
    return [max(x - threshold, mp.mpf(0)) for x in u]


def tsallis_shares(v: list[Any], a: Any) -> list[Any]:
    low, high = sorted((max(v) - 1 / (a - 1), max(v) - mp.mpf(len(v)) ** (1 - a) / (a - 1)))

    def shares(lam: Any) -> list[Any]:
        bases = [(a - 1) * (x - lam) for x in v]
        return [b ** (1 / (a - 1)) if b > 0 else (mp.mpf(0) if a > 1 else mp.inf) for b in bases]

    for _ in range(150):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(shares(middle)) > 1 else (low, middle)
    p = shares((low + high) / 2)
    return [x / sum(p) for x in p]


def reference(name: str, v: list[Any], setting: dict[str, Any]) -> tuple[Any, list[Any]]:
    """F and its gradient at centred scores."""
    K = len(v)
    if name == "log-sum-exp":
        top = max(v)
        return top + mp.log(sum(mp.exp(x - top) for x in v)), softmax(v)
    if name == "brier affine":
        return sum(x**2 for x in v) / 4 + 1 - mp.mpf(1) / K, [mp.mpf(1) / K + x / 2 for x in v]
    if name == "brier simplex":
        p = projected([x / 2 for x in v])
        return sum(a * b for a, b in zip(p, v, strict=True)) - sum(x**2 for x in p) + 1, p
    if name == "sparsemax":
        p = projected(v)
        return sum(a * b for a, b in zip(p, v, strict=True)) - (sum(x**2 for x in p) - 1) / 2, p
    a = mp.mpf(setting["a"])
    p = tsallis_shares(v, a)
    conjugate = (sum(x**a for x in p) - 1) / (a * (a - 1))
    return sum(x * y for x, y in zip(p, v, strict=True)) - conjugate, p


def potential(rng: Rng) -> tuple[tp.Potential, str, dict[str, Any]]:
    name = pick(rng, ["log-sum-exp", "log-sum-exp", "brier affine", "brier simplex", "sparsemax", "tsallis"])
    a = float(pick(rng, [0.2, 0.5, 0.9, 1.1, 1.5, 2.0, 3.0, 8.0]))
    made = {
        "log-sum-exp": tp.LogSumExp,
        "brier affine": tp.Brier,
        "brier simplex": lambda: tp.Brier(domain="simplex"),
        "sparsemax": tp.Sparsemax,
        "tsallis": lambda: tp.Tsallis(a),
    }[name]()
    return made, name, {"a": a}


def transition(rng: Rng) -> tp.Transition:
    K = int(rng.integers(2, 7))
    p = float(rng.uniform(0.01, 0.9))
    kind = pick(rng, ["dense", "dense", "symmetric", "pair", "complementary", "noisy", "partial", "multi", "identity"])
    if kind == "dense":
        M = K + int(rng.integers(0, 3))
        return tp.Transition(rng.dirichlet(np.full(M, float(pick(rng, [0.3, 1, 5]))), K).T)
    if kind == "partial":
        return tp.partial_labels(K, p)
    if kind == "multi":
        return tp.multi_complementary(K, int(rng.integers(1, K)))
    families = {
        "symmetric": lambda: tp.symmetric_noise(K, p),
        "pair": lambda: tp.pair_noise(K, p * 0.5),
        "complementary": lambda: tp.complementary(K),
        "noisy": lambda: tp.complementary(K, noise=p * 0.2),
        "identity": lambda: tp.identity(K),
    }
    return families[kind]()


def scores(rng: Rng, n: int, K: int) -> torch.Tensor:
    v = rng.standard_normal((n, K)) * 10 ** rng.uniform(-3, 3)
    if rng.random() < 0.3:
        v = np.round(v, 1)  # ties and exact thresholds
    return torch.as_tensor(v + float(pick(rng, [0, 0, 1, 1e3, -1e6])))


def labels_of(T: tp.Transition, rng: Rng, n: int) -> torch.Tensor:
    classes = rng.integers(T.num_classes, size=n)
    return T.encode(T.sample(classes, seed=int(rng.integers(2**31))))


@check
def backward_losses(rng: Rng, folder: Path) -> None:
    """Value and gradient of F(v) - <r, v>, r = R e_y."""
    with mp.workdps(DIGITS):
        T = transition(rng)
        try:
            R = T.reconstruction()
        except tp.NotReconstructibleError:
            return
        F, name, setting = potential(rng)
        loss = tp.BackwardLoss(T, potential=F, reconstruction=R, reduction="none")
        v = scores(rng, 6, T.num_classes).requires_grad_()
        labels = labels_of(T, rng, 6)
        targets = np.asarray(R.targets(labels))
        values = loss(v, labels)
        values.sum().backward()
        size = float(np.abs(targets).max())
        for i in range(len(v)):
            row = centred([mp.mpf(x) for x in v[i].tolist()])
            r = [mp.mpf(x) for x in targets[i].tolist()]
            value, link = reference(name, row, setting)
            want = value - sum(a * b for a, b in zip(r, row, strict=True))
            spread = float(max(abs(x) for x in row))
            tol = (
                1e-11 * (1 + size) * (1 + spread + (spread**2 if "brier" in name else 0))
                + 1e-15 * float(v[i].detach().abs().max()) * (1 + size) * 10
            )
            assert abs(float(want) - float(values[i])) <= tol, (str(T), str(F), v[i].tolist(), float(want), values[i])
            if "sparse" in name or "simplex" in name:
                continue  # a score within rounding of the threshold may be on either side of it
            assert v.grad is not None
            slack = 1e-9 * (1 + size) + 1e-15 * float(v[i].detach().abs().max()) * (20 if setting["a"] > 0.4 else 100)
            for z in range(T.num_classes):
                grad = float(link[z] - r[z])
                assert abs(grad - float(v.grad[i, z])) <= slack * (1 + spread), (str(T), str(F), v[i].tolist(), grad)


@check
def forward_losses(rng: Rng, folder: Path) -> None:
    """-log (T softmax(v))_y."""
    with mp.workdps(DIGITS):
        T = transition(rng)
        matrix = T.matrix()
        v = scores(rng, 6, T.num_classes).requires_grad_()
        labels = labels_of(T, rng, 6)
        rows = T.row_index(labels).tolist()
        values = tp.ForwardLoss(T, reduction="none")(v, labels)
        values.sum().backward()
        for i, y in enumerate(rows):
            row = centred([mp.mpf(x) for x in v[i].tolist()])
            p, t = softmax(row), [mp.mpf(x) for x in matrix[y].tolist()]
            mass = sum(a * b for a, b in zip(t, p, strict=True))
            want = -mp.log(mass)
            tol = 1e-11 * (1 + abs(float(want))) + 1e-15 * float(v[i].detach().abs().max()) * 10
            assert abs(float(want) - float(values[i])) <= tol, (str(T), v[i].tolist(), y, float(want), values[i])
            for z in range(T.num_classes):
                assert v.grad is not None
                grad = float(p[z] - p[z] * t[z] / mass)
                assert abs(grad - float(v.grad[i, z])) <= 1e-9 + tol, (str(T), v[i].tolist(), y, z, grad)


@check
def reconstructions(rng: Rng, folder: Path) -> None:
    """R T = I, columns sum to one, targets are columns, whatever the method."""
    T = transition(rng)
    method = pick(rng, ["auto", "pinv", "min_variance", "tightest"])
    try:
        R = T.reconstruction(method)
    except tp.NotReconstructibleError:
        assert np.linalg.matrix_rank(T.matrix(), tol=1e-6) < T.num_classes
        return
    matrix, K = R.matrix(), T.num_classes
    size = 1 + np.abs(matrix).max()
    assert np.abs(matrix @ T.matrix() - np.eye(K)).max() <= 1e-7 * size, (str(T), method)
    assert np.abs(matrix.sum(0) - 1).max() <= 1e-7 * size, (str(T), method)
    labels = labels_of(T, rng, 20)
    assert np.allclose(np.asarray(R.targets(labels)), matrix[:, T.row_index(labels).numpy()].T, atol=1e-9 * size)


@check
def bounds(rng: Rng, folder: Path) -> None:
    """No descent crosses a certified bound; along a witness the loss falls."""
    T = transition(rng)
    F, _, _ = potential(rng)
    squeeze = pick(rng, [None, None, (0.5, 1.0), (1.0, 2.0), (0.2, 1.3)])
    try:
        loss = tp.BackwardLoss(T, potential=F, squeeze=squeeze, reduction="none")
    except tp.NotReconstructibleError:
        return
    lower = torch.as_tensor(loss.lower_bounds())
    labels = T.encode(T.weak_labels if T.label_shape else list(range(T.num_weak_labels)))
    v = torch.as_tensor(rng.standard_normal((len(labels), T.num_classes))).requires_grad_()
    optimizer = torch.optim.Adam([v], lr=0.2)
    for _ in range(150):
        optimizer.zero_grad()
        loss(v, labels).sum().backward()
        optimizer.step()
    with torch.no_grad():
        values = loss(v, labels)
    finite = values.isfinite()
    below = (lower - values)[finite]
    assert (below <= 1e-6 * (1 + lower[finite].abs())).all(), (str(T), str(F), squeeze, lower, values)
    certificate = tp.certify(loss)
    assert certificate.lower_bounded == bool(torch.isfinite(lower).all()), (str(T), str(F), squeeze)


@check
def weak_scores(rng: Rng, folder: Path) -> None:
    """Intervals are ordered and hold their value; rows of weight 0 do not count."""
    T = transition(rng)
    n, K = int(pick(rng, [2, 3, 10, 60, 300])), T.num_classes
    labels = labels_of(T, rng, n)
    p = rng.dirichlet(np.full(K, float(pick(rng, [0.05, 1, 20]))), n)
    if rng.random() < 0.3:
        p = np.eye(K)[p.argmax(1)]
    for score, given in (
        (tp.weak_accuracy, p.argmax(1)),
        (tp.weak_brier, p),
        (tp.weak_log_loss, 0.99 * p + 0.01 / K),
        (tp.weak_calibration, p),
    ):
        out = refused(lambda score=score, given=given: score(labels, given, T))
        if out is None:
            continue
        low, high = out.interval
        assert not math.isnan(out.value), (score.__name__, str(T), n)
        assert low <= high, (score.__name__, str(T), n, out)
        least, most = getattr(out, "limits", (-math.inf, math.inf))  # an unbiased value may lie outside of these
        possible = min(max(out.value, least), most)
        assert low - 1e-9 <= possible <= high + 1e-9, (score.__name__, str(T), n, out)


@check
def estimates(rng: Rng, folder: Path) -> None:
    """T from counts: columns sum to one, intervals hold the estimate, samples are transitions."""
    M, K = int(rng.integers(2, 6)), int(rng.integers(2, 6))
    counts = rng.poisson(float(pick(rng, [0.2, 2, 50])), (M, K))
    if (counts.sum(0) == 0).any() and rng.random() < 0.7:
        counts[0] += 1
    T = refused(lambda: tp.Transition.from_counts(counts))
    if T is None:
        return
    low, high = T.interval()
    matrix = T.matrix()
    assert np.allclose(matrix.sum(0), 1)
    assert (low <= matrix + 1e-9).all()
    assert (matrix <= high + 1e-9).all()
    drawn = T.samples(5, seed=0)
    assert np.allclose(drawn.sum(1), 1)
    assert (drawn >= 0).all()
