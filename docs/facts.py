"""What the numbers in a page's sentences are computed by: readings of the stored records, under short names.

A template writes ``{{ trials("wrn28_2", "gls") | mean | d1 }}``, and ``docs/generate.py`` puts 47.2 there: functions
below by their names, then filters. ``d1`` to ``d4`` are digits after the point, ``s1`` shows the sign, ``g2`` and
``g3`` are digits that count. Accuracies are in percent.
"""

from __future__ import annotations

import json
import statistics
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from tproper_lab import Protocol, Record, gather, kernels_of, paper
from tproper_lab.protocol import SEARCH_SEED
from tproper_lab.report import TEST_IMAGES, Cell, standard_errors
from tproper_lab.report import cells as column

ROOT = Path(__file__).resolve().parent.parent
PERCENT = ("accuracy", "valid_accuracy")


@cache
def results() -> list[Record]:
    """The paper's trials in ``lab/results/``: every record that is not of a benchmark or a search."""
    return [r for r in gather(ROOT / "lab" / "results") if "problem" not in r["config"] and r["seed"] < SEARCH_SEED]


def trials(
    model: str, method: str, seeds: Any = None, revision: str | None = None, kernels: str = "", **changes: Any
) -> list[Record]:
    """The trials of a row and column of Table 2, in the order of their seeds.

    `seeds`: these alone, such as ``range(6)``; `revision`: those whose revision begins so; `kernels`: "" is the usual
    ones, else "float32", ...; `changes`: other settings than the paper's, of the trial (``k=0.3``) or of the protocol
    (``augment_validation=True``).
    """
    of_protocol = {f.name for f in fields(Protocol)} & set(changes)
    protocol = Protocol(**{name: changes.pop(name) for name in of_protocol})
    key = replace(paper.chosen(method, model, protocol=protocol), **changes).key
    rows = [r for r in results() if r["config_key"] == key and kernels_of(r) == kernels]
    rows = [r for r in rows if (seeds is None or r["seed"] in seeds) and r["revision"].startswith(revision or "")]
    if not rows:
        asked = f"trials({model!r}, {method!r}, ...)"
        raise ValueError(f"{asked}: expected at least one such trial in lab/results/, got none")
    return sorted(rows, key=lambda r: r["seed"])


@cache
def search(model: str) -> dict[str, Cell]:
    """What the paper's grid search chose for each method of a model, and its trials, from ``lab/results/search``."""
    records = gather(ROOT / "lab" / "results" / "search")
    return {c.method: c for c in column(records, paper.MODELS[model][0], model, Protocol())}


def searched(model: str, method: str) -> list[Record]:
    """The trials of what the grid search chose."""
    return search(model)[method].records


def choice(model: str, method: str) -> str:
    """The settings that the grid search chose."""
    config = search(model)[method].config
    text = f"lr {config.lr:g}"
    text += f", wd {config.weight_decay:g}" if method.endswith("_tuned") else ""
    return text + (f", k {config.k:g}" if config.loss == "gls" else "")


def mean(rows: list[Record], column: str = "accuracy") -> float:
    """Mean over trials of a column: accuracy, valid_accuracy, brier, ece, softmax_brier, best_epoch, seconds, ..."""
    return statistics.fmean(_values(rows, column))


def sd(rows: list[Record], column: str = "accuracy") -> float:
    """Sample standard deviation over trials."""
    return statistics.stdev(_values(rows, column))


def _values(rows: list[Record], column: str) -> list[float]:
    values = [r[column] for r in rows]
    return [100 * v for v in values] if column in PERCENT else values


def zeros(rows: list[Record]) -> float:
    """The share of test images, in percent, whose true class has no probability."""
    return statistics.fmean(100 * r["zeros"] / TEST_IMAGES[r["dataset"]] for r in rows)


def theirs(model: str, method: str) -> paper.Cell:
    """The paper's ``.mean`` and ``.sd``."""
    return paper.ACCURACY[method, model]


def apart(model: str, method: str, **selected: Any) -> float:
    """Our mean minus the paper's, in points; `selected` as in `trials`."""
    return mean(trials(model, method, **selected)) - theirs(model, method).mean


