"""Pictures: ``compute_*`` returns data, ``draw_*(ax, data)`` draws them. Needs the extra ``tproper[plots]``.

Imports from `metrics` and the packages above it.
"""

from .heat_map import TransitionMap, compute_transition_map, draw_transition, draw_transition_map
from .page import html_page, markdown_block, markdown_code, markdown_text
from .panels import check_drawable, draw_transition_losses
from .reliability import Reliability, compute_reliability, draw_calibration, draw_curve, draw_reliability, draw_score
from .style import COLOURS, NAMES, PAGE_COLOURS, can_draw, draw_training, figure, new_axes, save_picture
from .surfaces import SimplexLoss, compute_simplex_loss, draw_simplex_loss, loss_at

__all__ = [
    "COLOURS",
    "NAMES",
    "PAGE_COLOURS",
    "Reliability",
    "SimplexLoss",
    "TransitionMap",
    "can_draw",
    "check_drawable",
    "compute_reliability",
    "compute_simplex_loss",
    "compute_transition_map",
    "draw_calibration",
    "draw_curve",
    "draw_reliability",
    "draw_score",
    "draw_simplex_loss",
    "draw_training",
    "draw_transition",
    "draw_transition_losses",
    "draw_transition_map",
    "figure",
    "html_page",
    "loss_at",
    "markdown_block",
    "markdown_code",
    "markdown_text",
    "new_axes",
    "save_picture",
]
