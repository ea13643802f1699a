"""What stands in a file and is no feature, or no label, is refused with its column and row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.data.columns import CandidateLists, first_inexact
from tproper.data.sources import ParquetSource
from tproper.data.stream import Learner, fit_stream
from tproper.data.tables import holds_truth

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

DAY = dt.datetime(2024, 1, 1)


def source(tmp_path, columns, name="t.parquet", **options):
    table = columns if isinstance(columns, pa.Table) else pa.table(columns)
    if name.endswith("parquet"):
        parquet.write_table(table, tmp_path / name, row_group_size=2)
    else:
        feather.write_feather(table, tmp_path / name, chunksize=2)
    return ParquetSource(tmp_path, **({"label": "y", "features": ["x"]} | options))


def drained(made):
    return list(made.batches(0))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([DAY] * 3),
        pa.array([DAY.date()] * 3),
        pa.array([dt.timedelta(1)] * 3),
        pa.array([dt.time(1)] * 3),
        pa.array([b"1", b"2", b"3"]),
        pa.array([[1], [2], [3]]),
        pa.array(["a", "b", "c"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.binary())),
    ],
    ids=lambda c: str(c.type),
)
@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
def test_types_that_are_no_numbers(tmp_path, column, name):
    with pytest.raises(ValueError, match=r"column 'x': expected numbers, got .* in t\..*; leave the column out"):
        source(tmp_path, {"x": column, "y": [0, 1, 2]}, name)


def test_types_that_are_numbers(tmp_path):
    columns = {
        "i": pa.array([1, 2, 3], pa.uint8()), "b": [True, False, True], "d": [Decimal("1.5")] * 3,
        "s": ["1", "2.5", "3"],
        "h": pa.array(np.array([1, 2, 3], np.float16)), "e": pa.array([1, 2, 1]).dictionary_encode(), "y": [0, 1, 2],
    }  # fmt: skip
    made = source(tmp_path, columns, features=["i", "b", "d", "s", "h", "e"], shuffle=False)
    expected = [[1, 1, 1.5, 1, 1, 1], [2, 0, 1.5, 2.5, 2, 2], [3, 1, 1.5, 3, 3, 1]]
    assert drained(made)[0][0].tolist() == expected


def test_a_suffix_may_be_in_capitals(tmp_path):
    for name in ("A.PARQUET", "a.Pq"):
        parquet.write_table(pa.table({"x": [0.0, 1.0], "y": [0, 1]}), tmp_path / name)
        assert ParquetSource(tmp_path / name, "y").rows == 2
    assert ParquetSource(tmp_path, "y").rows == 4


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text_of_any_layout_is_not_rounded(kind):
    try:
        column = pa.array(["1", "9007199254740993"]).cast(kind)
    except pa.ArrowNotImplementedError as e:
        pytest.skip(f"pyarrow {pa.__version__}: {e}")
    for same in (column, column.cast(pa.large_string()).dictionary_encode()):
        assert first_inexact(same) == (1, "9007199254740993")
    for digits in (310, 5000):  # more than a float has, and more than Python reads
        assert first_inexact(pa.array(["1" * digits]).cast(kind)) == (0, "1" * 37 + "...")
    truth = pa.array(["true", "0"]).cast(kind)
    assert holds_truth(truth)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
    ],
)
def test_wrong_options(tmp_path, options, says):
    with refused(says):
        source(tmp_path, {"x": [0.0, 1.0], "y": [0, 1]}, **options)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
def test_values_that_are_not_finite(tmp_path, bad):
    made = source(tmp_path, {"x": [0.0, 1.0, 2.0, bad], "y": [0, 1, 2, 0]})
    says = (
        r"column 'x': expected finite numbers, got 1 NaN or infinite among 2 rows, first at row 4 of t\.parquet; drop"
    )
    for use in (drained, ParquetSource.moments):
        with pytest.raises(ValueError, match=says):
            use(made)


def test_a_gap_has_its_row(tmp_path):
    says = r"column 'x': expected numbers without gaps, got 1 missing among 2 rows, first at row 3 of t\.parquet; drop"
    with pytest.raises(ValueError, match=says):
        drained(source(tmp_path, {"x": [0.0, 1.0, None, 1.0], "y": [0, 1, 2, 0]}))
    with pytest.raises(ValueError, match=r"column 'y': expected a label in every row.*first at row 1 of t\.parquet"):
        drained(source(tmp_path, {"x": [0.0, 1.0], "y": [None, 1]}))


def test_whole_numbers_are_not_rounded_to_each_other(tmp_path):
    table = {"x": [0, 1, 2**24, 2**24 + 1], "y": [0, 1, 2, 0]}
    says = r"column 'x': expected whole numbers that float32 holds, got 16777217, .*first at row 4 .*dtype=np.float64"
    with pytest.raises(ValueError, match=says):
        drained(source(tmp_path, table))
    drained(source(tmp_path, table, dtype=np.float64))


def test_numbers_too_large_to_standardise(tmp_path):
    made = source(tmp_path, {"x": [1e200, -1e200], "y": [0, 1]}, dtype=np.float64)
    with pytest.raises(ValueError, match="column 'x': expected numbers of which a standard deviation can be taken"):
        made.moments()


def test_a_learner_takes_no_nan():
    def learner():
        return Learner(torch.nn.Linear(2, 3), tp.ForwardLoss(tp.complementary(3)), torch.optim.SGD)

    X = np.array([[0.0, np.nan], [0.0, np.inf], [1.0, 1.0]])
    with refused("column 1"):
        learner().partial_fit(X, np.array([0, 1, 2]))
    with pytest.raises(ValueError, match=r"column 1: .* among 3 rows of batch 1; drop"):
        fit_stream(learner(), [(np.zeros((3, 2)), [0, 1, 2]), (X, [0, 1, 2])])


LISTS = {
    "lists without gaps, got a missing member, first at row 2": [[0], [1, None], [2]],
    "lists of classes as integers, or of booleans, got list<": [[0.0], [1.0], [2.5]],
    "lists of classes as integers, or of booleans, got list": [["a"], ["b"], ["c"]],
    r"candidate classes in \[0, 3\), got -1, first at row 3": [[0], [1], [2, -1]],
    "at least one candidate class, got an empty list, first at row 2": [[0], [], [2]],
    "at least one candidate class, got an empty list, first at row 1": pa.array([[], [], []], pa.list_(pa.null())),
    "lists without gaps, got a missing member, first at row 3": [[True] * 3, [True] * 3, [True, None, False]],
    "lists of 3 booleans, got 2, first at row 2": [[True] * 3, [True] * 2, [True] * 4],
    "at least one candidate class, got none, first at row 3": [[True] * 3, [True] * 3, [False] * 3],
}


@pytest.mark.parametrize("says", LISTS)
def test_candidate_lists_that_are_none(tmp_path, says):
    with pytest.raises(ValueError, match=f"column 'y': expected {says}"):
        drained(source(tmp_path, {"x": [0.0, 1.0, 2.0], "y": LISTS[says]}, num_classes=3, batch_size=2, block_rows=2))


def test_files_with_different_labels(tmp_path):
    parquet.write_table(pa.table({"x": [0.0], "y": [1]}), tmp_path / "a.parquet")
    for encode in (None, np.asarray):
        with pytest.raises(
            ValueError, match=r"column 'y': expected the same kind.*int64 in a\.parquet and list<.* in b"
        ):
            source(tmp_path, {"x": [0.0], "y": [[1, 2]]}, "b.parquet", num_classes=3, encode=encode)


def test_lists_of_fractions():
    with refused("members"):
        CandidateLists(np.array([0.5]), np.array([1]), 3)
    assert not CandidateLists(np.empty(0), np.array([0]), 3).masks().any()


@pytest.mark.parametrize("name", ["t.parquet", "t.feather"])
@pytest.mark.parametrize(
    ("rows", "says"), [(4, "bytes"), (12, "one that was written to since"), (None, "nothing, the file is gone")]
)
def test_a_file_that_changes_during_training(tmp_path, name, rows, says):
    made = source(tmp_path, {"x": np.arange(12.0), "y": np.arange(12) % 3}, name, batch_size=2, block_rows=2)
    stream = made.batches(0)
    next(stream)
    file = tmp_path / name
    then = file.stat()
    file.unlink()  # another file of that name: what is open stays readable
    if rows is not None:
        source(tmp_path, {"x": -np.arange(float(rows)), "y": np.arange(rows) % 3}, name)
        if rows == 12:
            assert file.stat().st_size == then.st_size
    with pytest.raises(ValueError, match=rf"{name}: expected the file as it was when training began, got .*{says}"):
        list(stream)
