"""Writes label_spellings.json: what labels in many spellings meant to the four layers of version 0.1.0.

    PYTHONPATH=<version 0.1.0>/src python tests/oracles/make_label_spellings.py

Losses (`Transition.encode`), the estimator (`learn.labels`), the scores (`metrics.encoded`) and the command
(`cli.codec`) each had rules of their own. The file keeps, for every spelling, what each made of it: encoded labels and
the names of the classes, or the error. `test_label_spellings.py` holds `LabelSpace` to it wherever the layers agreed.
"""

from __future__ import annotations

import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

import tproper as tp

OUT = Path(__file__).with_name("label_spellings.json")
NAMES = {"np": np, "pd": pd, "torch": torch, "tp": tp, "nan": np.nan, "NA": pd.NA, "fs": frozenset}

MATRIX = "[[.9,.3,0],[.1,.6,.3],[0,.1,.7]]"
TALL = "[[.7,.1,.1],[.1,.6,.1],[.1,.1,.6],[.1,.2,.2]]"
#: T by a short name; None is clean labels.
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
THREE = [
    "['a', 'b', 'c', 'a']",
    "np.array(['c', 'a', 'b'])",
    "pd.Series(['b', 'c', 'a'])",
    "np.array(['a', 'b', 'c'], dtype=object)",
    "pd.Categorical(['b', 'a', 'c'])",
    "pd.Series(['b', 'a', 'c'], dtype='category')",
    "pd.Series(pd.Categorical(['b', 'a', 'c'], categories=['c', 'b', 'a']))",
    "pd.Series(['a', 'b', 'c'], dtype='string')",
    "['a', 'b', None, 'c']",
    "['a', 'b', nan, 'c']",
    "pd.Series(['a', 'b', NA, 'c'])",
    "['a', 'b', '', 'c']",
    "['a', 'b']",
    "['a', 'b', 'c', 'd']",
    "['a', 'b', 'c', 'unsure']",
    "['x', 'y', 'z']",
    "['a ', 'b', 'c', 'a']",
    "['A', 'a', 'b', 'c']",
    "[0, 1, 2, 0]",
    "np.array([0, 1, 2])",
    "np.array([2, 0, 1], dtype=np.uint8)",
    "torch.tensor([0, 1, 2])",
    "torch.tensor([0, 1, 2], dtype=torch.int32)",
    "pd.Series([0, 1, 2])",
    "pd.Series([0, 1, NA, 2], dtype='Int64')",
    "pd.Series([0, 1, 2], dtype='Int64')",
    "[0.0, 1.0, 2.0]",
    "np.array([0., 1., nan, 2.])",
    "[0, 1]",
    "[0, 2]",
    "[1, 2, 3]",
    "[10, 20, 30]",
    "[3, 0, 1]",
    "[0, 1, 2, -1]",
    "['0', '1', '2']",
    "['1', '2', '3']",
    "['0', '10', '2']",
    "[0.5, 1.0, 2.0]",
    "[0, 1, 'a']",
    "[]",
    "[[0], [1], [2]]",
    "np.array([[0], [1], [2]])",
    "np.array([[0, 1], [2, 0]])",
    "[['a', 'b'], ['c']]",
    "[{0}, {1, 2}]",
    "['a|b', 'c']",
    "[True, False, True]",
    "torch.tensor([0., 1., 2.])",
    "pd.DataFrame({'y': ['a', 'b', 'c']})",
    "pd.DataFrame({'y': [0, 1, 2]})",
    "[3]",
    "['a', 'a']",
]
TWO = [
    "['no', 'yes']",
    "['yes', 'no', 'yes']",
    "[True, False]",
    "np.array([True, False])",
    "[0, 1, 1]",
    "[1, 0]",
    "[1, 1, 2]",
    "[-1, 1]",
    "[1, -1, 1]",
    "np.array([0., 1.])",
    "np.array([1., -1.])",
    "torch.tensor([True, False])",
    "torch.tensor([0, 1])",
    "pd.Series([True, False, NA], dtype='boolean')",
    "['0', '1']",
    "[None, 'yes', 'no']",
    "['yes', '', 'yes']",
    "[1, None, 1]",
    "[1.0, nan, 1.0]",
    "['yes', None]",
    "pd.Categorical(['no', 'yes'])",
    "[False, False]",
    "['yes', 'unlabeled']",
    "['unlabeled', 'yes', 'no']",
    "pd.Series([1, NA, 0], dtype='Int64')",
    "[0, 0, 1, -1]",
    "[2, 0]",
]
SETS = [
    "[[True, False, True], [False, True, False]]",
    "np.array([[True, False, True], [False, True, False]])",
    "np.array([[1, 0, 1], [0, 1, 0]])",
    "np.array([[1., 0., 1.], [0., 1., 0.]])",
    "torch.tensor([[True, False, True], [False, True, False]])",
    "pd.DataFrame([[True, False, True], [False, True, False]])",
    "pd.DataFrame([[True, False, True], [False, True, False]], columns=list('abc'))",
    "pd.DataFrame([[True, False, True], [False, True, False]], columns=list('cba'))",
    "[{0, 2}, {1}]",
    "[[0, 2], [1]]",
    "[(0, 2), (1,)]",
    "[{'a', 'c'}, {'b'}]",
    "[['a', 'c'], ['b']]",
    "[fs('ac'), fs('b')]",
    "pd.Series([['a', 'c'], ['b']])",
    "np.array([[0, 2], [1]], dtype=object)",
    "['a|c', 'b']",
    "['a|c', 'b', 'a']",
    "['0|2', '1']",
    "[['a', 'c'], []]",
    "[['a', 'q'], ['b'], ['c']]",
    "[0, 1, 2]",
    "['a', 'b', 'c']",
    "[[True, False, False], [True, True, True]]",
    "[['a', 'c'], ['b'], None]",
    "np.array([[True, False], [False, True]])",
    "np.array([[0.2, 0.8, 0.0], [1., 0., 0.]])",
    "np.array([[False, False, False], [True, False, True]])",
    "[0, 1, 0]",
    "[['a', 'b'], ['c']]",
    "[fs([0, 1]), fs([2])]",
]
PAIRS = [
    "[(0, 0), (1, 1)]",
    "np.array([[0, 2], [1, 1]])",
    "torch.tensor([[0, 2], [1, 0]])",
    "[(0, 'c'), (1, 1)]",
    "[(0, 'a'), (1, {'a', 'b'})]",
    "[0, 3, 4]",
    "[(2, 0)]",
    "[(1, 2)]",
    "pd.DataFrame([[0, 2], [1, 1]])",
    "['a', 'b']",
    "[5]",
    "[(0, None)]",
]
ANSWERS = [
    "np.array([[0, 1], [2, 2]])",
    "[[0, 1], [2, 2]]",
    "[[0, -1], [2, 1]]",
    "np.array([[0., nan], [2., 1.]])",
    "[['a', 'b'], ['c', 'c']]",
    "[['a', None], ['c', 'b']]",
    "[['a', nan], ['c', 'b']]",
    "[['a', ''], ['c', 'b']]",
    "pd.DataFrame({'u': ['a', 'b', 'c'], 'v': ['a', None, 'c']})",
    "pd.DataFrame({'u': [0, 1, 2], 'v': [0, -1, 2]})",
    "pd.DataFrame({'u': [0, 1, 2], 'v': [0, NA, 2]})",
    "pd.DataFrame({'u': pd.Categorical(['a', 'b', 'c']), 'v': pd.Categorical(['a', None, 'c'])})",
    "torch.tensor([[0, 1], [2, -1]])",
    "np.array([[True, False], [False, True]])",
    "[[0, 1, 2], [0, 1, 2]]",
    "[0, 1]",
    "[['a', 'd'], ['c', 'b']]",
    "[[-1, -1], [0, 1]]",
    "[[0, 3], [0, 1]]",
    "[['1', '2'], ['3', '']]",
    "[[1, 2], [3, 1]]",
    "[['yes', 'no'], ['no', 'no']]",
    "[[1, 0], [-1, 1]]",
    "pd.DataFrame({'u': [True, False], 'v': [True, None]})",
    "[['a', '-1'], ['c', 'b']]",
]
LETTERS, BACK = "['a', 'b', 'c']", "['c', 'b', 'a']"
GROUPS: list[tuple[list[str], list[str], list[str]]] = [  # (transitions, classes, labels)
    (["none", "S3", "A3"], ["None", LETTERS], THREE),
    (["P3", "A3rows", "A3frame", "A3back", "A3other", "tallnamed"], ["None"], THREE),
    (["tall", "counts", "C3", "sym"], ["None"], THREE[::2]),
    (["S3", "A3", "A3rows", "A3back"], [BACK], THREE[:18]),
    (["tall"], [LETTERS], THREE[:20]),
    (["none", "S2", "B", "PU", "estimate", "estpu"], ["None"], TWO),
    (["S2", "B", "PU", "estpu"], ["['yes', 'no']", "[1, 0]"], TWO),
    (["B", "PU"], ["['no', 'yes']", "[False, True]"], TWO[:12]),
    (["pu", "bags"], ["None"], TWO),
    (["partial", "open", "multi", "sets"], ["None", LETTERS], SETS),
    (["estimate"], ["None"], SETS[:20]),
    (["stack"], ["None", LETTERS], PAIRS),
    (["crowd", "estimate"], ["None", LETTERS], ANSWERS),
    (["crowd2"], ["None", "['yes', 'no']"], ANSWERS),
]


