"""How good probabilities are when the true labels are known: accuracy, log loss, Brier, calibration."""

from __future__ import annotations

import torch

from ..metrics import clean_scores

FLOOR = 2.0**-24  # float32's resolution below one


def accuracy(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Share of examples whose largest score is the true class.  # (..., n, K), (..., n) -> (...)"""
    return (scores.argmax(dim=-1) == labels).double().mean(dim=-1)


def probability_scores(probabilities: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    """Log loss, Brier score and calibration error of (n, K) probabilities.

    In the log loss a probability below ``FLOOR`` counts as ``FLOOR``, and ``zeros`` says how many true classes that
    met: there the log loss is only a lower bound, and infinite where a projected link says exactly zero. Probabilities
    that are not finite have no scores.
    """
    scores = clean_scores(labels, probabilities, floor=FLOOR)
    return {name: scores[name] for name in ("log_loss", "brier", "ece", "zeros")}
