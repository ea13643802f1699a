"""The command reads labels by what T is, whatever T is called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tproper as tp
from tproper.estimation import TransitionCheck
from tproper.evaluation import Evaluation, Evaluator
from tproper.metrics import Score
from tproper.tables.labels import LabelCodec
from tproper.transitions import transition_from_dict, transition_to_dict


@pytest.mark.parametrize("name", ["positive_unlabeled(0.5)", "my PU"])
def test_renaming_a_pu_transition_changes_nothing_in_a_table(name: str) -> None:
    T = tp.positive_unlabeled(0.5)
    T.name = name
    codec = LabelCodec(transition_from_dict(transition_to_dict(T)), ["spam", "ham"])
    labels, missing = codec.encode(pa.array(["spam", "", "unlabeled", None, "ham"]))
    assert labels.tolist() == [0, 1, 1, 1, 1]
    assert not missing.any()
    assert codec.decode(labels[:2]) == (["spam", "unlabeled"], None)


def test_bags_are_no_classes() -> None:
    """Two bags of two classes: the command and the estimator call them 0 and 1."""
    T = tp.unlabeled_sets([[0.9, 0.1], [0.2, 0.8]], [5, 5])
    codec = LabelCodec(T, ["spam", "ham"])
    assert codec.encode(pa.array([1, 0, 1]))[0].tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="expected one of 0, 1, got 'spam' at row 1"):
        codec.encode(pa.array(["spam"]))
    with pytest.raises(ValueError, match=r"got 'a; b' at row 2$"):
        LabelCodec(tp.identity(2), ["c; d", "e"]).encode(pa.array(["e", "a; b"]))


def test_a_renamed_pu_model_evaluates_as_before(tmp_path: Path, run: Callable[..., Any]) -> None:
    rows = [f"{i % 7 - 3},{'spam' if i % 7 > 4 else ''}" for i in range(70)]
    data = tmp_path / "pu.csv"
    data.write_text("\n".join(["x,y", *rows]) + "\n")
    common = ["--label", "y", "--transition", "pu:0.9", "--classes", "spam,ham", "--out", tmp_path / "m"]
    assert run("train", data, *common).exit_code == 0
    model = tp.load(tmp_path / "m")
    before = run("evaluate", tmp_path / "m", data, "--label", "y")
    table = model.extra_["table"]
    table["transition"]["name"] = model.transition_.name = "my PU"
    tp.save(model, tmp_path / "renamed", extra={"table": table})
    after = run("evaluate", tmp_path / "renamed", data, "--label", "y")
    assert before.exit_code == after.exit_code == 0, after.output
    assert before.stdout == after.stdout.replace("my PU", "positive_unlabeled(0.9)")


def test_numbers_of_sources_are_explained() -> None:
    T = tp.multi_source([tp.symmetric_noise(2, 0.1), tp.symmetric_noise(2, 0.3)])
    z = np.arange(60) % 2
    labels = T.encode(T.sample(z, seed=0)).numpy()
    evaluator = Evaluator(T, LabelCodec(T, ["u", "v"], sources=["ann", "bob"]).known_names())
    evaluator.add(labels, 0.2 + 0.6 * np.eye(2)[z])
    lines = str(evaluator.result()).splitlines()
    assert " of source " in "\n".join(lines)
    assert lines[-1] == "(classes: 0 = u, 1 = v; sources: 0 = ann, 1 = bob)"


def test_a_weak_models_notes_are_not_a_page() -> None:
    check = TransitionCheck(0.5, [], [f"note {z}." for z in range(6)], "T", 60, False)
    score = {"accuracy": Score("accuracy", 0.7, 0.1, (0.5, 0.9), 60)}
    told = str(Evaluation(score, {}, check, {}, {}, "T"))
    assert [f"note {z}" in told for z in range(6)] == [True, True] + 4 * [False]
    assert "(4 more such notes in .check.notes, and in --json)" in told


def test_a_note_says_which_column_it_is_of() -> None:
    def log_loss(note: str) -> Any:
        return {"log_loss": Score("log loss", 1.0, 0.1, (0.8, 1.2), 9, note=note)}

    def said(weak: str, clean: str) -> str:
        return str(Evaluation(log_loss(weak), log_loss(clean) if clean else {}, None, {}, {}, "T"))

    both = said("six zeros", "two zeros")
    assert "* log loss, from weak labels alone: six zeros" in both
    assert "* log loss, from clean labels: two zeros" in both
    assert "* log loss: six zeros" in said("six zeros", "six zeros")
    assert "* log loss: six zeros" in said("six zeros", "")
