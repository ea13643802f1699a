"""`tproper estimate`: T from a table to a file, and on to `train`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

import tproper as tp
from tproper.transitions import transition_from_dict

Run = Callable[..., Any]
CLASSES = ["ant", "bee", "cat"]


def blobs(rows: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=rows)
    return rng.normal(size=(rows, 2)) * 0.7 + np.array([[0, 2.5], [2.5, 0], [-2.5, -1.5]])[z], z


def table(path: Path, header: str, rows: Sequence[Sequence[object]]) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


ALONE = ["--holdout", "0", "--calibrate", "none"]  # where neither scores nor calibration are tested


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    X, z = blobs(400)
    weak = tp.pair_noise(3, 0.3).sample(z, 1)
    rows = [
        (f"{x[0]:.4f}", f"{x[1]:.4f}", CLASSES[w], CLASSES[c] if i < 150 else "")
        for i, (x, w, c) in enumerate(zip(X, weak, z, strict=True))
    ]
    return table(tmp_path / "noisy.csv", "u,v,weak,true", rows)


def read(path: Path) -> Any:
    content = json.loads(path.read_text())
    return content, transition_from_dict(content)


@pytest.mark.parametrize("source", ["clean", "features"])
def test_noisy_labels_to_a_trained_model(noisy: Path, tmp_path: Path, run: Run, source: str) -> None:
    out = tmp_path / "T.json"
    result = run("estimate", source, noisy, "--label", "weak", "--true-label", "true", "--out", out)
    assert result.exit_code == 0, result.output
    assert "150 of them in rows of known class" in result.stdout
    assert re.search(rf"\n +{' +'.join(CLASSES)}\n +{CLASSES[0]}  0\.", result.stdout), "names head rows and columns"
    content, T = read(out)
    assert isinstance(T, tp.EstimatedTransition)
    assert content["classes"] == CLASSES
    low, high = T.interval(0.999)
    truth = tp.pair_noise(3, 0.3).matrix()
    assert ((low - 0.02 <= truth) & (truth <= high + 0.02)).all()
    common = ["--label", "weak", "--ignore", "true", "--transition", out, *ALONE, "--out", tmp_path / "m"]
    trained = run("train", noisy, *common)
    assert trained.exit_code == 0, trained.output
    model = tp.load(tmp_path / "m")
    assert isinstance(model.transition_, tp.EstimatedTransition)
    assert model.classes_.tolist() == CLASSES
    np.testing.assert_array_equal(model.transition_.stderr, T.stderr)
    evaluated = run("evaluate", tmp_path / "m", noisy, "--label", "weak", "--true-label", "true")
    assert evaluated.exit_code == 0, evaluated.output


def test_classes_in_another_order_than_those_of_T_meet_its_columns_by_name(
    noisy: Path, tmp_path: Path, run: Run
) -> None:
    """In `train`, and in `evaluate` for a model whose classes were given in another order; other names are refused."""
    out, turned = tmp_path / "T.json", ",".join(CLASSES[::-1])
    asked = ["--label", "weak", "--true-label", "true"]
    assert run("estimate", "clean", noisy, *asked, "--out", out).exit_code == 0
    common = ["train", noisy, "--label", "weak", "--ignore", "true", "--classes", turned, *ALONE]
    common += ["--out", tmp_path / "m"]
    assert run(*common, "--transition", "symmetric:0.3").exit_code == 0
    assert tp.load(tmp_path / "m").classes_.tolist() == CLASSES  # sorted, in whatever order they are given
    evaluate = ["evaluate", tmp_path / "m", noisy, "--label", "weak", "--json", "--transition", out]
    evaluated = run(*evaluate)
    assert evaluated.exit_code == 0, evaluated.output
    assert run(*common, "--force", "--transition", out).exit_code == 0
    np.testing.assert_array_equal(tp.load(tmp_path / "m").transition_.matrix(), read(out)[1].matrix())
    other = ["ant,bee,cow" if word == turned else word for word in common]
    refused = run(*other, "--force", "--transition", out)
    assert refused.exit_code == 2
    assert "--transition: expected T of the classes ant, bee, cow, got" in refused.stderr


def test_labels_with_names_of_their_own(tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    rows = [(rng.choice(["low", "high", "unsure"]), CLASSES[rng.integers(2)]) for _ in range(60)]
    data, out = table(tmp_path / "t.csv", "weak,true", rows), tmp_path / "T.json"
    asked = ["estimate", "clean", data, "--label", "weak", "--true-label", "true", "--out", out]
    refused = run(*asked)
    assert refused.exit_code == 2
    assert "--classes: expected the classes in order, got none" in refused.stderr
    assert run(*asked, "--classes", "ant,bee").exit_code == 0
    _, T = read(out)
    assert T.weak_labels == ["ant", "bee", "high", "low", "unsure"]
    assert T.label_kind == "names"


def test_positive_unlabeled(tmp_path: Path, run: Run) -> None:
    X, z = blobs(900)
    positive = z == 0
    labeled = positive & (np.random.default_rng(1).random(900) < 0.5)
    rows = [(*x.round(4), "spam" if y else "") for x, y in zip(X, labeled, strict=True)]
    data, out = table(tmp_path / "t.csv", "u,v,y", rows), tmp_path / "T.json"
    result = run("estimate", "pu", data, "--label", "y", "--classes", "spam,ham", "--out", out)
    assert result.exit_code == 0, result.output
    content, T = read(out)
    assert T.label_kind == "positive/unlabeled"
    assert T.matrix()[0, 0] == pytest.approx(0.5, abs=0.1)
    low, high = content["prior"]["interval"]
    assert low <= positive.mean() <= high
    trained = run("train", data, "--label", "y", "--transition", out, *ALONE, "--out", tmp_path / "m")
    assert trained.exit_code == 0, trained.output
    model = tp.load(tmp_path / "m")
    assert model.classes_.tolist() == ["ham", "spam"]
    assert roc_auc_score(positive, model.predict_proba(X)[:, 1]) > 0.95


def test_candidate_sets(tmp_path: Path, run: Run) -> None:
    _, z = blobs(500)
    masks = tp.partial_labels(3, 0.3).sample(z, 4)
    rows = [(i % 5, "|".join(np.array(CLASSES)[m])) for i, m in enumerate(masks)]
    data, out = table(tmp_path / "t.csv", "u,y", rows), tmp_path / "T.json"
    assert run("estimate", "partial", data, "--label", "y", "--out", out).exit_code == 0
    _, T = read(out)
    assert T.label_kind == "masks"
    assert T.p == pytest.approx(0.3, abs=0.05)
    trained = run("train", data, "--label", "y", "--transition", out, *ALONE, "--out", tmp_path / "m")
    assert trained.exit_code == 0, trained.output
    refused = run("estimate", "partial", data, "--label", "y", "--classes", "ant,bee", "--out", out, "--force")
    assert refused.exit_code == 2
    assert "expected classes among ant, bee, got cat" in refused.stderr


@pytest.mark.parametrize("long", [False, True])
def test_annotators_side_by_side_and_one_answer_a_row(tmp_path: Path, run: Run, long: bool) -> None:
    _, z = blobs(300)
    T = tp.annotators([tp.symmetric_noise(3, p) for p in (0.1, 0.2, 0.4)])
    answers = np.array([*CLASSES, ""])[np.where(np.random.default_rng(2).random((300, 3)) < 0.1, 3, T.sample(z, 3))]
    out = tmp_path / "T.json"
    if long:
        rows = [(f"i{i:03d}", "abc"[a], y) for i, row in enumerate(answers) for a, y in enumerate(row) if y]
        data = table(tmp_path / "t.csv", "item,who,answer", rows)
        asked = ["--label", "answer", "--item", "item", "--annotator", "who"]
    else:
        data = table(tmp_path / "t.csv", "a,b,c", [tuple(row) for row in answers])
        asked = ["--label", "a,b,c"]
    result = run("estimate", "annotators", data, *asked, "--out", out, "--json")
    assert result.exit_code == 0, result.output
    content, found = read(out)
    assert (content["classes"], content["columns"]) == (CLASSES, ["a", "b", "c"])
    assert found.label_kind == "answers"
    rates = [1 - t.matrix().diagonal().mean() for t in found.transitions]
    np.testing.assert_allclose(rates, [0.1, 0.2, 0.4], atol=0.08)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["clean", "--label", "weak"], "--true-label: expected the column with the true classes"),
        (["clean", "--label", "nothing", "--true-label", "true"], "--label: expected a column of"),
        (
            ["clean", "--label", "weak", "--true-label", "true", "--classes", "ant,bee"],
            "column 'true': expected one of",
        ),
        (["clean", "--label", "weak", "--true-label", "true", "--structure", "odd"], "structure: expected one of auto"),
        (["pu", "--label", "weak"], "--classes: expected POSITIVE,NEGATIVE for positive-unlabeled data, got none"),
        (["annotators", "--label", "weak", "--item", "u"], "--item: expected --item and --annotator together"),
        (["clean", "--label", "weak", "--true-label", "true", "--out", "T.csv"], "--out: expected a name that ends in"),
        (["clean", "--label", "weak", "--true-label", "true", "--seed", "-1"], "--seed: expected a number >= 0"),
    ],
)
def test_mistakes_are_sentences(noisy: Path, tmp_path: Path, run: Run, arguments: list[str], says: str) -> None:
    source, *options = arguments
    place = [] if "--out" in options else ["--out", tmp_path / "T.json"]
    result = run("estimate", source, noisy, *options, *place)
    assert result.exit_code == 2, result.output
    assert says in result.stderr.replace("\n", " ")
    assert not (tmp_path / "T.json").exists()


def test_a_file_that_is_there_is_replaced_only_by_this_run(noisy: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "T.json"
    for _ in range(2):
        asked = ["estimate", "clean", noisy, "--label", "weak", "--true-label", "true", "--out", out, "--force"]
        assert run(*asked).exit_code == 0


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    """Three annotators' answers as pandas writes integers: with a decimal point where a column has gaps."""
    X, z = blobs(120)
    rng = np.random.default_rng(3)
    rows = [
        (f"img {i}", "north, left", f"{x[0]:.4f}", i, c, f"{c}.0" if rng.random() < 0.8 else "", f"{c}.0", c)
        for i, (x, c) in enumerate(zip(X, z, strict=True))
    ]
    rows = [(a, f'"{b}"', *rest) for a, b, *rest in rows]
    return table(tmp_path / "answers.csv", 'photo,"the site, or so",u,age,ann,ben,cleo,true', rows)


