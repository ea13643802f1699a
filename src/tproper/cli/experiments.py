"""The work of `tproper reproduce` and `tproper report`: trials of the paper's experiments, stored and reported."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ..lab import (
    FLAT_MODELS,
    NAMES,
    RULES,
    Protocol,
    TrialConfig,
    figure1,
    paper,
    save_figure,
    sweep,
    write_leaderboard_alone,
    write_report,
)
from .errors import say
from .reproduce import Asked, Target
from .running import Work, check_options, names_among, resource_errors, run_all

#: What the figures vary: k in Figure 2, alpha in Figure 3.
GRIDS = {Target.fig2: paper.COEFFICIENTS, Target.fig3: paper.EXPONENTS}


def _numbers(text: str) -> tuple[float, ...]:
    try:
        values = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        values = ()
    if not values or not all(0 < v < math.inf for v in torch.tensor(values, dtype=torch.float32).tolist()):
        raise ValueError(
            f"expected --values to be positive numbers with commas between them, none beyond float32, got {text}"
        )
    return values


def _models(models: str, dataset: str, target: Target) -> list[str]:
    """The models to run: those given, or the data set's own, or the paper's."""
    if dataset and dataset not in NAMES:
        raise ValueError(f"expected --dataset among {', '.join(NAMES)}, got {dataset}")
    own = [m for m in paper.MODELS if not dataset or (m in FLAT_MODELS) == (dataset != "cifar10")]
    chosen = names_among(
        models or ",".join(own if target is Target.table2 else own[-1:]), tuple(paper.MODELS), "--models"
    )
    if not set(chosen) <= set(own):
        raise ValueError(
            f"the models {', '.join(chosen)} are not all for the data set {dataset}: "
            "linear and mlp take mnist or digits, resnet20 and wrn28_2 take cifar10"
        )
    return chosen


def run(asked: Asked) -> None:
    """Check what was asked for, train what is not yet in the store, and write the report."""
    with resource_errors(asked.run.out):
        grid = _numbers(asked.values) if asked.values else GRIDS.get(asked.target, ())
        if asked.target is Target.fig1:
            _draw_figure1(asked.run.out)
            return
        plan = _plan(asked, grid)
        if importlib.util.find_spec("matplotlib") is None:
            say("no matplotlib: the report will have tables alone (pip install 'tproper[plots]')", err=True)
        run_all(
            asked.run,
            lambda work: all(_run_model(work, plan, model) for model in plan.models),
            lambda work: _check_kernels(work, plan),
        )
    report(asked.run.out, None)


def _draw_figure1(out: Path) -> None:
    for name in ("matplotlib", "mpltern"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"figure 1 needs {name}: pip install 'tproper[plots]'")
    out.mkdir(parents=True, exist_ok=True)
    for path in save_figure(figure1(), out / "figure1"):
        say(path)


@dataclass(frozen=True)
class _Plan:
    """Which trials to run."""

    target: Target
    models: list[str]
    methods: list[str]
    dataset: str
    grid: tuple[float, ...]
    trials: int
    protocol: Protocol
    search: bool


def _plan(asked: Asked, grid: tuple[float, ...]) -> _Plan:
    """Refuse before anything is made what could not be done."""
    models = _models(asked.models, asked.dataset, asked.target)
    methods = names_among(asked.methods or ",".join(paper.METHODS), tuple(paper.METHODS), "--methods")
    if asked.trials > sweep.SEARCH_SEED:
        raise ValueError(
            f"expected --trials <= {sweep.SEARCH_SEED}, got {asked.trials}: seeds from there on belong to --search"
        )
    check_options(asked.run)
    # digits has 1293 training examples: batches of 256 would leave five steps an epoch
    batch = 32 if asked.dataset == "digits" else Protocol.batch_size
    protocol = Protocol(
        batch_size=batch, max_epochs=asked.max_epochs, augment_validation=asked.augment_validation,
        warmup_by_epoch=asked.warmup_by_epoch,
    )  # fmt: skip
    return _Plan(asked.target, models, methods, asked.dataset, grid, asked.trials, protocol, asked.search)


def _check_kernels(work: Work, plan: _Plan) -> None:
    """A store of other kernels is refused."""
    for model in plan.models:
        work.store.refuse_other_kernels(paper.chosen("bc", model, plan.dataset or None), work.kernels)


def _run_model(work: Work, plan: _Plan, model: str) -> bool:
    """All trials of one model; false if stopped before the end."""

    def base(method: str) -> TrialConfig:
        return paper.chosen(method, model, plan.dataset or None, plan.protocol)

    configs: list[TrialConfig] = []
    for method in plan.methods if plan.target is Target.table2 else ["bc_tuned", "ga_tuned"]:
        config: TrialConfig | None = base(method)
        if plan.search:
            config = sweep.search(method, base(method), work.run)
            if config is None:
                return False
        assert config is not None
        configs.append(config)
    if plan.target is Target.fig2:
        configs += sweep.over_k(base("gls"), plan.grid)
    if plan.target is Target.fig3:
        configs += sweep.over_alpha(base("gls"), plan.grid)
    return work.run(sweep.breadth_first(configs, range(plan.trials))) is not None


def rules_among(select: str) -> list[str]:
    """The ways to choose an epoch in ``--select``."""
    return names_among(select, RULES, "--select")


def report(run: Path, out: Path | None, rules: Sequence[str] = RULES, certify: bool = False) -> None:
    """Write the report of a run, and name its files."""
    for path in write_report(run, out or (run if run.is_dir() else run.parent) / "report", rules, certify):
        say(path)


def report_leaderboard(run: Path, file: Path, rules: Sequence[str], certify: bool) -> None:
    """Write the leaderboard alone."""
    for path in write_leaderboard_alone(run, file, rules, certify):
        say(path)
