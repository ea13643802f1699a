"""Coverage of every interval and level of every test in `tproper.metrics`, by simulation.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py [--part known] [--sets 2000] [--jobs 16] [--resume]
    python benchmarks/coverage.py --render                                # docs/coverage.md again, from the records

Everything is drawn anew in each data set: examples, classes from their true probabilities, weak labels from T (and T
itself from clean rows). A piece is a block of data sets of one cell; the page adds the blocks up.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _pieces import read_pieces, run_pieces
from _protocol import RECORDS
from coverage_cells import CELLS
from coverage_page import ANSWERS, OF_CROWDS, RARE, RIGHT, SKILL, SURE, render
from scipy.stats import beta

import tproper as tp
from tproper.metrics import TopLabel
from tproper.metrics.statistics import Reweigher, estimate

ROOT = Path(__file__).resolve().parent.parent
RECORD = RECORDS / "coverage.jsonl"
CELL_RECORD = RECORDS / "coverage_cells.jsonl"
BLOCK = 200  # data sets a piece ...
CROWD_BLOCK, CROWDS = 10, 200  # ... but of crowds, and this many of them a cell
KINDS: dict[str, Callable[[], tp.Transition]] = {
    "clean": lambda: tp.identity(4),
    "symmetric .3": lambda: tp.symmetric_noise(4, 0.3),
    "pair .3": lambda: tp.pair_noise(4, 0.3),
    "complementary": lambda: tp.complementary(4),
    "partial .3": lambda: tp.partial_labels(4, 0.3),
    "PU, r = .5": lambda: tp.positive_unlabeled(0.5),
    "two sources": lambda: tp.multi_source([tp.complementary(4), tp.symmetric_noise(4, 0.3)], [0.6, 0.4]),
}
SIZES = (100, 400, 2000)
CLEAN_ROWS = (100, 300, 1000)
SURER = 3.0  # scores by those that are right, of a model whose calibration error is far from 0


class Simulation:
    """Data sets from a pool of examples with true probabilities p and the probabilities q of an overconfident model.

    The pool is the same for every `seed`, which is that of the data sets.
    """

    def __init__(self, transition: tp.Transition, n: int, seed: int, temperature: float = 1.6) -> None:
        self.transition, self.n, self.K = transition, n, transition.num_classes
        self.rng, pool = np.random.default_rng([1, seed]), np.random.default_rng(0)
        scores = torch.as_tensor(pool.normal(size=(2000, self.K)) * 3)
        self.p, self.q = torch.softmax(scores, -1), torch.softmax(scores * temperature, -1)
        self.surer = torch.softmax(scores * SURER, -1)
        one, two = (scores + torch.as_tensor(pool.normal(size=scores.shape)) for _ in range(2))
        self.one, self.two = torch.softmax(one, -1), torch.softmax(two, -1)  # alike in law, but not on this pool
        self.weigher = Reweigher(transition, transition.reconstruction())

    def draw(self, sets: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the pool (sets * n,) and their weak labels."""
        rows = torch.as_tensor(self.rng.integers(0, len(self.p), sets * self.n))
        u = torch.as_tensor(self.rng.random((len(rows), 1)))
        z = (self.p.cumsum(-1)[rows] < u).sum(-1).clamp_max(self.K - 1)
        return rows, self.transition.encode(self.transition.sample(z, self.rng), validate=False)

    def truth(self, values: torch.Tensor) -> float:
        """The expected score of class-wise scores (pool, K)."""
        return float((self.p * values).sum(-1).mean())


def brier(q: torch.Tensor) -> torch.Tensor:
    return (q**2).sum(-1, keepdim=True) - 2 * q + 1


