"""What asks for more than there is: one sentence with the size, and never a traceback."""

from __future__ import annotations

import gzip
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refused

import tproper as tp
from tproper._core import free_memory
from tproper.certificates import inspection
from tproper.learn import saving
from tproper.transitions import transition_from_dict


def reseal(folder: Path, description: dict[str, Any]) -> None:
    """Write a description as someone would who knows how the checksum is made."""
    content = {k: v for k, v in description.items() if k != "sha256"}
    (folder / saving.DESCRIPTION).write_text(json.dumps(content | {"sha256": saving._own_hash(content)}))


def sentence(done: Any, code: int = 2) -> str:
    assert done.exit_code == code, done.output
    assert isinstance(done.exception, SystemExit)
    return " ".join(done.stderr.split())


# The table's part of a model.

MUTATIONS: list[tuple[str, Any, str]] = [
    ("features", 3, "features: expected different names, got 3"),
    ("features", ["x"], "features: expected the model's 2, got 1"),
    ("features", ["x", "x"], "features: expected different names"),
    ("classes", ["bee", "ant", "cat"], "classes: expected the model's own in their order, got ['bee', 'ant', 'cat']"),
    ("classes", None, "classes: expected different names"),
    ("label", None, "label: expected the name of a column, got None"),
    ("source", 5, "source: expected the name of a column, got 5"),
    ("sources", ["a"], "sources: expected no names without a column of sources"),
    ("transition", {}, "transition: "),
    ("transition", {"family": "uniform", "name": "x", "num_classes": 4, "diagonal": 0.0}, "one for 3 classes"),
    ("specs", [1], "specs: expected texts by name"),
]


@pytest.mark.parametrize(("field", "value", "message"), MUTATIONS, ids=lambda v: str(v)[:30])
def test_the_tables_part_of_a_model_is_checked(
    field: str, value: Any, message: str, workshop: Path, tmp_path: Path, run: Callable[..., Any]
) -> None:
    shutil.copytree(workshop / "model", tmp_path / "m")
    description = json.loads((tmp_path / "m" / saving.DESCRIPTION).read_text())
    assert field in description["extra"]["table"]
    description["extra"]["table"][field] = value
    reseal(tmp_path / "m", description)
    said = sentence(run("predict", tmp_path / "m", workshop / "weak.csv", "--out", tmp_path / "p.csv"))
    assert "the model's description of its table cannot be used" in said
    assert message in said
    assert not (tmp_path / "p.csv").exists()


