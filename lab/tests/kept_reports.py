"""What is made of records: which trials come next, the paper's tables, the leaderboard, pictures, published labels."""

from __future__ import annotations

import copy
import functools
import gzip
import importlib
import itertools
import sqlite3
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from blobs import blobs
from tests.figures.keeping import Word, numbers, shapes, without_folder

import tproper as tp
from tproper.transitions import AnnotatorTransition
from tproper_lab import comparing, figures, leaderboard, paper, real_labels, report, sweep
from tproper_lab.comparing import Budget
from tproper_lab.pages import Table, moments
from tproper_lab.protocol import SEARCH_SEED, Progress, Protocol, Trial, TrialConfig
from tproper_lab.records import checksum, first_revision, kernel_group, least_weak_risk, rate_of_least_risk, significant
from tproper_lab.runner import Status
from tproper_lab.store import Store
from tproper_lab.verdicts import Verdicts, short_verdict

Cases = dict[str, Callable[[], Any]]
BUDGET = Budget((0.1, 0.3, 1.0), 8, 6, trials=5, search_trials=2)


def noise(*parts: object) -> float:
    """A number between 0 and 1 that depends on the parts alone, and on each of them."""
    return float(np.random.default_rng(list("|".join(map(str, parts)).encode())).random())


def record(config: TrialConfig, seed: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    """The record of a trial that was not trained."""
    trial = Trial(config, seed)
    names = ("dataset", "model", "loss", "lr", "weight_decay", "k", "alpha")
    spread = noise(config.key, seed)
    return {
        "id": trial.id,
        "config_key": config.key,
        "seed": seed,
        **{name: getattr(config, name) for name in names},
        "epochs": 40 + seed % 7,
        "best_epoch": 10 + seed % 10,
        "valid_accuracy": accuracy - 0.01,
        "accuracy": accuracy,
        "log_loss": 0.5 + spread,
        "brier": 0.2 + spread / 9,
        "ece": 0.1 * spread,
        "zeros": 0,
        "softmax_log_loss": 0.6 + spread,
        "softmax_brier": 0.3 + spread / 7,
        "softmax_ece": 0.2 * spread,
        "seconds": 1.0 + spread,
        "machine": "a machine",
        "software": "torch",
        "revision": "r",
        "finished_at": f"2021-07-{18 + seed % 9}",
        "config": config.as_dict(),
        "risk": [2.0, 1.0 - spread, None],
        "valid": [0.5, 0.6, 0.6],
    } | changes


def trial(config: TrialConfig, seed: int, accuracy: float, log_loss: float, **changes: Any) -> dict[str, Any]:
    """The record of a trial of a benchmark."""
    spread = noise(config.key, seed)

    def selection(shift: float) -> dict[str, Any]:
        raw = {
            "accuracy": accuracy - shift,
            "log_loss": log_loss + 0.5,
            "brier": 0.4 + spread / 9,
            "ece": spread / 5,
            "zeros": 0.0,
        }
        weak = {"method": "vector" if seed % 2 else "temperature", "temperature": 1.0, **raw, "log_loss": log_loss}
        return {"epoch": 2, "valid_accuracy": accuracy, "weak_risk": 1.0, "raw": raw, "by_weak": weak}

    return (
        record(config, seed, accuracy)
        | {
            "epochs": 3,
            "best_epoch": 2,
            "weak": [1.5, 1.0 + spread, None],
            "selections": {"clean": selection(0.0), "weak": selection(0.02)},
        }
        | changes
    )


def cells(tables: list[Table]) -> list[Any]:
    """The cells of tables, and the numbers of their notes."""
    return [[Word(t.title), t.note, [[Word(c) for c in row] for row in (t.head, *t.rows)]] for t in tables]


PROTOCOL = Protocol(batch_size=32, max_epochs=8, schedule="cosine")
ACCURACIES = {"forward": 0.8, "gls": 0.79, "ce": 0.7, "bc": 0.65, "sce": 0.79, "ga": 0.4}


@functools.cache
def benchmark() -> list[dict[str, Any]]:
    """Searches and trials of several methods on several problems, one of which diverged."""
    data, out = blobs(classes=10), []
    posed = [
        comparing.pose("symmetric:0.3", data).problem,
        comparing.pose("symmetric:0.3", data, told="symmetric:0.1").problem,
        comparing.pose("complementary", data).problem,
        comparing.pose("pu:0.5", replace(data, name="digits")).problem,
    ]
    for place, problem in enumerate(posed):
        methods = {1: ["forward", "ce"], 2: ["forward", "scl_nl", "gls", "adapted"], 3: ["nnpu", "bc"]}
        for method in methods.get(place, list(ACCURACIES)):
            config = TrialConfig("digits", "linear", method, 0.3, protocol=PROTOCOL, problem=problem)
            short = replace(config, protocol=replace(PROTOCOL, max_epochs=2))
            for rate in (0.1, 0.3, 1.0) if method != "bc" else ():
                for seed in range(2):
                    risk = 1.0 + abs(np.log(rate / 0.3)) + noise(method, rate, seed) / 9
                    out.append(trial(replace(short, lr=rate), SEARCH_SEED + seed, 0.3, 1.0, weak=[3.0, risk, risk + 1]))
            mean = ACCURACIES.get(method, 0.5 + noise(method, place) / 3)
            count = 6 if method in ("forward", "gls") and place == 0 else 4
            for seed in range(count):
                accuracy = mean + (noise(method, place, seed) - 0.5) / 25 + 0.03 * noise("shared", seed)
                row = trial(config, seed, accuracy, 1.4 - accuracy + noise(seed, method) / 30)
                if method == "ga" and seed == 3:
                    row["selections"]["weak"].pop("by_weak")
                if place == 2:
                    for part in row["selections"].values():
                        part["raw"]["soft_log_loss"] = 0.9 + noise(seed)
                out.append(row)
    return out


def boards() -> Cases:
    """The leaderboard of those records."""

    def judged(keep: Callable[[dict[str, Any]], bool] = lambda row: True) -> list[leaderboard.Judged]:
        return leaderboard.judge([r for r in benchmark() if keep(r)], Verdicts())

    def led(rules: tuple[str, ...]) -> list[Any]:
        out: list[Any] = []
        for one in judged():
            for lead in leaderboard.leads(one.block, one.cards, rules):
                out += [Word(lead.best.title), lead.ahead, lead.clear, Word(lead.verdict), lead.is_proper]
                out += [Word(lead.value(lead.best)), Word(lead.gap)]
        return out

    def standing() -> list[Any]:
        return [[Word(s.name), s.certified, *s.accuracy, *s.log_loss] for j in judged() for s in j.standings("weak")]

    def drawn() -> list[Any]:
        figure = figures.standings({j.title: j.standings("weak") for j in judged()}, "weak")
        return shapes(figure)

    def theirs(codes: tuple[str, ...] = ("ff", "ee", "")) -> list[dict[str, Any]]:
        """Trials of losses that nobody here has the code of."""
        problem = comparing.pose("symmetric:0.3", blobs(classes=10)).problem
        config = TrialConfig("digits", "linear", "mine", 0.3, protocol=PROTOCOL, problem=problem)
        return [trial(replace(config, code=c), s, 0.6 + noise(c, s) / 9, 1.0) for c in codes for s in range(2)]

    def looks() -> list[Any]:
        """How large a difference must be to be clear, by the number of rivals and of looks."""
        problem = comparing.pose("symmetric:0.3", blobs(classes=10)).problem
        config = TrialConfig("digits", "linear", "ce", 0.3, protocol=PROTOCOL, problem=problem)
        out: list[Any] = []
        for rivals in (1, 3):
            for short in (6, 4):
                for shift in np.linspace(0.002, 0.05, 25):
                    mine = [trial(config, s, 0.6 + float(shift) + noise(s) / 40, 1.0) for s in range(6)]
                    rows = [trial(config, s, 0.6, 1.0) for s in range(6)]
                    ones = [leaderboard.Entry(config, mine)] + [leaderboard.Entry(config, mine[:short])] * (rivals - 1)
                    others = [leaderboard.Entry(config, rows), leaderboard.Entry(config, rows[:short])]
                    for first, second in ((ones, others), (others, ones)):
                        found = leaderboard.compared(first, second, "clean", leaderboard.ACCURACY, 1.0)
                        out.append(int(found[1]))
        return out

    def seeds(first: int, second: int) -> Callable[[], Any]:
        def found() -> Any:
            (block,) = (j.block for j in judged(lambda r: r["config"]["problem"]["name"] == "symmetric:0.3"))
            by = {e.title: e for e in block.entries}
            names = list(by)
            ones, others = [by[n] for n in names[:first]], [by[n] for n in names[first : first + second]]
            out: list[Any] = [[Word(n) for n in names]]
            for score, sign in ((leaderboard.ACCURACY, 1.0), (leaderboard.LOG_LOSS, -1.0)):
                out.append(leaderboard.compared(ones, others, "clean", score, sign))
                out.append(leaderboard.compared(others, ones, "clean", score, sign))
            short = [replace(e, records=e.records[:1]) for e in (*ones[:1], *others[:1])]
            return [*out, leaderboard.compared(short[:1], short[1:], "clean", leaderboard.ACCURACY, 1.0)]

        return found

    return {
        "both rules": lambda: cells(leaderboard.leaderboard(judged())),
        "clean alone": lambda: cells(leaderboard.leaderboard(judged(), ("clean",))),
        "one block": lambda: cells(leaderboard.leaderboard(judged(lambda r: "pu" in r["config"]["problem"]["name"]))),
        "who leads": lambda: led(("clean", "weak")),
        "contests": lambda: [
            [Word(c.title), Word(c.told), [Word(e.title) for e in c.entries], Word(c.verdict(("clean", "weak")))]
            for c in leaderboard.contests(judged())
        ],
        "standings": standing,
        "picture": drawn,
        "one of each": seeds(1, 1),
        "several": seeds(2, 3),
        "sentences": lambda: [
            leaderboard.sentences(leaderboard.leads(j.block, j.cards, rules))
            for j in judged()
            for rules in (("weak",), ("clean", "weak"))
        ],
        "numbers": lambda: [
            Word(leaderboard.number(*pair))
            for pair in ((0.5, 0.01), (0.5, float("nan")), (float("nan"), 1.0), (0.1234, 0.02, 100, 2))
        ],
        "counted": lambda: [Word(leaderboard.counted(n, "epoch")) for n in ([1], [2], [1, 2], [8, 15])],
        "titles": lambda: [
            Word(t)
            for t in leaderboard.distinct_titles(
                ["a", "a", "b", "a"],
                [TrialConfig("digits", "linear", "bc", lr) for lr in (0.1, 0.3, 0.1, 0.1)],
                leaderboard.METHODS_APART,
            )
        ],
        "looks": looks,
        "own losses": lambda: cells(leaderboard.leaderboard(leaderboard.judge(theirs(), Verdicts()))),
        "verdicts": lambda: [Word(short_verdict(c)) for j in judged() for c in j.cards.values()],
    }


@functools.cache
def papers() -> list[dict[str, Any]]:
    """Trials of the paper's rows, of its grids, of a search, of other protocols and kernels."""
    out = []
    for method in paper.METHODS:
        config = paper.chosen(method, "mlp")
        out += [record(config, s, 0.8 + noise(method, s) / 10, zeros=s * (method == "gls")) for s in range(3)]
    gls = paper.chosen("gls", "mlp")
    for k in (0.1, 10.0):
        out += [record(replace(gls, k=k), s, 0.7 + noise(k, s) / 9) for s in range(2)]
    out += [record(replace(gls, alpha=a), 0, 0.7 + a / 50) for a in (0.5, 1.5, 3.0)]
    out += [record(c, 1, 0.75 + c.alpha / 50) for c in paper.released_exponents(gls, (0.8, 1.5))]
    linear = paper.chosen("bc", "linear")
    for rate in sweep.AXES["bc"]["lr"]:
        out.append(record(replace(linear, lr=rate), SEARCH_SEED, 0.6 + 0.1 * (rate == 0.01)))
    out += [record(replace(linear, lr=0.01), s, 0.66 + noise(s) / 30) for s in range(9)]
    other = replace(linear, dataset="digits", protocol=Protocol(batch_size=32, max_epochs=40, patience=3))
    out += [record(other, s, 0.5, brier=None, seconds=None) for s in range(2)]
    variant = replace(paper.chosen("ga", "mlp"), protocol=Protocol(augment_validation=True))
    out.append(record(variant, 0, 0.6))
    out.append(record(paper.chosen("forward", "resnet20"), 0, 0.3, software="torch, kernels float32"))
    return list({r["id"]: r for r in out}.values())


def reports() -> Cases:
    """The paper's tables of those records."""

    def written(name: str, keep: Callable[[dict[str, Any]], bool] = lambda row: True) -> list[Any]:
        lines: list[Any] = []
        with tempfile.TemporaryDirectory() as folder:
            page, draws = report.PAGE, report.can_draw
            report.can_draw = lambda: False  # type: ignore[assignment]  # pictures are looked at below
            try:
                report.write_papers([r for r in papers() if keep(r)], Path(folder))
            finally:
                report.can_draw = draws
            for line in (Path(folder) / page.markdown_name).read_text().splitlines():
                lines += [Word(line)] if line.startswith(("|", "## ")) else [line]
        return lines

    def column(model: str = "mlp", dataset: str = "mnist") -> list[report.Cell]:
        return report.cells(papers(), dataset, model, Protocol())

    def pictures() -> list[Any]:
        grids = report.grids(papers(), column())
        drawn = report.column_figures(column(), grids, "name", "stem")
        return [[Word(name), shapes(figure)] for name, figure in drawn.items()]

    theirs = paper.Cell(80.0, 2.0)
    bounds = [paper.chosen(m, "mlp") for m in paper.METHODS] + [
        replace(paper.chosen("gls", "mlp"), alpha=a, k=0.5) for a in (0.5, 1.0, 1.5)
    ]
    return {
        "page": lambda: written("page"),
        "pictures": pictures,
        "contexts": lambda: [
            [Word(report.context_stem(*c, kernels)), Word(report.context_name(*c, kernels)), report.is_papers(*c)]
            for c in report.contexts(papers())
            for kernels in ("", "float32")
        ],
        "cells": lambda: [
            [Word(c.method), c.config.lr, len(c.records), *c.accuracy(), c.mean("brier", 100)]
            for c in (*column(), *column("linear"))
        ],
        "standard errors": lambda: [
            report.standard_errors(m, sd, n, theirs)
            for m, sd, n in (
                (82.0, 1.0, 3),
                (82.0, 3.0, 3),
                (82, 1.0, 7),
                (82, 1.0, 8),
                (82, 1.0, 9),
                (79, float("nan"), 1),
                (79, float("nan"), 9),
            )
        ],
        "bounds": lambda: [report.lower_bound(c) for c in bounds],
        "percent": lambda: [Word(report._percent(x)) for x in (0.0, 0.004, 0.01, 0.0099, 3.456, float("nan"))],
        "shown": lambda: [Word(report.shown(81.234, 1.239, n)) for n in (1, 2)],
        "moments": lambda: [moments([1.0, 2.0, 4.0]), moments([2.0])],
        "figure 1": lambda: numbers(shapes(figures.figure1()))[::11],
        "sensitivity": lambda: shapes(
            figures.sensitivity({0.3: [1.0, 3.0], 1.2: [4.0]}, {"bc_tuned": 2.0, "ga_tuned": 1.0}, "alpha", "t", 1.0)
        ),
        "sensitivity, k": lambda: shapes(
            figures.sensitivity({0.3: [1.0, 3.0], 10.0: [4.0]}, {"bc_tuned": 2.0}, "k", "t")
        ),
        "traces": lambda: shapes(
            figures.risk_traces(
                {"bc": [[2.0, 1.0, None], None], "ga": [[3.0, 2.0]], "gls": [[2.0, 1.9], [1.0]]},
                {"bc": None, "ga": 0.0, "gls": -99.0},
                "t",
            )
        ),
    }


def choices() -> Cases:
    """Which trials come next."""

    def searched(method: str, model: str, best: Callable[[TrialConfig], float], stop: int = 99) -> list[Any]:
        asked: list[Any] = []

        def run(trials: list[Trial]) -> list[dict[str, Any]] | None:
            asked.append(len(trials))
            if len(asked) > stop:
                return None
            return [record(t.config, t.seed, 0.5, valid_accuracy=best(t.config)) for t in trials]

        found = sweep.search(method, paper.chosen(method, model), run)
        return [asked, None if found is None else [found.lr, found.weight_decay, found.k]]

    def benched(rates: tuple[float, ...], least: float, stop: int = 99) -> list[Any]:
        posed = comparing.pose("symmetric:0.3", blobs(classes=10))
        budget = replace(BUDGET, rates=rates)
        configs = [comparing.config_of(name, "linear", "digits", posed, budget) for name in ("forward", "volminnet")]
        asked: list[Any] = []
        known: list[dict[str, Any]] = []

        def run(trials: list[Trial]) -> list[dict[str, Any]] | None:
            asked.append([[t.config.lr, t.seed, t.config.protocol.max_epochs] for t in trials])
            for t in trials:
                shift = 2.0 if t.config.loss == "forward" else 1.0
                known.append(
                    trial(t.config, t.seed, 0.5, 1.0, weak=[9.0, abs(np.log(t.config.lr / least / shift)), None])
                )
            return None if len(asked) > stop else known

        found = comparing.run_bench(configs, budget, run)
        return [asked, None if found is None else [[c.lr, c.learned_lr, c.weight_decay] for c in found]]

    def published(way: str, means: str, columns: int) -> list[Any]:
        data = blobs(n=400, classes=4)
        T = tp.symmetric_noise(4, 0.3) if means == "noisy" else tp.complementary(4)
        answers = np.stack([T.sample(data.train_labels, seed=s) for s in range(max(columns, 3))], axis=1)
        if columns > 1:
            answers[::7, 1] = -1
        with tempfile.TemporaryDirectory() as folder:
            np.savez(Path(folder) / "mine.npz", labels=answers, true_labels=data.train_labels)
            spec = f"file:mine.npz:{means}:{columns}:T={way}"
            found = real_labels.real_problem(spec, folder, data.train_labels, {})
            posed = comparing.pose(spec, data, Path(folder))
        made = found.transition
        many = made.transitions if isinstance(made, AnnotatorTransition) else [made]
        return [found.labels[:9], [t.matrix() for t in many], found.description, Word(posed.problem.source)]

    def parsed(*specs: str) -> list[Any]:
        return [[Word(str(x)) for x in real_labels.parse_spec(spec)] for spec in specs]

    def again() -> list[Any]:
        data = blobs(classes=10)
        rows = [r for r in benchmark() if r["seed"] < 2]
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            first, second = store.add(rows), store.add(rows[:3])
            config = TrialConfig.from_dict(rows[0]["config"])
            at = Progress(2, 0.5, 2, 0, 0, 1.0, [2.0, 1.0], [0.4, 0.5])
            one = replace(config, problem=None, loss="bc")
            import torch

            store.save(Trial(one, 0), at, {"a": torch.arange(3.0)})
            kept = store.restore(Trial(one, 0))
            assert kept is not None
            missing = store.restore(Trial(one, 1))
            out = [
                first,
                second,
                len(store.done()),
                len(store.records(loss="ce")),
                vars(kept[0]) | {"weak": []},
                missing,
            ]
            store.forget(Trial(one, 0))
            out += [store.restore(Trial(one, 0)), [r["lr"] for r in store.records()], *kept[1].values()]
            store.close()
        return [*out, data.num_classes]

    sharp = {"lr": 1e-4, "weight_decay": 0.3, "k": 1.0}
    return {
        "search, at the end": lambda: searched("bc_tuned", "mlp", lambda c: -abs(np.log(c.lr / 1e-5)) - c.weight_decay),
        "search, inside": lambda: searched("gls", "mlp", lambda c: -abs(np.log(c.lr / 0.01)) - abs(np.log(c.k))),
        "search, ties": lambda: searched("bc", "linear", lambda c: 0.5),
        "search, stopped": lambda: searched("ga", "mlp", lambda c: c.lr, stop=1),
        "beyond": lambda: [
            sweep.beyond(grid, end)
            for grid in ((0.1, 0.3, 1.0), (0.02, 0.5), (3.0,), (1e-4, 0.03, 10.0))
            for end in (min(grid), max(grid), 0.3)
        ],
        "product": lambda: [
            [c.lr, c.k] for c in sweep.product(paper.chosen("gls", "mlp"), {"lr": (1.0, 2.0), "k": (0.1, 3.0)})
        ],
        "breadth first": lambda: [
            [t.seed, t.config.lr]
            for t in sweep.breadth_first([*[paper.chosen("bc", "mlp")] * 2, paper.chosen("ga", "mlp")], (2, 5))
        ],
        "bench": lambda: benched((0.1, 0.3, 1.0), 0.25),
        "bench, beyond": lambda: benched((0.1, 0.3), 0.01),
        "bench, one rate": lambda: benched((0.1,), 0.01),
        "bench, stopped": lambda: benched((0.1, 0.3), 0.01, 2),
        "search epochs": lambda: [comparing.search_epochs(n) for n in (1, 5, 6, 7, 8, 23, 24, 25, 28, 60)],
        "paper's cells": lambda: [
            [c.lr, c.weight_decay, c.k, Word(c.key)]
            for m in paper.METHODS
            for model in paper.MODELS
            for c in [paper.chosen(m, model)]
        ],
        "paper's tables": lambda: [
            *[[c.mean, c.sd] for c in paper.ACCURACY.values()],
            paper.BEST_EPOCHS,
            paper.AUTHORS_SECONDS,
            paper.partial_reconstruction(0.3),
            paper.TRIALS,
            paper.EXPONENTS,
            paper.COEFFICIENTS,
            *[[c.k, c.alpha] for c in paper.released_exponents(paper.chosen("gls", "wrn28_2"), (0.5, 2.0))],
        ],
        "methods named": lambda: [
            [Word(n) for n in comparing.named_methods(text)]
            for text in ("all", "gls:0.3,2, ce,forward:brier", "sce:0.1,1,bc")
        ],
        "methods chosen": lambda: [
            [Word(n) for part in comparing.chosen_methods(names, T) for n in part]
            for names, T in (
                (["all"], tp.symmetric_noise(3, 0.2)),
                (["ce", "all"], tp.symmetric_noise(3, 2 / 3)),
                (["cc"], tp.partial_labels(3, 0.2)),
            )
        ],
        "usual budget": lambda: [vars(Budget((0.1,), 8, 2)), comparing.RATES, comparing.EPOCHS],
        "published, true": lambda: published("true", "noisy", 1),
        "published, uniform": lambda: published("uniform", "noisy", 1),
        "published, estimated": lambda: published("estimated", "noisy", 3),
        "published, several": lambda: published("true", "complementary", 2),
        "published, opposite": lambda: published("estimated", "complementary", 1),
        "specifications": lambda: parsed(
            "cifar10n:all", "llava:3:T=uniform", "file:a:b.npz:noisy:2", "file:1:noisy", "cifar10n:worst:T=true"
        ),
        "estimated here": lambda: [
            real_labels.estimated_here(s) for s in ("llava:1:T=estimated", "llava:1", "mine:T=estimated")
        ],
        "store": again,
        "rates": lambda: [
            rate_of_least_risk({0.1: [1.0, 3.0], 0.3: [2.0], 1.0: [2.0, 2.5]}),
            rate_of_least_risk({3.0: [1.0], 0.3: [1.0]}),
            least_weak_risk({"weak": [3.0, None, 2.0]}),
            least_weak_risk({"weak": None}),
        ],
        "groups": lambda: [
            Word(kernel_group(m, k))
            for m in ("mlp", "resnet20")
            for k in ("auto", "triton", "compile", "plain", "float32")
        ],
        "digits": lambda: [significant(x) for x in (1 / 3, 1e9 / 7, float("inf"), None, 0.0)],
        "checksums": lambda: [Word(checksum(papers()[0])), Word(str(first_revision(papers())))],
        "sharp": lambda: searched(
            "gls", "linear", lambda c: -sum(abs(np.log(getattr(c, n) / v)) for n, v in sharp.items())
        ),
    }


def files() -> Cases:
    """Images, labels and losses as files hold them."""
    from tproper_lab import datasets, download, label_files, store
    from tproper_lab.methods import METHODS
    from tproper_lab.own import register_own
    from tproper_lab.records import RecordError, check_record

    def refusal(call: Callable[[], Any]) -> list[Any]:
        """What a call gives, or the words of its refusal."""
        try:
            return [call()]
        except tp.InputError as error:
            return [type(error).__name__, without_folder(str(error))]

    def planes(label: int, seed: int) -> bytes:
        return bytes([label]) + np.random.default_rng(seed).integers(0, 256, 3072, dtype=np.uint8).tobytes()

    def shown(data: datasets.Dataset) -> list[Any]:
        images = [data.train_images[:, ::9, 1::7], data.test_images[:, ::9, 1::7]]
        return [
            *images,
            data.train_labels,
            data.test_labels,
            data.white,
            data.mean,
            data.std,
            data.augment,
            data.num_classes,
            data.shape,
            Word(data.name),
        ]

    def cifar(folder: str = "") -> list[Any]:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name) / folder
            place.mkdir(exist_ok=True)
            for i, file in enumerate(datasets.CIFAR_DIGESTS):
                (place / file).write_bytes(planes(i, i) + planes(9 - i, 9 + i))
            return shown(datasets.read_cifar10(Path(name), dict.fromkeys(datasets.CIFAR_DIGESTS)))

    def mnist(train: int = 3, more: str = "") -> list[Any]:
        with tempfile.TemporaryDirectory() as name:
            for file in datasets.MNIST_DIGESTS:
                n, shape = (train if "train" in file else 2), ((28, 28) if "images" in file else ())
                n += file.startswith(more) if more else 0
                values = np.random.default_rng(n).integers(0, 10, (n, *shape), dtype=np.uint8)
                head = bytes([0, 0, 8, 1 + len(shape)]) + np.array([n, *shape], ">i4").tobytes()
                if "t10k" in file:
                    (Path(name) / f"{file}.gz").write_bytes(gzip.compress(head + values.tobytes()))
                else:
                    (Path(name) / file).write_bytes(head + values.tobytes())
            return shown(datasets.read_mnist(Path(name), dict.fromkeys(datasets.MNIST_DIGESTS)))

    def idx(content: bytes, dimensions: int) -> list[Any]:
        return refusal(lambda: datasets.parse_idx(content, Path("f"), dimensions))

    def arrays() -> list[Any]:
        out: list[Any] = []
        with tempfile.TemporaryDirectory() as name:
            one, both = Path(name) / "one.npy", Path(name) / "both.npz"
            np.save(one, np.arange(7, dtype=np.int32))
            np.savez(both, labels=np.arange(6).reshape(3, 2), true_labels=np.array([1, 0, 1], dtype=np.uint8))
            for path in (one, both):
                found = label_files.read_arrays(path)
                truth = label_files.truth_in(found)
                out += [label_files.announced_bytes(path), [[Word(n), a] for n, a in found.items()], truth]
            out.append(Word(label_files.find(Path(name), ("no.npz", "both.npz", "one.npy")).name))
            counts = np.array([[3.0, 0.0], [1.0, 4.0]])
            for given in (counts, counts + 0.5, -counts, counts * 0, counts[0]):
                np.save(Path(name) / "cifar10h-counts.npy", given)
                out += refusal(lambda: label_files.cifar10h_counts(name, {}))
        for given in ([1.0], [[1, 2]], [[[1]]], [], [300], [-1]):
            out += refusal(lambda given=given: label_files.integers(np.array(given), "here", None))
        out += refusal(lambda: label_files.integers(np.array([1, 2]), "here", "no digest"))
        return out

    def own() -> list[Any]:
        code = "import tproper_lab as lab\n\ndef plain(v, y):\n    return v.square().sum(-1)\n\ndef of_T(T):\n"
        code += (
            "    return plain\n\nknown = lab.Method(make=of_T, reference='R', title='t')\nnew = lab.Method(make=of_T)\n"
        )
        out: list[Any] = []
        with tempfile.TemporaryDirectory() as name:
            path, before = Path(name) / "mine.py", dict(METHODS)
            path.write_text(code)
            try:
                for function in ("plain", "of_T", "known", "new"):
                    method, digest = register_own(f"{path}:{function}")
                    out += [Word(x) for x in (method.name, method.title, method.reference, digest)]
                for wrong in (f"{path}:nothing", f"{path}:", f"{name}/no.py:plain", "plain", f"{path}:ce"):
                    out += refusal(lambda wrong=wrong: register_own(wrong))
            finally:
                METHODS.clear()
                METHODS.update(before)
        return out

    def caches() -> list[Any]:
        out = []
        for value in ("/somewhere/else", ""):
            with mock.patch.dict("os.environ", {download.CACHE_VARIABLE: value}):
                out.append(Word(download.cache_directory().name))
        return out

    def checked(**changes: Any) -> list[Any]:
        row = copy.deepcopy(benchmark()[-1])
        for path, value in changes.items():
            *steps, last = path.split("__")
            place = row
            for step in steps:
                place = place[step]
            place[last] = value
        return refusal(lambda: check_record(row, "here")["selections"]["weak"]["raw"])

    def broken() -> list[Any]:
        """Errors of a database: out of reach, or damaged."""
        texts = ("disk I/O error", "Could not decode to UTF-8 column 'id'", "no such table: trials")
        errors: list[Exception] = [sqlite3.OperationalError(text) for text in texts]
        errors += [UnicodeDecodeError("utf-8", b"x", 0, 1, "bad")]
        out: list[Any] = []
        for error in errors:
            db = mock.Mock()
            db.execute.side_effect = error
            try:
                store._all_rows(db, Path("s"))
            except (sqlite3.Error, RecordError) as found:
                out += [Word(type(found).__name__), str(found)]
        for name in ("SQLITE_NOTADB", "SQLITE_CORRUPT_VTAB", "SQLITE_BUSY", ""):
            one = sqlite3.DatabaseError("x")
            one.sqlite_errorname = name
            out.append(store.damaged(one))
        return out

    return {
        "cifar": cifar,
        "cifar in a folder": lambda: cifar("cifar10"),
        "cifar, labels": lambda: [
            refusal(lambda c=c: datasets.parse_cifar(c, Path("f")))[-1]
            for c in (planes(0, 1) + planes(10, 1), planes(0, 1)[:-1], b"")
        ],
        "mnist": mnist,
        "mnist, unequal": lambda: [
            refusal(lambda m=m: mnist(more=m)) for m in ("train-im", "train-la", "t10k-im", "t10k-la")
        ],
        "broken stores": broken,
        "idx": lambda: [
            idx(c, d)
            for c, d in (
                (bytes([0, 0, 8, 1, 0, 0, 0, 2, 5, 7]), 1),
                (bytes([0, 0, 8, 1, 0, 0, 0, 2, 5]), 1),
                (bytes([0, 0, 8, 2, 0, 0, 0, 2, 5, 7]), 1),
                (bytes([0, 0, 8, 1, 0, 0, 0]), 1),
                (bytes([0, 0, 8, 1, 0, 0, 0, 0]), 1),
            )
        ],
        "digits": lambda: [
            x for d in [datasets.read_digits()] for x in (d.white, len(d.train_labels), d.test_labels[:5])
        ],
        "arrays": arrays,
        "own losses": own,
        "caches": caches,
        "mirrors": lambda: [
            refusal(lambda m=m: Word(download.check_mirror(m, "here")))
            for m in ("https://a/b", "http://a/b/", "ftp://a", "https://", "https://[a", "a/b")
        ],
        "records": lambda: [
            checked(**change)
            for change in (
                {},
                {"selections__weak__raw__brier": float("inf")},
                {"selections__weak__raw__brier": "x"},
                {"selections__weak__raw__accuracy": 1.01},
                {"selections__weak__raw__accuracy": 1},
                {"selections__weak__epoch": 4},
                {"selections__weak__epoch": 2.5},
                {"selections__weak__epoch": 3},
                {"selections__clean__epoch": 0},
                {"selections__weak__by_weak__method": 3},
                {"selections__weak__raw": None},
                {"weak": [1.0, 2.0]},
                {"weak": [1.0, "x", 2.0]},
                {"epochs": 1},
                {"seed": -1},
                {"seed": True},
                {"lr": 0.5},
                {"accuracy": 1.5},
                {"zeros": 1.5},
                {"zeros": None},
                {"loss": None},
                {"config__protocol__patience": 0},
                {"config__lr": "x"},
                {"config__new": 1},
                {"config__model": "no"},
                {"machine": 3},
                {"seconds": float("nan")},
                {"sha256": "no"},
            )
        ],
    }


