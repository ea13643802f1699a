"""What a saved model may say about its table: it comes from a file, and a file may hold anything."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .._core import checks, finite_number
from ..transitions import StackedTransition, transition_from_dict


def fault(content: Mapping[str, Any], features: int, classes: Sequence[str]) -> str | None:
    """What is wrong in a `Schema`'s fields, given the model's number of features and its classes; None if nothing."""
    for name in ("features", "classes", "sources", "annotators"):
        value = content.get(name, [])
        if not _texts(value) or len(set(value)) != len(value):
            return f"{name}: expected different names, got {checks.short(value)}"
    for name in ("label", "source"):
        if not isinstance(content[name], str) and not (name == "source" and content[name] is None):
            return f"{name}: expected the name of a column, got {checks.short(content[name])}"
    if len(content["features"]) != features:
        return f"features: expected the model's {features}, got {len(content['features'])}"
    if list(content["classes"]) != list(classes):
        return f"classes: expected the model's own in their order, got {checks.short(content['classes'])}"
    for name, low in (("centre", -math.inf), ("scale", 0.0)):
        value = content[name]
        right = isinstance(value, list) and len(value) == features
        if not right or not all(finite_number(x) and x > low for x in value):
            return f"{name}: expected {features} finite numbers{' > 0' if low == 0 else ''}, got {checks.short(value)}"
    marks = content.get("marks", [])
    if not _texts(marks) or not all(re.fullmatch("[0-9a-f]{16}", mark) for mark in marks):
        return f"marks: expected sixteen hexadecimal digits for each row, got {checks.short(marks)}"
    specs = content["specs"]
    if not isinstance(specs, dict) or not _texts([*specs, *specs.values()]):
        return f"specs: expected texts by name, got {checks.short(specs)}"
    return _fault_of_transition(content, len(classes))


def _fault_of_transition(content: Mapping[str, Any], classes: int) -> str | None:
    try:
        transition = transition_from_dict(content["transition"])
    except (ValueError, TypeError, AttributeError, OverflowError) as error:
        return f"transition: {' '.join(str(error).split())}"
    if transition.num_classes != classes:
        return f"transition: expected one for {classes} classes, got {transition.num_classes}"
    sources = content["sources"]
    if bool(sources) != (content["source"] is not None):
        expected = "no names without a column of sources" if sources else "the names in the column of sources"
        return f"sources: expected {expected}, got {checks.short(sources)}"
    if sources and not (isinstance(transition, StackedTransition) and len(transition.sources) == len(sources)):
        return f"sources: expected one for each of the transition's, got {checks.short(sources)}"
    return None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)
