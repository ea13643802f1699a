# mypy: allow-untyped-defs
# (a Triton kernel's parameters are pointers and device values, for which there are no Python types)
"""Triton kernels for what surrounds the model in a step: crops, objective, optimiser.

Each replaces a chain of small PyTorch launches, which would cost more than the arithmetic in them; the
plain formulations in ``engine``, ``objectives`` and ``randomness`` are what the tests hold them to.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from .compiling import launch
from .protocol import LOSSES
from .randomness import CROP, GOLDEN, MIX_A, MIX_B

_GOLDEN, _MIX_A, _MIX_B = tl.constexpr(GOLDEN), tl.constexpr(MIX_A), tl.constexpr(MIX_B)
GA, FORWARD = tl.constexpr(LOSSES.index("ga")), tl.constexpr(LOSSES.index("forward"))
LARGEST_BATCH = 1024  # one program holds a trial's batch of scores in registers


@triton.jit
def _shift(x, bits: tl.constexpr):
    """Logical right shift of int64."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


@triton.jit
def _mix(x):
    """``randomness.mix``."""
    x = x + _GOLDEN
    x = (x ^ _shift(x, 30)) * _MIX_A
    x = (x ^ _shift(x, 27)) * _MIX_B
    return x ^ _shift(x, 31)


