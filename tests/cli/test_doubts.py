"""`train` and `evaluate` say so where labels contradict T; where they cannot, the sensitivity holds the truth.

The four wrong T that once stood in a card with confident intervals and without a word: three annotators taken for
symmetric, one skewed annotator taken for symmetric, and a class prior of positive-unlabeled data that is too high or
too low. With the right T nobody is warned.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyarrow")

from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, make_classification

import tproper as tp
from tproper._core import json_text
from tproper.evaluation import Evenly
from tproper.transitions import transition_to_dict

Run = Callable[..., Any]


def write(path: Path, X: Any, labels: list[Any], heads: list[str], z: list[Any]) -> None:
    columns = ",".join([*(f"x{j}" for j in range(X.shape[1])), *heads, "true"])
    rows = [
        ",".join([*(f"{x:.6g}" for x in row), *map(str, given), str(c)])
        for row, given, c in zip(X, labels, z, strict=True)
    ]
    path.write_text("\n".join([columns, *rows]) + "\n")


def crowd(folder: Path) -> dict[str, list[str]]:
    """Each annotator takes one class for a certain other one, and errs little elsewhere."""
    X, z = make_classification(
        1500, 8, n_informative=6, n_classes=4, n_clusters_per_class=1, class_sep=1.2, random_state=1
    )
    rng, mats = np.random.default_rng(0), []
    for wrong in (0.15, 0.35, 0.5):
        target, T = rng.integers(1, 4, 4), np.zeros((4, 4))
        rates = np.clip(wrong * np.array([1.8, 0.3, 1.2, 0.7]), 0, 0.8)
        for k in range(4):
            T[k, k] = 1 - rates[k]
            T[(k + target[k]) % 4, k] = rates[k]
        mats.append(tp.Transition(T))
    right = tp.annotators(mats)
    y = np.where(rng.random((1500, 3)) < 0.5, -1, right.sample(z, np.random.default_rng(1)))
    write(folder / "crowd.csv", X, [["" if v < 0 else v for v in row] for row in y], ["a", "b", "c"], list(z))
    named = transition_to_dict(right) | {"columns": ["a", "b", "c"], "classes": list("0123")}
    (folder / "A.json").write_text(json.dumps(named))
    symmetric = [f"{n}=symmetric:{1 - t.matrix().diagonal().mean():.4f}" for n, t in zip("abc", mats, strict=True)]
    return {"wrong": symmetric, "right": [str(folder / "A.json")]}


def cancer(folder: Path) -> dict[str, list[str]]:
    X, z = load_breast_cancer(return_X_y=True)
    weak = tp.binary_noise(0.45, 0.05).sample(z, np.random.default_rng(3))
    write(folder / "cancer.csv", X, [["mb"[y]] for y in weak], ["label"], ["mb"[c] for c in z])
    return {"wrong": ["symmetric:0.25"], "right": ["binary:0.45,0.05"]}


def pu(folder: Path) -> dict[str, list[str]]:
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=6000)
    X = rng.normal(size=(6000, 4)) + 1.8 * np.eye(2, 4)[z]
    weak = tp.positive_unlabeled(0.33).sample(z, np.random.default_rng(5))
    labels, truth = [["even" if y == 0 else ""] for y in weak], ["odd" if c else "even" for c in z]
    write(folder / "pu.csv", X, labels, ["label"], truth)
    prior, labeled = float((z == 0).mean()), int((weak == 0).sum())

    def spec(error: float) -> list[str]:
        T = tp.positive_unlabeled(prior=prior + error, labeled=labeled, n=len(z))
        return [f"pu:{T.matrix()[0, 0]:.4f}"]

    return {"high": spec(0.1), "low": spec(-0.1), "right": spec(0.0)}


TABLES = {"crowd": (crowd, "a,b,c", []), "cancer": (cancer, "label", ["m,b"]), "pu": (pu, "label", ["even,odd"])}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doubts")


@pytest.fixture(scope="module")
def specs(folder: Path) -> dict[str, dict[str, list[str]]]:
    return {name: make(folder) for name, (make, _, _) in TABLES.items()}


def train(folder: Path, specs: Any, run: Run, table: str, T: str) -> tuple[Any, str, dict[str, Any], Path]:
    """The result for people, the card, what --json would print, and the model's folder."""
    _, label, classes = TABLES[table]
    out = folder / f"{table}-{T}"
    arguments = ["train", folder / f"{table}.csv", "--label", label, "--ignore", "true", "--calibrate", "none"]
    arguments += [part for spec in specs[table][T] for part in ("--transition", spec)]
    arguments += ["--classes", *classes] if classes else []
    facts: list[dict[str, Any]] = []

    def save(trained: Any, *given: Any, **more: Any) -> Any:
        facts.append(json.loads(json_text(trained.to_dict())))
        return write(trained, *given, **more)

    write = tp.TableModel.save
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tp.TableModel, "save", save)
        plain = run(*arguments, "--out", out)
    assert plain.exit_code == 0, plain.output
    return plain, (out / "model_card.md").read_text(), facts[0], out


def true_accuracy(folder: Path, model: Path, table: str, run: Run) -> float:
    """Of the model on its own rows: beside the cross-fitted score a point or two."""
    label = TABLES[table][1]
    arguments = ["evaluate", model, folder / f"{table}.csv", "--label", label, "--true-label", "true", "--json"]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return float(json.loads(result.stdout)["clean"]["accuracy"]["value"])