def errors_apart(model: str, method: str, **selected: Any) -> float:
    """The same in standard errors of the difference."""
    rows = trials(model, method, **selected)
    return standard_errors(mean(rows), sd(rows), len(rows), theirs(model, method))


def ahead(rows: list[Record], others: list[Record], column: str = "accuracy") -> float:
    """Mean over the seeds that both have of the first's value minus the second's."""
    return statistics.fmean(_differences(rows, others, column))


def ahead_error(rows: list[Record], others: list[Record], column: str = "accuracy") -> float:
    """The standard error of `ahead`."""
    differences = _differences(rows, others, column)
    return statistics.stdev(differences) / len(differences) ** 0.5


def _differences(rows: list[Record], others: list[Record], column: str) -> list[float]:
    first, second = ({r["seed"]: v for r, v in zip(g, _values(g, column), strict=True)} for g in (rows, others))
    return [first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())]


def cells(dataset: str) -> list[tuple[str, str]]:
    """The (model, method) of a data set's part of Table 2 that the paper has too; settings that occur twice, once."""
    pairs: dict[str, tuple[str, str]] = {}
    for method, model in paper.ACCURACY:
        if paper.MODELS[model][0] == dataset:
            pairs.setdefault(paper.chosen(method, model).key, (model, method))
    return list(pairs.values())


def record(name: str) -> Any:
    """A record of ``benchmarks/records``: ``record("scale_curves.json")``; a list for ``.jsonl``."""
    text = (ROOT / "benchmarks" / "records" / name).read_text()
    return [json.loads(line) for line in text.splitlines()] if name.endswith(".jsonl") else json.loads(text)


def bound(alpha: float, k: float = 1.0, num_classes: int = 10) -> float:
    """The greatest lower bound of BC+gLS for complementary labels."""
    import tproper as tp

    return float(min(tp.BackwardLoss(tp.complementary(num_classes), squeeze=(k, alpha)).lower_bounds()))


def softmax_reads(p: float, k: float = 1.0, alpha: float = 2.0, num_classes: int = 10) -> float:
    """What softmax makes of the optimal scores of BC+gLS for a class of probability p, all others being equal."""
    import torch

    import tproper as tp

    truth = torch.full((num_classes,), (1 - p) / (num_classes - 1), dtype=torch.float64)
    truth[0] = p
    return float(tp.LogSumExp().squeezed(k, alpha).inverse_link(truth).softmax(-1)[0])


def fewest_trials(dataset: str) -> int:
    """The trials of the cell of Table 2 that has the fewest, the row with the authors' k left out."""
    return min(len(trials(*cell)) for cell in cells_of(dataset))


def cells_of(dataset: str) -> list[tuple[str, str]]:
    """`cells` without the row with the authors' k, which the paper does not have."""
    return [cell for cell in cells(dataset) if cell[1] != "gls_released"]


def furthest(dataset: str) -> float:
    """The largest distance of a mean of ours from the paper's, in points."""
    return max(abs(apart(*cell)) for cell in cells(dataset))


def cells_within(dataset: str, errors: float) -> int:
    """How many cells are within so many standard errors of the paper's."""
    return sum(abs(errors_apart(*cell)) < errors for cell in cells_of(dataset))


def zeros_by_model(method: str) -> list[float]:
    """`zeros` of every model."""
    return [zeros(trials(model, method)) for model in paper.MODELS]


def beyond(rows: list[Record], others: list[Record]) -> float:
    """How far one mean accuracy is above another."""
    return mean(rows) - mean(others)


#: What templates call by name.
NAMES: dict[str, Any] = {
    **{f.__name__: f for f in (trials, theirs, apart, errors_apart, ahead, ahead_error, searched, choice)},
    **{f.__name__: f for f in (fewest_trials, cells_of, furthest, cells_within, zeros_by_model)},
    **{f.__name__: f for f in (bound, softmax_reads, range)},
    "protocol": Protocol(),
}
#: What they write after a bar.
FILTERS: dict[str, Any] = {
    **{f.__name__: f for f in (mean, sd, beyond)},
    **{f"d{n}": f"{{:.{n}f}}".format for n in range(5)},
    **{f"g{n}": f"{{:.{n}g}}".format for n in (2, 3)},
    "s1": "{:+.1f}".format,
}
