"""What a finished trial leaves: its record, from the scores at the epochs that each rule has chosen."""

from __future__ import annotations

import datetime
import os
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import tproper
from tproper.learn import calibrate
from tproper.metrics import clean_scores
from tproper.potentials import LogSumExp
from tproper.transitions import Transition, identity

from .engine import Stack
from .protocol import CLEAN, SEARCH_SEED, WEAK, Progress, Trial, TrialConfig
from .records import Record, machine, significant

FLOOR = 2.0**-24  # float32's resolution below one


def probabilities(config: TrialConfig, scores: Tensor) -> Tensor:
    """Class probabilities by the link of one of the paper's losses: the projected gradient of its potential."""
    F = LogSumExp()
    if config.loss == "gls":
        return F.squeezed(config.k, config.alpha, allow_improper=True).probabilities(scores)
    return F.probabilities(scores)


def probability_scores(probabilities: Tensor, labels: Tensor) -> dict[str, float]:
    """Log loss, Brier score and calibration error of (n, K) probabilities where the true labels are known.

    In the log loss a probability below ``FLOOR`` counts as ``FLOOR``, and ``zeros`` says how many true classes that
    met: there the log loss is only a lower bound, and infinite where a projected link says exactly zero. Probabilities
    that are not finite have no scores.
    """
    scores = clean_scores(labels, probabilities, floor=FLOOR)
    return {name: scores[name] for name in ("log_loss", "brier", "ece", "zeros")}


@dataclass(frozen=True)
class Finished:
    """A trial that has ended, on the CPU: enough to make its record beside the training of others."""

    trial: Trial
    progress: Progress
    rules: tuple[str, ...]
    scores: Tensor  # (rules, validation + test images, K)
    own: Tensor  # (rules, test images, K): probabilities by the loss's own link
    labels: Tensor  # (test images,)
    valid_labels: Tensor  # (validation images,)
    valid_weak: Tensor  # (validation images, ...)
    told: Transition
    machine: str
    soft: np.ndarray | None = None  # (test images, K)

    @property
    def epochs(self) -> list[int]:
        """The epoch that each rule has chosen."""
        best = {CLEAN: self.progress.best_epoch, WEAK: self.progress.weak_epoch}
        return [best[rule] for rule in self.rules]

    @classmethod
    def of(cls, stack: Stack, slot: int, soft: np.ndarray | None = None) -> Finished:
        """The trial in a slot."""
        assignment = stack.assigned[slot]
        assert assignment is not None
        trial, held_out = assignment.trial, stack.valid_index.shape[1]
        scores = stack.best_scores[slot].double()
        test = scores[:, held_out:]
        if trial.config.problem is None:
            own = probabilities(trial.config, test)
        else:
            own = torch.stack([stack.objective.probabilities(slot, trial.config.loss, v) for v in test])
        weak = stack.weak[slot][stack.valid_index[slot]]
        clean = stack.valid_labels[slot].clone()  # the slot goes to another trial
        labels = torch.from_numpy(stack.data.test_labels)
        return cls(
            trial, assignment.progress, stack.rules, scores.cpu(), own.cpu(), labels, clean.cpu(), weak.cpu(),
            stack.task.told, machine(stack.device), soft,
        )  # fmt: skip


