"""What holds beyond one loss at one point: scores with any link, annotators, witnesses, critical k, decompositions,
compiled and vectorised calls, losses that were saved, intervals that cover, and runs that were interrupted."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import torch
from scipy.optimize import linprog

import tproper as tp
from tproper.losses import loss_from_dict, loss_to_dict

from .files import workshop
from .harness import check, pick, refused
from .numeric import DIGITS, centred, labels_of, potential, scores, softmax, transition

Rng = np.random.Generator


def weak_score(name: str, q: list[Any], y: int) -> Any:
    """A proper score of a distribution q of weak labels at label y, as textbooks write it."""
    if name == "log":
        return -mp.log(q[y])
    if name == "brier":
        return sum(x**2 for x in q) - 2 * q[y] + 1
    if name == "spherical":
        return 1 - q[y] / mp.sqrt(sum(x**2 for x in q))
    a = mp.mpf(name.split(":")[1])
    return ((a - 1) * sum(x**a for x in q) - a * q[y] ** (a - 1) + 1) / (a * (a - 1))


@check
def forward_scores(rng: Rng, folder: Path) -> None:
    """A score of T p, by T, by one T per example, and in half precision under autocast."""
    with mp.workdps(DIGITS):
        T = transition(rng)
        name = pick(rng, ["log", "brier", "spherical", "tsallis:1.5", "tsallis:3", "tsallis:0.5"])
        v = torch.as_tensor(rng.standard_normal((5, T.num_classes)) * float(pick(rng, [0.1, 1, 5, 30])))
        labels = labels_of(T, rng, 5)
        rows = T.row_index(labels)
        loss = tp.ForwardLoss(T, reduction="none", score=name)
        matrix = T.matrix()
        ways = [loss(v, labels)]
        if not T.label_shape:
            ways.append(loss(v, labels, transitions=torch.as_tensor(matrix).expand(5, *matrix.shape)))
        for i, y in enumerate(rows.tolist()):
            p = softmax(centred([mp.mpf(x) for x in v[i].tolist()]))
            q = [sum(mp.mpf(t) * x for t, x in zip(row, p, strict=True)) for row in matrix.tolist()]
            want = float(weak_score(name, q, y))
            for way in ways:
                assert abs(float(way[i]) - want) <= 1e-10 * (1 + abs(want)), (str(T), name, v[i].tolist(), y, want, way)
        with torch.autocast("cpu", torch.bfloat16):
            half = loss(v.bfloat16(), labels)
        assert half.dtype == torch.float32
        assert torch.allclose(half, loss(v.bfloat16().float(), labels), atol=1e-5, rtol=1e-4), (str(T), name)


@check
def annotators(rng: Rng, folder: Path) -> None:
    """``-log sum_z p_z prod_j T_j[a_j, z]``, answers missing here and there; a row without any has no loss."""
    with mp.workdps(DIGITS):
        K, m = int(rng.integers(2, 5)), int(rng.integers(1, 5))
        parts = [tp.Transition(rng.dirichlet(np.full(K, float(pick(rng, [0.3, 2.0]))), K).T) for _ in range(m)]
        T = tp.annotators(parts)
        n = 5
        answers = np.stack(
            [np.asarray(t.sample(rng.integers(K, size=n), seed=int(rng.integers(999)))) for t in parts], 1
        )
        answers[rng.random(answers.shape) < 0.3] = -1
        v = scores(rng, n, K).requires_grad_()
        values = tp.ForwardLoss(T, reduction="none")(v, answers)
        values.sum().backward()
        assert v.grad is not None
        for i in range(n):
            p = softmax(centred([mp.mpf(x) for x in v[i].tolist()]))
            said = [(t.matrix(), int(a)) for t, a in zip(parts, answers[i], strict=True) if a >= 0]
            joint = [x * mp.fprod(mp.mpf(t[a, z]) for t, a in said) for z, x in enumerate(p)]
            want = -mp.log(sum(joint))
            tol = 1e-11 * (1 + abs(float(want))) + 1e-14 * float(v[i].detach().abs().max())
            assert abs(float(want) - float(values[i])) <= tol, (
                answers[i].tolist(),
                v[i].tolist(),
                float(want),
                values[i],
            )
            for z in range(K):
                slope = float(p[z] - joint[z] / sum(joint))
                assert abs(slope - float(v.grad[i, z])) <= 1e-9 + tol, (answers[i].tolist(), v[i].tolist(), z, slope)


@check
def witnesses(rng: Rng, folder: Path) -> None:
    """Along a witness the loss of its label falls at its slope; without one, descent along rays finds nothing."""
    T = transition(rng)
    F, _, _ = potential(rng)
    squeeze = pick(rng, [None, None, (0.3, 1.0), (1.0, 1.0), (0.5, 2.0)])
    try:
        loss = tp.BackwardLoss(T, potential=F, squeeze=squeeze, reduction="none")
    except tp.NotReconstructibleError:
        return
    certificate = tp.certify(loss)
    K, M = T.num_classes, T.num_weak_labels
    labels = T.encode(T.weak_labels if T.label_shape else list(range(M)))
    if certificate.witness is not None:
        t = torch.tensor([1e4, 2e4], dtype=torch.float64)
        v = t[:, None] * torch.as_tensor(certificate.witness.direction)
        falls = [float(torch.diff(loss(v, labels[[y, y]]))) / 1e4 for y in range(M)]
        assert min(falls) <= certificate.witness.slope + 1e-6 * (1 + abs(certificate.witness.slope)), (
            str(T), str(F), squeeze, certificate.witness, falls,
        )  # fmt: skip
        assert not certificate.lower_bounded
        return
    if certificate.lower_bounded:
        rays = torch.as_tensor(rng.standard_normal((50, K)))
        for y in range(M):
            far = loss(1e5 * rays, labels[y : y + 1].expand(50, *labels.shape[1:]))
            floor = float(certificate.bounds[y])
            assert float(far.min()) >= floor - 1e-6 * (1 + abs(floor)), (str(T), str(F), squeeze, y, floor, far.min())


@check
def critical_ks(rng: Rng, folder: Path) -> None:
    """The smallest k at which squeezing bounds a label's loss is the value of a linear program."""
    T = transition(rng)
    try:
        R = T.reconstruction(pick(rng, ["auto", "tightest"]))
    except tp.NotReconstructibleError:
        return
    k, K = tp.critical_k(T, R), T.num_classes
    matrix = R.matrix()
    y = int(rng.integers(T.num_weak_labels))
    r = matrix[:, y]
    # min u - l over p in the simplex, l <= r - p <= u
    c = np.r_[np.zeros(K), 1.0, -1.0]
    A = np.block([[-np.eye(K), -np.ones((K, 1)), np.zeros((K, 1))], [np.eye(K), np.zeros((K, 1)), np.ones((K, 1))]])
    bounds = [(0, None)] * K + [(None, None)] * 2
    program = linprog(c, A, np.r_[-r, r], np.r_[np.ones(K), 0.0, 0.0][None], [1.0], bounds)
    assert program.success
    size = 1 + np.abs(r).max()
    assert abs(program.fun - k[y]) <= 1e-7 * size, (str(T), y, r.tolist(), program.fun, k[y])
    for factor, bounded in ((1 + 1e-5, True), (1 - 1e-3, False)):
        if k[y] < 1e-6 or k[y] * factor < 1e-6:
            continue
        least = tp.BackwardLoss(T, squeeze=(float(k[y] * factor), 1.0), reconstruction=R).lower_bounds()[y]
        assert math.isfinite(least) == bounded, (str(T), y, k[y], factor, least)


