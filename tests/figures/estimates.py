"""Cases of estimation: long tables, names, gaps, copies, rules, designs of known rows, samplings, class shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from tests.figures.keeping import Word
from tests.figures.more import crowd_of, world
from tests.figures.scores import SKEWED, limited, uneven, weights, whole

import tproper as tp

Cases = dict[str, Callable[[], Any]]


def of_T(T: tp.Transition) -> list[Any]:
    """The matrix, its errors, and what is said of it."""
    more = [T.stderr, T.interval(0.8), T.samples(3, 1), T.notes] if isinstance(T, tp.EstimatedTransition) else []
    return [T.matrix(), *more, str(T), T.labels.names if T.labels.classes else 0]


def some_rows(table: Any, rows: int = 12) -> list[Any]:
    """The first rows of a table, and all by their sums and squares."""
    return [table[:rows], np.nansum(table, axis=0), np.nansum(np.square(table))]


def of_crowd(found: Any, rows: int = 12) -> list[Any]:
    """Everything that an estimate of annotators says."""
    classifier = [found.classifier.coef_, found.classifier.intercept_] if found.classifier is not None else []
    tempering = str(found.tempering) if found.tempering is not None else ""
    return [
        some_rows(found.posteriors, rows),
        found.prior,
        found.strength,
        found.rho,
        found.design_effect,
        classifier,
        tempering,
        [Word(str(c)) for c in found.labels[:rows].tolist()],
        [str(c) for c in found.copied],
        [str(g) for g in found.missing],
        found.notes,
        found.unidentified,
        found.counted_as,
        [[t.matrix(), t.stderr] for t in found.transitions],
        [t.matrix() for t in found.transition.separate],
        str(found),
    ]


def long_tables() -> Cases:
    """Answers in long form and wide, by names and numbers, twice, out of order, with known classes in all forms."""
    import pandas as pd

    rng = np.random.default_rng(11)
    z = rng.integers(0, 3, 40)
    item, who = rng.permutation(np.repeat(np.arange(40), 4)), rng.integers(0, 6, 160)
    said = np.where(rng.random(160) < 0.75, z[item], rng.integers(0, 3, 160))
    names = np.array(["cat", "dog", "eel"])
    people = np.array([f"p{i}" for i in range(6)])
    far = np.array([3, 5, 900, 12, 70000, 8])
    holes = np.where(rng.random(160) < 0.1, -1, said)
    texts = np.array([None if h < 0 else names[h] for h in holes], dtype=object)
    order = np.argsort(item, kind="stable")
    frame = pd.DataFrame(crowd_of(z, 3, 3, 0.2, 12), index=[f"i{i}" for i in range(40)], columns=["ann", "bob", "cy"])
    named = pd.DataFrame(np.where(frame < 0, "", names[frame.to_numpy()]), index=frame.index, columns=frame.columns)
    gold = np.where(np.arange(40) % 3 == 0, z, -1)
    lone = tp.Answers(np.arange(40), np.arange(40) % 5, said[:40])

    def told(answers: Any, **some: Any) -> list[Any]:
        found = tp.estimate_annotators(answers, random_state=0, **some)
        a = found.answers
        return [
            str(a),
            len(a),
            [[x[:20], x.sum(), x @ np.arange(len(x))] for x in (a.item, a.annotator, a.answer)],
            a.repeated(),
            a.named,
            [Word(str(x)) for x in a.items.tolist()[:9]],
            [Word(str(x)) for x in a.annotators.tolist()],
            [Word(str(x)) for x in a.classes.tolist()],
            of_crowd(found),
        ]

    def wide() -> list[Any]:
        return [
            tp.Answers(item[order][::4], who[order][::4], said[order][::4]).table(),
            tp.Answers.from_table(named).table(),
        ]

    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "out of order": (tp.Answers(item, who, said), {}),
        "in order": (tp.Answers(item[order], who[order], said[order]), {}),
        "by name": (tp.Answers(item.astype(str), people[who], texts), {}),
        "by text": (tp.Answers(item.astype(str), people[who], names[said]), {}),
        "by text, known": (tp.Answers(item, people[who], names[said]), {"true": names[z]}),
        "far apart": (tp.Answers(far[item % 6] * 7 + item, far[who], holes), {}),
        "objects": (tp.Answers(item.astype(object), who.tolist(), said.astype(float)), {}),
        "frame": (frame, {}),
        "names in a frame": (named, {}),
        "known by item": (tp.Answers(item, who, said), {"true": gold}),
        "known by answer": (tp.Answers(item, who, said), {"true": gold[item]}),
        "known in a dict": (tp.Answers(item, who, said), {"true": {i: int(z[i]) for i in range(0, 40, 4)}}),
        "known by name": (
            tp.Answers(item, people[who], texts),
            {"true": {i: names[z[i]] for i in range(0, 40, 4)} | {1: None}},
        ),
        "known, a frame": (named, {"true": ["" if g < 0 else names[g] for g in gold]}),
        "more classes": (tp.Answers(item, who, said), {"num_classes": 4}),
        "more classes, known": (frame, {"true": np.where(np.arange(40) == 5, 4, gold)}),
        "fewer classes": (tp.Answers(item, who, said), {"num_classes": 2, "true": np.minimum(gold, 1)}),
        "known in two ways": (lone, {"true": z}),
        "known twice": (tp.Answers([0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 1, 1]), {"true": [0, 1, 1, 1]}),
        "unknown class": (named, {"true": ["fox"] * 40}),
        "another order": (named, {"true": pd.Series(gold, index=frame.index[::-1])}),
        "prior by class": (frame, {"prior_counts": [0.5, 4.0, 2.0]}),
        "prior refused": (frame, {"prior_counts": [1.0, 0.0, 1.0]}),
        "prior without a number": (frame, {"prior_counts": [1.0, np.nan, 1.0]}),
        "a short prior": (frame, {"prior_counts": [1.0, 2.0]}),
        "one meaning each": (frame, {"missing": ["random", "answer", "auto"]}),
        "meanings by name": (frame, {"missing": {"bob": "answer"}}),
        "no meaning": (frame, {"missing": 3}),
        "meaning of nobody": (frame, {"missing": {"dan": "answer"}}),
    }
    return {name: lambda a=a, s=s: told(a, **s) for name, (a, s) in runs.items()} | {
        "tables": wide,
        "two answers to one item": lambda: tp.Answers([0, 0], [1, 1], [0, 1]).table(),
        "a long and a short column": lambda: tp.Answers([0, 0], [1, 1], [0]),
        "below": lambda: tp.Answers([0, 0], [1, 2], [0, -2]),
        "halves": lambda: tp.Answers([0, 0], [1, 2], [0, 0.5]),
        "codes": lambda: [
            tp.Answers([0, 0], [1, 2], [0, 99_999]).classes.size,
            tp.Answers([0, 0], [1, 2], [0, 100_000]),
        ],
        "unsigned": lambda: tp.Answers([0, 0], [1, 2], np.array([0, 255], dtype=np.uint8)),
    }


def annotators() -> Cases:
    """Crowds: copies, common errors, a class that nobody names, one answer an item, features, rounds cut short."""
    n = 120
    X, z, _ = world(3, n, 13)
    rng = np.random.default_rng(14)
    gold = np.where(np.arange(n) % 4 == 0, z, -1)
    wide = crowd_of(z, 3, 5, 0.3, 15)
    full = crowd_of(z, 3, 6, 0.0, 16)
    copied = np.column_stack([full, *[np.where(rng.random(n) < 0.95, full[:, 5], full[:, 0]) for _ in range(4)]])
    pair = np.column_stack([full[:, :2], np.where(rng.random(n) < 0.97, full[:, 1], full[:, 0])])
    common = np.where((rng.random(n) < 0.25)[:, None], ((z + 1) % 3)[:, None], crowd_of(z, 3, 6, 0.1, 17))
    inverted = np.where(rng.random((n, 5)) < 0.8, (wide + 1) % 3, wide)
    two = np.where(wide == 2, -1, wide)
    many = crowd_of(z, 3, 14, 0.5, 18)
    unlike = many.copy()
    unlike[:, 3], unlike[:, 9] = rng.integers(0, 3, n), (z + 1) % 3
    alone = np.where(np.arange(4) == rng.integers(0, 4, n)[:, None], crowd_of(z, 3, 4, 0.0, 19), -1)
    agreed = np.tile(z[:, None], (1, 3))
    other = np.where(rng.random(wide.shape) < 0.1, 3, wide)
    swapped = crowd_of(z, 3, 5, 0.1, 20)
    swapped = np.where(swapped < 0, -1, np.array([1, 0, 2])[swapped])
    pairs_of_two = crowd_of(world(2, n, 21)[1], 2, 4, 0.2, 22)
    opposite = np.where(rng.random((n, 4)) < 0.75, 1 - np.maximum(pairs_of_two, 0), np.maximum(pairs_of_two, 0))
    item = np.repeat(np.arange(n), 3)
    again = tp.Answers(
        np.r_[item, item[:40], item[40:70]],
        np.r_[np.tile(np.arange(3), n), np.tile(np.arange(3), n)[:40], np.tile(np.arange(3), n)[40:70]],
        np.r_[full[:, :3].ravel(), full[:, :3].ravel()[:40], (full[:, :3].ravel()[40:70] + 1) % 3],
    )
    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "copies": (copied, {}),
        "copies, gold": (copied, {"true": gold}),
        "copies of one": (pair, {}),
        "common errors": (common, {}),
        "common errors, X": (common, {"X": X}),
        "common errors, gold": (common, {"true": gold}),
        "inverted": (inverted, {}),
        "inverted, gold": (inverted, {"true": gold}),
        "inverted, told": (inverted, {"start": "opposite"}),
        "a class unnamed": (two, {}),
        "a class unnamed, K": (two, {"num_classes": 3}),
        "a class unnamed, gold": (two, {"true": gold}),
        "unlike": (unlike, {}),
        "unlike, gold": (unlike, {"true": gold}),
        "one answer each": (alone, {}),
        "one answer each, X": (alone, {"X": X}),
        "one answer each, gold": (alone, {"true": gold}),
        "agreed": (agreed, {}),
        "agreed, X": (agreed, {"X": X}),
        "others": (other, {"num_classes": 3}),
        "others, gold": (other, {"num_classes": 3, "true": gold}),
        "swapped": (swapped, {}),
        "swapped, X": (swapped, {"X": X}),
        "opposite": (opposite, {}),
        "given twice": (again, {}),
        "two": (wide[:, :2], {}),
        "two, X": (wide[:, :2], {"X": X}),
        "sparse X": (wide, {"X": csr_array(np.where(X > 0.2, X, 0.0))}),
        "X, groups": (wide, {"X": X, "groups": uneven(n, 25), "true": gold}),
        "nineteen known": (wide, {"true": np.where(np.cumsum(gold >= 0) <= 19, gold, -1)}),
        "twenty known": (wide, {"true": np.where(np.cumsum(gold >= 0) <= 20, gold, -1)}),
        "all known": (wide, {"true": z}),
        "gaps": (np.where(rng.random((n, 1)) < 0.2, -1, wide), {}),
    }
    out: Cases = {}
    for name, (answers, some) in runs.items():
        out[name] = lambda a=answers, s=some: of_crowd(tp.estimate_annotators(a, **({"random_state": 0} | s)))
    for name in ("copies", "unlike", "others", "twenty known", "gaps"):
        answers, some = runs[name]
        out[f"{name}: against the vote"] = lambda a=answers, s=some: [
            whole((f := tp.estimate_annotators(a, random_state=0, **s)).versus_vote),
            f.ranking() if callable(f.ranking) else f.ranking,
        ]

    r = np.random.default_rng(3)
    bait = r.integers(0, 2, 200)
    lures = np.where(r.random((200, 10)) < 0.8, bait[:, None], 1 - bait[:, None])
    lures = np.where((r.random(200) < 0.3)[:, None] & (r.random((200, 10)) < 0.95), 1 - bait[:, None], lures)
    lures[r.random(lures.shape) > 0.6] = -1

    def coded(m: int, seed: int, **some: Any) -> Callable[[], Any]:
        def call() -> list[Any]:
            true = np.random.default_rng(seed).integers(0, 3, 80)
            half = [(true if a < m // 2 else (true + 1) % 3, 10 * seed + a) for a in range(m)]
            said = np.stack([tp.symmetric_noise(3, 0.1).sample(c, seed=i) for c, i in half], axis=1)
            return of_crowd(tp.estimate_annotators(said, random_state=0, **some))

        return call

    def cut_X(module: str, **limits: Any) -> list[Any]:
        with limited(f"estimation.{module}", **limits):
            return of_crowd(tp.estimate_annotators(wide, X=X, random_state=0))

    def cut(answers: Any, module: str, **limits: Any) -> Callable[[], Any]:
        def call() -> list[Any]:
            with limited(f"estimation.{module}", **limits):
                return of_crowd(tp.estimate_annotators(answers, random_state=0))

        return call

    return out | {
        "float32": cut(unlike, "dawid_skene", MANY=10),
        "float32, gaps": cut(runs["gaps"][0], "dawid_skene", MANY=10),
        "long sums": cut(wide, "dawid_skene", MANY=10, LONGEST=20),
        "sorted pairs": cut(again, "dawid_skene", FEW=1),
        "unlike, a part": cut(unlike, "dawid_skene", ENOUGH=300),
        "unlike, in pieces": cut(unlike, "dawid_skene", CHUNK=3000),
        "unlike, too many": cut(unlike, "dawid_skene", ALL=100, SAMPLE=60),
        "few items": cut(inverted, "dawid_skene", FEW_ITEMS=20, MORE_ITEMS=40),
        "each by itself": cut(unlike, "information", LARGEST=5),
        "a part of the information": cut(wide, "information", WORK=1e3),
        "a part of the pairs": cut(copied, "duplicates", PAIRS=400),
        "few pairs": cut(copied, "dependence", MOST_PAIRS=300),
        "dependence in a part": cut(common, "dependence", ANSWERS=150),
        "a generator": lambda: of_crowd(tp.estimate_annotators(wide, random_state=np.random.default_rng(3))),
        "an old generator": lambda: of_crowd(tp.estimate_annotators(wide, random_state=np.random.RandomState(3))),
        "threads": lambda: cut_X("alone", SMALL=10),
        "too many to compare": cut(copied, "duplicates", MOST=4),
        "copies, confirmed never": cut(copied, "duplicates", HALF=1.5),
        "the most asked": cut(wide, "information", WORK=1.0),
        "no long overlaps": cut(copied, "dependence", FEWEST_SHARED=1000),
        **{f"another code, {m} of {seed}": coded(m, seed) for m, seed in ((6, 0), (6, 1), (4, 0), (4, 1))},
        "another code, X": lambda: coded(4, 0, X=X[:80])(),
        "lures": lambda: of_crowd(tp.estimate_annotators(lures, random_state=0)),
        "lures, gold": lambda: of_crowd(tp.estimate_annotators(lures, np.where(np.arange(200) % 6 == 0, bait, -1))),
        "lures, a cap": cut(lures, "dependence", MOST_RHO=0.05),
        "lures, X": lambda: of_crowd(tp.estimate_annotators(lures, X=world(2, 200, 22)[0], random_state=0)),
        "nothing to choose": lambda: whole(tp.estimate_annotators(agreed, random_state=0).versus_vote),
        "one of copies": lambda: of_crowd(tp.estimate_annotators(copied[:, 4:], random_state=0)),
        "lures, many": lambda: [
            tp.weak_accuracy(
                many, world(3, n, 13)[2].argmax(1), tp.estimate_annotators(many, random_state=0).transition
            )
        ],
    }


def ruled() -> Cases:
    """Rules that abstain: left out, alike, with features, with answers that are no class."""
    n = 150
    X, z, _ = world(3, n, 23)
    rng = np.random.default_rng(24)
    gold = np.where(np.arange(n) % 5 == 0, z, -1)

    def rules(rate: float, right: float, seed: int, m: int = 6) -> np.ndarray:
        r = np.random.default_rng(seed)
        out = np.full((n, m), -1)
        for a in range(m):
            speaks = r.random(n) < np.where(z == a % 3, rate, rate * (1 - right))
            out[speaks, a] = a % 3
        return out

    some = rules(0.5, 0.8, 25)
    both = some.copy()
    both[:, 5] = np.where(rng.random(n) < 0.5, -1, crowd_of(z, 3, 1, 0.0, 26)[:, 0])
    alike = np.column_stack([some, some[:, 1], np.where(rng.random(n) < 0.05, -1, some[:, 2])])
    together = some.copy()
    wrong = rng.random(n) < 0.3
    together[wrong] = np.where(np.arange(6) % 3 == ((z[wrong] + 1) % 3)[:, None], np.arange(6) % 3, -1)
    some_say = some[(some >= 0).any(1)]
    item, who = (some >= 0).nonzero()
    long = tp.Answers(item, who, some[item, who])
    spare = np.where((some >= 0) & (rng.random(some.shape) < 0.15), 3, some)
    kept = z[(some >= 0).any(1)]
    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "rules": (some, {}),
        "and an annotator": (both, {}),
        "alike": (alike, {"missing": "answer"}),
        "together": (together, {}),
        "X": (some, {"X": X}),
        "X, groups": (some, {"X": X, "groups": uneven(n, 30), "true": gold}),
        "gold": (some, {"true": gold}),
        "silent rows left out": (some_say, {"missing": "answer"}),
        "silent rows left out, gold": (
            some_say,
            {"missing": "answer", "true": np.where(np.arange(len(kept)) % 5 == 0, kept, -1)},
        ),
        "long": (long, {"missing": "answer"}),
        "no class": (spare, {"missing": "answer", "num_classes": 3}),
        "random": (some, {"missing": "random"}),
        "strong": (rules(0.9, 0.95, 27), {}),
        "weak": (rules(0.3, 0.3, 28), {}),
        "three": (rules(0.5, 0.8, 29, 3), {"missing": "answer"}),
    }
    out: Cases = {}
    for name, (answers, given) in runs.items():
        out[name] = lambda a=answers, g=given: of_crowd(tp.estimate_annotators(a, random_state=0, **g))
    for name in ("rules", "and an annotator", "gold", "together"):
        answers, given = runs[name]
        out[f"{name}: against the vote"] = lambda a=answers, g=given: whole(
            tp.estimate_annotators(a, random_state=0, **g).versus_vote
        )

    def scored(answers: Any) -> list[Any]:
        T = tp.estimate_annotators(answers, missing="answer", random_state=0).transition
        q = world(3, n, 23)[2]
        return [tp.weak_accuracy(answers, q.argmax(1), T), str(tp.check_transition(answers, T, q))]

    fooled = np.random.default_rng(5)
    binary = fooled.integers(0, 2, 200)
    led = np.where(fooled.random(200) < 0.4, 1 - binary, binary)
    err = np.full((200, 6), -1)
    for a in range(6):
        err[fooled.random(200) < np.where(led == a % 2, 0.5, 0.075), a] = a % 2
    cats = np.where(some == 2, -1, some)  # nobody names the third class
    lone = some.copy()
    lone[:, 5] = -1
    lone[:3, 5] = 1

    def mapped() -> list[Any]:
        T = tp.estimate_annotators(some[:, :3], missing="answer", random_state=0).transition
        found = tp.calibrate(world(3, n, 23)[2], some[:, :3], T, method="temperature")
        return [found.scale, found.bias, found.gain, found.probabilities(world(3, n, 23)[2][:6])]

    out |= {
        "err together": lambda: of_crowd(tp.estimate_annotators(err, random_state=0)),
        "err together, gold": lambda: of_crowd(
            tp.estimate_annotators(err, np.where(np.arange(200) % 4 == 0, binary, -1), random_state=0)
        ),
        "a class unnamed": lambda: of_crowd(tp.estimate_annotators(cats, missing="answer", num_classes=3)),
        "one hardly speaks": lambda: of_crowd(tp.estimate_annotators(lone, random_state=0)),
        "one hardly speaks among annotators": lambda: of_crowd(
            tp.estimate_annotators(np.column_stack([crowd_of(z, 3, 4, 0.2, 30), lone[:, 5]]), random_state=0)
        ),
        "one meaning for all": lambda: of_crowd(tp.estimate_annotators(some, missing=["answer"] * 6)),
        "calibrated": mapped,
    }
    return out | {"scored": lambda: scored(some[:, :3])}


def kinds_of_sources() -> Cases:
    """Sources that say which class, which it is not, which it may be, how likely each is."""
    n = 90
    _, z, _ = world(3, n, 31)
    rng = np.random.default_rng(32)
    names = np.array(["ant", "bee", "cat"])
    votes, more = crowd_of(z, 3, 2, 0.2, 33).T
    others = np.where(rng.random(n) < 0.3, -1, (z + rng.integers(1, 3, n)) % 3)
    masks = rng.random((n, 3)) < 0.3
    masks[np.arange(n), z] = rng.random(n) < 0.9
    masks[::7] = False
    shares = np.round(0.6 * np.eye(3)[crowd_of(z, 3, 1, 0.0, 34)[:, 0]] + 0.4 / 3, 3)
    shares /= shares.sum(1, keepdims=True)
    gaps = shares.copy()
    gaps[::6] = np.nan
    unsure = np.where(rng.random(n) < 0.2, 3, votes)
    gold = np.where(np.arange(n) % 5 == 0, z, -1)
    text = np.where(votes < 0, None, names[votes])
    say = {
        "votes": votes,
        "more": more,
        "not": (others, "not this"),
        "sets": (masks, "one of these"),
        "soft": tp.SoftLabels(shares),
    }
    runs: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "all": (say, {}),
        "all, gold": (say, {"true": gold}),
        "all, prior": (say, {"prior_counts": [5.0, 1.0, 2.0], "num_classes": 3}),
        "hard": ({k: v for k, v in say.items() if k != "soft"}, {}),
        "columns": ({"a": votes, "b": more, "c": (unsure, "votes")}, {"num_classes": 3}),
        "names": ({"a": text, "b": (np.where(others < 0, None, names[others]), "not this")}, {}),
        "names, gold": ({"a": text, "b": (masks, "one of these")}, {"true": np.where(gold < 0, None, names[gold])}),
        "soft with gaps": ({"a": votes, "b": (tp.SoftLabels(gaps, validate=False), "soft")}, {}),
        "four classes": (
            say | {"sets": (np.column_stack([masks, rng.random(n) < 0.2]), "one of these")},
            {"num_classes": 4},
        ),
        "not this twice": (
            {
                "a": (others, "not this"),
                "b": ((z + 1) % 3, "not this"),
                "c": (np.where(rng.random(n) < 0.2, 4, others), "not this"),
            },
            {"num_classes": 3},
        ),
        "one": ({"a": votes}, {}),
        "two lengths": ({"a": votes, "b": more[:5]}, {}),
        "no kind": ({"a": (votes, "guess")}, {}),
        "none": ({}, {}),
        "another width": ({"a": votes, "b": (masks[:, :2], "one of these")}, {"num_classes": 3}),
        "no answer": ({"a": votes, "b": np.full(n, -1)}, {}),
    }

    def told(sources: dict[str, Any], some: dict[str, Any]) -> list[Any]:
        found = tp.estimate_annotators(sources, random_state=0, **some)
        answers = found.answers
        said = (
            some_rows(answers.numpy().reshape(n, -1))
            if isinstance(answers, tp.SoftLabels)
            else [[Word(str(c)) for c in row] for row in answers[:20]]
        )
        return [
            some_rows(found.posteriors),
            found.prior,
            [Word(str(c)) for c in found.labels.tolist()[:20]],
            found.names,
            found.notes,
            str(found),
            said,
            [[t.matrix(), t.stderr, t.labels.names] for t in found.transitions],
            [t.matrix() for t in found.transition.separate],
        ]

    return {name: lambda s=s, o=o: told(s, o) for name, (s, o) in runs.items()}


def transitions() -> Cases:
    """T from clean rows and features: designs of the clean rows, models, sparse features, two classes, sets."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB

    n = 160
    X, z, _ = world(3, n, 41)
    X2, two, _ = world(2, n, 42)
    rng = np.random.default_rng(43)
    y, y2 = SKEWED.sample(z, seed=44), tp.binary_noise(0.1, 0.35).sample(two, seed=45)
    flip = tp.symmetric_noise(2, 0.2).sample(two, seed=46)
    gold = np.where(rng.random(n) < 0.3, z, -1)
    gold2 = np.where(rng.random(n) < 0.3, two, -1)
    chosen = np.where(rng.random(n) < np.array([0.8, 0.2, 0.05])[y], z, -1)
    only = np.where((rng.random(n) < 0.6) & (y != 2), z, -1)
    five = tp.Transition(rng.dirichlet(np.ones(5) * 0.7, 3).T)
    wider = five.sample(z, seed=47)
    fewer = np.minimum(y, 1)
    lone = np.where(np.arange(n) % 40 == 0, z, -1)
    curved = (X[:, 0] * X[:, 1] > 0).astype(int)
    Xs = csr_array(np.where(np.abs(X) > 0.6, X, 0.0))
    broad = csr_array(rng.poisson(0.05, (n, 130)) * (1.0 + np.outer(z == 1, rng.random(130) < 0.3)))
    loud = np.column_stack([X * [1, 1000, 1, 0.01], np.ones(n)])
    partial = tp.partial_labels(3, 0.25)
    masks = partial.sample(z, seed=48)
    odd = np.column_stack([rng.random(n) < p for p in (0.02, 0.4, 0.85)])
    odd[np.arange(n), z] = True
    wide_sets = rng.random((n, 3)) < rng.choice([0.0, 0.95], (n, 1))
    wide_sets[np.arange(n), z] = True
    soft = tp.SoftLabels(np.round(0.7 * np.eye(3)[y] + 0.1, 2))
    comp2 = tp.complementary(3, noise=0.02).sample(z, seed=49)
    runs: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
        "chosen by label": (y, chosen, None, {}),
        "chosen by label, X": (y, chosen, X, {}),
        "a label left out": (y, only, None, {}),
        "a label left out, X": (y, only, X, {}),
        "few": (y, lone, None, {}),
        "few, X": (y, lone, X, {}),
        "weights": (y, gold, None, {"sample_weight": weights(n) + 0.3}),
        "weights, symmetric": (y, gold, None, {"sample_weight": weights(n) + 0.3, "structure": "symmetric"}),
        "weights of 0": (y, gold, None, {"sample_weight": np.where(gold >= 0, 0.0, 1.0)}),
        "more labels": (wider, gold, None, {}),
        "more labels, X": (wider, gold, X, {}),
        "more labels, K": (wider, gold, X, {"num_classes": 3}),
        "more labels, X alone": (wider, None, X, {"num_classes": 3}),
        "fewer labels": (fewer, gold, None, {}),
        "fewer labels, X": (fewer, gold, X, {}),
        "fewer labels, X alone": (fewer, None, X, {"num_classes": 3}),
        "more classes": (y, gold, None, {"num_classes": 4}),
        "more classes, X": (y, None, X, {"num_classes": 4}),
        "two": (y2, gold2, None, {}),
        "two, X": (y2, None, X2, {}),
        "two, both": (y2, gold2, X2, {}),
        "two, symmetric": (flip, None, X2, {"structure": "symmetric"}),
        "two, symmetric, both": (flip, gold2, X2, {"structure": "symmetric"}),
        "two, nearly known": (two, None, X2, {}),
        "two, complementary": (1 - two, None, X2, {"structure": "complementary"}),
        "noise": (rng.integers(0, 3, n), None, X, {}),
        "noise, both": (rng.integers(0, 3, n), gold, X, {}),
        "features say nothing": (y, gold, rng.normal(size=(n, 2)), {}),
        "curved": (SKEWED.sample(curved, 3), None, X, {"num_classes": 3}),
        "curved, both": (tp.symmetric_noise(2, 0.1).sample(curved, 3), np.where(gold >= 0, curved, -1), X, {}),
        "sparse": (y, None, Xs, {}),
        "sparse, both": (y, gold, Xs, {}),
        "broad": (y, gold, broad, {}),
        "loud": (y, None, loud, {}),
        "loud, both": (y, gold, loud, {}),
        "many axes": (y, gold, np.asarray(broad.toarray()) + 0.0, {}),
        "groups": (y, gold, X, {"groups": uneven(n, 30)}),
        "ordinal": (np.minimum(y, 2), gold, X, {"structure": "ordinal"}),
        "complementary": (comp2, None, X, {"structure": "complementary"}),
        "complementary, auto": (comp2, gold, X, {}),
        "naive Bayes, both": (y, gold, X, {"model": GaussianNB()}),
        "a regression": (y2, gold2, X2, {"model": LogisticRegression(max_iter=30)}),
        "sets, X": (masks, gold, X, {}),
        "sets, sparse": (masks, None, Xs, {}),
        "odd sets": (odd, None, None, {}),
        "odd sets, known": (odd, gold, None, {}),
        "wide sets": (wide_sets, None, None, {}),
        "lists of sets": ([frozenset(np.flatnonzero(m).tolist()) for m in masks], gold, None, {"num_classes": 3}),
        "lists of sets, K": ([frozenset(np.flatnonzero(m).tolist()) for m in masks], None, None, {}),
        "sets without": (~masks, gold, None, {}),
        "soft": (soft, gold, None, {}),
        "soft, K": (soft, gold, None, {"num_classes": 4}),
        "soft, symmetric": (soft, gold, None, {"structure": "symmetric"}),
        "soft, X": (soft, gold, X, {}),
        "soft, unknown": (soft, np.full(n, -1), None, {}),
        "unknown": (y, np.full(n, -1), None, {}),
        "neither": (y, None, None, {}),
        "names": (y.astype(str), gold, None, {}),
        "below": (y - 1, gold, None, {}),
        "floats": (y, gold.astype(float), None, {}),
        "ten rows": (y[:5], gold[:5], X[:5], {}),
        "six rows": (y[:6], z[:6], X[:6], {}),
        "infinite": (y, None, X / 0.0 if False else np.where(X > 9, X, np.inf), {}),
        "no model": (y, None, X, {"model": object()}),
    }
    out: Cases = {}
    for name, (labels, known, features, some) in runs.items():

        def call(y: Any = labels, t: Any = known, x: Any = features, s: dict[str, Any] = some) -> list[Any]:
            T = tp.estimate_transition(y, t, x, **({"random_state": 0} | s))
            model = getattr(T, "classifier", None)
            return [
                of_T(T),
                model.predict_proba(x[:6]) if model is not None else 0,
                model.predict(x[:6]) if model is not None else 0,
            ]

        out[name] = call
    coin = np.where(rng.random(n) < 0.5, two, rng.integers(0, 2, n))
    slight = np.column_stack([0.5 * two + rng.normal(size=n), rng.normal(size=n)])
    more: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
        "either way": (coin, None, slight, {}),
        "either way, symmetric": (coin, None, slight, {"structure": "symmetric"}),
        "either way, three": (rng.permutation(z), None, X, {"structure": "symmetric"}),
        "either way, X": (coin, None, X2, {"structure": "symmetric"}),
        "constant": (y, gold, np.ones((n, 2)), {}),
        "one feature": (y, gold, X[:, :1], {}),
        "squares": (tp.symmetric_noise(2, 0.1).sample((X[:, 0] ** 2 + X[:, 1] ** 2 > 2).astype(int), 5), None, X, {}),
        "loud words": (y, gold, csr_array(Xs * 400.0), {}),
    }
    for name, (labels, known, features, some) in more.items():
        out[name] = lambda y=labels, t=known, x=features, s=some: [
            of_T(T := tp.estimate_transition(y, t, x, **({"random_state": 0} | s))),
            T.classifier.coef_ if x is not None else 0,
        ]
    counts = {
        "even": [[20, 2, 3], [3, 15, 2], [1, 2, 30]],
        "none in a column": [[8, 0, 0], [2, 0, 1], [1, 0, 9]],
        "wide": [[5, 1], [2, 2], [0, 7]],
        "one": [[1, 0], [0, 1]],
    }
    for name, table in counts.items():
        for form in ("auto", "symmetric", "complementary", "none"):
            out[f"counts, {name}, {form}"] = lambda c=table, f=form: of_T(tp.Transition.from_counts(c, structure=f))
    return out


