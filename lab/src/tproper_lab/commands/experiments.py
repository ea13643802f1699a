"""The work of `tproper reproduce` and `tproper report`: trials of the paper's experiments, stored and reported."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path

import tproper_lab as lab
from tproper.cli import say
from tproper.errors import InputError

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
GRIDS = {Target.fig2: ("k", lab.paper.COEFFICIENTS), Target.fig3: ("alpha", lab.paper.EXPONENTS)}


def run(options: ReproduceOptions, run: ReproduceRun) -> None:
    """Check what was asked for, train what is not yet in the store, and write the report."""
    with resource_errors(run.out):
        if options.target is Target.fig1:
            _draw_figure1(run.out)
            return
        own = [m for m in lab.paper.MODELS if takes(m, run.dataset)]
        models = models_among(
            options.models, run.dataset, own if options.target is Target.table2 else own[-1:], tuple(lab.paper.MODELS)
        )
        chosen = _configs(options, run)
        check_options(run)
        if importlib.util.find_spec("matplotlib") is None:
            say("no matplotlib: the report will have tables alone (pip install 'tproper[plots]')", err=True)

        def check(work: Work) -> None:
            for model in models:  # a store of other kernels is refused
                work.store.refuse_other_kernels(lab.paper.chosen("bc", model, run.dataset or None), run.kernels)

        def body(work: Work) -> bool:
            for model in models:
                configs = chosen(work, model)
                if configs is None or work.run(lab.sweep.breadth_first(configs, range(options.trials))) is None:
                    return False
            return True

        run_all(run, body, check)
    report(run.out, None)


def _configs(options: ReproduceOptions, run: ReproduceRun) -> Callable[[Work, str], list[lab.TrialConfig] | None]:
    """What to train of a model, searched for first where that is asked; None if the search was stopped."""
    methods = ["bc_tuned", "ga_tuned"]
    axes: dict[str, tuple[float, ...]] = {}
    if options.target is Target.table2:
        methods = names_among(options.methods or ",".join(lab.paper.METHODS), tuple(lab.paper.METHODS), "--methods")
    else:
        axis, grid = GRIDS[options.target]
        axes = {axis: positive_numbers(options.values, "--values") if options.values else grid}
    if options.trials > lab.sweep.SEARCH_SEED:
        raise InputError(
            f"--trials: expected at most {lab.sweep.SEARCH_SEED}, got {options.trials}: later seeds belong to --search"
        )
    protocol = lab.Protocol(
        batch_size=lab.batch_size(run.dataset), max_epochs=options.max_epochs,
        augment_validation=options.augment_validation, warmup_by_epoch=options.warmup_by_epoch,
    )  # fmt: skip

    def configs(work: Work, model: str) -> list[lab.TrialConfig] | None:
        out = []
        for method in methods:
            config: lab.TrialConfig | None = lab.paper.chosen(method, model, run.dataset or None, protocol)
            if options.search and config is not None:
                config = lab.sweep.search(method, config, work.run)
            if config is None:
                return None
            out.append(config)
        gls = lab.paper.chosen("gls", model, run.dataset or None, protocol)
        if options.released:
            return out + lab.paper.released_exponents(gls, axes["alpha"])
        return out + (lab.sweep.product(gls, axes) if axes else [])

    return configs


def _draw_figure1(out: Path) -> None:
    for name in ("matplotlib", "mpltern"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"figure 1 needs {name}: pip install 'tproper[plots]'")
    out.mkdir(parents=True, exist_ok=True)
    for path in lab.save_figure(lab.figure1(), out / "figure1"):
        say(path)


def rules_among(select: str) -> list[str]:
    """The ways to choose an epoch in ``--select``."""
    return names_among(select, lab.RULES, "--select")


def report(
    run: Path,
    out: Path | None,
    rules: Sequence[str] = lab.RULES,
    certify: bool = False,
    leaderboard: Path | None = None,
) -> None:
    """Write the report of a run, or its leaderboard alone, and name the files."""
    if leaderboard is not None:
        paths = lab.write_leaderboard_alone(run, leaderboard, rules, certify)
    else:
        paths = lab.write_report(run, out or (run if run.is_dir() else run.parent) / "report", rules, certify)
    for path in paths:
        say(path)
