"""`train` with known classes, groups, cross-fitted scores and calibration; `estimate` draws T."""

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
from tproper.tables import cross_fit

Run = Callable[..., Any]
CLASSES = np.array(["ant", "bee", "cat"])


def write(path: Path, header: str, rows: list[Any]) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


def rows(n: int = 360, known: int = 90) -> list[list[Any]]:
    """x, y, a noisy label (missing in every ninth row), the class of the first rows, a group of three."""
    rng = np.random.default_rng(3)
    z = rng.integers(3, size=n)
    X = (rng.normal(size=(n, 2)) + np.array([[0, 2.2], [2.2, 0], [-2.2, -1.5]])[z]).round(3)
    weak = tp.pair_noise(3, 0.3).sample(z, 1)
    return [
        [*X[i], "" if i % 9 == 0 else CLASSES[weak[i]], CLASSES[z[i]] if i < known else "", f"g{i // 3}"]
        for i in range(n)
    ]


HEADER = "x,y,weak,kind,team"
COMMON = ["--label", "weak", "--true-label", "kind", "--group", "team", "--calibrate", "none"]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("known")
    write(folder / "t.csv", HEADER, rows())
    return folder


def test_known_classes_estimate_t_and_train_the_model(desk: Path, tmp_path: Path, run: Run) -> None:
    arguments = ["train", desk / "t.csv", *COMMON, "--transition", "estimate"]
    facts = json.loads(good(run, *arguments, "--json", "--out", tmp_path / "m").stdout)
    assert (facts["known_classes"], facts["groups"], facts["held_out"]) == (90, 120, 0)
    assert facts["rows"] == 360 - 30  # every ninth of the rows of unknown class says nothing
    assert "rows of known class" in facts["estimate"]
    assert facts["clean_scores"]["accuracy"]["n"] == 90
    model = tp.load(tmp_path / "m")
    assert isinstance(model.transition_, tp.EstimatedTransition)
    np.testing.assert_allclose(model.transition_.matrix(), tp.pair_noise(3, 0.3).matrix(), atol=0.15)
    card = (tmp_path / "m" / "model_card.md").read_text()
    for text in ("90 of known class; 120 groups, never split", "T was estimated from this table", "from clean labels"):
        assert text in card
    text = good(run, *arguments, "--force", "--out", tmp_path / "m").stdout
    assert (
        "Scores on all 330 rows, each by a model that was not trained on it (5 folds, 120 groups kept whole):" in text
    )
    good(run, "evaluate", tmp_path / "m", desk / "t.csv", "--label", "weak", "--true-label", "kind")


def test_known_classes_with_a_t_that_is_given(desk: Path, tmp_path: Path, run: Run) -> None:
    """They are rows of the fit: T of no use leaves a model of the known classes alone."""
    useless = write(tmp_path / "T.csv", "0.34,0.33,0.33", [(0.33, 0.34, 0.33), (0.33, 0.33, 0.34)])
    given = ["--transition", useless, "--classes", "ant,bee,cat", "--holdout", "0"]
    good(run, "train", desk / "t.csv", *COMMON, *given, "--out", tmp_path / "m")
    model = tp.load(tmp_path / "m")
    table = model.extra_["table"]
    data = rows()
    X = (np.array([row[:2] for row in data], float) - table["centre"]) / table["scale"]
    predicted, truth = model.predict(X), np.array([row[3] for row in data])
    known = truth != ""
    assert (predicted[known] == truth[known]).mean() > 0.85