def evaluated(text: str) -> Any:
    return eval(text, dict(NAMES))


def spelled_out(labels: Any) -> Any:
    return labels.tolist() if hasattr(labels, "tolist") else labels


def plain(name: Any) -> Any:
    return name.item() if isinstance(name, np.generic) else name


def answer_of(call: Any) -> Any:
    """[rows, classes], or the error: its class and the argument that it names."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            rows, classes = call()
        except Exception as error:  # whatever it is, it is what a user met
            return f"{type(error).__name__}: {str(error).split(':')[0][:30]}"
    return [spelled_out(rows), *([] if classes is None else [[plain(c) for c in classes]])]


def cell(value: Any) -> str | None:
    """What stands in a table's cell for a label."""
    if isinstance(value, (set, frozenset, list, tuple)):
        return "|".join(sorted(map(str, value)))
    missing = value is None or type(value).__name__ == "NAType" or value != value
    return None if missing else str(value)


def in_a_table(T: Any, y: Any, classes: Any) -> Any:
    """What the command reads, where the labels are written into a table: one text a cell."""
    import pyarrow as pa
    from tproper.tables.codec import Answered, LabelCodec
    from tproper.tables.resolving import resolve, resolve_answers

    from tproper.data import MISSING
    from tproper.transitions import transition_to_dict

    names = None if classes is None else [str(c) for c in classes]
    with tempfile.TemporaryDirectory() as folder:
        spec = "identity" if T is None else T
        table = (
            pd.DataFrame(y)
            if getattr(y, "ndim", 1) == 2 or (isinstance(T, tp.Transition) and T.label_kind == "answers")
            else None
        )
        crowd = isinstance(T, tp.Transition) and T.label_kind == "answers"
        if isinstance(T, tp.Transition):
            content = transition_to_dict(T) | ({"columns": [str(c) for c in table.columns]} if crowd else {})
            spec = str(Path(folder, "T.json"))
            Path(spec).write_text(json.dumps(content))
        if crowd:
            columns = {str(c): pa.array([cell(v) for v in table[c]], pa.string()) for c in table.columns}
            answered = Answered.of(columns)
            used = [v for v in answered.values if v not in MISSING]
            T, names, who = resolve_answers({"": spec}, answered.names, used, names)
            return LabelCodec(T, names, annotators=who).encode_answers(answered)[0], names
        texts = [cell(v) for v in (y if table is None else table.iloc[:, 0])]
        used = sorted({t for t in texts if t is not None and t not in MISSING})
        T, names = resolve({"": spec}, used, names)
        rows, missing = LabelCodec(T, names).encode(pa.array(texts, pa.string()))
        out = rows.astype(object) if rows.ndim == 1 else rows
        out[missing] = None
        return out, names


