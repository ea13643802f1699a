"""Records into tables beside the paper's, figures, and one self-contained HTML page."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tproper.errors import InputError
from tproper.losses import BackwardLoss, ForwardLoss
from tproper.plots import can_draw, markdown_text
from tproper.transitions import complementary

from . import figures, leaderboard, paper, sweep
from .models import model_names
from .pages import Page, Table, moments
from .protocol import RULES, SEARCH_SEED, Protocol, TrialConfig
from .record_files import gather
from .records import Record, kernels_of
from .store import read_store

PAGE = Page("The paper, reproduced", "report.md", "index.html")

#: The protocol's options that only the authors' code has: how names of files end with them, and titles.
VARIANTS = {
    "augment_validation": ("_augmented", ", validation images augmented"),
    "warmup_by_epoch": ("_warmup_by_epoch", ", warm-up by the epoch"),
}
#: Images of the test sets, of which a record counts some.
TEST_IMAGES = {"mnist": 10_000, "cifar10": 10_000, "digits": 360}


@dataclass(frozen=True)
class Cell:
    """The trials of one row and column of Table 2."""

    method: str
    model: str
    config: TrialConfig
    records: list[Record]

    def mean(self, column: str, scale: float = 1.0) -> float:
        """Mean of a column over the trials that have it."""
        values = [scale * r[column] for r in self.records if r[column] is not None]
        return statistics.fmean(values) if values else math.nan

    def accuracy(self) -> tuple[float, float, int]:
        """Mean and sample standard deviation of the test accuracy in percent, number of trials."""
        return moments([100 * r["accuracy"] for r in self.records])


def shown(mean: float, sd: float, n: int) -> str:
    """Mean ± standard deviation, where there is one."""
    return f"{mean:.2f} ± {sd:.2f}" if n > 1 else f"{mean:.2f}"


def standard_errors(mean: float, sd: float, n: int, theirs: paper.Cell) -> float:
    """The difference to the paper in standard errors of the difference, both sides' spread counted.

    With few trials of ours the paper's standard deviation stands in where it is larger.
    """
    spread = max(sd, theirs.sd) if n < 8 and not math.isnan(sd) else sd
    if math.isnan(spread):
        spread = theirs.sd
    return (mean - theirs.mean) / math.sqrt(spread**2 / n + theirs.sd**2 / paper.TRIALS)


@lru_cache
def lower_bound(config: TrialConfig) -> float | None:
    """The certified greatest lower bound of a configuration's training risk (None: there is none)."""
    if config.loss == "ga":
        return 0.0  # a sum of absolute values
    if config.loss == "gls" and config.alpha < 1:
        return None  # complementary R leaves the simplex, so the loss falls without bound
    transition = complementary(10)
    if config.loss == "forward":
        bounds = ForwardLoss(transition).lower_bounds()
    else:
        squeeze = (config.k, config.alpha) if config.loss == "gls" else None
        bounds = BackwardLoss(transition, squeeze=squeeze).lower_bounds()
    bound = float(min(bounds))  # complementary labels are symmetric: all labels have the same
    return bound if math.isfinite(bound) else None


# --- from records to cells ------------------------------------------------------------------------


def load_records(run: Path) -> list[Record]:
    """The records of a run's folder, of a folder of record files, or of one file."""
    if (run / "records.sqlite").is_file():
        return read_store(run)
    if run.is_file() or any(run.glob("*.jsonl")) or any(run.glob("*.parquet")):
        return gather(run)
    raise InputError(f"expected a run's folder or a file of records, got neither at {run}")


def contexts(records: Sequence[Record]) -> list[tuple[str, str, Protocol]]:
    """The (data set, model, protocol) of the records, the paper's columns first."""
    order = model_names()
    kinds = {(r["dataset"], r["model"], Protocol(**r["config"]["protocol"])) for r in records}
    return sorted(
        kinds, key=lambda c: (order.index(c[1]), c[0], c[2].max_epochs, c[2].augment_validation, astuple(c[2]))
    )


