"""The loss of pairs of examples, of which a relation of the two classes is known."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, Labels, checks
from ..errors import InputError
from ..transitions import PairKernel, SoftLabels
from .base import JointLoss, Reduction, reduce


class PairLoss(JointLoss):
    """The forward loss of pairs: ``-log P(y | x, x')`` with ``P(y | x, x') = p' W_y p'' / sum_y p' W_y p''``.

    Called as ``loss(first, second, labels, weights=None)`` with scores (n, K) of both members, p' and p'' their
    softmax. It is the log score of the label's distribution, so its mean is least at the class probabilities of x and
    x', for every kernel (they are independent given which pair was drawn). They are found up to
    `PairKernel.symmetries`. Bounded by ``-log max_zz' W_y[z, z'] / sum_y W_y[z, z']``, the largest that a ratio of both
    sums can be. `SoftLabels` (a confidence that the two are similar) have the mean of the labels' losses.

    Parameters
    ----------
    kernel : PairKernel
        The weights W_y; see `pairs`.
    reduction : "mean", "sum" or "none"
        How the losses of a batch become one number.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.PairLoss(tp.pairs("similarity", K=3))
    >>> round(loss(torch.zeros(1, 3), torch.zeros(1, 3), [0]).item(), 4)  # log 3
    1.0986
    """

    def __init__(self, kernel: PairKernel, reduction: Reduction = "mean") -> None:
        if not isinstance(kernel, PairKernel):
            raise InputError(f"kernel: expected a tproper.PairKernel, got {type(kernel).__name__}")
        super().__init__(kernel.num_classes, reduction)
        self.kernel = kernel
        scale = kernel.weights.sum(axis=0).max()
        with np.errstate(divide="ignore"):
            self.register_buffer("log_weights", torch.as_tensor(np.log(kernel.weights / scale)))

    def log_probability(self, first: Tensor, second: Tensor) -> Tensor:
        """``log P(y | x, x')`` (n, L) of all labels."""
        a, b = (torch.log_softmax(checks.scores(v, self.num_classes), -1) for v in (first, second))
        if a.shape != b.shape:
            raise InputError(f"second: expected scores of shape {tuple(a.shape)}, as the first, got {tuple(b.shape)}")
        W: Tensor = self.log_weights.to(a)  # type: ignore[assignment]
        joint = a[..., :, None] + b[..., None, :]  # (n, K, K)
        mass = torch.stack([_log_sum(joint + w) for w in W], -1)
        return mass - torch.logsumexp(mass, -1, keepdim=True)

    def forward(self, first: Tensor, second: Tensor, labels: Labels, weights: Tensor | None = None) -> Tensor:
        """The reduced loss of a batch of pairs."""
        log_q = self.log_probability(first, second)
        if isinstance(labels, SoftLabels):
            s = labels.tensor.to(log_q)
            if s.shape != log_q.shape:
                raise InputError(f"labels: expected shares {tuple(log_q.shape)}, got {tuple(s.shape)}")
            losses = -torch.where(s > 0, s * log_q, 0.0).sum(-1)
        else:
            y = torch.as_tensor(self.kernel.encode(labels), device=log_q.device)
            checks.same_leading_shape(first, y)
            losses = -log_q.gather(-1, y[..., None])[..., 0]
        if weights is not None:
            weights = checks.example_weights(weights, losses, True)
        return reduce(losses, self.reduction, weights)

    def lower_bounds(self) -> FloatArray:
        """The greatest lower bound for each label, reached in the limit of two classes that are certain."""
        W = self.kernel.weights
        return np.asarray(-np.log((W / W.sum(axis=0)).max(axis=(1, 2))) + 0.0)

    def extra_repr(self) -> str:
        """For printing the module."""
        return self.kernel.name


def _log_sum(x: Tensor) -> Tensor:
    """logsumexp over the last two axes, with a finite slope where all are -inf."""
    flat = x.flatten(-2)
    top = flat.amax(-1, keepdim=True).detach()
    top = torch.where(top.isneginf(), 0.0, top)
    return (flat - top).exp().sum(-1).log() + top[..., 0]
