"""Tables: what is read is what was written, and nothing is guessed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from tproper.data import tables as tabular  # noqa: E402
from tproper.data.tables import TableError, numbers, open_table, texts  # noqa: E402
from tproper.data.writing import TableWriter  # noqa: E402


def columns(path: Path, names: list[str] | None = None) -> dict[str, list[object]]:
    table = open_table(path)
    out: dict[str, list[object]] = {n: [] for n in names or table.names}
    for batch in table.batches(names):
        for n in out:
            out[n] += batch.column(n).to_pylist()
    return out


def test_csv_cells_keep_their_spelling_through_a_copy(tmp_path: Path) -> None:
    text = 'id,x,note\n007,1.50,"a, b"\n008,,"say ""hi"""\n009,1e3,"two\nlines"\n'
    source = tmp_path / "a.csv"
    source.write_text(text)
    table = open_table(source)
    with TableWriter(tmp_path / "b.csv", "csv") as writer:
        for batch in table.batches():
            writer.write({n: batch.column(n) for n in table.names})
    assert (tmp_path / "b.csv").read_text() == text


def test_a_lone_empty_cell_is_still_a_row(tmp_path: Path) -> None:
    with TableWriter(tmp_path / "a.csv", "csv") as writer:
        writer.write({"only": pa.array(["x", "", None, "y"])})
    assert columns(tmp_path / "a.csv") == {"only": ["x", "", "", "y"]}


def test_integers_first_and_fractions_later_are_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that fixes types by its first block fails here."""
    monkeypatch.setattr(tabular, "CSV_BLOCK", 4096)
    path = tmp_path / "late.csv"
    path.write_text("x,y\n" + "1,2\n" * 5000 + "1.5,text\n")
    table = open_table(path)
    batches = list(table.batches())
    assert len(batches) > 1
    x = np.concatenate([numbers(b.column("x")) for b in batches])  # type: ignore[list-item]
    assert x.shape == (5001,)
    assert x[-1] == 1.5
    assert numbers(batches[-1].column("y")) is None
    assert [str(t) for t in table.types(["x", "y"]).values()] == ["double", "string"]


def test_a_header_may_be_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tabular, "CSV_BLOCK", 64)
    names = [f"column{i}" for i in range(100)]
    (tmp_path / "a.csv").write_text(",".join(names) + "\n" + ",".join("1" * 100) + "\n")
    assert open_table(tmp_path / "a.csv").names == names
    assert columns(tmp_path / "a.csv", ["column7"]) == {"column7": ["1"]}
    monkeypatch.setattr(tabular, "LONGEST_HEADER", 128)
    with pytest.raises(TableError, match="expected a header of at most 0 MiB, got a longer line"):
        open_table(tmp_path / "a.csv")
    (tmp_path / "long.csv").write_text("a,b\n1," + "2" * 1000 + "\n3,4\n")
    with pytest.raises(TableError, match="expected shorter rows, got one of more than 0 MiB"):
        columns(tmp_path / "long.csv")


def test_byte_order_mark_gzip_and_tabs(tmp_path: Path) -> None:
    (tmp_path / "bom.csv").write_bytes(b"\xef\xbb\xbfa,b\n1,2\n")
    (tmp_path / "t.tsv").write_text("a\tb\n1\t2\n")
    with gzip.open(tmp_path / "z.csv.gz", "wt") as f:
        f.write("a,b\n1,2\n")
    for name in ("bom.csv", "t.tsv", "z.csv.gz"):
        assert columns(tmp_path / name) == {"a": ["1"], "b": ["2"]}, name


def test_parquet_file_and_folder_keep_order_and_types(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for part in range(3):
        rows = list(range(part * 10, part * 10 + 10))
        pq.write_table(pa.table({"i": rows, "s": [["a", "b"]] * 10}), folder / f"part-{part}.parquet")
    assert columns(folder, ["i"])["i"] == list(range(30))
    assert open_table(folder).rows == 30
    _, values = texts(next(open_table(folder).batches()).column("s"))
    assert values == ["a|b"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["1", "", "NA", "2.5"], [1, np.nan, np.nan, 2.5]),
        (["true", "False", "TRUE"], [1, 0, 1]),
        ([True, None, False], [1, np.nan, 0]),
        ([3, None], [3, np.nan]),
        (["inf", "-inf", "nan"], [np.inf, -np.inf, np.nan]),
        ([None, None], [np.nan, np.nan]),
        (["1", "x"], None),
        ([["a"]], None),
    ],
)
def test_numbers(column: list[object], expected: list[float] | None) -> None:
    got = numbers(pa.array(column))
    if expected is None:
        assert got is None
    else:
        np.testing.assert_array_equal(got, expected)


def test_dates_are_not_numbers() -> None:
    assert numbers(pa.array([1, 2], pa.timestamp("s"))) is None


def test_texts_of_numbers_do_not_depend_on_their_type() -> None:
    for array in (
        pa.array([3, 7]),
        pa.array([3.0, 7.0]),
        pa.array(["3", "7"]),
        pa.array(["3", "7"]).dictionary_encode(),
    ):
        assert texts(array)[1] == ["3", "7"]
    codes, values = texts(pa.array([1.0, None, float("nan")]))
    assert codes.tolist() == [0, -1, -1]
    assert values[0] == "1"
    codes, values = texts(pa.array([[1, 2], [1, None], None, [2]]))
    assert codes.tolist() == [0, -1, -1, 1]  # a set with an unknown member is no label
    assert values == ["1|2", "2"]


def test_probabilities_survive_csv_exactly(tmp_path: Path) -> None:
    p = np.random.default_rng(0).dirichlet(np.ones(3), size=50)
    with TableWriter(tmp_path / "p.csv", "csv") as writer:
        writer.write({"p": p[:, 0]})
    assert [float(v) for v in columns(tmp_path / "p.csv")["p"]] == p[:, 0].tolist()


def test_text_becomes_numbers_on_the_way_to_parquet(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("i,x,s\n1,1.5,a\n2,,b\n")
    table = open_table(tmp_path / "a.csv")
    with TableWriter(tmp_path / "a.parquet", "parquet", table.types(table.names)) as writer:
        for batch in table.batches():
            writer.write({n: batch.column(n) for n in table.names})
    assert columns(tmp_path / "a.parquet") == {"i": [1, 2], "x": [1.5, None], "s": ["a", "b"]}


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["12345678901234567890", "2"], "string"),  # an account number beyond int64
        (["12345678901234567", "1.5"], "string"),  # within it, but some other cell is a fraction
        (["00001", "2"], "string"),
        (["+1", "2"], "string"),
        (["0x1F", "2"], "string"),
        (["9223372036854775807", "-5", "", "NA"], "int64"),
        (["0.10", "1e3", "-0", "7", "nan"], "double"),
        (["", "NA"], "int64"),
    ],
)
def test_numbers_that_would_lose_something_stay_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str], kind: str
) -> None:
    monkeypatch.setattr(tabular, "CSV_BLOCK", 64)  # the cells lie in different blocks
    path = tmp_path / "a.csv"
    path.write_text("x,pad\n" + "".join(f"{cell},{'p' * 40}\n" for cell in cells))
    assert str(open_table(path).types(["x"])["x"]) == kind


def test_another_separator_is_suspected(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a;b\n1;2\n")
    with pytest.raises(TableError, match="another separator"):
        open_table(tmp_path / "a.csv").require("b", "--label")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(TableError, match=r"pip install 'tproper\[tables\]'"):
        open_table(tmp_path / "a.csv")
