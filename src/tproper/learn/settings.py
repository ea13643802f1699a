"""The settings of a classifier that can be judged before any data are seen."""

from __future__ import annotations

from typing import Any

from .._core import checks
from .calibrator import method_of
from .modules import flag


def check_settings(clf: Any) -> None:
    """Refuse what no data could make right."""
    if not (isinstance(clf.l2, str) and clf.l2 == "auto"):
        checks.real(clf.l2, "l2", 0)
    checks.real(clf.tol, "tol", 0)
    if not (isinstance(clf.learning_rate, str) and clf.learning_rate == "auto"):
        checks.real(clf.learning_rate, "learning_rate", 0, low_open=True)
    checks.real(clf.validation_fraction, "validation_fraction", 0, 0.9, low_open=True)
    for name in ("max_iter", "epochs", "patience"):
        checks.integer(getattr(clf, name), name, 1)
    if clf.batch_size != "auto":
        checks.integer(clf.batch_size, "batch_size", 1)
    if flag(clf.early_stopping) not in (True, False, "auto"):
        raise ValueError(f"early_stopping: expected True, False or 'auto', got {clf.early_stopping!r}")
    method_of(clf.calibrate)
    if not callable(clf.model) and clf.model not in ("linear", "mlp"):
        raise ValueError(f"model: expected 'linear', 'mlp' or a callable, got {clf.model!r}")
