"""How good a model is from weak labels, and how far that can be believed: scores, tests of T, bounds without T.

Imports from `plots`, `estimation`,
`metrics` and the packages above them.
"""

from typing import TYPE_CHECKING

from .._later import names_of

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

__getattr__ = names_of(
    __name__,
    {
        "UNSCORABLE": "streamed",
        "Bounds": "bounds",
        "Evaluation": "evaluation",
        "Evaluator": "evaluation",
        "Evenly": "evaluation",
        "Legend": "legend",
        "Scores": "streamed",
        "StreamedScores": "streamed",
        "draw": "picture",
        "evaluate": "evaluation",
        "plain_scores": "evaluation",
        "scores_of": "streamed",
    },
)
