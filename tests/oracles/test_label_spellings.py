"""`LabelSpace` says of 1,742 spellings of labels what the four layers of version 0.1.0 said, or a rule says why not.

`label_spellings.json` has what losses, the estimator, the scores and the command each made of them; it is frozen
(`make_label_spellings.py` says how it was written). Where those layers agreed, the labels that a transition carries
must say the same, but for the rules that were decided since: each is named here.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import tproper as tp
from tproper.transitions import form_of, settle, stand_in

NAMES = {"np": np, "pd": pd, "torch": torch, "tp": tp, "nan": np.nan, "NA": pd.NA, "fs": frozenset}
GROUPS = json.loads(Path(__file__).with_name("label_spellings.json").read_text())
MATRIX = "[[.9,.3,0],[.1,.6,.3],[0,.1,.7]]"
TALL = "[[.7,.1,.1],[.1,.6,.1],[.1,.1,.6],[.1,.2,.2]]"
TRANSITIONS = {
    "none": "None",
    "S2": "tp.symmetric_noise(2, .2)",
    "S3": "tp.symmetric_noise(3, .2)",
    "sym": "'symmetric:0.2'",
    "C3": "tp.complementary(3)",
    "P3": "tp.pair_noise(3, .2)",
    "B": "tp.binary_noise(.05, .4)",
    "A3": f"tp.Transition({MATRIX})",
    "A3rows": f"tp.Transition({MATRIX}, weak_labels=['a', 'b', 'c'])",
    "A3frame": f"tp.Transition(pd.DataFrame({MATRIX}, index=list('abc'), columns=list('abc')))",
    "A3back": f"tp.Transition(pd.DataFrame({MATRIX}, index=list('cba'), columns=list('cba')))",
    "A3other": f"tp.Transition({MATRIX}, weak_labels=['x', 'y', 'z'])",
    "tall": f"tp.Transition({TALL})",
    "tallnamed": f"tp.Transition({TALL}, weak_labels=['a', 'b', 'c', 'unsure'])",
    "counts": "tp.Transition.from_counts([[30, 2, 1], [3, 40, 2], [1, 1, 20]])",
    "PU": "tp.positive_unlabeled(.9)",
    "pu": "'pu:0.9'",
    "sets": "tp.coarse_labels([[0, 1], [2]])",
    "partial": "tp.partial_labels(3, .3)",
    "open": "'partial:0.3'",
    "multi": "tp.multi_complementary(3, 1)",
    "bags": "tp.unlabeled_sets([[.9, .1], [.2, .8]], [5, 5])",
    "stack": "tp.multi_source([tp.symmetric_noise(3, .1), tp.coarse_labels([[0, 1], [2]])])",
    "crowd": "tp.annotators([tp.symmetric_noise(3, .2), tp.symmetric_noise(3, .3)])",
    "crowd2": "tp.annotators([tp.binary_noise(.1, .2), tp.binary_noise(.2, .1)])",
    "estimate": "'estimate'",
    "estpu": "('estimate', {'kind': 'pu'})",
}


def evaluated(text: str) -> Any:
    return eval(text, dict(NAMES))


def plain(name: Any) -> Any:
    name = name.item() if isinstance(name, np.generic) else name
    return int(name) if isinstance(name, float) and name.is_integer() else name


def meant(key: str, names: str, labels: str) -> Any:
    """[rows in T's own order, None where there is no label; names of the classes], or the error."""
    T, y, classes = evaluated(TRANSITIONS[key]), evaluated(labels), evaluated(names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if key in ("estimate", "estpu"):
                space = stand_in(y, "pu" if key == "estpu" else form_of(y), classes)
            else:
                space = settle(y, T, classes)
            rows, missing = space.read(y)
        except tp.InputError as error:
            return f"error: {error}"
    out = [None if gap else row for row, gap in zip(rows.tolist(), missing, strict=True)]
    return [out, [plain(c) for c in space.class_names]]


def normal(answer: Any) -> Any:
    """An old layer's answer; "error" for all of its errors."""
    if isinstance(answer, str):
        return "error"
    rows, *classes = answer
    return [rows, [plain(c) for c in classes[0]] if classes else None]


def same(one: Any, other: Any) -> bool:
    """Rows are the same, and so are classes, where both have names for them; the command has them as text."""
    if "error" in (one, other):
        return one == other
    if one[0] != other[0]:
        return False
    return one[1] is None or other[1] is None or [str(c) for c in one[1]] == [str(c) for c in other[1]]


OF_POSITIVES = ("PU", "pu", "estpu")

#: Why an answer may be another one than that on which the old layers agreed, or than all of theirs: by rule.
RULES: dict[str, Callable[[str, str, str, Any], bool]] = {
    "of positive-unlabeled data True is a labeled positive, a gap is unlabeled, and numbers without T are refused": (
        lambda key, names, labels, new: key in OF_POSITIVES
    ),
    "what a 2-d array is T or kind= says, never its values": (
        lambda key, names, labels, new: key == "estimate" and "expected a kind of label beside" in str(new)
    ),
    "where T has names integers that are none of them are refused": (
        lambda key, names, labels, new: (
            (names != "None" or key in ("A3frame", "A3back"))
            and any(text in str(new) for text in ("pass T.labels.decode(rows)", "pass more `classes`", "got True"))
        )
    ),
    "a frame's columns and index are names, and masks in a frame are taken by name": (
        lambda key, names, labels, new: key in ("A3frame", "A3back") or "columns=list(" in labels
    ),
    "a missing label is no error, and no class": (
        lambda key, names, labels, new: any(gap in labels for gap in ("None", "nan", "NA", "''"))
    ),
    "names that differ by spaces are refused": lambda key, names, labels, new: "differ by spaces" in str(new),
}


def changed() -> list[tuple[str, str, str, Any, Any]]:
    """Spellings whose answer is not that of the old layers where these agreed, or none of theirs where they did not."""
    out = []
    for group in GROUPS:
        for labels, old in group["labels"].items():
            new = meant(group["T"], group["classes"], labels)
            answers, ours = [normal(a) for a in old.values()], normal(new)
            agreed = all(same(answers[0], other) for other in answers)
            kept = same(ours, answers[0]) if agreed else any(same(ours, other) for other in answers)
            if not kept:
                out.append((group["T"], group["classes"], labels, old, new))
    return out


def test_labels_mean_what_they_meant_or_a_rule_says_why_not() -> None:
    spellings = sum(len(group["labels"]) for group in GROUPS)
    assert spellings == 1742
    found: Counter[str] = Counter()
    for key, names, labels, old, new in changed():
        why = next((rule for rule, speaks in RULES.items() if speaks(key, names, labels, new)), None)
        assert why is not None, (key, names, labels, old, new)
        found[why] += 1
    assert set(found) == set(RULES)  # no rule without a spelling
    assert sum(found.values()) < 200  # of 1,742


@pytest.mark.parametrize(
    ("key", "names", "labels"),
    [(g["T"], g["classes"], y) for g in GROUPS for y in list(g["labels"])[::9]],
)
def test_every_answer_is_one_sentence_or_is_read_back(key: str, names: str, labels: str) -> None:
    """What is read is decoded to names that are read as the same rows."""
    new = meant(key, names, labels)
    if isinstance(new, str):
        assert "expected" in new
        assert "\n" not in new
        return
    if key in ("estimate", "estpu", "sets", "crowd", "crowd2"):
        return
    classes = new[1]
    T = evaluated(TRANSITIONS[key])
    space = settle(evaluated(labels), T, evaluated(names))
    rows, missing = space.read(evaluated(labels))
    words = space.decode(rows)
    again, _ = space.transition.named(classes).labels.read(words) if space.classes is not None else space.read(words)
    assert again[torch.as_tensor(~missing)].tolist() == rows[torch.as_tensor(~missing)].tolist()
