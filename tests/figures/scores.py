"""Cases of scores, tests and evaluations: rows of known class, designs, bins, thresholds, blocks, plain values."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.sparse import csr_array
from tests.figures.keeping import Word
from tests.figures.more import crowd_of, world

import tproper as tp
from tproper.evaluation.bounds import candidate_bounds
from tproper.evaluation.evaluation import Evenly
from tproper.evaluation.picture import draw
from tproper.evaluation.streamed import StreamedScores
from tproper.metrics.clean_scores import clean_scores, reliability

Cases = dict[str, Callable[[], Any]]
N = 150
SKEWED = tp.Transition([[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]])


def limited(module: str, **values: Any) -> Any:
    """With other constants in a module of tproper: what is done beyond a size, on few rows."""
    return patch.multiple(import_module(f"tproper.{module}"), **values)


def uneven(n: int, count: int, seed: int = 5) -> np.ndarray:
    """Groups of unequal sizes, not in order."""
    rng = np.random.default_rng(seed)
    return rng.choice(count, n, p=np.arange(1, count + 1) / (count * (count + 1) / 2))


def weights(n: int) -> np.ndarray:
    """Irregular weights, some of them 0."""
    return np.round(np.random.default_rng(7).gamma(1.5, size=n), 1)


def whole(found: Any) -> list[Any]:
    """Every public value of a result, what it prints, and its plain values."""
    out: list[Any] = []
    for name in sorted(n for n in dir(found) if not n.startswith("_")):
        value = getattr(found, name)
        if name == "to_dict":
            out.append(flat(value()))
        elif not callable(value):
            out.append(flat(value))
    return [*out, str(found)]


def flat(value: Any) -> Any:
    """Names in a dict beside its values, and texts without a number as they are."""
    if isinstance(value, dict):
        return [[Word(k) if isinstance(k, str) else k, flat(v)] for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return [flat(v) for v in value]
    return value


def pointed(q: np.ndarray, some: slice) -> np.ndarray:
    """Probabilities with a 0 in some rows, for the class that is least likely."""
    q = q.copy()
    rows = np.arange(len(q))[some]
    q[rows, q[rows].argmin(1)] = 0.0
    return q / q.sum(1, keepdims=True)


def with_known_rows() -> Cases:
    """Scores from labels and the classes of some rows, by every design of the checking."""
    _, z, q = world(3, N, 71)
    rng = np.random.default_rng(72)
    guess, other = q.argmax(1), np.roll(q, 1, axis=1)
    y = SKEWED.sample(z, seed=73)
    answers = crowd_of(z, 3, 4, 0.3, 74)
    masks = tp.partial_labels(3, 0.3).sample(z, seed=75)
    coarse = np.minimum(z, 1)
    gold = np.where(rng.random(N) < 0.35, z, -1)
    by_label = np.where(rng.random(N) < np.array([0.7, 0.2, 0.05])[y], z, -1)
    by_guess = np.where(rng.random(N) < np.array([0.05, 0.3, 0.8])[guess], z, -1)
    strange = np.where((rng.random(N) < 0.5) & (guess == z) & (y != 2), z, -1)
    few = np.where(np.arange(N) % 15 == 0, z, -1)
    two = np.where(gold == 2, -1, gold)
    right = np.where((np.arange(N) % 3 > 0) & (guess == z), z, -1)
    nineteen, twenty = (np.where(np.cumsum(right >= 0) <= k, right, -1) for k in (19, 20))
    counts = np.zeros((3, 3))
    np.add.at(counts, (y[:60], z[:60]), 1)
    settings: dict[str, tuple[Any, dict[str, Any]]] = {
        "T": (y, {"transition": SKEWED, "true": gold}),
        "no T": (y, {"transition": None, "true": gold}),
        "groups": (y, {"transition": SKEWED, "true": gold, "groups": uneven(N, 30)}),
        "no T, groups": (y, {"transition": None, "true": gold, "groups": uneven(N, 12)}),
        "weights": (y, {"transition": SKEWED, "true": gold, "sample_weight": weights(N)}),
        "weights, groups": (y, {"transition": None, "true": gold, "sample_weight": weights(N), "groups": uneven(N, 9)}),
        "by label": (y, {"transition": SKEWED, "true": by_label}),
        "by prediction": (y, {"transition": None, "true": by_guess}),
        "by more": (y, {"transition": None, "true": strange}),
        "few": (y, {"transition": SKEWED, "true": few}),
        "no row of a class": (y, {"transition": None, "true": two}),
        "nineteen right": (y, {"transition": None, "true": nineteen}),
        "twenty right": (y, {"transition": None, "true": twenty}),
        "all": (y, {"transition": None, "true": z}),
        "wrong T": (y, {"transition": tp.pair_noise(3, 0.45), "true": gold}),
        "estimated T": (y, {"transition": tp.Transition.from_counts(counts), "true": gold}),
        "coarse": (coarse, {"transition": tp.coarse_labels([[0], [1, 2]]), "true": gold}),
        "sets": (masks, {"transition": tp.partial_labels(3, 0.3), "true": gold}),
        "answers": (answers, {"transition": None, "true": gold}),
        "annotators": (answers, {"transition": tp.annotators([SKEWED] * 4), "true": gold}),
        "own answers": (answers[:, :1], {"transition": tp.annotators([SKEWED]), "true": gold}),
    }
    out: Cases = {}
    for name, (labels, given) in settings.items():
        some = dict(given)
        T = some.pop("transition")
        calls: Cases = {
            "accuracy": lambda y=labels, T=T, s=some: whole(tp.weak_accuracy(y, guess, T, **s)),
            "balanced": lambda y=labels, T=T, s=some: tp.weak_balanced_accuracy(y, guess, T, **s),
            "log loss": lambda y=labels, T=T, s=some: tp.weak_log_loss(y, q, T, **s),
            "Brier": lambda y=labels, T=T, s=some: tp.weak_brier(y, q, T, **s),
            "paired": lambda y=labels, T=T, s=some: whole(tp.paired_test(y, q, other, T, **s)),
            "paired, accuracy": lambda y=labels, T=T, s=some: whole(
                tp.paired_test(y, guess, other.argmax(1), T, "accuracy", **s)
            ),
            "paired, Brier": lambda y=labels, T=T, s=some: tp.paired_test(y, q, other, T, "brier", **s),
        }
        out |= {f"{name}: {what}": call for what, call in calls.items()}

    def in_few() -> list[Any]:
        with limited("metrics.checked", MOST=2, FEWEST=2, FINE=6):
            return [
                tp.weak_log_loss(y, q, None, true=t, groups=g) for t in (gold, by_guess) for g in (None, uneven(N, 30))
            ]

    nearly = np.where((np.arange(N) % 10 == 0) & (gold < 0), (guess + 1) % 3, guess)
    zero_there = pointed(q, slice(0, N, 4))
    worse = q.copy()
    worse[gold == 1] = [0.5, 0.0, 0.5]
    return out | {
        "paired: same": lambda: tp.paired_test(y, guess, guess, None, "accuracy", true=gold),
        "paired: apart in unchecked rows": lambda: tp.paired_test(y, guess, nearly, None, "accuracy", true=gold),
        "paired: tables": lambda: tp.paired_test(y, q, other, SKEWED, "accuracy", true=gold),
        "paired: 0": lambda: tp.paired_test(y, zero_there, q, SKEWED, true=gold),
        "log loss, 0": lambda: whole(tp.weak_log_loss(y, zero_there, SKEWED, true=gold)),
        "log loss, 0 for the class": lambda: whole(tp.weak_log_loss(y, worse, SKEWED, true=gold)),
        "missing labels": lambda: tp.weak_accuracy(
            [None if i % 9 == 0 else "abc"[v] for i, v in enumerate(y)],
            ["abc"[v] for v in guess],
            SKEWED.named(list("abc")),
            true=["abc"[v] if v >= 0 else None for v in gold],
        ),
        "names without T": lambda: tp.weak_brier(["abc"[v] for v in y], q, None, true=["abc"[v] for v in z]),
        "nobody": lambda: tp.weak_accuracy(y, guess, SKEWED, true=np.full(N, -1)),
        "one group": lambda: [
            tp.weak_brier(y, q, None, true=gold, groups=np.zeros(N)),
            tp.weak_brier(y, q, None, true=z),
        ],
        "all differ": lambda: whole(tp.paired_test(y, z, (z + 1) % 3, None, "accuracy", true=gold)),
        "fine scores": lambda: whole(tp.weak_log_loss(y, q, None, true=np.where(np.arange(N) % 2 == 0, z, -1))),
        "numbers for names": lambda: tp.weak_accuracy(["abc"[v] for v in y], guess, None, true=["abc"[v] for v in z]),
        "numbers for names, floats": lambda: tp.weak_accuracy(
            ["abc"[v] for v in y], guess.astype(float), None, true=["abc"[v] for v in z]
        ),
        "a class that is last": lambda: tp.weak_brier(
            np.minimum(y, 1), np.column_stack([q, np.zeros(N)]), None, true=np.minimum(gold, 1)
        ),
        "as surely as known": lambda: tp.weak_brier(z, np.eye(3)[z], tp.identity(3), true=gold),
        "few groups of values": lambda: in_few(),
        "beyond": lambda: tp.weak_accuracy(y, guess, SKEWED, true=np.where(gold < 0, -1, gold + 1)),
    }


def by_labels_alone() -> Cases:
    """Scores from labels alone: weights, groups, missing rows, zeros, rules, predictions made from the answers."""
    _, z, q = world(3, N, 76)
    guess = q.argmax(1)
    y = SKEWED.sample(z, seed=77)
    answers = crowd_of(z, 3, 4, 0.3, 78)
    crowd = tp.annotators([tp.symmetric_noise(3, e) for e in (0.1, 0.2, 0.3, 0.3)])
    abstaining = tp.Transition([[0.4, 0.0, 0.0], [0.0, 0.5, 0.1], [0.1, 0.1, 0.3], [0.5, 0.4, 0.6]])
    single = tp.Transition([[0.5, 0.05, 0.1], [0.5, 0.95, 0.9]], ["cat", "no answer"])
    rules = np.where(np.random.default_rng(79).random((N, 5)) < 0.5, -1, crowd_of(z, 3, 5, 0.0, 80))
    votes = np.array([np.bincount(row[row >= 0], minlength=3).argmax() for row in answers])
    one_off = np.where(np.arange(N) == 3, (votes + 1) % 3, votes)
    two_off = np.where(np.arange(N) < 2, (votes + 1) % 3, votes)
    names = [None if i % 7 == 0 else "abc"[v] for i, v in enumerate(y)]
    T = SKEWED.named(list("abc"))
    zero = pointed(q, slice(0, N, 5))
    same = np.where(np.arange(N) % 12 == 0, (guess + 1) % 3, guess)
    masks = tp.partial_labels(3, 0.3).sample(z, seed=81)
    tiny = tp.Transition([[0.36, 0.33, 0.31], [0.33, 0.35, 0.32], [0.31, 0.32, 0.37]])
    soft = tp.SoftLabels(np.round(0.7 * np.eye(3)[y] + 0.1, 2))

    pairs = np.stack([0.7 * np.eye(3)[y] + 0.1, 0.55 * np.eye(3)[z] + 0.15], axis=1)
    pairs[::11, 1] = np.nan
    several = tp.SoftLabels(pairs, validate=False)
    believed = pairs[:, 0].argmax(1)

    def of_rules(**settings: Any) -> list[Any]:
        found = tp.estimate_annotators(rules, missing="answer", random_state=0)
        return [tp.weak_accuracy(found.answers.table(), guess, found.transition, **settings)]

    calls: Cases = {
        "weights": lambda: whole(tp.weak_accuracy(y, guess, SKEWED, sample_weight=weights(N))),
        "weights, groups": lambda: tp.weak_log_loss(y, q, SKEWED, sample_weight=weights(N), groups=uneven(N, 20)),
        "groups": lambda: tp.weak_brier(y, q, SKEWED, groups=uneven(N, 11)),
        "two groups": lambda: tp.weak_brier(y, q, SKEWED, groups=np.arange(N) % 2),
        "balanced, weights": lambda: tp.weak_balanced_accuracy(y, guess, SKEWED, sample_weight=weights(N)),
        "balanced, groups": lambda: tp.weak_balanced_accuracy(y, guess, SKEWED, groups=uneven(N, 20)),
        "balanced, another prior": lambda: [
            tp.weak_balanced_accuracy(labels, guess, t, prior=p)
            for labels, t in ((y, SKEWED), (masks, tp.partial_labels(3, 0.3)))
            for p in ([0.9, 0.05, 0.05], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5])
        ],
        "balanced, few": lambda: tp.weak_balanced_accuracy(y[:14], guess[:14], SKEWED),
        "missing": lambda: tp.weak_log_loss(names, q, T, groups=uneven(N, 20)),
        "missing, weights": lambda: tp.weak_accuracy(names, ["abc"[v] for v in guess], T, sample_weight=weights(N)),
        "0": lambda: whole(tp.weak_log_loss(masks, zero, tp.partial_labels(3, 0.3))),
        "0 nowhere met": lambda: whole(
            tp.weak_log_loss(z, pointed(0.9 * np.eye(3)[z] + 0.1 / 3, slice(0, 40)), tp.identity(3))
        ),
        "one row": lambda: [tp.weak_accuracy(y[:1], guess[:1], SKEWED), tp.weak_brier(y[:1], q[:1], SKEWED)],
        "two rows": lambda: [tp.weak_accuracy(y[:2], guess[:2], SKEWED), tp.weak_log_loss(y[:2], q[:2], SKEWED)],
        "all right": lambda: tp.weak_accuracy(z, z, tp.identity(3)),
        "all wrong": lambda: tp.weak_accuracy(z, (z + 1) % 3, SKEWED),
        "says little": lambda: [
            tp.weak_accuracy(y, guess, tiny),
            tp.weak_brier(y, q, tiny),
            tp.weak_log_loss(y, q, tiny),
        ],
        "impossible": lambda: tp.weak_accuracy((z + 1) % 3, z, tp.symmetric_noise(3, 0.05)),
        "prior": lambda: tp.weak_log_loss(masks, q, tp.partial_labels(3, 0.3), prior=[0.5, 0.3, 0.2]),
        "min variance": lambda: tp.weak_brier(y, q, abstaining, reconstruction="min_variance", prior=[0.5, 0.3, 0.2]),
        "paired, groups": lambda: tp.paired_test(y, guess, same, SKEWED, "accuracy", groups=uneven(N, 25)),
        "paired, weights": lambda: tp.paired_test(y, guess, same, SKEWED, "accuracy", sample_weight=weights(N)),
        "paired, same": lambda: tp.paired_test(y, guess, guess, SKEWED, "accuracy"),
        "paired, tables": lambda: tp.paired_test(y, q, np.roll(q, 2, 1), SKEWED, "accuracy", groups=uneven(N, 25)),
        "paired, few": lambda: [
            tp.paired_test(y[:8], q[:8], np.roll(q, 1, 1)[:8], SKEWED, s) for s in ("accuracy", "log_loss", "brier")
        ],
        "paired, 0": lambda: tp.paired_test(masks, zero, q, tp.partial_labels(3, 0.3)),
        "paired, missing": lambda: tp.paired_test(names, q, np.roll(q, 1, 1), T, "brier"),
        "rules": lambda: of_rules(),
        "rules, weights": lambda: of_rules(sample_weight=weights(N)),
        "rules, groups": lambda: of_rules(groups=uneven(N, 20)),
        "one rule": lambda: tp.weak_accuracy(np.where(z == 0, 0, 1), guess, tp.annotators([single])),
        "own votes": lambda: tp.weak_accuracy(answers, votes, crowd),
        "own votes but one": lambda: tp.weak_accuracy(answers, one_off, crowd),
        "own votes but two": lambda: tp.weak_accuracy(answers, two_off, crowd),
        "own votes, loss": lambda: [
            tp.weak_brier(answers, 0.9 * np.eye(3)[votes] + 0.1 / 3, crowd),
            tp.weak_log_loss(answers, 0.9 * np.eye(3)[votes] + 0.1 / 3, crowd),
        ],
        "soft": lambda: tp.weak_accuracy(soft, guess, SKEWED, sample_weight=weights(N)),
        "soft answers": lambda: [
            tp.weak_accuracy(several, g, tp.annotators([SKEWED, tp.symmetric_noise(3, 0.2)])) for g in (guess, believed)
        ],
        "many rules": lambda: tp.weak_accuracy(
            np.tile(rules, (1, 4)), guess, tp.estimate_annotators(np.tile(rules, (1, 4)), missing="answer").transition
        ),
        "float32": lambda: tp.weak_log_loss(y, q.astype(np.float32), SKEWED),
        "float guesses": lambda: tp.weak_accuracy(y, guess.astype(float), SKEWED),
        "a plain form": lambda: tp.Score.from_dict(tp.weak_log_loss(y, q, SKEWED).to_dict()),
        "a plain form of one row": lambda: str(tp.Score.from_dict(tp.weak_brier(y[:1], q[:1], SKEWED).to_dict())),
        "as a number": lambda: float(tp.weak_brier(y, q, SKEWED)) + float(tp.weak_calibration(y, q, SKEWED)),
        "clean": lambda: [clean_scores(z, q), clean_scores(z, zero), clean_scores(z, zero, floor=0.2, bins=4)],
        "reliability": lambda: [
            (r := reliability(z, q, 7)).confidence,
            r.accuracy,
            r.count,
            r.error,
            len(reliability(z, np.full((N, 3), np.nan)).count),
            reliability(z, np.eye(3)[guess]).error,
        ],
    }

    def lost() -> list[Any]:
        few = tp.Transition.from_counts([[2, 1, 1], [1, 2, 1], [1, 1, 2]])
        return [tp.weak_accuracy(y, guess, few), tp.weak_brier(y, q, few), str(tp.weak_calibration(y, q, few))]

    def drawn_few() -> list[Any]:
        with limited("metrics.uncertainty", ENTRIES=3000):
            few = tp.Transition.from_counts([[12, 1, 3], [2, 9, 2], [1, 2, 15]])
            return [tp.weak_accuracy(y, guess, few), str(tp.conformal(q, y, few))]

    return calls | {"draws that cannot be inverted": lost, "few draws": drawn_few}


class Told:
    """A classifier that says what it was given, by the rows' numbers."""

    def __init__(self, q: np.ndarray, classes: Any = None, **extra: Any) -> None:
        self.q = q
        if classes is not None:
            self.classes_ = np.asarray(classes)
        vars(self).update(extra)

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, K)."""
        return self.q[np.asarray(X, int)]

    def predict(self, X: Any) -> np.ndarray:
        """(n,)."""
        best = self.predict_proba(X).argmax(1)
        return self.classes_[best] if hasattr(self, "classes_") else best


def scorers() -> Cases:
    """Scorers for scikit-learn: by name and number, of pipelines and searches, with priors and weights."""
    _, z, q = world(3, N, 82)
    y = SKEWED.sample(z, seed=83)
    rows = np.random.default_rng(84).permutation(N)[:110]
    named, T = np.array(list("abc")), SKEWED.named(list("abc"))
    kinds = ("accuracy", "balanced_accuracy", "log_loss", "brier", "neg_log_loss", "neg_brier")
    out: Cases = {}
    for kind in kinds:

        def each(kind: str = kind) -> list[Any]:
            plain, own = Told(q), Told(q, named)
            pipe = Told(q, steps=[("scale", None), ("last", own)], classes=named)
            search = Told(q, best_estimator_=Told(q, named, transition_=T), classes=named)
            return [
                tp.weak_scorer(kind, SKEWED)(plain, rows, y[rows]),
                tp.weak_scorer(kind, SKEWED, reconstruction="pinv")(plain, rows, y[rows], weights(N)[rows]),
                tp.weak_scorer(kind, SKEWED, prior=[0.5, 0.3, 0.2])(plain, rows, y[rows]),
                tp.weak_scorer(kind, T)(own, rows, named[y[rows]]),
                tp.weak_scorer(kind, T)(
                    pipe, rows, [None if i % 6 == 0 else named[y[i]] for i in rows], weights(N)[rows]
                ),
                tp.weak_scorer(kind)(search, rows, named[y[rows]]),
                tp.weak_scorer(kind, tp.symmetric_noise(3, 0.3))(own, rows, y[rows]),
                tp.weak_scorer(kind, tp.symmetric_noise(3, 0.3))(own, rows, named[y[rows]]),
                tp.weak_scorer(kind, T.named(list("cab")))(own, rows, named[y[rows]]),
                tp.weak_scorer(kind, T.named([5, 7, 9]))(Told(q, [5, 7, 9]), rows, np.array([5, 7, 9])[y[rows]]),
                tp.weak_scorer(kind, SKEWED)(Told(q[:, :2] / q[:, :2].sum(1, keepdims=True), [0, 1]), rows, y[rows])
                if kind != "log_loss" and kind != "neg_log_loss"
                else 0,
            ]

        out[kind] = each
    partial = tp.partial_labels(3, 0.3)
    masks = partial.sample(z, seed=85)
    for kind in kinds[:4]:
        out[f"{kind}, sets"] = lambda kind=kind: tp.weak_scorer(kind, partial)(Told(q), rows, masks[rows])
    for what, wrong in {
        "unnamed": (SKEWED, named),
        "another width": (SKEWED, list("ab")),
        "none": (None, named),
    }.items():
        out[f"refused, {what}"] = lambda w=wrong: tp.weak_scorer("accuracy", w[0])(Told(q, w[1]), rows, named[y[rows]])
    return out


def curves() -> Cases:
    """Calibration and conformal sets: edges, few rows, groups, classes, thresholds."""
    _, z, q = world(3, N, 86)
    y = SKEWED.sample(z, seed=87)
    counts = np.zeros((3, 3))
    np.add.at(counts, (y[:90], z[:90]), 1)
    estimated = tp.Transition.from_counts(counts)
    edges = [0.0, 0.45, 0.6, 0.61, 0.9, 1.0]
    binary = tp.binary_noise(0.1, 0.3)
    two = world(2, N, 88)
    y2 = binary.sample(two[1], seed=89)
    calls: Cases = {}
    for name, T in {"T": SKEWED, "estimated T": estimated}.items():
        for what, some in {
            "bins": {"bins": 4},
            "edges": {"bins": edges},
            "uniform": {"bins": 5, "strategy": "uniform"},
            "groups": {"groups": uneven(N, 30)},
            "weights": {"sample_weight": weights(N)},
            "classwise": {"classwise": True, "bins": 3},
            "classwise, edges": {"classwise": True, "bins": edges},
            "classwise, groups": {"classwise": True, "groups": uneven(N, 30)},
            "classwise, weights": {"classwise": True, "sample_weight": weights(N), "strategy": "uniform", "bins": 6},
            "weights, groups": {"sample_weight": weights(N), "groups": uneven(N, 30), "bins": 3},
        }.items():
            calls[f"{name}, {what}"] = lambda T=T, s=some: whole(tp.weak_calibration(y, q, T, **s))
        calls[f"{name}, few"] = lambda T=T: whole(tp.weak_calibration(y[:9], q[:9], T))
        calls[f"{name}, conformal"] = lambda T=T: whole(tp.conformal(q, y, T, 0.75))
        calls[f"{name}, conformal, groups"] = lambda T=T: whole(tp.conformal(q, y, T, 0.9, groups=uneven(N, 30)))
        calls[f"{name}, conformal, weights"] = lambda T=T: whole(tp.conformal(q, y, T, 0.6, sample_weight=weights(N)))
        calls[f"{name}, conformal, few"] = lambda T=T: whole(tp.conformal(q[:20], y[:20], T, 0.5))
        calls[f"{name}, conformal, tiny"] = lambda T=T: whole(tp.conformal(q[:4], y[:4], T, 0.95))
    calls["perfect"] = lambda: whole(tp.weak_calibration(z, np.eye(3)[z], tp.identity(3)))
    calls["surely wrong"] = lambda: whole(tp.weak_calibration(z, np.eye(3)[(z + 1) % 3], tp.identity(3)))
    calls["wrong T"] = lambda: whole(tp.weak_calibration((z + 1) % 3, np.eye(3)[z], tp.symmetric_noise(3, 0.1)))
    calls["ties"] = lambda: whole(
        tp.weak_calibration(y, np.round(q * 4 + 0.2) / np.round(q * 4 + 0.2).sum(1, keepdims=True), SKEWED)
    )
    calls["two classes"] = lambda: whole(tp.weak_calibration(y2, two[2], binary, classwise=True))
    calls["identity"] = lambda: whole(tp.weak_calibration(z, q, tp.identity(3), bins=7))
    calls["sets, zeros"] = lambda: whole(tp.conformal(pointed(q, slice(0, N, 3)), y, SKEWED, 0.8))
    calls["sets, ties"] = lambda: whole(tp.conformal(np.tile([[0.5, 0.3, 0.2]], (N, 1)), y, SKEWED, 0.8))
    masks = tp.partial_labels(3, 0.3).sample(z, seed=90)
    calls["sets of sets"] = lambda: whole(tp.conformal(q, masks, tp.partial_labels(3, 0.3), 0.85))

    def steps() -> list[Any]:
        with limited("metrics.conformal", STEPS=40, COARSE=15):
            some = [tp.conformal(q, y, T, 0.8) for T in (SKEWED, estimated)]
            return [whole(s) for s in (*some, tp.conformal(q, y, SKEWED, 0.8, groups=uneven(N, 40)))]

    calls["fewer thresholds"] = steps
    return calls


def checks() -> Cases:
    """The test of T against labels of every kind that contradict it, at the edges of what is tested."""
    X, z, q = world(3, 260, 91)
    rng = np.random.default_rng(92)
    y = SKEWED.sample(z, seed=93)
    names = [None if i % 8 == 0 else "abc"[v] for i, v in enumerate(y)]
    T = SKEWED.named(list("abc"))
    hard = q.max(1) < np.median(q.max(1))
    easy = np.where(hard, tp.symmetric_noise(3, 0.6).sample(z, 94), z)
    runner = np.where(rng.random(260) < 0.3, np.argsort(-q, 1)[:, 1], q.argmax(1))
    sided = np.where(X[:, 1] > 0, z, tp.symmetric_noise(3, 0.6).sample(z, 95))
    zeros = tp.Transition([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    alike = tp.Transition([[0.5, 0.46, 0.1], [0.4, 0.44, 0.1], [0.1, 0.1, 0.8]])
    equal = tp.coarse_labels([[0, 1], [2]])
    partial = tp.partial_labels(3, 0.3)
    masks = partial.sample(z, seed=96)
    wide = rng.random((260, 3)) < 0.9
    wide[np.arange(260), z] = True
    uneven_sets = np.column_stack([rng.random(260) < p for p in (0.05, 0.3, 0.7)])
    uneven_sets[np.arange(260), z] = True
    m2 = tp.multi_complementary(4, 2)
    crowd = tp.annotators([tp.symmetric_noise(3, e) for e in (0.1, 0.3, 0.2)])
    answers = crowd_of(z, 3, 3, 0.2, 97)
    once = np.where(np.arange(3) == np.arange(260)[:, None] % 3, crowd_of(z, 3, 3, 0.0, 98), -1)
    common = np.where((rng.random(260) < 0.3)[:, None], ((z + 1) % 3)[:, None], z[:, None]) + np.zeros((1, 3), int)
    sources = tp.multi_source([tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.2)], [0.7, 0.3])
    told = sources.sample(z, seed=99)
    estimated = tp.estimate_transition(masks, np.where(np.arange(260) % 3 == 0, z, -1))
    counts = np.zeros((3, 3))
    np.add.at(counts, (y[:90], z[:90]), 1)
    learned = tp.Transition.from_counts(counts)
    runs: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
        "as it is": (y, SKEWED, q, {"X": X}),
        "no model": (y, SKEWED, None, {}),
        "missing": (names, T, q, {"X": X, "groups": uneven(260, 60)}),
        "groups": (y, SKEWED, q, {"X": X, "groups": uneven(260, 90), "random_state": 3}),
        "sparse": (y, SKEWED, q, {"X": csr_array(np.where(X > 0.3, X, 0.0))}),
        "tolerance": (y, SKEWED, q, {"tolerance": 0.2}),
        "too noisy a T": (z, SKEWED, q, {"X": X}),
        "too clean a T": (y, tp.symmetric_noise(3, 0.05), q, {"X": X}),
        "another T": (y, tp.pair_noise(3, 0.3), q, {}),
        "easy rows": (easy, tp.symmetric_noise(3, 0.4), q, {"X": X}),
        "runner-up": (runner, tp.symmetric_noise(3, 0.3), q, {"X": X}),
        "one side": (sided, tp.symmetric_noise(3, 0.4), q, {"X": X}),
        "bad model": (y, SKEWED, np.roll(q, 1, 1), {"X": X}),
        "flat model": (y, SKEWED, np.full((260, 3), 1 / 3), {}),
        "sure model": (y, SKEWED, 0.98 * np.eye(3)[q.argmax(1)] + 0.02 / 3, {}),
        "never": (np.where(np.arange(260) % 90 == 1, 3, np.minimum(y, 2)), zeros, q, {}),
        "alike": (alike.sample(z, 1), alike, q, {}),
        "equal": (equal.sample(z, 1), equal, q, {}),
        "sets": (masks, partial, q, {"X": X}),
        "sets, no model": (masks, partial, None, {}),
        "large sets": (wide, partial, q, {}),
        "uneven sets": (uneven_sets, partial, q, {"X": X}),
        "sets, estimated": (masks, estimated, q, {}),
        "fixed size": (m2.sample(z, 2), m2, None, {}),
        "another size": (tp.multi_complementary(4, 1).sample(z, 2), m2, None, {}),
        "crowd": (answers, crowd, q, {"X": X}),
        "crowd, one answer": (once, crowd, q, {}),
        "crowd, one answer, no model": (once, crowd, None, {}),
        "crowd, common errors": (common, crowd, q, {}),
        "crowd, no model": (answers, crowd, None, {"groups": uneven(260, 80)}),
        "crowd, impossible": (np.column_stack([z, (z + 1) % 3]), tp.annotators([tp.identity(3)] * 2), q, {}),
        "sources": (told, sources, q, {}),
        "sources, others": (
            tp.multi_source([tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.2)], [0.3, 0.7]).sample(z, 3),
            sources,
            None,
            {},
        ),
        "estimated": (y, learned, q, {"X": X}),
        "estimated, wrong": (np.roll(y, 1), learned, q, {"X": X}),
        "few": (y[:30], SKEWED, q[:30], {}),
        "fewer": (y[:6], SKEWED, q[:6], {}),
        "one": (y[:1], SKEWED, None, {}),
        "groups of one": (y, SKEWED, q, {"groups": np.arange(260)[::-1]}),
        "partly estimated crowd": (answers, tp.annotators([learned, SKEWED, tp.symmetric_noise(3, 0.2)]), q, {}),
        "two": (z % 2, tp.binary_noise(0.1, 0.3), world(2, 260, 91)[2], {}),
        "noise by two features": (np.where((X[:, 0] > 0.2) & (X[:, 2] < 0.4), z, y), SKEWED, q, {"X": np.round(X)}),
    }
    out: Cases = {}
    for name, (labels, t, p, some) in runs.items():
        out[name] = lambda y=labels, t=t, p=p, s=some: whole(tp.check_transition(y, t, p, **s))

    def fewer(module: str, **limit: int) -> Callable[[], Any]:
        def call() -> list[Any]:
            with limited(f"estimation.{module}", **limit):
                return [whole(tp.check_transition(easy, SKEWED, q, X=X)), whole(tp.check_transition(answers, crowd, q))]

        return call

    def sparse() -> list[Any]:
        with limited("estimation.check", MOST_FEATURES=2):
            return whole(tp.check_transition(sided, SKEWED, q, X=csr_array(np.where(X > 0.3, X, 0.0))))

    return out | {
        "two features": fewer("check", MOST_FEATURES=2),
        "two classes matched": fewer("check", MOST_MATCHED=2),
        "three classes matched": fewer("check", MOST_MATCHED=3),
        "no pairs": fewer("check", MOST_PAIRED=2),
        "pairs": fewer("check", MOST_PAIRED=3),
        "too large": fewer("check", MOST_CLASSES=2),
        "some rows": fewer("matching", MOST_ROWS=120),
        "some rows of matches": fewer("check", MOST_ROWS=120),
        "no large pairs": fewer("agreement", MOST_ENTRIES=10),
        "few pairs": fewer("agreement", MOST_PAIRS=1),
        "two annotators": fewer("agreement", MOST_ANNOTATORS=2),
        "normal tail": fewer("limits", LARGEST=2),
        "simulated": fewer("limits", SIMULATED=60),
        "sparse, two features": sparse,
    }


def moves() -> Cases:
    """How far scores go with T's rates, of every kind of T."""
    _, z, q = world(3, N, 101)
    guess, y = q.argmax(1), SKEWED.sample(z, seed=102)
    crowd = tp.annotators([tp.symmetric_noise(3, 0.1), SKEWED, tp.identity(3), tp.pair_noise(3, 0.25)])
    answers = crowd.sample(z, seed=103)
    sources = tp.multi_source([tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.2)], [0.7, 0.3])
    partial, near = tp.partial_labels(3, 0.3), tp.Transition([[0.42, 0.35], [0.58, 0.65]])
    two = world(2, N, 104)
    zero = pointed(q, slice(0, N, 5))
    rarely = tp.Transition([[0.98, 0.0, 0.01], [0.01, 1.0, 0.01], [0.01, 0.0, 0.98]])
    runs: dict[str, tuple[Any, Any]] = {
        "table": (y, SKEWED),
        "named": (["abc"[v] for v in y], SKEWED.named(list("abc"))),
        "missing": ([None if i % 5 == 0 else "abc"[v] for i, v in enumerate(y)], SKEWED.named(list("abc"))),
        "identity": (z, tp.identity(3)),
        "zeros": (rarely.sample(z, 1), rarely),
        "sets": (partial.sample(z, 1), partial),
        "complementary": (tp.complementary(3).sample(z, 1), tp.complementary(3)),
        "crowd": (answers, crowd),
        "known crowd": (np.stack([z, z], 1), tp.annotators([tp.identity(3)] * 2)),
        "sources": (sources.sample(z, 2), sources),
        "soft": (tp.SoftLabels(0.7 * np.eye(3)[y] + 0.1), SKEWED),
    }
    out: Cases = {}
    for name, (labels, T) in runs.items():
        said = ["abc"[v] for v in guess] if T.classes else guess
        out[name] = lambda y=labels, T=T, g=said: [
            whole(tp.sensitivity("accuracy", y, g, T, [0.2, 0.03])),
            whole(tp.sensitivity("brier", y, q, T)),
        ]
        out[f"{name}, log loss"] = lambda y=labels, T=T: whole(tp.sensitivity("log_loss", y, q, T, [0.07]))
    out["nearly singular"] = lambda: [
        whole(tp.sensitivity(s, near.sample(two[1], 3), p, near))
        for s, p in (("accuracy", two[2].argmax(1)), ("log_loss", two[2]))
    ]
    out["by name"] = lambda: whole(
        tp.sensitivity("accuracy", answers, guess, crowd, classes=list("xyz"), annotators=["ann", "bob", "cy", "di"])
    )
    out["classes by name"] = lambda: whole(tp.sensitivity("brier", y, q, SKEWED, classes=list("xyz")))
    out["0"] = lambda: tp.sensitivity("log_loss", partial.sample(z, 1), zero, partial)

    def one_rate() -> list[Any]:
        with limited("estimation.sensitivity", DENSE_CLASSES=2):
            return [
                whole(tp.sensitivity("accuracy", y, guess, T))
                for T in (tp.symmetric_noise(3, 0.3), tp.pair_noise(3, 0.3), SKEWED)
            ]

    def two_rates() -> list[Any]:
        with limited("estimation.sensitivity", MOST_RATES=2):
            return [
                whole(tp.sensitivity("accuracy", y, guess, SKEWED)),
                whole(tp.sensitivity("brier", answers, q, crowd)),
            ]

    edge = tp.Transition([[0.52, 0.5], [0.48, 0.5]])
    part = tp.Transition([[1.0, 0.2, 0.1], [0.0, 0.7, 0.1], [0.0, 0.1, 0.8]])
    fixed = tp.annotators([part, SKEWED])
    out["known in part"] = lambda: [
        whole(tp.sensitivity("accuracy", fixed.sample(z, 5), guess, fixed)),
        whole(tp.sensitivity("brier", part.sample(z, 5), q, part)),
    ]
    out["at the edge"] = lambda: [
        whole(tp.sensitivity(s, edge.sample(two[1], 3), p, edge, [0.02, 0.3]))
        for s, p in (("accuracy", two[2].argmax(1)), ("brier", two[2]))
    ]
    crossed = tp.annotators([edge, edge])
    out["a crowd at the edge"] = lambda: whole(
        tp.sensitivity("accuracy", crossed.sample(two[1], 3), two[2].argmax(1), crossed, [0.01, 0.02])
    )
    sized = tp.multi_complementary(4, 2)
    out["sets of one size"] = lambda: whole(tp.sensitivity("accuracy", sized.sample(z, 3), guess, sized))

    return out | {"one rate": one_rate, "two rates": two_rates}


