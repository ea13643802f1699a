"""The class prior of positive-unlabeled data: error and coverage over ten simulated problems.

    OMP_NUM_THREADS=1 python benchmarks/pu_prior.py [--samples 80] [--rows 3000] [--jobs 16] [--resume]
    python benchmarks/pu_prior.py --render     # docs/estimation/pu.md again, from the record alone

Ten problems with priors from .2 to .7: normal, heavy-tailed and peaked features in 2 to 10 dimensions, some with
positives in two clusters, none made to suit the method. Half of the samples are one sample whose positives are labeled
at random (r = .4), half are a separate sample of positives beside an unlabeled one. Beside the estimate stands the
plain best-bin ratio of Garg et al. (2021): the tails' ratio at the threshold with the smallest upper confidence bound.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from _pieces import read_pieces, run_pieces
from _protocol import RECORDS

import tproper as tp
from tproper.estimation.pu import _binned, _cross_fitted

ROOT = Path(__file__).parent.parent
RECORD = RECORDS / "pu_prior.jsonl"
BLOCK = 10  # samples a piece
PAGE = ROOT / "docs" / "estimation" / "pu.md"
# prior, distance of the classes, dimensions, features, clusters of positives
PROBLEMS: list[tuple[float, float, int, str, int]] = [
    (0.2, 2.0, 2, "normal", 1),
    (0.3, 2.5, 5, "normal", 1),
    (0.4, 3.0, 10, "normal", 1),
    (0.5, 2.0, 3, "Student t, 5 df", 1),
    (0.6, 2.5, 2, "Laplace", 1),
    (0.7, 3.0, 5, "normal", 1),
    (0.3, 4.0, 8, "Student t, 5 df", 1),
    (0.5, 2.2, 4, "normal", 1),
    (0.25, 3.0, 2, "Student t, 5 df", 1),
    (0.4, 2.5, 6, "normal", 2),
]


def draw(
    problem: tuple[float, float, int, str, int], n: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Features and which rows are positive."""
    prior, distance, d, kind, clusters = problem
    positive = rng.random(n) < prior
    noise = {"normal": rng.standard_normal, "Laplace": lambda s: rng.laplace(size=s)}
    X = noise[kind]((n, d)) if kind in noise else rng.standard_t(5, (n, d))
    X[:, 0] += distance * positive
    if clusters == 2:
        X[:, 1] += distance * (positive & (rng.random(n) < 0.5))
    return X, positive


