"""Tables in files and streams of batches; what is saved of models and read again; the arithmetic beneath."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tests.figures.said import each, plain, said

import tproper as tp
from tproper import _core as core
from tproper import data as rooms
from tproper.data.checkpoints import described, identity, module_facts, optimizer_facts
from tproper.data.sources import ParquetSource
from tproper.data.stream import Learner

Cases = dict[str, Callable[[], Any]]


def in_folder(call: Callable[[Path], Any]) -> Callable[[], Any]:
    """A call with a folder of its own, whose path messages leave out."""

    def run() -> Any:
        with TemporaryDirectory() as name:
            folder = Path(name).resolve()
            try:
                return without(call(folder), str(folder))
            except tp.InputError as error:
                raise tp.InputError(str(error).replace(str(folder), "")) from None

    return run


def without(found: Any, folder: str) -> Any:
    """Results without the folder's name."""
    if isinstance(found, str):
        return type(found)(found.replace(folder, ""))
    if isinstance(found, dict):
        return {k: without(v, folder) for k, v in found.items()}
    return [without(x, folder) for x in found] if isinstance(found, (list, tuple)) else found


def columns() -> Cases:
    """Columns of every type as numbers, texts and labels."""
    import pyarrow as pa

    big = 1 << 53
    made = {
        "integers": pa.array([3, -1, None, 7]),
        "floats": pa.array([1.5, float("nan"), None, float("inf")]),
        "bytes of text": pa.array([b"a", b"b"]),
        "text": pa.array(["a", " b ", "", "NA", None, "a"]),
        "numbers in text": pa.array(["1", " 2.5", "nan", "-3e2", ""]),
        "truths": pa.array(["true", "False", "", None]),
        "truths and numbers": pa.array(["true", "1"]),
        "codes": pa.array(["007", "+1", "12"]),
        "booleans": pa.array([True, None, False]),
        "decimals": pa.array([Decimal("1.25"), None]),
        "long decimals": pa.array([Decimal("0.5"), Decimal("0.1234567890123456789")]),
        "large": pa.array([big, big + 1, -big - 1]),
        "large, exact": pa.array([big, -big, big + 2]),
        "unsigned": pa.array([big + 3, 1], pa.uint64()),
        "large in text": pa.array(["9007199254740993", "1"]),
        "dictionary": pa.array(["x", "y", None, "x"]).dictionary_encode(),
        "nulls": pa.nulls(3),
        "empty": pa.array([], pa.int64()),
        "lists": pa.array([[0, 2], [1], [0, 1, 2]]),
        "lists with a gap": pa.array([[0, None], [1]]),
        "an empty list": pa.array([[0], []]),
        "lists beyond": pa.array([[0], [3, 5]]),
        "masks": pa.array([[True, False, True], [False, True, False]]),
        "short masks": pa.array([[True, False, True], [False, True]]),
        "empty masks": pa.array([[True, False, True], [False] * 3]),
        "fixed lists": pa.array([[0, 1], [2, 1]], pa.list_(pa.int8(), 2)),
        "lists of text": pa.array([["a", "b"], None, ["c"]]),
        "nested": pa.array([[[1]]]),
        "dates": pa.array([0, 86400], pa.timestamp("s")),
        "times": pa.array([3, 4], pa.time32("s")),
        "large text": pa.array(["a", "b"], pa.large_string()),
        "small": pa.array([1, 2], pa.int8()),
        "halves": pa.array([1.0, 2.0, 2.5]),
        "minus": pa.array([0, -2, 1]),
        "not a number": pa.array([*["1"] * 6, "x", "2"]),
    }
    out: Cases = {}
    for name, column in made.items():

        def call(column: Any = column) -> list[Any]:
            from tproper.data import columns as c
            from tproper.data import tables as t

            calls = [
                rooms.numbers,
                t.holds_truth,
                rooms.texts,
                lambda x: rooms.arrow_texts(x, "c"),
                lambda x: c.feature_values(x, "c"),
                rooms.first_inexact,
                lambda x: c.labels_of(x, "c", None),
                lambda x: getattr(m := c.labels_of(x, "c", 3), "masks", lambda: m)(),
                lambda x: (
                    [m.members, m.ends, m.shape, m[1:], m.take([1, 0]).masks()]
                    if hasattr(m := c.labels_of(x, "c", 4), "masks")
                    else m
                ),
                lambda x: c.check_label_type(x.type, "c", 3),
                lambda x: t._holds(x, pa.int64()),
                lambda x: t._holds(x, pa.float64()),
                lambda x: c.encoded_labels(x, "c", lambda v: np.arange(len(v))),
                lambda x: c.encoded_labels(x, "c", lambda v: [1]),
            ]
            found = [said(f, column) for f in calls]
            text = pa.types.is_string(column.type) and rooms.numbers(column) is None
            return [*found, said(rooms.first_text, column)] if text else found

        out[f"column, {name}"] = call

    def kinds() -> list[Any]:
        from tproper.data.columns import common_type

        types = [
            pa.int64(),
            pa.int8(),
            pa.float32(),
            pa.string(),
            pa.large_string(),
            pa.bool_(),
            pa.null(),
            pa.binary(),
            pa.decimal128(5, 2),
            pa.timestamp("s"),
            pa.list_(pa.int8()),
            pa.dictionary(pa.int8(), pa.string()),
        ]
        return [str(common_type([a, b])) for a in types for b in types]

    lists = rooms.CandidateLists.from_masks(np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], dtype=bool))
    sets = tp.partial_labels(5, 0.4)
    out |= {
        "types": kinds,
        "lists": lambda: [
            rooms.CandidateLists.joined([lists, lists.take([2, 0])]).masks(),
            len(lists),
            lists[::2],
            lists[[True, False, True]],
            lists[1:1],
        ],
        "lists, drawn": lambda: (d := rooms.CandidateLists.sample(sets, np.arange(40) % 5, 3)) and [d.masks(), d.ends],
        "lists, wrong": lambda: [
            said(lambda *a: rooms.CandidateLists(*a).masks(), *a)
            for a in (([0.5], [1], 3), ([0, 3], [2], 3), ([0, -1], [2], 3), ([], [0], 3), ([0, 2], [1, 2], 1))
        ],
        "finite": lambda: [
            said(rooms.check_finite, *a)
            for a in (
                (np.array([[1, np.nan], [np.inf, 1]]),),
                (np.array([[1, np.nan], [2, 1]]), ["a", "b"]),
                (np.array([1, np.nan]),),
                (np.array([[1, 2]]),),
                (np.ones((2, 2)),),
            )
        ],
        "numbers among": lambda: rooms.numbers_among(
            ["1", "a", " 2.5 ", "", "-3e2", ".5", "inf", "+inf", "1_0", "e5", "5."]
        ),
        "joined": lambda: rooms.joined_texts([(np.array([0, 1, -1]), ["a", "b"]), (np.array([1, 0]), ["c", "b"])]),
        "moments": moments,
        "spelling": spelling,
    }
    return out