def tiles() -> Cases:
    """How kernels are cut for channels and images of each size, by which numbers on a GPU were measured."""
    import torch

    def launches() -> Any:
        pytest.importorskip("triton", reason="tiles need Triton")
        return importlib.import_module("tproper_lab.launches")

    def of_row(K: int, size: int) -> Any:
        pytest.importorskip("triton", reason="tiles need Triton")
        return importlib.import_module("tproper.losses.kernels.triton_rows").shape_of_launch(K, size)

    channels = (3, 16, 32, 64, 128, 256)

    def walks(dtype: torch.dtype) -> list[Any]:
        out = []
        for trials, images, side in ((1, 3, 8), (2, 40, 32), (8, 256, 32), (16, 64, 4)):
            for k, n in itertools.product(channels[:5], repeat=2):
                x = torch.empty(trials, images, side, side, k, dtype=dtype, device="meta")
                out += [launches().walk_shape(x, n, transposed) for transposed in (False, True)]
        return out

    pairs = list(itertools.product(channels, repeat=2))
    return {
        "convolutions": lambda: [
            launches().conv_shape(k, n, *flags)
            for k, n in pairs
            for flags in itertools.product((False, True), repeat=3)
        ],
        "walks": lambda: walks(torch.bfloat16),
        "walks, float32": lambda: walks(torch.float32)[:9],
        "weights": lambda: [
            launches().weight_shape(k, n, side, stride) for k, n in pairs for side in (1, 3) for stride in (1, 2)
        ],
        "boxed": lambda: [
            launches().boxed(torch.empty(1, 1, h, w, 16), side, stride)
            for h, w in ((8, 8), (8, 6), (6, 8), (64, 64), (128, 128), (64, 32))
            for side, stride in ((3, 1), (3, 2), (1, 1))
        ],
        "boxes": lambda: [
            [*box.block_shape, *box.shape, *box.strides]
            for box in (
                launches().boxes(torch.empty(2, 5, 8, 8, 16), 128, 16),
                launches().boxes(torch.empty(2, 5, 32, 32, 16), 128, 8),
                launches().lines(torch.empty(2, 5, 8, 4, 16), 2),
                launches().rows(torch.empty(2, 3, 3, 16, 32), 16, 8),
            )
        ],
        "tiles": lambda: [launches()._tiles(torch.empty(2, 3, 4, 5, c)) for c in (3, 16, 64, 300)],
        "rows of scores": lambda: [
            of_row(K, size) for size in (2, 4) for K in (2, 5, 17, 300, 511, 512, 513, 1000, 4096, 5000, 50_000)
        ],
    }


