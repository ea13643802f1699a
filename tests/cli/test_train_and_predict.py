"""From a table to a model, its probabilities and its scores: the ways that are meant to work."""

from __future__ import annotations

import csv
import inspect
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

from tproper.data import progress as _progress  # noqa: E402
from tproper.data import tables as tabular  # noqa: E402
from tproper.evaluation import streamed as _scores  # noqa: E402
from tproper.learn.saving import load  # noqa: E402
from tproper.tables import streaming as _streaming  # noqa: E402

Run = Callable[..., Any]


FEW = ["--folds", "2", "--calibrate", "none"]  # where neither scores nor calibration are tested


def ok(result: Any) -> Any:
    assert result.exit_code == 0, result.output
    return result


def facts(result: Any) -> dict[str, Any]:
    return json.loads(ok(result).stdout)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def accuracy(run: Run, model: Path, data: Path, truth: Path, out: Path) -> float:
    ok(run("predict", model, data, "--out", out, "--force"))
    pairs = zip(rows_of(out), rows_of(truth), strict=True)
    return float(np.mean([p["predicted"] == t["kind"] for p, t in pairs]))


@pytest.mark.parametrize(
    ("data", "options"),
    [
        ("weak.csv", ["--transition", "complementary"]),
        ("weak.csv", ["--transition", "complementary:3", "--loss", "gls", "--squeeze", "0.1,2"]),
        ("weak.csv", ["--transition", "complementary", "--loss", "ga", "--epochs", "25"]),
        ("weak.csv", ["--transition", "complementary", "--loss", "backward", "--squeeze", "1,1.5", "--l2", "0.01"]),
        ("weak.csv", ["--transition", "complementary", "--model", "mlp", "--epochs", "20"]),
        ("sets.csv", ["--transition", "partial:0.3"]),
        ("sets.csv", ["--transition", "partial:0.3", "--loss", "gls"]),
        ("clean.csv", ["--transition", "identity"]),
    ],
)
def test_every_loss_and_model_learns(data: str, options: list[str], workshop: Path, tmp_path: Path, run: Run) -> None:
    label = "kind" if data == "clean.csv" else "weak_label"
    out = facts(run("train", workshop / data, "--label", label, "--out", tmp_path / "m", *options, *FEW, "--json"))
    assert out["rows"] + out["held_out"] == 240
    assert out["features"] == ["x", "y"]
    assert out["certificate"]["lower_bounded"] is True
    assert accuracy(run, tmp_path / "m", workshop / data, workshop / "clean.csv", tmp_path / "p.csv") > 0.8


def test_summary_and_card_tell_the_same_story(workshop: Path, tmp_path: Path, run: Run) -> None:
    options = ["--label", "weak_label", "--transition", "complementary", "--out", tmp_path / "m", "--loss", "backward"]
    said = ok(run("train", workshop / "weak.csv", *options)).stdout
    card = (tmp_path / "m" / "model_card.md").read_text()
    for text in ("BackwardLoss", "NO lower bound", "complementary(3)", "accuracy", "calibration error"):
        assert text in said
        assert text in card
    assert "trained on 240 rows" in said
    assert "240 to train, 0 held out" in card
    assert (tmp_path / "m" / "reliability.png").read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.glob(".*"))


def test_predictions_keep_order_ids_and_the_models_own_probabilities(workshop: Path, tmp_path: Path, run: Run) -> None:
    rows = [{"id": f"r{i}", **row} for i, row in enumerate(rows_of(workshop / "weak.csv"))]
    data = write(tmp_path / "d.csv", rows)
    ok(run("predict", workshop / "model", data, "--keep", "id,x", "--out", tmp_path / "p.csv"))
    ok(run("predict", workshop / "model", data, "--keep", "id,x", "--out", tmp_path / "p.parquet"))
    out = rows_of(tmp_path / "p.csv")
    assert list(out[0]) == ["id", "x", "predicted", "p_ant", "p_bee", "p_cat"]
    assert [(r["id"], r["x"]) for r in out] == [(r["id"], r["x"]) for r in rows]
    model = load(workshop / "model")
    table = model.extra_["table"]
    X = np.array([[float(r[n]) for n in table["features"]] for r in rows])
    p = model.predict_proba((X - table["centre"]) / table["scale"])
    got = np.array([[float(r[f"p_{c}"]) for c in table["classes"]] for r in out])
    np.testing.assert_array_equal(got, p)
    assert [r["predicted"] for r in out] == [table["classes"][z] for z in p.argmax(axis=1)]
    parquet = pq.read_table(tmp_path / "p.parquet").to_pydict()
    np.testing.assert_array_equal(parquet["p_bee"], p[:, 1])
    assert parquet["x"] == X[:, 0].tolist()
    piped = ok(run("predict", workshop / "model", data, "--keep", "id,x")).stdout
    assert piped == (tmp_path / "p.csv").read_text()