def sample(problem: Any, n: int, sampling: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, float]:
    """Features, which rows are labeled, and the true rate (of the pooled samples)."""
    X, positive = draw(problem, n, rng)
    if sampling == "one sample":
        return X, positive & (rng.random(n) < 0.4), 0.4
    more, also = draw(problem, 4 * n, rng)
    labeled = more[also][: n // 4]
    rate = len(labeled) / (len(labeled) + problem[0] * n)
    return np.concatenate([labeled, X]), np.arange(len(labeled) + n) < len(labeled), rate


def plain_best_bin(X: np.ndarray, labeled: np.ndarray, sampling: str) -> float:
    _, known, rest = _binned(_cross_fitted(labeled, X, 0, None), labeled).T
    mixture = known + rest if sampling == "one sample" else rest
    q, q_l = mixture.cumsum() / mixture.sum(), known.cumsum() / known.sum()
    width = sum(np.sqrt(np.log(4 / 0.1) / (2 * m.sum())) for m in (mixture, known))
    at = int(np.argmin((q + width) / np.maximum(q_l, 1e-9)))
    return float(q[at] / q_l[at])


def piece(problem: int, first: int, samples: int, rows: int) -> list[dict[str, Any]]:
    """Some samples of one problem."""
    out, prior = [], PROBLEMS[problem][0]
    for s in range(first, first + samples):
        sampling = "one sample" if s % 2 == 0 else "two samples"
        X, labeled, rate = sample(PROBLEMS[problem], rows, sampling, np.random.default_rng([problem, s]))
        e = tp.estimate_pu(labeled, X, sampling=sampling, random_state=s)
        out.append(
            {
                "sampling": sampling,
                "prior": e.prior.value,
                "covered": bool(e.prior.interval[0] <= prior <= e.prior.interval[1]),
                "width": e.prior.interval[1] - e.prior.interval[0],
                "rate error": e.rate.value - rate,
                "rate covered": bool(e.rate.interval[0] <= rate <= e.rate.interval[1]),
                "bounded": bool(e.upper_bound >= prior),
                "plain": plain_best_bin(X, labeled, sampling),
            }
        )
    return out


def render(pieces: list[dict[str, Any]]) -> str:
    rows = [
        {"problem": problem, "samples": [f for p in pieces if p["key"]["problem"] == k for f in p["result"]]}
        for k, problem in enumerate(PROBLEMS)
    ]
    sizes, samples = sorted({str(p["key"]["rows"]) for p in pieces}), sorted({str(len(r["samples"])) for r in rows})
    everything = [(r["problem"][0], f) for r in rows for f in r["samples"]]
    error = np.mean([abs(f["prior"] - prior) for prior, f in everything])
    plain = np.mean([abs(f["plain"] - prior) for prior, f in everything])
    cover = np.mean([f["covered"] for _, f in everything])
    rate = np.mean([f["rate covered"] for _, f in everything])
    n = len(everything)
    by_problem = [float(np.mean([f["covered"] for f in r["samples"]])) for r in rows]
    worst = int(np.argmin(by_problem))
    prior, distance, d, kind, _ = PROBLEMS[worst]
    lines = [
        "# The class prior of positive-unlabeled data",
        "",
        "`tp.estimate_pu(labeled, X)` estimates the share of positives and `r = P(labeled | positive)`. Written by",
        "`benchmarks/pu_prior.py` from its record.",
        "",
        f"The worst of the problems below: a prior of {prior:g} at distance {distance:g} in {d} dimensions, {kind},",
        f"where the 95% interval of the prior holds it in {100 * by_problem[worst]:.1f}% of samples.",
        "",
        f"Ten simulated problems of {' or '.join(sizes)} rows, {' or '.join(samples)} samples each, one sample and two",
        f"samples in turn: mean absolute error {error:.3f} (the plain best-bin ratio: {plain:.3f}); the 95% intervals",
        f"of the prior cover {100 * cover:.1f}%, those of r {100 * rate:.1f}% (standard error "
        f"{100 * (0.05 * 0.95 / n) ** 0.5:.1f} points).",
        "",
        "| prior | distance | dimensions | features | mean absolute error | bias | coverage | width | plain best bin |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for r in rows:
        prior, distance, d, kind, clusters = r["problem"]
        e = np.array([f["prior"] for f in r["samples"]]) - prior
        p = np.array([f["plain"] for f in r["samples"]]) - prior
        c, w = (np.mean([f[k] for f in r["samples"]]) for k in ("covered", "width"))
        what = kind + (", positives in two clusters" if clusters == 2 else "")
        cells = f"{np.abs(e).mean():.3f} | {e.mean():+.3f} | {100 * c:.0f}% | {w:.3f} | {np.abs(p).mean():.3f}"
        lines.append(f"| {prior:g} | {distance:g} | {d} | {what} | {cells} |")
    bounded = np.mean([f["bounded"] for _, f in everything])
    lines += [
        "",
        "The estimate rests on two things that data cannot show: labels are a random part of the positives, and",
        "examples with the highest scores are positive but for at most 5%, or else P(labeled | score) is a scaled",
        "sigmoid. The upper bound (`.upper_bound`, 95%) needs the first alone; it held in "
        f"{100 * bounded:.1f}% of the samples.",
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, from the record."""
    return render(read_pieces(RECORD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=80, help=f"a problem, a multiple of {BLOCK}")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        keys = [
            {"problem": k, "first": first, "samples": BLOCK, "rows": args.rows}
            for k in range(len(PROBLEMS))
            for first in range(0, args.samples, BLOCK)
        ]
        run_pieces(piece, keys, RECORD, args.jobs, args.resume, together=("problem",))
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page())
    print("page:", PAGE)


if __name__ == "__main__":
    main()
