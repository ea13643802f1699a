"""Writes `0.1.0/`: what that release made of fixed data, for `test_0_1_0.py` to read with today's code.

    PYTHONPATH=<a checkout of 0.1.0>/src python tests/releases/write_0_1_0.py [FOLDER]

Every file a user may still have from it is there: saved models and tables' models with the probabilities they gave,
state dicts of losses with the losses they gave, T files with T, stores of trials and exported records; and the figures
of eight commands. It was run once, with the code of 0.1.0; its files are never written anew.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import torch
from typer.testing import CliRunner

import tproper as tp

CLASSES = ("ant", "bee", "cat")
ORDER = ["--classes", ",".join(CLASSES)]  # a matrix in a file names none
PAIR = [[0.8, 0.0, 0.2], [0.2, 0.8, 0.0], [0.0, 0.2, 0.8]]


def call(*arguments: object) -> Any:
    """One command, in this process, from inside the folder: paths in what it writes are relative."""
    from tproper.cli.main import app

    done = CliRunner().invoke(app, [str(a) for a in arguments])
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.stdout


def tables() -> None:
    """clean.csv: three classes around three points; few.csv: the class of 60 rows; answers.csv: three annotators."""
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=200)
    X = rng.normal(size=(200, 2)) * 0.8 + np.array([[0, 2.0], [2, 0], [-2, -1]])[z]
    rows = [f"{a:.3f},{b:.3f}" for a, b in X]
    write("clean.csv", ["x,y,kind", *(f"{r},{CLASSES[k]}" for r, k in zip(rows, z, strict=True))])
    write("first.csv", Path("clean.csv").read_text().splitlines()[:51])
    answers = [np.where(rng.random(200) < p, z, rng.integers(3, size=200)) for p in (0.9, 0.7, 0.5)]
    gaps = rng.random((3, 200)) < 0.1
    names = [
        ["" if gap else CLASSES[k] for k, gap in zip(a, g, strict=True)] for a, g in zip(answers, gaps, strict=True)
    ]
    write("answers.csv", ["x,y,ann,bob,cy", *(",".join(cells) for cells in zip(rows, *names, strict=True))])
    labeled = (z == 0) & (rng.random(200) < 0.5)
    write("positive.csv", ["x,y,found", *(f"{r},{'yes' if k else ''}" for r, k in zip(rows, labeled, strict=True))])
    noisy = tp.Transition(PAIR).sample(z, 7)
    kinds = [CLASSES[k] if i < 60 else "" for i, k in enumerate(z)]
    write("few.csv", ["x,y,label,kind", *(f"{r},{CLASSES[y]},{k}" for r, y, k in zip(rows, noisy, kinds, strict=True))])


def write(name: str, lines: list[str]) -> None:
    Path(name).write_text("\n".join(lines) + "\n", encoding="utf-8")


def commands() -> None:
    """Seven commands and the files they make; the JSON each prints goes to commands/."""
    tables()
    write("pair.csv", [",".join(map(str, row)) for row in PAIR])
    said: dict[str, str] = {}
    said["inspect_complementary"] = call("inspect", "complementary:4", "--json")
    said["inspect_file"] = call("inspect", "pair.csv", "--json", "--reconstruction", "min_variance", "--k", 0.5)
    simulated = ["--label", "kind", "--keep-true", "--json"]
    for name, spec in (("noisy", "pair.csv"), ("not", "complementary"), ("sets", "partial:0.3")):
        out = f"{name}.csv"
        said[f"simulate_{name}"] = call(
            "simulate",
            "clean.csv",
            "--transition",
            spec,
            "--seed",
            3,
            "--out",
            out,
            *simulated,
            *(ORDER if name == "noisy" else []),
        )
    Path("transitions").mkdir()
    estimated = {
        "clean": ["few.csv", "--label", "label", "--true-label", "kind"],
        "features": ["few.csv", "--label", "label", "--true-label", "kind"],
        "annotators": ["answers.csv", "--label", "ann,bob,cy"],
        "pu": ["positive.csv", "--label", "found", "--classes", "yes,no"],
        "partial": ["sets.csv", "--label", "weak_label", "--ignore", "kind"],
    }
    for name, rest in estimated.items():
        call("estimate", name, *rest, "--out", f"transitions/{name}.json")
    trained = {
        "noisy": ["noisy.csv", "--label", "weak_label", "--transition", "pair.csv", "--ignore", "kind", *ORDER],
        "not": ["not.csv", "--label", "weak_label", "--transition", "complementary", "--ignore", "kind"],
        "sets": ["sets.csv", "--label", "weak_label", "--transition", "partial:0.3", "--ignore", "kind",
                 "--loss", "gls"],
        "estimated": ["few.csv", "--label", "label", "--transition", "transitions/clean.json", "--ignore", "kind"],
        "annotators": ["answers.csv", "--label", "ann,bob,cy", "--transition", "estimate"],
        "mlp": ["noisy.csv", "--label", "weak_label", "--transition", "pair.csv", "--ignore", "kind", *ORDER,
                "--model", "mlp", "--epochs", 3],
    }  # fmt: skip
    Path("models").mkdir()
    for name, rest in trained.items():
        said[f"train_{name}"] = call("train", *rest, "--json", "--out", f"models/{name}")
        said[f"predict_{name}"] = call(
            "predict", f"models/{name}", "first.csv", "--out", f"models/{name}.csv", "--json"
        )
    for name in ("noisy", "not", "sets"):
        rest = ["--label", "weak_label", "--true-label", "kind", "--json"]
        said[f"evaluate_{name}"] = call("evaluate", f"models/{name}", f"{name}.csv", *rest)
    for drawn in [*Path(".").glob("*/*.png"), *Path("models").glob("*/*.png"), *Path("models").glob("*/*.html")]:
        drawn.unlink()
    call("demo", "--out", "demo", "--epochs", 3)
    said["demo"] = Path("demo/demo.json").read_text()
    shutil.rmtree("demo")
    keep("commands", said)


def records() -> None:
    """A store of trials of the paper's protocol and one of a benchmark, what they export, and the report of each."""
    Path("records").mkdir()
    digits = ["--dataset", "digits", "--threads", 1, "--device", "cpu"]
    fig = ["--models", "linear", "--values", "0.1,1.0", "--trials", 2, "--max-epochs", 2]
    call("reproduce", "fig2", *fig, *digits, "--out", "records/paper", "--export", "records/paper.jsonl")
    problem = ["complementary", "--models", "linear", "--methods", "forward,bc", "--trials", 2, "--epochs", 2]
    call("bench", *problem, "--lr", "0.01,0.1", *digits, "--out", "records/bench", "--export", "records/bench.jsonl")
    said = {}
    for name in ("paper", "bench"):
        shutil.rmtree(f"records/{name}/report", ignore_errors=True)
        call("report", f"records/{name}", "--out", f"reported/{name}")
        said[f"report_{name}"] = {p.name: p.read_text() for p in sorted(Path("reported", name).glob("*.md"))}
    shutil.rmtree("reported")
    keep("commands", {name: json.dumps(pages) for name, pages in said.items()})


