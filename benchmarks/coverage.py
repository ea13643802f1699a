"""Coverage of every interval and level of every test in `tproper.metrics`, by simulation.

    OMP_NUM_THREADS=1 python benchmarks/coverage.py [--part known] [--part clean_rows] [--part certain] [--render]

Writes benchmarks/records/coverage.json and, from it, docs/coverage.md. Everything is drawn anew in each data set:
examples, classes from their true probabilities, weak labels from T (and T itself from clean rows). Coverage is counted
over at least 1,000 data sets unless the record says otherwise, so that its own standard error is .007 at .95.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _protocol import RECORDS, machine, store
from coverage_elsewhere import section

import tproper as tp
from tproper.metrics import TopLabel
from tproper.metrics.statistics import Reweigher, estimate

ROOT = Path(__file__).resolve().parent.parent
LOW, HIGH = 0.93, 0.97  # what is wanted of a 95% interval
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
ONE_BY_ONE = 400  # data sets for what has no batched form
CLEAN_ROWS = (100, 300, 1000)


class Simulation:
    """Data sets from a pool of examples with true probabilities p and the probabilities q of an overconfident model."""

    def __init__(self, transition: tp.Transition, n: int, temperature: float = 1.6, seed: int = 0) -> None:
        self.transition, self.n, self.K = transition, n, transition.num_classes
        self.rng = np.random.default_rng(seed)
        scores = torch.as_tensor(self.rng.normal(size=(2000, self.K)) * 3)
        self.p, self.q = torch.softmax(scores, -1), torch.softmax(scores * temperature, -1)
        one, two = (scores + torch.as_tensor(self.rng.normal(size=scores.shape)) for _ in range(2))
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


def known_cell(kind: str, n: int, sets: int) -> dict[str, Any]:
    """Coverage of all scores for one kind of label and one sample size; T is known."""
    sim = Simulation(KINDS[kind](), n)
    chunk = max(1, min(sets, 200_000 // n))
    hits: dict[str, int] = {}
    done = 0
    edges, target = calibration_truth(sim)
    while done < sets:
        rows, y = sim.draw(chunk)
        for name, (values, posterior, student) in mean_scores(sim).items():
            result = estimate(
                sim.weigher,
                lambda i, v=values, rows=rows: v[rows[i]],  # type: ignore[misc]
                lambda i, p=posterior, rows=rows: p[rows[i]],  # type: ignore[misc]
                y,
                batch=(chunk, n),
                student=student,
            )
            count(hits, name, sim.truth(values), *result.interval())
        top = TopLabel(sim.weigher, sim.q[rows], y, None, (chunk, n))
        errors = top.binned(edges)
        count(hits, "calibration error", target, *errors.form(top.smoothed_error(errors)).interval())
        count(hits, "overconfidence", sim.truth(overconfidence(sim.q)), *top.overconfidence.interval())
        done += chunk
    cover = {name: c / done for name, c in hits.items()}
    return {"kind": kind, "n": n, "sets": done, "cover": cover, **one_by_one(kind, n, sets)}


def overconfidence(q: torch.Tensor) -> torch.Tensor:
    return q.max(-1, keepdim=True).values - torch.nn.functional.one_hot(q.argmax(-1), q.shape[1])


def calibration_truth(sim: Simulation) -> tuple[np.ndarray, float]:
    """Five bins of equal mass over the pool, and the mean square of the true errors in them."""
    confidence, predicted = sim.q.max(-1)
    edges = np.concatenate([[0], np.quantile(confidence.numpy(), [0.2, 0.4, 0.6, 0.8]), [1]])
    bins = np.searchsorted(edges[1:-1], confidence.numpy())
    gap = (sim.p.gather(1, predicted[:, None])[:, 0] - confidence).numpy()
    size = np.bincount(bins)
    return edges, float((size / len(bins) * (np.bincount(bins, gap) / size) ** 2).sum())


def count(hits: dict[str, int], name: str, truth: float, low: Any, high: Any) -> None:
    hits[name] = hits.get(name, 0) + int(np.sum((low <= truth) & (truth <= high)))


def one_by_one(kind: str, n: int, sets: int) -> dict[str, Any]:
    """What has no batched form: balanced accuracy as a ratio, class-wise calibration of a perfect model."""
    sim = Simulation(KINDS[kind](), n, seed=1)
    K = sim.K
    hit = torch.nn.functional.one_hot(sim.q.argmax(-1), K).double()
    truth = float(((sim.p * hit).mean(0) / sim.p.mean(0)).mean())
    sets = min(sets, ONE_BY_ONE)
    hits, zero, values, errors, informative = {"balanced accuracy": 0}, {True: 0, False: 0}, [], [], 0
    for s in range(sets):
        rows, y = sim.draw(1)
        score = tp.weak_balanced_accuracy(
            y, sim.q[rows].argmax(-1), sim.transition, reconstruction=sim.weigher.reconstruction
        )
        informative += score.informative
        hits["balanced accuracy"] += score.interval[0] <= truth <= score.interval[1]
        if math.isfinite(score.stderr):  # not so where a class's share came out below 0
            values.append(score.value)
            errors.append(score.stderr)
        if s < sets // 2:
            for classwise in (True, False):
                perfect = tp.weak_calibration(
                    y, sim.p[rows], sim.transition, classwise=classwise, reconstruction=sim.weigher.reconstruction
                )
                zero[classwise] += perfect.interval[0] > 0
    return {
        "balanced accuracy": hits["balanced accuracy"] / sets,
        "balanced informative": informative / sets,
        "balanced bias": float((np.mean(values) - truth) / np.mean(errors)),
        "perfect model blamed": {"class-wise": zero[True] / (sets // 2), "top label": zero[False] / (sets // 2)},
    }


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
    "complementary": tp.complementary(3),
}


def clean_rows_cell(family: str, rows: int, sets: int, n: int = 2000, right: float = 0.8) -> dict[str, Any]:
    """Coverage with T from `rows` clean rows: with T's own error, and as if the estimate were T ("today")."""
    T = FAMILIES[family]
    K, rng = T.num_classes, np.random.default_rng(0)
    hits: dict[str, int] = {}
    width = {"with": 0.0, "today": 0.0}
    share = informative = tried = 0.0
    for s in range(sets):
        classes = rng.integers(0, K, rows)
        counts = np.zeros((T.num_weak_labels, K))
        np.add.at(counts, (T.sample(classes, rng), classes), 1)
        E = tp.Transition.from_counts(counts)
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
        if s < sets // 5:
            tried += 1
            other_scores(hits, y, predicted, E, right)
    return {
        "family": family, "rows": rows, "sets": sets, "n": n, "other sets": tried,
        "cover": {k: hits[k] / sets for k in ("with", "today")},
        "others": {k: c / tried for k, c in hits.items() if k not in ("with", "today")},
        "width": {k: w / sets for k, w in width.items()}, "from_transition": share / sets,
        "informative": informative / sets,
    }  # fmt: skip