def test_columns_that_are_left_out_are_named_with_the_option_that_uses_them(
    answered: Path, tmp_path: Path, run: Run
) -> None:
    asked = ["estimate", "annotators", answered, "--label", "ben,cleo", "--force", "--out", tmp_path / "T.json"]
    alone = run(*asked)
    assert alone.exit_code == 0, alone.output
    assert (
        "note: T comes from the answers alone; left out: photo, the site, or so, u, age, ann, true. To use features "
        "too, give --ignore 'photo,\"the site, or so\"' (all columns but these), or name some with --features u,age"
    ) in alone.stderr
    for used in (["--ignore", 'photo,"the site, or so"'], ["--features", "u,age"]):
        with_features = run(*asked, *used)
        assert with_features.exit_code == 0, with_features.output
        assert "note: T comes from" not in with_features.stderr
    everything = run(*asked, "--features", "all", "--ignore", 'photo,"the site, or so",ann,true')
    assert everything.exit_code == 0, everything.output


def test_nothing_is_said_where_nothing_is_left_out(tmp_path: Path, run: Run) -> None:
    rows = [(f"i{i}", *"ab"[i % 2] * 3) for i in range(40)]
    data = table(tmp_path / "t.csv", "item,ann,ben,cleo", rows)
    result = run("estimate", "annotators", data, "--label", "ann,ben,cleo", "--out", tmp_path / "T.json")
    assert result.exit_code == 0, result.output
    assert "left out" not in result.stderr


