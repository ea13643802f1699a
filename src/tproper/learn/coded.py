"""Labels that a tool of scikit-learn has numbered before it fits a classifier to them.

`VotingClassifier`, `BaggingClassifier`, `StackingClassifier` and `cross_val_predict` (of probabilities) number the
labels that they see in sorted order. A T whose columns differ needs the labels themselves: the numbers may be another
order of its rows, and are one where a label does not occur. The tools are recognised among the callers, as in `misuse`;
in another process or thread (``n_jobs``) they are not.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..transitions import UniformTransition, make_transition, positive_unlabeled
from . import labels as _labels
from .estimating import asks_for_estimate
from .misuse import callers

ENSEMBLES = ("sklearn.ensemble._bagging", "sklearn.ensemble._stacking", "sklearn.ensemble._voting")


def check_codes(transition: Any, classes: Any) -> None:
    """Refuse numbers that would not be read as the labels they stand for."""
    tool, labels = _numbered()
    if labels is None or (labels.dtype.kind in "iuf" and np.array_equal(labels, np.arange(len(labels)))):
        return
    if labels.ndim == 2:
        _check_columns(tool, labels, transition)
        return
    if asks_for_estimate(transition):
        if isinstance(transition, str) or transition[1].get("kind") != "pu":
            return  # T comes from the numbers, too
        transition = positive_unlabeled(1.0)
    T, names = _labels.resolve(labels, transition, classes)
    own, codes = _labels.rows_of(labels, T, names), np.arange(len(labels))
    read = _labels.rows_of(codes, *_labels.resolve(codes, transition, classes))
    if np.array_equal(own, read) or (isinstance(T, UniformTransition) and len(own) == T.num_weak_labels):
        return
    raise InputError(
        f"y: expected labels that {tool} does not change, got {labels.tolist()}, which it numbers 0 to "
        f"{len(labels) - 1} and which would be read as the rows {read.tolist()} of T, not {own.tolist()}; "
        "pass it the numbers of T's rows instead, all of which occur"
    )


def _check_columns(tool: str, numbered: NDArray[Any], transition: Any) -> None:
    """Candidate masks with both values in every column are as they were; answers are not, as -1 stands for none."""
    try:
        masks = not asks_for_estimate(transition) and make_transition(transition, numbered.shape[1]).per_class_labels
    except ValueError:
        masks = False
    if not masks or not (numbered.min(axis=0) < numbered.max(axis=0)).all():
        raise InputError(
            f"y: expected labels that {tool} does not change, got columns, each of which it numbers from 0: the lowest "
            "value of a column becomes 0, whatever it is; fit and predict fold by fold, or use method='predict'"
        )


def _numbered() -> tuple[str, NDArray[Any] | None]:
    """The tool that calls, and the labels behind the numbers 0, 1, ...; a table where it numbered columns."""
    tool, labels, last = "", None, None
    for frame in islice(callers(), 2, None):  # past `check_codes` and the `fit` that asks
        module, local = frame.f_globals.get("__name__", ""), frame.f_locals
        if module.startswith("tproper."):  # a fit within a fit: the outer one was checked
            break
        owner = local.get("self") if module in ENSEMBLES else None
        own = getattr(owner, "classes_", None)
        if module == "sklearn.model_selection._validation" and frame.f_code.co_name == "cross_val_predict":
            if "y_enc" in local:
                return "cross_val_predict", np.asarray(local["y_enc"])
            owner = local.get("le")
            own = getattr(owner, "classes_", None)
        if owner is None or owner is last or not isinstance(own, np.ndarray):
            continue
        tool, last = tool or _name(owner), owner
        labels = own if labels is None else own[labels]  # the inner tool numbered what the outer one had numbered
    return tool, labels


def _name(owner: Any) -> str:
    name = type(owner).__name__
    return "cross_val_predict" if name == "LabelEncoder" else name
