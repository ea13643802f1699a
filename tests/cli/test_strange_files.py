"""Files that other programs write: their values are taken as they are, or refused by name."""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import shlex
import unicodedata
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from refusals import refused

from tproper.data import TableWriter, misreadings, nearest, numbers, open_table, text_files
from tproper.data.columns import common_type
from tproper.data.tables import holds_truth, texts
from tproper.data.text_files import TableError, check_quotes, quotes_fit
from tproper.tables.schema import joined_names, split_names

Run = Callable[..., Any]
TRAIN = ["--label", "y", "--transition", "symmetric:0.1", "--holdout", 0]
COLUMNS = {
    "bool": pa.array([True, None]),
    "int8": pa.array([1, None], pa.int8()),
    "int64": pa.array([2, 1 << 40]),
    "uint64": pa.array([2, 7], pa.uint64()),
    "float32": pa.array([0.1, None], pa.float32()),
    "float64": pa.array([0.1, 1e300]),
    "decimal": pa.array([Decimal("0.10"), Decimal("7.25")]),
    "text": pa.array(["a", "2"]),
    "large text": pa.array(["a", "é"], pa.large_string()),
    "dictionary": pa.array(["b", "a"]).dictionary_encode(),
    "bytes": pa.array([b"a", b"b"]),
    "nothing": pa.nulls(2),
    "lists": pa.array([["a"], ["a", "b"]]),
    "large lists": pa.array([["a"], None], pa.large_list(pa.string())),
    "empty lists": pa.array([[], []]),
}


def folder(path: Path, *columns: pa.Array) -> Path:
    path.mkdir()
    for i, column in enumerate(columns):
        pq.write_table(pa.table({"x": column, "other": pa.array(np.zeros(len(column)))}), path / f"{i}.parquet")
    return path


def read(path: Path) -> list[Any]:
    return [value for batch in open_table(path).batches(["x"]) for value in batch.column("x").to_pylist()]


def test_numbers_and_text_have_types_in_common() -> None:
    numeric = ("int8", "int64", "uint64", "float32", "float64", "nothing")
    for names in (numeric, ("text", "large text", "dictionary", "nothing"), ("lists", "large lists", "empty lists")):
        assert common_type([COLUMNS[name].type for name in names]) is not None
    for one, other in itertools.combinations(("bool", "int8", "decimal", "text", "bytes", "lists"), 2):
        assert common_type([COLUMNS[one].type, COLUMNS[other].type]) is None


@pytest.mark.parametrize(("one", "other"), list(itertools.permutations(COLUMNS, 2)))
def test_no_value_depends_on_the_types_of_other_files(tmp_path: Path, one: str, other: str) -> None:
    """Arrow takes the types of the first file: a 2 after a true was true, a float64 after a float32 was rounded."""
    first, second = COLUMNS[one], COLUMNS[other]
    data = folder(tmp_path / "data", first, second)
    if common_type([first.type, second.type]) is None:
        with pytest.raises(TableError, match="column 'x': expected the same type of values in every file"):
            read(data)
        assert len(list(open_table(data).batches(["other"]))) == 2  # a column that is not asked for does no harm
        return
    got = read(data)
    expected = first.to_pylist() + second.to_pylist()
    assert got == expected
    assert [isinstance(v, bool) for v in got] == [isinstance(v, bool) for v in expected]


def test_features_of_several_types_are_those_of_the_files_one_by_one(tmp_path: Path, run: Run) -> None:
    rng, y = np.random.default_rng(0), pa.array(["a", "b"] * 30)
    parts = [pa.array(rng.integers(9, size=60)), pa.array(rng.normal(size=60))]
    (tmp_path / "data").mkdir()
    for i, x in enumerate(parts):
        pq.write_table(pa.table({"x": x, "y": y}), tmp_path / "data" / f"{i}.parquet")
    assert run("train", tmp_path / "data", *TRAIN, "--out", tmp_path / "m").exit_code == 0
    alone = ""
    for name in ("data", "data/0.parquet", "data/1.parquet"):
        result = run("predict", tmp_path / "m", tmp_path / name)
        assert result.exit_code == 0, result.output
        if name == "data":
            whole = result.stdout.splitlines()[1:]
        else:
            alone += result.stdout.partition("\n")[2]
    assert whole == alone.splitlines()


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([" 1.5", "2 ", "\t-3e2"], [1.5, 2, -300]),
        (["1", " ", " NA "], [1, np.nan, np.nan]),
        ([" true", "False "], [1, 0]),
    ],
)
def test_spaces_around_numbers_do_not_make_text(cells: list[str], expected: list[float]) -> None:
    got = numbers(pa.array(cells))
    assert got is not None
    np.testing.assert_array_equal(got, expected)
    assert holds_truth(pa.array(cells)) is ("true" in cells[0])
    assert numbers(pa.array([*cells, "1 5"])) is None


