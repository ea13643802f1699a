"""Tables as people have them: columns of every kind, labels of every shape, what is read, kept, drawn and written."""

from __future__ import annotations

import dataclasses
import functools
import io
import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from tests.figures.keeping import Word, shapes, without_folder

import tproper as tp
from tproper import inputs, plots, transitions
from tproper._core import json_text
from tproper.inputs import drift, encoders, frames, kinds
from tproper.tables import (
    cards,
    cross_fit,
    first_screen,
    from_data,
    labels,
    overlap,
    richer,
    rows,
    schema,
    streamed_training,
    streaming,
)

Cases = dict[str, Callable[[], Any]]
ANIMALS = np.array(["ant", "bee", "cat"])


def rng(*seed: int) -> np.random.Generator:
    """A generator of its own for each use."""
    return np.random.default_rng([2021, *seed])


def words(found: Any) -> Any:
    """Texts as outcomes, inside of whatever holds them."""
    if isinstance(found, str):
        return Word(found)
    if isinstance(found, dict):
        return [[words(k), words(v)] for k, v in found.items()]
    if isinstance(found, (list, tuple, set, frozenset)):
        return [words(v) for v in (sorted(found, key=str) if isinstance(found, (set, frozenset)) else found)]
    return found


def said(call: Callable[[], Any]) -> list[Any]:
    """What a call gives, and what it warns of; of a refusal its argument and its words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = call()
        except tp.InputError as error:
            found = [Word(f"refused: {error.argument}"), without_folder(str(error))]
    return [found, *[str(w.message) for w in caught if issubclass(w.category, UserWarning)]]


def coded(values: list[Any]) -> tuple[np.ndarray, list[str]]:
    """A column of texts, None where there is none."""
    distinct = list(dict.fromkeys(v for v in values if v is not None))
    place = {v: i for i, v in enumerate(distinct)}
    return np.array([place.get(v, -1) for v in values], dtype=np.int64), distinct


def encoded() -> Cases:
    """Each encoder on columns with gaps, ties, rare and new values; what it keeps, and makes of another table."""
    a = rng(1)
    values = a.normal(size=(40, 3)) * [1.0, 30.0, 0.1] + [0.0, 100.0, 5.0]
    values[::7, 1] = np.nan
    values[3, 2] = -4.0
    other = values[:9] * 2 + 1
    other[2, 0] = np.nan

    def numbers(standardize: bool, gappy: Any = None) -> list[Any]:
        made = encoders.Numbers.fit(["a", "b", "c"], values, standardize, gappy)
        back = encoders.Numbers.from_dict(json.loads(json.dumps(made.to_dict())))
        return [words(made.features), made.encode(other), back.encode(other), made.to_dict(), made.stand_in, made.gappy]

    def column(encoder: Any, new: Any) -> list[Any]:
        back = type(encoder).from_dict(encoder.name, json.loads(json.dumps(encoder.to_dict())))
        sums = encoder.encode(new).toarray()
        return [
            words(encoder.features),
            encoder.width,
            sums,
            (back.encode(new).toarray() == sums).all(),
            words(encoder.to_dict()),
        ]

    levels = ["u"] * 5 + ["v"] * 3 + ["w"] * 2 + ["x"] * 4 + ["y"]
    new = coded(["u", "new", None, "w", "x", "y"])
    texts = ["red fox jumps", "red dog", "a blue fox fox", None, "dog dog 12", "blue sky", "sky red"]
    plain = ["2024-01-31", "2024-02-29", "2023-12-25", "2024-07-04"]
    timed = ["2024-01-31 06:00", "2024-02-29 18:30", "2023-12-25 00:15", "2024-07-04 12:00"]
    many = coded([f"level {i % 11}" for i in range(60)] + ["level 3"] * 4)

    def dates(given: list[Any], gappy: bool | None = None) -> list[Any]:
        order = kinds.date_order("when", [v for v in given if v is not None])
        assert order is not None
        made = encoders.Dates.fit("when", coded(given), order, gappy)
        return [*column(made, coded([given[0], given[2]])), Word(str(order)), made.stand_in]

    category = encoders.Category.fit

    def kept_wrong() -> list[Any]:
        """What a model's file may hold instead of what was kept."""
        made = {
            encoders.Numbers: encoders.Numbers.fit(["a", "b", "c"], values, True),
            encoders.Category: category("k", coded([*levels, None])),
            encoders.Text: encoders.Text.fit("t", coded(texts)),
            encoders.Dates: encoders.Dates.fit("when", coded([*timed, None]), "iso"),
        }
        out: list[Any] = []
        for kind, encoder in made.items():
            content = json.loads(json.dumps(encoder.to_dict()))
            wrong = [
                {name: bad} for name in content for bad in (None, "x", [], [1], -1, [-1.0] * len(encoder.features))
            ]
            wrong += [{"fill": [1.0, None, 2.0]}, {"fill": [1.0, "x", 2.0]}, {"levels": {"u": -1}}, {"gaps": True}]
            wrong += [{"spread": [[0.0] * 11] * 3}, {"spread": [[0.0] * 10] * 3}, {"terms": ["a", "a"]}, {"scale": 0.0}]
            wrong += [
                {"columns": ["a", "a", "b"]},
                {"scale": [1.0, 0.0, 1.0]},
                {"gaps": [0.0, 0.5, -0.1]},
                {"order": "no"},
            ]
            for change in wrong:
                given = content | change
                named = () if kind is encoders.Numbers else ("n",)
                out.append(said(lambda kind=kind, given=(*named, given): kind.from_dict(*given) is not None))
        whole = inputs.Inputs.fit(
            inputs.Columns(values, ["a", "b", "c"], {"k": coded(["u", "v"] * 20)}),
            {"a": "number", "b": "number", "c": "number", "k": "category"},
        ).to_dict()
        whole = json.loads(json.dumps(whole))
        for change in (
            {"others": {}},
            {"others": [1]},
            {"others": [{"kind": "no", "name": "k"}]},
            {"columns": ["a", "b", "c"]},
            {"others": [{"kind": "category", "name": 3}]},
            {"numbers": None},
            {"columns": ["k", "c", "b", "a"]},
        ):
            out.append(said(lambda change=change: words(inputs.Inputs.from_dict(whole | change).names)))
        return out

    return {
        "numbers": lambda: numbers(True),
        "numbers as they are": lambda: numbers(False),
        "numbers, gaps told": lambda: numbers(True, np.array([True, True, False])),
        "category": lambda: column(category("k", coded(levels)), new),
        "category, gaps": lambda: column(category("k", coded([*levels, None])), new),
        "category, none rare": lambda: column(category("k", coded(["u", "v"] * 4)), new),
        "category, few": lambda: column(category("k", many, few=1, most=5), coded(["level 3", "level 9", None])),
        "category, few, gaps": lambda: column(
            category("k", (np.r_[many[0], -1], many[1]), few=1, most=5), coded(["level 3", "level 9", None])
        ),
        "category, just as many": lambda: column(category("k", many, few=1, most=11), coded(["level 3", "level 9"])),
        "text": lambda: column(encoders.Text.fit("t", coded(texts)), coded(["red red fox", None, "new", "sky dog 12"])),
        "text, few": lambda: column(encoders.Text.fit("t", coded(texts), most=2), coded(["red fox dog", ""])),
        "text, once": lambda: column(encoders.Text.fit("t", coded(texts), least=1), coded(["jumps", "a blue"])),
        "words known": lambda: encoders.Text.fit("t", coded(texts)).share_known(coded(["red moon", "moon sky", None])),
        "words": lambda: words(encoders.words("It's a Red-fox_7, x y2 Über 10")),
        "dates": lambda: dates(plain),
        "dates with hours": lambda: dates(timed),
        "dates with gaps": lambda: dates([*timed, None]),
        "dates, gaps told": lambda: dates(plain, True),
        "dates of other orders": lambda: [
            dates(["31.01.2024", "29.02.2024", "25.12.2023"]),
            dates(["12/31/2024", "02/28/2024", "07/04/2023"]),
        ],
        "files": kept_wrong,
        "one level": lambda: said(lambda: category("k", coded(["u"] * 9))),
        "no number": lambda: said(lambda: encoders.Numbers.fit(["a"], np.full((3, 1), np.nan), True)),
        "no word": lambda: said(lambda: encoders.Text.fit("t", coded(["a b", "c d"]))),
    }