def differences(protocol: Protocol) -> dict[str, Any]:
    """What of a protocol is not the paper's, besides batches, epochs and variants, which have their own words."""
    usual = asdict(Protocol())
    named = ("batch_size", "max_epochs", *VARIANTS)
    return {n: v for n, v in asdict(protocol).items() if n not in named and v != usual[n]}


def context_stem(dataset: str, model: str, protocol: Protocol, kernels: str = "") -> str:
    """What the names of a context's figures end with: short for the paper's protocol, and never that of another."""
    stem = f"{dataset}_{model}"
    if protocol.without_variants != Protocol():
        stem += f"_batch{protocol.batch_size}_epochs{protocol.max_epochs}"
        stem += "".join(f"_{name}{value:g}" for name, value in differences(protocol).items())
    stem += "".join(ending for variant, (ending, _) in VARIANTS.items() if getattr(protocol, variant))
    return stem + (f"_{kernels}" if kernels else "")


def context_name(dataset: str, model: str, protocol: Protocol, kernels: str = "") -> str:
    """The title of a context: the paper's where it is the paper's."""
    name = paper.usual(model)[1]
    if not is_papers(dataset, model, protocol):
        settings = [f"batch {protocol.batch_size}", f"at most {protocol.max_epochs} epochs"]
        settings += [f"{n.replace('_', ' ')} {v:g}" for n, v in differences(protocol).items()]
        name = f"{dataset}, {model} ({', '.join(settings)})"
    name += "".join(words for variant, (_, words) in VARIANTS.items() if getattr(protocol, variant))
    return name + (f", kernels {kernels}" if kernels else "")


def is_papers(dataset: str, model: str, protocol: Protocol) -> bool:
    """Whether the paper's numbers can be compared: its data set and protocol, or a variant of the authors' code."""
    return dataset == paper.usual(model)[0] and protocol.without_variants == Protocol()


def cells(records: Sequence[Record], dataset: str, model: str, protocol: Protocol) -> list[Cell]:
    """The cells of one column of Table 2 that have at least one trial."""
    column = [r for r in records if (r["dataset"], r["model"]) == (dataset, model)]
    column_cells: list[Cell] = []
    for method in paper.METHODS:
        config = _searched_config(method, paper.chosen(method, model, dataset, protocol), column)
        mine = [r for r in column if r["config_key"] == config.key and r["seed"] < SEARCH_SEED]
        if mine and all(cell.config != config for cell in column_cells):  # two rows may have the same settings
            column_cells.append(Cell(method, model, config, mine))
    return column_cells


def _searched_config(method: str, base: TrialConfig, column: list[Record]) -> TrialConfig:
    """The winner of a finished search, followed through the records alone; `base` where there is none."""
    try:
        return sweep.search(method, base, lambda trials: column) or base
    except ValueError:  # the search of this method is unfinished, or there was none
        return base


# --- tables ---------------------------------------------------------------------------------------


def accuracy_table(title: str, column: list[Cell], compare: bool) -> Table:
    """Accuracy beside the paper's."""
    rows = []
    for cell in column:
        mean, sd, n = cell.accuracy()
        theirs = paper.ACCURACY.get((cell.method, cell.model)) if compare else None
        row = [paper.METHODS[cell.method][1], shown(mean, sd, n), str(n)]
        if theirs is None:
            row += ["-", "-", "-"]
        else:
            errors = standard_errors(mean, sd, n, theirs)
            row += [f"{theirs.mean:.2f} ± {theirs.sd:.2f}", f"{mean - theirs.mean:+.2f}", f"{errors:+.1f}"]
        rows.append(row)
    head = ["", "test accuracy, %", "trials", "paper (16 trials)", "difference", "in standard errors"]
    note = "Mean ± sample standard deviation, at the epoch of the best validation accuracy."
    width = len(head) if compare else 3
    return Table(title, note, head[:width], [row[:width] for row in rows])