@pytest.mark.parametrize("name", ["t.csv.gz", "t.CSV.GZ", "t.csv.Gz"])
def test_gzip_by_any_spelling_of_its_suffix(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(b"x,other\n1,2\n3,4\n"))
    assert read(tmp_path / name) == ["1", "3"]


@pytest.mark.parametrize(
    ("content", "got"),
    [
        (gzip.compress(b"x,y\n1,a\n"), "got bytes packed by gzip; give the file a name that ends in .csv.gz"),
        (b"PK\x03\x04" + bytes(200), "got a zip archive, as Excel workbooks are; save the table as CSV"),
        (b"PAR1" + bytes(200), "got a Parquet file; give it a name that ends in .parquet"),
    ],
    ids=["gzip", "zip", "parquet"],
)
def test_other_formats_are_named(tmp_path: Path, run: Run, content: bytes, got: str) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    result = run("train", tmp_path / "t.csv", *TRAIN, "--out", tmp_path / "m")
    assert result.exit_code == 2
    assert f"t.csv: expected text, {got}" in result.stderr.replace("\n", " ")


@pytest.mark.parametrize("labels", [[[True, False], [True, True]], [{"v": "a"}, {"v": "b"}], [[["a"]], [["b"]]]])
def test_labels_without_names_are_refused(tmp_path: Path, run: Run, labels: list[Any]) -> None:
    """A mask as a list of booleans was read as the classes True and False, a struct by the names of its fields."""
    rows = [labels[i % 2] for i in range(40)]
    pq.write_table(pa.table({"x": np.arange(40) % 7 * 1.0, "y": pa.array(rows)}), tmp_path / "t.parquet")
    options = ["--label", "y", "--transition", "partial:0.3", "--out", tmp_path / "m"]
    result = run("train", tmp_path / "t.parquet", *options)
    assert result.exit_code == 2, result.output
    assert "expected a label, or a list of the names of candidates, in every row, got" in result.stderr
    with pytest.raises(TableError, match="got"):
        texts(pa.array(rows))


def csv_of(column: pa.Array) -> list[str]:
    stream = io.BytesIO()
    with TableWriter(stream, "csv") as writer:
        writer.write({"k": column, "last": pa.array(["."] * len(column))})
    return [line.removesuffix(",.") for line in stream.getvalue().decode().splitlines()[1:]]


def test_what_text_cannot_hold_is_not_written_as_something_else() -> None:
    """A struct was written as the names of its fields, a list with a gap as an empty cell."""
    for values in ([{"v": 1}], [[1, None]], [[[1]]], [b"\xff"]):
        with pytest.raises(TableError, match=r"column 'k': expected values that can be written as text, got .*Parquet"):
            csv_of(pa.array(values))
    assert csv_of(pa.array([[1, 2], None])) == ["1|2", ""]
    assert csv_of(pa.array([" a ", None, "b"]).dictionary_encode()) == [" a ", "", "b"]  # spelling and all


@pytest.mark.parametrize("names", [[" b", "a"], ["a ", "b,c"], ['say "x"', '"'], ["", "a"], ["two\nlines", "x"]])
def test_names_of_columns_survive_an_option(names: list[str]) -> None:
    (option,) = shlex.split(joined_names(names))
    assert split_names(option, "--ignore") == names


def test_lists_of_names() -> None:
    assert split_names(' a , "b, c" ,d', "--x") == ["a", "b, c", "d"]
    for wrong in ("", "a,", ",a", "a,,b", "a,a", '"a', "a\nb", 'a,"b"c'):
        with refused("--x"):
            split_names(wrong, "--x")


def test_a_header_with_spaces_after_its_commas(tmp_path: Path, run: Run) -> None:
    """Such columns could not be named in --ignore, --features or --keep."""
    data = tmp_path / "t.csv"
    data.write_text("id, x, y\n" + "".join(f"r{i}, {i % 7}, {'ab'[i % 2]}\n" for i in range(40)))
    told = run("train", data, *TRAIN, "--out", tmp_path / "m")
    assert "got 'y'; did you mean ' y'? (in a list of names, double quotes keep the spaces)" in told.stderr
    options = ["--label", " y", "--transition", "symmetric:0.1", "--holdout", 0, "--out", tmp_path / "m"]
    assert run("train", data, *options, "--ignore", "id").exit_code == 0
    assert run("train", data, *options, "--features", '" x"', "--force").exit_code == 0
    kept = run("predict", tmp_path / "m", data, "--keep", '" y",id')
    assert kept.stdout.startswith(" y,id,predicted,p_a,p_b\n a,r0,")
    swapped = [*options[:-2], "--classes", '"b"," a"', "--force", "--out", tmp_path / "m", "--ignore", "id"]
    assert run("train", data, *swapped).exit_code == 0  # labels are read without spaces, and so are classes