@triton.jit
def _crop(
    images, out, index, seeds, epochs, scale, shift, batch,
    H: tl.constexpr, W: tl.constexpr, C: tl.constexpr, PAD: tl.constexpr, PURPOSE: tl.constexpr,
    CHANNELS: tl.constexpr, PIXELS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """One image: drawn crop and flip if PAD > 0, scaled, channels filled up with zeros to CHANNELS."""
    s = tl.program_id(1)
    at = s * batch + tl.program_id(0)
    image = tl.load(index + at)
    p = tl.arange(0, PIXELS)
    c = tl.arange(0, WIDTH)  # the power of two that holds CHANNELS
    row = p // W
    col = p % W
    if PAD > 0:
        state = _mix(_mix(tl.load(seeds + s)) ^ (tl.load(epochs + s) * 4 + PURPOSE))
        draw = _shift(_mix(state ^ image), 1)
        sides: tl.constexpr = 2 * PAD + 1
        flip = (draw // (sides * sides)) % 2
        row = draw % sides + row
        col = (draw // sides) % sides + tl.where(flip == 1, W - 1 - col, col)
    real = (p < H * W)[:, None] & (c < C)[None, :]
    place = (image * ((H + 2 * PAD) * (W + 2 * PAD)) + row * (W + 2 * PAD) + col) * C
    value = tl.load(images + place[:, None] + c[None, :], mask=real, other=0).to(tl.float32)
    by = tl.load(scale + c, mask=c < C, other=0.0)
    plus = tl.load(shift + c, mask=c < C, other=0.0)
    value = value * by[None, :] + plus[None, :]
    to = at.to(tl.int64) * (H * W * CHANNELS) + p[:, None] * CHANNELS + c[None, :]
    tl.store(out + to, value.to(out.dtype.element_ty), mask=(p < H * W)[:, None] & (c < CHANNELS)[None, :])


@triton.jit
def _objective(
    scores, labels, targets, log_transition, kind, k, alpha, risk, slope, n,
    K: tl.constexpr, CLASSES: tl.constexpr, BATCH: tl.constexpr,
):  # fmt: skip
    """A trial's batch risk and its gradient with respect to the scores; see ``Objective``."""
    s = tl.program_id(0)
    i = tl.arange(0, BATCH)
    z = tl.arange(0, CLASSES)
    live = i < n
    ok = live[:, None] & (z < K)[None, :]
    at = (s * n + i)[:, None] * K + z[None, :]
    v = tl.load(scores + at, mask=ok, other=0.0)
    y = tl.load(labels + s * n + i, mask=live, other=0)
    from_table = y[:, None] * K + z[None, :]
    r = tl.load(targets + from_table, mask=ok, other=0.0)
    what = tl.load(kind + s)

    low = tl.where(ok, v, float("-inf"))
    top = tl.where(live, tl.max(low, 1), 0.0)
    e = tl.exp(low - top[:, None])
    total = tl.where(live, tl.sum(e, 1), 1.0)
    p = e / total[:, None]
    log_p = tl.where(ok, v - top[:, None] - tl.log(total)[:, None], 0.0)
    by_class = -r * log_p
    if what == FORWARD:  # the target is the posterior q of the class given the weak label
        joint = log_p + tl.load(log_transition + from_table, mask=ok, other=float("-inf"))
        joint = tl.where(ok, joint, float("-inf"))
        most = tl.where(live, tl.max(joint, 1), 0.0)
        q = tl.exp(joint - most[:, None])
        mass = tl.where(live, tl.sum(q, 1), 1.0)
        value = -tl.sum(tl.where(live, most + tl.log(mass), 0.0), 0) / n
        g = p - q / mass[:, None]
    elif what == GA:  # the absolute value of every class's mean: its sign multiplies that class's part
        each = tl.sum(by_class, 0) / n
        value = tl.sum(tl.abs(each), 0)
        sign = tl.where(each > 0, 1.0, tl.where(each < 0, -1.0, 0.0))
        w = sign[None, :] * r
        g = p * tl.sum(w, 1)[:, None] - w
    else:
        a = tl.load(alpha + s)
        half = tl.load(k + s) / 2
        mean = tl.sum(v, 1) / K
        u = tl.where(ok, v - mean[:, None], 0.0)
        size = tl.abs(u)
        bent = tl.where(size > 0, tl.exp2((a - 1.0) * tl.log2(tl.where(size > 0, size, 1.0))), 0.0)
        value = tl.sum(tl.sum(by_class + half * bent * size, 1), 0) / n
        pull = tl.where(u > 0, bent, -bent)
        tilt = tl.sum(pull, 1) / K
        g = p * tl.sum(r, 1)[:, None] - r + half * a * (pull - tilt[:, None])
    tl.store(risk + s, value)
    tl.store(slope + at, g / n, mask=ok)


@triton.jit
def _nesterov(p, v, g, decays, lr, weight_decay, momentum, size, BLOCK: tl.constexpr):
    s = tl.program_id(1)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = s.to(tl.int64) * size + i
    weight = tl.load(p + at, mask=inside)
    grad = tl.load(g + at, mask=inside)
    grad += tl.load(weight_decay + s) * tl.load(decays + i, mask=inside) * weight
    velocity = momentum * tl.load(v + at, mask=inside) + grad
    tl.store(v + at, velocity, mask=inside)
    tl.store(p + at, weight - tl.load(lr + s) * (grad + momentum * velocity), mask=inside)


# --- launches -----------------------------------------------------------------------------------


def crop(
    images: torch.Tensor,  # (N, H + 2 pad, W + 2 pad, C) uint8
    index: torch.Tensor,  # (S, n)
    seeds: torch.Tensor,  # (S,)
    epochs: torch.Tensor,  # (S,)
    scale: torch.Tensor,  # (C,)
    shift: torch.Tensor,  # (C,)
    pad: int,
    channels: int,
    dtype: torch.dtype,
) -> torch.Tensor:
    """Inputs as ``Pixels.batch`` makes them, with channels of zeros added."""
    (trials, n), (_, high, wide, given) = index.shape, images.shape
    h, w = high - 2 * pad, wide - 2 * pad
    out = torch.empty(trials, n, h, w, channels, dtype=dtype, device=images.device)
    launch(
        _crop, (n, trials), images, out, index, seeds, epochs, scale, shift, n,
        h, w, given, pad, CROP, channels, triton.next_power_of_2(h * w), triton.next_power_of_2(channels), num_warps=8,
    )  # fmt: skip
    return out


def objective(
    scores: torch.Tensor,  # (S, n, K) float32, contiguous
    labels: torch.Tensor,  # (S, n)
    targets: torch.Tensor,  # (M, K)
    log_transition: torch.Tensor,  # (M, K)
    kind: torch.Tensor,  # (S,)
    k: torch.Tensor,  # (S,)
    alpha: torch.Tensor,  # (S,)
) -> tuple[torch.Tensor, torch.Tensor]:
    """The batch risk of every trial (S,) and its gradient (S, n, K), for n up to ``LARGEST_BATCH``."""
    trials, n, classes = scores.shape
    risk, slope = scores.new_empty(trials), torch.empty_like(scores)
    launch(
        _objective, (trials,), scores, labels, targets, log_transition, kind, k, alpha, risk, slope, n,
        classes, triton.next_power_of_2(classes), triton.next_power_of_2(n), num_warps=8,
    )  # fmt: skip
    return risk, slope


def nesterov(
    weights: torch.Tensor,  # (S, P), updated
    velocity: torch.Tensor,  # (S, P), updated
    gradient: torch.Tensor,  # (S, P)
    decays: torch.Tensor,  # (P,) 1 where weight decay acts
    lr: torch.Tensor,  # (S,)
    weight_decay: torch.Tensor,  # (S,)
    momentum: float,
) -> None:
    """One step of SGD with Nesterov momentum for every trial, in one pass over memory."""
    trials, size = weights.shape
    grid = (triton.cdiv(size, 1024), trials)
    launch(_nesterov, grid, weights, velocity, gradient, decays, lr, weight_decay, momentum, size, BLOCK=1024)
