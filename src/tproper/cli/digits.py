"""The work of `tproper demo`: four losses on scikit-learn's bundled digits, learned from complementary labels alone."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import plots
from .._core import FloatArray, Mark, finite_rows, json_text, mark, seeded_torch, write_file
from ..data import Bar
from ..estimation import one_thread
from ..losses import BackwardLoss, ForwardLoss, GradientAscentLoss, WeakLabelLoss
from ..metrics import clean_scores, forward_risk
from ..transitions import Transition, families

RATES = (0.003, 0.01, 0.03, 0.1, 0.3)


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
    with seeded_torch(seed):
        model = torch.nn.Linear(X.shape[1], loss.transition.num_classes)
        orders = [torch.randperm(len(X)) for _ in range(epochs)]
    optimiser = torch.optim.SGD(model.parameters(), rate, momentum=0.9, nesterov=True)
    risks = []
    for order in orders:
        for batch in order.split(128):
            optimiser.zero_grad()
            loss(model(X[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            risks.append(float(loss(model(X), y)))
    return model, risks


def weak_risk(loss: WeakLabelLoss, model: torch.nn.Module, X: torch.Tensor, y: torch.Tensor) -> float:
    """Held-out ``-log (T p)_y`` of the model's probabilities: proper, and needs no clean label."""
    with torch.no_grad():
        p = loss.probabilities(model(X))
    return forward_risk(y, p, loss.transition) if bool(torch.isfinite(p).all()) else float("inf")


@dataclass(frozen=True)
class Digits:
    """Images with weak labels to learn from, and clean ones to judge by."""

    transition: Transition
    X: torch.Tensor
    weak: torch.Tensor
    X_test: torch.Tensor
    z_test: Any

    @classmethod
    def load(cls, seed: int) -> Digits:
        """Split and weaken the digits."""
        from sklearn.datasets import load_digits

        X, z = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(z))
        rest, test = order[:1347], order[1347:]
        transition = families.complementary(10)
        weak = torch.as_tensor(transition.sample(z[rest], seed))
        features = torch.as_tensor(X / 16, dtype=torch.float32)
        return cls(transition, features[rest], weak, features[test], z[test])


@dataclass(frozen=True)
class Outcome:
    """What one loss reached: its training risk by epoch, and its probabilities of the clean test digits."""

    loss: str
    rate: float
    risks: list[float]
    bound: float
    p: FloatArray
    scores: dict[str, float]  # of p; a probability of exactly zero for the truth is an infinite log loss

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        scores = {name: self.scores[name] for name in ("accuracy", "log_loss", "brier", "ece")}
        risks = {"final_risk": self.risks[-1], "lowest_risk": min(self.risks), "bound": self.bound}
        return {"loss": self.loss, "learning_rate": self.rate, **scores, **risks}


def contest(d: Digits, epochs: int, seed: int) -> list[Outcome]:
    """Every loss at every learning rate on a part of the data, then at the best on all of it."""
    table, held, outcomes = losses(d.transition), len(d.X) // 5, []
    with one_thread(), Bar("", len(table) * (len(RATES) + 1), "runs") as bar:
        for name, loss in table.items():
            bar.at(what=plots.NAMES[name])
            tried = {}
            for rate in RATES:
                model, _ = train(loss, d.X[held:], d.weak[held:], rate, epochs, seed)
                risk = weak_risk(loss, model, d.X[:held], d.weak[:held])
                tried[rate] = risk if np.isfinite(risk) else np.inf
                bar.step()
            rate = min(tried, key=lambda r: tried[r])
            model, risks = train(loss, d.X, d.weak, rate, epochs, seed)
            bar.step()
            with torch.no_grad():
                p = finite_rows(loss.probabilities(model(d.X_test)).double().numpy(), model)
            bound = float(loss.lower_bounds().min())
            outcomes.append(Outcome(name, rate, risks, bound, p, clean_scores(d.z_test, p)))
    return outcomes


def show(outcomes: list[Outcome], console: Any) -> None:
    """A table, and what to see in it."""
    from rich.table import Table

    shown = Table(title="on clean test digits (risk and bound: training)", title_justify="left")
    for heading in ("loss", "lr", "accuracy", "log loss", "Brier", "ECE", "risk", "bound"):
        shown.add_column(heading, justify="left" if heading == "loss" else "right")
    for o in outcomes:
        risk = f"{o.risks[-1]:.4g}"
        fell = o.risks[-1] < 0 and not np.isfinite(o.bound)
        shown.add_row(
            plots.NAMES[o.loss], f"{o.rate:g}", f"{o.scores['accuracy']:.1%}",
            *(f"{o.scores[name]:.3f}" for name in ("log_loss", "brier", "ece")),
            f"[red]{risk}[/]" if fell else risk, f"{o.bound:.4g}",
        )  # fmt: skip
    console.print(shown)
    lowest = min(next(o.risks for o in outcomes if o.loss == "bc"))
    if lowest < 0:
        console.print(
            f"BC's training risk fell to {lowest:.4g}, through the floor of 0 of an honest cross entropy: "
            "it has no lower bound. The other three stayed above their certified bounds."
        )
    if not all(np.isfinite(o.scores["log_loss"]) for o in outcomes):
        console.print(
            "A log loss of inf: the link's projection gave the truth probability 0 somewhere; nothing is clipped."
        )


def show_digits(out: Path, epochs: int, seed: int) -> None:
    """Train, compare, draw and write."""
    from rich.console import Console

    if out.exists() and not out.is_dir():
        raise NotADirectoryError(f"{out}: expected a folder for the results, got a file")
    if find_spec("matplotlib") is None:
        raise ModuleNotFoundError("tproper demo needs matplotlib for its picture: pip install 'tproper[plots]'")
    picture, numbers = out / "demo.png", out / "demo.json"
    before = mark(picture), mark(numbers)
    digits = Digits.load(seed)
    console = Console()
    console.print(
        f"[bold]digits from complementary labels[/]: {len(digits.X)} images, each with one class it is *not*; "
        f"{len(digits.X_test)} clean ones to judge by.\n"
        "Learning rates are chosen by a held-out weak risk: no clean label is used."
    )
    outcomes = contest(digits, epochs, seed)
    show(outcomes, console)
    _draw(outcomes, digits, picture, before[0])
    facts = {"seed": seed, "epochs": epochs, "outcomes": [o.to_dict() for o in outcomes]}
    write_file(numbers, (json_text(facts, indent=2) + "\n").encode(), since=before[1])
    console.print(f"picture: {picture}    numbers: {numbers}")


def _draw(outcomes: list[Outcome], digits: Digits, path: Path, since: Mark) -> None:
    figure = plots.figure(figsize=(9.5, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.draw_training(left, {o.loss: o.risks for o in outcomes}, {o.loss: o.bound for o in outcomes})
    left.set_title("training risk: BC falls without end", fontsize=10)
    plots.draw_reliability(right, {o.loss: plots.compute_reliability(o.p, digits.z_test) for o in outcomes})
    right.set_title("probabilities on clean test digits", fontsize=10)
    plots.save_picture(figure, path, since)