def moments() -> list[Any]:
    """Block by block as all at once."""
    X = np.random.default_rng(1).normal(size=(50, 3)) * [1, 1e-3, 0] + [1e6, 3, 2]
    whole, parts = rooms.Moments(3), rooms.Moments(3)
    whole.add(X)
    for i in (0, 1, 20):
        parts.add(X[i : {0: 1, 1: 20, 20: 50}[i]])
    far = rooms.Moments(1)
    far.add(np.array([[1e308], [-1e308]]))
    return [whole.scaling("abc"), parts.scaling("abc"), parts.rows, said(far.scaling, "a")]


def spelling() -> list[Any]:
    """Names that look alike."""
    names = [
        "cat",
        "Cat",
        "cat ",
        "dog",
        "doge",
        "1",
        "1.0",
        "01",
        "2",
        "bird.",
        "bird",
        "None",
        "cat, dog",
        "not cat",
        "na\u00efve",
        "nai\u0308ve",
        "  x",
    ]
    counts = {name: 1 + 7 * i % 30 for i, name in enumerate(names)}
    often = {"horse": 20, "horsa": 1, "mouse": 19, "mousa": 1, "horses": 2, "1234": 40, "1235": 1, "hor": 1}
    return [
        rooms.look_alikes(counts),
        rooms.look_alikes(often),
        rooms.misreadings(["cat", "CAT", "Dog", "x"], ["cat", "dog", "cat,dog", "none", "dog/cat", "NA"]),
        rooms.misreadings(["not a"], ["not a", "not b"]),
        rooms.misreadings([], []),
        rooms.float_twins(["3", "3.0", "4", "4.0"]),
        rooms.float_twins(["3", "4.0"]),
        [rooms.nearest(n, names) for n in ("cta", "2.0", "1", "nai\u0308v", "x", "zzz", "na\u00efvee")],
    ]


