"""Cells in which assumptions bend: a class that differs, groups, rare classes, a wrong model, noise that varies.

`benchmarks/coverage.py` runs them, `benchmarks/coverage_page.py` shows them. A figure is a pair of counts, how often
something was so and how often it was tried, and `REQUIRED` says how often it has to be. Every *kind of entry* is a
figure of its own (the class that differs, its errors, the other classes): a mean over all entries hides the one that
fails. Settings that nobody knows beforehand (which class differs, how good the model is, class shares) and all random
numbers change with the date of the record.
"""

from __future__ import annotations

import functools
import hashlib
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tproper as tp

Array = np.ndarray[Any, Any]


class Counts:
    """Figures of a block of data sets: "so" and "tried", added up by `_pieces.totals`."""

    def __init__(self) -> None:
        self.figures: dict[str, dict[str, float]] = {}
        self.means: dict[str, float] = {}

    def add(self, name: str, so: Any, weight: float = 1.0) -> None:
        """One more, or as many as the array `so` has entries."""
        values = np.asarray(so, dtype=bool)
        figure = self.figures.setdefault(name, {"so": 0.0, "tried": 0.0})
        figure["so"] += weight * float(values.sum())
        figure["tried"] += weight * values.size

    def covers(self, name: str, truth: float, interval: Any) -> None:
        """Whether the interval holds the truth."""
        low, high = (float(x) for x in interval)
        self.add(name, low <= truth <= high)

    def shown(self, name: str, truth: float, score: Any) -> None:
        """The same for all data sets, and for those whose score is said to be informative."""
        low, high = score.interval
        self.add(name, low <= truth <= high)
        if score.informative:
            self.add(f"{name}, where shown", low <= truth <= high)

    def share(self, name: str, value: float) -> None:
        """A share of its own in each data set: "square" tells how the shares vary."""
        figure = self.figures.setdefault(name, {"so": 0.0, "tried": 0.0, "square": 0.0})
        figure["so"] += float(value)
        figure["tried"] += 1.0
        figure["square"] += float(value) ** 2

    def mean(self, name: str, value: float) -> None:
        self.means[name] = self.means.get(name, 0.0) + float(value)

    def result(self) -> dict[str, Any]:
        return {"figures": self.figures, "means": self.means}


def stream(*names: Any) -> np.random.Generator:
    """A random stream of its own for every combination of part, cell, date and data set."""
    digest = hashlib.sha256("|".join(map(str, names)).encode()).digest()
    return np.random.default_rng(np.frombuffer(digest[:16], dtype=np.uint32))


def streams(part: str, date: str, first: int, sets: int, cell: dict[str, Any]) -> Iterator[np.random.Generator]:
    """One for each data set of a block."""
    named = sorted(cell.items())
    for seed in range(first, first + sets):
        yield stream(part, date, named, seed)


def draw(p: Array, rng: np.random.Generator) -> Array:
    """A class for each row of probabilities (n, K)."""
    return (p.cumsum(axis=1) < rng.random((len(p), 1))).sum(axis=1).clip(max=p.shape[1] - 1)


