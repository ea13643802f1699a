"""How good probabilities are when the true labels are known: accuracy, log loss, Brier, calibration."""

from __future__ import annotations

import torch

BINS = 15
FLOOR = 2.0**-24  # float32's resolution below one


def accuracy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Share of examples whose largest score is the true class.  # (..., n, K), (..., n) -> (...)"""
    return (scores.argmax(dim=-1) == labels).double().mean(dim=-1)


def calibration_error(probabilities: torch.Tensor, labels: torch.Tensor, bins: int = BINS) -> float:
    """Expected calibration error of the top class: ``sum_b |B_b|/n |acc(B_b) - conf(B_b)|``."""
    confidence, predicted = probabilities.double().max(dim=-1)
    correct = (predicted == labels).double()
    place = (confidence * bins).ceil().long().sub(1).clamp(0, bins - 1)
    gap = torch.zeros(bins, dtype=torch.float64, device=place.device)
    gap.index_add_(0, place, correct - confidence)
    return float(gap.abs().sum() / len(labels))


def probability_scores(probabilities: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """Log loss, Brier score and calibration error of (n, K) probabilities.

    In the log loss a probability below ``FLOOR`` counts as ``FLOOR``, and ``zeros`` says how many true classes that
    met: there the log loss is only a lower bound, and infinite where a projected link says exactly zero.
    """
    p = probabilities.double()
    true = p.gather(-1, labels[:, None]).squeeze(-1)
    one_hot = torch.nn.functional.one_hot(labels, p.shape[-1])
    return {
        "log_loss": float(-true.clamp_min(FLOOR).log().mean()),
        "brier": float(((p - one_hot) ** 2).sum(dim=-1).mean()),
        "ece": calibration_error(p, labels),
        "zeros": int((true < FLOOR).sum()),
    }