def summary_table(columns: dict[str, list[Cell]]) -> Table:
    """The paper's Table 2: one row per method, one column per model, the paper's numbers in brackets."""
    rows = []
    for method, (_, name) in paper.METHODS.items():
        row = [name]
        for model in columns:
            cell = next((c for c in columns[model] if c.method == method), None)
            theirs = paper.ACCURACY.get((method, model))
            text = _same_row(method, model, columns[model])
            if cell is not None:
                text = f"{shown(*cell.accuracy())}, n={len(cell.records)}"
            row.append(text + (f" ({theirs.mean:.2f} ± {theirs.sd:.2f})" if theirs else ""))
        rows.append(row)
    head = ["", *(paper.usual(model)[1] for model in columns)]
    note = "Test accuracy in percent: ours, number of trials (the paper's, 16 trials)."
    return Table("Table 2", note, head, rows)


def _same_row(method: str, model: str, column: list[Cell]) -> str:
    """What a cell without trials of its own says: the row that has the same settings, if there is one."""
    for cell in column:
        if cell.config == paper.chosen(method, model, cell.config.dataset, cell.config.protocol):
            return f"as {paper.METHODS[cell.method][1]}"
    return "-"


def probability_table(title: str, column: list[Cell]) -> Table:
    """What the paper left out: how good the probabilities are, with the right link and with softmax.

    Softmax is never zero, so that the floor of its log loss hides little; what gLS's link puts below it is zero.
    """
    names = ("log_loss", "brier", "ece")
    rows = []
    for cell in column:
        own = [f"{cell.mean(name):.3f}" for name in names]
        if cell.config.loss == "gls" and any(r["zeros"] for r in cell.records):
            own[0] = "inf"
        share = cell.mean("zeros", 100 / TEST_IMAGES.get(cell.config.dataset, math.nan))
        soft = [f"{cell.mean(f'softmax_{name}'):.3f}" for name in names]
        rows.append([paper.METHODS[cell.method][1], *own, _percent(share), *soft])
    head = ["log loss", "Brier", "calibration error"]
    note = (
        "Test set, mean over trials. First four: probabilities by the loss's own link (projected); last "
        "three: by softmax, which is the right link of all rows but gLS. Calibration error: 15 bins. "
        "A log loss counts a probability below 2^-24 as 2^-24; where the own link gives the true class less, which the "
        "fourth column counts, it is a lower bound. gLS's link gives such a class exactly 0: its log loss is inf."
    )
    return Table(title, note, ["", *head, "true class below 2^-24, %", *(f"softmax: {name}" for name in head)], rows)


def _percent(share: float) -> str:
    """A share in percent; one that is zero, too small for two digits, or unknown is shown as such."""
    if math.isnan(share):
        return "-"
    return f"{share:.2f}" if share >= 0.01 else "<0.01" if share > 0 else "0"


def _setting(cell: Cell, name: str, compare: bool) -> str:
    """A hyperparameter as used, and the paper's where a search chose another."""
    used = getattr(cell.config, name)
    theirs = getattr(paper.chosen(cell.method, cell.model), name)
    known = compare and (cell.method, cell.model) in paper.ACCURACY
    return f"{used:g} (paper {theirs:g})" if known and used != theirs else f"{used:g}"


def epochs_table(title: str, column: list[Cell], compare: bool) -> Table:
    """Epochs of the best validation accuracy, and what a trial-epoch took."""
    rows = []
    for cell in column:
        theirs = paper.BEST_EPOCHS.get((cell.method, cell.model)) if compare else None
        seconds = [r["seconds"] / r["epochs"] for r in cell.records if r["seconds"]]
        rows.append([
            paper.METHODS[cell.method][1], f"{cell.mean('best_epoch'):.1f}",
            "-" if theirs is None else f"{theirs:.1f}", f"{cell.mean('epochs'):.1f}",
            f"{statistics.fmean(seconds):.4f}" if seconds else "-", _setting(cell, "lr", compare),
            _setting(cell, "weight_decay", compare),
            _setting(cell, "k", compare) if cell.config.loss == "gls" else "-",
        ])  # fmt: skip
    head = ["", "best epoch", "paper", "epochs in all", "s per trial-epoch", "learning rate", "weight decay", "k"]
    note = "Means over trials; learning rate, weight decay and k as used."
    if compare:
        seconds_then = paper.AUTHORS_SECONDS[column[0].model]
        note += f" The authors' code took {seconds_then:g} s per trial-epoch on an H200."
    return Table(title, note, head, rows)