TWINS = (
    "--label: expected every class written in one way, got both '0' and '0.0' (and 2 more like it); pandas reads whole "
    "numbers beside empty cells as floats and writes 3 as 3.0: write all of them alike"
)


def test_3_and_3_0_are_one_class_or_said_to_be_two(answered: Path, tmp_path: Path, run: Run) -> None:
    out = tmp_path / "T.json"
    asked = ["estimate", "annotators", answered, "--force", "--out", out]
    for columns in (["--label", "ann,ben,cleo"], ["--label", "ben,cleo", "--true-label", "true"]):
        refused = run(*asked, *columns)
        assert refused.exit_code == 2
        assert TWINS in " ".join(refused.stderr.split())
        assert not out.exists()
    listed = run(*asked, "--label", "ann,ben,cleo", "--classes", "0,1,2,0.0,1.0,2.0")
    assert listed.exit_code == 0, listed.output
    weak = ["--label", "ann", "--features", "u", "--transition", "symmetric:0.1", "--true-label", "cleo"]
    trained = run("train", answered, *weak, "--out", tmp_path / "m")
    assert trained.exit_code == 2
    assert TWINS in " ".join(trained.stderr.split())
    assert run(*asked, "--label", "ben,cleo").exit_code == 0
    columns = ["--label", "ben,cleo", "--true-label", "true", "--features", "u"]
    again = run("train", answered, *columns, "--transition", out, "--out", tmp_path / "m")
    assert again.exit_code == 2
    assert "column 'true': expected one of 0.0, 1.0, 2.0, got '2' at row 1; '2.0' is the same number" in again.stderr
