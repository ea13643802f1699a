"""How good a model is from weak labels, and how far that can be believed: scores, tests of T, bounds without T.

Imports from `plots`, `estimation`, `metrics` and the rooms above them.
"""

from .bounds import Bounds
from .evaluation import Evaluation, Evaluator, Evenly, Legend, evaluate, plain_scores
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