def keep(folder: str, said: dict[str, str]) -> None:
    Path(folder).mkdir(exist_ok=True)
    for name, text in said.items():
        Path(folder, f"{name}.json").write_text(json.dumps(json.loads(text)) + "\n", encoding="utf-8")


#: Estimators by what is peculiar to their files; their labels are drawn from T at seed 0.
ESTIMATORS: dict[str, dict[str, Any]] = {
    "symmetric": {"transition": "symmetric:3,0.2"},
    "gls": {"transition": tp.complementary(3), "loss": "gls", "squeeze": (0.5, 1.5), "l2": 1e-2},
    "brier": {"transition": tp.pair_noise(3, 0.2), "loss": "backward", "potential": "brier", "l2": 1e-2},
    "sets": {"transition": tp.partial_labels(3, 0.3), "loss": "backward", "reconstruction": "tightest", "l2": 0.1},
    "mlp": {"transition": "symmetric:3,0.2", "model": "mlp", "hidden": (8,), "epochs": 3, "random_state": 3},
    "score": {"loss": tp.ForwardLoss(tp.pair_noise(3, 0.2), score="brier"), "l2": 1e-2},
    "annotators": {"transition": tp.annotators([tp.symmetric_noise(3, 0.1), tp.pair_noise(3, 0.3)])},
}


def estimators() -> None:
    """Saved `WeakLabelClassifier`s with the probabilities they gave for X."""
    rows = [line.split(",") for line in Path("clean.csv").read_text().splitlines()[1:]]
    X, z = np.array([row[:2] for row in rows], float), np.array([CLASSES.index(row[2]) for row in rows])
    answers = {}
    for name, settings in ESTIMATORS.items():
        clf = tp.WeakLabelClassifier(**settings)
        T = settings["loss"].transition if "transition" not in settings else settings["transition"]
        T = tp.parse_transition(T) if isinstance(T, str) else T
        tp.save(clf.fit(X, T.sample(z, 0)), f"estimators/{name}")
        answers[name] = {
            "classes": [str(c) for c in clf.classes_],
            "transition": clf.transition_.matrix().tolist(),
            "probabilities": clf.predict_proba(X[:20]).tolist(),
        }
    Path("estimators/answers.json").write_text(json.dumps(answers) + "\n")


def losses() -> dict[str, Any]:
    """Losses by what is peculiar to their state."""
    noise, sets = tp.pair_noise(3, 0.2), tp.partial_labels(3, 0.3)
    crowd = tp.annotators([tp.symmetric_noise(3, 0.1), noise])
    return {
        "backward": tp.BackwardLoss(noise),
        "squeezed": tp.BackwardLoss(tp.complementary(3), squeeze=(1.0, 2.0)),
        "tightest": tp.BackwardLoss(sets, tp.Brier(), reconstruction="tightest"),
        "weighted": tp.BackwardLoss(noise, tp.Tsallis(1.5), class_weights=torch.tensor([1.0, 2.0, 0.5])),
        "forward": tp.ForwardLoss(noise),
        "forward_sets": tp.ForwardLoss(sets),
        "forward_crowd": tp.ForwardLoss(crowd, score="log"),
        "ascent": tp.GradientAscentLoss(noise),
        "non_negative": tp.NonNegativeLoss(tp.binary_noise(0.1, 0.3)),
    }


def state_dicts() -> None:
    """The state of each loss, and its values at fixed scores for labels drawn from its T at seed 0."""
    Path("losses").mkdir()
    values = {}
    for name, loss in losses().items():
        K = loss.transition.num_classes
        scores = np.random.default_rng(1).normal(size=(12, K))
        labels = loss.transition.sample(np.arange(12) % K, 0)
        torch.save(loss.state_dict(), f"losses/{name}.pt")
        value = loss(torch.tensor(scores), torch.as_tensor(np.asarray(labels)))
        values[name] = {
            "scores": scores.tolist(),
            "labels": np.asarray(labels).tolist(),
            "value": value.tolist(),
            "bounds": [None if not np.isfinite(b) else float(b) for b in np.asarray(loss.lower_bounds())],
        }
    Path("losses/values.json").write_text(json.dumps(values) + "\n")


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / tp.__version__).resolve()
    folder.mkdir()
    os.chdir(folder)
    torch.set_num_threads(1)
    commands()
    records()
    estimators()
    state_dicts()


if __name__ == "__main__":
    main()
