"""How good a model is from weak labels, and how far that can be believed: scores, tests of T, bounds without T.

Names are imported when first asked for: a table's labels need the legend alone. Imports from `plots`, `estimation`,
`metrics` and the rooms above them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bounds import Bounds
    from .evaluation import Evaluation, Evaluator, Evenly, evaluate, plain_scores
    from .legend import Legend
    from .picture import draw
    from .streamed import UNSCORABLE, Scores, StreamedScores, scores_of

__all__ = [
    "UNSCORABLE",
    "Bounds",
    "Evaluation",
    "Evaluator",
    "Evenly",
    "Legend",
    "Scores",
    "StreamedScores",
    "draw",
    "evaluate",
    "plain_scores",
    "scores_of",
]

_FILES = {
    "bounds": ("Bounds",),
    "evaluation": ("Evaluation", "Evaluator", "Evenly", "evaluate", "plain_scores"),
    "legend": ("Legend",),
    "picture": ("draw",),
    "streamed": ("UNSCORABLE", "Scores", "StreamedScores", "scores_of"),
}
_FILE_OF = {name: file for file, names in _FILES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_FILE_OF[name]}", __name__), name)
    globals()[name] = value
    return value