def test_small_blocks_change_nothing(workshop: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    ok(run("predict", workshop / "model", workshop / "weak.csv", "--out", tmp_path / "whole.csv"))
    monkeypatch.setattr(tabular, "CSV_BLOCK", 512)
    monkeypatch.setattr(tabular, "CELLS", 64)
    monkeypatch.setattr(_streaming, "CELLS", 64)
    ok(run("predict", workshop / "model", workshop / "weak.csv", "--out", tmp_path / "parts.csv"))
    whole, parts = rows_of(tmp_path / "whole.csv"), rows_of(tmp_path / "parts.csv")
    for a, b in zip(whole, parts, strict=True):
        assert a["predicted"] == b["predicted"]
        assert float(a["p_ant"]) == pytest.approx(float(b["p_ant"]), rel=1e-12)


def test_scores_in_blocks_are_the_scores_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    import tproper as tp

    rng = np.random.default_rng(0)
    T = tp.complementary(4)
    p = rng.dirichlet(np.ones(4) * 0.5, size=9000)
    z = np.array([rng.choice(4, p=row) for row in p])
    order = np.argsort(z, kind="stable")  # sorted by class: blocks that differ a lot
    p, y = p[order], T.sample(z[order], 1)
    whole, parts = _scores.StreamedScores(T), None
    whole.add(y, p)
    monkeypatch.setattr(_scores, "BLOCK_CELLS", 4 * 2000)
    monkeypatch.setattr(_scores, "BLOCK_ROWS", 1)
    parts = _scores.StreamedScores(T)
    for i in range(0, 9000, 700):
        parts.add(y[i : i + 700], p[i : i + 700])
    a, b = whole.scores(), parts.scores()
    for name in ("accuracy", "log_loss", "brier"):
        assert b[name].value == pytest.approx(a[name].value, rel=1e-10)
        assert b[name].stderr == pytest.approx(a[name].stderr, rel=1e-10)
        np.testing.assert_allclose(b[name].interval, a[name].interval, atol=0.2 * a[name].stderr)
    over_a, over_b = a["calibration"].overconfidence, b["calibration"].overconfidence
    assert over_b.value == pytest.approx(over_a.value, rel=1e-9)
    assert over_b.stderr == pytest.approx(over_a.stderr, rel=1e-9)
    assert b["calibration"].count.sum() == 9000


def test_evaluate_gives_weak_and_clean_scores(workshop: Path, tmp_path: Path, run: Run) -> None:
    weak, clean = rows_of(workshop / "weak.csv"), rows_of(workshop / "clean.csv")
    data = write(tmp_path / "both.csv", [w | {"kind": c["kind"]} for w, c in zip(weak, clean, strict=True)])
    options = ["--label", "weak_label", "--true-label", "kind"]
    out = facts(run("evaluate", workshop / "model", data, *options, "--json", "--plot", tmp_path / "r.png"))
    ok(run("predict", workshop / "model", data, "--keep", "kind", "--out", tmp_path / "p.csv"))
    hits = np.mean([r["predicted"] == r["kind"] for r in rows_of(tmp_path / "p.csv")])
    assert out["clean"]["accuracy"]["value"] == pytest.approx(hits)
    low, high = out["weak"]["accuracy"]["interval"]
    assert low <= hits <= high
    assert (tmp_path / "r.png").read_bytes().startswith(b"\x89PNG")
    text = ok(run("evaluate", workshop / "model", data, *options)).stdout
    assert "from weak labels alone" in text
    assert "from clean labels" in text
    # the true labels, called clean by another transition, give the same as --true-label
    same = facts(run("evaluate", workshop / "model", data, "--label", "kind", "--transition", "identity", "--json"))
    assert same["weak"]["accuracy"]["value"] == pytest.approx(hits)


@pytest.mark.parametrize("data", ["weak.csv", "sets.csv"])
@pytest.mark.parametrize("loss", ["forward", "gls"])
def test_missing_labels_are_dropped_or_kept(data: str, loss: str, workshop: Path, tmp_path: Path, run: Run) -> None:
    spec = "complementary" if data == "weak.csv" else "partial:0.3"
    rows = rows_of(workshop / data)
    for i, row in enumerate(rows):
        if i % 4 == 0:
            row["weak_label"] = ["", "NA"][i % 8 == 0]
    holes = write(tmp_path / "holes.csv", rows)
    options = [
        "--label",
        "weak_label",
        "--transition",
        spec,
        "--loss",
        loss,
        "--classes",
        "ant,bee,cat",
        *FEW,
        "--json",
    ]
    dropped = facts(run("train", holes, *options, "--out", tmp_path / "a"))
    assert dropped["dropped"] == 60
    assert dropped["rows"] + dropped["held_out"] == 180
    kept = facts(run("train", holes, *options, "--out", tmp_path / "b", "--missing", "uninformative"))
    assert (kept["dropped"], kept["blank"], kept["labels"]["no label"]) == (0, 60, 60)
    assert kept["certificate"]["proper"] is True
    for name in "ab":
        assert accuracy(run, tmp_path / name, workshop / data, workshop / "clean.csv", tmp_path / "p.csv") > 0.8
    counts = facts(run("evaluate", tmp_path / "b", holes, "--label", "weak_label", "--json"))["rows"]
    assert counts == {"all": 240, "weak": 180, "without_label": 60}


def test_forward_with_blank_rows_is_forward_without_them(workshop: Path, tmp_path: Path, run: Run) -> None:
    """A label that says nothing must not move the optimum, once the penalty is shared out over all rows."""
    rows = rows_of(workshop / "weak.csv")
    rows += [row | {"weak_label": ""} for row in rows[:100]]
    holes = write(tmp_path / "holes.csv", rows)
    options = ["--label", "weak_label", "--transition", "complementary", "--holdout", "0", "--no-standardize"]
    options += ["--calibrate", "none"]
    coefficients = []
    for missing, l2 in (("drop", 0.01), ("uninformative", 0.01 * 240 / 340)):
        out = tmp_path / missing
        ok(run("train", holes, *options, "--l2", l2, "--missing", missing, "--out", out))
        coefficients.append(load(out).coef_)
    np.testing.assert_allclose(coefficients[0], coefficients[1], rtol=0, atol=1e-3 * np.abs(coefficients[0]).max())


def test_an_empty_label_of_pu_data_means_unlabeled(workshop: Path, tmp_path: Path, run: Run) -> None:
    rng = np.random.default_rng(0)
    rows = rows_of(workshop / "clean.csv")
    for row in rows:
        positive = row.pop("kind") == "ant"
        row["seen"] = "ant" if positive and rng.random() < 0.6 else ""
    data = write(tmp_path / "pu.csv", rows)
    out = facts(run("train", data, "--label", "seen", "--transition", "pu:0.6", "--classes", "ant,other", *FEW, "--out",
                    tmp_path / "m", "--json"))  # fmt: skip
    assert out["dropped"] == 0
    assert set(out["labels"]) == {"ant", "unlabeled"}
    ok(run("predict", tmp_path / "m", data, "--out", tmp_path / "p.csv"))
    truth = [r["kind"] == "ant" for r in rows_of(workshop / "clean.csv")]
    assert (
        np.mean([(p["predicted"] == "ant") == t for p, t in zip(rows_of(tmp_path / "p.csv"), truth, strict=True)])
        > 0.85
    )


def test_several_sources(workshop: Path, tmp_path: Path, run: Run) -> None:
    weak = tmp_path / "crowd.csv"
    specs = ["--transition", "ann=symmetric:0.1", "--transition", "bob=partial:0.4", "--source-column", "who"]
    ok(run("simulate", workshop / "clean.csv", "--label", "kind", *specs, "--out", weak))
    out = facts(run("train", weak, "--label", "weak_label", *specs, *FEW, "--out", tmp_path / "m", "--json"))
    assert out["classes"] == ["ant", "bee", "cat"]
    assert all(name.startswith(("ann: ", "bob: ")) for name in out["labels"])
    assert accuracy(run, tmp_path / "m", weak, workshop / "clean.csv", tmp_path / "p.csv") > 0.8
    scores = facts(run("evaluate", tmp_path / "m", weak, "--label", "weak_label", "--json"))
    assert scores["rows"]["weak"] == 240


def test_a_matrix_file_and_coarse_labels(workshop: Path, tmp_path: Path, run: Run) -> None:
    np.savetxt(tmp_path / "T.csv", [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]], delimiter=",")
    weak = tmp_path / "noisy.csv"
    options = ["--transition", tmp_path / "T.csv", "--classes", "ant,bee,cat"]
    ok(run("simulate", workshop / "clean.csv", "--label", "kind", *options, "--out", weak))
    ok(run("train", weak, "--label", "weak_label", *options, *FEW, "--out", tmp_path / "m"))
    assert accuracy(run, tmp_path / "m", weak, workshop / "clean.csv", tmp_path / "p.csv") > 0.8
    # coarse labels cannot tell the members of a group apart: forward learns, and no score is claimed
    coarse = ["--transition", "coarse:0+1|2", "--classes", "ant,bee,cat"]
    ok(run("simulate", workshop / "clean.csv", "--label", "kind", *coarse, "--out", tmp_path / "c.csv"))
    assert {r["weak_label"] for r in rows_of(tmp_path / "c.csv")} == {"ant|bee", "cat"}
    coarse += [*FEW, "--out", tmp_path / "n", "--json"]
    out = facts(run("train", tmp_path / "c.csv", "--label", "weak_label", *coarse))
    assert out["scores"] is None
    assert "look alike" in out["no_scores"]
    assert "Not measured" in (tmp_path / "n" / "model_card.md").read_text()


