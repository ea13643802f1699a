"""The learning rate that `WeakLabelClassifier(model="mlp")` takes by itself, against a grid of rates.

    OMP_NUM_THREADS=1 python benchmarks/learning_rates.py [--data DIR] [--jobs 16] [--resume] [--render]

Networks of one hidden layer on 1,200 digits and on 10,000 rows of MNIST, weak labels of four kinds, forward loss;
everything but the rate is the default. Accuracy on clean test labels. "Best" is the best rate of the grid in the mean
over seeds, which nobody can know without clean labels. A piece is one rate on one block and seed.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from _pieces import read_pieces, run_pieces
from _protocol import RECORDS
from weak_table import KINDS, ROOT, arrays, measure

from tproper import WeakLabelClassifier
from tproper.learn.defaults import NETWORK_RATE

RECORD, PAGE = RECORDS / "learning_rates.jsonl", ROOT / "docs" / "archive" / "learning_rates.md"
RATES: tuple[float | str, ...] = ("auto", 1e-3, 3e-3, 1e-2, 3e-2)
ROWS = {"digits": 1200, "MNIST": 10_000}
SEEDS = {"digits": 6, "MNIST": 2}


def piece(directory: str, data: str, kind: str, seed: int, rate: float | str) -> dict[str, Any]:
    """One fit, scored on clean labels."""
    warnings.simplefilter("ignore")
    X, y, X_test, y_test = arrays(data, ROWS[data], Path(directory), seed)
    if kind.startswith("PU"):
        y, y_test = y % 2, y_test % 2
    T = KINDS[kind]()
    model = WeakLabelClassifier(
        T, model="mlp", classes=list(range(T.num_classes)), learning_rate=rate, device="cpu", random_state=seed
    ).fit(X, T.sample(y, seed))
    scores = measure(model.predict_proba(X_test), y_test)
    return {"rate": model.learning_rate_, "epochs": model.n_iter_, **scores}


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """With the standard error over seeds."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def render(pieces: list[dict[str, Any]]) -> str:
    """The page."""
    commits = sorted({f"{p['machine']['commit']}, {p['machine']['date']}" for p in pieces})
    sizes = ", ".join(f"{n:,} rows of {data} ({SEEDS[data]} seeds)" for data, n in ROWS.items())
    lines = [
        "# Learning rates by what labels say",
        "",
        f"Made by `python benchmarks/learning_rates.py` from `benchmarks/records/learning_rates.jsonl` (commit "
        f"{'; '.join(commits)}).",
        "",
        'Networks of one hidden layer (`WeakLabelClassifier(model="mlp")`, Adam), forward loss, all but the rate '
        f"left as it is; {sizes}; accuracy in per cent on clean test labels, with standard errors over seeds. The "
        "default rate is",
        "",
        f"    {NETWORK_RATE:g} / information^(1/4),    information = mean of ||q - 1/K||^2 / (1 - 1/K),",
        "",
        "where q is the posterior of the class given the label under equal classes: the squared size of the forward "
        "loss's gradient at zero scores, relative to cross entropy. It is 1 for clean labels and 1/(K-1)^2 for "
        "complementary ones (`tproper.learn.defaults`).",
        "",
        "| block | information | default rate | default | "
        + " | ".join(f"{r:g}" for r in RATES[1:])
        + " | behind the best |",
        "| --- | ---: | ---: | ---: | " + "---: | " * len(RATES),
    ]
    information: dict[str, float] = {}
    for data in ROWS:
        for kind in KINDS:
            same = [p for p in pieces if (p["key"]["data"], p["key"]["kind"]) == (data, kind)]
            if not same:
                continue
            cells: dict[Any, tuple[float, float]] = {}
            for rate in RATES:
                values = [100 * p["result"]["accuracy"] for p in same if p["key"]["rate"] == rate]
                if values:
                    cells[rate] = mean_and_error(values)
            used = fmean(p["result"]["rate"] for p in same if p["key"]["rate"] == "auto")
            says = (NETWORK_RATE / used) ** 4  # the formula above, read backwards
            information[kind] = says
            text = [f"{m:.1f} ± {e:.1f}" for m, e in cells.values()]
            behind = max(m for m, _ in cells.values()) - cells["auto"][0]
            limit = "" if behind <= 1 else " **above 1**"
            lines.append(f"| {data}, {kind} | {says:.3f} | {used:.2g} | {' | '.join(text)} | {behind:.1f}{limit} |")
    n = ROWS["digits"]
    lines += [
        "",
        f"Early stopping is left to itself too: on {n:,} complementary labels a tenth of them says as much as "
        f"{n / 10 * information['complementary']:.1f} clean labels, so none are held out, and the network is trained "
        "for all epochs and not calibrated.",
    ]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page, from the record."""
    return render(read_pieces(RECORD))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where MNIST lies")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--sets", nargs="+", choices=list(ROWS), default=list(ROWS), help="data sets")
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS), help="kinds of weak labels")
    parser.add_argument("--resume", action="store_true", help="keep the record's pieces, compute what is missing")
    parser.add_argument("--render", action="store_true", help="only write the page again")
    args = parser.parse_args()
    if not args.render:
        keys = [
            {"data": data, "kind": kind, "seed": seed, "rate": rate}
            for data in reversed(args.sets)
            for kind in args.kinds
            for rate in RATES
            for seed in range(SEEDS[data])
        ]
        run_pieces(partial(piece, str(args.data)), keys, RECORD, args.jobs, args.resume)
    PAGE.write_text(page())
    print("page:", PAGE)


if __name__ == "__main__":
    main()
