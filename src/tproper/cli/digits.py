"""The work of `tproper demo`: four losses on scikit-learn's digits, learned from complementary labels alone."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import plots
from .._core import FloatArray, Mark, json_text, mark, seeded_torch, write_file
from ..certificates import certify
from ..data import Bar
from ..estimation import one_thread
from ..learn import WeakLabelClassifier
from ..losses import BackwardLoss, ForwardLoss, GradientAscentLoss, WeakLabelLoss
from ..metrics import clean_scores, weak_accuracy
from ..transitions import Transition, families

RATE = 0.03  # of the gradient descent whose course is drawn


def losses(transition: Transition) -> dict[str, WeakLabelLoss]:
    """The paper's three losses, and forward correction."""
    return {
        "forward": ForwardLoss(transition),
        "gls": BackwardLoss(transition, squeeze=(1.0, 2.0)),
        "ga": GradientAscentLoss(transition),
        "bc": BackwardLoss(transition),
    }


def descent(loss: WeakLabelLoss, X: torch.Tensor, y: torch.Tensor, epochs: int, seed: int) -> list[float]:
    """The training risk after every epoch of gradient descent with momentum on a linear model, with no penalty."""
    with seeded_torch(seed):
        model = torch.nn.Linear(X.shape[1], loss.transition.num_classes)
        orders = [torch.randperm(len(X)) for _ in range(epochs)]
    optimiser = torch.optim.SGD(model.parameters(), RATE, momentum=0.9, nesterov=True)
    risks = []
    for order in orders:
        for batch in order.split(128):
            optimiser.zero_grad()
            loss(model(X[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            risks.append(float(loss(model(X), y)))
    return risks


@dataclass(frozen=True)
class Digits:
    """Images with weak labels to learn from, and clean ones to judge by."""

    transition: Transition
    X: torch.Tensor
    weak: torch.Tensor
    X_test: torch.Tensor
    z_test: Any
    weak_test: Any

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
        weak_test = transition.sample(z[test], seed + 1)
        return cls(transition, features[rest], weak, features[test], z[test], weak_test)


@dataclass(frozen=True)
class Outcome:
    """One loss: the course of its training risk, what is proven of it, and what a fit with it says of clean digits."""

    loss: str
    risks: list[float]
    bound: float
    proper: bool
    p: FloatArray
    scores: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        scores = {name: self.scores[name] for name in ("accuracy", "log_loss", "brier", "ece")}
        risks = {"final_risk": self.risks[-1], "lowest_risk": min(self.risks), "bound": self.bound}
        return {"loss": self.loss, "proper": self.proper, **scores, **risks}


def contest(d: Digits, epochs: int, seed: int) -> list[Outcome]:
    """Every loss: its descent, and `WeakLabelClassifier` with it, calibrated by weak labels."""
    table, outcomes = losses(d.transition), []
    with one_thread(), Bar("", 2 * len(table), "fits") as bar:
        for name, loss in table.items():
            bar.at(what=plots.NAMES[name])
            risks = descent(loss, d.X, d.weak, epochs, seed)
            bar.step()
            model = WeakLabelClassifier(d.transition, loss=loss, random_state=seed)
            model.fit(d.X.double().numpy(), d.weak.numpy())
            p = model.predict_proba(d.X_test.double().numpy())
            bar.step()
            certificate = certify(loss)
            bound = float(loss.lower_bounds().min())
            outcomes.append(Outcome(name, risks, bound, bool(certificate.proper), p, clean_scores(d.z_test, p)))
    return outcomes


def show(outcomes: list[Outcome], digits: Digits, console: Any) -> None:
    """A table, and what to see in it."""
    from rich.table import Table

    shown = Table(title="fitted to the weak labels, judged on clean test digits", title_justify="left")
    for heading in ("loss", "proper", "lower bound", "accuracy", "log loss", "Brier", "calibration error"):
        shown.add_column(heading, justify="left" if heading in ("loss", "proper") else "right")
    for o in outcomes:
        bound = f"{o.bound:.4g}" if np.isfinite(o.bound) else "[red]none[/]"
        scores = (f"{o.scores[name]:.3f}" for name in ("log_loss", "brier", "ece"))
        shown.add_row(
            plots.NAMES[o.loss], "yes" if o.proper else "no", bound, f"{o.scores['accuracy']:.1%}", *scores
        )  # fmt: skip
    console.print(shown)
    best = max(outcomes, key=lambda o: o.scores["accuracy"])
    told = weak_accuracy(digits.weak_test, best.p.argmax(1), digits.transition)
    console.print(f"{plots.NAMES[best.loss]}, by the weak labels of the test digits alone: {told}")
    lowest = min(next(o.risks for o in outcomes if o.loss == "bc"))
    if lowest < 0:
        console.print(
            f"BC is what must not happen: its training risk fell to {lowest:.4g}, below the 0 of an honest cross "
            "entropy, and would fall for ever. The others stayed above the bounds that were certified before training."
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
        f"{len(digits.X_test)} clean ones to judge by."
    )
    outcomes = contest(digits, epochs, seed)
    show(outcomes, digits, console)
    _draw(outcomes, digits, picture, before[0])
    facts = {"seed": seed, "epochs": epochs, "outcomes": [o.to_dict() for o in outcomes]}
    write_file(numbers, (json_text(facts, indent=2) + "\n").encode(), since=before[1])
    console.print(f"picture: {picture}    numbers: {numbers}")


def _draw(outcomes: list[Outcome], digits: Digits, path: Path, since: Mark) -> None:
    figure = plots.figure(figsize=(9.5, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    plots.draw_training(left, {o.loss: o.risks for o in outcomes}, {o.loss: o.bound for o in outcomes})
    left.set_title("training risk by epoch: BC falls without end", fontsize=10)
    plots.draw_reliability(right, {o.loss: plots.compute_reliability(o.p, digits.z_test) for o in outcomes})
    right.set_title("probabilities on clean test digits", fontsize=10)
    plots.save_picture(figure, path, since)