def test_labels_that_confuse_classes_are_scored_by_true_ones(workshop: Path, tmp_path: Path, run: Run) -> None:
    coarse = ["--transition", "coarse:0+1|2", "--classes", "ant,bee,cat"]
    data, truth = tmp_path / "c.csv", ["--true-label", "kind"]
    ok(run("simulate", workshop / "clean.csv", "--label", "kind", *coarse, "--keep-true", "--out", data))
    ok(run("train", data, "--label", "weak_label", *coarse, "--ignore", "kind", *FEW, "--out", tmp_path / "m"))
    asked = ["evaluate", tmp_path / "m", data, "--label", "weak_label"]
    out = facts(run(*asked, *truth, "--plot", tmp_path / "r.png", "--json"))
    assert out["weak"] is None
    assert "look alike" in out["no_scores"]
    assert out["clean"]["accuracy"]["value"] > 0.3
    text = ok(run(*asked, *truth)).stdout
    assert "No scores from weak labels: this transition makes some classes look alike" in text
    assert "from clean labels" in text
    assert "from weak labels alone" not in text
    alone = run(*asked)
    assert alone.exit_code == 2
    assert "--true-label: expected a column with the true classes, got none" in alone.stderr


def test_parquet_with_lists_booleans_and_categories(workshop: Path, tmp_path: Path, run: Run) -> None:
    rows = rows_of(workshop / "sets.csv")
    table = pa.table(
        {
            "x": [float(r["x"]) for r in rows],
            "left": [float(r["y"]) < 0 for r in rows],
            "y": pa.array([float(r["y"]) for r in rows], pa.float32()),
            "weak_label": [r["weak_label"].split("|") for r in rows],
        }
    )
    pq.write_table(table, tmp_path / "s.parquet")
    out = facts(run("train", tmp_path / "s.parquet", "--label", "weak_label", "--transition", "partial:0.3", *FEW,
                    "--out", tmp_path / "m", "--json"))  # fmt: skip
    assert out["features"] == ["x", "left", "y"]
    assert accuracy(run, tmp_path / "m", tmp_path / "s.parquet", workshop / "clean.csv", tmp_path / "p.csv") > 0.8