def tables() -> Cases:
    """Tables in files: read by blocks, refused by line, written and read again."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    texts: dict[str, str | bytes] = {
        "plain.csv": "a,b,c\n1,x,\n2.5,y,7\n3,,8\n",
        "tabs.tsv": "a\tb\n1\tx y\n",
        "quotes.csv": 'a,b\n"x,""1""",2\n"two\nlines",3\n',
        "open.csv": 'a,b\n"x,1\n2,3\n4,5\n',
        "swallowed.csv": 'a,b\n"x,1\ny",2"\n3,4\n',
        "ragged.csv": "a,b\n1,2\n3,4,5\n",
        "empty.csv": "",
        "header.csv": "a,b\n",
        "twice.csv": "a,b,a\n1,2,3\n",
        "semi.csv": "a;b\n1,5;2,5\n",
        "latin.csv": "a,b\n\xe9,2\n".encode("latin-1"),
        "packed.csv": gzip.compress(b"a\n1\n"),
        "packed.csv.gz": gzip.compress(b"a,b\n1,x\n"),
        "cut.csv.gz": gzip.compress(b"a,b\n1,x\n" * 99)[:-9],
        "zip.csv": b"PK\x03\x04zzz",
        "utf16.csv": "a,b\n".encode("utf-16"),
        "book.xlsx": b"PK",
        "bom.csv": "\ufeffa,b\n1,2\n",
        "one.csv": "a\n1\n\n2\n",
        "codes.csv": "a,b,c,d\n007,1,1.5,+1\n1,2,2,3\n",
        "crlf.csv": "a,b\r\n1,2\r\n",
    }

    def read(folder: Path, name: str) -> list[Any]:
        path = folder / name
        held = texts[name]
        path.write_bytes(held if isinstance(held, bytes) else held.encode())
        table = rooms.open_table(path)
        blocks = [b.to_pydict() for b in table.batches()]
        return [
            table.names,
            table.format,
            repr(table),
            blocks,
            {n: str(t) for n, t in table.types(table.names).items()},
            said(table.require, "A", "--label"),
            [b.to_pydict() for b in table.batches(table.names[:1])],
        ]

    def parquet(folder: Path) -> list[Any]:
        rng = np.random.default_rng(2)
        out: list[Any] = []
        for i, extra in enumerate(
            ({}, {"c": pa.array([1.5] * 7)}, {"b": pa.array(["x"] * 7)}, {"b": pa.array(np.arange(7) / 2)})
        ):
            sub = folder / f"f{i}"
            sub.mkdir()
            base = {"a": pa.array(rng.normal(size=7)), "b": pa.array(np.arange(7))}
            pq.write_table(pa.table(base), sub / "part-2.parquet", row_group_size=3)
            pq.write_table(pa.table(base | extra), sub / "part-10.parquet")
            (sub / "_notes.txt").write_text("x")
            out.append(
                said(
                    lambda sub=sub: (
                        (t := rooms.open_table(sub))
                        and [
                            t.rows,
                            t.names,
                            t.in_folders,
                            {n: str(k) for n, k in t.types(t.names).items()},
                            [b.num_rows for b in t.batches(["a"])],
                        ]
                    )
                )
            )
            out.append(said(lambda sub=sub: [b.to_pydict() for b in rooms.open_table(sub).batches()]))
        (folder / "year=2023").mkdir()
        (folder / "empty").mkdir()
        pq.write_table(pa.table(base), folder / "year=2023" / "x.parquet")
        return [
            *out,
            said(rooms.open_table, folder / "empty"),
            said(rooms.open_table, folder / "none.csv"),
            said(lambda: rooms.open_table(folder / "year=2023").names),
        ]

    def written(folder: Path) -> list[Any]:
        import io

        table = {
            "a": np.array([1.5, np.nan, 3]),
            "b": pa.array(["x", 'q"u', None]),
            "c": pa.array([["k", "l"], ["m"], None]),
            "d": pa.array([True, False, None]),
        }
        out: list[Any] = []
        for kind in ("csv", "tsv"):
            stream = io.BytesIO()
            with rooms.TableWriter(stream, kind) as writer:
                writer.write(table)
                writer.write(table)
            out.append(stream.getvalue().decode())
            out.append(said(lambda kind=kind: rooms.TableWriter(io.BytesIO(), kind).write({"s": pa.array([{"x": 1}])})))
        lone = io.BytesIO()
        rooms.TableWriter(lone, "csv").write({"a": pa.array(["", "x", "a,b", "line\nend"])})
        with rooms.TableWriter(folder / "t.parquet", "parquet", {"b": pa.string(), "n": pa.int64()}) as writer:
            writer.write({"n": pa.array(["1", "", "3"]), "b": pa.array(["x", "y", "z"])})
        with rooms.TableWriter(folder / "t.csv", "csv") as writer:
            writer.write({"n": pa.array([1, 2]), "x": pa.array([0.1, 1e-20])})
        back = pq.read_table(folder / "t.parquet")
        return [*out, lone.getvalue().decode(), str(back.schema), back.to_pydict(), (folder / "t.csv").read_text()]

    out: Cases = {f"table, {name}": in_folder(lambda folder, name=name: read(folder, name)) for name in texts}
    return out | {
        "tables, parquet": in_folder(parquet),
        "tables, written": in_folder(written),
        "formats": lambda: [
            said(rooms.format_of, Path(p))
            for p in ("a.csv", "a.CSV.GZ", "a.tsv", "a.pq", "a.txt", "a", "a.gz", "a.parquet.gz")
        ],
        "short": lambda: [rooms.short(list("abcdefgh")), rooms.short(list("abcdefghi"))],
    }


