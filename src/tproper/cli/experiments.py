"""The work of `tproper reproduce` and `tproper report`: trials of the paper's experiments, stored and reported."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..lab import (
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
from .reproduce import ReproduceOptions, ReproduceRun, Target
from .running import (
    Work,
    check_options,
    models_among,
    names_among,
    positive_numbers,
    resource_errors,
    run_all,
    takes,
)

#: What the figures vary for gLS, and over which grid.
GRIDS = {Target.fig2: ("k", paper.COEFFICIENTS), Target.fig3: ("alpha", paper.EXPONENTS)}


def run(options: ReproduceOptions, run: ReproduceRun) -> None:
    """Check what was asked for, train what is not yet in the store, and write the report."""
    with resource_errors(run.out):
        grid: tuple[float, ...] = GRIDS[options.target][1] if options.target in GRIDS else ()
        if options.values:
            grid = positive_numbers(options.values, "--values")
        if options.target is Target.fig1:
            _draw_figure1(run.out)
            return
        plan = _plan(options, run, grid)
        if importlib.util.find_spec("matplotlib") is None:
            say("no matplotlib: the report will have tables alone (pip install 'tproper[plots]')", err=True)
        run_all(
            run,
            lambda work: all(_run_model(work, plan, model) for model in plan.models),
            lambda work: _check_kernels(work, plan),
        )
    report(run.out, None)


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


def _plan(options: ReproduceOptions, run: ReproduceRun, grid: tuple[float, ...]) -> _Plan:
    """Refuse before anything is made what could not be done."""
    own = [m for m in paper.MODELS if takes(m, run.dataset)]
    models = models_among(options.models, run.dataset, own if options.target is Target.table2 else own[-1:])
    methods = names_among(options.methods or ",".join(paper.METHODS), tuple(paper.METHODS), "--methods")
    if options.trials > sweep.SEARCH_SEED:
        raise ValueError(
            f"--trials: expected at most {sweep.SEARCH_SEED}, got {options.trials}: later seeds belong to --search"
        )
    check_options(run)
    # digits has 1293 training examples: batches of 256 would leave five steps an epoch
    batch = 32 if run.dataset == "digits" else Protocol.batch_size
    protocol = Protocol(
        batch_size=batch, max_epochs=options.max_epochs, augment_validation=options.augment_validation,
        warmup_by_epoch=options.warmup_by_epoch,
    )  # fmt: skip
    return _Plan(options.target, models, methods, run.dataset, grid, options.trials, protocol, options.search)


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
    if plan.target in GRIDS:
        axis, _ = GRIDS[plan.target]
        configs += sweep.product(base("gls"), {axis: plan.grid})
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
