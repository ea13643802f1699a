"""Figures 1 to 3 of the paper, and the training risk against its bound over time."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .. import plots
from .._core import write_file
from ..potentials import LogSumExp
from . import paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NO_FIGURES = "Without figures, which need matplotlib: pip install 'tproper[plots]'."


def new_figure(width: float, height: float) -> Figure:
    """A figure that belongs to no window system."""
    figure: Figure = plots.figure(figsize=(width, height), layout="constrained")
    return figure


def colour(method: str) -> str:
    """The colour of a row's loss, as in every picture."""
    return plots.COLOURS[paper.METHODS[method][0]]


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Write a figure as PNG and SVG, each whole or not at all; the SVG's bytes depend on the figure alone."""
    import matplotlib

    paths = [stem.with_name(f"{stem.name}{suffix}") for suffix in (".png", ".svg")]
    png, svg = io.BytesIO(), io.BytesIO()
    figure.savefig(png, format="png", dpi=150)
    with matplotlib.rc_context({"svg.hashsalt": "tproper"}):
        figure.savefig(svg, format="svg", metadata={"Date": None})
    for path, content in zip(paths, (png, svg), strict=True):
        write_file(path, content.getvalue(), overwrite=True)
    return paths


# --- Figure 1 -------------------------------------------------------------------------------------


def weak_loss(p: np.ndarray, label: str, inclusion: float = 0.1) -> np.ndarray:
    """``l_W(p, y) = F(v) - <R e_y, v>`` with F = logsumexp and v = log p, for partial labels.

    With v = log p, F(v) = log sum p = 0, so the loss is ``-sum_z R[z, y] log p_z``.  # (n, 3) -> (n,)
    """
    target = np.array(paper.partial_reconstruction(inclusion))[:, paper.PARTIAL_LABELS.index(label)]
    v = torch.log(torch.from_numpy(np.asarray(p, dtype=np.float64)))
    # potentials centre their scores; a target that sums to one makes the loss blind to that
    centred = v - v.mean(dim=-1, keepdim=True)
    loss = LogSumExp().value(centred) - centred @ torch.from_numpy(target)
    return loss.numpy()


def simplex_grid(n: int = 80) -> np.ndarray:
    """Points of the open triangle of three-class distributions."""
    ticks = (np.arange(n) + 0.5) / n
    a, b = np.meshgrid(ticks, ticks, indexing="ij")
    keep = a + b < 1 - 0.25 / n
    a, b = a[keep], b[keep]
    return np.stack([a, b, 1 - a - b], axis=1)


def figure1(inclusion: float = 0.1) -> Figure:
    """The paper's Figure 1: the loss over the simplex for three labels, and along p1 = p2 for (1,1,0).

    Ternary axes come from mpltern; without it the command says so rather than draw something else.
    """
    try:
        import mpltern  # noqa: F401  registers the projection
    except ImportError as error:
        raise ImportError("figure 1 needs mpltern for its ternary axes (pip install mpltern)") from error

    figure = new_figure(9, 8)
    points = simplex_grid()
    for place, label in enumerate(("001", "110", "111"), start=1):
        axes: Any = figure.add_subplot(2, 2, place, projection="ternary")
        values = weak_loss(points, label, inclusion)
        low, high = (float(np.quantile(values, q)) for q in (0.005, 0.985))
        levels = np.linspace(low, high, 14)
        drawn = axes.tricontourf(*points.T, values, levels=levels, cmap="viridis", extend="both")
        axes.tricontour(*points.T, values, levels=levels, colors="white", linewidths=0.3)
        axes.set_tlabel("$p_1$")
        axes.set_llabel("$p_2$")
        axes.set_rlabel("$p_3$")
        axes.set_title(f"({'abc'[place - 1]}) y = ({', '.join(label)})")
        figure.colorbar(drawn, ax=axes, shrink=0.7)
    line = figure.add_subplot(2, 2, 4)
    third = np.linspace(1e-4, 1 - 1e-4, 2001)
    along = np.stack([(1 - third) / 2, (1 - third) / 2, third], axis=1)
    line.plot(third, weak_loss(along, "110", inclusion), color=colour("bc"))
    line.set_xlabel("$p_3$, with $p_1 = p_2 = (1 - p_3)/2$")
    line.set_ylabel("loss")
    line.set_title("(d) y = (1, 1, 0): falls without bound")
    figure.suptitle(f"Backward-corrected cross entropy, partial labels, p = {inclusion}")
    return figure


# --- Figures 2 and 3 ------------------------------------------------------------------------------

Points = dict[float, list[float]]  # hyperparameter -> accuracies in percent


def sensitivity(
    points: Points, lines: dict[str, float], axis: str, title: str, grey_below: float | None = None
) -> Figure:
    """Accuracy against a hyperparameter of gLS, with the tuned BC and GA as horizontal lines."""
    figure = new_figure(6, 4)
    axes = figure.add_subplot()
    x = sorted(points)
    mean = [float(np.mean(points[v])) for v in x]
    sd = [float(np.std(points[v], ddof=1)) if len(points[v]) > 1 else 0.0 for v in x]
    axes.errorbar(x, mean, yerr=sd, marker="o", capsize=3, color=colour("gls"), label="BC + gLS")
    for method, style in (("bc_tuned", ":"), ("ga_tuned", "-.")):
        if method in lines:
            name = paper.METHODS[method][1]
            axes.axhline(lines[method], linestyle=style, color=colour(method), label=name)
    if grey_below is None:
        axes.set_xscale("log")
    else:
        axes.axvspan(min(0.4, *x), grey_below, color="0.85")
        axes.set_xlim(left=min(0.4, *x))
    axes.set_xlabel(axis)
    axes.set_ylabel("test accuracy, %")
    axes.set_title(title)
    axes.legend()
    return figure


# --- the risk over time ---------------------------------------------------------------------------


def risk_traces(
    traces: Mapping[str, Sequence[Sequence[float | None] | None]], bounds: Mapping[str, float | None], title: str
) -> Figure:
    """Training risk of every trial by epoch (thin), one panel a method, with its certified bound.

    A trial that left the numbers at once has no risk to draw; its panel is still there.
    """
    figure = new_figure(3 * len(traces), 3)
    for place, (method, runs) in enumerate(traces.items(), start=1):
        axes = figure.add_subplot(1, len(traces), place)
        for run in runs:
            values = [np.nan if value is None else value for value in run or ()]
            axes.plot(range(1, len(values) + 1), values, color=colour(method), linewidth=0.7)
        low = min((value for run in runs for value in run or () if value is not None), default=0.0)
        bound = bounds[method]
        if bound is None:
            axes.set_xlabel("epoch (no lower bound exists)")
        elif bound > low - 10 * (abs(low) + 1):
            axes.axhline(bound, color="black", linestyle="--", linewidth=1)
            axes.set_xlabel(f"epoch (bound {bound:.4g}, dashed)")
        else:
            axes.set_xlabel(f"epoch (bound {bound:.4g}, far below)")
        axes.set_title(paper.METHODS[method][1], fontsize=9)
        if place == 1:
            axes.set_ylabel("training risk")
    figure.suptitle(title)
    return figure