def commands() -> Cases:
    """What commands do with their options: budgets, the trials of a target, models for data, what a display says."""
    from tproper_lab.commands import benchmark as bench
    from tproper_lab.commands import experiments, running
    from tproper_lab.commands.bench import BenchOptions, BenchRun
    from tproper_lab.commands.reproduce import ReproduceOptions, ReproduceRun, Target

    given = {"lr": "0.5,2", "epochs": 12, "search_epochs": 3, "trials": 7, "search_trials": 2, "weight_decay": 0.1}

    def trials(target: Target, model: str, dataset: str = "", **options: Any) -> list[Any]:
        chosen = experiments._configs(ReproduceOptions(target=target, **options), ReproduceRun(dataset=dataset))
        found = chosen(None, model)  # nothing is searched for
        assert found is not None
        return [[Word(c.loss), c.lr, c.weight_decay, c.k, c.alpha, *vars(c.protocol).values()] for c in found]

    def says(**changes: Any) -> Word:
        status = Status(10, **{"done": 2, "active": 3, "waiting": 5, "epochs": 8, "note": "mlp", **changes})
        with mock.patch.object(time, "monotonic", return_value=status.started + 20.0):
            return Word(running.Display._left(status))

    datasets, nets = ("", "mnist", "digits", "cifar10", "another"), ("linear", "mlp", "resnet20", "wrn28_2", "own")
    return {
        "budgets": lambda: [
            vars(bench._budget(BenchOptions(problem="x", **options), dataset))
            for options in ({}, given)
            for dataset in ("mnist", "digits", "cifar10", "another")
        ],
        "defaults": lambda: [
            [None if v is None else Word(v) for v in vars(options).values()]
            for options in (
                BenchOptions(problem="x"),
                BenchRun(),
                ReproduceOptions(target=Target.table2),
                ReproduceRun(),
            )
        ],
        "table 2": lambda: trials(Target.table2, "mlp"),
        "table 2, digits": lambda: trials(Target.table2, "linear", "digits", methods="gls,forward", max_epochs=7),
        "figure 2": lambda: trials(Target.fig2, "wrn28_2"),
        "figure 2, values": lambda: trials(Target.fig2, "mlp", values="0.5,2,0.5", augment_validation=True),
        "figure 3": lambda: trials(Target.fig3, "resnet20"),
        "figure 3, released": lambda: trials(Target.fig3, "wrn28_2", released=True, warmup_by_epoch=True),
        "takes": lambda: [[running.takes(model, data) for model in nets] for data in datasets],
        "models": lambda: [
            [Word(m) for m in running.models_among(text, data, ["mlp"])]
            for text, data in (("", "mnist"), ("linear,mlp", "digits"), ("wrn28_2", "cifar10"))
        ],
        "too large": lambda: running.positive_numbers("1,1e39", "--lr"),
        "zero": lambda: running.positive_numbers("1,0", "--lr"),
        "numbers": lambda: running.positive_numbers("3e38,0.1,0.1,1e-30", "--lr"),
        "left": lambda: [says(), says(epochs=0), says(epochs=200), says(waiting=0), says(epochs_each=6.0)],
    }


def cases() -> Cases:
    """Every case by its name."""
    rooms = {"board": boards, "report": reports, "choice": choices, "command": commands, "tiles": tiles, "file": files}
    return {f"{head}: {name}": call for head, room in rooms.items() for name, call in room().items()}