def test_tuning_fixes_what_the_user_fixed(workshop: Path, tmp_path: Path, run: Run) -> None:
    options = ["--label", "weak_label", "--transition", "complementary", "--tune", "--l2", "0.01", "--loss", "forward"]
    out = facts(run("train", workshop / "weak.csv", *options, *FEW, "--out", tmp_path / "m", "--json"))
    assert out["settings"]["l2"] == 0.01
    assert out["settings"]["loss"] == "forward"
    assert out["tuned"] is True


def test_force_replaces_a_model_and_seeds_repeat_it(workshop: Path, tmp_path: Path, run: Run) -> None:
    options = ["--label", "weak_label", "--transition", "complementary", "--out", tmp_path / "m", "--model", "mlp"]
    options += [*FEW, "--epochs", "3", "--seed", "5"]
    ok(run("train", workshop / "weak.csv", *options))
    first = (tmp_path / "m" / "model.safetensors").read_bytes()
    assert run("train", workshop / "weak.csv", *options).exit_code == 2
    ok(run("train", workshop / "weak.csv", *options, "--force"))
    assert (tmp_path / "m" / "model.safetensors").read_bytes() == first
    ok(run("train", workshop / "weak.csv", *options[:-1], "6", "--force"))
    assert (tmp_path / "m" / "model.safetensors").read_bytes() != first
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_progress_is_for_terminals_only(workshop: Path, run: Run) -> None:
    result = ok(run("predict", workshop / "model", workshop / "weak.csv"))
    assert result.stderr == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(_progress.watched(iter([3, 4]), "reading", 7, lambda rows: rows)) == [3, 4]
    with _progress.Bar("training"):
        pass
    said = terminal.getvalue()
    assert "7/7" in said
    assert "training" in said