@check
def decompositions(rng: Rng, folder: Path) -> None:
    """A T-proper table is F(v) - R^T v + Delta again, with T^T Delta = 0; another R moves only Delta."""
    T = transition(rng)
    F, _, _ = potential(rng)
    try:
        loss = tp.BackwardLoss(T, potential=F, reduction="none")
    except tp.NotReconstructibleError:
        return
    M, n = T.num_weak_labels, 4
    labels = T.encode(T.weak_labels if T.label_shape else list(range(M)))
    v = torch.as_tensor(rng.standard_normal((n, T.num_classes)))
    table = torch.stack([loss(v, labels[y : y + 1].expand(n, *labels.shape[1:])) for y in range(M)], 1).numpy()
    kernel = np.linalg.svd(T.matrix().T)[2][T.diagnose().rank :]  # rows: what T^T does not see
    table = table + rng.standard_normal((n, len(kernel))) @ kernel
    for method in ("auto", "min_variance"):
        parts = tp.decompose(table, T, method)
        size = 1 + np.abs(table).max() * (1 + np.abs(parts.reconstruction.matrix()).max())
        again = parts.potential[:, None] - parts.scores @ parts.reconstruction.matrix() + parts.delta
        assert np.abs(again - table).max() <= 1e-9 * size, (str(T), method)
        assert parts.residual <= 1e-9 * size, (str(T), method, parts.residual)
        assert np.abs(parts.scores.sum(1)).max() <= 1e-9 * size
        value, u = F.value(v).numpy(), (v - v.mean(1, keepdim=True)).numpy()
        assert np.abs(parts.scores - u).max() <= 1e-7 * size, (str(T), method)
        assert np.abs(parts.potential - value).max() <= 1e-7 * size, (str(T), method)


