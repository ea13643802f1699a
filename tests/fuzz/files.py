"""Hostile files: mutated models, checkpoints, transitions, records, and scrambled tables are refused, or read."""

from __future__ import annotations

import functools
import gzip
import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import tproper as tp
from tproper._core import read_sealed, write_sealed
from tproper.data import ParquetSource, fit_stream
from tproper.data.checkpoints import CheckpointError
from tproper.learn.saving import DESCRIPTION, TENSORS, _own_hash
from tproper.transitions.parsing import transition_to_dict

from .harness import ODD, check, command, mutated, pick, refused, scrambled

Rng = np.random.Generator
CLASSES = ["ant", "bee", "cat"]


def table(path: Path, rows: int = 40, seed: int = 0) -> None:
    """Three classes around three points: features, class, an answer that excludes a class, a set, two annotators."""
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=rows)
    X = rng.normal(size=(rows, 2)) + np.array([[0, 2.0], [2, 0], [-2, -1]])[z]
    lines = ["x,y,kind,weak,set,who,item"]
    for i, ((a, b), k) in enumerate(zip(X, z, strict=True)):
        other = CLASSES[(k + 1 + int(rng.integers(2))) % 3]
        lines.append(f"{a:.4f},{b:.4f},{CLASSES[k]},{other},{CLASSES[k]}|{other},w{i % 3},{i // 3}")
    path.write_text("\n".join(lines) + "\n")


@functools.cache
def workshop() -> Path:
    """A folder with a table, models and transitions; made once a process, never changed."""
    folder = Path(tempfile.mkdtemp(prefix="tproper-fuzz-base-"))
    table(folder / "t.csv")
    common = ["--ignore", "kind,set,who,item", "--label", "weak", "--transition", "complementary"]
    for name, more in {
        "linear": [],
        "mlp": ["--model", "mlp", "--epochs", "2"],
        "gls": ["--loss", "gls", "--squeeze", "0.5,1.5"],
    }.items():
        done = command("train", folder / "t.csv", *common, "--out", folder / name, *more)
        assert done.exit_code == 0, done.output
    sets = ["--ignore", "kind,weak,who,item", "--label", "set", "--transition", "partial:0.3"]
    assert command("train", folder / "t.csv", *sets, "--out", folder / "sets").exit_code == 0
    return folder


def transitions() -> dict[str, tp.Transition]:
    """One of every family that files hold."""
    rng = np.random.default_rng(0)
    return {
        "uniform": tp.complementary(3),
        "matrix": tp.Transition([[0.8, 0.1, 0.2], [0.2, 0.9, 0.8]], ["yes", "no"]),
        "partial": tp.partial_labels(3, 0.2),
        "multi": tp.multi_complementary(4, 2),
        "stacked": tp.multi_source([tp.complementary(3), tp.partial_labels(3, 0.2)]),
        "annotators": tp.annotators([tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.1)]),
        "bags": tp.unlabeled_sets([[0.7, 0.3], [0.2, 0.8]], [10, 20]),
        "estimated": tp.Transition.from_counts(rng.poisson(20, (3, 3))),
        "coarse": tp.coarse_labels([[0, 1], [2]]),
    }


def reseal(folder: Path, description: Any) -> None:
    """As an attacker would who knows how the checksums are made."""
    if isinstance(description, dict):
        description = {k: v for k, v in description.items() if k != "sha256"}
        description["sha256"] = _own_hash(description)
    (folder / DESCRIPTION).write_text(json.dumps(description))


@check
def models(rng: Rng, folder: Path) -> None:
    """One field of a model's description changed, checksums right again."""
    base = workshop() / pick(rng, ["linear", "mlp", "gls", "sets"])
    shutil.copytree(base, folder / "m")
    description, _ = mutated(json.loads((folder / "m" / DESCRIPTION).read_text()), rng)
    reseal(folder / "m", description)
    refused(lambda: tp.load(folder / "m"))
    weak = "set" if base.name == "sets" else "weak"
    command("predict", folder / "m", workshop() / "t.csv", "--out", folder / "p.csv")
    command("evaluate", folder / "m", workshop() / "t.csv", "--label", weak, "--true-label", "kind")


@check
def model_bytes(rng: Rng, folder: Path) -> None:
    """Bytes of a model's files changed; with the tensors' checksum right again, or not."""
    shutil.copytree(workshop() / pick(rng, ["linear", "mlp"]), folder / "m")
    victim = folder / "m" / pick(rng, [DESCRIPTION, TENSORS])
    victim.write_bytes(scrambled(victim.read_bytes(), rng))
    if victim.name == TENSORS and rng.random() < 0.8:
        description = json.loads((folder / "m" / DESCRIPTION).read_text())
        blob = victim.read_bytes()
        description |= {"tensors_bytes": len(blob), "tensors_sha256": hashlib.sha256(blob).hexdigest()}
        reseal(folder / "m", description)
    refused(lambda: tp.load(folder / "m"))
    command("predict", folder / "m", workshop() / "t.csv", "--out", folder / "p.csv")


