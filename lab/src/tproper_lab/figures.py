"""Figures 1 to 3 of the paper, and the training risk against its bound over time."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tproper import plots
from tproper.extension import write_file
from tproper.losses import BackwardLoss
from tproper.transitions import Reconstruction, partial_labels

from . import paper

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .leaderboard import Standing

INCLUSION = 0.1  # of another class in a candidate set, in Figure 1
OTHERS = "#8a8f98"  # methods that are not certified proper and bounded
NO_FIGURES = "Without figures, which need matplotlib: pip install 'tproper[plots]'."


def colour(method: str) -> str:
    """The colour of a row's loss, as in every picture."""
    return plots.COLOURS[paper.METHODS[method][0]]


def save_figure(figure: Figure, stem: Path, formats: Sequence[str] = ("png", "svg")) -> list[Path]:
    """Write a figure as PNG and SVG, each whole or not at all; the SVG's bytes depend on the figure alone."""
    import matplotlib

    paths = []
    for suffix in formats:
        content = io.BytesIO()
        with matplotlib.rc_context({"svg.hashsalt": "tproper"}):
            figure.savefig(content, format=suffix, dpi=150, metadata={"Date": None} if suffix == "svg" else None)
        figure.set_layout_engine("none")  # everything has its place by now; to find it again takes as long
        paths.append(stem.with_name(f"{stem.name}.{suffix}"))
        write_file(paths[-1], content.getvalue(), overwrite=True)
    return paths


def papers_loss() -> BackwardLoss:
    """Backward-corrected cross entropy for partial labels of three classes, with the paper's R."""
    T = partial_labels(3, INCLUSION)
    return BackwardLoss(T, reconstruction=Reconstruction(paper.partial_reconstruction(INCLUSION), T))


def figure1(resolution: int = 80) -> Figure:
    """The paper's Figure 1: the loss over the simplex for three labels, and along p1 = p2 for (1,1,0)."""
    import mpltern  # noqa: F401  registers ternary axes

    figure: Figure = plots.figure(figsize=(9, 8))
    figure.subplots_adjust(left=0.08, right=0.92, top=0.86, bottom=0.09, wspace=0.45, hspace=0.5)  # by hand, for speed
    loss = papers_loss()
    for place, candidates in enumerate(({2}, {0, 1}, {0, 1, 2}), start=1):
        axes: Any = figure.add_subplot(2, 2, place, projection="ternary")
        surface = plots.compute_simplex_loss(loss, candidates, resolution)
        low, high = np.quantile(surface.values, (0.005, 0.985)).tolist()
        plots.draw_simplex_loss(axes, surface, np.linspace(low, high, 14))
        label = ", ".join("1" if z in candidates else "0" for z in range(3))
        axes.set_title(f"({'abc'[place - 1]}) y = ({label})")
    line = figure.add_subplot(2, 2, 4)
    third = np.linspace(1e-4, 1 - 1e-4, 2001)
    along = np.stack([(1 - third) / 2, (1 - third) / 2, third], axis=1)
    line.plot(third, plots.loss_at(loss, {0, 1}, along), color=colour("bc"))
    line.set_xlabel("$p_3$, with $p_1 = p_2 = (1 - p_3)/2$")
    line.set_ylabel("loss")
    line.set_title("(d) y = (1, 1, 0): falls without bound")
    figure.suptitle(f"Backward-corrected cross entropy, partial labels, p = {INCLUSION}")
    return figure


Points = dict[float, list[float]]  # hyperparameter -> accuracies in percent


def sensitivity(
    points: Points, lines: dict[str, float], axis: str, title: str, grey_below: float | None = None
) -> Figure:
    """Accuracy against a hyperparameter of gLS, with the tuned BC and GA as horizontal lines."""
    figure = plots.figure(figsize=(6, 4), layout="constrained")
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


def risk_traces(
    traces: Mapping[str, Sequence[Sequence[float | None] | None]], bounds: Mapping[str, float | None], title: str
) -> Figure:
    """Training risk of every trial by epoch (thin), one panel per method, with its certified bound.

    A trial that diverged at once has no risk to draw; its panel is still there.
    """
    figure = plots.figure(figsize=(3 * len(traces), 3), layout="constrained")
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


def standings(panels: Mapping[str, Sequence[Standing]], rule: str) -> Figure:
    """Accuracy and calibrated log loss of every method, mean and standard error, a row of panels for each block."""
    shown = {title: methods for title, methods in panels.items() if len(methods) > 1}
    heights = [0.9 + 0.24 * len(methods) for methods in shown.values()]
    figure = plots.figure(figsize=(10, sum(heights) + 0.6), layout="constrained")
    grid = figure.subplots(len(shown), 2, squeeze=False, height_ratios=heights)
    for (title, methods), line in zip(shown.items(), grid, strict=True):
        for axes, score, scale in zip(line, ("accuracy", "log_loss"), (100, 1), strict=True):
            for place, method in enumerate(methods):
                mean, error = (scale * v for v in getattr(method, score))
                marker = plots.COLOURS["forward"] if method.certified else OTHERS
                axes.errorbar(mean, place, xerr=error if error == error else None, fmt="o", ms=5, color=marker)
            axes.set_yticks(range(len(methods)), [m.name for m in methods] if score == "accuracy" else [])
            axes.set_ylim(-0.6, len(methods) - 0.4)
            axes.grid(axis="both", alpha=0.25)
        line[1].set_xscale("log")
        line[1].xaxis.set_major_formatter("{x:g}")
        line[1].xaxis.set_minor_formatter("{x:g}")
        line[1].tick_params(axis="x", which="minor", labelsize=7)
        line[0].set_title(title, loc="left", fontsize=10, fontweight="bold")
    grid[-1][0].set_xlabel("accuracy, %")
    grid[-1][1].set_xlabel("calibrated log loss")
    handles = [
        grid[0][0].plot([], [], "o", color=c, label=name)[0]
        for c, name in ((plots.COLOURS["forward"], "certified proper and bounded"), (OTHERS, "not certified"))
    ]
    figure.legend(handles=handles, loc="outside upper right", ncols=2, frameon=False)
    figure.suptitle(f"Epochs and learning rates chosen by {rule} labels", x=0.01, ha="left", fontsize=10)
    return figure
