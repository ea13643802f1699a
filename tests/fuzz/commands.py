"""Random command lines: whatever is asked, a command does it or says in a sentence why not."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .files import workshop
from .harness import check, command, pick

Rng = np.random.Generator
NUMBERS = ["0", "1", "2", "-1", "0.5", "1e-9", "1e9", "1e400", "nan", "inf", "", "x", "9" * 20, "٣", "0x10"]
SPECS = [
    "complementary", "complementary:3", "complementary:10000000000", "complementary:2", "symmetric:0.2", "symmetric:2",
    "symmetric:3,0.2", "symmetric:3,nan", "partial:0.3", "partial:3,1", "partial:30,0.2", "pu:0.5", "pu:0", "pair:0.2",
    "multi_complementary:2", "multi_complementary:3,1", "multi_complementary:40,20", "identity", "identity:1",
    "coarse:0+1|2", "coarse:0|0", "coarse:", "coarse:0+1|99999999999", "binary:0.1,0.2", "binary:0.5,0.5", "T.csv",
    "missing.json", "", ":", "a=b", "estimate", "symmetric:0.6666666666666667", "complementary:noise=0.3", "é:1",
    "identity:-3", "identity:" + "9" * 5000, "symmetric:3,0.2,4", "partial:3,p=0.2", "T.npy", "T.json",
]  # fmt: skip


def _names(rng: Rng) -> str:
    return ",".join(pick(rng, ["x", "y", "kind", "weak", "set", "who", "item", "", '"', "nothing", "\x1b[31m"])
                    for _ in range(int(rng.integers(1, 4))))  # fmt: skip


def _number(rng: Rng) -> str:
    return str(pick(rng, NUMBERS))


def _options(rng: Rng, known: dict[str, object], most: int) -> list[str]:
    out: list[str] = []
    for _ in range(int(rng.integers(0, most + 1))):
        option = pick(rng, known)
        out.append(option)
        how = known[option]
        if callable(how):
            out.append(how(rng))
        elif how is not None:
            out.append(str(pick(rng, how)))
    return out


def _spec(rng: Rng) -> str:
    return str(pick(rng, SPECS))


@check
def inspect_lines(rng: Rng, folder: Path) -> None:
    known = {
        "--k": _number, "--alpha": _number, "--json": None, "--full": None,
        "--plot": ["p.png", "p.xyz", "/nowhere/p.png"],
        "--reconstruction": ["auto", "inverse", "pinv", "min_variance", "tightest", "x"],
    }  # fmt: skip
    (folder / "T.csv").write_text("0.8,0.1\n0.2,0.9\n")
    command("inspect", *_options(rng, known, 3), "--", _spec(rng))


@check
def train_lines(rng: Rng, folder: Path) -> None:
    known = {
        "--loss": ["forward", "backward", "gls", "ga", "x"], "--model": ["linear", "linear", "mlp", "x"],
        "--squeeze": ["1,2", "0,2", "1", "x,y", "1e300,1e300", "0.5,1"], "--l2": _number, "--seed": _number,
        "--epochs": ["1", "2", "0", "-1", "x"], "--features": _names, "--ignore": _names,
        "--classes": ["ant,bee,cat", "ant,bee", "cat,bee,ant", "a", "ant,ant,bee", ""], "--missing": ["drop", "x"],
        "--holdout": _number, "--tune": None, "--json": None, "--no-standardize": None, "--stream": None,
        "--source-column": ["who", "nothing"], "--force": None,
    }  # fmt: skip
    data = pick(rng, [workshop() / "t.csv", workshop() / "t.csv", workshop(), folder / "nothing.csv", folder])
    label = pick(rng, ["weak", "weak", "kind", "set", "x", "nothing", ""])
    options = _options(rng, known, 4)
    if not {"--features", "--ignore"} & set(options) and rng.random() < 0.8:
        options += ["--features", "x,y"]
    out = pick(rng, ["m", "m", "m", ".", "/nowhere/m", "m/"])
    command("train", data, "--label", label, "--transition", _spec(rng), "--out", out, *options)


@check
def other_lines(rng: Rng, folder: Path) -> None:
    data = pick(rng, [workshop() / "t.csv", workshop() / "t.csv", workshop() / "linear", folder / "nothing.csv"])
    model = pick(rng, [workshop() / "linear", workshop() / "sets", workshop() / "mlp", folder, "nothing"])
    label = pick(rng, ["weak", "set", "kind", "x", "nothing", ""])
    what = pick(rng, ["predict", "evaluate", "simulate", "estimate", "estimate", "prevalence", "report", "reproduce"])
    if what == "predict":
        out = pick(rng, ["p.csv", "p.parquet", "p.tsv", "p", "/nowhere/p.csv", "."])
        command(what, model, data, "--out", out, *_options(rng, {"--keep": _names, "--json": None}, 2))
    elif what == "evaluate":
        known = {"--true-label": ["kind", "weak", "x", "nothing"], "--transition": _spec, "--json": None,
                 "--plot": ["p.png", "p.x"], "--source-column": ["who"]}  # fmt: skip
        command(what, model, data, "--label", label, *_options(rng, known, 3))
    elif what == "simulate":
        known = {"--seed": _number, "--column": ["x", "new", ""], "--keep-true": None, "--json": None,
                 "--classes": ["ant,bee,cat", "a,b"], "--source-column": ["s", "x"]}  # fmt: skip
        out = pick(rng, ["s.csv", "s.parquet", "s.x", "/nowhere/s.csv"])
        command(what, data, "--label", label, "--transition", _spec(rng), "--out", out, *_options(rng, known, 3))
    elif what == "estimate":
        known = {
            "--true-label": ["kind", "weak", "x", "nothing"], "--features": _names, "--ignore": _names,
            "--classes": ["ant,bee,cat", "ant,bee", "a", "x,y,z,w"], "--item": ["item", "x", "nothing"],
            "--annotator": ["who", "nothing"], "--sampling": ["one sample", "two samples", "x"],
            "--structure": ["auto", "free", "pooled", "symmetric", "complementary", "x"], "--seed": _number,
            "--json": None,
        }  # fmt: skip
        source = pick(rng, ["clean", "features", "annotators", "pu", "partial", "x"])
        label = pick(rng, [label, "weak,kind", "weak,kind,who"])
        out = pick(rng, ["T.json", "T.csv", "/nowhere/T.json"])
        command(what, source, data, "--label", label, "--out", out, *_options(rng, known, 4))
    elif what == "prevalence":
        known = {
            "--true-label": ["kind", "weak", "x", "nothing"], "--features": _names, "--transition": _spec,
            "--classes": ["ant,bee,cat", "ant,bee", "a"], "--difference": ["ant,bee", "ant", "x,y"], "--json": None,
            "--item": ["item", "x"], "--annotator": ["who"], "--seed": _number, "--group": ["who", "nothing"],
        }  # fmt: skip
        command(what, data, "--label", pick(rng, [label, "weak,kind"]), *_options(rng, known, 4))
    elif what == "report":
        command(what, pick(rng, [data, folder, "nothing"]), *_options(rng, {"--out": ["r", "/nowhere/r"]}, 1))
    else:
        known = {
            "--models": ["linear", "mlp", "x", "linear,linear", "resnet20"], "--methods": ["bc", "x", ""],
            "--values": _number, "--dataset": ["x", "cifar10"], "--data": ["nothing", "."], "--mirror": ["x", "http://"],
            "--device": ["x"], "--records": ["nothing", "."], "--minutes": _number, "--kernels": ["x"],
            "--export": ["x.y", "/nowhere/x.jsonl"],
        }  # fmt: skip
        target = pick(rng, ["table2", "fig2", "fig3", "x"])
        options = ["--trials", "1", "--max-epochs", "1", "--data", str(folder / "none")]  # no download, no training
        command(what, target, *options, *_options(rng, known, 3))