def other_scores(hits: dict[str, int], y: np.ndarray, predicted: np.ndarray, E: Any, right: float) -> None:
    """The other scores of a model that says .9 for its prediction and is right with probability `right`."""
    K, n = E.num_classes, len(y)
    q = np.full((n, K), 0.1 / (K - 1))
    q[np.arange(n), predicted] = 0.9
    wrong = 0.1 / (K - 1)
    square = float((q[0] ** 2).sum()) + 1
    truths = {
        "balanced accuracy": (tp.weak_balanced_accuracy(y, predicted, E), right),
        "log loss": (tp.weak_log_loss(y, q, E), -right * math.log(0.9) - (1 - right) * math.log(wrong)),
        "Brier score": (tp.weak_brier(y, q, E), right * (square - 1.8) + (1 - right) * (square - 2 * wrong)),
        "calibration error": (tp.weak_calibration(y, q, E), 0.9 - right),
        "paired test": (
            tp.paired_test(y, predicted, (predicted + 1) % K, E, "accuracy"),
            right - (1 - right) / (K - 1),
        ),
    }
    for name, (score, truth) in truths.items():
        count(hits, name, truth, *score.interval)


# -- certain models ------------------------------------------------------------------------------------------------


def certain_cell(kind: str, n: int, right: float, sets: int) -> dict[str, Any]:
    """One-hot predictions that are hardly ever wrong."""
    T, rng = KINDS[kind](), np.random.default_rng(0)
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
    cover = {k: c / sets for k, c in hits.items()}
    return {"kind": kind, "n": n, "right": right, "sets": sets, "cover": cover, "no width": zero}