def streams() -> Cases:
    """Streams of batches: order, skipping, moments, checkpoints, wrong ones."""
    import pyarrow as pa
    import pyarrow.feather as feather
    import pyarrow.parquet as pq

    rng = np.random.default_rng(4)
    X = rng.normal(size=(41, 2)).astype(np.float64)
    z = (X[:, 0] > 0).astype(int)
    T = tp.symmetric_noise(2, 0.2)
    y = T.sample(z, seed=1)
    table = pa.table({"u": X[:, 0], "v": X[:, 1], "y": y})

    def files(folder: Path) -> Path:
        pq.write_table(table.slice(0, 17), folder / "p1.parquet", row_group_size=5)
        pq.write_table(table.slice(17, 20), folder / "p2.parquet", row_group_size=20)
        feather.write_feather(table.slice(37), folder / "p3.arrow", compression="uncompressed")
        return folder

    def order(folder: Path) -> list[Any]:
        out: list[Any] = []
        for some in (
            {},
            {"batch_size": 4},
            {"batch_size": 6, "block_rows": 8},
            {"batch_size": 7, "shuffle": False},
            {"batch_size": 5, "seed": 3, "features": ["v"]},
        ):
            source = ParquetSource(files(folder), "y", **some)
            found = [list(source.batches(e, skip)) for e in (0, 1) for skip in (0, 1, 3)]
            out.append(
                [
                    len(source),
                    source.rows,
                    source.features,
                    source.moments(),
                    [[(len(a), a.dtype.name, float(a.sum()), float(a[0, 0]), b[:3]) for a, b in run] for run in found],
                ]
            )
        facts = source.identity()
        facts["files"] = {name: held[:2] for name, held in facts["files"].items()}
        return [*out, facts]

    def wrong(folder: Path) -> list[Any]:
        files(folder)
        pq.write_table(pa.table({"u": ["a", "b"], "y": [0, 1]}), folder / "text.pq")
        pq.write_table(pa.table({"u": [1.0, None], "v": [0.0, 1.0], "y": [0, 1]}), folder / "gap.pq")
        pq.write_table(pa.table({"u": [1.0, np.inf], "v": [0.0, 1.0], "y": [0, 1]}), folder / "inf.pq")
        pq.write_table(pa.table({"u": [1.0, 1e300], "v": [0.0, 1.0], "y": [0, None]}), folder / "label.pq")
        pq.write_table(pa.table({"u": [1.0], "y": [[0]]}), folder / "sets.pq")
        pq.write_table(pa.table({"y": [1]}), folder / "alone.pq")
        pq.write_table(pa.table({"u": pa.array([], pa.float64()), "y": pa.array([], pa.int64())}), folder / "none.pq")
        p1 = folder / "p1.parquet"
        tries: list[tuple[Any, dict[str, Any]]] = [
            (p1, {"features": ["w"]}),
            (p1, {"features": []}),
            (p1, {"features": ["u", "u"]}),
            (p1, {"features": ["y", "u"]}),
            (p1, {"batch_size": 0}),
            (p1, {"seed": -1}),
            (p1, {"block_rows": 0}),
            (folder / "text.pq", {}),
            (folder / "gap.pq", {}),
            (folder / "inf.pq", {}),
            (folder / "label.pq", {}),
            (folder / "sets.pq", {}),
            (folder / "sets.pq", {"num_classes": 2}),
            (folder / "sets.pq", {"num_classes": 1}),
            (folder / "alone.pq", {}),
            (folder / "none.pq", {}),
            ([p1, folder / "sets.pq"], {}),
            (folder / "nothing", {}),
            (folder, {}),
            ([p1, p1], {"batch_size": 50}),
        ]
        out = [
            said(lambda p=p, s=s: [(a[:2], b[:2]) for a, b in ParquetSource(p, "y", **s).batches(0)]) for p, s in tries
        ]
        source = ParquetSource(p1, "y", batch_size=4)
        os.utime(p1, (1, 1))
        out.append(said(lambda: list(source.batches(0))))
        p1.unlink()
        return [*out, said(lambda: list(source.batches(0))), said(ParquetSource, p1, "x")]

    pairs = [(X[:10], y[:10]), (X[10:25], y[10:25]), (X[25:], y[25:])]

    def learner(seed: int = 0) -> Learner:
        torch.manual_seed(seed)
        module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        return Learner(module, tp.ForwardLoss(T), lambda p: torch.optim.Adam(p, lr=0.05))

    def trained(folder: Path) -> list[Any]:
        seen: list[Any] = []

        def watch(at: Any) -> None:
            seen.append([at.epoch, at.batches, at.rows, at.total_rows])

        whole = rooms.fit_stream(
            learner(), ParquetSource(files(folder), "y", batch_size=8, dtype=np.float64), epochs=3, progress=watch
        )
        path = folder / "c.safetensors"
        source = ParquetSource(files(folder), "y", batch_size=8, dtype=np.float64)
        rooms.fit_stream(learner(), source, epochs=1, checkpoint=path)
        header, tensors = core.read_sealed(path)
        again = rooms.fit_stream(learner(7), source, epochs=3, checkpoint=path, progress=watch)
        other = [
            said(lambda a=a, s=s, e=e: rooms.fit_stream(a, s, epochs=e, checkpoint=path))
            for a, s, e in (
                (learner(), source, 2),
                (learner(), ParquetSource(files(folder), "y", batch_size=9, dtype=np.float64), 4),
                (slower(), source, 4),
                (learner(), pairs, 4),
            )
        ]
        path.write_bytes(path.read_bytes()[:-20])
        other.append(said(lambda: rooms.fit_stream(learner(), source, epochs=1, checkpoint=path).predict_proba(X[:3])))
        path.write_bytes(b"something else")
        other.append(said(lambda: rooms.fit_stream(learner(), source, epochs=1, checkpoint=path)))
        return [
            seen,
            whole.predict_proba(X[:5]),
            again.predict_proba(X[:5]),
            header["progress"].split('"seconds"')[0],
            {k: v.shape for k, v in sorted(tensors.items()) if "random" not in k},
            other,
        ]

    def slower() -> Learner:
        torch.manual_seed(0)
        module = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
        return Learner(module, tp.BackwardLoss(T), lambda p: torch.optim.Adam(p, lr=0.01))

    def estimator(folder: Path) -> list[Any]:
        def clf(seed: int | None = 0, **some: Any) -> Any:
            return tp.WeakLabelClassifier(T, model="mlp", hidden=(4,), random_state=seed, learning_rate=0.05, **some)

        path = folder / "c.safetensors"
        whole = rooms.fit_stream(clf(), pairs, epochs=3)
        rooms.fit_stream(clf(), pairs, epochs=1, checkpoint=path)
        again = rooms.fit_stream(clf(), pairs, epochs=3, checkpoint=path)
        tries = [
            said(lambda m=m, c=c: rooms.fit_stream(m, pairs, epochs=4, checkpoint=path, classes=c))
            for m, c in (
                (clf(None), None),
                (clf(1), None),
                (clf(hidden=(5,)), None) if False else (clf(2), None),
                (clf(), [0, 1]),
            )
        ]
        return [whole.predict_proba(X[:5]), again.predict_proba(X[:5]), again.n_iter_, again.history_, tries]

    def facts() -> list[Any]:
        one = learner()
        source = rooms.IterableSource(pairs)
        values: list[Any] = [
            np.float32(1.5),
            {3, 1, 2},
            (1, [2, "a"]),
            {"k": np.arange(3)},
            np.array(["a", "b"], dtype=object),
            torch.arange(3),
            T,
            tp.ForwardLoss(T),
            len,
            np.array([[0.5, 1]]),
            Decimal,
            tp.Brier(),
            object,
            tp.Transition([[0.5, 0.5], [0.5, 0.5]], [("a", 1), {0}]),
        ]
        return [
            module_facts(one.module),
            optimizer_facts(one.optimizer),
            identity(one, source),
            [described(v) for v in values],
        ]

    fit = rooms.fit_stream
    refusals: dict[str, Callable[[], Any]] = {
        "once": lambda: (
            [said(fit, learner(), iter(pairs), epochs=e) for e in (1, 2)]
            and [fit(learner(), iter(pairs)).predict_proba(X[:2]), said(fit, learner(), iter(pairs), epochs=2)]
        ),
        "none": lambda: said(fit, learner(), []),
        "a function": lambda: fit(learner(), lambda: pairs, epochs=2).predict_proba(X[:2]),
        "no pairs": lambda: [said(fit, learner(), b) for b in ([X], [(X, y, y)], 3)],
        "classes": lambda: said(fit, learner(), pairs, classes=[0, 1]),
        "no learner": lambda: said(fit, 3, pairs),
        "epochs": lambda: said(fit, learner(), pairs, epochs=0),
        "not finite": lambda: said(fit, learner(), [(np.where(X > 1, np.nan, X), y)]),
        "diverged": lambda: said(fit, learner(), [(X * 1e308, y)]),
        "skipped": lambda: [
            said(lambda s=s: [len(b[1]) for b in rooms.IterableSource(pairs).batches(0, s)]) for s in (0, 2, 3, 4)
        ],
        "progress": lambda: [
            str(rooms.StreamProgress(*a))
            for a in ((0, 1, 500, 2.0, 2000), (3, 1, 500, 2.0), (0, 0, 0, 0.0, 10), (1, 2, 12345, 0.5, 20000))
        ],
        "checkpoint of none": lambda: said(
            fit, type("Own", (), {"partial_fit": lambda self, X, y: None})(), pairs, checkpoint="x"
        ),
    }
    return {
        "stream, order": in_folder(order),
        "stream, wrong": in_folder(wrong),
        "stream, trained": in_folder(trained),
        "stream, classifier": in_folder(estimator),
        "stream, facts": facts,
        **{f"stream, {n}": c for n, c in refusals.items()},
    }


