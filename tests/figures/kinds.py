"""Kinds of weak labels: as text and plain data, and what people write, read into rows of T."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tests.figures.said import each, said
from tests.laws.registry import METHODS, TRANSITIONS

import tproper as tp
from tproper.transitions import (
    BY_NAME,
    Encoded,
    form_of,
    in_sorted_order,
    make_transition,
    permuted,
    pieces,
    settle,
    settle_sorted,
    space_for,
    stand_in,
    transition_from_dict,
    transition_to_dict,
    treats_alike,
    with_weak_labels,
)

Cases = dict[str, Callable[[], Any]]
UNEVEN = [[0.7, 0.1, 0.25], [0.1, 0.6, 0.15], [0.2, 0.3, 0.6]]

TEXTS = [
    "identity:3",
    "symmetric:4,0.3",
    "symmetric: 4 , 0.3 ",
    "Symmetric_Noise:K=4,p=0.3",
    "symmetric:p=0.3",
    "symmetric:0.3",
    "pair:5,0.2",
    "binary:0.1,0.3",
    "binary:r_neg=0.3,0.1",
    "ordinal:4,0.3,spread=0.5",
    "ordinal:4,0.3",
    "complementary:4",
    "complementary",
    "complementary:4,noise=0.1",
    "complementary:4,0.1",
    "complementary:4,nose=0.1",
    "multi_complementary:4,2",
    "multi_complementary:4,4",
    "partial:4,0.25",
    "partial:4",
    "noisy_partial:4,0.3,0.1",
    "yes_no:4",
    "yes_no:4,miss=0.1",
    "yes_no:4,false=0.2",
    "coarse:0+1|2+3",
    "coarse:0+1|x",
    "coarse:0+1|3",
    "hierarchy:0+1|2+3,0.25",
    "none_of_these:4,2",
    "none_of_these:4,4",
    "none_of_these:4,2,miss=0.1,false=0.2",
    "partly_labeled:4,0.3",
    "partly_labeled:2,0.5+0.1",
    "partly_labeled:2,0.5+x",
    "pu:0.4",
    "pu:",
    "pu:0.4,1",
    "pu:r=0.4",
    "case_control_pu:0.25,50,100",
    "case_control_pu:1,50,100",
    "case_control_pu:0.25,0,100",
    "symmetric:",
    "symmetric",
    "symmetric:4,0.3,4",
    "symmetric:4,x",
    "symmetric:4.5,0.3",
    "symmetric:4,p=0.3,p=0.4",
    "symmetric:1,0.3",
    "symmetric:4,1",
    "symmetric:4,1.1",
    "symmetric:10000000,0.3",
    "symmetric:10000001,0.3",
    "identity:99999999999999999999",
    "pair:20000,0.1",
    "ordinal:20000,0.1",
    "partial:300000,0.1",
    "nothing:3",
    "",
    "  ",
    "T.csv",
    "T.npy",
    "a=b",
]


def texts() -> Cases:
    """What a text stands for, alone and where the number of classes is known."""
    out: Cases = {}
    for text in TEXTS:

        def call(text: str = text) -> list[Any]:
            def told(K: int | None) -> list[Any]:
                T = tp.parse_transition(text, K)
                return [
                    T.name,
                    repr(T),
                    T.label_kind,
                    T._label_form,
                    *([T.weak_labels, T.matrix()] if T.num_classes < 9 else []),
                ]

            return [said(told, K) for K in (None, 4)]

        out[text] = call
    usage = {name: [kind.usage(name), kind.takes_classes, kind.small] for name, kind in BY_NAME.items()}
    others: list[Any] = [
        ("symmetric", {"p": 0.2}),
        ("symmetric", 4, 0.2),
        ("symmetric", 0.2),
        ("complementary",),
        ("pu", {"q": 1}),
        {"name": "symmetric", "p": 0.2},
        {"name": "symmetric", "p": 0.2, "K": 3},
        {"nome": 1},
        {"name": 3},
        {"name": "no"},
        np.array(UNEVEN),
        UNEVEN,
        [[0.5, 0.5]],
        [[0.5, 0.4], [0.5, 0.5]],
        torch.tensor(UNEVEN),
        3,
        ("pu", {"r": 0.25}),
        {"family": "uniform", "num_classes": 4, "diagonal": 0.25, "name": "flat"},
        {"family": "uniform"},
        {"family": "x"},
        {"family": "uniform", "num_classes": 1, "diagonal": 0.25, "name": "flat"},
        ("complementary", {"noise": 0.3}),
    ]
    out |= each({f"of {i}": lambda v=v: describe(make_transition(v, 4)) for i, v in enumerate(others)})
    out |= each({f"of {i}, alone": lambda v=v: describe(make_transition(v)) for i, v in enumerate(others)})
    return out | each({"usage": lambda: usage})


def describe(T: tp.Transition) -> list[Any]:
    """T by everything that is small."""
    return [
        repr(T),
        T.label_kind,
        T.classes,
        T.weak_labels,
        T.matrix(),
        T.prior,
        T.caution,
        T.rho,
        T.estimated,
        T.clean,
    ]


def files() -> Cases:
    """Matrices in files."""
    contents: dict[str, str | bytes] = {
        "T.csv": "0.8,0.1,0.2\n0.1,0.7,0.2\n0.1,0.2,0.6\n",
        "bom.csv": "\ufeff0.8,0.3\n0.2,0.7\n",
        "one.csv": "1,1\n",
        "words.csv": "a,b\nc,d\n",
        "empty.csv": "",
        "spaces.csv": "  \n",
        "sums.csv": "0.8,0.3\n0.3,0.7\n",
        "utf16.csv": "0.8,0.3\n0.2,0.7\n".encode("utf-16"),
        "utf32.csv": "0.8,0.3\n".encode("utf-32"),
        "bare.csv": "0.8,0.3\n".encode("utf-16-le"),
        "T.json": "[[0.8, 0.3], [0.2, 0.7]]",
        "not.json": "{",
        "x.json": "3",
        "named.json": '{"matrix": [[0.8, 0.3], [0.2, 0.7]], "classes": ["ant", "bee"]}',
        "keys.json": '{"matrices": []}',
        "sets.json": '{"matrix": [[0.8, 0.3], [0.2, 0.7]], "weak_labels": [{"set": [0, 1]}, {"set": [1]}]}',
        "listed.json": '{"matrix": [[0.8, 0.3], [0.2, 0.7]], "weak_labels": [[0, 1], [1]]}',
        "tuples.json": '{"matrix": [[0.8, 0.3], [0.2, 0.7]], "weak_labels": [{"tuple": [0, "a"]}, {"other": 1}]}',
        "numbers.json": '{"family": "matrix", "name": "T", "matrix": [[0.8, 0.3], [0.2, 0.7]], "weak_labels": null, '
        '"classes": ["-1", "7"]}',
        "padded.json": '{"family": "matrix", "name": "T", "matrix": [[0.8, 0.3], [0.2, 0.7]], "weak_labels": null, '
        '"classes": ["01", "7"]}',
        "texts.json": '{"family": "matrix", "name": "T", "matrix": [[0.8, 0.3], [0.2, 0.7]], "weak_labels": ["a", "b"]'
        ', "classes": ["x", "7"]}',
        "broken.npy": b"\x93NUMPY\x01\x00",
        "text.npy": b"no array at all",
    }

    def read(name: str) -> list[Any]:
        with TemporaryDirectory() as folder:
            path = Path(folder) / name
            if name in contents:
                held = contents[name]
                path.write_bytes(held if isinstance(held, bytes) else held.encode())
            elif name == "T.npy":
                np.save(path, np.array(UNEVEN))
            try:
                return describe(tp.parse_transition(str(path)))
            except tp.InputError as error:
                raise tp.InputError(str(error).replace(folder, "")) from None

    return each({name: lambda name=name: read(name) for name in [*contents, "T.npy", "missing.csv", "missing.npy"]})


def of_kinds() -> Cases:
    """Every kind as plain data, under other names and in another order, and each of its labels."""
    out: Cases = {}
    for name, make in TRANSITIONS.items():
        T = make()
        K = T.num_classes
        words = [f"c{9 - z}" for z in range(K)]
        y = T.sample(np.arange(9) % K, seed=5)

        def as_data(T: tp.Transition = T, words: Any = words) -> list[Any]:
            shares = np.arange(1.0, T.num_classes + 1) / np.arange(1.0, T.num_classes + 1).sum()
            named = T.with_prior(shares) if T.label_kind == "bag" else T.named(words).with_prior(shares)
            data = transition_to_dict(named)
            back = transition_from_dict(data)
            return [data, describe(back), back.same_as(T), back.prior, T.fingerprint(), T.log_shift, T.trained_shares]

        def reordered(T: tp.Transition = T, words: Any = words) -> list[Any]:
            order = list(range(T.num_classes))[::-1]
            order = [*order[1:], order[0]]
            moved, sorted_one = permuted(T, order), in_sorted_order(T.named(words))
            return [describe(moved), describe(sorted_one), treats_alike(T), sorted_one.labels.names]

        def labels(T: tp.Transition = T, words: Any = words, y: Any = y) -> list[Any]:
            space = T.named(words).labels
            every = space.all()
            names = space.decode(every)
            again, missing = space.read(names)
            return [
                repr(space),
                space.class_names,
                names,
                every,
                again,
                missing,
                space.entry(0, 1) if T.label_kind != "answers" else 0,
                space.unsorted,
                space.row(every),
                T.labels.names,
                space.known_classes([words[1], None, "", -1]),
                space.to_dict(),
            ]

        def draws(T: tp.Transition = T, y: Any = y) -> list[Any]:
            labels = T.encode(y)
            rate = T.rate
            other = [] if rate is None else [rate.name, rate.value, rate.fixed, describe(rate.other(rate.value / 2))]
            known = torch.arange(9) % 2 == 0
            found = T.of_known_classes(labels, known, torch.arange(9) % T.num_classes)
            v = torch.linspace(-1, 1, 9 * T.num_classes, dtype=torch.float64).reshape(9, -1).sin()
            rows = T.evidence(labels)
            some = [
                T.place(labels),
                T.speaks(labels),
                T.gram(),
                T.log_row_maxima(),
                rows.log_mass(v),
                rows.mass(v.softmax(-1)),
            ]
            return [
                y,
                other,
                found,
                some,
                T.size_probability,
                T.source_rows,
                T.vacuous,
                T.wrong_label(99),
                str(T.pattern),
            ]

        def inverses(T: tp.Transition = T, y: Any = y) -> list[Any]:
            labels = T.encode(y)

            def told(method: str) -> list[Any]:
                R = T.reconstruction(method)
                kinds = R.kinds(np.arange(float(T.num_classes)))
                return [
                    repr(R),
                    R.matrix(),
                    R.tables(),
                    R.to_plain(),
                    R.shares(None),
                    R.shares(labels),
                    R.silent(labels),
                    R.least_scatter(),
                    kinds.names,
                    kinds.all(),
                    str(R.pattern),
                ]

            return [said(told, method) for method in (*METHODS, "inverse")]

        out |= {f"{name}, data": as_data, f"{name}, reordered": reordered, f"{name}, labels": labels}
        out |= {f"{name}, draws": draws, f"{name}, inverses": inverses}
    return each(out)


def written() -> Cases:
    """Labels as people write them, for every kind of T; gaps, wrong ones, other types."""
    import pandas as pd

    names, N = ["cat", "ant", "bee"], float("nan")
    noisy, uneven = tp.symmetric_noise(3, 0.3), tp.Transition(UNEVEN)
    worded = tp.Transition([*UNEVEN[:2], [0.1, 0.1, 0.1], [0.1, 0.2, 0.5]], ["a", "b", "c", "d"])
    coarse, sets = tp.coarse_labels([[0, 1], [2]]), tp.partial_labels(3, 0.3)
    tree, asked, pu = tp.hierarchical_labels([[0, 1], [2]], 0.3), tp.yes_no(3, 0.1), tp.positive_unlabeled(0.4)
    crowd = tp.annotators([noisy, uneven, worded])
    two = tp.multi_source([noisy, coarse, sets])
    opened, partly = tp.none_of_these(3, 2, 0.1, 0.1), tp.partly_labeled(3, 0.5)
    columns: dict[str, Any] = {
        "words": ["ant", "bee", "cat", "ant"],
        "array": np.array(["ant", "bee", "cat"]),
        "gap": ["ant", None, "bee", "cat"],
        "empty": ["ant", " ", "bee", "cat"],
        "other": ["ant", "dog", "bee", "cat"],
        "rows": [0, 2, 1, 0],
        "too large": [0, 3, 1],
        "minus": [0, -1, 1],
        "floats": [0.0, 1.0, 2.0],
        "nan": [0.0, N, 2.0],
        "half": [0.5, 1.0],
        "infinite": [0.0, np.inf],
        "booleans": [True, False, True],
        "booleans, gap": [True, None, False],
        "signs": [1, -1, 1, 1],
        "case": ["Ant", "ant", "bee", "cat"],
        "spaces": [" ant", "ant", "bee", "cat"],
        "mixed": ["ant", 1, 2],
        "series": pd.Series(["ant", "bee", "cat"]),
        "none": [],
        "complex": [1j, 2.0],
        "categories": pd.Series(["ant", "bee", "cat"], dtype="category"),
        "one class": ["ant", "ant"],
        "one": [["ant"], ["bee"]],
        "integers": np.array([2, 0, 1], dtype=np.uint8),
        "sparse integers": [3, 7, 9, 3],
        "a column": np.array([[0], [1], [2]]),
        "sets": [{"ant", "bee"}, {"cat"}, None],
        "lists": [["ant", "bee"], ["cat"]],
        "text sets": ["ant|bee", "cat", ""],
        "index sets": [{0, 1}, {2}],
        "masks": [[True, False, True], [False, True, False]],
        "01": [[1, 0, 1], [0, 1, 0]],
        "012": [[1, 0, 2], [0, 1, 0]],
        "empty mask": [[0, 0, 0], [0, 1, 0]],
        "empty set": [set(), {0}],
        "unknown set": [{"dog"}],
        "mask frame": pd.DataFrame({"cat": [1, 0], "ant": [0, 1], "bee": [1, 1]}),
        "frame": pd.DataFrame([[1, 0], [0, 1]]),
        "pairs": [(0, 1), (1, 0), (1, 1)],
        "one in a list": [["ant", "bee"], "cat", 3],
        "pairs, array": np.array([[0, 1], [1, 1]]),
        "pairs, gap": [(0, None), (1, 0), None],
        "pairs, no source": [(3, 0)],
        "pairs, three": [(0, 1, 2)],
        "answers": [[0, 1, 3], [-1, 2, 0], [-1, -1, -1]],
        "answers, names": [["cat", "ant", "d"], ["bee", None, "a"]],
        "answers, wrong": [["dog", "ant", "d"]],
        "answers, large": [[0, 1, 4]],
        "answers, two": [[0, 1]],
        "questions": [("cat", True), ("bee", False), ("ant", "yes")],
        "questions, texts": ["cat", "not cat", "not bee"],
        "questions, wrong": [("cat", "perhaps")],
        "positives": ["ant", None, "ant", None],
        "unlabeled": ["ant", "unlabeled", "unlabeled"],
        "two names": ["ant", "bee"],
        "trues": [True, None, None, None],
        "ones": [1, None, 1],
        "many positives": [0] * 30 + [1],
        "few positives": [0] * 3 + [1] * 20,
        "a tensor": torch.tensor([0, 1, 2]),
        "soft": tp.SoftLabels([[0.2, 0.3, 0.5], [1, 0, 0]], names),
        "soft, no names": tp.SoftLabels([[0.2, 0.3, 0.5], [1, 0, 0]]),
        "none of these": ["ant", "none of these", "cat"],
        "text": "ant",
        "nothing": None,
        "numbers as text": ["0", "1", "2"],
        "a date": pd.to_datetime(["2024-01-01", "2024-01-02"]),
    }
    kinds: dict[str, Any] = {
        "no T": None,
        "noisy": noisy,
        "open": "symmetric:0.3",
        "uneven": uneven,
        "named": uneven.named(names),
        "worded": worded,
        "worded, named": worded.named(names),
        "coarse": coarse,
        "coarse, named": coarse.named(names),
        "sets": sets,
        "sets, named": sets.named(names),
        "open sets": "partial:0.3",
        "tree": tree.named(names),
        "questions": asked,
        "questions, named": asked.named(names),
        "pu": pu,
        "pu, named": pu.named(["ant", "bee"]),
        "pu, other": tp.case_control_pu(0.3, 5, 9),
        "crowd": crowd,
        "crowd, named": crowd.named(names),
        "alike": tp.annotators([noisy] * 3),
        "sources": two,
        "sources, named": two.named(names),
        "open set": opened.named(names),
        "partly": partly.named(names),
        "two": tp.binary_noise(0.1, 0.3),
        "ten": "complementary:10",
    }
    out: Cases = {}
    for kind, T in kinds.items():

        def call(T: Any = T) -> list[Any]:
            def told(y: Any) -> list[Any]:
                space = settle(y, T)
                rows, missing = space.read(y)
                return [space.class_names, space.found, rows, missing, space.decode(rows[~torch.as_tensor(missing)])]

            def in_order(y: Any) -> list[Any]:
                space = settle_sorted(y, T)
                return [space.class_names, space.names[:6] if space.transition.num_weak_labels < 99 else 0]

            return [[said(told, y), said(in_order, y)] for y in columns.values()]

        out[f"as {kind}"] = call
    for form in ("one", "sets", "answers", "pu"):
        out[f"to be estimated: {form}"] = lambda form=form: [
            [
                said(lambda y: (s := stand_in(y, form)) and [s.class_names, repr(s), s.read(y)], y)
                for y in columns.values()
            ],
            [
                said(lambda y: (s := stand_in(y, form, names)) and [s.class_names, s.read(y)], y)
                for y in columns.values()
            ],
            [
                said(lambda y: stand_in(y, form, true=["ant", None, "cat", "bee"]).class_names, y)
                for y in columns.values()
            ],
        ]
    others: dict[str, Callable[[], Any]] = {
        "forms": lambda: [said(form_of, y) for y in columns.values()],
        "classes": lambda: [
            said(lambda given, T=T: settle(["ant", "bee", "cat"], T, given).class_names, given)
            for T in (None, "symmetric:0.3", noisy, uneven, uneven.named(names), sets)
            for given in (
                names,
                names[:2],
                ["ant", "ant", "bee"],
                "ant",
                3,
                ["ant", None, "bee"],
                [[1, 2], [3, 4]],
                [1.0, 2, 3],
            )
        ],
        "classes of PU": lambda: [
            said(
                lambda given: (
                    (s := settle([True, False, False], pu, given))
                    and [s.class_names, s.names, s.read([True, None, False])]
                ),
                given,
            )
            for given in (["unlabeled", "x"], [True, False], [False, True], ["x", "y"], [0, 1], [7, 8])
        ],
        "known": lambda: [
            said(space.known_classes, true, 3)
            for space in (noisy.named(names).labels, pu.labels, noisy.labels, noisy.named([-1, 0, 1]).labels)
            for true in (
                ["ant", None, "cat"],
                [0, -1, 2],
                [True, False, None],
                ["Ant", "bee", ""],
                [0, 1],
                [[0, 1, 2]],
                [0, 5, 1],
            )
        ],
        "spaces": lambda: [
            said(lambda y, T=T: (s := space_for(y, T)) and [s.class_names, s.missing(y)], y)
            for T in (noisy, uneven.named(names), pu, sets)
            for y in (
                np.array([0, 1, 2]),
                np.array([0, 5]),
                np.array([], dtype=int),
                torch.tensor([1, 0]),
                ["b", "a", "c"],
                [True, False],
            )
        ],
        "sources' sets": lambda: two.labels.read([(0, 1), (1, 0), (2, {0, 1}), (2, [2])]),
        "encoded": lambda: [
            said(lambda y, T=T: (s := settle(y, T)) and [s.class_names, s.read(y), s.encode(y), y[1:].labels], y)
            for T in (None, noisy, "symmetric:0.3")
            for y in (
                Encoded(torch.tensor([0, 2, 1])),
                Encoded(torch.tensor([0, 2, 1]), np.array([False, True, False])),
            )
        ],
        "gaps": lambda: [said(T.named(names).labels.encode, ["ant", None, "bee"]) for T in (noisy, uneven, worded)],
        "other names": lambda: describe(with_weak_labels(noisy, ["x", "y", "z"])),
        "advice": lambda: [
            said(T.labels.read, y)
            for T in (uneven.named(names), worded)
            for y in (["CAT", "ant"], [1, 2], ["a b"], [7, 1])
        ],
    }
    return each(out | others)


def soft() -> Cases:
    """Shares of labels: read, refused, arranged, drawn, and taken apart."""
    import pandas as pd

    N = float("nan")
    noisy = tp.symmetric_noise(3, 0.3)
    crowd = tp.annotators([noisy, tp.Transition(UNEVEN), tp.Transition([[0.9, 0.2, 0.3], [0.1, 0.8, 0.7]])])
    quiet = tp.annotators([noisy, noisy, noisy])
    answers = [[[0.2, 0.3, 0.5], [N, N, N], [0.4, 0.6, 0]], [[1, 0, 0], [0.5, 0.5, 0], [N, N, N]], [[N] * 3] * 3]
    made: dict[str, Any] = {
        "rows": [[0.2, 0.3, 0.5], [1, 0, 0]],
        "float32": torch.tensor([[0.2, 0.3, 0.5]]),
        "integers": torch.tensor([[0, 1, 0]]),
        "a gradient": torch.tensor([[0.2, 0.8]], requires_grad=True),
        "words": [["a", "b"]],
        "flat": [0.2, 0.8],
        "empty": [[]],
        "negative": [[-0.1, 0.6, 0.5]],
        "infinite": [[np.inf, 0, 0]],
        "sum": [[0.5, 0.5], [0.5, 0.4]],
        "near": [[0.5, 0.5 + 5e-7]],
        "off": [[0.5, 0.5 + 5e-6]],
        "float16": torch.tensor([[0.2, 0.8]], dtype=torch.float16),
        "nan": [[N, 0.5, 0.5]],
        "answers": answers,
        "half an answer": [[[N, 0.5, 0.5]]],
        "frame": pd.DataFrame({"b": [0.2, 1.0], "a": [0.8, 0.0]}),
    }
    named = tp.SoftLabels([[0.2, 0.3, 0.5], [0.1, 0.9, 0]], ["b", "c", "a"])
    table = pd.DataFrame({"p_a": [0.3, 1], "q": [1, 2], "p_b": [0.7, 0]})
    softly = tp.SoftLabels(answers)

    def told(shares: Any) -> list[Any]:
        s = tp.SoftLabels(shares)
        return [s.tensor, s.names, s.shape, len(s), repr(s), s.draw(3), s[0].shape, s[[0]].names, s.numpy()]

    calls: dict[str, Callable[[], Any]] = {name: lambda shares=shares: told(shares) for name, shares in made.items()}
    calls |= {
        "too few names": lambda: tp.SoftLabels([[0.2, 0.8]], ["a"]),
        "again": lambda: tp.SoftLabels(named, None).names,
        "renamed": lambda: tp.SoftLabels(named, ["x", "y", "z"]).names,
        "arranged": lambda: [named.arranged(["a", "b", "c"]).tensor, named.arranged(["b", "c", "a"]).tensor],
        "arranged, wrong": lambda: named.arranged(["a", "b"]),
        "a table": lambda: (s := tp.SoftLabels.from_frame(table)) and [s.names, s.tensor],
        "a table, other": lambda: tp.SoftLabels.from_frame(table, "q"),
        "as an array": lambda: np.asarray(named),
        "for T": lambda: [
            said(tp.SoftLabels(s).of, T) for T in (noisy, crowd) for s in ([[0.2, 0.8]], made["rows"], answers)
        ],
        "beyond": lambda: crowd.encode(tp.SoftLabels([[[0.2, 0.3, 0.5], [1, 0, 0], [0.4, 0.5, 0.1]]])),
        "pieces": lambda: [pieces(T, T.encode(tp.SoftLabels(s))) for T, s in ((noisy, made["rows"]), (crowd, answers))],
        "targets": lambda: [
            R.evidence(crowd.encode(softly)).dense(torch.float64)
            for R in (crowd.reconstruction(), crowd.reconstruction("pinv"))
        ],
        "silent": lambda: (
            (R := quiet.reconstruction()) and [R.silent(quiet.encode([[-1, -1, -1], [0, -1, 1]])), R.own(1)]
        ),
        "whole rows": lambda: crowd.reconstruction("tightest").evidence(crowd.encode(softly)).dense(torch.float64),
        "many": lambda: pieces(big, big.encode(tp.SoftLabels(np.full((1, 13, 2), 0.5)))),
        "twelve": lambda: len(pieces(small, small.encode(tp.SoftLabels(np.full((2, 12, 2), 0.5))))[0]),
    }
    big, small = tp.annotators([tp.binary_noise(0.1, 0.2)] * 13), tp.annotators([tp.binary_noise(0.1, 0.2)] * 12)
    return each(calls)


def built() -> Cases:
    """What the functions that make T refuse, and what they make of odd settings."""
    import pandas as pd

    crosstab = pd.DataFrame(
        [[20, 3], [4, 30]], index=pd.Index(["a", "b"], name="true"), columns=pd.Index(["a", "b"], name="weak")
    )
    W = [[0, 1, 2], [1, 0, 1], [3, 1, 0]]
    T = tp.Transition(UNEVEN)
    wide = tp.Transition([[0.6, 0.1, 0.2], [0.1, 0.6, 0.1], [0.2, 0.2, 0.6], [0.1, 0.1, 0.1]])
    calls: dict[str, Callable[[], Any]] = {
        "biased": lambda: describe(tp.complementary(3, W, 0.2)),
        "biased, diagonal": lambda: tp.complementary(3, [[1, 1, 2], [1, 0, 1], [3, 1, 0]]),
        "biased, shape": lambda: tp.complementary(4, W),
        "biased, negative": lambda: tp.complementary(3, [[0, -1, 2], [1, 0, 1], [3, 2, 0]]),
        "biased, empty": lambda: tp.complementary(3, [[0, 0, 2], [1, 0, 1], [3, 0, 0]]),
        "PU of numbers": lambda: describe(tp.positive_unlabeled(prior=0.4, labeled=100, n=1000)),
        "PU, too many": lambda: tp.positive_unlabeled(prior=0.4, labeled=401, n=1000),
        "PU, all": lambda: describe(tp.positive_unlabeled(prior=0.4, labeled=400, n=1000)),
        "PU, both": lambda: tp.positive_unlabeled(0.3, n=3),
        "PU, missing": lambda: tp.positive_unlabeled(prior=0.4),
        "PU, prior 0": lambda: tp.positive_unlabeled(prior=0, labeled=1, n=2),
        "bags": lambda: (
            (B := tp.unlabeled_sets([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], [10, 20, 30], [0.5, 0.3, 0.2]))
            and [
                describe(B),
                B.population([[0.2, 0.3, 0.5]]),
                B.log_shift,
                B.pooled,
                B.trained_shares,
                B.with_prior(None).name,
                B.name,
            ]
        ),
        "two samples": lambda: [said(lambda p: tp.case_control_pu(p, 5, 9).matrix(), p) for p in (0.3, 0.0, 1.0, 1.5)],
        "bags, no prior": lambda: (
            (B := tp.unlabeled_sets([[0.7, 0.3], [0.1, 0.9]], [10, 20]))
            and [B.population([0.2, 0.8]), B.log_shift, B.name]
        ),
        "bags, shape": lambda: tp.unlabeled_sets([[0.7, 0.3], [0.1, 0.9]], [10, 20], [0.5, 0.5]).population(
            [0.2, 0.3, 0.5]
        ),
        "bags, many": lambda: tp.unlabeled_sets(np.eye(7) * 0.3 + 0.1, np.arange(7) + 1).name,
        "bags, six": lambda: tp.unlabeled_sets(np.eye(6) * 0.4 + 0.1, np.arange(6) + 1).name,
        "bags, sizes": lambda: [
            said(tp.unlabeled_sets, [[0.7, 0.3], [0.1, 0.9]], s) for s in ([1], [0, 1], [np.nan, 1], "ab", [1, 2])
        ],
        "bags, shares": lambda: [
            said(tp.unlabeled_sets, P, [1, 2])
            for P in ([[0.7, 0.2], [0.1, 0.9]], [[1, 0], [1, 0]], [[-0.1, 1.1], [0.5, 0.5]])
        ],
        "groups": lambda: [
            said(tp.coarse_labels, g)
            for g in ([[0, 1], [2]], [[0, 1], [1, 2]], [[0], []], [], [[0, 0]], [0, 1], [[0, 2]], [["a"]])
        ],
        "tree": lambda: [
            said(tp.hierarchical_labels, g, c)
            for g, c in (
                ([[0, 1], [2]], 0.25),
                ([[[0, 1], [2], [3]], [[0, 1, 2, 3]]], [0.3, 0.2]),
                ([[[0, 1], [2]], [[0, 1, 2, 3]]], [0.3, 0.2]),
                ([[0, 1], [2]], [0.3, 0.2]),
                ([[[0, 1], [2]], [[0, 1, 2]]], [0.6, 0.5]),
                ([[[0, 1], [2]], [[0, 1, 2]]], [0.6, 0.4]),
                (3, 0.2),
                ([], 0.1),
            )
        ],
        "tree, matrix": lambda: describe(tp.hierarchical_labels([[[0, 1], [2], [3]], [[0, 1, 2, 3]]], [0.3, 0.2])),
        "rates": lambda: [
            said(tp.partly_labeled, 3, r)
            for r in (0.3, [0.1, 0.2, 0.3], [0.1, 0.2], 1.1, [0.1, -0.1, 0.2], np.array([0.2, 0.2, 0.1]))
        ],
        "open set": lambda: [
            said(tp.none_of_these, *a) for a in ((4, 2), (4, 3, 0.1, 0.2), (4, 4), (4, 0), (4, 2, 2.0))
        ],
        "ordinal": lambda: [
            said(lambda *a: tp.ordinal_noise(*a).matrix(), *a)
            for a in ((2, 0.3), (4, 0.3, 0.25), (4, 0.3, 1.0), (5, 1.0), (3, 0.1, 1.5))
        ],
        "sources": lambda: [
            said(tp.multi_source, *a)
            for a in (
                (["complementary:3", tp.symmetric_noise(3, 0.2)],),
                (["complementary:3", T], [0.25, 0.75]),
                ([],),
                (["pu:0.3", T],),
                ([T, T], [0.5, 0.4]),
                ("pu:0.3",),
            )
        ],
        "sources, named": lambda: tp.multi_source([T.named(["a", "b", "c"]), T]).classes,
        "sources, names apart": lambda: tp.multi_source([T.named(["a", "b", "c"]), T.named(["a", "c", "b"])]),
        "sources, pairs": lambda: (
            (S := tp.multi_source([T, tp.coarse_labels([[0, 1], [2]])], [0.3, 0.7]))
            and [
                S.encode([(0, 2), (1, 1), (1, 0)]),
                S.pairs([0, 2, 3, 4]),
                said(S.encode, [(0, 3)]),
                said(S.encode, [(1, 2)]),
                said(S.encode, [(2, 0)]),
                tp.BackwardLoss(S, ignore_index=-1).ignored(torch.tensor([[0, 1], [-1, -1], [1, 0]])),
                tp.BackwardLoss(S, ignore_index=-1).ignored(torch.tensor([0, 4, -1])),
                S.encode(torch.tensor([[1, 1]])),
                S.source_rows,
            ]
        ),
        "annotators": lambda: [
            said(tp.annotators, *a)
            for a in (
                ([T, "symmetric:0.2"],),
                ([T], 0.3),
                ([T], 1.3),
                ([],),
                (["pu:0.3", T],),
                (3,),
                (["partial:3,0.2"],),
            )
        ],
        "annotators, caution": lambda: [tp.annotators([T, T], r).caution for r in (0.0, 0.2)],
        "answers": lambda: (
            (A := tp.annotators([T, tp.Transition([[0.9, 0.2, 0.3], [0.1, 0.8, 0.7]])]))
            and [
                said(A.encode, y)
                for y in (
                    [[0, 1]],
                    [[0, 2]],
                    [[3, 0]],
                    [[-1, -1]],
                    [[-2, 0]],
                    [0, 1],
                    [[0, 1, 2]],
                    torch.tensor([[2, 1], [0, -1]]),
                )
            ]
            + [
                A.row_index(torch.tensor([[2, 1], [0, 1]])),
                said(A.row_index, torch.tensor([[0, 1], [0, -1]])),
                A.weak_labels,
                A.share_shape,
                sum(len(t.matrix()) for t in A.transitions),
            ]
        ),
        "answers, many": lambda: (
            (A := tp.annotators([T] * 9))
            and [
                said(A.matrix),
                said(lambda: A.weak_labels),
                said(A.row_index, torch.zeros(1, 9, dtype=torch.int64)),
                A.diagnose().to_dict(),
                A.log_row_maxima(),
                said(A.reconstruction, "tightest"),
                A.reconstruction().kinds().names,
                A.reconstruction("pinv", None).tables(),
                A.signature(),
            ]
        ),
        "answers, none usable": lambda: (
            (A := tp.annotators([tp.coarse_labels([[0, 1], [2]]), T]))
            and [repr(A.reconstruction()), A.reconstruction().shares(None), A.reconstruction().kinds().names]
        ),
        "answers, sparse": lambda: (
            (A := tp.annotators([T] * 12))
            and [
                A.evidence(A.encode(np.where(np.arange(12) == np.arange(4)[:, None], 1, -1))).logs(torch.float64),
                A.reconstruction().targets(np.where(np.arange(12) == np.arange(4)[:, None], 1, -1)),
                A.reconstruction().targets(np.where(np.arange(12) == np.arange(4)[:, None], -1, 2)),
            ]
        ),
        "counts": lambda: [
            said(
                lambda *a: (e := tp.Transition.from_counts(*a)) and [describe(e), str(e), e.stderr, e.interval(0.8)], *a
            )
            for a in (
                ([[20, 3], [4, 30]],),
                (crosstab,),
                (crosstab.T,),
                ([[20, 3], [4, 30]], ["x", "y"]),
                ([[20, 3], [4, 30]], None, "free"),
                ([[20, 3], [4, 30]], None, "pooled"),
                ([[0, 0], [0, 0]],),
                ([[0.8, 0.3], [0.2, 0.7]],),
                ([[-1, 3], [4, 5]],),
                ([[20.5, 3], [4, 30]],),
                ([[20, 3, 1], [4, 30, 2], [1, 1, 9]], None, "ordinal"),
                ([[20, 3, 1], [4, 30, 2], [1, 1, 9]], None, "symmetric"),
                ([[0, 13, 11], [14, 1, 12], [11, 9, 0]], None, "complementary"),
                ([[0, 13, 11], [14, 1, 12], [11, 9, 0]],),
                ([[20, 3], [4, 30]], None, "other"),
                ([[20, 3], [4, 30], [5, 0]], None, "symmetric"),
            )
        ],
        "Dirichlet": lambda: [
            said(
                lambda a: (e := tp.EstimatedTransition.from_dirichlet(a)) and [e.matrix(), e.stderr, e.samples(2, 0)], a
            )
            for a in (
                [[2, 3], [4, 1]],
                [[[2, 3], [4, 1]], [[20, 30], [40, 10]]],
                [[0, 3], [4, 1]],
                [[0, 0], [0, 1]],
                [1, 2],
                [[np.inf, 1], [1, 1]],
            )
        ],
        "draws": lambda: (
            (
                e := tp.EstimatedTransition(
                    [[0.8, 0.3], [0.2, 0.7]],
                    draws=[[[0.8, 0.3], [0.2, 0.7]], [[0.7, 0.35], [0.3, 0.65]], [[0.9, 0.2], [0.1, 0.8]]],
                    notes=["a note"],
                )
            )
            and [
                e.stderr,
                e.interval(0.5),
                e.samples(4, 1),
                str(e),
                e.draws_of_posterior(3),
                transition_to_dict(e),
                e.counts,
                e.concentration,
            ]
        ),
        "matrix": lambda: [
            said(tp.Transition, *a)
            for a in (
                ([[0.5, 0.5]],),
                ([[1.0], [0.0]],),
                ([[1.0, 1.0]],),
                ([[0.5, 0.5], [0.5, 0.5]], ["a"]),
                ([[0.5, 0.5], [0.5, 0.5]], "ab"),
                ([[0.5, 0.5], [0.5, 0.5]], ["a", "a"]),
                ([[0.5, 0.5], [0.5, 0.5]], [{0}, {5}]),
                ([[0.5, 0.5], [0.5, 0.5000011]],),
                ([[0.5, 0.5], [0.5, 0.5000009]],),
                ([[-0.1, 0.5], [1.1, 0.5]],),
                ([0.5, 0.5],),
                (pd.DataFrame([[0.8, 0.3], [0.2, 0.7]], columns=["a", "b"], index=["x", "y"]),),
                (pd.DataFrame([[0.8, 0.3], [0.2, 0.7]]),),
                (pd.DataFrame([[0.8, 0.3], [0.2, 0.7]], columns=["a", "b"], index=["a", "b"]),),
                (torch.tensor([[0.8, 0.3], [0.2, 0.7]], requires_grad=True),),
            )
        ],
        "frames": lambda: [
            describe(tp.Transition(f))
            for f in (
                pd.DataFrame([[0.8, 0.3], [0.2, 0.7]], columns=["a", "b"], index=["x", "y"]),
                pd.DataFrame([[0.8, 0.3], [0.2, 0.7]], columns=["a", "b"], index=["a", "b"]),
            )
        ],
        "R": lambda: [
            said(lambda *a: tp.Reconstruction(*a).matrix(), *a)
            for a in (
                ([[1.5, -0.5], [-0.5, 1.5]], tp.symmetric_noise(2, 0.25)),
                ([[1.5, -0.5], [-0.4, 1.5]], tp.symmetric_noise(2, 0.25)),
                ([[1.5, -0.5]], tp.symmetric_noise(2, 0.25)),
                (np.linalg.inv(np.array(UNEVEN)), T),
                (
                    np.linalg.pinv(np.array([[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]])),
                    tp.Transition([[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]]),
                ),
                (
                    np.linalg.pinv(np.array([[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]])).T,
                    tp.Transition([[0.7, 0.1], [0.2, 0.3], [0.1, 0.6]]),
                ),
                (np.array(UNEVEN), T),
            )
        ],
        "method": lambda: [
            said(lambda *a: T.reconstruction(*a).matrix(), *a)
            for a in (
                ("inverse",),
                ("no",),
                (3,),
                ("pinv", [0.2, 0.3, 0.5]),
                ("min_variance", [0.2, 0.3, 0.5]),
                ("auto", [0.2, 0.3, 0.6]),
                (T.reconstruction(),),
                (T.reconstruction(), [0.2, 0.3, 0.5]),
                (tp.symmetric_noise(3, 0.2).reconstruction(),),
            )
        ],
        "method, wide": lambda: [
            said(lambda *a: wide.reconstruction(*a).matrix(), *a)
            for a in (
                ("inverse",),
                ("pinv", [0.2, 0.3, 0.5]),
                ("min_variance", [0.2, 0.3, 0.5]),
                ("auto", [0.2, 0.3, 0.5]),
                ("tightest",),
                ("pinv",),
                ("tightest", [0.2, 0.3, 0.5]),
            )
        ],
        "close to singular": lambda: [
            said(lambda e: tp.Transition([[0.5 + e, 0.5], [0.5 - e, 0.5]]).reconstruction().residual > 1e-3, e)
            for e in (0.0, 1e-9, 1e-8, 3e-7, 1e-3)
        ],
        "same": lambda: [
            tp.symmetric_noise(3, 0.3).same_as(x)
            for x in (
                tp.Transition(tp.symmetric_noise(3, 0.3).matrix()),
                tp.symmetric_noise(3, 0.3000001),
                tp.symmetric_noise(4, 0.3),
                tp.partial_labels(3, 0.3),
                3,
                tp.complementary(3, noise=0.7),
            )
        ],
        "kind": lambda: [said(setattr, tp.symmetric_noise(3, 0.3), "label_kind", k) for k in ("names", "sets", "x")],
        "named": lambda: [
            said(T.named, n)
            for n in (
                ["a", "b", "c"],
                ["a", "b"],
                ["a", "b", "b"],
                None,
                ["a", "b", float("nan")],
                "abc",
                np.array([1.0, 2.0, 3.0]),
            )
        ],
        "diagnoses": lambda: [
            (d := t.diagnose()) and [str(d), d.to_dict(), d.confusion() if d.rank < t.num_classes else 0]
            for t in (
                tp.coarse_labels([[0, 1], [2]]),
                tp.Transition([[0.5, 0.5, 0.2], [0.5, 0.5, 0.8]]),
                tp.symmetric_noise(3, 2 / 3),
                tp.yes_no(3, 0.3, 0.7),
                tp.yes_no(2),
                tp.partial_labels(4, 1.0),
                tp.partial_labels(30, 0.3),
                tp.multi_complementary(20, 3),
                tp.symmetric_noise(3, 0.0),
                tp.Transition([[1.0, 0.0, 0.3], [0.0, 1.0, 0.7]]),
            )
        ],
    }
    return each(calls)


def kinds() -> Cases:
    """Every case by its name."""
    rooms = {"text": texts, "file": files, "kind": of_kinds, "written": written, "shares": soft, "built": built}
    return {f"{head} {name}": call for head, room in rooms.items() for name, call in room().items()}