def test_no_group_is_on_both_sides_of_any_fit(
    desk: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def watched(estimator: Any, X: Any, data: Any, part: Any) -> Any:
        seen.append((set(data.group[part]), len(part)))
        return original(estimator, X, data, part)

    original = cross_fit.fit_part
    monkeypatch.setattr(cross_fit, "fit_part", watched)
    good(
        run,
        "train",
        desk / "t.csv",
        *COMMON,
        "--transition",
        "pair:0.3",
        "--classes",
        "ant,bee,cat",
        "--out",
        tmp_path / "m",
    )
    assert len(seen) == 5
    every = set.union(*(groups for groups, _ in seen))
    left_out = [every - groups for groups, _ in seen]
    assert sum(map(len, left_out)) == len(every)  # every group is left out once
    assert set.union(*left_out) == every


def test_where_a_fit_takes_long_the_card_says_what_was_scored(
    desk: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cross_fit, "SECONDS", 0.0)
    common = ["train", desk / "t.csv", *COMMON, "--transition", "pair:0.3", "--classes", "ant,bee,cat"]
    text = good(run, *common, "--out", tmp_path / "m").stdout
    assert "not cross-fitted on all rows, because one fit takes" in text
    assert "(--folds 5 does it anyway)" in text
    assert "not cross-fitted on all rows" in (tmp_path / "m" / "model_card.md").read_text()
    insisted = good(run, *common, "--folds", "3", "--force", "--out", tmp_path / "m").stdout
    assert "(3 folds, 120 groups kept whole)" in insisted


@pytest.mark.parametrize("method", ["none", "identity", "temperature", "vector", "auto"])
def test_calibration_is_chosen_and_shown(desk: Path, tmp_path: Path, run: Run, method: str) -> None:
    common = ["train", desk / "t.csv", *COMMON[:-1], method, "--transition", "pair:0.3", "--classes", "ant,bee,cat"]
    good(run, *common, "--holdout", "0.2", "--out", tmp_path / "m")
    card = (tmp_path / "m" / "model_card.md").read_text()
    found = tp.load(tmp_path / "m").calibrator_
    if method == "none":
        assert found is None
        assert "calibration: none" in card
        return
    assert method in ("auto", found.method)
    assert "## Calibration, by weak labels" in card
    assert "before and after" in card or ("calibration error before" in card and "calibration error after" in card)


def test_estimate_draws_t(desk: Path, tmp_path: Path, run: Run) -> None:
    pytest.importorskip("matplotlib")
    asked = [
        "estimate",
        "clean",
        desk / "t.csv",
        "--label",
        "weak",
        "--true-label",
        "kind",
        "--out",
        tmp_path / "T.json",
        "--force",
    ]
    assert f"picture of T: {tmp_path / 'T.png'}" in good(run, *asked).stdout.replace("\n", "")
    assert (tmp_path / "T.png").read_bytes()[:4] == b"\x89PNG"
    good(run, *asked, "--plot", tmp_path / "heat.svg")
    assert "<svg" in (tmp_path / "heat.svg").read_text()
    assert "--plot: expected a name that ends in .png" in refused(run, *asked, "--plot", tmp_path / "T.doc")


def test_the_picture_shows_t_and_its_intervals() -> None:
    pytest.importorskip("matplotlib")
    from tproper.plots import compute_transition_map, draw_transition_map, figure

    T = tp.Transition.from_counts([[40, 3], [10, 47]])
    data = compute_transition_map(T, ["yes", "no"])
    np.testing.assert_array_equal(data.matrix, T.matrix())
    assert (data.low < data.matrix).all()
    assert (data.matrix < data.high).all()
    ax = figure().add_subplot()
    draw_transition_map(ax, data)
    assert len(ax.texts) == 4
    assert ax.texts[0].get_text().startswith(f"{T.matrix()[0, 0]:.2f}\n")
    with pytest.raises(ValueError, match="classes: expected the names of 2 classes, got 3"):
        compute_transition_map(T, ["a", "b", "c"])


def changed(folder: Path, column: int, cells: dict[int, str]) -> Path:
    data = rows()
    for i, text in cells.items():
        data[i][column] = text
    return write(folder / "bad.csv", HEADER, data)


BAD = [
    (3, {4: "dog"}, [], "column 'kind': expected one of ant, bee, cat, got 'dog' at row 5"),
    (4, {7: ""}, [], "--group: expected a name in every row, got none at row 8"),
    (4, dict.fromkeys(range(360), "one"), [], "--group: expected at least two groups, got one; leave it out"),
    (0, {2: "inf"}, [], "column 'x': expected finite numbers, got 1 infinite values, first at row 3"),
    (0, {}, ["--group", "nobody"], "--group: expected a column of"),
    (0, {}, ["--true-label", "nobody"], "--true-label: expected a column of"),
    (0, {}, ["--true-label", "weak"], "--true-label: expected another column than --label, got 'weak' for both"),
    (0, {}, ["--group", "weak"], "--group: expected another column than --label, got 'weak' for both"),
    (0, {}, ["--folds", "1"], "--folds: expected a number >= 2"),
    (0, {}, ["--folds", "3", "--holdout", "0.2"], "--folds: expected it or --holdout, got both"),
    (0, {}, ["--calibrate", "magic"], "--calibrate: expected one of auto, none, identity"),
]


@pytest.mark.parametrize(("column", "cells", "more", "says"), BAD, ids=range(len(BAD)))
def test_mistakes_are_sentences(tmp_path: Path, run: Run, column: int, cells: Any, more: list[str], says: str) -> None:
    data = changed(tmp_path, column, cells)
    given = ["--transition", "pair:0.3", "--classes", "ant,bee,cat", "--out", tmp_path / "m"]
    assert says in refused(run, "train", data, *COMMON, *given, *more)
    assert not (tmp_path / "m").exists()


def test_a_class_without_clean_rows_is_said(tmp_path: Path, run: Run) -> None:
    data = rows()
    for row in data:
        row[3] = "" if row[3] == "cat" else row[3]
    bad = write(tmp_path / "bad.csv", HEADER, data)
    common = ["--label", "weak", "--true-label", "kind", "--classes", "ant,bee,cat"]
    out = good(run, "estimate", "clean", bad, *common, "--force", "--out", tmp_path / "T.json")
    assert "warning: no row of class cat is known" in out.stderr
    T = tp.parse_transition(str(tmp_path / "T.json"))
    assert isinstance(T, tp.EstimatedTransition)
    assert (T.stderr[:, 2] > 3 * T.stderr[:, :2].max(axis=1)).all(), "the column of cat is a guess, and says so"
    good(run, "train", bad, *COMMON, "--transition", "estimate", "--out", tmp_path / "m")


def test_contradictory_gold_is_refused(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    data = [
        (f"i{i // 3}", f"p{i % 3}", CLASSES[rng.integers(3)], CLASSES[i // 3 % 3], 1.0 * (i // 3)) for i in range(60)
    ]
    data[4] = (*data[4][:3], "ant" if data[4][3] != "ant" else "bee", data[4][4])
    bad = write(tmp_path / "bad.csv", "item,who,answer,gold,x", data)
    common = ["--label", "answer", "--item", "item", "--annotator", "who", "--true-label", "gold"]
    for command in (["estimate", "annotators"], ["train"]):
        more = ["--transition", "symmetric:0.3"] if command == ["train"] else []
        said = refused(run, *command, bad, *common, *more, "--out", tmp_path / ("m" if more else "T.json"))
        assert "--true-label: expected one class for each item, got" in said
        assert "for 'i1' at row" in said


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One table with many kinds of labels, a third of its classes known."""
    rng, n = np.random.default_rng(0), 180
    z = rng.integers(3, size=n)
    X = (rng.normal(size=(n, 2)) + np.array([[0, 2.5], [2.5, 0], [-2.5, -1.5]])[z]).round(3)
    cells = {
        "sets": ["|".join(CLASSES[m]) for m in tp.partial_labels(3, 0.3).sample(z, 1)],
        "fixed": ["|".join(CLASSES[m]) for m in tp.multi_complementary(3, 1).sample(z, 1)],
        "noisy": ["" if i % 10 == 0 else CLASSES[y] for i, y in enumerate(tp.symmetric_noise(3, 0.3).sample(z, 3))],
        "a": CLASSES[tp.symmetric_noise(3, 0.2).sample(z, 4)],
        "b": CLASSES[tp.symmetric_noise(3, 0.3).sample(z, 5)],
        "pu": ["yes" if y else "" for y in (z == 0) & (rng.random(n) < 0.6)],
        "source": np.array(["s", "t"])[rng.integers(2, size=n)],
        "true": [CLASSES[c] if i < 60 else "" for i, c in enumerate(z)],
        "positive": [("no" if c else "yes") if i < 60 else "" for i, c in enumerate(z)],
    }
    folder = tmp_path_factory.mktemp("kinds")
    write(folder / "t.csv", ",".join(["x", "y", *cells]), [(*X[i], *(c[i] for c in cells.values())) for i in range(n)])
    return folder


KINDS = {
    "partial": ["--label", "sets", "--transition", "partial:0.3", "--true-label", "true"],
    "fixed size": ["--label", "fixed", "--transition", "multi_complementary:1", "--true-label", "true"],
    "gaps": ["--label", "noisy", "--transition", "symmetric:0.3", "--missing", "uninformative", "--true-label", "true"],
    "answers": ["--label", "a,b", "--transition", "symmetric:0.25", "--true-label", "true"],
    "pu": ["--label", "pu", "--transition", "pu:0.6", "--classes", "yes,no", "--true-label", "positive"],
    "sources": ["--label", "noisy", "--source-column", "source", "--transition", "s=symmetric:0.3", "--transition",
                "t=symmetric:0.3", "--true-label", "true"],
}  # fmt: skip


@pytest.mark.parametrize("loss", ["forward", "gls"])
@pytest.mark.parametrize("kind", KINDS)
def test_known_classes_beside_every_kind_of_label(kinds: Path, tmp_path: Path, run: Run, kind: str, loss: str) -> None:
    common = ["--features", "x,y", "--loss", loss, "--holdout", "0", "--calibrate", "none", "--out", tmp_path / "m"]
    good(run, "train", kinds / "t.csv", *KINDS[kind], *common)
    label = KINDS[kind][1]
    scored = good(run, "evaluate", tmp_path / "m", kinds / "t.csv", "--label", label, *KINDS[kind][-2:], "--json")
    assert json.loads(scored.stdout)["clean"]["accuracy"]["value"] > 0.8


@pytest.mark.parametrize(
    ("label", "more", "name"),
    [
        ("a,b", ["--true-label", "true"], "annotators(2)"),
        ("sets", [], "estimated"),
        ("pu", ["--classes", "yes,no"], "positive_unlabeled"),
        ("noisy", ["--true-label", "true"], "estimated transition"),
    ],
)
def test_the_kind_of_estimate_follows_the_labels(
    kinds: Path, tmp_path: Path, run: Run, label: str, more: list[str], name: str
) -> None:
    common = ["--features", "x,y", "--transition", "estimate", "--holdout", "0", "--calibrate", "none", "--json"]
    facts = json.loads(
        good(run, "train", kinds / "t.csv", "--label", label, *more, *common, "--out", tmp_path / "m").stdout
    )
    assert name in facts["transition"]
    assert facts["estimate"]