def in_the_estimator(T: Any, y: Any, classes: Any) -> Any:
    from tproper.learn import labels

    if T == "estimate" or (isinstance(T, tuple) and T[0] == "estimate"):
        form = "pu" if isinstance(T, tuple) else labels.form_of(y)
        T, names = labels.stand_in(y, form, classes)
    else:
        T, names = labels.resolve(y, T, classes)
    return labels.encode(y, T, names), names


def in_scores(T: Any, y: Any) -> Any:
    from tproper.metrics import encoded

    return encoded(T, y), None


def layers_of(key: str, labels: str, names: str) -> dict[str, Any]:
    """What each layer makes of one spelling; a layer that has nothing to do with it is left out."""
    T, classes = evaluated(TRANSITIONS[key]), evaluated(names)
    out = {"estimator": answer_of(lambda: in_the_estimator(T, evaluated(labels), classes))}
    if isinstance(T, tp.Transition) and classes is None:
        out["loss"] = answer_of(lambda: (T.encode(evaluated(labels)), None))
        out["scores"] = answer_of(lambda: in_scores(T, evaluated(labels)))
    y = evaluated(labels)
    flat = getattr(y, "ndim", 1) == 1 or (hasattr(y, "shape") and y.shape[1] == 1) or key.startswith("crowd")
    masks = (
        flat
        and len(y)
        and isinstance(y[0] if isinstance(y, list) else None, (list, tuple))
        and not key.startswith("crowd")
    )
    if flat and not key.startswith(("est", "stack")) and not (masks and isinstance(y[0][0] if y[0] else 0, bool)):
        out["command"] = answer_of(lambda: in_a_table(T, evaluated(labels), classes))
    return out


def cases() -> list[tuple[str, str, str]]:
    """(transition, classes, labels), each once."""
    listed = [(t, c, y) for ts, cs, ys in GROUPS for t in ts for c in cs for y in ys]
    return list(dict.fromkeys(listed))


if __name__ == "__main__":
    lines = []
    for key, names in dict.fromkeys((t, c) for t, c, _ in cases()):
        found = {y: layers_of(key, y, names) for t, c, y in cases() if (t, c) == (key, names)}
        lines.append(json.dumps({"T": key, "classes": names, "labels": found}, default=str))
    OUT.write_text("[\n" + ",\n".join(lines) + "\n]\n")
    print(f"{len(cases())} spellings, {OUT.stat().st_size // 1024} KiB")