def test_names_that_look_alike_are_told_apart() -> None:
    composed = "étiquette"
    apart = unicodedata.normalize("NFD", composed)
    assert nearest(composed, ["x", apart]) == (
        f"; {apart!a} looks the same, but is {composed!a} in another Unicode form: copy it from there"
    )


def test_marks_of_missing_labels_among_the_classes() -> None:
    (note,) = misreadings([], ["None", "ant", "<NA>"])
    assert note == (
        "the class 'None' (and 1 more like it) looks like the mark of a missing label; if it is one, leave such cells "
        "empty"
    )
    assert misreadings([], ["ant", "nonesuch"]) == []


def test_a_true_class_among_the_features_is_said(tmp_path: Path, run: Run) -> None:
    """`simulate --keep-true` leaves the class in the table; as a number it would be the best feature of all."""
    data, weak = tmp_path / "clean.csv", tmp_path / "weak.csv"
    data.write_text("x,rank,digit\n" + "".join(f"{i % 11},{i * i % 7 % 3},{i % 3}\n" for i in range(90)))
    given = ["--transition", "complementary", "--out"]
    assert run("simulate", data, "--label", "digit", "--keep-true", *given, weak).exit_code == 0
    told = run("train", weak, "--label", "weak_label", *given, tmp_path / "m", "--holdout", 0)
    assert told.exit_code == 0, told.output
    said = " ".join(told.stderr.split())
    assert "column 'digit' holds the numbers that the classes are named by, tells much of the labels" in said
    assert "'rank'" not in said
    assert "--ignore digit" in said
    told = run("train", weak, "--label", "weak_label", *given, tmp_path / "n", "--holdout", 0, "--ignore", "digit")
    assert told.exit_code == 0
    assert "named by" not in told.stderr


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({5: '5,"cat,n5'}, "got one in line 7 that is never closed"),
        ({5: '5,"cat,n5', 9: '2,"dog,n9'}, "got one in line 7 that makes one cell of the lines up to 11"),
        ({5: '5,cat,"n5', 9: '2,dog,"n9, yes"'}, "got one in line 7 that makes one cell of the lines up to 11"),
        ({39: '4,cat,"n39'}, "got one in line 41 that is never closed"),
    ],
)
def test_quotes_that_swallow_rows_are_refused(tmp_path: Path, run: Run, cells: dict[int, str], told: str) -> None:
    """Six of sixty rows were left, and nothing was said."""
    rows = [f"{i % 7},{'cat' if i % 2 else 'dog'},n{i}" for i in range(40)]
    for i, row in cells.items():
        rows[i] = row
    data = tmp_path / "t.csv"
    data.write_text("\n".join(["x,y,note", *rows, ""]))
    result = run("train", data, *TRAIN, "--ignore", "note", "--out", tmp_path / "m")
    assert result.exit_code == 2, result.output
    assert told in " ".join(result.stderr.split())


def test_odd_quotes_that_swallow_nothing_are_read(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_bytes(b'\xef\xbb\xbf"x",note\n5" pipe,a\n"6" ,"two\nlines, ""quoted"""\n"",b"c\n')
    assert read(data) == ['5" pipe', "6 ", ""]


def test_quotes_are_seen_across_any_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the careful parser refuses, the fast look must doubt; and rows of its own writing it must not."""
    rng, refused = np.random.default_rng(0), 0
    path = tmp_path / "t.csv"
    for i in range(3000):
        text = "".join(rng.choice(list('a",\n"\r'), size=rng.integers(13)))
        path.write_bytes(text.encode())
        try:
            check_quotes(path, ",")
            bad = False
        except TableError:
            refused, bad = refused + 1, True
        monkeypatch.setattr(text_files, "_BLOCK", 1 + i % 5)
        if bad:
            assert not quotes_fit(io.BytesIO(text.encode()), ","), text
        cells = [["".join(rng.choice(list('a",\n'), size=3)) for _ in range(3)] for _ in range(2)]
        clean = io.StringIO(newline="")
        csv.writer(clean).writerows(cells)
        assert quotes_fit(io.BytesIO(clean.getvalue().encode()), ","), cells
    assert 100 < refused < 2900


def test_simulate_says_which_classes_look_like_slips(tmp_path: Path, run: Run) -> None:
    data = tmp_path / "clean.csv"
    data.write_text("x,kind\n" + "".join(f"{i % 7},{('ant', 'bee', 'Ant')[i % 3]}\n" for i in range(60)))
    given = ["--label", "kind", "--transition", "symmetric:0.1", "--out"]
    told = run("simulate", data, *given, tmp_path / "weak.csv")
    assert told.exit_code == 0, told.output
    assert "warning: classes 'ant' (20 times) and 'Ant' (20 times) look like one" in " ".join(told.stderr.split())
    told = run("simulate", data, *given, tmp_path / "weak2.csv", "--classes", "ant,bee,Ant")
    assert (told.exit_code, told.stderr) == (0, "")  # those who list their classes know them