def test_ctrl_c_while_training(workshop: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tproper.learn.classifier import WeakLabelClassifier

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(WeakLabelClassifier, "fit", interrupted)
    options = ["--label", "weak_label", "--transition", "complementary", "--out", tmp_path / "m"]
    assert run("train", workshop / "weak.csv", *options).exit_code == 130
    assert not list(tmp_path.iterdir())


def test_warnings_of_the_solver_are_sentences(workshop: Path, tmp_path: Path, run: Run) -> None:
    options = ["--label", "weak_label", "--transition", "complementary", "--out", tmp_path / "m", "--epochs", "2"]
    result = ok(run("train", workshop / "weak.csv", *options))
    assert result.stderr.startswith("warning: ")
    assert result.stderr.count("\n") == 1
    assert "- warning: " in (tmp_path / "m" / "model_card.md").read_text()


def test_help_is_there_for_every_command(run: Run) -> None:
    for name in ("train", "predict", "evaluate", "simulate"):
        assert "--" in ok(run(name, "--help")).stdout


def test_the_help_tells_the_estimators_own_defaults() -> None:
    from tproper.cli.options import flat
    from tproper.cli.train import train
    from tproper.learn.classifier import WeakLabelClassifier
    from tproper.tables import cross_fit
    from tproper.tables import streamed_training as _streamed_training

    given = {name: p.default for name, p in inspect.signature(WeakLabelClassifier).parameters.items()}
    told = inspect.signature(flat(train)).parameters
    texts = {name: told[name].annotation.__metadata__[0].help for name in ("l2", "epochs", "folds")}
    assert f"(default {given['l2']}: " in texts["l2"]
    linear, mlp, stream = given["max_iter"], given["epochs"], _streamed_training.EPOCHS
    assert f"(default {linear}, linear; {mlp}, mlp; {stream}, stream)" in texts["epochs"]
    assert f"(default {cross_fit.FOLDS})" in texts["folds"]