def evaluations() -> Cases:
    """Evaluations: labels that contradict T, bounds of every kind, names, blocks, rows left out."""
    import pandas as pd

    X, z, q = world(3, 200, 105)
    rng = np.random.default_rng(106)
    y = SKEWED.sample(z, seed=107)
    gold = np.where(np.arange(200) % 4 == 0, z, -1)
    T = SKEWED.named(list("abc"))
    partial, comp = tp.partial_labels(3, 0.2), tp.complementary(3)
    wide = rng.random((200, 3)) < 0.7
    wide[np.arange(200), z] = True
    crowd = tp.annotators([tp.symmetric_noise(3, e) for e in (0.1, 0.3, 0.2)])
    rng.random(200)  # the figures kept below follow these in the stream
    nearly = np.where(rng.random(200) < 0.15, z, comp.sample(z, seed=108))
    zero = pointed(q, slice(0, 200, 6))
    coarse = tp.coarse_labels([[0], [1, 2]])
    estimated = tp.estimate_annotators(crowd.sample(z, 4), random_state=0).transition
    sided = np.where(X[:, 1] > 0, z, tp.symmetric_noise(3, 0.6).sample(z, 95))
    named_X = pd.DataFrame(X, columns=["size", "age", "hue", "mass"])
    zeros = tp.Transition([[0.8, 0.1, 0.0], [0.1, 0.8, 0.0], [0.0, 0.0, 0.9], [0.1, 0.1, 0.1]])
    cycle = tp.Transition([[0.0, 0.3, 0.7], [0.7, 0.0, 0.3], [0.3, 0.7, 0.0]])
    wide_T = tp.symmetric_noise(14, 0.3).named([f"k{i:02d}" for i in range(14)])
    runs: dict[str, tuple[Any, Any, Any, dict[str, Any]]] = {
        "plain": (q, y, SKEWED, {}),
        "identity": (q, z, tp.identity(3), {"X": X}),
        "names": (
            q,
            [None if i % 6 == 0 else "abc"[v] for i, v in enumerate(y)],
            T,
            {"X": X, "groups": uneven(200, 50)},
        ),
        "names, known": (q, ["abc"[v] for v in y], T, {"true": [None if v < 0 else "abc"[v] for v in gold]}),
        "known, groups": (q, y, SKEWED, {"true": gold, "groups": uneven(200, 50)}),
        "sparse": (q, y, SKEWED, {"X": csr_array(np.where(X > 0.3, X, 0.0))}),
        "bad model": (np.roll(q, 1, 1), y, SKEWED, {"X": X}),
        "too noisy a T": (q, np.where(rng.random(200) < 0.1, (z + 1) % 3, z), tp.symmetric_noise(3, 0.5), {"X": X}),
        "too noisy a T, groups": (q, z, tp.symmetric_noise(3, 0.5), {"groups": uneven(200, 60)}),
        "too clean a T": (q, y, tp.symmetric_noise(3, 0.02), {}),
        "large sets": (q, wide, partial, {}),
        "large sets, groups": (q, wide, partial, {"groups": uneven(200, 60), "true": gold}),
        "large sets, 0": (zero, wide, partial, {}),
        "not this, wrong": (q, nearly, comp, {}),
        "crowd": (q, crowd.sample(z, 2), crowd, {}),
        "estimated crowd": (q, crowd.sample(z, 4), estimated, {}),
        "soft": (q, tp.SoftLabels(0.7 * np.eye(3)[y] + 0.1), SKEWED, {}),
        "coarse": (q, coarse.sample(z, 1), coarse, {"true": gold}),
        "coarse, nobody known": (q, coarse.sample(z, 1), coarse, {}),
        "nobody known": (q, y, SKEWED, {"true": np.full(200, -1)}),
        "few": (q[:25], y[:25], SKEWED, {}),
        "a feature by name": (q, sided, tp.symmetric_noise(3, 0.4), {"X": named_X}),
        "impossible crowd": (q, np.column_stack([z, (z + 1) % 3]), tp.annotators([tp.identity(3)] * 2), {}),
        "zeros": (q, np.where(np.arange(200) % 4 == 0, 3, z), zeros, {}),
        "zeros, groups": (q, np.where(np.arange(200) % 4 == 0, 3, z), zeros, {"groups": uneven(200, 60)}),
        "zeros elsewhere": (q, np.where(np.arange(200) % 3 == 0, (z + 2) % 3, z), cycle, {}),
        "many classes": (world(14, 200, 3)[2], [f"k{v:02d}" for v in world(14, 200, 3)[1]], wide_T, {}),
        "one class known": (q, y, SKEWED, {"true": np.where(gold == 0, 0, -1)}),
        "few, known": (q[:12], y[:12], SKEWED, {"true": gold[:12]}),
    }

    def told(found: tp.Evaluation) -> list[Any]:
        return [
            str(found),
            flat(found.to_dict()),
            found.doubts,
            found.no_scores,
            [b.heading for b in found.bounds.values()],
        ]

    out: Cases = {}
    for name, (p, labels, t, some) in runs.items():
        out[name] = lambda p=p, y=labels, t=t, s=some: told(tp.evaluate(p, y, t, **s))

    never = q.copy()
    never[130, z[130]] = 0.0
    never /= never.sum(1, keepdims=True)

    def in_blocks(T: tp.Transition) -> Callable[[], Any]:
        def call() -> list[Any]:
            with limited("evaluation.streamed", BLOCK_ROWS=30, BLOCK_CELLS=3):
                some = StreamedScores(T)
                for i in range(0, 200, 37):
                    some.add(y[i : i + 37], q[i : i + 37])
                some.add(y[:0], q[:0])
                found, other = some.scores(), StreamedScores(tp.identity(3))
                for i in range(0, 200, 90):
                    other.add(z[i : i + 90], never[i : i + 90])
                return [[whole(s) for s in found.values()], [str(s) for s in other.scores().values()]]

        return call

    def some_rows() -> list[Any]:
        with limited("evaluation.evaluation", CHECKED_ROWS=55):
            return [
                told(tp.evaluate(q, y, SKEWED, X=M, groups=g))
                for M in (X, csr_array(X))
                for g in (None, uneven(200, 70))
            ]

    def evenly() -> list[Any]:
        out: list[Any] = []
        for blocks in ([7, 1, 12, 40, 3], [64], [1] * 9, [5, 5, 5, 30]):
            rows, at = Evenly(5), 0
            for n in blocks:
                rows.add(
                    np.arange(at, at + n), np.arange(at, at + n)[:, None] / 7, csr_array(np.eye(2)[np.arange(n) % 2])
                )
                at += n
            labels, p, features = rows.kept()
            out += [labels, p, features.toarray(), rows.stride, rows.at(np.arange(len(labels)))]
        return out

    counts = np.zeros((3, 3))
    np.add.at(counts, (y[:90], z[:90]), 1)
    masks = rng.random((40, 3)) < 0.5
    masks[:, 1] |= ~masks.any(1)
    all_in = np.ones((5, 3), bool)

    def straight() -> list[Any]:
        groups = np.unique(uneven(40, 12), return_inverse=True)[1]
        found = [
            candidate_bounds(m, p, g)
            for m, p, g in (
                (masks, q[:40], None),
                (masks, q[:40], groups),
                (masks, zero[:40], None),
                (all_in, q[:5], None),
                (masks[:1], q[:1], None),
            )
        ]
        return [[flat(b.to_dict()), b.heading] for f in found for b in f.values()]

    return out | {
        "blocks": in_blocks(SKEWED),
        "blocks, estimated T": in_blocks(tp.Transition.from_counts(counts)),
        "some rows": some_rows,
        "evenly": evenly,
        "candidates": straight,
    }