def test_classes_in_another_order_are_refused(workshop: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    shutil.copytree(workshop / "model", tmp_path / "m")
    description = json.loads((tmp_path / "m" / saving.DESCRIPTION).read_text())
    description["classes"]["names"] = description["classes"]["names"][::-1]
    reseal(tmp_path / "m", description)
    done = run("predict", tmp_path / "m", workshop / "weak.csv", "--out", tmp_path / "p.csv")
    assert "classes: expected the model's own in their order" in sentence(done)


# Transitions.


def npy(path: Path, shape: tuple[int, ...], size: int) -> Path:
    """A header that promises a shape, and so many bytes of content."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (63 - (len(text) + 10) % 64) + b"\n"
    with path.open("wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
        file.truncate(file.tell() + size)  # sparse: it takes no room on the disk
    return path


def test_matrices_larger_than_memory(tmp_path: Path, run: Callable[..., Any]) -> None:
    told = npy(tmp_path / "told.npy", (10**8, 10**5), 100)
    assert "expected a transition matrix, got" in sentence(run("inspect", told))
    true = npy(tmp_path / "true.npy", (200_000, 100_000), 16 * 10**10)
    assert "expected at most 134,217,728 entries, got shape (200000, 100000): that takes 149.0 GiB" in sentence(
        run("inspect", true)
    )


@pytest.mark.parametrize("text", ["[[1e400, 0], [0, 1]]", f"[[1{'0' * 400}, 0], [0, 1]]", f"[[{'9' * 5000}]]"])
def test_numbers_beyond_the_floats(text: str, tmp_path: Path, run: Callable[..., Any]) -> None:
    (tmp_path / "T.json").write_text(text)
    assert "expected a transition matrix, got" in sentence(run("inspect", tmp_path / "T.json"))


def test_numbers_beyond_the_floats_in_the_library() -> None:
    with pytest.raises(ValueError, match="expected a matrix of numbers"):
        tp.Transition([[10**400, 0], [0, 1]])
    with refused("p"):
        tp.symmetric_noise(3, 10**400)
    with refused("diagonal"):
        transition_from_dict({"family": "uniform", "name": "x", "num_classes": 3, "diagonal": 10**400})


@pytest.mark.parametrize("family", ["uniform", "partial", "multi_complementary"])
def test_classes_that_no_memory_holds(family: str) -> None:
    data = {"family": family, "name": "x", "num_classes": 10**11, "diagonal": 0.0, "p": 0.1, "m": 2}
    with pytest.raises(ValueError, match=r"expected at most 10,000,000 classes, got 100,000,000,000: .* 745\.1 GiB"):
        transition_from_dict(data)


@pytest.mark.parametrize("spec", ["multi_complementary:10000000,5000000", "partial:10000000,0.1"])
def test_candidate_sets_of_too_many_classes(spec: str, run: Callable[..., Any]) -> None:
    """The number of candidate sets alone would take minutes to compute, and cannot be written out."""
    began = time.monotonic()
    assert "expected at most 100,000 classes for candidate sets for K of" in sentence(run("inspect", spec))
    assert time.monotonic() - began < 20


def test_a_number_of_sets_too_long_to_write_out() -> None:
    T = tp.partial_labels(20_000, 0.1)
    assert "about 10^6021 weak labels" in str(T)
    assert T.diagnose().to_dict()["num_weak_labels"] == "about 10^6021"
    assert tp.partial_labels(3, 0.1).diagnose().to_dict()["num_weak_labels"] == 7


# Memory.


def test_more_rows_and_classes_than_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 classes x 40,000 rows, asked before the work."""
    import tproper._core.memory as memory

    monkeypatch.setattr(memory, "free_memory", lambda: 2.0**31)
    rng = np.random.default_rng(0)
    y = np.arange(40_000) % 5_000
    model = tp.WeakLabelClassifier(transition=tp.symmetric_noise(5_000, 0.2))
    with pytest.raises(MemoryError, match=r"room for 4\.5 GiB \(3 tables of 40,000 rows x 5,000 classes\), got"):
        model.fit(rng.normal(size=(40_000, 2)), y)


def test_memory_is_known_here() -> None:
    assert free_memory() > 2**20


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1600000000 bytes."),
        MemoryError("expected room for 1.5 GiB (3 tables), got 0.2 GiB free; use fewer rows"),
    ],
)
def test_memory_that_runs_out_during_the_work(
    error: Exception, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*rest: object) -> None:
        raise error

    monkeypatch.setattr(inspection, "certify", full)
    said = sentence(run("inspect", "complementary:3"), code=1)
    assert said.startswith("error: not enough memory: ")
    assert "1.5 GiB" in said
    assert said.count("use fewer rows") == 1


# Files that unpack to more than there is.


def test_a_table_that_unpacks_to_one_endless_row(tmp_path: Path, run: Callable[..., Any]) -> None:
    with gzip.open(tmp_path / "t.csv.gz", "wb", compresslevel=1) as file:
        file.write(b"x,y\n" + b"1" * (1 << 24))
    done = run("train", tmp_path / "t.csv.gz", "--label", "y", "--transition", "symmetric:0.2", "--out", tmp_path / "m")
    assert "expected shorter rows, got one of more than 4 MiB" in sentence(done)


@pytest.mark.parametrize("packed", [False, True])
def test_columns_that_memory_does_not_hold_are_refused_before_they_are_read(
    packed: bool, tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow takes kilobytes for each, and aborts the process where it cannot have them."""
    text = ",".join([*(f"c{i}" for i in range(20_000)), "y"]) + "\n" + ",".join(["1"] * 20_000 + ["a"]) + "\n"
    data = tmp_path / ("wide.csv.gz" if packed else "wide.csv")
    data.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    monkeypatch.setattr("tproper._core.memory.free_memory", lambda: 1e8)
    result = run("train", data, "--label", "y", "--transition", "symmetric:0.1", "--out", tmp_path / "m")
    assert result.exit_code == 1
    assert "not enough memory: expected room for 0.2 GiB (the columns of a CSV file)" in result.stderr


def test_a_parquet_file_that_unpacks_to_more_than_memory_is_refused_by_its_footer(
    tmp_path: Path, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"x": ["a" * 60_000_000, "b" * 60_000_000], "y": ["a", "b"]})
    parquet.write_table(table, tmp_path / "t.parquet", compression="zstd")
    assert (tmp_path / "t.parquet").stat().st_size < 50_000
    monkeypatch.setattr("tproper._core.memory.free_memory", lambda: 1e8)
    result = run(
        "train", tmp_path / "t.parquet", "--label", "y", "--transition", "symmetric:0.1", "--out", tmp_path / "m"
    )
    assert result.exit_code == 1
    assert "not enough memory: expected room for 0.1 GiB (a row group of" in result.stderr
