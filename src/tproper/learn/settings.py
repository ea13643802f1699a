"""The settings of a classifier that can be judged before any data are seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import checks
from ..errors import InputError
from .calibrator import method_of
from .modules import flag

Names: TypeAlias = Sequence[Any] | NDArray[Any] | None
MODELS = ("linear", "mlp", "boosting")
Weights: TypeAlias = ArrayLike | None


def check_settings(clf: Any) -> None:
    """Refuse what no data could make right."""
    if not _is_auto(clf.l2):
        checks.real(clf.l2, "l2", 0)
    checks.real(clf.tol, "tol", 0)
    if not _is_auto(clf.learning_rate):
        checks.real(clf.learning_rate, "learning_rate", 0, low_open=True)
    checks.real(clf.validation_fraction, "validation_fraction", 0, 0.9, low_open=True)
    for name in ("max_iter", "epochs", "patience"):
        checks.integer(getattr(clf, name), name, 1)
    if not _is_auto(clf.batch_size):
        checks.integer(clf.batch_size, "batch_size", 1)
    if not _is_auto(clf.max_leaves):
        checks.integer(clf.max_leaves, "max_leaves", 2)
    if flag(clf.early_stopping) not in (True, False, "auto"):
        raise InputError(f"early_stopping: expected True, False or 'auto', got {clf.early_stopping!r}")
    if flag(clf.warm_start) not in (True, False):
        raise InputError(f"warm_start: expected True or False, got {clf.warm_start!r}")
    if flag(clf.warm_start) is True and clf.model == "boosting":
        raise InputError("warm_start: expected False with model='boosting', whose trees are grown afresh, got True")
    check_verbose(clf.verbose)
    method_of(clf.calibrate)
    if not callable(clf.model) and not (isinstance(clf.model, str) and clf.model in MODELS):
        raise InputError(f"model: expected 'linear', 'mlp', 'boosting' or a callable, got {checks.short(clf.model)}")


def check_verbose(value: Any) -> None:
    """A number of how much to log, True and False counting as 1 and 0; or what is told the share that is done."""
    if callable(value):
        return
    checks.integer(int(value) if isinstance(value, (bool, np.bool_)) else value, "verbose", 0)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