def softmax(scores: Array) -> Array:
    e = np.exp(scores - scores.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def guesses(z: Array, right: Array, rng: np.random.Generator) -> Array:
    """The class with its probability `right` (K,), and else any other one."""
    K = len(right)
    return np.where(rng.random(len(z)) < right[z], z, (z + rng.integers(1, K, len(z))) % K)


# -- T from counts, one class or annotator that differs -------------------------------------------------------------


def outlier(K: int, rows: int, low: float, date: str, first: int, sets: int) -> dict[str, Any]:
    """T from clean rows in which one class is right with probability `low`, all others with .9; .9: none differs."""
    out, setting = Counts(), stream("outlier setting", date, K, rows, low)
    odd, right = int(setting.integers(K)), float(setting.uniform(0.7, 0.9))
    spread = setting.dirichlet(np.full(K - 1, float(setting.choice([1.0, 100.0]))))  # where its errors go
    T = tp.symmetric_noise(K, 0.1).matrix()
    if low != 0.9:
        T[np.arange(K) != odd, odd] = (1 - low) * spread
        T[odd, odd] = low
    true, diagonal, own = tp.Transition(T), np.eye(K, dtype=bool), np.arange(K) == odd
    kinds = {
        "the class that differs": diagonal & own,
        "its errors": ~diagonal & own,
        "the other classes": diagonal & ~own,
        "their errors": ~diagonal & ~own,
    }
    for rng in streams("outlier", date, first, sets, {"K": K, "rows": rows, "low": low}):
        classes, counts = rng.integers(0, K, rows), np.zeros((K, K))
        np.add.at(counts, (true.sample(classes, rng), classes), 1)
        E = tp.Transition.from_counts(counts)
        least, most = E.interval()
        inside = (least <= T) & (most >= T)
        for name, where in kinds.items():
            out.add(name, inside[where])
        out.mean("width of the diagonal", (most - least).diagonal().mean())
        z = rng.integers(0, K, 2000)
        predicted, y = guesses(z, np.full(K, right), rng), true.sample(z, rng)
        out.covers("accuracy", right, tp.weak_accuracy(y, predicted, E).interval)
        shares = tp.weak_prevalence(y, E).interval
        held = (shares[:, 0] <= 1 / K) & (shares[:, 1] >= 1 / K)
        out.add("prevalence of the class that differs", held[odd])
        out.add("prevalence of the others", held[~own])
    return out.result()


def odd_annotator(K: int, answers: int, redundancy: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """Twenty annotators, nineteen of whom are right with .85 and one with .40; T from their answers alone."""
    out, setting = Counts(), stream("annotator setting", date, K, answers, redundancy)
    m, odd, right = 20, int(setting.integers(20)), float(setting.uniform(0.7, 0.9))
    n = m * answers // redundancy
    skill = np.where(np.arange(m) == odd, 0.4, 0.85)
    for rng in streams("odd_annotator", date, first, sets, {"K": K, "answers": answers, "redundancy": redundancy}):
        z = rng.integers(0, K, n)
        who = np.concatenate([rng.permutation(m) for _ in range(-(-n * redundancy // m))])[: n * redundancy]
        y = np.full((n, m), -1)
        for a in who.reshape(n, redundancy).T:
            y[np.arange(n), a] = np.where(rng.random(n) < skill[a], z, (z + rng.integers(1, K, n)) % K)
        predicted = guesses(z, np.full(K, right), rng)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = tp.estimate_annotators(y, num_classes=K, missing="random", random_state=0)
        for a, E in enumerate(found.transitions):
            least, most = (side.diagonal() for side in E.interval())
            name = "the annotator who differs" if a == odd else "the others"
            out.add(name, (least <= skill[a]) & (skill[a] <= most))
            if a == odd:
                out.mean("told of the one who differs", E.matrix().diagonal().mean())
        score = tp.weak_accuracy(y, predicted, found.transition)
        out.covers("accuracy", right, score.interval)
    return out.result()


# -- Rows in groups -------------------------------------------------------------------------------------------------

GROUP_KINDS: dict[str, Callable[[], tp.Transition]] = {
    "symmetric .3": lambda: tp.symmetric_noise(3, 0.3),
    "complementary": lambda: tp.complementary(3),
}
OVER = 1.7  # scores by those that are right


def grouped_rows(groups: int, each: int, rng: np.random.Generator, tilt: Array) -> dict[str, Array]:
    """Items of one class each, with rows that look a little different, and the scores of three models."""
    code = np.repeat(np.arange(groups), each)
    u = rng.normal(size=(groups, len(tilt))) * 2 + tilt

    def near(of_item: float, of_row: float) -> Array:
        item = u + of_item * rng.normal(size=u.shape)
        return item[code] + of_row * rng.normal(size=(len(code), u.shape[1]))

    return {"code": code, "p": softmax(u)[code], "scores": OVER * near(0, 0.5), "a": near(1, 0.5), "b": near(1, 0.5)}


@functools.lru_cache(maxsize=8)
def grouped_truth(date: str, kind: str) -> dict[str, Any]:
    """Expectations, by a pool of 200,000 items; the same settings for all designs of a date."""
    setting = stream("groups setting", date, kind)
    tilt = setting.normal(size=3) * 0.5
    pool = grouped_rows(200_000, 1, stream("groups pool", date, kind), tilt)
    q = softmax(pool["scores"])
    right = pool["p"][np.arange(len(q)), q.argmax(axis=1)]
    return {
        "tilt": tilt,
        "accuracy": float(right.mean()),
        "log loss": float(-(pool["p"] * np.log(q)).sum(axis=1).mean()),
        "shares": pool["p"].mean(axis=0),
        "scores": pool["scores"][:20_000],
        "p": pool["p"][:20_000],
    }


def groups(groups: int, each: int, shared: bool, kind: str, date: str, first: int, sets: int) -> dict[str, Any]:
    """Rows of one item have one class; with `shared` they have one label as well. A right T, and models whose errors go
    with the item."""
    out, T, truth = Counts(), GROUP_KINDS[kind](), grouped_truth(date, kind)
    for rng in streams("groups", date, first, sets, {"groups": groups, "each": each, "shared": shared, "kind": kind}):
        rows = grouped_rows(groups, each, rng, truth["tilt"])
        code, q, a, b = rows["code"], softmax(rows["scores"]), softmax(rows["a"]), softmax(rows["b"])
        z = draw(rows["p"][::each], rng)
        y = np.asarray(T.sample(z, rng))[code] if shared else np.asarray(T.sample(z[code], rng))
        out.covers("accuracy", truth["accuracy"], tp.weak_accuracy(y, q.argmax(axis=1), T, groups=code).interval)
        out.covers("log loss", truth["log loss"], tp.weak_log_loss(y, q, T, groups=code).interval)
        out.covers("paired test, log loss", 0.0, tp.paired_test(y, a, b, T, groups=code).interval)
        out.covers("paired test, accuracy", 0.0, tp.paired_test(y, a, b, T, "accuracy", groups=code).interval)
        shares = tp.weak_prevalence(y, T, groups=code).interval
        for c, (low, high) in enumerate(shares):
            out.covers(f"prevalence of class {c}", truth["shares"][c], (low, high))
        calibrator = tp.calibrate(rows["scores"], y, T, groups=code)
        low, high = calibrator.gain.interval
        out.add("a map is tried", calibrator.gain.informative)
        if calibrator.gain.informative and low < high:
            before, after = (
                np.log(softmax(s) @ T.matrix().T) for s in (truth["scores"], calibrated(calibrator, truth))
            )
            out.covers("gain", float((truth["p"] @ T.matrix().T * (after - before)).sum(axis=1).mean()), (low, high))
        X = np.log(rows["a"] - rows["a"].min() + 1)
        for name, check in (
            ("check_transition rejects, labels alone", tp.check_transition(y, T, groups=code)),
            ("check_transition rejects", tp.check_transition(y, T, rows["p"], X=X, groups=code)),
        ):
            out.add(name, check.p_value < 0.05)
    return out.result()


def calibrated(calibrator: Any, truth: dict[str, Any]) -> Array:
    return np.asarray(calibrator.scores(truth["scores"]))


# -- Rare classes ---------------------------------------------------------------------------------------------------

RARE_KINDS: dict[str, Callable[[], tp.Transition]] = {
    "clean": lambda: tp.identity(2),
    "noisy": lambda: tp.symmetric_noise(2, 0.2),
    "PU, r = .1": lambda: tp.positive_unlabeled(0.1),
    "clean, four classes": lambda: tp.identity(4),
    "noisy, four classes": lambda: tp.symmetric_noise(4, 0.2),
}
SURE = 0.9  # what a model says of its prediction


def rare(kind: str, share: float, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """Class 0 has a small share. Two models of one accuracy, which differ more or less often."""
    out, T, setting = Counts(), RARE_KINDS[kind](), stream("rare setting", date, kind, share, n)
    K = T.num_classes
    prior = np.array([share] + [(1 - share) / (K - 1)] * (K - 1))
    right = np.array([setting.uniform(0.4, 0.8)] + [setting.uniform(0.85, 0.95)] * (K - 1))
    alike = float(setting.choice([0.0, 0.7]))  # how often the second model repeats the first
    accuracy, balanced = float(prior @ right), float(right.mean())
    wrong = (1 - SURE) / (K - 1)
    loss = -accuracy * math.log(SURE) - (1 - accuracy) * math.log(wrong)
    for rng in streams("rare", date, first, sets, {"kind": kind, "share": share, "n": n}):
        z = rng.choice(K, n, p=prior)
        y, a = np.asarray(T.sample(z, rng)), guesses(z, right, rng)
        b = np.where(rng.random(n) < alike, a, guesses(z, right, rng))
        q = np.full((n, K), wrong)
        q[np.arange(n), a] = SURE
        out.shown("accuracy", accuracy, tp.weak_accuracy(y, a, T))
        out.shown("balanced accuracy, known prior", balanced, tp.weak_balanced_accuracy(y, a, T, prior=prior))
        out.shown("balanced accuracy", balanced, tp.weak_balanced_accuracy(y, a, T))
        out.shown("log loss", loss, tp.weak_log_loss(y, q, T))
        test = tp.paired_test(y, a, b, T, "accuracy")
        out.add("paired test of accuracy rejects", test.better is not None)
        worse = guesses(z, right - 0.2, rng)  # a difference that is there
        out.shown("paired test, a difference of .2", 0.2, tp.paired_test(y, a, worse, T, "accuracy"))
        low, high = tp.weak_prevalence(y, T).interval[0]
        out.covers("prevalence of the rare class", share, (low, high))
        check = tp.check_transition(y, T, posterior(a, right, prior))
        out.add("check_transition rejects", check.p_value < 0.05)
    return out.result()


def posterior(predicted: Array, right: Array, prior: Array) -> Array:
    """The true class probabilities given a prediction."""
    K = len(right)
    said = (1 - right) / (K - 1) * (1 - np.eye(K)) + np.diag(right)  # P(prediction | class)
    joint = said[predicted] * prior
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


# -- Tests of T -----------------------------------------------------------------------------------------------------


def truth_of(problem: str, n: int, rng: np.random.Generator, K: int) -> tuple[Array, Array]:
    """Features and class probabilities."""
    if problem in ("d = 20", "d = 200"):
        X = rng.normal(size=(n, int(problem[4:])))
        return X, softmax(1.5 * X[:, :K])
    X = rng.normal(size=(n, 5))
    if problem == "quadratic":
        return X, softmax(np.column_stack([2 * (X[:, k] ** 2 - 1) for k in range(K - 1)] + [X[:, 4]]))
    if problem == "xor":
        s = 3 * np.sign(X[:, 0] * X[:, 1]) * np.minimum(np.abs(X[:, 0]), 1)
        return X, softmax(np.column_stack([s, -s] + [X[:, 1 + k] for k in range(1, K - 1)]))
    if problem == "heavy tails":
        X = rng.standard_t(2, size=(n, 5))
        return X, softmax(1.5 * X[:, :K])
    if problem == "separate":
        return X, softmax(6 * X[:, :K])
    if problem == "overlap":
        return X, softmax(0.7 * X[:, :K])
    return X, softmax(2 * X[:, :K])  # a linear model is right


def cross_fitted(X: Array, y: Any, T: tp.Transition, rng: np.random.Generator) -> Array:
    """Held-out probabilities of the default linear model, three folds."""
    p, fold = np.empty((len(X), T.num_classes)), rng.permutation(len(X)) % 3
    for f in range(3):
        model = tp.WeakLabelClassifier(T, random_state=0, classes=list(range(T.num_classes)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            p[fold == f] = model.fit(X[fold != f], y[fold != f]).predict_proba(X[fold == f])
    return p


CHECK_KINDS: dict[str, Callable[[], tp.Transition]] = {
    "symmetric .3": lambda: tp.symmetric_noise(3, 0.3),
    "complementary": lambda: tp.complementary(3),
    "PU, r = .4": lambda: tp.positive_unlabeled(0.4),
}


def wrong_model(problem: str, kind: str, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """The right T and a linear model, which cannot be right or overfits."""
    out, T = Counts(), CHECK_KINDS[kind]()
    for rng in streams("wrong_model", date, first, sets, {"problem": problem, "kind": kind, "n": n}):
        X, p = truth_of(problem, n, rng, T.num_classes)
        y = np.asarray(T.sample(draw(p, rng), rng))
        q = cross_fitted(X, y, T, rng)
        check = tp.check_transition(y, T, q, X=X)
        out.add("T called doubtful", not check.plausible)
        out.add("the model, or T, called doubtful", not (check.plausible and check.model_fits))
        best = q.argmax(axis=1)
        out.covers("accuracy", float(p[np.arange(n), best].mean()), tp.weak_accuracy(y, best, T).interval)
    return out.result()


def skewed(K: int, seed: int) -> tp.Transition:
    """Columns of different quality whose errors go mostly to one class each."""
    rng = np.random.default_rng(seed)
    T = np.zeros((K, K))
    for z in range(K):
        wrong = rng.uniform(0.05, 0.5)
        T[:, z] = 0.2 * wrong / (K - 1)
        T[(z + rng.integers(1, K)) % K, z] += 0.8 * wrong
        T[z, z] = 0.0
        T[z, z] = 1 - T[:, z].sum()
    return tp.Transition(T)


WRONG_T: dict[str, Callable[[], tuple[tp.Transition, tp.Transition]]] = {  # right, wrong
    "symmetric .3 taken for .1": lambda: (tp.symmetric_noise(3, 0.3), tp.symmetric_noise(3, 0.1)),
    "symmetric .1 taken for .3": lambda: (tp.symmetric_noise(3, 0.1), tp.symmetric_noise(3, 0.3)),
    "pair .3 taken for symmetric": lambda: (tp.pair_noise(4, 0.3), tp.symmetric_noise(4, 0.3)),
    "symmetric .3 taken for pair": lambda: (tp.symmetric_noise(4, 0.3), tp.pair_noise(4, 0.3)),
    "binary .45, .05 taken for .25": lambda: (tp.binary_noise(0.45, 0.05), tp.symmetric_noise(2, 0.25)),
    "PU, r = .3 taken for .6": lambda: (tp.positive_unlabeled(0.3), tp.positive_unlabeled(0.6)),
    "PU, r = .6 taken for .3": lambda: (tp.positive_unlabeled(0.6), tp.positive_unlabeled(0.3)),
    "complementary with noise .2 taken for clean": lambda: (tp.complementary(4, noise=0.2), tp.complementary(4)),
    "candidate sets .35 taken for .25": lambda: (tp.partial_labels(4, 0.35), tp.partial_labels(4, 0.25)),
    "skewed columns taken for symmetric": lambda: (
        skewed(4, 5),
        tp.symmetric_noise(4, 1 - float(skewed(4, 5).matrix().diagonal().mean())),
    ),
}


def wrong_T(case: str, n: int, date: str, first: int, sets: int, code: str = "") -> dict[str, Any]:
    """A model of the right form, trained with a wrong T. `code` is the version of the library, if not this one."""
    out, (right, wrong) = Counts(), WRONG_T[case]()
    for rng in streams("wrong_T", date, first, sets, {"case": case, "n": n}):
        X, p = truth_of("linear", n, rng, right.num_classes)
        y = np.asarray(right.sample(draw(p, rng), rng))
        q = cross_fitted(X, y, wrong, rng)
        check = tp.check_transition(y, wrong, q) if code else tp.check_transition(y, wrong, q, X=X)
        out.add("T called doubtful", not check.plausible)
        out.add("the model, or T, called doubtful", not (check.plausible and getattr(check, "model_fits", True)))
    return out.result()


# -- Noise that depends on x ----------------------------------------------------------------------------------------


def noisy(noise: str, p: Array, X: Array, z: Array, rng: np.random.Generator) -> Array:
    """Weak labels whose errors depend on the row, although on average they are those of symmetric noise .3."""
    n, K = p.shape
    other = (z + rng.integers(1, K, n)) % K
    if noise == "runner-up":
        first, second = np.argsort(-p, axis=1)[:, :2].T
        return np.where(rng.random(n) < 0.3, np.where(z == first, second, first), z)
    rate = np.full(n, 0.3)
    if noise == "hardness":
        sure = p.max(axis=1)
        rate = np.where(sure > np.median(sure), 0.1, 0.5)
    if noise == "feature":
        rate = np.where(X[:, 3] > 0, 0.1, 0.5)
    return np.where(rng.random(n) < rate, other, z)


def depends_on_x(noise: str, K: int, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """The average T, a linear model that is right, and noise that varies; "none": it does not."""
    out, T = Counts(), tp.symmetric_noise(K, 0.3)
    for rng in streams("depends_on_x", date, first, sets, {"noise": noise, "K": K, "n": n}):
        X = rng.normal(size=(n, 5))
        p = softmax(2 * X[:, :K]) if K <= 5 else softmax(X @ np.random.default_rng(K).normal(size=(5, K)) * 1.5)
        z = draw(p, rng)
        y = noisy(noise, p, X, z, rng)
        q = cross_fitted(X, y, T, rng)
        best = q.argmax(axis=1)
        check = tp.check_transition(y, T, q, X=X)
        low, high = tp.weak_accuracy(y, best, T).interval
        truth = float(p[np.arange(n), best].mean())
        held, warned = low <= truth <= high, not (check.plausible and check.model_fits)
        if noise == "none":
            out.add("T confirmed", check.confirmed)
            out.add("T called doubtful", not check.plausible)
        else:
            out.add("warned of, not confirmed, or covered", warned or held or not check.confirmed)
            out.add("T, or the model, called doubtful", warned)
            out.add("confirmed", check.confirmed)
        out.covers("accuracy", truth, (low, high))
    return out.result()


# -- T from features ------------------------------------------------------------------------------------------------

WRONG_FORM = ("quadratic", "xor")  # for a linear model
FEATURE_T: dict[str, Callable[[], tp.Transition]] = {
    "symmetric .3": lambda: tp.symmetric_noise(3, 0.3),
    "skewed": lambda: skewed(3, 8),
}


def from_features(problem: str, kind: str, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """T from weak labels and features, and the accuracy of a given model by that T."""
    out, T = Counts(), FEATURE_T[kind]()
    right = float(stream("features setting", date, problem, kind).uniform(0.7, 0.9))
    diagonal = np.eye(3, dtype=bool)
    for rng in streams("from_features", date, first, sets, {"problem": problem, "kind": kind, "n": n}):
        X, p = truth_of(problem, n, rng, 3)
        z = draw(p, rng)
        y = np.asarray(T.sample(z, rng))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            E = tp.estimate_transition(y, X=X, num_classes=3, random_state=0)
        least, most = E.interval()
        inside = (least <= T.matrix()) & (T.matrix() <= most)
        predicted = guesses(z, np.full(3, right), rng)
        score = tp.weak_accuracy(y, predicted, E)
        form = any("form does not fit" in str(w.message) for w in told)
        held = score.interval[0] <= right <= score.interval[1]
        out.add("something warned of", any(issubclass(w.category, tp.IdentifiabilityWarning) for w in told))
        out.add("the form called wrong", form)
        if problem in WRONG_FORM:
            out.add("accuracy covered, or the form called wrong", held or form)
        out.add("diagonal of T", inside[diagonal])
        out.add("errors of T", inside[~diagonal])
        out.add("accuracy", held)
        out.mean("width of the accuracy", score.interval[1] - score.interval[0])
    return out.result()


# -- T by groups of rows, from three answers a row -------------------------------------------------------------------


def by_group(hard: float, K: int, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """Easy rows, where answers are wrong with .1, and hard ones, by how sure the truth is of a row's class."""
    out = Counts()
    for rng in streams("by_group", date, first, sets, {"hard": hard, "K": K, "n": n}):
        X = rng.normal(size=(n, 5))
        p = softmax(2 * X[:, :K])
        z, sure = draw(p, rng), p.max(axis=1)
        easy = sure > np.median(sure)
        wrong = rng.random((n, 3)) < np.where(easy, 0.1, hard)[:, None]
        answers = np.where(wrong, (z[:, None] + rng.integers(1, K, (n, 3))) % K, z[:, None])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = tp.transitions_by_group(answers, np.where(easy, "easy", "hard"), num_classes=K)
        for name, T in found.groups.items():
            least, most = (side.diagonal() for side in T.interval())
            right = 1 - (0.1 if name == "easy" else hard)
            out.add(f"T of {name} rows", (least <= right) & (right <= most))
        name = "T differs between groups"
        out.add(name if hard != 0.1 else f"{name}, though it does not", found.p_value < 0.05)
    return out.result()


# -- Never worse than the class shares ------------------------------------------------------------------------------

SHARES_K = 3
SHARES_KINDS: dict[str, Callable[[], tp.Transition]] = {
    "symmetric .3": lambda: tp.symmetric_noise(SHARES_K, 0.3),
    "complementary": lambda: tp.complementary(SHARES_K),
}
SLACK, NEW = 0.02, 10_000  # what log loss may be above that of the shares; rows that tell the truth


def likeliest_shares(y: Array, T: Array) -> Array:
    """Shares of the classes (K,) by maximum likelihood from weak labels, with one more row of each class (EM)."""
    K = T.shape[1]
    pi, rows = np.full(K, 1 / K), T[y]  # (n, K)
    for _ in range(2000):
        joint = rows * pi
        counts = (joint / joint.sum(axis=1, keepdims=True)).sum(axis=0) + 1
        new = counts / counts.sum()
        if np.abs(new - pi).max() < 1e-10:
            break
        pi = new
    return np.asarray(new)


def class_shares(problem: str, kind: str, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """The default classifier with a model that cannot be right, or with as many features as rows, beside the class
    shares that the same weak labels give."""
    out, T = Counts(), SHARES_KINDS[kind]()
    for rng in streams("class_shares", date, first, sets, {"problem": problem, "kind": kind, "n": n}):
        X, p = truth_of(problem, n + NEW, rng, SHARES_K)
        y = np.asarray(T.sample(draw(p[:n], rng), rng))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = tp.WeakLabelClassifier(T, classes=list(range(SHARES_K)), random_state=0).fit(X[:n], y)
        q, new = model.predict_proba(X[n:]), p[n:]
        log_loss = -float((new * np.log(q)).sum(axis=1).mean())
        excess = log_loss + float(new.mean(axis=0) @ np.log(likeliest_shares(y, T.matrix())))
        out.add("log loss at most that of the shares + .02", excess <= SLACK)
        out.mean("log loss above that of the shares", excess)
        told = model.calibrator_.reliability.get("after")
        if told is not None:
            low, high = told["interval"]
            truth = calibration_error(q, new, np.asarray(told["curve"]["edges"], dtype=np.float64))
            out.add("calibration error of the calibrated model", low <= truth <= high)
    return out.result()


def calibration_error(q: Array, p: Array, edges: Array) -> float:
    """The root of the mean square of confidence less truth over bins of confidence, from true probabilities."""
    best = q.argmax(axis=1)
    gap = (p - q)[np.arange(len(q)), best]
    bins = np.searchsorted(edges[1:-1], q.max(axis=1))
    size = np.bincount(bins)
    used = size > 0
    return float(np.sqrt((np.bincount(bins, gap)[used] ** 2 / size[used]).sum() / len(q)))


# -- Prediction sets ------------------------------------------------------------------------------------------------

SETS_K = 4
SETS_KINDS: dict[str, Callable[[], Any]] = {
    "symmetric .3": lambda: tp.symmetric_noise(SETS_K, 0.3),
    "pair .3": lambda: tp.pair_noise(SETS_K, 0.3),
    "partial .3": lambda: tp.partial_labels(SETS_K, 0.3),
    "complementary": lambda: tp.complementary(SETS_K),
    "PU, r = .5": lambda: tp.positive_unlabeled(0.5),
    "three annotators": lambda: tp.annotators([tp.symmetric_noise(SETS_K, e) for e in (0.2, 0.3, 0.4)]),
    "symmetric .3, T from 300 clean rows": lambda: tp.symmetric_noise(SETS_K, 0.3),
}
KNOWN_WELL = 0.04  # standard error of the weak mean below which sets may not hold much more than was asked


def conformal(kind: str, n: int, date: str, first: int, sets: int) -> dict[str, Any]:
    """Sets that should hold the true class of nine rows in ten, by a model that is too sure or not sure enough."""
    out, T, setting = Counts(), SETS_KINDS[kind](), stream("conformal setting", date, kind, n)
    K = T.num_classes
    sure, W = float(setting.uniform(0.6, 2.0)), setting.normal(size=(5, K))
    for rng in streams("conformal", date, first, sets, {"kind": kind, "n": n}):
        v = rng.normal(size=(n + NEW, 5)) @ W
        p, q = softmax(v), softmax(sure * v)
        z, told = draw(p, rng), T
        if "clean rows" in kind:
            clean, counts = draw(softmax(rng.normal(size=(300, 5)) @ W), rng), np.zeros((K, K))
            np.add.at(counts, (T.sample(clean, rng), clean), 1)
            told = tp.Transition.from_counts(counts)
        found = tp.conformal(q[:n], T.sample(z[:n], rng), told, 0.9)
        inside = found.sets(q)
        share, own = float((p * inside)[n:].sum(axis=1).mean()), float(inside[np.arange(n), z[:n]].mean())
        low, high = found.coverage.interval
        out.share("rows whose set holds the true class", share)
        out.add("interval holds the share of new rows", low <= share <= high)
        out.add("interval holds the share of its own rows", low <= own <= high)
        clean_sets = tp.conformal(q[:n], z[:n], tp.identity(K), 0.9)
        out.mean("standard error of the weak mean", found.coverage.stderr)
        out.mean("classes in a set", float(inside[n:].sum(axis=1).mean()))
        out.mean("classes in a set, by clean labels", float(clean_sets.sets(q[n:]).sum(axis=1).mean()))
    return out.result()


# -- What is asked of them ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Required:
    """How often something has to be so; None: it is shown, and nothing is asked."""

    least: float | None = None
    most: float | None = None

    def holds(self, share: float) -> bool:
        return (self.least is None or share >= self.least) and (self.most is None or share <= self.most)

    def margin(self, share: float) -> float:
        """How far inside: the worst cell has the least."""
        sides = [share - self.least] if self.least is not None else []
        sides += [self.most - share] if self.most is not None else []
        return min(sides, default=1.0)

    def __str__(self) -> str:
        if self.least is not None and self.most is not None:
            return f"{100 * self.least:g} to {100 * self.most:g}"
        return f"at least {100 * self.least:g}" if self.least is not None else f"at most {100 * (self.most or 0):g}"


GROUPED = (
    "accuracy", "log loss", "paired test, log loss", "paired test, accuracy", "prevalence of class 0",
    "prevalence of class 1", "prevalence of class 2", "gain",
)  # fmt: skip
RARELY = (
    "accuracy", "balanced accuracy, known prior", "balanced accuracy", "log loss", "paired test, a difference of .2",
)  # fmt: skip
REQUIRED: dict[str, dict[str, Required]] = {
    "outlier": dict.fromkeys(
        (
            "the class that differs", "its errors", "the other classes", "their errors", "accuracy",
            "prevalence of the class that differs", "prevalence of the others",
        ),
        Required(least=0.90),
    ),
    "odd_annotator": dict.fromkeys(("the annotator who differs", "the others", "accuracy"), Required(least=0.90)),
    "groups": {
        **dict.fromkeys(GROUPED, Required(least=0.92, most=0.98)),
        "check_transition rejects, labels alone": Required(most=0.06),
        "check_transition rejects": Required(most=0.06),
    },
    "rare": {
        **dict.fromkeys((*RARELY, "prevalence of the rare class"), Required(least=0.91)),
        **dict.fromkeys([f"{name}, where shown" for name in RARELY], Required(least=0.90)),
        "paired test of accuracy rejects": Required(most=0.065),
        "check_transition rejects": Required(most=0.065),
    },
    "wrong_model": {"T called doubtful": Required(most=0.05), "accuracy": Required(least=0.90)},
    "wrong_T": {},  # compared with the version before
    "depends_on_x": {"warned of, not confirmed, or covered": Required(least=0.95)},
    "depends_on_x, none": {
        "T confirmed": Required(least=0.80),
        "T called doubtful": Required(most=0.05),
        "accuracy": Required(least=0.90),
    },
    "from_features": {
        **dict.fromkeys(("diagonal of T", "errors of T", "accuracy"), Required(least=0.90)),
        "the form called wrong": Required(most=0.05),
    },
    "from_features, wrong form": {"accuracy covered, or the form called wrong": Required(least=0.95)},
}  # fmt: skip
REQUIRED["by_group"] = {
    **dict.fromkeys(("T of easy rows", "T of hard rows"), Required(least=0.90)),
    "T differs between groups, though it does not": Required(most=0.065),
    "T differs between groups": Required(least=0.95),
}
REQUIRED["class_shares"] = {
    "log loss at most that of the shares + .02": Required(least=0.95),
    "calibration error of the calibrated model": Required(least=0.92),
}
REQUIRED["conformal"] = {
    "rows whose set holds the true class": Required(least=0.89),
    "interval holds the share of its own rows": Required(least=0.92),
}
REQUIRED["conformal, known well"] = {
    **REQUIRED["conformal"],
    "rows whose set holds the true class": Required(least=0.89, most=0.93),
}
WIDTHS = {(4, 100): 0.172, (10, 100): 0.197, (20, 100): 0.210, (10, 300): 0.110, (20, 300): 0.124, (20, 600): 0.082}

CELLS: dict[str, tuple[Callable[..., dict[str, Any]], list[dict[str, Any]]]] = {
    "outlier": (
        outlier,
        [
            {"K": K, "rows": rows, "low": low}
            for K in (4, 10, 20)
            for rows in (100, 300, 600)
            for low in (0.5, 0.75, 0.9)
        ],
    ),
    "odd_annotator": (
        odd_annotator,
        [
            {"K": K, "answers": answers, "redundancy": redundancy}
            for K in (2, 4)
            for answers in (30, 100)
            for redundancy in (3, 5)
        ],
    ),
    "groups": (
        groups,
        [
            {"groups": count, "each": each, "shared": shared, "kind": kind}
            for count, each in ((100, 5), (20, 25))
            for shared in (False, True)
            for kind in GROUP_KINDS
        ],
    ),
    "rare": (
        rare,
        [
            {"kind": kind, "share": share, "n": n}
            for kind in RARE_KINDS
            for share in (0.01, 0.03)
            for n in (100, 300, 1000)
        ]
        + [{"kind": "PU, r = .1", "share": 0.05, "n": 300}],
    ),
    "wrong_model": (
        wrong_model,
        [
            {"problem": problem, "kind": kind, "n": n}
            for problem, n in (("quadratic", 1000), ("xor", 1000), ("d = 20", 300))
            for kind in CHECK_KINDS
        ],
    ),
    "wrong_T": (wrong_T, [{"case": case, "n": 1000} for case in WRONG_T]),
    "depends_on_x": (
        depends_on_x,
        [
            {"noise": noise, "K": K, "n": n}
            for noise, K in (
                ("runner-up", 3), ("runner-up", 4), ("runner-up", 10), ("hardness", 3), ("hardness", 2), ("feature", 3),
                ("feature", 2),
            )
            for n in (1000, 5000)
        ]
        + [{"noise": "none", "K": K, "n": 5000} for K in (2, 3, 4)],
    ),
    "by_group": (
        by_group, [{"hard": hard, "K": K, "n": n} for hard in (0.1, 0.4) for K in (2, 4) for n in (1000, 5000)]
    ),
    "class_shares": (
        class_shares,
        [
            {"problem": problem, "kind": kind, "n": n}
            for problem, n in (("xor", 300), ("quadratic", 300), ("d = 200", 200))
            for kind in SHARES_KINDS
        ],
    ),
    "conformal": (conformal, [{"kind": kind, "n": n} for kind in SETS_KINDS for n in (300, 1000)]),
    "from_features": (
        from_features,
        [
            {"problem": problem, "kind": kind, "n": n}
            for problem in ("linear", "separate", "heavy tails", "overlap", "quadratic", "xor")
            for kind in FEATURE_T
            for n in (1000, 4000)
        ],
    ),
}  # fmt: skip