def mean_scores(sim: Simulation) -> dict[str, tuple[torch.Tensor, torch.Tensor, bool]]:
    """Class-wise scores over the pool, class probabilities to go with them, and whether Student's t is used."""
    hit = torch.nn.functional.one_hot(sim.q.argmax(-1), sim.K).double()
    half = (hit + 1.0 / sim.K) / 2
    return {
        "accuracy": (hit, half, False),
        "balanced accuracy, known prior": (hit / (sim.K * sim.p.mean(0)), half, False),
        "log loss": (-sim.q.log(), sim.q, True),
        "Brier score": (brier(sim.q), sim.q, True),
        "paired test, log loss": (sim.one.log() - sim.two.log(), (sim.one + sim.two) / 2, True),
        "paired test, Brier": (brier(sim.two) - brier(sim.one), (sim.one + sim.two) / 2, True),
    }


def known(kind: str, n: int, first: int, sets: int) -> dict[str, Any]:
    """How many intervals of each score hold the truth, for one kind of label and one sample size; T is known."""
    sim = Simulation(KINDS[kind](), n, first)
    hits: dict[str, int] = {}
    models = {"calibration error": sim.q, f"the same, scores times {SURER:g}": sim.surer}
    most = 200_000 // n  # data sets at once
    for chunk in [most] * (sets // most) + [sets % most] * (sets % most > 0):
        rows, y = sim.draw(chunk)
        for name, (values, posterior, student) in mean_scores(sim).items():
            result = estimate(
                sim.weigher,
                lambda i, v=values, rows=rows: v[rows[i]],  # type: ignore[misc]
                lambda i, p=posterior, rows=rows: p[rows[i]],  # type: ignore[misc]
                y,
                batch=(chunk, n),
                student=student,
                few_decide=name == "accuracy" or name.startswith("paired"),
            )
            count(hits, name, sim.truth(values), *result.interval())
        tops = {name: TopLabel(sim.weigher, q[rows], y, None, (chunk, n)) for name, q in models.items()}
        for name, top in tops.items():
            edges, target = calibration_truth(sim.p, models[name])
            errors = top.binned(edges)
            count(hits, name, target, *errors.form(top.smoothed_error(errors)).interval())
        sure = tops["calibration error"].overconfidence
        count(hits, "overconfidence", sim.truth(overconfidence(sim.q)), *sure.interval())
    return {"cover": hits, **one_by_one(sim, sets)}


def overconfidence(q: torch.Tensor) -> torch.Tensor:
    return q.max(-1, keepdim=True).values - torch.nn.functional.one_hot(q.argmax(-1), q.shape[1])


def calibration_truth(p: torch.Tensor, q: torch.Tensor) -> tuple[np.ndarray, float]:
    """Five bins of equal mass over the pool, and the mean square of the true errors of q in them."""
    confidence, predicted = q.max(-1)
    edges = np.concatenate([[0], np.quantile(confidence.numpy(), [0.2, 0.4, 0.6, 0.8]), [1]])
    bins = np.searchsorted(edges[1:-1], confidence.numpy())
    gap = (p.gather(1, predicted[:, None])[:, 0] - confidence).numpy()
    size = np.bincount(bins)
    return edges, float((size / len(bins) * (np.bincount(bins, gap) / size) ** 2).sum())


def count(hits: dict[str, Any], name: str, truth: float, low: Any, high: Any) -> None:
    hits[name] = hits.get(name, 0) + int(np.sum((low <= truth) & (truth <= high)))


def one_by_one(sim: Simulation, sets: int) -> dict[str, Any]:
    """What has no batched form: balanced accuracy as a ratio, class-wise calibration of a perfect model."""
    hit = torch.nn.functional.one_hot(sim.q.argmax(-1), sim.K).double()
    truth = float(((sim.p * hit).mean(0) / sim.p.mean(0)).mean())
    balanced = dict.fromkeys(("tried", "covered", "informative", "finite", "off", "stderr"), 0.0)
    blamed = {"tried": sets, "class-wise": 0, "top label": 0}
    for _ in range(sets):
        rows, y = sim.draw(1)
        score = tp.weak_balanced_accuracy(
            y, sim.q[rows].argmax(-1), sim.transition, reconstruction=sim.weigher.reconstruction
        )
        balanced["tried"] += 1
        balanced["informative"] += score.informative
        balanced["covered"] += score.interval[0] <= truth <= score.interval[1]
        if math.isfinite(score.stderr):  # not so where a class's share came out below 0
            balanced["finite"] += 1
            balanced["off"] += score.value - truth
            balanced["stderr"] += score.stderr
        for name in ("class-wise", "top label"):
            perfect = tp.weak_calibration(
                y,
                sim.p[rows],
                sim.transition,
                classwise=name == "class-wise",
                reconstruction=sim.weigher.reconstruction,
            )
            blamed[name] += perfect.interval[0] > 0
    return {"balanced": balanced, "blamed": blamed}


# -- T from clean rows ---------------------------------------------------------------------------------------------


def random_columns(K: int) -> tp.Transition:
    """Errors of .1 to .5, spread over the other classes at random."""
    rng = np.random.default_rng(3)
    error, T = rng.uniform(0.1, 0.5, K), np.zeros((K, K))
    for z in range(K):
        T[np.arange(K) != z, z] = rng.dirichlet(np.ones(K - 1)) * error[z]
        T[z, z] = 1 - error[z]
    return tp.Transition(T)


FAMILIES: dict[str, tp.Transition] = {
    "symmetric .3": tp.symmetric_noise(3, 0.3),
    "pair .3": tp.pair_noise(3, 0.3),
    "random columns": random_columns(3),
    "complementary, noise .1": tp.complementary(3, noise=0.1),
    "complementary, noise .01": tp.complementary(3, noise=RARE),
    "complementary": tp.complementary(3),
}


def clean_rows(family: str, rows: int, first: int, sets: int, n: int = 2000, right: float = 0.8) -> dict[str, Any]:
    """Intervals that hold the truth with T from `rows` clean rows: with T's own error, and as if the estimate were T
    ("today"); their widths, in the sum.
    """
    T, rng = FAMILIES[family], np.random.default_rng([2, first])
    K = T.num_classes
    hits: dict[str, int] = {}
    others, said = {"tried": float(sets)}, {"tried": sets}
    width = dict.fromkeys(("with", "today", "entries", "own counts"), 0.0)
    share = informative = 0.0
    for _ in range(sets):
        classes = rng.integers(0, K, rows)
        counts = np.zeros((T.num_weak_labels, K))
        np.add.at(counts, (T.sample(classes, rng), classes), 1)
        E = tp.Transition.from_counts(counts)
        least, most = E.interval()
        entries = float(np.mean((least <= T.matrix()) & (T.matrix() <= most)))
        width["entries"] += float((most - least).mean())
        width["own counts"] += float(np.subtract(*jeffreys(counts)[::-1]).mean())
        others["entries of T"] = others.get("entries of T", 0.0) + entries
        predicted = rng.integers(0, K, n)
        z = np.where(rng.random(n) < right, predicted, (predicted + rng.integers(1, K, n)) % K)
        y = T.sample(z, rng)
        for name, used in (("with", E), ("today", tp.Transition(E.matrix()))):
            score = tp.weak_accuracy(y, predicted, used)
            count(hits, name, right, *score.interval)
            width[name] += score.interval[1] - score.interval[0]
            if name == "with":
                share += score.from_transition
                informative += score.informative
        other_scores(others, said, y, predicted, E, right)
    return {
        "cover": hits, "others": others, "said": said, "width": width, "from_transition": share,
        "informative": informative, "labels": n * sets,
    }  # fmt: skip


def jeffreys(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95% interval of each entry from its own column's counts alone."""
    rest = counts.sum(axis=0) - counts
    low, high = (beta.ppf(q, counts + 0.5, rest + 0.5) for q in (0.025, 0.975))
    return np.where(counts == 0, 0.0, low), np.where(rest == 0, 1.0, high)


def other_scores(
    hits: dict[str, float],
    said: dict[str, int],
    y: np.ndarray,
    predicted: np.ndarray,
    E: Any,
    right: float,
    sure: float = 0.9,
    names: tuple[str, ...] = (),
) -> None:
    """The other scores (or those of these names) of a model that says `sure` for its prediction and is right with
    probability `right`; which hold the truth, and which said something."""
    K, n = E.num_classes, len(y)
    wrong = (1 - sure) / (K - 1)
    q = np.full((n, K), wrong)
    q[np.arange(n), predicted] = sure
    square = float((q[0] ** 2).sum()) + 1
    truths: dict[str, tuple[Callable[[], Any], float]] = {
        "balanced accuracy": (lambda: tp.weak_balanced_accuracy(y, predicted, E), right),
        "log loss": (lambda: tp.weak_log_loss(y, q, E), -right * math.log(sure) - (1 - right) * math.log(wrong)),
        "Brier score": (lambda: tp.weak_brier(y, q, E), square - 2 * (right * sure + (1 - right) * wrong)),
        "calibration error": (lambda: tp.weak_calibration(y, q, E), sure - right),
        "paired test": (
            lambda: tp.paired_test(y, predicted, (predicted + 1) % K, E, "accuracy"),
            right - (1 - right) / (K - 1),
        ),
    }
    for name in names or truths:
        scored, truth = truths[name]
        score = scored()
        count(hits, name, truth, *score.interval)
        said[name] = said.get(name, 0) + score.informative


# -- certain models ------------------------------------------------------------------------------------------------


def certain(kind: str, n: int, right: float, first: int, sets: int) -> dict[str, Any]:
    """One-hot predictions that are hardly ever wrong."""
    T, rng = KINDS[kind](), np.random.default_rng([3, first])
    K = T.num_classes
    hits: dict[str, int] = {}
    zero = 0
    for _ in range(sets):
        predicted = rng.integers(0, K, n)
        z = np.where(rng.random(n) < right, predicted, (predicted + rng.integers(1, K, n)) % K)
        y, q = T.sample(z, rng), np.eye(K)[predicted]
        calibration = tp.weak_calibration(y, q, T)
        scores = {
            "accuracy": (tp.weak_accuracy(y, predicted, T), right),
            "log loss": (tp.weak_log_loss(y, q, T), math.inf),
            "Brier score": (tp.weak_brier(y, q, T), 2 * (1 - right)),
            "calibration error": (calibration, 1 - right),
            "overconfidence": (calibration.overconfidence, 1 - right),
        }
        for name, (score, truth) in scores.items():
            assert score is not None
            count(hits, name, truth, *score.interval)
            zero += not score.interval[0] < score.interval[1]
    return {"cover": hits, "no width": zero}


# -- T of annotators, from their answers alone ---------------------------------------------------------------------


def crowd(answers: int, redundancy: int, first: int, sets: int, K: int = 3) -> dict[str, Any]:
    """Intervals of `weak_accuracy` by answers of annotators whose T were estimated from these very answers, and of the
    scores that are no multiple of it, for a model that says `SURE`."""
    out: dict[str, Any] = dict.fromkeys(("covered", "off", "square", "width", "from_transition", "known"), 0.0)
    out["others"] = {"tried": float(sets)}
    m, n = ANSWERS // answers, ANSWERS // redundancy
    for seed in range(first, first + sets):
        rng = np.random.default_rng([4, seed])
        skill = rng.uniform(*SKILL, m)
        T = (1 - skill[:, None, None]) / (K - 1) * (1 - np.eye(K)) + skill[:, None, None] * np.eye(K)
        z = rng.integers(0, K, n)
        predicted = np.where(rng.random(n) < RIGHT, z, (z + rng.integers(1, K, n)) % K)
        who = np.concatenate([rng.permutation(m) for _ in range(-(-n * redundancy // m))])[: n * redundancy]
        y = np.full((n, m), -1)
        for a in who.reshape(n, redundancy).T:
            y[np.arange(n), a] = (T[a, :, z].cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(max=K - 1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            E = tp.estimate_annotators(y, num_classes=K, random_state=seed).transition
            score = tp.weak_accuracy(y, predicted, E)
            other_scores(out["others"], {}, y, predicted, E, RIGHT, SURE, OF_CROWDS)
        known = tp.weak_accuracy(y, predicted, tp.annotators([tp.Transition(t) for t in T]))
        out["covered"] += score.interval[0] <= RIGHT <= score.interval[1]
        out["off"] += score.value - RIGHT
        out["square"] += (score.value - RIGHT) ** 2
        out["known"] += (known.value - RIGHT) ** 2
        out["width"] += score.interval[1] - score.interval[0]
        out["from_transition"] += score.from_transition
    return out


PARTS: dict[str, tuple[Callable[..., dict[str, Any]], list[dict[str, Any]]]] = {
    "known": (known, [{"kind": kind, "n": n} for kind in KINDS for n in SIZES]),
    "clean_rows": (clean_rows, [{"family": family, "rows": rows} for family in FAMILIES for rows in CLEAN_ROWS]),
    "certain": (
        certain,
        [
            {"kind": kind, "n": n, "right": right}
            for kind in ("clean", "symmetric .3", "complementary")
            for n in (50, 200)
            for right in (0.98, 0.994)
        ],
    ),
    "crowd": (
        crowd,
        [{"answers": answers, "redundancy": redundancy} for answers in (20, 50, 200) for redundancy in (3, 5)],
    ),
}


CELL_BLOCK = 25  # data sets a piece of the parts of `coverage_cells`


def piece(part: str, **key: Any) -> dict[str, Any]:
    """A block of data sets of one cell: counts and sums."""
    return (PARTS | CELLS)[part][0](**key)


def page() -> str:
    """The page, from the records."""
    return render(read_pieces(RECORD), read_pieces(CELL_RECORD), {part: cells for part, (_, cells) in PARTS.items()})


def cell_keys(args: argparse.Namespace, parts: list[str]) -> list[dict[str, Any]]:
    """Pieces of `coverage_cells`: those of other versions of the library carry its name."""
    code = {"code": args.code} if args.code else {}
    keys = [
        {"part": part, **cell, "date": args.date, "first": first, "sets": min(CELL_BLOCK, args.sets)} | code
        for part in parts
        for first in range(0, args.sets, CELL_BLOCK)
        for cell in CELLS[part][1]
    ]
    number, of = (int(x) for x in args.shard.split("/"))
    return keys[number - 1 :: of]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=[*PARTS, *CELLS], help="default: all")
    parser.add_argument("--sets", type=int, help="data sets a cell (default: 2000, or 400 where assumptions bend)")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    parser.add_argument("--out", type=Path, help="write records into this folder, and no page")
    parser.add_argument("--date", default=datetime.now(UTC).strftime("%Y-%m-%d"), help="of the record: gives the seeds")
    parser.add_argument(
        "--shard", default="1/1", help="of the pieces where assumptions bend: 2/4 is the second quarter"
    )
    parser.add_argument("--code", default="", help="the version of tproper that is imported, if it is not this one")
    args = parser.parse_args()
    if not args.render:
        asked, sets = args.part or [*PARTS, *CELLS], args.sets
        args.sets = sets or 2000
        keys = [
            {"part": part, **cell, "first": first, "sets": block}
            for part in asked
            if part in PARTS
            for cell in PARTS[part][1]
            for sets_, block in [(min(args.sets, CROWDS), CROWD_BLOCK) if part == "crowd" else (args.sets, BLOCK)]
            for first in range(0, sets_, block)
        ]
        folder = args.out or RECORDS
        if keys:
            run_pieces(piece, keys, folder / RECORD.name, args.jobs, args.resume, together=("part",))
        args.sets = sets or 400
        keys = cell_keys(args, [part for part in asked if part in CELLS])
        if keys:
            run_pieces(piece, keys, folder / CELL_RECORD.name, args.jobs, args.resume, together=("part", "code"))
    if not args.out:
        (ROOT / "docs" / "coverage.md").write_text(page())


if __name__ == "__main__":
    main()