def seen() -> Cases:
    """What columns are taken for, and what of a table is not as it was in training."""
    a = rng(2)
    columns: dict[str, list[Any]] = {
        "levels": ["u", "v", "w"] * 9,
        "levels with a gap": ["u"] * 10 + [None] * 3,
        "one level": ["u"] * 25,
        "names": [f"n{i}" for i in range(25)],
        "few names": [f"n{i}" for i in range(12)],
        "nineteen names": [f"n{i}" for i in range(19)],
        "twenty names": [f"n{i}" for i in range(20)],
        "half repeated": [f"n{i // 2}" for i in range(26)],
        "nearly half": [f"n{i // 2}" for i in range(25)],
        "two words": [f"w{i} z{i}" for i in range(25)],
        "two words, repeated": [f"word{i % 3} more" for i in range(25)],
        "five words": [f"one two three four x{i % 2}" for i in range(25)],
        "four words": [f"one two three x{i % 2}" for i in range(25)],
        "dates": [f"2024-01-{i + 1:02}" for i in range(25)],
        "nothing": [None] * 4,
    }

    def table(shift: float = 0.0, scale: float = 1.0, n: int = 60, level: str = "u", gap: int = 0) -> inputs.Columns:
        b = rng(3, n)
        x = b.normal(size=(n, 2)) * scale + shift
        if gap:
            x[::gap, 0] = np.nan
        level_of = [["u", "v", level][i % 3] for i in range(n)]
        text = [["red fox here", "blue dog there"][i % 2] if level == "u" else "other words now" for i in range(n)]
        day = [f"20{24 + int(abs(shift))}-0{1 + i % 9}-1{i % 7}" for i in range(n)]
        return inputs.Columns(x, ["a", "b"], {"k": coded(level_of), "t": coded(text), "d": coded(day)})

    def fitted(gap: int = 0) -> inputs.Inputs:
        of = {"a": "number", "b": "number", "k": "category", "t": "text", "d": "date"}
        return inputs.Inputs.fit(table(gap=gap), of)

    def moved(gap: int = 0, **changes: Any) -> list[Any]:
        made = fitted(gap)
        found = drift.Drift(made)
        found.add(table(**changes))
        back = inputs.Inputs.from_dict(json.loads(json.dumps(made.to_dict())))
        X = np.asarray(back.encode(table()))
        return [
            *found.gaps(),
            *found.unseen(),
            *found.moved(),
            found.sentences(),
            X[:3],
            str(made),
            made.width,
            words(made.features),
            made.sparse,
            made.simple,
        ]

    def spread(n: int, share: float) -> list[Any]:
        ends = np.quantile(np.arange(101.0), encoders.PLACES)
        one = drift._Spread(ends)
        one.add(np.r_[a.uniform(0, 100, n), np.full(int(n * share), 150.0), np.nan])
        return [one.mean, one.outside, one.elsewhere, one.differs, one.inside]

    def differ() -> list[Any]:
        shares = np.array([0.5, 0.3, 0.2])
        counts = [(10, 6, 4), (9, 6, 4), (4, 8, 8), (5, 5, 10), (50, 100, 50), (25, 30, 45), (24, 30, 46), (0, 0, 20)]
        return [drift._differs(np.array(c, dtype=float), shares) for c in counts]

    def half_known() -> list[Any]:
        made = encoders.Text.fit("t", coded(["red fox", "blue dog"]), least=1)
        out = []
        for new in (["red moon"] * 10, ["red moon"] * 9 + ["moon sky"], ["sky moon"] * 9):
            found = drift.Drift(inputs.Inputs(["t"], encoders.Numbers([], np.zeros(0), np.ones(0)), [made]))
            found.add(inputs.Columns(np.empty((40, 0)), [], {"t": coded((new * 40)[:40] if len(new) > 9 else new)}))
            found.rows = 40
            out.append([*found.moved(), made.known])
        return out

    def simple() -> list[Any]:
        x = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, 5.0]])
        kinds_of = {"a": "number", "b": "number"}
        tables = [x, np.nan_to_num(x), np.where(np.eye(3, 2) > 0, np.nan, x)]
        return [inputs.Inputs.fit(inputs.Columns(t, ["a", "b"], {}), kinds_of).simple for t in tables]

    def half() -> list[Any]:
        ends = np.quantile(np.arange(101.0), encoders.PLACES)
        out = []
        for inside, outside in ((10, 10), (10, 11), (11, 10)):
            one = drift._Spread(ends)
            one.add(np.r_[np.full(inside, 50.0), np.full(outside, 101.0)])
            out.append(one.elsewhere)
        return out

    return {
        "kinds": lambda: [None if (k := kinds.kind_of(n, coded(v))) is None else Word(k) for n, v in columns.items()],
        "inferred": lambda: words(
            kinds.inferred(
                inputs.Columns(
                    np.array([[1.0, np.nan]] * 25),
                    ["x", "empty"],
                    {n: coded(v) for n, v in columns.items() if len(v) == 25},
                ),
                {"names": "category", "empty": "number"},
            )
        ),
        "orders": lambda: [
            said(lambda used=used: None if (o := kinds.date_order("d", used)) is None else Word(str(o)))
            for used in (
                ["2024-01-31"],
                ["31.01.2024", "01.02.2024"],
                ["01/02/2024"],
                ["01/31/2024", "01/02/2024"],
                ["2024-01-31T05:00:00"],
                ["2024-13-01"],
                ["soon"],
            )
        ],
        "slips": lambda: [
            None if (text := kinds.slips(coded(v))) is None else Word(text)
            for v in (
                ["1", "2", "x"],
                ["1", "x", "y"],
                ["1", "x"],
                ["true", "1"],
                ["true", "x"],
                ["1.5", None, "no"],
                ["1", "2"],
                [None],
            )
        ],
        "in words": lambda: [
            Word(
                kinds.in_words(
                    {"a": "number", "k": "category", "t": "text", "s": "text", "d": "date"}, {"t": 9, "s": s}, g, left
                )
            )
            for s, g, left in ((9, 0, []), (5, 2, ["z"]), (1200, 1, ["z", "y"]))
        ],
        "as it was": moved,
        "with gaps": lambda: moved(gap=9),
        "new gaps": lambda: _new_gaps(fitted, table),
        "elsewhere": lambda: moved(shift=9.0),
        "a little": lambda: moved(shift=0.4),
        "wider": lambda: moved(scale=3.0),
        "another level": lambda: moved(level="zebra"),
        "few rows": lambda: moved(n=19, level="zebra"),
        "just enough rows": lambda: moved(n=20, level="zebra"),
        "spread": lambda: [spread(50, 0.0), spread(50, 0.5), spread(50, 1.5), spread(12, 0.4)],
        "shares differ": differ,
        "half is outside": half,
        "half is known": half_known,
        "simple": simple,
    }


def _new_gaps(fitted: Callable[[], Any], table: Callable[..., Any]) -> list[Any]:
    """Gaps where training had none: what stands in, and a date among them."""
    made, there = fitted(), table(gap=6)
    there.others["d"] = (np.where(np.arange(60) % 10 == 0, -1, there.others["d"][0]), there.others["d"][1])
    found = drift.Drift(made)
    found.add_gaps(there)
    found.add(there)
    return [*found.gaps(), np.asarray(made.encode(there))[:7]]


def framed() -> Cases:
    """The same columns in frames of every library."""
    import pandas as pd
    import pyarrow as pa

    columns = {"a": [1.5, None, 3.0, -2.0], "b": [True, False, True, True], "s": ["x", "y", None, "x"]}
    frame = pd.DataFrame(columns)
    arrow = pa.table(columns)
    made: dict[str, Any] = {
        "pandas": frame,
        "arrow": arrow,
        "batch": arrow.to_batches()[0],
        "dict": columns,
        "Int64": frame.assign(b=frame.b.astype("Int64")),
        "category": frame.assign(s=frame.s.astype("category")),
    }

    def taken(X: Any) -> list[Any]:
        a, b, s = frames.take_columns(X, ["a", "b", "s"])
        return [
            words(frames.column_names(X)),
            frames.as_numbers(a, "a"),
            frames.as_numbers(b, "b"),
            words(frames.as_arrow(s).cast(pa.string()).to_pylist()),
        ]

    cells = inputs.Columns(
        np.array([[0.0, 1.5], [-0.0, 1.5], [2.0, np.nan]]), ["x", "y"], {"s": coded(["u", "u", None])}
    )
    out: Cases = {name: lambda X=X: taken(X) for name, X in made.items()}
    return out | {
        "array": lambda: frames.take_columns(np.arange(6.0).reshape(2, 3), ["a", "b", "c"]),
        "tensor": lambda: frames.take_columns(torch.arange(6.0).reshape(3, 2), ["a", "b"]),
        "array of another width": lambda: said(lambda: frames.take_columns(np.zeros((2, 3)), ["a", "b"])),
        "lacking": lambda: said(lambda: frames.take_columns(frame, ["a", "z", "q"])),
        "lacking one": lambda: said(lambda: frames.take_columns(frame, ["a", "z"])),
        "twice": lambda: said(
            lambda: frames.column_names({"a": [1], "b": [2]}) and frames.column_names(frame[["a", "a"]])
        ),
        "text for numbers": lambda: said(lambda: frames.as_numbers(frame.s, "s")),
        "mixed": lambda: words(frames.as_arrow([1, "x", None, 2.5, float("nan")]).to_pylist()),
        "sets": lambda: words(frames.as_arrow([{"b", "a"}, {"c"}]).to_pylist()),
        "cells": lambda: [words([cells.cell(i, j) for i in range(3) for j in range(3)])],
        "bits": lambda: [
            (cells.bits()[0] == cells.bits()[1]).tolist(),
            (cells.bits()[0] == cells.bits()[2]).tolist(),
            Word(str(cells.bits().tolist())),
        ],
        "only": lambda: [
            words([*cells.only(["y", "s"]).numeric, *cells.only(["y", "s"]).others]),
            len(cells[[0, 2]]),
            cells[np.array([True, True, True])] is cells,
            cells[[2, 0]].numbers,
            inputs.Columns.joined([cells, cells[[1]]]).numbers,
        ],
    }


