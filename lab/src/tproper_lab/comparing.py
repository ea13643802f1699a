"""The benchmark: many methods on one problem, all by one rule and one budget.

The rule: every learning rate of a grid, and more beyond an end that wins, is tried in trials with a short budget; the
rate with the least calibrated risk of held-out weak labels is taken; then come the trials that are reported, each with
the full budget and a cosine schedule. No clean label enters any of this. Clean labels score the result, and choose the
epoch in the lines that say so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from tproper.errors import InputError
from tproper.transitions import Transition

from .datasets import Dataset
from .methods import find_method, methods_for
from .problems import Problem, drawn_problem, given_problem, impossible_share, read_labels, resolve, text_transition
from .protocol import SEARCH_SEED, Protocol, Trial, TrialConfig, batch_size
from .real_labels import SOURCES, estimated_here, real_problem
from .records import Record, first_revision, least_weak_risk, rate_of_least_risk
from .sweep import beyond, breadth_first

#: Learning rates tried, by data set; and epochs of a reported trial.
RATES = {"cifar10": (0.03, 0.1, 0.3, 1.0), "mnist": (0.1, 0.3, 1.0, 3.0), "digits": (0.1, 0.3, 1.0, 3.0)}
EPOCHS = {"cifar10": 60, "mnist": 60, "digits": 30}
ROUNDING = 1e-9  # of an estimated T, from one machine to another
ROUNDS = 3  # how often a search goes beyond an end of its grid


@dataclass(frozen=True)
class Posed:
    """A problem on a data set, the labels it needs from files, and T as methods are told it."""

    problem: Problem
    told: Transition
    given: Mapping[str, np.ndarray]
    about: str


def pose(
    name: str,
    data: Dataset,
    labels: Path | None = None,
    told: str | None = None,
    source: str | None = None,
    merged: str = "",
) -> Posed:
    """The problem of a name.

    ``complementary``, ``symmetric:0.3``, ``T.csv``, ...: labels are drawn from that T, and `told`, if given, is what
    methods are told in its place. ``cifar10n:random1``, ``llava:3``, ...: published labels from the folder `labels`
    (`real_problem`). Any name with a file `labels`: one's own, with the T `told` that they are taken to follow.
    """
    if name.split(":")[0] in SOURCES:
        if told is not None or merged:
            raise InputError(f"problem: expected {name} without a T or groups of its own (write {name}:T=uniform)")
        if labels is None:
            raise InputError(f"problem: expected the folder with the label files for {name}; give --labels FOLDER")
        real = real_problem(name, labels, data.train_labels)
        how = "estimated" if estimated_here(name) else "given"
        problem = given_problem(name, real.labels, real.transition, data, how)
        given = {problem.digest: real.labels}
        return Posed(problem, resolve(problem, data, given).told, given, real.description)
    if labels is not None:
        if told is None:
            raise InputError(f"problem: expected the T that the labels of {labels} follow; give --transition SPEC")
        array = read_labels(labels)
        problem, about = given_problem(name, array, told, data, source or "given", merged), f"labels of {labels.name}"
        given = {problem.digest: array}
    else:
        problem, about = drawn_problem(name, data, told, source or "wrong", merged), f"labels drawn from {name}"
        given = {}
    task = resolve(problem, data, given)
    about += f"; T {problem.source}: {task.told.name}"
    share = impossible_share(task)
    if share:
        about += f", under which {share:.1%} of them are impossible, given the true classes"
    return Posed(problem, task.told, given, about)


def as_stored(posed: Posed, records: Sequence[Record]) -> tuple[Posed, str]:
    """The problem with the T of its records, where it was estimated; and a sentence if an estimate now differs.

    An estimate depends on the code and, in its last digits, on the machine, and another T is another problem, which
    has no records. So the T that stands in every record is the one to go on with; where they have several, the T of
    most.
    """
    now = posed.problem
    mine: dict[Problem, list[Record]] = {}
    for record in records if estimated_here(now.name) else ():
        problem = TrialConfig.from_dict(record["config"]).problem
        if problem is not None and problem.told and replace(now, told=problem.told) == problem:
            mine.setdefault(problem, []).append(record)
    if not mine:
        return posed, ""
    problem = max(mine, key=lambda p: len(mine[p]))
    told = text_transition(problem.told, posed.told.num_classes)
    change = float(np.abs(np.exp(told.tables()["log_T"]) - np.exp(posed.told.tables()["log_T"])).max())
    note = (
        f"T is the one in this problem's records, estimated at revision {first_revision(mine[problem])}; an estimate "
        f"made now differs by up to {change:.1g}"
    )
    return replace(posed, problem=problem, told=told), note if change > ROUNDING else ""


def named_methods(text: str) -> list[str]:
    """The names of methods in a comma-separated text, ``all`` among them, each of which exists.

    A name may carry settings with commas of their own: ``gls:0.3,2``.
    """
    names: list[str] = []
    for part in (p.strip() for p in text.split(",")):
        if names and ":" in names[-1] and _is_number(part):
            names[-1] += f",{part}"
        elif part:
            names.append(part)
    if not names:
        raise InputError(f"methods: expected names of methods, or all, got {text!r}")
    for name in names:
        if name != "all":
            find_method(name)
    return names


def chosen_methods(names: list[str], told: Transition) -> tuple[list[str], dict[str, str]]:
    """`names` with every method that fits in place of ``all``; and why others do not fit."""
    fitting: dict[str, None] = {}
    left_out: dict[str, str] = {}
    for name in names:
        for each in [m.name for m in methods_for(told)] if name == "all" else [name]:
            try:
                find_method(each).build(told)
                fitting[each] = None
            except ValueError as error:  # a T without a reconstruction, for one; asked for by name it is a mistake
                if name != "all":
                    raise
                left_out[each] = str(error)
    return list(fitting), left_out


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


@dataclass(frozen=True)
class Budget:
    """What every method may spend, and what all trials share."""

    rates: tuple[float, ...]
    epochs: int
    search_epochs: int
    trials: int = 3
    search_trials: int = 1
    weight_decay: float = 1e-4
    learned_lr: float = 0.01


def search_epochs(epochs: int) -> int:
    """Of a search trial: a quarter, but two beyond the warm-up, before which no rate has shown what it does."""
    return max(epochs // 4, min(epochs, Protocol.warmup_epochs + 2))


def config_of(method: str, model: str, data: str, posed: Posed, budget: Budget, code: str = "") -> TrialConfig:
    """A method's configuration; its learning rate is still the first of the grid."""
    protocol = Protocol(batch_size=batch_size(data), max_epochs=budget.epochs, schedule="cosine")
    learns = find_method(method).build(posed.told).start(1, torch.device("cpu")) is not None
    return TrialConfig(
        data, model, method, budget.rates[0], budget.weight_decay, protocol=protocol, problem=posed.problem,
        learned_lr=budget.learned_lr if learns else 0.0, code=code,
    )  # fmt: skip