def arithmetic() -> Cases:
    """Sums, roots, projections, folds and keys."""
    rng = np.random.default_rng(7)
    v = torch.as_tensor(rng.normal(size=(5, 4)) * [[0.1], [1], [3], [30], [1000]])
    tied = torch.tensor([[1.0, 1, 0, 0], [0, 0, 0, 0], [2, 1, 1, -torch.inf]], dtype=torch.float64)
    groups = np.array([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, 4, 5])

    def folds() -> list[Any]:
        def gen() -> np.random.Generator:
            return np.random.default_rng(3)

        return [
            core.random_folds(11, 3, gen()),
            core.random_folds(12, 3, gen(), groups),
            core.fold_numbers(11, 4, gen()),
            core.fold_numbers(12, 4, gen(), groups),
            said(core.fold_numbers, 12, 7, gen(), groups),
            core.fold_numbers(12, 6, gen(), groups),
            [core.held_out_rows(12, s, gen(), g) for s in (0.0, 0.2, 0.5, 0.99) for g in (None, groups)],
            [
                said(core.group_codes, g, 4)
                for g in (
                    None,
                    ["a", "b", "a", "c"],
                    [1, 1, 1, 1],
                    [1.0, np.nan, 2, 3],
                    ["a", None, "b", "c"],
                    [1, 2, 3],
                    [1, "a", 2, "b"],
                )
            ],
            [said(core.compact, g) for g in (None, np.array([3, 3]), np.array([5, 3, 5]))],
        ]

    def roots() -> list[Any]:
        low, high = torch.zeros(3, 1, dtype=torch.float64), torch.full((3, 1), 9.0, dtype=torch.float64)
        goal = torch.tensor([[1.0], [8.0], [300.0]], dtype=torch.float64)
        return [
            core.increasing_root(lambda x: (x**3 - goal, 3 * x**2), low, high),
            core.increasing_root(lambda x: (x**3 - goal, torch.full_like(x, torch.nan)), low, high),
            core.increasing_root(lambda x: (x**3 - goal, 3 * x**2), low, high, high / 2, tol=1e-3),
        ]

    X = rng.normal(size=(6, 3)) * [1, 0, 1e-9] + [5, 2, 1e6]
    return each(
        {
            "centred": lambda: [core.centre(v), core.centre(tied), core.centre(v.float())],
            "simplex": lambda: [
                core.project_simplex(v),
                core.simplex_threshold(v),
                core.simplex_threshold(v, torch.tensor([1.0, 2, 1, 3]).double().expand(5, 4)),
                core.project_simplex(tied[:2]),
            ],
            "spherical": lambda: [core.spherical_threshold(v), core.spherical_threshold(tied[:2])],
            "entmax": lambda: [core.entmax(x, a) for x in (v, tied[:2]) for a in (0.5, 1.2, 1.5, 2.0, 3.0, 12.0)],
            "roots": roots,
            "columns": lambda: [
                core.short_of_one(X),
                core.in_simplex(np.array([[0.5, 0.5], [1.1, -0.1], [1, 0], [1 + 1e-14, -1e-14]])),
                core.critical_k_of(rng.normal(size=(5, 4)) + 0.25),
                core.centred_basis(4),
            ],
            "standard": lambda: [
                core.standardised(X),
                core.limited_deviations(X.var(0), X.mean(0)),
                core.units(X.mean(0), X.std(0)),
            ],
            "mixtures": lambda: [
                core.log_mixture(v, v.flip(0)),
                core.log_total(v),
                core.log_total(torch.full((2, 3), -torch.inf)),
                core.safe_log(torch.tensor([0.0, 0.5, 1.0])),
                core.inner(v, tied[0]),
            ],
            "shares": lambda: (
                core.mixture_shares(rng.dirichlet(np.ones(3), (1, 40)).swapaxes(0, 1).reshape(1, 40, 3))
                if False
                else core.drawn_classes(rng.dirichlet(np.ones(3), 6), np.random.default_rng(0))
            ),
            "folds": folds,
            "encodings": lambda: [
                core.other_encoding(b)
                for b in (
                    b"abcd",
                    b"\xff\xfea\0",
                    b"\xfe\xff\0a",
                    b"\xff\xfe\0\0",
                    b"a\0b\0",
                    b"\0a\0b",
                    b"ab",
                    b"a\0bc",
                    b"",
                )
            ],
            "keys": lambda: [
                core.json_hash({"a": [1, 2]}),
                core.json_text({"b": 1, "a": [1.5, None]}),
                core.count_text(10**30),
                core.count_text(12345),
            ],
            "plain": lambda: [
                core.plain(x, m)
                for m in (None, 3)
                for x in (
                    {
                        "a": np.arange(5),
                        "b": [np.nan, np.inf, -np.inf],
                        "c": {"d": np.float32(1.5), "e": (1, None, True)},
                    },
                    np.eye(2),
                )
            ],
            "finite": lambda: [core.finite_number(x) for x in (1, 1.5, np.inf, np.nan, True, "1", None, np.float64(2))],
            "tensors": lambda: [
                core.all_finite(t)
                for t in (
                    [],
                    [torch.tensor([1.0, torch.inf])],
                    [torch.arange(3)],
                    [torch.ones(2), torch.tensor([torch.nan])],
                )
            ],
            "thinned": lambda: (r := [(i,) for i in range(9)]) and [core.thin(r, lambda x: x[0], 8), r],
        }
    )


