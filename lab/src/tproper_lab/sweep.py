"""Which trials to run: the paper's chosen values, its grid search, the grids of Figures 2 and 3."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tproper.errors import InputError

from . import paper
from .protocol import SEARCH_SEED, Trial, TrialConfig
from .records import Record

#: What the paper tuned for each method: fields of TrialConfig and their grids.
AXES: dict[str, dict[str, tuple[float, ...]]] = {
    "bc": {"lr": paper.RATES},
    "bc_tuned": {"lr": paper.RATES, "weight_decay": paper.RATES},
    "ga": {"lr": paper.RATES},
    "ga_tuned": {"lr": paper.RATES, "weight_decay": paper.RATES},
    "gls": {"lr": paper.RATES, "k": paper.COEFFICIENTS},
    "forward": {"lr": paper.RATES},
}
AXES["gls_released"] = AXES["gls"]


def breadth_first(configs: Iterable[TrialConfig], seeds: Sequence[int]) -> list[Trial]:
    """Trial 1 of every configuration, then trial 2: a run cut short has every cell."""
    unique = list(dict.fromkeys(configs))
    return [Trial(config, seed) for seed in seeds for config in unique]


def beyond(grid: Sequence[float], winner: float) -> tuple[float, ...]:
    """The two values of the series ..., .1, .3, 1, 3, ... past the end of a grid that wins; none inside the grid."""
    for end, up in ((max(grid), True), (min(grid), False)):
        if winner == end:
            first = _next(winner, up)
            return first, _next(first, up)
    return ()


def _next(value: float, up: bool) -> float:
    """The neighbour in the series ..., .1, .3, 1, 3, 10, ..., whether or not the value is one of its own."""
    power = math.floor(math.log10(value))
    series = [float(f"{m}e{e}") for e in range(power - 1, power + 2) for m in (1, 3)]
    near = 1e-9 * value
    return min(s for s in series if s > value + near) if up else max(s for s in series if s < value - near)


def product(base: TrialConfig, axes: dict[str, tuple[float, ...]]) -> list[TrialConfig]:
    """Every combination of the axes' values, all else as in base."""
    changes: list[dict[str, Any]] = [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())
    ]
    return [replace(base, **change) for change in changes]


def winner(configs: Sequence[TrialConfig], records: Iterable[Record]) -> TrialConfig:
    """The configuration with the best mean validation accuracy; ties go to the first."""
    scores: dict[str, list[float]] = {}
    for record in records:
        if record["seed"] >= SEARCH_SEED:
            scores.setdefault(record["config_key"], []).append(record["valid_accuracy"])
    missing = [config for config in configs if config.key not in scores]
    if missing:
        raise InputError(f"{len(missing)} of {len(configs)} search configurations have no record")
    return max(configs, key=lambda c: sum(scores[c.key]) / len(scores[c.key]))


def search(method: str, base: TrialConfig, run: Callable[[list[Trial]], list[Record] | None]) -> TrialConfig | None:
    """The paper's grid search: the full grid, then two more values beyond each end that wins.

    ``run`` trains trials and returns all records of the store, or None if it was stopped.
    """
    axes = dict(AXES[method])
    grown: set[tuple[str, bool]] = set()
    while True:
        configs = product(base, axes)
        records = run(breadth_first(configs, [SEARCH_SEED]))
        if records is None:
            return None
        best = winner(configs, records)
        more = {}
        for name, grid in axes.items():
            value = getattr(best, name)
            extra = beyond(grid, value)
            side = (name, value == max(grid))
            if extra and side not in grown:
                grown.add(side)
                more[name] = extra
        if not more:
            return best
        axes = {name: (*grid, *more.get(name, ())) for name, grid in axes.items()}