def some_loss(rng: Rng) -> tuple[Any, torch.Tensor, torch.Tensor] | None:
    """A loss of any kind, with scores and labels."""
    T = transition(rng)
    F, _, _ = potential(rng)
    squeeze = pick(rng, [None, None, (0.5, 1.0), (0.5, 2.0), (0.7, 1.4)])
    kind = pick(rng, ["backward", "backward", "forward", "forward", "weights", "ga", "nonnegative"])
    makers = {
        "backward": lambda: tp.BackwardLoss(T, potential=F, squeeze=squeeze),
        "weights": lambda: tp.BackwardLoss(T, potential=F, class_weights=rng.uniform(0.1, 3, T.num_classes).tolist()),
        "forward": lambda: tp.ForwardLoss(
            T,
            score=pick(rng, ["log", "brier", "spherical", "tsallis:1.5"]),
            link=pick(rng, [None, None, tp.Tsallis(0.5), tp.Brier()]),
        ),
        "ga": lambda: tp.GradientAscentLoss(T),
        "nonnegative": lambda: tp.NonNegativeLoss(T),
    }
    loss = refused(makers[kind], tp.NotReconstructibleError)
    if loss is None:
        return None
    v = torch.as_tensor(rng.standard_normal((4, T.num_classes)) * float(pick(rng, [0.1, 1, 4])))
    return loss, v, labels_of(T, rng, 4)


@check
def other_calls(rng: Rng, folder: Path) -> None:
    """Compiled, vectorised, by the solver, with ignored and weightless rows: the same loss and the same gradient."""
    drawn = some_loss(rng)
    if drawn is None:
        return
    loss, v, y = drawn
    x = v.clone().requires_grad_()
    value = loss(x, y)
    (slope,) = torch.autograd.grad(value, x)
    batch = isinstance(loss, (tp.GradientAscentLoss, tp.NonNegativeLoss))
    if rng.random() < 0.3:
        torch._dynamo.reset()
        z = v.clone().requires_grad_()
        compiled = torch.compile(loss, backend="eager", fullgraph=True)(z, y)
        assert torch.allclose(compiled, value, atol=1e-9), (str(loss), v.tolist())
        assert torch.allclose(torch.autograd.grad(compiled, z)[0], slope, atol=1e-7), (str(loss), v.tolist())
    if not batch:
        each = torch.func.vmap(torch.func.grad(lambda s, t: loss(s[None], t[None])))(v, y) / len(v)
        assert torch.allclose(each, slope, atol=1e-7), (str(loss), v.tolist(), each, slope)
        losses, slopes = loss.bind(y, dtype=v.dtype)(v)
        assert torch.allclose(losses.mean(), value, atol=1e-9), (str(loss), v.tolist())
        assert torch.allclose(slopes / len(v), slope, atol=1e-7), (str(loss), v.tolist())
    again = torch.cat([v, torch.full((1, v.shape[1]), float(pick(rng, [math.inf, math.nan, 1e300])), dtype=v.dtype)])
    labels, weights = torch.cat([y, y[:1]]), torch.tensor([1.0] * len(v) + [0.0], dtype=torch.float64)
    assert torch.allclose(loss(again, labels, weights=weights), value, atol=1e-9), (str(loss), v.tolist())