def labelled() -> Cases:
    """Texts to labels and back, and T from what is said of it."""
    import pyarrow as pa

    def codec(T: Any, texts: list[Any], names: Any = ANIMALS, **more: Any) -> list[Any]:
        made = labels.LabelCodec(T, list(names), **more)
        sources = more.get("sources")
        which = None if sources is None else pa.array([sources[i % len(sources)] for i in range(len(texts))])
        found, absent = made.encode(pa.array(texts), which)
        back = made.decode(found[~absent])
        ordered = made.in_order()
        return [
            found,
            absent,
            words(back),
            words(made.name(found[0])),
            words(ordered.classes),
            ordered.encode(pa.array(texts), which)[0],
            words(made.names),
            made.masks,
        ]

    def answers(columns: dict[str, list[Any]], known: list[str]) -> list[Any]:
        T = tp.annotators([tp.symmetric_noise(3, 0.1 * (i + 1)) for i in range(len(known))])
        of = labels.Answered.of({n: pa.array(v) for n, v in columns.items()})
        made = labels.LabelCodec(T, list(ANIMALS) if "ant" in str(columns) else ["0", "1", "2"], annotators=known)
        return [of.codes, words(of.values), *made.encode_answers(of)]

    unlike = tp.Transition([[0.8, 0.1, 0.2], [0.1, 0.8, 0.2], [0.1, 0.1, 0.6]])
    asked: list[tuple[list[Any], Any, bool]] = [
        (["symmetric:0.2"], None, False),
        (["a=symmetric:0.2", "b=pair:0.1"], "who", False),
        (["a=symmetric:0.2", "b=pair:0.1"], None, True),
        (["a=symmetric:0.2"], None, False),
        (["x", "y"], None, False),
        (["x", "y"], None, True),
        (["symmetric:0.2"], "who", False),
        (["a=x", "a=y"], "who", False),
        ([("a", unlike)], "who", False),
        ([("a", unlike)], None, False),
        ([unlike], None, False),
    ]
    resolved: list[tuple[Any, list[str], Any]] = [
        ({"": "symmetric:0.2"}, ["b", "a", "c", "a"], None),
        ({"": "symmetric:0.2"}, ["10", "9"], None),
        ({"": "complementary"}, ["a", "b"], ["a", "b", "c"]),
        ({"": "partial:0.2"}, ["a|b", "c", "a|c"], None),
        ({"": "partial:0.2"}, ["a|b", "b|c", "a|c"], None),
        ({"": "symmetric:0.2"}, ["a", "b|c"], None),
        ({"": "pu:0.4"}, ["yes", "unlabeled"], ["yes", "no"]),
        ({"": "pu:0.4"}, ["yes", "unlabeled"], None),
        ({"": "pair:0.2"}, ["a", "b", "c"], None),
        ({"": "pair:0.2"}, ["2", "0", "1"], None),
        ({"": unlike}, ["a", "b"], None),
        ({"": unlike}, ["0", "1", "2"], None),
        ({"": "symmetric:0.2"}, ["a"], None),
        ({"": "symmetric:0.2"}, ["a", "b"], ["a", "a"]),
        ({"": unlike.named(["c", "a", "b"])}, ["a", "b"], None),
        ({"": unlike.named(["c", "a", "b"])}, ["a", "b"], ["a", "b", "c"]),
        ({"": unlike.named(["c", "a", "b"])}, ["a", "b"], ["a", "b", "d"]),
    ]

    def blank(T: tp.Transition, loss: str | None, y: Any) -> list[Any]:
        absent = np.arange(len(y)) % 4 == 0
        full, given = rows.keep_blank(T, np.asarray(y), absent, loss)
        return [full.matrix() if full.num_weak_labels < 20 else None, given]

    masks = tp.partial_labels(3, 0.3).sample(np.arange(9) % 3, seed=1)
    return {
        "classes": lambda: codec(tp.symmetric_noise(3, 0.2), ["bee", "ant", None, "NA", "cat", "cat"]),
        "other order": lambda: codec(unlike, ["bee", "ant", "cat"], ["cat", "ant", "bee"]),
        "numbers": lambda: codec(tp.complementary(3), ["2", "10", "1", ""], ["10", "2", "1"]),
        "sets": lambda: codec(tp.partial_labels(3, 0.3), ["ant|cat", "bee", None, "bee | cat"]),
        "sets of T": lambda: codec(transitions.make_transition("coarse:0+1|2", 3), ["ant|bee", "cat", None]),
        "positives": lambda: codec(tp.positive_unlabeled(0.3), ["yes", None, "unlabeled", "yes"], ["yes", "no"]),
        "sources": lambda: codec(
            tp.multi_source([tp.symmetric_noise(3, 0.1), tp.complementary(3)]),
            ["ant", "bee", None, "cat"],
            sources=["s", "t"],
        ),
        "source of sets": lambda: codec(
            tp.multi_source([tp.partial_labels(3, 0.2), tp.complementary(3)]),
            ["ant|bee", "bee", None, "cat"],
            sources=["s", "t"],
        ),
        "unknown": lambda: said(lambda: codec(tp.symmetric_noise(3, 0.2), ["bee", "amt"])),
        "unknown in a set": lambda: said(lambda: codec(tp.partial_labels(3, 0.2), ["bee", "bee|amt"])),
        "impossible": lambda: said(lambda: codec(tp.Transition([[1.0, 1], [0, 0]]), ["bee", "ant"], ["ant", "bee"])),
        "unknown source": lambda: said(
            lambda: labels.LabelCodec(
                tp.multi_source([tp.complementary(3)] * 2), list(ANIMALS), sources=["s", "t"]
            ).encode(pa.array(["ant", "bee"]), pa.array(["s", None]), 11)
        ),
        "answers": lambda: answers({"u": ["ant", None, "cat"], "v": ["bee", None, None]}, ["v", "w", "u"]),
        "answers, -1": lambda: answers({"u": ["0", "-1", "2"], "v": ["-1", "-1", "1"]}, ["u", "v"]),
        "answers of strangers": lambda: said(lambda: answers({"u": ["ant"], "z": ["bee"]}, ["u", "v"])),
        "typed": lambda: [
            words([str(type(x).__name__) for x in labels.typed(n)])
            for n in (["1", "-2"], ["01"], ["0"], ["a", "1"], ["1" * 19])
        ],
        "specs": lambda: [
            said(lambda s=s: words({k: str(v) for k, v in labels.parse_sources(*s).items()})) for s in asked
        ],
        "resolved": lambda: [
            said(lambda r=r: [(f := labels.resolve(*r)) and f[0].num_weak_labels, f[0].matrix()[:20], words(f[1])])
            for r in resolved
        ],
        "shares": lambda: labels.resolve(
            {"s": "symmetric:0.2", "t": "complementary"}, ["a", "b", "c"], None, {"s": 0.25, "t": 0.75}
        )[0].matrix(),
        "shares lacking": lambda: said(
            lambda: labels.resolve({"s": "symmetric:0.2", "t": "complementary"}, ["a", "b", "c"], None, {"s": 1.0})
        ),
        "answers resolved": lambda: [
            [words(f[1]), words(f[2]), f[0].transitions[-1].matrix()]
            for f in (
                labels.resolve_answers({"": "symmetric:0.2"}, ["u", "v"], ["a", "b"], None, ["c"]),
                labels.resolve_answers({"v": "symmetric:0.2", "u": "pair:0.1"}, ["u", "v"], ["0", "1"], ["0", "1"]),
            )
        ],
        "members": lambda: words(
            [
                labels.members_of(v, s)
                for v in (["b|a", "c "], ["10", "9", "-3"], ["x", "1"], ["NA", "a"])
                for s in (True, False)
            ]
        ),
        "twins": lambda: said(lambda: labels.class_names(["1", "1.0", "2"], False)),
        "notes": lambda: labels.label_notes(
            {"Ant": 1, "ant": 40, "ant |bee": 3, "1": 2, "NONE": 5}, ["Ant", "ant", "bee", "NONE"]
        ),
        "blank": lambda: (
            [blank(tp.partial_labels(3, 0.3), loss, masks) for loss in (None, "forward", "gls")]
            + [blank(tp.complementary(3), None, np.arange(9) % 3)]
        ),
        "split": lambda: [
            said(lambda t=t: words(schema.split_names(t, "--x")))
            for t in (
                "a,b",
                'a,"b, c"',
                '"a ""q""",b',
                "a,,b",
                '"",b',
                "a,a",
                ["a", "b"],
                ["a", "a"],
                "a\nb",
                " a , b ",
                None,
            )
        ],
        "joined": lambda: [Word(schema.joined_names(n)) for n in (["a", "b"], ["a b"], ["a,b", " c"], ['"q"', "it's"])],
        "kind asked": lambda: [
            said(lambda s=s: Word(str(rows.estimate_kind(s))))
            for s in (
                {"": "estimate"},
                {"": "estimate:pu"},
                {"": "symmetric:0.2"},
                {"a": "estimate"},
                {"": "estimate:no"},
                {"": unlike},
            )
        ],
        "class columns": lambda: [
            rows.class_notes(
                inputs.Columns(X, ["same", "other", "flat"], {}),
                labels.LabelCodec(tp.symmetric_noise(3, 0.2), ["0", "1", "2"]),
                y,
            )
            for y in [np.arange(30) % 3]
            for X in [np.column_stack([y, rng(5).permutation(y), np.zeros(30)]).astype(float)]
        ],
        "identifiers": lambda: [
            schema.identifier_notes(
                inputs.Columns(
                    np.column_stack(
                        [np.arange(n), np.arange(n) * 12, np.arange(n) * 10.0, np.arange(n) / 2, np.arange(n) // 2]
                    ).astype(float),
                    list("abcde"),
                    {},
                )
            )
            for n in (19, 20, 30)
        ],
    }


def alike() -> Cases:
    """Rows that come back, and features that hold more than a model could use."""

    def kept(n: int, repeat: int = 1) -> list[Any]:
        X = np.repeat(rng(8, n).normal(size=(n, 3)), repeat, axis=0)
        digests = overlap.kept_digests(X)
        return [len(digests), words(digests[:3]), overlap.repeated_rows(X, X)]

    def met(n: int, same: int, others: int) -> list[Any]:
        X = rng(9, n).normal(size=(n, 2))
        found = overlap.Overlap(overlap.kept_digests(X))
        found.add(X[:same])
        found.add(rng(10).normal(size=(others, 2)))
        return [int(found.kept.sum()), int(found.met.sum()), len(found.met), found.digits, found.warning()]

    def chance() -> list[Any]:
        out = []
        for matches in range(2, 9):
            found = overlap.Overlap([])
            found.kept[:20] = True
            found.met[20 - matches : 120 - matches] = True
            out.append(found.warning())
        return out

    def more(groups: Any = None, n: int = 150, bend: float = 4.0) -> Any:
        X = rng(11, n).normal(size=(n, 3))
        z = (X[:, 0] * X[:, 1] * bend + X[:, 2] > 0).astype(int)
        T = tp.symmetric_noise(2, 0.1)
        p = np.full((n, 2), 0.5) + np.outer(X[:, 2], [-0.05, 0.05])
        return richer.needs_more(X, T.sample(z, seed=1), T, np.clip(p, 0.1, 0.9), groups)

    return {
        "digests": lambda: [kept(n) for n in (5, 8, 40, 700)],
        "repeated": lambda: [kept(40, 2), kept(9, 2), kept(100, 3)],
        "a few repeated": lambda: [
            overlap.repeated_rows(X, X)
            for again in (7, 8, 10, 11)
            for Y in [rng(12).normal(size=(200, 2))]
            for X in [np.vstack([Y, Y[:again]])]
        ],
        "repeated levels": lambda: [
            overlap.repeated_rows(X, X) for most in (3, 40) for X in [rng(13).integers(0, most, (60, 2)).astype(float)]
        ],
        "met": lambda: [
            met(n, same, others)
            for n, same, others in ((60, 0, 90), (60, 60, 0), (60, 9, 60), (700, 80, 300), (700, 30, 9), (6, 6, 0))
        ],
        "by chance": chance,
        "no digests": lambda: [overlap.Overlap([]).warning()],
        "features": lambda: [
            richer.richer_features(a_.normal(size=(12, d)) * (np.arange(d) % 3))[:3]
            for a_, d in ((rng(14), 4), (rng(15), 1))
        ],
        "bent features": lambda: richer.richer_features(rng(16).normal(size=(6, 25)))[:2, ::9],
        "more": lambda: [more(), more(bend=0.0), more(n=99), more(np.arange(150) // 5), more(np.arange(150) // 75)],
        "folds": lambda: (
            [list(map(len, s)) for s in cross_fit.splits_of(_rows(24), None, 3)]
            + [list(map(len, s)) for s in cross_fit.splits_of(_rows(24, 8), 3, 3)]
        ),
    }


def _rows(n: int, groups: int = 0) -> Any:
    """What `splits_of` looks at."""

    class Some:
        group = np.arange(n) % groups if groups else None

        def __len__(self) -> int:
            return n

    return Some()


def _table(n: int = 90) -> Any:
    """A small table with columns of every kind, answers of four, true classes of some, items and gaps."""
    import pandas as pd

    a = rng(20, n)
    z = a.integers(0, 3, n)
    X = a.normal(size=(n, 2)) * 0.9 + np.array([[0, 2.0], [2, 0], [-2, -1]])[z]
    T = tp.symmetric_noise(3, 0.2)
    frame = pd.DataFrame({"x": X[:, 0], "y": X[:, 1] * 20, "k": np.array(["u", "v", "w"])[a.integers(0, 3, n)]})
    frame["label"] = ANIMALS[T.sample(z, seed=1)]
    frame["sets"] = ["|".join(ANIMALS[m]) for m in tp.partial_labels(3, 0.3).sample(z, seed=2)]
    for i in range(4):
        given = ANIMALS[tp.symmetric_noise(3, 0.1 + 0.1 * i).sample(z, seed=3 + i)].astype(object)
        given[a.random(n) < 0.2] = None
        frame[f"a{i}"] = given
    frame["true"] = np.where(np.arange(n) % 3 == 0, ANIMALS[z], None)
    frame["group"] = np.arange(n) // 3
    frame["source"] = np.where(np.arange(n) % 2, "s", "t")
    frame["positive"] = np.where((z == 0) & (a.random(n) < 0.5), "yes", None)
    return frame


OTHERS = ["label", "sets", "a0", "a1", "a2", "a3", "true", "group", "source", "positive"]


def _long(frame: Any) -> tuple[Any, Any]:
    """The answers with a row each, and the features of the items."""
    import pandas as pd

    rows_of = [
        {"item": f"i{i}", "who": f"a{j}", "answer": row[f"a{j}"]}
        for i, row in frame.iterrows()
        for j in range(4)
        if row[f"a{j}"] is not None
    ]
    items = frame[["x", "y", "k", "true", "group"]].assign(item=[f"i{i}" for i in frame.index])
    return pd.DataFrame(rows_of).sample(frac=1, random_state=0), items.sample(frac=1, random_state=1)


def trained() -> Cases:
    """Models of tables: what training counts, finds and says, and their answers for other rows."""
    without = [c for c in OTHERS if c != "label"]

    def fit(T: Any = "symmetric:0.2", label: Any = "label", change: Any = None, **options: Any) -> list[Any]:
        frame = _table()
        if change is not None:
            frame = change(frame)
        taken = {label} if isinstance(label, str) else set(label)
        used = {v for k, v in options.items() if k in ("true_label", "group", "source_column") and v}
        options.setdefault("ignore", [c for c in OTHERS if c not in taken | used and c in frame])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = tp.TableModel.fit(frame, T, label=label, **options)
        facts = {k: v for k, v in model.to_dict().items() if k not in ("version", "date", "certificate", "data")}
        p = model.predict_proba(frame[:5])
        return [
            facts,
            p,
            model.card("m"),
            model.summary("m"),
            words(model.classes_.tolist()),
            model.schema.digests[:2],
            *[str(w.message) for w in caught],
        ]

    def gaps(frame: Any) -> Any:
        frame.loc[::6, "label"] = None
        frame.loc[::11, "x"] = np.nan
        return frame

    def long(**options: Any) -> list[Any]:
        answers, items = _long(_table(60))
        model = tp.TableModel.fit(
            answers,
            options.pop("T", "symmetric:0.2"),
            label="answer",
            item="item",
            annotator="who",
            features_from=items,
            features=["x", "y"],
            **options,
        )
        facts = {k: v for k, v in model.to_dict().items() if k not in ("version", "date", "certificate", "data")}
        return [facts, model.predict_proba(items[:4])]

    def another(**options: Any) -> list[Any]:
        frame = _table()
        model = tp.TableModel.fit(frame, "symmetric:0.2", label="label", ignore=without, holdout=0)
        other = frame.assign(x=frame.x * 3, k="new")[::2]
        out: list[Any] = [said(lambda: str(model.evaluate(frame[1::2], label="label", **options)))]
        stream = io.BytesIO()
        out.append(said(lambda: words(model.predict_file(other, stream, keep=["k"]))))
        out += [Word(line[:40]) for line in stream.getvalue().decode().splitlines()[:4]]
        return out

    def judged(T: Any, label: str, train: Any = None, **options: Any) -> list[Any]:
        frame = _table()
        model = tp.TableModel.fit(frame, train or T, label=label, ignore=[c for c in OTHERS if c != label], holdout=0)
        return [
            said(
                lambda: str(
                    model.evaluate(
                        frame, label=options.pop("by", label), transition=options.pop("use", None), **options
                    )
                )
            )
        ]

    return {
        "plain": fit,
        "known classes": lambda: fit(true_label="true"),
        "one known class": lambda: fit(
            true_label="true", holdout=0.5, change=lambda f: f.assign(true=np.where(np.arange(90) == 11, "ant", None))
        ),
        "groups": lambda: fit(group="group", folds=3),
        "held out": lambda: fit(holdout=0.3, seed=4),
        "none held out": lambda: fit(holdout=0),
        "not standardised": lambda: fit(standardize=False, l2=0.3, epochs=30, calibrate="temperature", holdout=0),
        "gls": lambda: fit(loss="gls", squeeze="0.5,1.5", calibrate="none", folds=2),
        "gaps": lambda: fit(change=gaps),
        "gaps kept": lambda: fit(change=gaps, missing="uninformative"),
        "sets": lambda: fit("partial:0.3", "sets"),
        "sets estimated": lambda: fit("estimate", "sets", holdout=0),
        "answers": lambda: fit("symmetric:0.2", ["a0", "a1", "a2", "a3"]),
        "answers estimated": lambda: fit("estimate", "a0,a1,a2,a3", true_label="true"),
        "each its own": lambda: fit({"a0": "symmetric:0.1", "a1": "symmetric:0.3"}, ["a0", "a1"], holdout=0),
        "sources": lambda: fit({"s": "symmetric:0.1", "t": "symmetric:0.4"}, source_column="source"),
        "positives": lambda: fit("pu:0.4", "positive", classes="yes,no", holdout=0),
        "positives estimated": lambda: fit("estimate:pu", "positive", classes="yes,no", holdout=0),
        "T and classes estimated": lambda: fit("estimate", true_label="true", holdout=0),
        "columns told": lambda: fit(category=["x"], holdout=0, change=lambda f: f.assign(x=np.arange(90) % 4)),
        "wide": lambda: fit(
            holdout=0, change=lambda f: f.assign(**{f"c{i}": rng(i).normal(size=90) for i in range(4)})
        ),
        "long": lambda: long(),
        "long, grouped": lambda: long(true_label="true", group="group", T="estimate"),
        "another table": another,
        "another table, clean": lambda: another(true_label="true"),
        "another T": lambda: judged("symmetric:0.2", "label", use="symmetric:0.4"),
        "other labels": lambda: judged("symmetric:0.2", "label", by="sets", use="partial:0.3"),
        "labels of several": lambda: judged("symmetric:0.2", "label", by=["a0", "a1"], use="symmetric:0.3"),
    }


def asked() -> Cases:
    """T, shares and weak labels of tables."""

    def estimate(source: str, n: int = 90, change: Any = None, **options: Any) -> list[Any]:
        frame = _table(n)
        if change is not None:
            frame = change(frame)

        def found() -> list[Any]:
            made = tp.estimate_table(frame, source, **options)
            return [
                made.text,
                {k: v for k, v in made.to_dict().items() if k not in ("draws", "counts")},
                made.labels[:6],
            ]

        return said(found)

    def shares(**options: Any) -> list[Any]:
        return said(
            lambda: [(p := tp.prevalence_table(_table(), **options)).value, p.interval, str(p), words(p.classes)]
        )

    def weakened(T: Any, **options: Any) -> list[Any]:
        frame = _table(40).assign(clean=ANIMALS[np.arange(40) % 3])

        def found() -> list[Any]:
            made = tp.simulate(frame, T, label="clean", seed=5, **options)
            return [
                words(made.counts),
                words(made.classes),
                words(made.table.column_names),
                words(made.table.to_pylist()[3]),
            ]

        return said(found)

    def long(**options: Any) -> list[Any]:
        answers, _ = _long(_table(60))
        made = tp.estimate_table(answers, "annotators", label="answer", item="item", annotator="who", **options)
        return [made.text, made.labels[:9], words(made.annotators)]

    unseen = {"label": "label", "true_label": "true"}
    everything = [c for c in OTHERS if c not in ("label", "true")]

    def drawn(n: int) -> list[Any]:
        """The pictures of T, one for each annotator."""
        frame = _table(30)
        for i in range(4, n):
            frame[f"a{i}"] = frame[f"a{i % 4}"]
        made = tp.estimate_table(frame, "annotators", label=[f"a{i}" for i in range(n)])
        kept: list[Any] = []
        with mock.patch.object(from_data, "save_picture", lambda figure, path, since: kept.append(figure)):
            answer = from_data.draw(made, Path("x.png"), "now")
        return [
            answer,
            [
                [*f.get_size_inches(), [axes.get_title() for axes in f.axes], *f.axes[-1].get_position().bounds]
                for f in kept
            ],
        ]

    return {
        "pictures": lambda: drawn(4),
        "clean": lambda: estimate("clean", **unseen),
        "clean, symmetric": lambda: estimate("clean", structure="symmetric", **unseen),
        "clean, free": lambda: estimate("clean", structure="free", classes="cat,bee,ant", **unseen),
        "clean, a class unknown": lambda: estimate(
            "clean", change=lambda f: f.assign(true=f.true.replace("cat", None)), classes="ant,bee,cat", **unseen
        ),
        "clean, other labels": lambda: estimate(
            "clean", change=lambda f: f.assign(label=f.label.replace("cat", "dog")), classes="ant,bee,cat", **unseen
        ),
        "clean, none": lambda: estimate("clean", label="label"),
        "features": lambda: estimate("features", label="label", ignore=["true", *everything]),
        "sets": lambda: estimate("partial", label="sets"),
        "positives": lambda: estimate("pu", label="positive", classes="yes,no", features=["x", "y"]),
        "positives, two samples": lambda: estimate(
            "pu", label="positive", classes="yes,no", features=["x", "y"], sampling="two samples"
        ),
        "answers": lambda: estimate("annotators", label="a0,a1,a2,a3"),
        "answers, features": lambda: estimate("annotators", label="a0,a1,a2", features=["x", "y"]),
        "answers, abstaining": lambda: estimate("annotators", label="a0,a1,a2", missing="answer"),
        "answers, columns left out": lambda: estimate("annotators", label="a0,a1,a2", classes=["cat", "bee", "ant"]),
        "long": long,
        "long, known": lambda: long(
            features_from=_long(_table(60))[1], features=["x"], true_label="true", group="group"
        ),
        "shares": lambda: shares(label="label", transition="symmetric:0.2"),
        "shares, checked": lambda: shares(**unseen),
        "shares, both": lambda: shares(transition="symmetric:0.2", group="group", **unseen),
        "shares, features": lambda: shares(features=["x", "y"], **unseen),
        "shares, answers": lambda: shares(label="a0,a1", transition="symmetric:0.2"),
        "shares, neither": lambda: shares(label="label"),
        "weakened": lambda: weakened("pair:0.3", classes="ant,bee,cat"),
        "weakened, kept": lambda: weakened("partial:0.2", keep_true=True, column="w"),
        "weakened by sources": lambda: weakened({"s": "complementary", "t": "symmetric:0.2"}, source_column="from"),
        "weakened, unclear": lambda: weakened("pair:0.3"),
    }


def refused_tables() -> Cases:
    """Tables that cannot be trained on, as far as their rows say, and descriptions of models that cannot be used."""

    def fit(T: Any = "symmetric:0.2", **columns: Any) -> list[Any]:
        frame = _table(30)[["x", "k", "label"]].assign(**columns)
        return said(lambda: tp.TableModel.fit(frame, T, label="label", holdout=0).predict_proba(frame[:2]))

    def long(change: Callable[[Any, Any], tuple[Any, Any]], **options: Any) -> list[Any]:
        answers, items = change(*_long(_table(20)))
        asked: dict[str, Any] = {"label": "answer", "item": "item", "annotator": "who", "features_from": items}
        return said(lambda: tp.estimate_table(answers, "annotators", **(asked | options)).labels[:3])

    def other_rows(**columns: Any) -> list[Any]:
        frame = _table(30)[["x", "y", "k", "label"]]
        model = tp.TableModel.fit(frame, "symmetric:0.2", label="label", holdout=0)
        changed = frame.assign(**columns)
        return [said(lambda: model.predict_proba(changed)), said(lambda: model.predict_file(changed, io.BytesIO()))]

    def strict() -> list[Any]:
        frame = _table(40)[["x", "k", "label"]]
        model = tp.TableModel.fit(frame, "symmetric:0.2", label="label", holdout=0)
        return said(lambda: model.predict_file(frame.assign(x=frame.x + 90), io.BytesIO(), strict=True))

    base: dict[str, Any] = {
        "features": ["a", "b"],
        "classes": ["u", "v"],
        "label": "y",
        "source": None,
        "sources": [],
        "specs": {"": "s"},
        "transition": transitions.transition_to_dict(tp.symmetric_noise(2, 0.1)),
    }
    sources = transitions.transition_to_dict(tp.multi_source([tp.symmetric_noise(2, 0.1), tp.complementary(2)]))
    faults: list[dict[str, Any]] = [
        {},
        {"features": ["a", "a"]},
        {"features": ["a"]},
        {"classes": ["v", "u"]},
        {"label": None},
        {"source": 3},
        {"told": ["v", "u"]},
        {"told": ["v"]},
        {"digests": ["0af"]},
        {"digests": ["0a"]},
        {"digests": ["0af", "12345"]},
        {"digests": ["0123456"]},
        {"specs": {"": 1}},
        {"transition": {"family": "no"}},
        {"sources": ["s"]},
        {"source": "s"},
        {"source": "s", "sources": ["p", "q"]},
        {"source": "s", "sources": ["p", "q"], "transition": sources},
        {"source": "s", "sources": ["p"], "transition": sources},
        {"transition": transitions.transition_to_dict(tp.symmetric_noise(3, 0.1))},
    ]
    n = np.arange(30)
    return {
        "descriptions": lambda: [
            None if (f := schema.fault(base | change, 2, ["u", "v"])) is None else Word(f) for change in faults
        ],
        "infinite": lambda: fit(x=np.where(n == 4, np.inf, n)),
        "infinite, two": lambda: fit(x=np.where(n > 20, np.inf, n), z=np.where(n == 3, -np.inf, n)),
        "slips": lambda: fit(x=[str(i) if i % 9 else "many" for i in range(30)]),
        "large": lambda: fit(x=np.where(n == 7, 2**53 + 1, n)),
        "alike": lambda: fit(label="ant"),
        "no labels": lambda: fit(label=None),
        "constant": lambda: fit(x=1.0),
        "names alone": lambda: fit(x=[f"n{i}" for i in range(30)], k=[f"m{i}" for i in range(30)]),
        "one row": lambda: fit(label=["ant"] + [None] * 29),
        "answers twice": lambda: long(lambda a, i: (a.iloc[[*range(len(a)), 0]], i)),
        "items twice": lambda: long(lambda a, i: (a, i.iloc[[0, 1, 1, *range(2, 20)]]), features=["x"]),
        "items lacking": lambda: long(lambda a, i: (a, i[3:]), features=["x"]),
        "two classes of an item": lambda: long(
            lambda a, i: (a.assign(true=np.where(np.arange(len(a)) % 2, "ant", "bee")), i),
            true_label="true",
            features_from=None,
        ),
        "features of answers": lambda: long(
            lambda a, i: (a.assign(z=np.arange(len(a)) // 3), i), features=["z"], features_from=None
        ),
        "no name": lambda: long(lambda a, i: (a.assign(item=a.item.where(a.item != "i3")), i)),
        "text there": lambda: other_rows(x="nothing"),
        "infinite there": lambda: other_rows(y=np.where(n == 5, np.inf, 1.0)),
        "a gap there": lambda: other_rows(y=np.where(n % 5 == 2, np.nan, 1.0)),
        "too large there": lambda: other_rows(x=np.where(n == 5, 1e308, 1.0), y=-1e308),
        "unlike": strict,
    }


@functools.cache
def _crowd() -> str:
    """A file of T of annotators."""
    return json_text(tp.estimate_table(_table(60), "annotators", label="a0,a1,a2").to_dict())


def streamed() -> Cases:
    """Training from Parquet, block by block, and T of annotators from a file."""

    def stream(**options: Any) -> list[Any]:
        frame = _table(60)[["x", "y", "label"]]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.parquet"
            frame.to_parquet(path)
            place = Path(folder) / "deep" / "down" / "checkpoint"
            model = tp.TableModel.fit(path, "symmetric:0.2", label="label", stream=True, checkpoint=place, **options)
            facts = {k: v for k, v in model.to_dict().items() if k not in ("version", "date", "certificate", "data")}
            return [facts, model.predict_proba(frame[:5]), model.schema.features]

    def by_file(change: Callable[[dict[str, Any]], Any] = lambda content: None, long: bool = False) -> list[Any]:
        frame = _table(60)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "T.json"
            content = json.loads(_crowd())
            change(content)
            path.write_text(json.dumps(content))

            def found() -> list[Any]:
                model = tp.TableModel.fit(frame, str(path), label="a2,a0", features=["x", "y"], holdout=0)
                given: Any = {"label": "a1,a2"}
                table = frame
                if long:
                    table, items = _long(frame)
                    given = {"label": "answer", "item": "item", "annotator": "who", "features_from": items}
                    table = table[table.who != "a3"]
                scored = model.evaluate(table, transition=str(path), **given)
                return [model.predict_proba(frame[:4]), str(scored), words(model.schema.annotators)]

            return said(found)

    return {
        "plain": lambda: stream(epochs=2),
        "not standardised": lambda: stream(standardize=False, epochs=1),
        "annotators of a file": by_file,
        "long": lambda: by_file(long=True),
        "names that lack": lambda: by_file(lambda content: content["columns"].pop()),
        "names twice": lambda: by_file(lambda content: content.update(columns=["a0", "a0", "a1"])),
        "no names": lambda: by_file(lambda content: content.pop("columns")),
        "no classes": lambda: by_file(lambda content: content.pop("classes")),
        "few steps": lambda: [
            streamed_training._few_steps(n, e) for n, e in ((1024, 1000), (1024, 999), (1025, 500), (5000, 5))
        ],
    }


def told() -> Cases:
    """What cards and first screens say of numbers."""
    base: dict[str, Any] = {"estimate": None, "rows": 500, "answers": {}, "labels": {"a": 9}}

    def screen(**changes: Any) -> list[Any]:
        return [first_screen.dangers(base | changes)]

    accuracy = {"value": 0.81, "low": 0.7, "high": 0.9, "informative": True, "true": False, "bounds": False}
    between = accuracy | {"bounds": True, "within": 0.05}
    measured = [
        None,
        accuracy,
        accuracy | {"true": True},
        accuracy | {"informative": False},
        accuracy | {"low": 0.6},
    ] + [between | {"needs": needs} for needs in ("rates", "less noise", "zeros", "candidates", "")]
    return {
        "dangers": lambda: [
            screen(
                accuracy=accuracy,
                trust_in_T=trust,
                moved=[0.7, 0.93],
                agree_more=more,
                unidentified=mixed,
                expected={"a": 0.049, "b": 0.05},
                rows=n,
            )
            for trust in ("contradicted", "unopposed", "model off", None)
            for more in (False, True)
            for mixed, n in ((None, 100), ("a and b", 5000))
        ],
        "verdicts": lambda: (
            [
                [
                    first_screen._verdict(
                        base | {"accuracy": found, "trust_in_T": trust, "expected": {"a": 0.69, "b": 0.31}}
                    )
                ]
                for found in measured
                for trust in ("contradicted", "unopposed", "model off")
            ]
            + [
                first_screen._verdict(base | {"accuracy": accuracy | {"low": low}, "expected": {"a": 0.7}})
                for low in (0.7, 0.71)
            ]
        ),
        "how good": lambda: [
            [first_screen._how_good(base | {"accuracy": found, "no_scores": "none", "expected": {"a": 0.4}, **more})]
            for found in measured
            for more in ({}, {"answers": {"u": 3}, "estimate": "T"})
        ],
        "from what": lambda: [
            [first_screen._from_what({"features": names, "words": counts, "columns": "numbers: 2"})]
            for names in (["a"], ["a", "b"], [f"c{i}" for i in range(20)])
            for counts in ({}, {"a": 1200}, {"a": 3, "b": 4})
        ],
        "no label": lambda: [
            [first_screen._no_label({"unlabelled": n, "dropped": d, "answers": a})]
            for n in (0, 3)
            for d in (0, 1200)
            for a in ({}, {"u": 1})
        ],
        "classes": lambda: [[first_screen._classes([f"c{i}" for i in range(n)])] for n in (2, 3, 8, 9, 12, 13, 40)],
        "listed": lambda: [[first_screen._listed(list("abc"[:n]))] for n in (1, 2, 3)],
        "pictures": lambda: [
            [cards._pictures({"picture": picture, "trust_in_T": trust})]
            for picture in (None, "x.png")
            for trust in ("contradicted", "unopposed")
        ],
        "dangers, unknown": lambda: [screen(), screen(accuracy=accuracy | {"informative": False}, estimate="T")],
        "of hundred": lambda: [
            Word(str(first_screen.of_hundred(x))) for x in (0.0, 0.004, 0.005, 0.123, 0.5, 0.995, 0.999, 1.0)
        ],
        "shares": lambda: [
            first_screen._shares({"predicted": dict.fromkeys("abcdefghijklmnop"[:n], 1 / n)})
            for n in (1, 2, 3, 5, 9, 16)
        ],
        "in words": lambda: [
            cards.in_words(tp.certify(loss), *more)
            for loss in (
                tp.ForwardLoss(tp.complementary(3)),
                tp.BackwardLoss(tp.complementary(3)),
                tp.BackwardLoss(tp.complementary(3), squeeze=(1, 2)),
                tp.GradientAscentLoss(tp.complementary(3)),
            )
            for more in ((), (True,), (False, 1), (True, 12))
        ],
        "counts": lambda: Word(cards.shown_counts({f"n{i}": 1000 * i for i in range(15)})),
    }


def pictured() -> Cases:
    """What is drawn, and pages."""
    a = rng(30)
    z = a.integers(0, 3, 300)
    v = a.normal(size=(300, 3)) + 1.5 * np.eye(3)[z]
    p = np.exp(v) / np.exp(v).sum(1, keepdims=True)

    def on(draw: Callable[[Any], Any], **projection: Any) -> list[Any]:
        figure = plots.figure(figsize=(3, 2))
        draw(figure.add_subplot(**projection))
        return shapes(figure)

    def panels() -> list[Any]:
        kept: list[Any] = []
        with mock.patch("tproper.plots.panels.save_picture", lambda figure, path, since: kept.append(figure)):
            plots.draw_transition_losses(tp.complementary(3), "min_variance", Path("x"), None)  # type: ignore[arg-type]
            plots.draw_transition_losses(tp.multi_complementary(3, 1), "pinv", Path("x"), None)  # type: ignore[arg-type]
        found = []
        for figure in kept:
            at = vars(figure.subplotpars)
            found += [*figure.get_size_inches(), figure.get_suptitle()]
            found += [at[n] for n in ("left", "right", "top", "bottom", "wspace", "hspace")]
            for axes in figure.axes:
                found += [Word(axes.get_title()), axes.get_position().bounds, len(axes.collections)]
        return found

    def page(text: str, pictures: tuple[str, ...] = ()) -> list[Any]:
        with tempfile.TemporaryDirectory() as folder:
            for name, (w, h) in {"one.png": (100, 60), "wide.png": (300, 100), "just.png": (200, 100)}.items():
                content = b"\x89PNG\r\n\x1a\n" + b"\0" * 8 + w.to_bytes(4, "big") + h.to_bytes(4, "big")
                (Path(folder) / name).write_bytes(content)
            return said(lambda: plots.html_page(text, "A <title>", Path(folder), pictures).split("<main>")[1])

    wide, T = (
        tp.symmetric_noise(13, 0.2),
        tp.estimate_transition(np.r_[z, z], np.r_[z, (z + (a.random(300) < 0.2)) % 3]),
    )
    forward = tp.ForwardLoss(tp.complementary(3))
    return {
        "reliability": lambda: [
            x
            for bins in (5, 15, 2)
            for r in [plots.compute_reliability(p, z, bins)]
            for x in (r.confidence, r.accuracy, r.count, r.error)
        ],
        "reliability drawn": lambda: on(
            lambda ax: plots.draw_reliability(
                ax,
                {
                    "gls": plots.compute_reliability(p, z, 12),
                    "x": plots.compute_reliability(p**2 / (p**2).sum(1, keepdims=True), z),
                },
            )
        ),
        "reliability, few": lambda: on(
            lambda ax: plots.draw_reliability(ax, {"gls": plots.compute_reliability(p, z, 40)}, least=8)
        ),
        "curve": lambda: on(lambda ax: plots.draw_curve(ax, tp.weak_calibration(z, p, tp.symmetric_noise(3, 0.1)))),
        "scores": lambda: [
            on(lambda ax, s=s: plots.draw_score(ax, s))
            for s in (
                tp.weak_accuracy(z, p.argmax(1), tp.symmetric_noise(3, 0.1)),
                tp.weak_log_loss(z[:9], p[:9], tp.symmetric_noise(3, 0.6)),
            )
        ],
        "training": lambda: on(
            lambda ax: plots.draw_training(
                ax, {"bc": [3.0, 0.5, -20.0], "own": [1.0, 0.9]}, {"bc": -float("inf"), "own": 0.25}
            )
        ),
        "map": lambda: on(lambda ax: plots.draw_transition(ax, tp.pair_noise(3, 0.44), ["a", "bb", "ccccc"], "t")),
        "map of sets": lambda: on(lambda ax: plots.draw_transition(ax, transitions.make_transition("coarse:0+1|2", 3))),
        "map, wide": lambda: on(lambda ax: plots.draw_transition(ax, wide)),
        "map, 12": lambda: on(lambda ax: plots.draw_transition(ax, tp.symmetric_noise(12, 0.2)))[-30:],
        "map, estimated": lambda: [
            on(lambda ax: plots.draw_transition(ax, T)),
            plots.compute_transition_map(T, list("abc")).low,
        ],
        "map of others": lambda: said(lambda: plots.compute_transition_map(wide, ["a"])),
        "surface": lambda: [(s := plots.compute_simplex_loss(forward, 1, 5)).points, s.values, Word(s.label)],
        "surface, BC": lambda: plots.compute_simplex_loss(tp.BackwardLoss(tp.complementary(3)), 0, 4, 0.01).values,
        "surface of four": lambda: said(lambda: plots.compute_simplex_loss(tp.ForwardLoss(tp.complementary(4)), 0)),
        "loss of sets": lambda: plots.loss_at(tp.ForwardLoss(tp.partial_labels(3, 0.2)), [True, True, False], p[:4]),
        "panels": panels,
        "surface drawn": lambda: on(
            lambda ax: plots.draw_simplex_loss(ax, plots.compute_simplex_loss(forward, 1, 6)), projection="ternary"
        ),
        "colours": lambda: [words(plots.COLOURS), words(plots.NAMES), words(plots.PAGE_COLOURS)],
        "text": lambda: [
            Word(plots.markdown_text(t))
            for t in (
                "a_b",
                "_a_",
                "a__ b",
                "[x](y) *b* `c`",
                "http://x www.y.z",
                "<b> a < b",
                "a|b~c#d@e&f\\g\nh",
                "x: y",
            )
        ],
        "code": lambda: [Word(plots.markdown_code(t)) for t in ("a", "`a", "a``b", "", " a", "a ")],
        "block": lambda: words([plots.markdown_block(t) for t in ("a", "```\nb", "````")]),
        "page": lambda: page(
            "# T\n\n## A & b\n\n| x | y |\n|---|---|\n| 1 ± 2 | 3 / 4 |\n\n## B\n\n## C\n\n<b>raw</b>\n"
        ),
        "short page": lambda: page(
            "# T\n\n## A\n\n## B\n\n![one](one.png) ![wide](wide.png) ![just](just.png)\n",
            ("one.png", "wide.png", "just.png"),
        ),
        "page of others": lambda: page("![x](other.png)"),
        "page without": lambda: page("![x](other.png)", ("other.png",)),
    }


def typed_in() -> Cases:
    """What commands write: the numbers of their JSON, the columns of their files, their exit codes."""

    def session() -> list[Any]:
        from typer.testing import CliRunner

        from tproper.cli.main import app

        out: list[Any] = []
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            frame = _table()
            frame.to_csv(folder / "t.csv", index=False)
            frame[["x", "y", "k"]].to_parquet(folder / "new.parquet")

            def run(*args: object) -> None:
                done = CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200"})
                out.append(done.exit_code)
                text = done.stdout.replace(name, "")
                try:
                    found = json.loads(text)
                    found = {k: v for k, v in found.items() if k not in ("version", "date", "draws", "versions")}
                    out.append(words(found) if "certificate" not in found else found)
                except ValueError:
                    out.append(text)
                out.append(done.stderr.replace(name, ""))

            others = ",".join(c for c in OTHERS if c != "label")
            table, model = folder / "t.csv", folder / "m"
            run(
                "train",
                table,
                "--label",
                "label",
                "--transition",
                "symmetric:0.2",
                "--ignore",
                others,
                "--out",
                model,
                "--json",
                "--folds",
                2,
            )
            run("evaluate", model, table, "--label", "label", "--true-label", "true", "--json")
            run("predict", model, folder / "new.parquet", "--out", folder / "p.csv", "--keep", "k,x", "--json")
            out += [Word(line[:60]) for line in (folder / "p.csv").read_text().splitlines()[:5]]
            run("predict", model, folder / "new.parquet", "--out", folder / "p.csv", "--keep", "k,x")
            run(
                "estimate",
                "annotators",
                table,
                "--label",
                "a0,a1,a2",
                "--out",
                folder / "T.json",
                "--labels-out",
                folder / "l.csv",
                "--json",
            )
            out += [Word(line) for line in (folder / "l.csv").read_text().splitlines()[:5]]
            out.append(sorted(Word(p.name) for p in folder.iterdir()))
            run("estimate", "annotators", table, "--label", "a0,a1,a2", "--out", folder / "T.json")
            run(
                "estimate",
                "partial",
                table,
                "--label",
                "sets",
                "--out",
                folder / "S.json",
                "--labels-out",
                folder / "x.csv",
            )
            run(
                "prevalence",
                table,
                "--label",
                "label",
                "--transition",
                "symmetric:0.2",
                "--difference",
                "ant,cat",
                "--json",
            )
            run(
                "simulate",
                folder / "t.csv",
                "--label",
                "label",
                "--transition",
                "complementary",
                "--out",
                folder / "w.csv",
                "--seed",
                3,
                "--json",
            )
            out += [Word(line[-60:]) for line in (folder / "w.csv").read_text().splitlines()[:4]]
            run("inspect", "pair:3,0.2", "--json")
            run("train", table, "--label", "nothing", "--transition", "symmetric:0.2", "--out", folder / "z")
        return out

    def others() -> list[Any]:
        from typer.testing import CliRunner

        from tproper.cli.main import app

        out: list[Any] = []
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            _table(40).to_csv(folder / "t.csv", index=False)

            def run(*args: object) -> None:
                done = CliRunner().invoke(app, [str(a) for a in args], env={"COLUMNS": "200"})
                out.extend([done.exit_code, done.stdout.replace(name, ""), done.stderr.replace(name, "")])
                out.append(sorted(Word(p.name) for p in folder.iterdir()))

            table = ("--label", "a0,a1,a2", "--out")
            run("estimate", "annotators", folder / "t.csv", *table, folder / "T.json", "--labels-out", folder / "l.csv")
            (folder / "T.json").unlink()
            run("estimate", "annotators", folder / "t.csv", *table, folder / "T.json")  # its picture is there
            run("estimate", "annotators", folder / "t.csv", *table, folder / "T.json", "--force")
            run("estimate", "annotators", folder / "t.csv", *table, folder / "T.txt")
            run(
                "prevalence",
                folder / "t.csv",
                "--label",
                "label",
                "--transition",
                "symmetric:0.2",
                "--difference",
                "ant,bee",
            )
            run(
                "simulate",
                folder / "t.csv",
                "--label",
                "label",
                "--transition",
                "symmetric:0.1",
                "--out",
                folder / "w.csv",
            )
            run("inspect", "complementary:3")
            run("inspect", "complementary:3", "--k", 2, "--alpha", 1.5)
            options = ("--label", "label", "--transition", "symmetric:0.2", "--features", "x,y", "--out", folder / "m")
            run("train", folder / "t.csv", *options, "--holdout", 0)
            run("train", folder / "t.csv", *options)
            run("evaluate", folder / "m", folder / "t.csv", "--label", "label", "--true-label", "true")
            run("predict", folder / "m", folder / "t.csv", "--out", "-")
        return out

    def examined() -> list[Any]:
        from tproper.cli import checkup

        fine = checkup.Checkup({"a": "1"}, [], {"plots": [], "tables": ["pandas"]}, "none", {"t": "ok"}, 1.25, ["slow"])
        out: list[Any] = [fine.healthy, fine.text]
        for change in ({"problems": ["p"]}, {"tests": {"t": "ok", "u": "no"}}, {"tests": {}}):
            found = dataclasses.replace(fine, **change)
            out += [found.healthy, found.text, len(found.to_dict())]
        out += [words(checkup.requirements(None)), words(checkup.requirements("plots")), words(list(checkup.TESTS))]
        with mock.patch.dict(checkup.TESTS, {}, clear=True):
            for threads in (1, 2):
                with (
                    mock.patch.object(torch, "get_num_threads", return_value=threads),
                    mock.patch.dict("os.environ"),
                    mock.patch("os.cpu_count", return_value=4),
                    mock.patch.object(checkup, "_version", return_value="1"),
                ):
                    import os

                    os.environ.pop("OMP_NUM_THREADS", None)
                    out.append(checkup.examine().notes)
        return out

    return {"commands": session, "more commands": others, "checkup": examined}


def outcomes() -> Cases:
    """Blocks of rows, and where settings meet."""
    import pyarrow as pa

    def blocks(sizes: list[int], rows_: int) -> list[Any]:
        place, batches = 0, []
        for n in sizes:
            batches.append(pa.record_batch({"a": pa.array(range(place, place + n))}))
            place += n
        return [b.column("a").to_pylist() for b in streaming.reblocked(iter(batches), rows_)]

    from tproper.tables import options, training

    def setting(**given: Any) -> list[Any]:
        return said(
            lambda: words(
                [str(v) for v in dataclasses.asdict(options.Settings(**given)).values()]
                + [str(training.tuning_grid(options.Settings(**given)))]
            )
        )

    return {
        "blocks": lambda: [
            blocks(sizes, n)
            for sizes, n in (([3, 4, 5], 4), ([3, 4, 5], 12), ([10], 3), ([1, 1], 5), ([], 2), ([4, 4], 4))
        ],
        "settings": lambda: [
            setting(**given)
            for given in (
                {},
                {"squeeze": "1,2", "loss": "gls"},
                {"squeeze": "1,2"},
                {"squeeze": "1,2", "tune": True},
                {"squeeze": "0,2", "loss": "gls"},
                {"squeeze": "1,1", "loss": "backward"},
                {"squeeze": "1,0.9", "loss": "gls"},
                {"squeeze": "1", "loss": "gls"},
                {"holdout": 0.0},
                {"holdout": 1.0},
                {"folds": 1},
                {"folds": 2},
                {"folds": 3, "holdout": 0.1},
                {"epochs": 0},
                {"l2": 0.0},
                {"l2": -1.0},
                {"model": "mlp", "tune": True, "l2": 0.1},
                {"loss": "forward", "tune": True},
                {"model": "tree"},
                {"seed": -1},
                {"calibrate": "no"},
            )
        ],
        "listed": lambda: words(
            [
                [str(s) for s in options.listed_specs(t)]
                for t in ("a", ["a", "b"], {"x": "s", "y": "t"}, {"family": "uniform"}, Path("T.csv"))
            ]
        ),
        "passed": lambda: [
            said(
                lambda k=k: words(
                    options.Weakening(label="c", transition="x", **k).passed(
                        ["a", "c", "weak_label"][: 2 + (len(k) > 1)]
                    )
                )
            )
            for k in (
                {},
                {"keep_true": True},
                {"column": "a"},
                {"column": "a", "seed": 1},
                {"source_column": "weak_label"},
                {"source_column": "s", "column": "q"},
            )
        ],
    }


def tabled() -> Cases:
    """Every case by its name."""
    rooms = {
        "encoder": encoded,
        "drift of": seen,
        "frame": framed,
        "labels": labelled,
        "rows": alike,
        "model": trained,
        "asked": asked,
        "not trained": refused_tables,
        "stream": streamed,
        "told": told,
        "drawn": pictured,
        "command": typed_in,
        "option": outcomes,
    }
    return {f"{head}: {name}": call for head, room in rooms.items() for name, call in room().items()}
