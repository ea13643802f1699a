"""`tproper demo`: four losses on scikit-learn's bundled digits, learned from complementary labels alone."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer

from .. import plots
from .._core import FloatArray, Mark, atomic_file, finite_rows, json_text, mark, write_file
from ..losses import BackwardLoss, ForwardLoss, GradientAscentLoss, WeakLabelLoss
from ..transitions import Transition, families
from .errors import user_errors

RATES = (0.003, 0.01, 0.03, 0.1, 0.3)
NAMES = {"bc": "BC", "ga": "BC+GA", "gls": "BC+gLS", "forward": "forward"}


@dataclass(frozen=True)
class Outcome:
    """What one loss reached on the clean test digits."""

    loss: str
    learning_rate: float
    accuracy: float
    log_loss: float
    brier: float
    ece: float
    final_risk: float
    lowest_risk: float
    bound: float


def losses(transition: Transition) -> dict[str, WeakLabelLoss]:
    """The paper's three losses, and forward correction."""
    return {
        "bc": BackwardLoss(transition),
        "ga": GradientAscentLoss(transition),
        "gls": BackwardLoss(transition, squeeze=(0.3, 2.0)),
        "forward": ForwardLoss(transition),
    }


def train(
    loss: WeakLabelLoss, X: torch.Tensor, y: torch.Tensor, rate: float, epochs: int, seed: int
) -> tuple[torch.nn.Module, list[float]]:
    """SGD with Nesterov momentum on a linear model; returns it with its training risk after every epoch."""
    torch.manual_seed(seed)
    model = torch.nn.Linear(X.shape[1], loss.transition.num_classes)
    optimiser = torch.optim.SGD(model.parameters(), rate, momentum=0.9, nesterov=True)
    risks = []
    for _ in range(epochs):
        for batch in torch.randperm(len(X)).split(128):
            optimiser.zero_grad()
            loss(model(X[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            risks.append(float(loss(model(X), y)))
    return model, risks


def weak_risk(loss: WeakLabelLoss, model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> float:
    """Held-out ``-log (T p)_y`` of the model's probabilities: proper, and needs no clean label."""
    T = torch.as_tensor(loss.transition.matrix(), dtype=X.dtype)
    with torch.no_grad():
        p = loss.probabilities(model(X))
        return float(-(p @ T.T).gather(1, y[:, None]).log().mean())


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("demo")
    @user_errors
    def demo(
        out: Annotated[Path, typer.Option(help="folder for the picture and the numbers")] = Path("out/demo"),
        epochs: Annotated[int, typer.Option(min=1, help="epochs for each run")] = 150,
        seed: Annotated[int, typer.Option(help="split, labels, initialisation and batches")] = 0,
    ) -> None:
        """Learn digits from labels that only say what a digit is *not*; see which losses survive."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        from rich.table import Table
        from sklearn.datasets import load_digits

        if out.exists() and not out.is_dir():
            raise NotADirectoryError(f"{out}: expected a folder for the results, got a file")
        picture, numbers = out / "demo.png", out / "demo.json"
        before = mark(picture), mark(numbers)
        X, z = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(z))
        rest, test = order[:1347], order[1347:]
        transition = families.complementary(10)
        weak = torch.as_tensor(transition.sample(z[rest], seed))
        features = torch.as_tensor(X / 16, dtype=torch.float32)
        held = len(rest) // 5
        fit, check = slice(held, None), slice(None, held)
        X_rest, X_test = features[rest], features[test]

        console = Console()
        console.print(
            f"[bold]digits from complementary labels[/]: {len(rest)} images, each with one class it is *not*; "
            f"{len(test)} clean ones to judge by.\n"
            "Learning rates are chosen by a held-out weak risk: no clean label is used."
        )
        outcomes: list[Outcome] = []
        risks: dict[str, list[float]] = {}
        curves: dict[str, plots.Reliability] = {}
        bounds: dict[str, float] = {}
        table = losses(transition)
        columns = (TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.completed}/{task.total} runs"))
        with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
            task = progress.add_task("", total=len(table) * (len(RATES) + 1))
            for name, loss in table.items():
                progress.update(task, description=NAMES[name])
                tried = {}
                for rate in RATES:
                    model, _ = train(loss, X_rest[fit], weak[fit], rate, epochs, seed)
                    risk = weak_risk(loss, model, X_rest[check], weak[check])
                    tried[rate] = risk if np.isfinite(risk) else np.inf
                    progress.advance(task)
                rate = min(tried, key=lambda r: tried[r])
                model, risks[name] = train(loss, X_rest, weak, rate, epochs, seed)
                progress.advance(task)
                with torch.no_grad():
                    p = finite_rows(loss.probabilities(model(X_test)).double().numpy(), model)
                bounds[name] = float(loss.lower_bounds().min())
                curves[name] = plots.compute_reliability(p, z[test])
                outcomes.append(_outcome(name, rate, p, z[test], curves[name], risks[name], bounds[name]))

        shown = Table(title="on clean test digits (risk and bound: training)", title_justify="left")
        for heading in ("loss", "lr", "accuracy", "log loss", "Brier", "ECE", "risk", "bound"):
            shown.add_column(heading, justify="left" if heading == "loss" else "right")
        for o in outcomes:
            fell = o.final_risk < 0 and not np.isfinite(o.bound)
            shown.add_row(
                NAMES[o.loss], f"{o.learning_rate:g}",
                f"{o.accuracy:.1%}", f"{o.log_loss:.3f}", f"{o.brier:.3f}", f"{o.ece:.3f}",
                f"[red]{o.final_risk:.4g}[/]" if fell else f"{o.final_risk:.4g}", f"{o.bound:.4g}",
            )  # fmt: skip
        console.print(shown)
        bc = next(o for o in outcomes if o.loss == "bc")
        if bc.lowest_risk < 0:
            console.print(
                f"BC's training risk fell to {bc.lowest_risk:.4g}, through the floor of 0 of an honest cross entropy: "
                "it has no lower bound. The other three stayed above their certified bounds."
            )
        if not all(np.isfinite(o.log_loss) for o in outcomes):
            console.print(
                "A log loss of inf: the link's projection gave the truth probability 0 somewhere; nothing is clipped."
            )
        _draw(risks, bounds, curves, picture, before[0])
        facts = {"seed": seed, "epochs": epochs, "outcomes": [asdict(o) for o in outcomes]}
        write_file(numbers, (json_text(facts, indent=2) + "\n").encode(), since=before[1])
        console.print(f"picture: {picture}    numbers: {numbers}")


def _outcome(
    name: str, rate: float, p: FloatArray, z: FloatArray, curve: plots.Reliability, risk: list[float], bound: float
) -> Outcome:
    with np.errstate(divide="ignore"):  # a probability of exactly zero for the truth is an infinite log loss
        log_loss = float(-np.log(p[np.arange(len(z)), z]).mean())
    brier = float(np.square(p - np.eye(p.shape[1])[z]).sum(axis=1).mean())
    accuracy = float((p.argmax(1) == z).mean())
    return Outcome(name, rate, accuracy, log_loss, brier, curve.error, risk[-1], min(risk), bound)


def _draw(
    risks: dict[str, list[float]],
    bounds: dict[str, float],
    curves: dict[str, plots.Reliability],
    path: Path,
    since: Mark,
) -> None:
    figure = plots.figure(figsize=(9.5, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.draw_training(left, risks, bounds)
    left.set_title("training risk: BC falls without end", fontsize=10)
    plots.draw_reliability(right, curves)
    right.set_title("probabilities on clean test digits", fontsize=10)
    with atomic_file(path, since=since) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
