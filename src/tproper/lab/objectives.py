"""The paper's objectives on stacked scores: one number a trial, each trial with its own kind, k and alpha.

``scores`` are (S, n, K): S trials, n examples, K classes. These are the losses of ``tproper.losses``
written once more with a leading trial axis and with hyperparameters that are tensors, so that trials
with different losses share one CUDA graph; the tests hold each of them equal to the core's loss.
"""

from __future__ import annotations

import numpy as np
import torch

from tproper.lab.protocol import LOSSES

try:  # one launch instead of some sixty; exists where Triton does
    from tproper.lab import step_kernels
except ImportError:
    step_kernels = None  # type: ignore[assignment]

BC, GA, GLS, FORWARD = range(len(LOSSES))


class Objective:
    """Tables of one weak-label problem: targets R e_y and log T[y, :] for every weak label y."""

    def __init__(self, transition: np.ndarray, reconstruction: np.ndarray, device: torch.device):
        with np.errstate(divide="ignore"):
            log_t = np.log(transition)  # -inf where a label is impossible, as logsumexp wants it
        self.log_transition = torch.tensor(log_t, dtype=torch.float32, device=device)  # (M, K)
        self.targets = torch.tensor(reconstruction.T, dtype=torch.float32, device=device)  # (M, K)

    def __call__(
        self,
        scores: torch.Tensor,  # (S, n, K)
        labels: torch.Tensor,  # (S, n) weak labels
        kind: torch.Tensor,  # (S,) index into LOSSES
        k: torch.Tensor,  # (S,)
        alpha: torch.Tensor,  # (S,)
    ) -> torch.Tensor:
        """The batch risk of every trial.  # (S,)

        * bc: ``F(v) - <r, v>`` with ``F = logsumexp`` and ``r = R e_y``;
        * gls: bc plus ``k/2 sum_z |v_z - mean v|^alpha``;
        * ga: ``sum_z | mean_i( -r_iz log p_iz ) |``, p = softmax(v);
        * forward: ``-log (T p)_y = logsumexp(v) - logsumexp_z(v_z + log T[y, z])``.
        """
        target = self.targets[labels]
        log_p = torch.log_softmax(scores, dim=-1)
        by_class = -target * log_p  # sum r = 1, so the sum over z is F(v) - <r, v>
        centred = scores - scores.mean(dim=-1, keepdim=True)
        squeeze = (k[:, None, None] / 2 * centred.abs() ** alpha[:, None, None]).sum(dim=-1)
        backward = (by_class.sum(dim=-1) + squeeze).mean(dim=1)
        ascent = by_class.mean(dim=1).abs().sum(dim=-1)
        forward = -torch.logsumexp(log_p + self.log_transition[labels], dim=-1).mean(dim=1)
        return torch.where(kind == GA, ascent, torch.where(kind == FORWARD, forward, backward))

    def with_gradient(
        self, scores: torch.Tensor, labels: torch.Tensor, kind: torch.Tensor, k: torch.Tensor, alpha: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The batch risk of every trial, and its gradient with respect to the scores.  # (S,), (S, n, K)"""
        if scores.is_cuda and step_kernels is not None and scores.shape[1] <= step_kernels.LARGEST_BATCH:
            tables = (self.targets, self.log_transition)
            return step_kernels.objective(scores.contiguous(), labels, *tables, kind, k, alpha)
        with torch.enable_grad():
            scores = scores.detach().requires_grad_()
            risk = self(scores, labels, kind, k, alpha)
            (gradient,) = torch.autograd.grad(risk.sum(), scores)
        return risk.detach(), gradient