@check
def saved_losses(rng: Rng, folder: Path) -> None:
    """A loss written as JSON and read again is the same loss."""
    drawn = some_loss(rng)
    if drawn is None:
        return
    loss, v, y = drawn
    plain = refused(lambda: loss_to_dict(loss))
    if plain is None:
        return
    again = loss_from_dict(json.loads(json.dumps(plain)), loss.transition)
    assert type(again) is type(loss)
    assert torch.allclose(again(v, y), loss(v, y), rtol=1e-9, atol=1e-12), (str(loss), plain)
    assert np.allclose(again.lower_bounds(), loss.lower_bounds(), equal_nan=True), (str(loss), plain)


@check
def calibrators(rng: Rng, folder: Path) -> None:
    """Probabilities of every map: positive to underflow, summing to one, each row for itself; odd scores refused."""
    T = transition(rng)
    n, K = int(pick(rng, [2, 8, 40, 150])), T.num_classes
    y = labels_of(T, rng, n)
    s = rng.standard_normal((n, K)) * float(pick(rng, [0.01, 1, 30, 1e4]))
    method = pick(rng, ["auto", "identity", "temperature", "bias", "vector", "matrix"])
    out = refused(lambda: tp.calibrate(s, y, T, method=method), tp.NotReconstructibleError)
    if out is None:
        return
    p = out.probabilities(s)
    assert np.isfinite(p).all(), (str(T), method)
    mapped = out.scores(s)
    assert (p[mapped.max(1, keepdims=True) - mapped < 700] > 0).all(), (str(T), method)  # beyond, exp is zero
    assert np.allclose(p.sum(1), 1)
    assert np.allclose(out.probabilities(s[:1]), p[:1])
    odd = s.copy()
    odd[0, 0] = float(pick(rng, [math.nan, math.inf]))
    assert refused(lambda: out.probabilities(odd)) is None


@check
def coverage(rng: Rng, folder: Path) -> None:
    """Intervals of 95% hold the truth in at least 80% of sixty samples: below by chance once in a million."""
    K = int(rng.integers(2, 5))
    T = pick(rng, [tp.symmetric_noise(K, 0.3), tp.partial_labels(K, 0.3), tp.identity(K)])
    n = int(pick(rng, [50, 200]))
    prior, concentration = rng.dirichlet(np.full(K, 5.0)), float(pick(rng, [0.5, 3.0]))
    score = pick(rng, [tp.weak_accuracy, tp.weak_brier, tp.weak_log_loss])
    population = rng.dirichlet(concentration * K * prior, 4000) * 0.98 + 0.02 / K  # q; the class is drawn from it
    losses = {
        tp.weak_accuracy: lambda q, z: (q.argmax(1) == z).astype(float),
        tp.weak_brier: lambda q, z: ((q - np.eye(K)[z]) ** 2).sum(1),
        tp.weak_log_loss: lambda q, z: -np.log(q[np.arange(len(q)), z]),
    }[score]
    everyone = np.stack([losses(population, np.full(len(population), z)) for z in range(K)], 1)
    truth = float((population * everyone).sum(1).mean())
    held = 0
    for seed in range(60):
        q = population[rng.integers(len(population), size=n)]
        z = (q.cumsum(1) > rng.random((n, 1))).argmax(1)
        out = score(T.sample(z, seed=seed), q.argmax(1) if score is tp.weak_accuracy else q, T)
        held += out.interval[0] <= truth <= out.interval[1]
    assert held >= 48, (score.__name__, str(T), n, held)


@check
def interrupted(rng: Rng, folder: Path) -> None:
    """A command that is told to stop, at any moment: it ends soon, says so, and leaves all or nothing."""
    out = folder / "m"
    line = [sys.executable, "-m", "tproper", "train", workshop() / "t.csv", "--label", "weak", "--ignore",
            "kind,set,who,item", "--transition", "symmetric:0.2", "--out", out]  # fmt: skip
    stop = pick(rng, [signal.SIGTERM, signal.SIGINT])
    run = subprocess.Popen(
        [str(word) for word in line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
    )  # fmt: skip
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):  # it may be done before
            run.wait(timeout=float(rng.uniform(0.2, 4.0)))
        run.send_signal(stop)
        said, _ = run.communicate(timeout=120)
    finally:
        run.kill()
    assert run.returncode in (0, 75, 128 + stop, -stop), (run.returncode, said)
    assert run.returncode < 0 or "Traceback" not in said, said  # Python itself had not yet begun
    left = {p.name for p in folder.iterdir()}
    assert left <= {"m"}, left
    if "m" in left:
        tp.load(out)