def make_record(finished: Finished, revision: str, kernels: str) -> Record:
    """The row of a finished trial; its own columns are those of the epoch with the best clean validation accuracy."""
    trial, progress = finished.trial, finished.progress
    config = trial.config
    scores = finished.scores[0, len(finished.valid_labels) :]
    own = probability_scores(finished.own[0], finished.labels)
    soft = probability_scores(torch.softmax(scores, dim=-1), finished.labels)
    record = {
        "id": trial.id,
        "config_key": config.key,
        "seed": trial.seed,
        **{n: getattr(config, n) for n in ("dataset", "model", "loss", "lr", "weight_decay", "k", "alpha")},
        "epochs": progress.epoch,
        "best_epoch": progress.best_epoch,
        "valid_accuracy": progress.best_accuracy,
        "accuracy": float((scores.argmax(dim=-1) == finished.labels).double().mean()),
        **{name: significant(value) for name, value in own.items()},
        "zeros": int(own["zeros"]),
        **{f"softmax_{n}": significant(soft[n]) for n in ("log_loss", "brier", "ece")},
        "seconds": significant(progress.seconds),
        "machine": finished.machine,
        "software": f"torch {torch.__version__}" + ("" if kernels == "auto" else f", kernels {kernels}"),
        "revision": revision,
        "finished_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "config": config.as_dict(),
        "risk": [significant(r) for r in progress.risk],
        "valid": [significant(v) for v in progress.valid],
    }
    if config.problem is None:
        return record
    record["weak"] = [significant(r) for r in progress.weak]
    by_epoch: dict[int, dict[str, Any]] = {}  # the rules often agree
    for place, epoch in enumerate(finished.epochs):
        if epoch not in by_epoch:
            by_epoch[epoch] = selection(finished, place)
    record["selections"] = {rule: by_epoch[epoch] for rule, epoch in zip(finished.rules, finished.epochs, strict=True)}
    return record


def selection(finished: Finished, place: int) -> dict[str, Any]:
    """The test scores at the epoch that a rule has chosen: as trained, and after calibration.

    Calibrated by the held-out weak labels (`tproper.calibrate`, which chooses the map), and, to compare with, by one
    temperature fitted to the clean labels of the same images. Trials of a search are not calibrated.
    """
    progress, held_out = finished.progress, len(finished.valid_labels)
    valid, test = finished.scores[place, :held_out].numpy(), finished.scores[place, held_out:].numpy()
    epoch = finished.epochs[place]
    out: dict[str, Any] = {
        "epoch": epoch,
        "valid_accuracy": significant(progress.valid[epoch - 1]),
        "weak_risk": significant(progress.weak[epoch - 1]),
        "raw": _scored(finished, finished.own[place].numpy()),
    }
    if finished.trial.seed >= SEARCH_SEED or not np.isfinite(finished.scores[place].numpy()).all():
        return out
    clean = (finished.valid_labels, identity(valid.shape[1]), "temperature")
    for name, given in (("by_weak", (finished.valid_weak, finished.told, "auto")), ("by_clean", clean)):
        try:
            calibrator = calibrate(valid, *given, inputs="scores")
        except ValueError as error:  # a T under which a label cannot occur: the record says so, and the trial is kept
            out[name] = {"method": f"none: {error}"}
            continue
        scored = _scored(finished, calibrator.probabilities(test))
        out[name] = {"method": calibrator.method, "temperature": significant(calibrator.temperature), **scored}
    return out


def _scored(finished: Finished, p: np.ndarray) -> dict[str, Any]:
    """Accuracy, log loss, Brier and calibration error, and the cross entropy against soft labels if there are some."""
    out = {"accuracy": float((p.argmax(axis=1) == finished.labels.numpy()).mean())}
    out |= probability_scores(torch.from_numpy(p), finished.labels)
    if finished.soft is not None:
        out["soft_log_loss"] = -float((finished.soft * np.log(np.maximum(p, FLOOR))).sum(axis=1).mean())
    return {name: significant(value) for name, value in out.items()}


def revision(package: Path = Path(tproper.__file__).parent) -> str:
    """The commit the code runs from, ``+changes`` if it was changed since; else the installed version.

    An installed package may lie in someone else's repository: git is believed only where it holds this very source.
    """
    given = os.environ.get("TPROPER_REVISION")
    if given:
        return given
    top = _git(package, "rev-parse", "--show-toplevel")
    if top and (Path(top) / "src" / "tproper").resolve() == package.resolve():
        commit = _git(package, "rev-parse", "HEAD")
        changes = _git(Path(top), "status", "--porcelain", "--", "src", "lab/src")
        if commit and changes is not None:
            return commit[:12] + ("+changes" if changes else "")
    try:
        return f"version {version('tproper')}"
    except PackageNotFoundError:
        return "unknown"


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints, or None where there is no git, or no repository."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
