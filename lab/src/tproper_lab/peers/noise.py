"""Losses for noisy labels that use no T: cross entropy and its robust relatives.

Every function is ``(scores (S, n, K), labels (S, n)) -> (S, n)``, p = softmax(scores), y the noisy label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from tproper.errors import InputError

from ..methods import Method, pointwise, register
from .complementary import at

NOISY = ("noisy",)
LOG_OF_ZERO = -4.0  # what symmetric cross entropy takes log 0 to be


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    """``-log p_y``: the label is taken at its word."""
    return -at(torch.log_softmax(scores, -1), labels)


def smoothed(rate: float, scores: Tensor, labels: Tensor) -> Tensor:
    """Generalised label smoothing, ``(1 - r) l_y + r mean_z l_z``, l_z = -log p_z (Wei et al. 2022).

    r > 0 is label smoothing (Szegedy et al. 2016), r < 0 negative label smoothing, which is not bounded from below.
    """
    log_p = torch.log_softmax(scores, -1)
    return -(1 - rate) * at(log_p, labels) - rate * log_p.mean(-1)


def symmetric(alpha: float, beta: float, scores: Tensor, labels: Tensor) -> Tensor:
    """SCE: ``alpha (-log p_y) + beta (-A) (1 - p_y)``, A = -4 for log 0 (Wang et al. 2019).

    The second term is the reverse cross entropy ``-sum_z p_z log e_y(z)``.
    """
    log_p = at(torch.log_softmax(scores, -1), labels)
    return -alpha * log_p + beta * LOG_OF_ZERO * torch.expm1(log_p)


def generalised(q: float, scores: Tensor, labels: Tensor) -> Tensor:
    """GCE: ``(1 - p_y^q) / q``: cross entropy as q -> 0, 1 - p_y at q = 1 (Zhang & Sabuncu 2018)."""
    return -torch.expm1(q * at(torch.log_softmax(scores, -1), labels)) / q


def _numbers(name: str, text: str, form: str, count: int, good: Callable[..., bool]) -> list[float]:
    """The settings of a name, or an error that shows how they are written."""
    try:
        values = [float(x) for x in text.split(",")]
    except ValueError:
        values = []
    if len(values) != count or not good(*values):
        raise InputError(f"method: expected {form}, got '{name}:{text}'")
    return values


WEI = "Wei, Liu, Liu, Niu, Sugiyama & Liu 2022, ICML"


def smoothing(text: str) -> Method:
    """``ls:r`` with 0 <= r <= 1."""
    (r,) = _numbers("ls", text, "ls:r with 0 <= r <= 1, as in 'ls:0.2'", 1, lambda r: 0 <= r <= 1)
    return pointwise("ls", f"label smoothing {r:g}", WEI, NOISY, partial(smoothed, r))


def negative_smoothing(text: str) -> Method:
    """``nls:r`` with r < 0."""
    (r,) = _numbers("nls", text, "nls:r with r < 0, as in 'nls:-0.4'", 1, lambda r: -100 <= r < 0)
    return pointwise("nls", f"negative label smoothing {r:g}", WEI, NOISY, partial(smoothed, r))


def symmetric_cross_entropy(text: str) -> Method:
    """``sce:alpha,beta``, both positive."""
    form = "sce:alpha,beta with both > 0, as in 'sce:0.1,1'"
    a, b = _numbers("sce", text, form, 2, lambda a, b: 0 < a < 1e6 and 0 < b < 1e6)
    title = f"SCE (alpha = {a:g}, beta = {b:g})"
    return pointwise("sce", title, "Wang, Ma, Chen, Luo, Yi & Bailey 2019, ICCV", NOISY, partial(symmetric, a, b))


def generalised_cross_entropy(text: str) -> Method:
    """``gce:q`` with 0 < q <= 1."""
    (q,) = _numbers("gce", text, "gce:q with 0 < q <= 1, as in 'gce:0.7'", 1, lambda q: 0 < q <= 1)
    return pointwise("gce", f"GCE (q = {q:g})", "Zhang & Sabuncu 2018, NeurIPS", NOISY, partial(generalised, q))


register(pointwise("ce", "cross entropy", "labels taken at their word", NOISY, cross_entropy))
register(replace(smoothing("0.2"), settings=smoothing))
register(replace(negative_smoothing("-0.4"), settings=negative_smoothing))
register(replace(symmetric_cross_entropy("0.1,1"), settings=symmetric_cross_entropy))
register(replace(generalised_cross_entropy("0.7"), settings=generalised_cross_entropy))
