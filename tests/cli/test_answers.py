"""Answers of several annotators in tables: side by side or a row each, from `estimate` to `train` and `evaluate`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from outcomes import good, refused

pytest.importorskip("pyarrow")

import tproper as tp

Run = Callable[..., Any]
CLASSES = np.array(["ant", "bee", "cat", ""])
PEOPLE = ("ann", "bob", "eve")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, run: Run) -> Path:
    """wide.csv; long.csv with features in every row; bare.csv and items.csv, features apart; T.json of three people."""
    folder = tmp_path_factory.mktemp("desk")
    rng = np.random.default_rng(5)
    z = rng.integers(3, size=300)
    X = (rng.normal(size=(300, 2)) + np.array([[0, 2.5], [2.5, 0], [-2.5, -1.5]])[z]).round(3)
    T = tp.annotators([tp.symmetric_noise(3, 0.1), tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.3)])
    given = CLASSES[np.where(rng.random((300, 3)) < 0.2, 3, T.sample(z, 1))]
    write(folder / "wide.csv", "x,y,ann,bob,eve,kind", [(*X[i], *given[i], CLASSES[z[i]]) for i in range(300)])
    answers = [(i, a) for i in range(300) for a in range(3) if given[i, a]]
    order = rng.permutation(len(answers))
    rows = [(f"i{i}", PEOPLE[a], given[i, a], *X[i]) for i, a in (answers[o] for o in order)]
    write(folder / "long.csv", "item,who,answer,x,y", rows)
    write(folder / "bare.csv", "item,who,answer", [row[:3] for row in rows])
    write(folder / "items.csv", "item,x,y,kind", [(f"i{i}", *X[i], CLASSES[z[i]]) for i in rng.permutation(300)])
    made = run("estimate", "annotators", folder / "wide.csv", "--label", "ann,bob,eve", "--out", folder / "T.json")
    assert made.exit_code == 0, made.output
    return folder


def write(path: Path, header: str, rows: list[Any]) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


WIDE = ["--label", "ann,bob,eve", "--ignore", "kind"]
ALONE = ["--holdout", "0", "--calibrate", "none"]  # where neither scores nor calibration are tested
LONG = ["--label", "answer", "--item", "item", "--annotator", "who"]


def weights(folder: Path) -> Any:
    return tp.load(folder).coef_


def test_wide_and_long_tables_give_the_same_model(desk: Path, tmp_path: Path, run: Run) -> None:
    T = ["--transition", desk / "T.json", *ALONE]
    good(run, "train", desk / "wide.csv", *WIDE, *T, "--out", tmp_path / "wide")
    good(run, "train", desk / "long.csv", *LONG, *T, "--out", tmp_path / "long")
    apart = ["--features-from", desk / "items.csv", "--ignore", "kind"]
    good(run, "train", desk / "bare.csv", *LONG, *apart, *T, "--out", tmp_path / "apart")
    np.testing.assert_allclose(weights(tmp_path / "long"), weights(tmp_path / "wide"), atol=2e-3)
    np.testing.assert_allclose(weights(tmp_path / "apart"), weights(tmp_path / "wide"), atol=2e-3)


def test_columns_are_matched_by_name(desk: Path, tmp_path: Path, run: Run) -> None:
    T = ["--ignore", "kind", "--transition", desk / "T.json", *ALONE]
    for order in ("ann,bob,eve", "eve,ann,bob"):
        good(run, "train", desk / "wide.csv", "--label", order, *T, "--out", tmp_path / order)
    np.testing.assert_allclose(weights(tmp_path / "eve,ann,bob"), weights(tmp_path / "ann,bob,eve"), atol=1e-6)
    good(run, "evaluate", tmp_path / "eve,ann,bob", desk / "wide.csv", "--label", "eve,bob")
    text = (desk / "wide.csv").read_text().replace("x,y,ann,bob,eve,kind", "x,y,ann,bob,zoe,kind")
    (tmp_path / "zoe.csv").write_text(text)
    for command in (
        ["train", tmp_path / "zoe.csv", "--label", "ann,zoe", "--ignore", "bob,kind", *T[2:], "--out", tmp_path / "z"],
        ["evaluate", tmp_path / "eve,ann,bob", tmp_path / "zoe.csv", "--label", "ann,zoe"],
    ):
        said = refused(run, *command)
        assert "--label: expected answers of annotators whose T" in said
        assert "(ann, bob, eve), got 'zoe'" in said


def test_evaluate_reads_both_forms(desk: Path, tmp_path: Path, run: Run) -> None:
    good(run, "train", desk / "wide.csv", *WIDE, "--transition", desk / "T.json", *ALONE, "--out", tmp_path / "m")
    wide = good(run, "evaluate", tmp_path / "m", desk / "wide.csv", *WIDE[:2], "--true-label", "kind", "--json")
    apart = ["--features-from", desk / "items.csv", "--true-label", "kind"]
    long = good(run, "evaluate", tmp_path / "m", desk / "bare.csv", *LONG, *apart, "--json")
    a, b = json.loads(wide.stdout)["weak"], json.loads(long.stdout)["weak"]
    for name in ("accuracy", "log_loss", "brier"):
        assert a[name]["value"] == pytest.approx(b[name]["value"], abs=1e-9)
    assert json.loads(wide.stdout)["clean"]["accuracy"]["value"] > 0.85
    other = ["--transition", "ann=symmetric:0.1", "--transition", "bob=symmetric:0.3"]
    good(run, "evaluate", tmp_path / "m", desk / "wide.csv", "--label", "ann,bob", *other)
    predicted = good(run, "predict", tmp_path / "m", desk / "items.csv", "--keep", "item")
    assert predicted.stdout.startswith("item,predicted,p_ant,p_bee,p_cat")


@pytest.mark.parametrize(
    ("spec", "diagonal"),
    [
        (["symmetric:0.25"], [0.75, 0.75, 0.75]),
        (["bob=symmetric:0.3", "ann=symmetric:0.1", "eve=symmetric:0.4"], [0.7, 0.9, 0.6]),
    ],
)
def test_one_spec_for_all_or_one_each(desk: Path, tmp_path: Path, run: Run, spec: list[str], diagonal: Any) -> None:
    T = [part for s in spec for part in ("--transition", s)]
    good(run, "train", desk / "wide.csv", *WIDE, *T, *ALONE, "--out", tmp_path / "m")
    found = tp.load(tmp_path / "m").transition_
    np.testing.assert_allclose([t.matrix()[0, 0] for t in found.transitions], diagonal)
    table = tp.load(tmp_path / "m").extra_["table"]
    assert table["annotators"] == (["bob", "ann", "eve"] if "=" in spec[0] else ["ann", "bob", "eve"])


def test_t_from_the_table_itself(desk: Path, tmp_path: Path, run: Run) -> None:
    for name, given in (("wide", [desk / "wide.csv", *WIDE]), ("long", [desk / "long.csv", *LONG])):
        good(run, "train", *given, "--transition", "estimate", *ALONE, "--out", tmp_path / name)
        model = tp.load(tmp_path / name)
        rates = [1 - t.matrix().diagonal().mean() for t in model.transition_.transitions]
        np.testing.assert_allclose(rates, [0.1, 0.3, 0.3], atol=0.1)
        assert all(isinstance(t, tp.EstimatedTransition) for t in model.transition_.transitions)


def edited(path: Path, target: Path, **columns: Callable[[int, str], str]) -> Path:
    """A copy of a table with cells rewritten, by row and text."""
    header, *lines = path.read_text().splitlines()
    names = header.split(",")
    rows = [line.split(",") for line in lines]
    for name, change in columns.items():
        j = names.index(name)
        for i, row in enumerate(rows):
            row[j] = change(i, row[j])
    return write(target, header, rows)


def at(row: int, text: str) -> Callable[[int, str], str]:
    """Put a text at one row, counted from 1."""
    return lambda i, old: text if i == row - 1 else old


MISTAKES = [
    ("long.csv", {"x": at(3, "99")}, [], "column 'x': expected the same value in all rows of an item"),
    ("long.csv", {"item": at(2, "")}, [], "--item: expected a name in every row, got none at row 2"),
    ("long.csv", {"who": at(2, "NA")}, [], "--annotator: expected a name in every row, got none at row 2"),
    ("long.csv", {"who": at(4, "zoe")}, [], "leave their answers out, or estimate T with them"),
    ("long.csv", {"answer": at(7, "dog")}, [], "expected one of ant, bee, cat, got 'dog'"),
    ("long.csv", {"x": at(5, "nan")}, [], "column 'x': expected the same value in all rows of an item"),
    ("long.csv", {"x": at(5, "inf")}, [], "column 'x': expected finite numbers, got 1 infinite values"),
    ("long.csv", {}, ["--group", "team"], "--group: expected a column of"),
    ("long.csv", {"item": lambda i, old: "i0", "x": lambda i, old: "1", "y": lambda i, old: "1"}, [],
     "--label: expected one answer of an annotator to an item, got another of"),
    ("wide.csv", {"bob": at(9, "dog")}, [], "column 'bob': expected one of ant, bee, cat, got 'dog' at row 9"),
    ("wide.csv", {"bob": at(9, "dgo")}, ["--classes", "ant,bee,cat"], "column 'bob': expected one of ant, bee, cat"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "more", "says"), MISTAKES, ids=range(len(MISTAKES)))
def test_mistakes_are_sentences(
    desk: Path, tmp_path: Path, run: Run, name: str, changes: Any, more: list[str], says: str
) -> None:
    data = edited(desk / name, tmp_path / name, **changes)
    form = LONG if name == "long.csv" else WIDE
    told = refused(run, "train", data, *form, *more, "--transition", desk / "T.json", "--out", tmp_path / "m")
    assert says in told
    assert not (tmp_path / "m").exists()


def test_wrong_combinations_of_options(desk: Path, tmp_path: Path, run: Run) -> None:
    T = ["--transition", desk / "T.json", "--out", tmp_path / "m"]
    wide, long, items = desk / "wide.csv", desk / "bare.csv", desk / "items.csv"
    cases = [
        (
            ["train", long, "--label", "answer", "--item", "item", *T],
            "--item: expected --item and --annotator together",
        ),
        (
            ["train", wide, "--label", "ann,bob", "--item", "x", "--annotator", "y", *T],
            "expected one column of answers",
        ),
        (["train", wide, *WIDE, "--features-from", items, *T], "--features-from: expected it beside --item"),
        (["train", wide, *WIDE, "--source-column", "kind", *T], "--transition: expected NAME=SPEC once per source"),
        (["train", wide, "--label", "ann,bob,ann", *T], "--label: expected different names"),
        (["estimate", "features", wide, "--label", "ann,bob", "--out", tmp_path / "T.json"], "use annotators"),
        (["train", wide, *WIDE, "--stream", *T], "--stream: expected it without answers of several annotators"),
        (["train", wide, *WIDE, "--transition", "estimate:magic", *T[2:]], "expected estimate:KIND with KIND one of"),
        (["train", wide, *WIDE, "--transition", "ann=symmetric:0.1", *T[2:]], "--transition holds (ann), got 'bob'"),
        (
            ["train", wide, *WIDE, "--transition", "partial:0.3", *T[2:]],
            "expected annotators who answer with one label",
        ),
    ]
    for arguments, says in cases:
        assert says in refused(run, *arguments), arguments
    short = write(tmp_path / "few.csv", "item,x,y", [("i0", 1, 2), ("i1", 1, 2)])
    said = refused(run, "train", long, *LONG, "--features-from", short, *T)
    assert "--features-from: expected the features of every item" in said
    twice = write(tmp_path / "twice.csv", "item,x,y", [("i0", 1, 2), ("i0", 1, 2)])
    assert "expected every item once" in refused(run, "train", long, *LONG, "--features-from", twice, *T)
    content = json.loads((desk / "T.json").read_text())
    del content["columns"]
    (tmp_path / "nameless.json").write_text(json.dumps(content))
    said = refused(run, "train", wide, *WIDE, "--transition", tmp_path / "nameless.json", *T[2:])
    assert 'to name its 3 annotators once each under "columns"' in said


def test_one_annotator_or_no_overlap_is_warned_of(desk: Path, tmp_path: Path, run: Run) -> None:
    one = good(run, "estimate", "annotators", desk / "wide.csv", "--label", "bob", "--out", tmp_path / "T.json")
    assert "do not determine their T (there are only 1 of them)" in " ".join(one.stderr.split())

    def only(turn: int) -> Callable[[int, str], str]:
        return lambda i, old: old if i % 3 == turn else ""

    data = edited(desk / "wide.csv", tmp_path / "apart.csv", ann=only(0), bob=only(1), eve=only(2))
    apart = good(run, "estimate", "annotators", data, "--label", "ann,bob,eve", "--out", tmp_path / "U.json")
    assert "no item has answers from three of them" in " ".join(apart.stderr.split())