def positive() -> Cases:
    """Positive and unlabeled: scores with ties, features of words, codings, samplings, groups, overlaps."""
    n = 240
    rng = np.random.default_rng(51)
    z = rng.random(n) < 0.35
    labeled = z & (rng.random(n) < 0.5)
    near, far = rng.normal(size=n) + 1.2 * z, rng.normal(size=n) + 6.0 * z
    rounded = np.round(near)
    X = np.column_stack([near, rng.normal(size=n), np.ones(n)])
    words = csr_array(rng.poisson(0.2 + 0.8 * np.outer(z, np.arange(12) < 3)))
    third = np.where(rng.random(n) < 0.3, 0.0, far)
    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "near": (labeled, {"scores": near}),
        "far": (labeled, {"scores": far}),
        "rounded": (labeled, {"scores": rounded}),
        "partly": (labeled, {"scores": third}),
        "whole positives": (z, {"scores": far}),
        "X": (labeled, {"X": X}),
        "words": (labeled, {"X": words, "random_state": 5}),
        "X, groups": (labeled, {"X": X, "groups": uneven(n, 40)}),
        "groups": (labeled, {"scores": far, "groups": uneven(n, 40)}),
        "1 and -1": (np.where(labeled, 1, -1), {"scores": near}),
        "1 and 2": (labeled + 1, {"scores": near}),
        "nineteen": (np.arange(n) < 19, {"scores": near}),
        "twenty": (np.arange(n) < 20, {"scores": near}),
        "both": (labeled, {"scores": near, "X": X}),
        "one score": (labeled, {"scores": np.ones(n)}),
        "two scores": (labeled, {"scores": (near > 0.5) * 1.0, "random_state": 5}),
        "nearly all": (np.arange(n) >= 20, {"scores": near}),
        "too many": (np.arange(n) >= 19, {"scores": near}),
    }
    out: Cases = {name: lambda y=y, s=s: whole(tp.estimate_pu(y, **s)) for name, (y, s) in runs.items()}
    for name in ("near", "partly"):
        y, some = runs[name]
        out[f"{name}, two samples"] = lambda y=y, s=some: whole(tp.estimate_pu(y, sampling="two samples", **s))
    return out