# -- the page ------------------------------------------------------------------------------------------------------


def cell(x: float | None) -> str:
    if x is None:
        return "-"
    text = f"{100 * x:.1f}"
    return text if LOW <= x <= HIGH else f"**{text}**"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"| {' | '.join(['---'] + ['---:'] * (len(head) - 1))} |"]
    return lines + [f"| {' | '.join(r)} |" for r in rows]


def outside(values: list[tuple[str, float]]) -> str:
    """A sentence on the cells outside of 93 to 97%."""
    odd = [(w, x) for w, x in values if not LOW <= x <= HIGH]
    text = f"{len(values) - len(odd)} of {len(values)} cells lie between 93 and 97%"
    if not odd:
        return text + "."
    below, above = [x for x in odd if x[1] < LOW], [x for x in odd if x[1] > HIGH]
    parts = []
    if below:
        worst = min(below, key=lambda x: x[1])
        parts.append(f"{len(below)} below, the lowest {100 * worst[1]:.1f}% ({worst[0]})")
    if above:
        worst = max(above, key=lambda x: x[1])
        parts.append(f"{len(above)} above, the highest {100 * worst[1]:.1f}% ({worst[0]})")
    return f"{text}; {', '.join(parts)}."


def render(record: dict[str, Any]) -> str:
    m = record["machine"]
    lines = [
        "# Coverage of intervals, level of tests",
        "",
        f"Made by `python benchmarks/coverage.py` from `benchmarks/records/coverage.json` (commit {m['commit']}, "
        f"{m['date']}). How often a 95% interval holds the truth, in per cent; bold where that is not 93 to 97. The "
        "p-value of a paired test is below .05 exactly where its interval excludes 0, so that its level is what is "
        "missing to 100.",
    ]
    lines += known_section(record.get("known", [])) + clean_rows_section(record.get("clean_rows", []))
    return "\n".join(lines + certain_section(record.get("certain", [])) + section()) + "\n"


def known_section(cells: list[dict[str, Any]]) -> list[str]:
    if not cells:
        return []
    names = list(cells[0]["cover"])
    every = [(f"{name}, {c['kind']}, n = {c['n']}", c["cover"][name]) for c in cells for name in names]
    rows = [
        [c["kind"], str(c["n"]), *(cell(c["cover"][name]) for name in names), cell(c["balanced accuracy"])]
        for c in cells
    ]
    perfect = [
        [
            c["kind"], str(c["n"]), *(f"{100 * c['perfect model blamed'][k]:.1f}" for k in ("top label", "class-wise")),
            f"{100 * c['balanced informative']:.0f}",
            f"{c['balanced bias']:.2f}",
        ]
        for c in cells
    ]  # fmt: skip
    return [
        "",
        "## T known",
        "",
        f"Four classes (PU: two), {cells[0]['sets']} data sets a cell (balanced accuracy: up to {ONE_BY_ONE}). "
        f"{outside(every)}",
        "Balanced accuracy is the one without a known prior.",
        "",
        *table(["labels", "n", *names, "balanced accuracy"], rows),
        "",
        "How often a perfectly calibrated model is blamed (interval excludes 0; 2.5% is nominal, for 0 is an end of "
        "the range), how often balanced accuracy is informative, and its bias in standard errors over all samples.",
        "",
        *table(
            ["labels", "n", "blamed, top label %", "blamed, class-wise %", "informative %", "bias / stderr"], perfect
        ),
    ]


