"""Tools of scikit-learn that mistake weak labels for classes.

An estimator has no hook to refuse them, and no tag says "y does not hold classes" (scikit-learn 1.9): the callers are
recognised, and the user is warned.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

from .._core import warn
from ..transitions import Transition
from .linear import is_clean

# modules whose estimators compare scores with the labels of the fit, and functions that score what they fitted
LEARNERS = {
    "sklearn.calibration": "CalibratedClassifierCV",
    "sklearn.ensemble._stacking": "StackingClassifier",
    "sklearn.ensemble._weight_boosting": "AdaBoostClassifier",
    "sklearn.multiclass": "a classifier of sklearn.multiclass",
    "sklearn.semi_supervised._self_training": "SelfTrainingClassifier",
}
THRESHOLDS = "_fit_and_score_over_thresholds"  # of TunedThresholdClassifierCV; a fixed threshold compares nothing
SCORING = ("_score", "_permutation_test_score")


class WeakLabelsAsClassesWarning(UserWarning):
    """Weak labels are about to be compared with classes."""


def warn_in_fit(transition: Transition) -> None:
    """`CalibratedClassifierCV` and its like learn a map from scores to the labels that they are given."""
    frames = list(callers())
    modules = {frame.f_globals.get("__name__") for frame in frames}
    tool = next((name for module, name in LEARNERS.items() if module in modules), None)
    if any(frame.f_code.co_name == THRESHOLDS for frame in frames):
        tool = "TunedThresholdClassifierCV"
    if not is_clean(transition) and tool is not None:
        warn(
            f"{tool} takes the weak labels for classes, which ruins probabilities; the classifier "
            "calibrates itself (calibrate='auto'), and tproper.calibrate calibrates any model by weak labels",
            WeakLabelsAsClassesWarning,
        )


def warn_in_predict(transition: Transition) -> None:
    """Named scorers (``scoring="accuracy"``) in cross-validation compare predictions with the labels of the fit.

    `CalibratedClassifierCV` around a ``FrozenEstimator`` never fits: it predicts, and may have clean labels of its own.
    """
    if is_clean(transition):
        return
    scorer = validation = False
    for frame in callers():
        module, owner = frame.f_globals.get("__name__"), frame.f_locals.get("self")
        if module == "sklearn.calibration" and frame.f_code.co_name == "fit" and _is_frozen(owner):
            warn(
                "CalibratedClassifierCV takes the labels it is given for classes: clean ones are right, weak ones ruin "
                "probabilities; tproper.calibrate calibrates by weak labels",
                WeakLabelsAsClassesWarning,
            )
            return
        scorer |= module == "sklearn.metrics._scorer" and hasattr(owner, "_score_func")
        validation |= module == "sklearn.model_selection._validation" and frame.f_code.co_name in SCORING
    if scorer and validation:
        warn(
            "this scoring compares predicted classes with weak labels as if they were classes; leave `scoring` out "
            "(accuracy from weak labels), or use tproper.calibrated_scorer() or tproper.weak_scorer",
            WeakLabelsAsClassesWarning,
        )


def _is_frozen(tool: object) -> bool:
    return type(getattr(tool, "estimator", None)).__name__ == "FrozenEstimator"


def callers() -> Iterator[FrameType]:
    """The calls that led to the function that asks, from its caller on outwards."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back