def shares() -> Cases:
    """Shares of the classes: known rows of every design, differences, labels that have not occurred, every T."""
    n = 140
    X, z, _ = world(3, n, 61)
    rng = np.random.default_rng(62)
    y = SKEWED.sample(z, seed=63)
    gold = np.where(rng.random(n) < 0.3, z, -1)
    chosen = np.where(rng.random(n) < np.array([0.7, 0.2, 0.05])[y], z, -1)
    few = np.where(np.arange(n) % 20 == 0, z, -1)
    strange = np.where((rng.random(n) < 0.6) & (z != 1) & (y != 2), z, -1)
    names, T = np.array(list("abc")), SKEWED.named(list("abc"))
    text = np.where(rng.random(n) < 0.1, None, names[y])
    known = np.where(gold < 0, None, names[gold])
    coarse, partial = tp.coarse_labels([[0], [1, 2]]), tp.partial_labels(3, 0.3)
    masks = partial.sample(z, seed=64)
    crowd = tp.annotators([tp.symmetric_noise(3, e) for e in (0.1, 0.3, 0.2)])
    answers = crowd_of(z, 3, 3, 0.4, 65)
    answers[::9] = -1
    counts = np.zeros((3, 3))
    np.add.at(counts, (y[:80], z[:80]), 1)
    learned = tp.Transition.from_counts(counts)
    with_T = tp.estimate_annotators(answers, random_state=0).transition
    mixed = tp.annotators([learned, SKEWED, tp.symmetric_noise(3, 0.2)])
    five = tp.Transition(rng.dirichlet(np.ones(5) * 0.6, 3).T)
    rare = tp.Transition([[0.97, 0.01, 0.0], [0.02, 0.98, 0.0], [0.0, 0.0, 0.5], [0.01, 0.01, 0.5]])
    soft = tp.SoftLabels(np.round(0.7 * np.eye(3)[y] + 0.1, 2))
    runs: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "T": (y, SKEWED, {}),
        "groups": (y, SKEWED, {"groups": uneven(n, 25)}),
        "names": (text, T, {}),
        "names, groups": (text, T, {"groups": uneven(n, 25)}),
        "names, known": (text, T, {"true": known, "groups": uneven(n, 25)}),
        "known": (y, SKEWED, {"true": gold}),
        "known, by label": (y, SKEWED, {"true": chosen}),
        "wrong T": (y, tp.pair_noise(3, 0.4), {}),
        "wrong T, known": (y, tp.pair_noise(3, 0.4), {"true": gold}),
        "impossible T, known": (y, tp.identity(3), {"true": gold}),
        "coarse": (coarse.sample(z, 1), coarse, {}),
        "coarse, known": (coarse.sample(z, 1), coarse, {"true": gold}),
        "no T": (y, None, {"true": gold}),
        "no T, by label": (y, None, {"true": chosen}),
        "no T, groups": (y, None, {"true": gold, "groups": uneven(n, 25)}),
        "no T, weights": (y, None, {"true": gold, "sample_weight": weights(n) + 0.2}),
        "T, weights": (y, SKEWED, {"true": gold, "sample_weight": weights(n) + 0.2}),
        "weights of 0": (y, None, {"true": gold, "sample_weight": np.where(gold < 0, 1.0, 0.0)}),
        "X": (y, None, {"true": gold, "X": X}),
        "X, few": (y, None, {"true": few, "X": X}),
        "X, noise": (y, None, {"true": gold, "X": rng.normal(size=(n, 2)), "groups": uneven(n, 25)}),
        "X, T": (y, SKEWED, {"true": gold, "X": csr_array(np.where(X > 0.4, X, 0.0)), "random_state": 3}),
        "K": (y, None, {"true": gold, "num_classes": 4}),
        "K beside T": (y, SKEWED, {"true": gold, "num_classes": 3}),
        "estimated": (y, learned, {}),
        "estimated, known": (y, learned, {"true": gold}),
        "estimated, groups": (y, learned, {"groups": uneven(n, 25)}),
        "sets": (masks, partial, {}),
        "sets, groups": (masks, partial, {"groups": uneven(n, 25)}),
        "sets, known": (masks, partial, {"true": gold}),
        "sets of two": (tp.multi_complementary(4, 2).sample(z, 1), tp.multi_complementary(4, 2), {}),
        "crowd": (answers, crowd, {}),
        "crowd, known": (answers, crowd, {"true": gold, "groups": uneven(n, 25)}),
        "estimated crowd": (answers, with_T, {}),
        "partly estimated crowd": (answers, mixed, {}),
        "answers": (answers, None, {"true": gold}),
        "more labels": (five.sample(z, 1), five, {}),
        "unseen": (rare.sample(np.minimum(z, 1), 1), rare, {}),
        "identity": (z, tp.identity(3), {}),
        "one class": (np.zeros(n, int), tp.identity(3), {}),
        "one class, noisy": (np.zeros(n, int), SKEWED, {}),
        "few": (y[:9], SKEWED, {}),
        "sets of all": (np.ones((12, 3), bool), partial, {}),
        "soft": (soft, SKEWED, {}),
        "soft, groups": (soft, SKEWED, {"groups": uneven(n, 25)}),
        "soft, estimated": (soft, learned, {"random_state": 2}),
        "soft, known": (soft, SKEWED, {"true": gold}),
        "complementary": (tp.complementary(3).sample(z, 1), tp.complementary(3), {}),
        "nobody": (y, SKEWED, {"true": np.full(n, -1)}),
        "nobody, no T": (y, None, {"true": np.full(n, -1)}),
        "X alone": (y, SKEWED, {"X": X}),
        "weights alone": (y, SKEWED, {"sample_weight": weights(n)}),
        "neither": (y, None, {}),
        "silent": (np.full((5, 3), -1), crowd, {}),
        "one group": (y, SKEWED, {"groups": np.zeros(n)}),
        "soft, one group": (soft, SKEWED, {"groups": np.zeros(n)}),
        "two known": (y, None, {"true": np.where(np.arange(n) < 2, z, -1)}),
    }

    def told(labels: Any, T: Any, some: dict[str, Any]) -> list[Any]:
        found = tp.weak_prevalence(labels, T, **some)
        a, b = (found.classes or [0, 1])[:2]
        apart = (
            []
            if isinstance(labels, tp.SoftLabels)
            else [whole(found.difference(a, b)), whole(found.difference([b], [a, b]))]
        )
        return [
            found.value,
            found.stderr,
            found.interval,
            found.next_clean_rows,
            found.from_transition,
            found.n,
            found.checked,
            found.notes,
            str(found),
            found.to_dict(),
            apart,
        ]

    out: Cases = {name: lambda y=y, T=T, s=s: told(y, T, s) for name, (y, T, s) in runs.items()}

    def cut(labels: Any, T: Any, **limits: Any) -> Callable[[], Any]:
        def call() -> list[Any]:
            with limited("estimation.prevalence", **limits):
                return told(labels, T, {})

        return call

    return out | {
        "no programs": cut(masks[:2], partial, PROGRAMS=0),
        "programs": cut(masks[:2], partial, PROGRAMS=3),
        "not followed": cut(rare.sample(np.minimum(z, 1), 1), rare, PROFILED=2),
        "few draws": cut(y, learned, ENTRIES=2000),
        "more than the label": lambda: told(y, None, {"true": strange}),
        "X, a scalar": lambda: told(y, None, {"true": gold, "X": X[:, :1], "random_state": 1}),
        "checked without a label": lambda: told(text, T, {"true": known}),
        "sets without a label": lambda: told(
            [None if i % 5 == 0 else frozenset(np.flatnonzero(m).tolist()) for i, m in enumerate(masks)],
            partial,
            {"true": gold, "groups": uneven(n, 25)},
        ),
        "unknown name": lambda: tp.weak_prevalence(y, SKEWED).difference("x", 0),
    }


