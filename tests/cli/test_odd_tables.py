"""Tables that could be misread in silence: what is odd is refused, or said."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tproper.cli.errors import printable
from tproper.data import ParquetSource, first_inexact, first_text, look_alikes, misreadings, numbers, open_table, tables
from tproper.data.folders import data_files

Run = Callable[..., Any]
TRAIN = ["--label", "y", "--transition", "symmetric:0.1"]


def write(path: Path, **columns: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = {"x": np.arange(40) % 7 * 1.0, "y": ["a", "b"] * 20} | columns
    pq.write_table(pa.table(rows), path)


def test_a_loop_of_links_is_read_once(tmp_path: Path) -> None:
    write(tmp_path / "d" / "sub" / "one.parquet")
    os.symlink(tmp_path / "d", tmp_path / "d" / "sub" / "back")
    os.symlink(tmp_path / "d" / "sub" / "one.parquet", tmp_path / "d" / "two.parquet")
    write(tmp_path / "elsewhere" / "three.parquet")
    os.symlink(tmp_path / "elsewhere", tmp_path / "d" / "linked")
    write(tmp_path / "d" / "_temporary" / "half.parquet")
    names = [f.name for f in data_files(tmp_path / "d")]
    assert len(names) == 2
    assert "three.parquet" in names
    assert open_table(tmp_path / "d").rows == 80
    assert ParquetSource(tmp_path / "d", label="y", encode=len).rows == 80


@pytest.mark.parametrize("more", [[], ["--stream"]])
@pytest.mark.parametrize("columns", [{"z": np.ones(40)}, None])
def test_columns_that_only_some_files_have_are_refused(
    tmp_path: Path, run: Run, more: list[str], columns: dict[str, Any] | None
) -> None:
    write(tmp_path / "d" / "a.parquet", **({} if columns else {"z": np.ones(40)}))
    write(tmp_path / "d" / "b.parquet", **(columns or {}))
    result = run("train", tmp_path / "d", *TRAIN, "--out", tmp_path / "m", *more)
    assert result.exit_code == 2
    said = result.stderr.replace("\n", " ")
    assert "expected the same columns in every file" in said
    assert ("'z' in" if columns else "no 'z' in") in said


@pytest.mark.parametrize("value", [2**53 + 1, -(2**60) - 1, 2**63 + 1])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_whole_numbers_that_would_be_rounded_are_refused(tmp_path: Path, run: Run, value: int, kind: str) -> None:
    data = tmp_path / f"t.{kind}"
    identifiers = [*range(20), value, *range(19)]
    if kind == "csv":
        data.write_text("x,y\n" + "".join(f"{i},{'ab'[n % 2]}\n" for n, i in enumerate(identifiers)))
    else:
        write(data, x=pa.array(identifiers, pa.int64() if value < 2**63 else pa.uint64()))
    result = run("train", data, *TRAIN, "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert f"whole ones up to 2^53), got {value} at row 21" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize("value", ["0.1234567890123456789", "9007199254740993", "-1234567.00000000000001"])
@pytest.mark.parametrize("stream", [False, True])
def test_decimals_that_would_be_rounded_are_refused_by_the_same_rule(
    tmp_path: Path, run: Run, value: str, stream: bool
) -> None:
    exact = ["0.1", "2.50", None if not stream else "7", "9007199254740992", "0.333333333333333"] * 8
    kind = pa.decimal128(38, 19)
    held = pa.array([None if text is None else Decimal(text) for text in exact], kind)
    assert first_inexact(held) is None
    assert first_inexact(pa.array([Decimal("123.45")], pa.decimal128(12, 2)).dictionary_encode()) is None
    given = [Decimal("7") if text is None else Decimal(text) for text in exact]
    given[20] = Decimal(value)
    write(tmp_path / "t.parquet", x=pa.array(given, kind))
    result = run("train", tmp_path / "t.parquet", *TRAIN, "--out", tmp_path / "m", *(["--stream"] if stream else []))
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert "column 'x': expected numbers that a float holds" in said
    assert f"got {value}" in said


def test_large_whole_numbers_that_a_float_holds_are_taken(tmp_path: Path, run: Run) -> None:
    write(tmp_path / "t.parquet", x=pa.array([2**60, *range(39)], pa.int64()))
    assert run("train", tmp_path / "t.parquet", *TRAIN, "--out", tmp_path / "m").exit_code == 0


def test_true_among_numbers_is_text() -> None:
    assert numbers(pa.array(["true", "", "FALSE"])).tolist()[::2] == [1.0, 0.0]  # type: ignore[union-attr]
    mixed = pa.array(["1.5", "2", "true"])
    assert numbers(mixed) is None
    assert first_text(mixed) == (2, "true")


def test_a_bad_cell_far_down_is_found_at_once() -> None:
    column = pa.array([*map(str, range(300_000)), "oops", *map(str, range(10))])
    began = time.process_time()
    assert first_text(column) == (300_000, "oops")
    assert time.process_time() - began < 5


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_named(tmp_path: Path, run: Run, encoding: str) -> None:
    data = tmp_path / "t.csv"
    data.write_bytes("x,y\n1,a\n2,b\n".encode(encoding))
    result = run("train", data, *TRAIN, "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert "UTF-32" in result.stderr if encoding == "utf-32" else "UTF-16" in result.stderr


def test_names_do_not_speak_to_the_terminal(tmp_path: Path, run: Run) -> None:
    assert printable("a\x1b[31mb\x07\tc\n") == "a\\x1b[31mb\\x07\tc\n"
    data = tmp_path / "t.csv"
    data.write_text("x,y\n" + "".join(f"{i % 7},{'a' if i % 2 else chr(27) + '[31mb'}\n" for i in range(40)))
    result = run("train", data, *TRAIN, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.stdout + result.stderr
    assert "\\x1b[31mb" in result.stdout


def test_names_that_are_probably_one() -> None:
    assert look_alikes({"ant": 50, "bee": 50, "class 1": 30, "class 2": 30, "1": 3, "2": 3}) == []
    assert look_alikes({"1152921504606846976": 9, "1152921504606846977": 9}) == []
    (numbers_,) = look_alikes({"1": 9, "1.0": 3, "2": 8})
    assert "'1' (9 times) and '1.0' (3 times) look like one written in 2 ways" in numbers_
    (composed,) = look_alikes({"caf\u00e9": 9, "cafe\u0301": 2})
    assert "'caf\\xe9' (9 times) and 'cafe\\u0301' (2 times)" in composed
    (slip,) = look_alikes({"elephant": 90, "elefant": 1, "bee": 50})
    assert slip == "the class 'elefant' is seen once, and looks like 'elephant'; is it a slip?"


def test_labels_that_are_probably_misread() -> None:
    assert misreadings(["ant", "bee", "ant|bee", "cannot say"], ["ant", "bee"]) == []
    (spelled,) = misreadings(["ant", "bee", "ANT", "bee."], ["ant", "bee"])
    assert spelled.startswith("the label 'ANT' (and 1 more like it) looks like the class 'ant' in another spelling")
    (joined,) = misreadings([], ["ant", "bee", "ant, bee"])
    assert joined == "the class 'ant, bee' looks like several classes in one cell; a candidate set is written 'ant|bee'"
    (negated,) = misreadings([], ["not a bee", "Not an ant"])
    assert negated.startswith("every class begins with 'not': 'not a bee' is read as the name of a class")
    assert misreadings([], ["not a bee", "ant"]) == []


def test_training_says_so(tmp_path: Path, run: Run) -> None:
    names = ["elephant", "bee"] * 30 + ["elefant"]
    data = tmp_path / "t.csv"
    data.write_text("x,y\n" + "".join(f"{i % 7},{name}\n" for i, name in enumerate(names)))
    result = run("train", data, *TRAIN, "--out", tmp_path / "m")
    assert result.exit_code == 0, result.output
    assert "warning: the class 'elefant' is seen once, and looks like 'elephant'" in result.stderr.replace("\n", " ")
    assert "elefant' is seen once" in (tmp_path / "m" / "model_card.md").read_text()


def test_true_in_one_block_and_numbers_in_another(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The border between them may be the border between two blocks: each block looks well by itself."""
    rows = [f"{n % 5 + 10},{'ab'[n % 2]}\n" for n in range(200)]
    flags = [f"{['true', 'false'][n % 2]},{'ab'[n % 3 > 1]}\n" for n in range(400)]
    data = tmp_path / "t.csv"
    data.write_text("x,y\n" + "".join(rows + flags))
    for size in range(980, 1030):  # some blocks end just there
        monkeypatch.setattr(tables, "CSV_BLOCK", size)
        result = run("train", data, *TRAIN, "--out", tmp_path / "m")
        said = " ".join(result.stderr.split())
        assert result.exit_code == 2, (size, result.output)
        assert "throughout" in said or "got the text 'true' at row 201 among numbers" in said