def clean_rows_section(cells: list[dict[str, Any]]) -> list[str]:
    if not cells:
        return []
    every = [(f"{c['family']}, {c['rows']} rows", c["cover"]["with"]) for c in cells]
    others = list(cells[0]["others"])
    return [
        "",
        "## T from clean rows",
        "",
        f"`weak_accuracy` of a model that is right in 80% of three classes, {cells[0]['n']} weak labels, "
        f"T by `tp.Transition.from_counts` from clean rows, {cells[0]['sets']} data sets a cell. {outside(every)} "
        "\"Today\" takes the estimate for T, as all scores did before T's own error was carried through. Labels that "
        "never name the class have a diagonal of exact zeros, which no number of clean rows can prove: the interval "
        "allows for what a count of 0 may hide, and covers more than 95%.",
        "",
        *table(
            ["family", "clean rows", "covered", "today", "width", "width today", "from T %", "informative %"],
            [
                [
                    c["family"], str(c["rows"]), cell(c["cover"]["with"]), cell(c["cover"]["today"]),
                    f"{c['width']['with']:.3f}", f"{c['width']['today']:.3f}", f"{100 * c['from_transition']:.0f}",
                    f"{100 * c['informative']:.0f}",
                ]
                for c in cells
            ],
        ),
        "",
        f"The other scores, {cells[0]['other sets']:.0f} data sets a cell.",
        "",
        *table(
            ["family", "clean rows", *others],
            [[c["family"], str(c["rows"]), *(cell(c["others"][k]) for k in others)] for c in cells],
        ),
    ]  # fmt: skip


def certain_section(cells: list[dict[str, Any]]) -> list[str]:
    if not cells:
        return []
    names = list(cells[0]["cover"])
    return [
        "",
        "## Models that are certain and hardly ever wrong",
        "",
        f"One-hot predictions, {cells[0]['sets']} data sets a cell; {sum(c['no width'] for c in cells)} intervals "
        "without width. Such samples often show no error at all, and counts are small: an interval cannot cover 95% "
        "exactly (Wilson's own dips for accuracies near 1). The log loss is infinite as soon as one "
        "error is possible.",
        "",
        *table(
            ["labels", "n", "right", *names],
            [[c["kind"], str(c["n"]), f"{c['right']:g}", *(cell(c["cover"][k]) for k in names)] for c in cells],
        ),
    ]


def page() -> str:
    """The page, from the record."""
    return render(json.loads((RECORDS / "coverage.json").read_text()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=["known", "clean_rows", "certain"], help="default: all")
    parser.add_argument("--sets", type=int, default=2000, help="data sets a cell")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    path = RECORDS / "coverage.json"
    record: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    sets = args.sets
    work: dict[str, list[Callable[[], dict[str, Any]]]] = {
        "known": [lambda k=k, n=n: known_cell(k, n, sets) for k in KINDS for n in SIZES],  # type: ignore[misc]
        "clean_rows": [lambda f=f, m=m: clean_rows_cell(f, m, sets) for f in FAMILIES for m in CLEAN_ROWS],  # type: ignore[misc]
        "certain": [
            lambda k=k, n=n, r=r: certain_cell(k, n, r, sets // 2)  # type: ignore[misc]
            for k in ("clean", "symmetric .3", "complementary")
            for n in (50, 200)
            for r in (0.98, 0.994)
        ],
    }
    if not args.render:
        for part in args.part or work:
            start, cells = time.perf_counter(), []
            for make in work[part]:
                cells.append(make())
                print(f"{time.perf_counter() - start:6.0f} s  {cells[-1]}", flush=True)
            record[part] = cells
            record.setdefault("seconds", {})[part] = round(time.perf_counter() - start)
            record["machine"] = machine()
            store("coverage", {k: v for k, v in record.items() if k != "machine"})
    (ROOT / "docs" / "coverage.md").write_text(page())


if __name__ == "__main__":
    main()