def by_groups() -> Cases:
    """T of each group of items."""
    n = 150
    _, z, _ = world(2, n, 66)
    group = np.where(np.arange(n) < 80, "one", "two")
    answers = np.where((group == "one")[:, None], crowd_of(z, 2, 3, 0.0, 67), crowd_of(z, 2, 4, 0.0, 68)[:, 1:])
    poor = np.where((group == "one")[:, None], answers, np.random.default_rng(69).integers(0, 2, (n, 3)))

    def told(answers: Any, groups: Any, **some: Any) -> list[Any]:
        found = tp.transitions_by_group(answers, groups, random_state=1, **some)
        return [
            str(found),
            found.p_value,
            found.items,
            some_rows(found.transitions.reshape(len(z), -1)),
            *map(of_T, found.groups.values()),
        ]

    return {
        "two": lambda: told(answers, group),
        "poor": lambda: told(poor, group),
        "three classes": lambda: told(answers, group, num_classes=3),
        "few": lambda: told(answers, np.where(np.arange(n) < 59, "a", "b")),
        "enough": lambda: told(answers, np.where(np.arange(n) < 60, "a", "b")),
    }


def estimates() -> Cases:
    """Every case of estimation by its name."""
    rooms = {
        "answers": long_tables,
        "annotators": annotators,
        "rules": ruled,
        "sources": kinds_of_sources,
        "T by": transitions,
        "PU": positive,
        "shares of": shares,
        "groups of": by_groups,
    }
    return {f"{head}: {name}": call for head, room in rooms.items() for name, call in room().items()}
