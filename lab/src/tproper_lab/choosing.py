"""Which epoch to keep: the calibrated risk of held-out weak labels, for a stack of trials at once.

The raw weak risk calls a better model worse for being too sure of itself. So every epoch's scores are first scaled by
one temperature, fitted to the same labels, and epochs and learning rates are compared by ``mean -log (T p)_y`` after
that. It is what `tproper.learn` does for one model (a test holds it to that), on the device and with a trial axis.

The least of sixty noisy risks is partly luck. The epoch that is kept is therefore the last one whose risk exceeds the
least by no more than one standard error of their difference over the held-out rows (`tproper.learn.not_clearly_worse`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tproper.losses import ForwardLoss
from tproper.solvers import LOG_SCALES, not_clearly_worse
from tproper.transitions import Transition

GOLDEN = (5**0.5 - 1) / 2
STEPS = 22  # of golden section: the log-scale is then known to 5e-5, the risk far better


class WeakRisk:
    """``-log (T softmax(e^a v))_y`` on held-out rows, at the log-scale a that suits each trial best."""

    def __init__(self, transition: Transition, device: torch.device):
        self.loss = ForwardLoss(transition, validate=False).to(device)

    def at(self, scores: Tensor, labels: Tensor, log_scale: Tensor) -> Tensor:
        """Risks (S, n) of centred scores (S, n, K) at log-scales (S,)."""
        scaled = log_scale.exp()[:, None, None] * scores
        return self.loss.per_example(scaled, labels)

    @torch.no_grad()
    def calibrated(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Risks (S, n) of scores (S, n, K) after one temperature per trial; nan where scores are not finite."""
        v = scores.double()
        v = v - v.mean(dim=-1, keepdim=True)

        def objective(a: Tensor) -> Tensor:
            return self.at(v, labels, a).mean(dim=1)

        grid = [torch.full((len(v),), float(a), dtype=v.dtype, device=v.device) for a in LOG_SCALES]
        step = float(LOG_SCALES[1] - LOG_SCALES[0])
        first = torch.stack([objective(a) for a in grid]).argmin(dim=0)
        centre = torch.stack(grid).gather(0, first[None])[0]
        low, high = centre - step, centre + step
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        at_left, at_right = objective(left), objective(right)
        for _ in range(STEPS):
            down = at_left <= at_right  # the minimum lies in [low, right]
            low, high = torch.where(down, low, left), torch.where(down, right, high)
            new = torch.where(down, high - GOLDEN * (high - low), low + GOLDEN * (high - low))
            value = objective(new)
            left, right = torch.where(down, new, right), torch.where(down, left, new)
            at_left, at_right = torch.where(down, value, at_right), torch.where(down, at_left, value)
        return self.at(v, labels, (low + high) / 2)


def compare(rows: Tensor, least: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """An epoch's mean risks (S,), whether it is to be kept (S,), and the rows (S, n) of the least risk from now on."""
    risk = rows.mean(dim=1)
    falls = risk < least.mean(dim=1)  # never true of nan
    keeps = falls | not_clearly_worse(rows, least)
    return risk, keeps, torch.where(falls[:, None], rows, least)