# --- figures --------------------------------------------------------------------------------------


class Grid(NamedTuple):
    """Figure 2 or 3 of a column: accuracies of gLS by one hyperparameter, all else as the paper chose."""

    number: int
    axis: str
    fixed: str
    points: figures.Points
    suffix: str = ""  # of the figure's name

    @property
    def title(self) -> str:
        """What is varied, and what is not."""
        return f"gLS by {'coefficient' if self.axis == 'k' else 'exponent'} ({self.fixed})"


def grids(records: Sequence[Record], column: list[Cell]) -> list[Grid]:
    """Figures 2 and 3 of a column, where the records hold more of them than the paper's choice, which has a row."""
    first = column[0].config
    base = paper.chosen("gls", first.model, first.dataset, first.protocol)
    by_k: figures.Points = {}
    by_alpha: figures.Points = {}
    released: figures.Points = {}  # the authors' code: k = 2 c / alpha
    for r in records:
        config = TrialConfig.from_dict(r["config"])
        if r["seed"] >= SEARCH_SEED or config.loss != "gls":
            continue
        if dataclasses.replace(config, k=base.k, alpha=base.alpha) == base:
            if config.alpha == base.alpha:
                by_k.setdefault(config.k, []).append(100 * r["accuracy"])
            if config.k == base.k:
                by_alpha.setdefault(config.alpha, []).append(100 * r["accuracy"])
            if config == paper.released_exponents(base, [config.alpha])[0]:
                released.setdefault(config.alpha, []).append(100 * r["accuracy"])
    c = paper.SQUEEZE["gls_released"][first.model]
    all_grids = [Grid(2, "k", "alpha = 2", by_k), Grid(3, "alpha", f"k = {base.k:g}", by_alpha)]
    all_grids.append(Grid(3, "alpha", f"k = 2 x {c:g} / alpha, as in the authors' code", released, "_released"))
    return [grid for grid in all_grids if set(grid.points) - {getattr(base, grid.axis)}]


def grid_table(title: str, grid: Grid) -> Table:
    """The numbers behind Figure 2 or 3."""
    rows = [[f"{value:g}", shown(*moments(runs)), str(len(runs))] for value, runs in sorted(grid.points.items())]
    note = "Mean ± sample standard deviation; learning rate and weight decay as the paper chose them for gLS."
    return Table(title, note, [grid.axis, "test accuracy, %", "trials"], rows)


def column_figures(column: list[Cell], drawn_grids: Sequence[Grid], name: str, stem: str) -> dict[str, Any]:
    """Figures 2 and 3, and the risk traces."""
    drawn: dict[str, Any] = {}
    lines = {c.method: c.accuracy()[0] for c in column if c.method in ("bc_tuned", "ga_tuned")}
    for grid in drawn_grids:
        below = 1.0 if grid.axis == "alpha" else None
        figure = figures.sensitivity(grid.points, lines, grid.axis, f"{name}: {grid.title}", grey_below=below)
        drawn[f"figure{grid.number}{grid.suffix}_{stem}"] = figure
    traces = {c.method: [r["risk"] for r in c.records] for c in column}
    bounds = {c.method: lower_bound(c.config) for c in column}
    drawn[f"risk_{stem}"] = figures.risk_traces(traces, bounds, f"{name}: training risk and its lower bound")
    return drawn


def provenance(records: Sequence[Record]) -> str:
    """Where the records come from, in a sentence of Markdown."""

    def listed(column: str) -> str:
        return ", ".join(sorted({str(r[column]) for r in records}))

    where = f"{listed('machine')} with {listed('software')}"
    return markdown_text(f"{len(records)} trials on {where}; code at revision {listed('revision')}.")