def tried(config: TrialConfig, rates: Sequence[float], budget: Budget) -> list[TrialConfig]:
    """A method's search configurations: every rate, with the short budget."""
    short = replace(config.protocol, max_epochs=budget.search_epochs)
    return [replace(config, lr=rate, protocol=short) for rate in rates]


def best_rate(config: TrialConfig, rates: Sequence[float], budget: Budget, records: Iterable[Record]) -> float:
    """The learning rate that a method's search trials choose; an error where some of them have no record."""
    risks: dict[str, list[float]] = {}
    for record in records:
        if SEARCH_SEED <= record["seed"] < SEARCH_SEED + budget.search_trials:
            risks.setdefault(record["config_key"], []).append(least_weak_risk(record))
    configs = tried(config, rates, budget)
    missing = [c for c in configs if len(risks.get(c.key, [])) < budget.search_trials]
    if missing:
        raise InputError(f"{len(missing)} of {len(configs)} search configurations of {config.loss} have no record")
    return rate_of_least_risk({c.lr: risks[c.key] for c in configs})


def run_bench(
    configs: Sequence[TrialConfig], budget: Budget, run: Callable[[list[Trial]], list[Record] | None]
) -> list[TrialConfig] | None:
    """Search, choose, train: the configurations that were trained in full; None if it was stopped.

    The search goes two values beyond an end of the grid that wins, up to `ROUNDS` times. ``run`` trains trials and
    returns all records of the store, or None if it was stopped.
    """
    rates = {config.key: budget.rates for config in configs}
    best = {config.key: budget.rates[0] for config in configs}
    seeds = range(SEARCH_SEED, SEARCH_SEED + budget.search_trials)
    for rounds_left in range(ROUNDS, -1, -1) if len(budget.rates) > 1 else ():
        records = run(breadth_first([c for config in configs for c in tried(config, rates[config.key], budget)], seeds))
        if records is None:
            return None
        best = {config.key: best_rate(config, rates[config.key], budget, records) for config in configs}
        more = {key: beyond(rates[key], rate) for key, rate in best.items() if rounds_left}
        if not any(more.values()):
            break
        rates = {key: (*grid, *more[key]) for key, grid in rates.items()}
    chosen = [replace(config, lr=best[config.key]) for config in configs]
    return chosen if run(breadth_first(chosen, range(budget.trials))) is not None else None
