"""The minimum of a convex function known by values and subgradients alone, where Newton's method has no footing.

The ellipsoid method with deep cuts (Shor 1977; Bland, Goldfarb and Todd 1981): an ellipsoid that holds the minimiser is
cut along a subgradient through its centre, and replaced by the smallest one around what is left. It shrinks at a rate
that does not depend on the function, kinks or not, and says how far from the minimum its best point can be.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, centre, centred_basis

MOST_CLASSES = 16  # steps grow with the square of the classes: about 10,000 here
GAP = 1e-12  # relative
RADII = (1.0, 30.0, 1e3, 3e4)  # of the balls that are tried, around the first guess


def ellipsoid_minimiser(F: Callable[[Tensor], Tensor], q: Tensor, guess: Tensor) -> tuple[Tensor, Tensor]:
    """The centred v (B, K) that minimise ``F(v) - <q, v>``, F convex, and how far above the minimum they may be.

    The bound is relative, and infinite where the minimiser is beyond all the balls, or above `MOST_CLASSES` classes.
    The least value within a ball is the least of all if it is attained inside: the function is convex.
    """
    v, gap = centre(guess.nan_to_num(0.0, 0.0, 0.0)), torch.full_like(guess[:, 0], math.inf)
    if guess.shape[-1] > MOST_CLASSES:
        return v, gap
    for radius in RADII:
        rest = (~(gap <= GAP)).nonzero()[:, 0]
        if not len(rest):
            break
        at, bound = _in_ball(F, q[rest], v[rest], radius)
        inside = (at - v[rest]).square().sum(-1).sqrt() < 0.99 * radius
        v[rest], gap[rest] = at, torch.where(inside, bound, math.inf)
    return v, gap


def _in_ball(F: Callable[[Tensor], Tensor], q: Tensor, middle: Tensor, radius: float) -> tuple[Tensor, Tensor]:
    """The best point of a ball around `middle`, and the relative bound on what could be better there.

    Thousands of steps on tiny matrices: NumPy takes half of torch's time for each.
    """
    B, K = middle.shape
    n = K - 1
    basis = centred_basis(K)
    x = middle.detach().numpy() @ basis  # the centre of the ellipsoid (x - c)^T P^-1 (x - c) <= 1
    P = np.broadcast_to(radius**2 * np.eye(n), (B, n, n))
    best, point, floor = np.full(B, math.inf), x, np.full(B, -math.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        for _ in range(int(2 * n * (n + 1) * math.log(radius / GAP)) + 50):
            f, g = _value_and_slope(F, q, x @ basis.T)
            g = g @ basis
            reach = (P @ g[..., None])[..., 0]
            width = np.sqrt(np.maximum((g * reach).sum(-1), 0))  # no point of the ellipsoid is lower than f - width
            floor = np.fmax(floor, np.where(np.isfinite(f), f - width, -math.inf))  # beyond F's domain nothing is known
            better = f < best
            best, point = np.where(better, f, best), np.where(better[:, None], x, point)
            if (best - floor <= GAP * (1 + np.abs(best))).all():
                break
            going = width > 0
            length = np.where(going, width, 1.0)
            b = reach / length[:, None]
            depth = np.clip(np.where(going, (f - best) / length, 0.0), 0, 0.999)
            x = x - np.where(going, (1 + n * depth) / (n + 1), 0.0)[:, None] * b
            smaller = ((1 - depth) * n / (n + 1)) ** 2  # of the axis along the cut; the others grow a little
            larger = (1 - depth**2) * n**2 / (n**2 - 1) if n > 1 else np.ones_like(depth)
            cut = larger[:, None, None] * P + (smaller - larger)[:, None, None] * b[:, :, None] * b[:, None, :]
            P = np.where(going[:, None, None], (cut + cut.swapaxes(1, 2)) / 2, P)
        gap = np.abs(best - floor) / (1 + np.abs(best))  # below zero it is rounding, and as large as it says
    return torch.as_tensor(point @ basis.T), torch.as_tensor(gap)


def _value_and_slope(F: Callable[[Tensor], Tensor], q: Tensor, v: FloatArray) -> tuple[FloatArray, FloatArray]:
    with torch.enable_grad():
        x = torch.as_tensor(v).requires_grad_()
        f = F(x) - (q * x).sum(-1)
        (g,) = torch.autograd.grad(f.sum(), x)
    return f.detach().numpy(), g.numpy()