@check
def transition_files(rng: Rng, folder: Path) -> None:
    """T as a file: mutated JSON, odd matrices, scrambled bytes."""
    name = pick(rng, transitions())
    content = transition_to_dict(transitions()[name])
    path = folder / "T.json"
    kind = pick(rng, ["mutated", "mutated", "mutated", "matrix", "scrambled", "csv", "npy"])
    if kind == "matrix":
        content, _ = mutated({"matrix": [[0.8, 0.1], [0.2, 0.9]], "weak_labels": ["a", "b"]}, rng)
    elif kind == "mutated":
        content, _ = mutated(content, rng)
    data = json.dumps(content).encode()
    if kind == "csv":
        path, data = folder / "T.csv", scrambled(b"0.8,0.1\n0.2,0.9\n", rng)
    elif kind == "npy":
        path = folder / "T.npy"
        np.save(path, np.array([[0.8, 0.1], [0.2, 0.9]]))
        data = scrambled(path.read_bytes(), rng)
    elif kind == "scrambled":
        data = scrambled(data, rng)
    path.write_bytes(data)
    command("inspect", path, *pick(rng, [[], ["--json"], ["--full"]]))
    if rng.random() < 0.3:
        command(
            "train", workshop() / "t.csv", "--label", "weak", "--ignore", "kind,set,who,item", "--transition", path,
            "--out", folder / "m",
        )  # fmt: skip


@functools.cache
def checkpoint() -> Path:
    """A stream that was stopped: its data, and its checkpoint."""
    import pyarrow as pa
    from pyarrow import parquet

    folder = Path(tempfile.mkdtemp(prefix="tproper-fuzz-stream-"))
    rng = np.random.default_rng(0)
    columns = {"a": rng.standard_normal(60), "b": rng.standard_normal(60), "label": rng.integers(3, size=60)}
    parquet.write_table(pa.table(columns), folder / "t.parquet")
    stream(folder / "c.safetensors", folder, 1)
    return folder


def stream(path: Path, folder: Path, epochs: int) -> Any:
    model = tp.WeakLabelClassifier(transition=tp.complementary(3), random_state=0, device="cpu")
    source = ParquetSource(folder / "t.parquet", "label", batch_size=16)
    return fit_stream(model, source, epochs=epochs, checkpoint=path)


@check
def checkpoints(rng: Rng, folder: Path) -> None:
    """A checkpoint with another header under a right seal, or with other bytes."""
    path = folder / "c.safetensors"
    shutil.copy(checkpoint() / "c.safetensors", path)
    if rng.random() < 0.3:
        path.write_bytes(scrambled(path.read_bytes(), rng))
    else:
        header, tensors = read_sealed(path)
        key = pick(rng, ["progress", "learner", "run", "tensors", "format"])
        if key == "tensors":
            name = pick(rng, tensors)
            if rng.random() < 0.5:
                del tensors[name]
            else:
                tensors[name] = tensors[name].flatten()[:1].repeat(3)
        elif key == "format":
            header["format"] = "another"
        else:
            header[key] = json.dumps(mutated(json.loads(header[key]), rng)[0])
        write_sealed(path, tensors, header)
    refused(lambda: stream(path, checkpoint(), 2), CheckpointError)


@check
def tables(rng: Rng, folder: Path) -> None:
    """Scrambled CSV, odd cells and names, through every command that reads a table."""
    content = (workshop() / "t.csv").read_bytes()
    kind = pick(rng, ["bytes", "bytes", "cell", "cell", "header", "gzip", "encoding"])
    path = folder / "t.csv"
    if kind == "bytes":
        content = scrambled(content, rng)
    elif kind in ("cell", "header"):
        lines = [line.split(",") for line in content.decode().splitlines()]
        row = 0 if kind == "header" else int(rng.integers(1, len(lines)))
        lines[row][int(rng.integers(len(lines[row])))] = str(pick(rng, [v for v in ODD if not isinstance(v, list)]))
        content = "\n".join(",".join(line) for line in lines).encode()
    elif kind == "encoding":
        content = content.decode().encode(pick(rng, ["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-16-be"]))
    elif kind == "gzip":
        path, content = folder / "t.csv.gz", gzip.compress(content)
        content = scrambled(content, rng)
    path.write_bytes(content)
    asked: list[list[Any]] = [
        ["train", path, "--label", "weak", "--ignore", "kind,set,who,item", "--transition", "complementary",
         "--out", folder / "m"],
        ["train", path, "--label", "set", "--ignore", "kind,weak,who,item", "--transition", "partial:0.2",
         "--out", folder / "m"],
        ["train", path, "--label", "weak", "--transition", "symmetric:0.2", "--out", folder / "m"],
        ["predict", workshop() / "linear", path, "--out", folder / "p.csv", "--keep", "kind"],
        ["evaluate", workshop() / "linear", path, "--label", "weak", "--true-label", "kind"],
        ["simulate", path, "--label", "kind", "--transition", "symmetric:0.2", "--out", folder / "s.csv"],
        ["estimate", "clean", path, "--label", "weak", "--true-label", "kind", "--out", folder / "T.json"],
        ["estimate", "annotators", path, "--label", "weak", "--item", "item", "--annotator", "who",
         "--out", folder / "T.json"],
        ["estimate", "partial", path, "--label", "set", "--out", folder / "T.json"],
    ]  # fmt: skip
    command(*pick(rng, asked))


@check
def records(rng: Rng, folder: Path) -> None:
    """A file of the laboratory's records with a field changed, or scrambled."""
    line = (Path(__file__).parent / "record.json").read_bytes()
    if rng.random() < 0.5:
        content, _ = mutated(json.loads(line), rng)
        line = json.dumps(content).encode()
    else:
        line = scrambled(line, rng)
    (folder / "r.jsonl").write_bytes(line + b"\n")
    command("report", folder / "r.jsonl", "--out", folder / "report")