@pytest.mark.parametrize("value", [2**53 + 1, -(2**60) - 1, 2**63 + 1])
def test_streams_refuse_whole_numbers_that_would_be_rounded_wherever_they_are(
    tmp_path: Path, run: Run, value: int
) -> None:
    """In the last row group, far behind what is looked at before the work."""
    rows = 3000
    x = pa.array([*range(rows - 1), value], pa.int64() if value < 2**63 else pa.uint64())
    table = pa.table({"x": x, "y": ["ab"[n % 2] for n in range(rows)]})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=500)
    result = run("train", tmp_path / "t.parquet", *TRAIN, "--out", tmp_path / "m", "--stream")
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert f"whole ones up to 2^53), got {value}, which would be rounded, first at row 3000 of t.parquet" in said
    assert "--ignore" in said


@pytest.mark.parametrize("name", ["T.csv", "T.json"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32"])
def test_matrices_in_other_encodings_are_named(tmp_path: Path, run: Run, name: str, encoding: str) -> None:
    text = "[[0.8,0.1],[0.2,0.9]]" if name == "T.json" else "0.8,0.1\n0.2,0.9\n"
    (tmp_path / name).write_bytes(text.encode(encoding))
    result = run("inspect", tmp_path / name)
    assert result.exit_code == 2
    assert f"expected text in UTF-8, got {'UTF-32' if encoding == 'utf-32' else ''}" in " ".join(result.stderr.split())
    assert "save the file as UTF-8" in " ".join(result.stderr.split())


def test_compressed_tables_in_another_encoding_are_named(tmp_path: Path, run: Run) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("x,y\n1,a\n2,b\n".encode("utf-16")))
    result = run("train", tmp_path / "t.csv.gz", *TRAIN, "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert "UTF-16" in result.stderr
