"""What the table's part of a saved model must be like: it comes from a file, and a file may hold anything."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._core import finite_number
from ..transitions import StackedTransition, transition_from_dict


def fault(content: Mapping[str, Any], features: int, classes: Sequence[str]) -> str | None:
    """What cannot be right in a `Schema`'s fields beside a model of so many features and these classes; or None."""
    for name in ("features", "classes", "sources", "annotators"):
        value = content.get(name, [])
        if not _texts(value) or len(set(value)) != len(value):
            return f"{name}: expected different names, got {_shown(value)}"
    for name in ("label", "source"):
        if not isinstance(content[name], str) and not (name == "source" and content[name] is None):
            return f"{name}: expected the name of a column, got {_shown(content[name])}"
    if len(content["features"]) != features:
        return f"features: expected the model's {features}, got {len(content['features'])}"
    if list(content["classes"]) != list(classes):
        return f"classes: expected the model's own in their order, got {_shown(content['classes'])}"
    for name, low in (("centre", -math.inf), ("scale", 0.0)):
        value = content[name]
        right = isinstance(value, list) and len(value) == features
        if not right or not all(finite_number(x) and x > low for x in value):
            return f"{name}: expected {features} finite numbers{' > 0' if low == 0 else ''}, got {_shown(value)}"
    specs = content["specs"]
    if not isinstance(specs, dict) or not _texts([*specs, *specs.values()]):
        return f"specs: expected texts by name, got {_shown(specs)}"
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
        return f"sources: expected some where there is a column of sources, and none elsewhere, got {_shown(sources)}"
    if sources and not (isinstance(transition, StackedTransition) and len(transition.sources) == len(sources)):
        return f"sources: expected one for each of the transition's, got {_shown(sources)}"
    return None


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