def models() -> Cases:
    """Models of every kind: several labels, gains, scorers, settings, saved and read again."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(150, 3))
    z = (X @ rng.normal(size=(3, 3)) + rng.gumbel(size=(150, 3))).argmax(1)
    names = np.array(["ant", "bee", "cat"])
    T = tp.Transition([[0.7, 0.1, 0.25], [0.1, 0.7, 0.15], [0.2, 0.2, 0.6]]).named(names)
    y = names[T.sample(z, seed=1)]
    w = np.arange(150) % 4 / 2.0

    def saved(make: Callable[[], Any], probe: Any = None) -> Callable[[], Any]:
        def call(folder: Path) -> list[Any]:
            model = make()
            path = folder / "model"
            said_now = said(tp.save, model, path)
            if not path.exists():
                return said_now
            again = tp.load(path)
            listed = sorted(p.name for p in path.rglob("*")) if path.is_dir() else [path.name]
            rows = X[:6] if probe is None else probe
            return [
                listed,
                repr(again),
                plain(again.predict_proba(rows) if hasattr(again, "predict_proba") else again.probabilities(rows)),
                said(tp.save, model, path),
            ]

        return in_folder(call)

    def clf(**some: Any) -> Any:
        return tp.WeakLabelClassifier(T, random_state=0, l2=0.01, **some).fit(X, y, sample_weight=w)

    q = np.abs(rng.normal(size=(150, 3))) + 0.1
    q /= q.sum(1, keepdims=True)
    kinds: dict[str, Callable[[], Any]] = {
        "linear": clf,
        "uncalibrated": lambda: clf(calibrate=False),
        "vector": lambda: clf(calibrate="vector"),
        "backward": lambda: clf(loss="backward", squeeze=(1, 2)),
        "network": lambda: clf(model="mlp", hidden=(3,), epochs=2),
        "boosting": lambda: clf(model="boosting"),
        "calibrator": lambda: tp.calibrate(q, y, T, sample_weight=w),
        "bias": lambda: tp.calibrate(q, y, T, method="bias"),
        "bags": lambda: tp.WeakLabelClassifier(
            tp.unlabeled_sets([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], [10, 20, 30], [0.5, 0.3, 0.2]),
            random_state=0,
            l2=0.01,
        ).fit(X, np.arange(150) % 3),
        "a function": lambda: clf(model=lambda d, K: torch.nn.Linear(d, K), epochs=2),
        "several": lambda: tp.MultiLabelClassifier("symmetric:0.2", random_state=0).fit(
            X, np.stack([z == 0, z == 1], 1).astype(int)
        ),
    }
    out: Cases = {
        f"saved {name}": saved(make, q[:6] if name in ("calibrator", "bias") else None) for name, make in kinds.items()
    }
    multi = np.stack([z == 0, z == 1, X[:, 0] > 0], 1).astype(int)

    def several(Y: Any, transition: Any = "symmetric:0.2", **some: Any) -> list[Any]:
        model = tp.MultiLabelClassifier(transition, random_state=0, **some).fit(X, Y)
        s = model.weak_scores(X, Y)
        return [
            model.predict_proba(X[:4]),
            model.predict(X[:4]),
            str(s),
            s.average,
            repr(model),
            model.classes_,
            model.score(X, Y) if hasattr(model, "score") else 0,
        ]

    frame = {
        "Y": multi,
        "gaps": np.where(rng.random((150, 3)) < 0.2, -1, multi),
        "one": multi[:, :1],
        "flat": multi[:, 0],
        "constant": np.zeros((150, 2), dtype=int),
        "numbers": multi + 1,
        "booleans": multi.astype(bool),
    }
    for name, Y in frame.items():
        out[f"several, {name}"] = lambda Y=Y: said(several, Y)
    out |= {
        "several, T each": lambda: [
            said(several, multi, t)
            for t in (["symmetric:0.2", "pu:0.8", "binary:0.1,0.2"], ["symmetric:0.2"], {"a": "symmetric:0.2"})
        ],
        "scorers": lambda: (
            [said(lambda m=m: tp.weak_scorer(m, T)(clf(), X, y)) for m in ("accuracy", "log_loss", "brier", "other")]
            + [said(lambda: tp.calibrated_scorer(T)(clf(), X, y))]
        ),
        "scored": lambda: [
            said(lambda s=s: (m := clf()) and [str(m.score(X, y)), m.score(X, y, sample_weight=w) if s else 0])
            for s in (False, True)
        ],
        "loaded, wrong": in_folder(
            lambda folder: [
                said(tp.load, folder / "none"),
                (folder / "x").write_text("x") and said(tp.load, folder / "x"),
                said(tp.save, 3, folder / "y"),
                said(tp.save, tp.WeakLabelClassifier(T), folder / "z"),
            ]
        ),
        "settings": lambda: [
            said(lambda s=s: tp.WeakLabelClassifier(T, **s).fit(X, y).n_iter_)
            for s in (
                {"l2": -1},
                {"loss": "x"},
                {"model": "x"},
                {"epochs": 0},
                {"calibrate": "x"},
                {"hidden": (0,), "model": "mlp"},
                {"learning_rate": 0, "model": "mlp"},
                {"batch_size": 0, "model": "mlp"},
                {"tune": 3},
                {"tune": {"x": [1]}},
                {"tune": {"l2": []}},
                {"random_state": "x"},
                {"potential": "x", "loss": "backward"},
                {"squeeze": (1,), "loss": "backward"},
            )
        ],
        "data": lambda: [
            said(lambda a=a: tp.WeakLabelClassifier(T, random_state=0, l2=0.01).fit(*a).classes_)
            for a in (
                (X[:5], y),
                (X, y[:5]),
                (X[:, 0], y),
                (np.where(X > 2, np.nan, X), y),
                (X, ["dog"] * 150),
                (X, [None] * 150),
                (X[:0], y[:0]),
                (X, np.where(np.arange(150) % 9 == 0, None, y)),
                (X * 1e200, y),
            )
        ],
        "weights": lambda: [
            said(lambda v=v: tp.WeakLabelClassifier(T, random_state=0, l2=0.01).fit(X, y, sample_weight=v).coef_)
            for v in (w, -w, w[:3], np.zeros(150), np.full(150, np.nan), w * 1e6)
        ],
        "solvers": lambda: [
            said(
                lambda s=s: (
                    (
                        m := tp.WeakLabelClassifier(T, random_state=0, **s).fit(
                            X, y, sample_weight=w, true=np.where(np.arange(150) % 3 == 0, names[z], None)
                        )
                    )
                    and [m.predict_proba(X[:4]), m.history_[-1:]]
                )
            )
            for s in (
                {"l2": 0.1, "loss": "nonnegative", "epochs": 3},
                {"model": "mlp", "hidden": (4,), "epochs": 6, "early_stopping": True},
                {"model": "mlp", "hidden": (4, 3), "epochs": 3, "batch_size": 16},
                {"l2": 0.0},
            )
        ],
    }
    return out


def streamed() -> Cases:
    """Every case by its name."""
    return columns() | tables() | streams() | arithmetic() | models()