def pictures() -> Cases:
    """What is drawn beside a report."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    _, z, q = world(3, N, 110)
    y = SKEWED.sample(z, seed=111)
    found = tp.evaluate(q, y, SKEWED, true=np.where(np.arange(N) % 2 == 0, z, -1))

    def drawn(weak: Any, clean: Any, before: Any) -> list[Any]:
        seen: list[Figure] = []
        with patch("tproper.plots.save_picture", lambda figure, *_: seen.append(figure)):
            draw(weak, clean, None, before=before)  # type: ignore[arg-type]
        axes = seen[0].axes[0]
        out: list[Any] = [line.get_xydata() for line in axes.lines]
        out += [c.get_offsets() for c in axes.collections] + [
            np.concatenate(list(c.get_segments()))
            for c in axes.collections
            if hasattr(c, "get_segments") and len(c.get_segments())
        ]
        return [*out, axes.get_xlim(), axes.get_ylim(), [Word(t.get_text()) for t in axes.get_legend().get_texts()]]

    before = found.scores["calibration"].to_dict()
    return {
        "both": lambda: drawn(found.scores, found.clean, None),
        "before": lambda: drawn(found.scores, None, before),
        "clean": lambda: drawn(None, found.clean, None),
    }


def scores() -> Cases:
    """Every case of scores by its name."""
    rooms = {
        "known rows": with_known_rows,
        "alone": by_labels_alone,
        "scorer": scorers,
        "curve": curves,
        "test of T": checks,
        "moved": moves,
        "report": evaluations,
        "picture": pictures,
    }
    return {f"{head}: {name}": call for head, room in rooms.items() for name, call in room().items()}