@pytest.mark.parametrize(("table", "T"), [("crowd", "wrong"), ("cancer", "wrong"), ("pu", "high")])
def test_a_wrong_t_is_warned_of(folder: Path, specs: Any, run: Run, table: str, T: str) -> None:
    plain, card, facts, out = train(folder, specs, run, table, T)
    warning = " ".join(plain.stderr.split())
    assert "warning: T IS DOUBTFUL: labels contradict the transition" in warning
    assert ("(classes: 0 = " in warning) == (table != "cancer")  # whose sentence has no numbers for them
    heading = {"crowd": "bounds, T off by up to 10 points", "cancer": "bounds, if T is too noisy"}.get(
        table, "bounds, "
    )
    block = plain.stdout[plain.stdout.index(heading) :]  # in the place of intervals that rest on T alone
    assert "without T" not in plain.stdout + card
    assert "do not rest on it" not in plain.output + card
    assert "The intervals cover" not in card
    assert "The bounds are no 95% intervals" in card
    assert "calculated without it" not in card
    assert "Do not read this picture as a measurement" in card
    good = next(line for line in card.splitlines() if line.startswith("**How good it is.**"))
    assert "but that holds only if" in good.split(". ")[0], "in the sentence that gives the range"
    assert "from weak labels alone" not in plain.stdout
    assert "WARNING: T IS DOUBTFUL" in block
    assert "These bounds assume that " in block
    assert card.count("T IS DOUBTFUL") == 2
    assert facts["trust"]["check"]["plausible"] is False
    label = TABLES[table][1]
    scored = run("evaluate", out, folder / f"{table}.csv", "--label", label)
    assert scored.exit_code == 0, scored.output
    assert "T IS DOUBTFUL" in scored.stderr
    assert "WARNING: T IS DOUBTFUL" in scored.stdout


def test_a_prior_that_is_too_low_leaves_no_trace_but_the_sensitivity_holds_the_truth(
    folder: Path, specs: Any, run: Run
) -> None:
    plain, card, facts, out = train(folder, specs, run, "pu", "low")
    assert "T IS DOUBTFUL" not in plain.output + card
    low, high = facts["scores"]["accuracy"]["interval"]
    truth = true_accuracy(folder, out, "pu", run)
    assert not low <= truth <= high, "as confident, and wrong, as ever"
    moved = facts["trust"]["sensitivity"]["accuracy"]
    low, high = moved["ranges"][-1]["interval"]
    assert low <= truth <= high
    assert moved["rate"] == "r = P(labeled | positive)"
    for text in (plain.stdout, card):
        # which of the two depends on how much the surest rows say; each says how low accuracy could be
        if "Nothing in these labels confirms T" in text:
            assert "r = P(labeled | positive) matters most: check that first." in text
        else:
            assert "That does not prove it right: if T's rates are off by 5 points, accuracy could be as low as" in text


@pytest.mark.parametrize("table", ["crowd", "cancer", "pu"])
def test_the_right_t_is_left_in_peace(folder: Path, specs: Any, run: Run, table: str) -> None:
    plain, card, facts, out = train(folder, specs, run, table, "right")
    for text in (plain.output, card):
        assert "T IS DOUBTFUL" not in text
        assert "Nothing in these labels confirms T" not in text
        assert " by 5 points, accuracy " in text
    low, high = facts["scores"]["accuracy"]["interval"]
    assert low - 0.02 <= true_accuracy(folder, out, table, run) <= high + 0.02
    for score in facts["scores"].values():
        low, high = score["interval"]
        assert low <= score["value"] <= (np.inf if high == "inf" else high)


def test_noise_that_varies_with_a_column_is_told_of_by_its_name(tmp_path: Path, run: Run) -> None:
    """Of training as of evaluation: T, an average, is right, and only the column tells."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    z = (X[:, 0] + 0.3 * rng.normal(size=3000) > 0).astype(int)
    y = np.where(rng.random(3000) < np.where(X[:, 2] > 0, 0.02, 0.48), 1 - z, z)
    write(tmp_path / "t.csv", X, [[v] for v in y], ["label"], list(z))
    asked = ["--label", "label", "--transition", "symmetric:0.25", "--ignore", "true", "--out", tmp_path / "m"]
    trained = run("train", tmp_path / "t.csv", *asked)
    scored = run("evaluate", tmp_path / "m", tmp_path / "t.csv", "--label", "label")
    for result in (trained, scored):
        assert result.exit_code == 0, result.output
        said = " ".join((result.output + result.stderr).split())
        assert "T IS DOUBTFUL" in said
        assert "the noise varies with this feature, or T is too noisy" in said
        assert "features: 2 = x2" in said


def test_rows_that_t_is_checked_with_come_from_the_whole_table() -> None:
    """A table that is sorted by class has one class in its first rows."""
    some, rng, row = Evenly(20), np.random.default_rng(0), 0
    while row < 1000:
        index = np.arange(row, min(row + int(rng.integers(0, 150)), 1000))
        some.add(index, np.stack([index, index], axis=1).astype(float), csr_array(index[:, None] + 1.0))
        row += len(index)
    kept, p, features = some.kept()
    assert 20 <= len(kept) <= 40
    np.testing.assert_array_equal(kept, np.arange(0, 1000, some.stride))
    np.testing.assert_array_equal(p[:, 0], kept)
    np.testing.assert_array_equal(features.toarray()[:, 0], kept + 1)