def write_report(run: Path, out: Path, rules: Sequence[str] = RULES, decide: bool = False) -> list[Path]:
    """Write the paper's tables (``report.md``), figures (PNG and SVG) and ``index.html``, and the leaderboard of the
    records of a benchmark (``leaderboard.md`` and ``.html``); the paths written.

    `rules` are the ways in which the leaderboard's epochs are chosen; `decide` has its certificates made, which may
    take minutes; they are kept beside the records.
    """
    records = load_records(run)
    if not records:
        raise InputError(f"expected at least one finished trial in {run}, got none")
    papers = [r for r in records if "problem" not in r["config"]]
    others = [r for r in records if "problem" in r["config"]]
    for page, rows in ((PAGE, papers), (leaderboard.PAGE, others)):
        if rows:
            page.check(out)
    out.mkdir(parents=True, exist_ok=True)
    written = write_papers(papers, out) if papers else []
    return written + (write_leaderboard(others, out, kept_verdicts(run), rules, decide) if others else [])


def kept_verdicts(run: Path) -> Path:
    """Where the certificates of a run's or folder's methods are kept."""
    return (run if run.is_dir() else run.parent) / "certificates.json"


def write_leaderboard(
    records: Sequence[Record],
    out: Path,
    kept: Path,
    rules: Sequence[str] = RULES,
    decide: bool = False,
    page: Page = leaderboard.PAGE,
) -> list[Path]:
    """The leaderboard's files; its picture shows the epochs that the last rule has chosen."""
    judged = leaderboard.judge(records, leaderboard.Verdicts(kept, decide))
    panels = {j.title: j.standings(rules[-1]) for j in judged}
    images = []
    if can_draw() and any(len(panel) > 1 for panel in panels.values()):
        stem = (out / page.markdown_name).with_suffix("")
        images = figures.save_figure(figures.standings(panels, rules[-1]), stem, ["png"])
    tables = leaderboard.leaderboard(judged, rules)
    return page.write(out, f"{leaderboard.NOTE} {provenance(records)}", tables, images) + images


def write_leaderboard_alone(run: Path, file: Path, rules: Sequence[str] = RULES, decide: bool = False) -> list[Path]:
    """The leaderboard of a run's or folder's records as one Markdown file of this name."""
    records = [r for r in load_records(run) if "problem" in r["config"]]
    if not records:
        raise InputError(f"expected at least one finished trial of a benchmark in {run}, got none")
    page = Page(leaderboard.PAGE.title, file.name, None)
    page.check(file.parent)
    picture = file.with_suffix(".png")
    if picture.exists() and not file.exists():
        raise InputError(f"{picture}: expected no file before the leaderboard beside it, got one; choose another name")
    return write_leaderboard(records, file.parent, kept_verdicts(run), rules, decide, page)


def write_papers(records: Sequence[Record], out: Path) -> list[Path]:
    """The paper's tables and figures."""
    tables: list[Table] = []
    columns: dict[str, list[Cell]] = {}
    written: list[Path] = []
    images: list[Path] = []
    groups = {kernels: [r for r in records if kernels_of(r) == kernels] for kernels in sorted(map(kernels_of, records))}
    for kernels, group in groups.items():  # "" first; trials of other kernels never share a cell
        for dataset, model, protocol in contexts(group):
            column = cells(group, dataset, model, protocol)
            if not column:
                continue
            context = (dataset, model, protocol, kernels)
            name, compare = context_name(*context), is_papers(dataset, model, protocol)
            if compare and not kernels and protocol == protocol.without_variants:
                columns[model] = column
            tables += [
                accuracy_table(f"{name}: accuracy", column, compare),
                probability_table(f"{name}: probabilities", column),
                epochs_table(f"{name}: epochs and settings", column, compare),
            ]
            varied = grids(group, column)
            tables += [grid_table(f"{name}: {grid.title}", grid) for grid in varied]
            if not can_draw():
                continue
            for stem, figure in column_figures(column, varied, name, context_stem(*context)).items():
                paths = figures.save_figure(figure, out / stem)
                images.append(paths[0])
                written += paths
    if columns:
        tables.insert(0, summary_table(columns))
    note = provenance(records) + ("" if can_draw() else f" {figures.NO_FIGURES}")
    return written + PAGE.write(out, note, tables, images)
