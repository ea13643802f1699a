"""What is computed: every public function over small fixed data of every kind of label."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.laws.registry import LOSSES, POTENTIALS, TRANSITIONS

import tproper as tp

ROWS = 160


def model(K: int, n: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, 3), true classes, and probabilities of an overconfident model."""
    rng = np.random.default_rng([seed, K])
    X = rng.normal(size=(n, 3))
    v = 1.5 * X @ rng.normal(size=(3, K))
    p = np.exp(v) / np.exp(v).sum(1, keepdims=True)
    z = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    q = np.exp(1.7 * v)
    return X, z, q / q.sum(1, keepdims=True)


def of_kind(name: str) -> dict[str, Callable[[], Any]]:
    """Scores, tests and choices of one kind of label."""
    T = TRANSITIONS[name]()
    X, z, q = model(T.num_classes)
    y, guess = T.sample(z, seed=1), q.argmax(1)
    other = np.roll(q, 1, axis=1)
    groups = np.arange(ROWS) // 4
    true: Any = np.where(np.arange(ROWS) % 5 == 0, z, -1)
    if name in ("positive-unlabeled", "case-control"):  # whose classes are True and False
        true = [None if c < 0 else c == 0 for c in true.tolist()]
    out: dict[str, Callable[[], Any]] = {
        "accuracy": lambda: tp.weak_accuracy(y, guess, T),
        "balanced": lambda: tp.weak_balanced_accuracy(y, guess, T),
        "log loss, groups": lambda: tp.weak_log_loss(y, q, T, groups=groups),
        "Brier, checked": lambda: tp.weak_brier(y, q, T, true=true),
        "paired": lambda: tp.paired_test(y, q, other, T),
        "shares": lambda: [(s := tp.weak_prevalence(y, T)).value, s.stderr, s.interval, s.next_clean_rows],
        "shares, checked": lambda: [(s := tp.weak_prevalence(y, T, true=true)).value, s.interval],
        "check": lambda: [(c := tp.check_transition(y, T, q)).p_value, c.model_p_value, [t.statistic for t in c.tests]],
        "inspect": lambda: tp.inspect(T).text(),
        "conformal": lambda: [(c := tp.conformal(q, y, T)).threshold, c.coverage, str(c), c.sets(q[:9])],
        "calibration": lambda: [(c := tp.weak_calibration(y, q, T)).value, c.stderr, c.interval, c.ece, c.accuracy],
        "classwise": lambda: (c := tp.weak_calibration(y, q, T, classwise=True)) and [c.value, c.interval],
        "calibrate": lambda: [(c := tp.calibrate(q, y, T)).scale, c.bias, c.gain, c.probabilities(q[:5])],
        "matrix map": lambda: tp.calibrate(q, y, T, method="matrix").probabilities(q[:5]),
        "check with X": lambda: [(c := tp.check_transition(y, T, q, X=X)).p_value, [t.statistic for t in c.tests]],
        "sensitivity": lambda: (s := tp.sensitivity("accuracy", y, guess, T)) and [s.value, s.ranges, s.rate],
        "evaluate": lambda: str(tp.evaluate(q, y, T, X=X)),
        "evaluate, checked": lambda: str(tp.evaluate(q, y, T, true=true)),
    }
    if name == "biased and noisy complementary":  # T is nearly singular: rounding decides how much is told
        del out["conformal"]
    return out


def estimates() -> dict[str, Callable[[], Any]]:
    """T, class shares and classes from data."""
    X, z, _ = model(3, 240, seed=2)
    T = tp.Transition([[0.8, 0.1, 0.2], [0.1, 0.7, 0.1], [0.1, 0.2, 0.7]])
    y = T.sample(z, seed=3)
    true = np.where(np.arange(240) < 80, z, -1)
    makes = [tp.symmetric_noise(3, e) for e in (0.1, 0.2, 0.3)] + [tp.pair_noise(3, 0.2), T]
    answers = np.stack([t.sample(z, seed=10 + i) for i, t in enumerate(makes)], axis=1)
    answers[np.random.default_rng(5).random(answers.shape) < 0.3] = -1
    rules = np.where(answers == 2, -1, answers)
    copied = np.column_stack([answers, answers[:, 0]])
    masks = tp.partial_labels(3, 0.3).sample(z, seed=4)
    labeled = (z == 0) & (np.random.default_rng(6).random(240) < 0.4)
    item, who = (answers >= 0).nonzero()
    long = tp.Answers(item, who, answers[item, who])

    def of_T(T: tp.Transition) -> list[Any]:
        more = [T.stderr, T.interval()] if isinstance(T, tp.EstimatedTransition) else []
        return [T.matrix(), *more]

    def of_crowd(found: Any) -> list[Any]:
        return [found.posteriors[:20], found.prior, found.rho, *[of_T(t) for t in found.transitions], str(found)]

    counts = np.zeros((3, 3))
    np.add.at(counts, (y[:80], z[:80]), 1)
    return {
        "counts": lambda: of_T(tp.Transition.from_counts(counts)),
        "counts, one column unlike": lambda: of_T(
            tp.Transition.from_counts(np.array([[27, 3, 9], [3, 27, 9], [0, 0, 12]]))
        ),
        "clean rows": lambda: of_T(tp.estimate_transition(y, true)),
        "clean rows, symmetric": lambda: of_T(tp.estimate_transition(y, true, structure="symmetric")),
        "clean rows and X": lambda: of_T(tp.estimate_transition(y, true, X, random_state=0)),
        "X": lambda: of_T(tp.estimate_transition(y, X=X, random_state=0)),
        "sets": lambda: of_T(tp.estimate_transition(masks, true)),
        "crowd": lambda: of_crowd(tp.estimate_annotators(answers, random_state=0)),
        "crowd, gold": lambda: of_crowd(tp.estimate_annotators(answers, true, random_state=0)),
        "crowd, X": lambda: of_crowd(tp.estimate_annotators(answers, X=X, random_state=0)),
        "crowd, groups": lambda: of_crowd(tp.estimate_annotators(answers, groups=np.arange(240) // 3, random_state=0)),
        "long table": lambda: of_crowd(tp.estimate_annotators(long, random_state=0)),
        "rules": lambda: of_crowd(tp.estimate_annotators(rules, missing="answer", random_state=0)),
        "copies": lambda: of_crowd(tp.estimate_annotators(copied, random_state=0)),
        "versus vote": lambda: str(tp.estimate_annotators(answers, true, random_state=0).versus_vote),
        "by group": lambda: [
            (g := tp.transitions_by_group(answers, z % 2, random_state=0)).p_value,
            np.asarray(g.transitions)[:9],
            str(g),
        ],
        "PU, X": lambda: str(tp.estimate_pu(labeled, X)),
        "PU, scores": lambda: str(tp.estimate_pu(labeled, scores=X[:, 0])),
        "PU, two samples": lambda: str(tp.estimate_pu(labeled, X, sampling="two samples")),
        "shares, X": lambda: str(tp.weak_prevalence(y, T, true=true, X=X)),
        "shares without T": lambda: str(tp.weak_prevalence(y, true=true)),
        "shares, groups": lambda: str(tp.weak_prevalence(y, T, groups=np.arange(240) // 3)),
        "shares, crowd": lambda: str(tp.weak_prevalence(answers, tp.annotators(makes))),
        "score by an estimated T": lambda: tp.weak_log_loss(y, model(3, 240, 2)[2], tp.estimate_transition(y, true)),
        "score by estimated annotators": lambda: tp.weak_accuracy(
            answers, z, tp.estimate_annotators(answers, random_state=0).transition
        ),
        "check of an estimated T": lambda: str(
            tp.check_transition(y, tp.estimate_transition(y, true), model(3, 240, 2)[2])
        ),
    }


def classifiers() -> dict[str, Callable[[], Any]]:
    """Fits of every kind."""
    X, z, _ = model(3, 240, seed=7)
    T = tp.symmetric_noise(3, 0.3)
    y = T.sample(z, seed=8)
    masks, comp = tp.partial_labels(3, 0.3).sample(z, seed=9), tp.complementary(3).sample(z, seed=9)
    pu = tp.positive_unlabeled(0.5).sample(np.minimum(z, 1), seed=9)

    def fitted(labels: Any, transition: Any, **settings: Any) -> list[Any]:
        clf = tp.WeakLabelClassifier(transition, random_state=0, **settings).fit(X, labels)
        return [clf.predict_proba(X[:10]), clf.predict_log_proba(X[:3]), str(clf.score(X, labels))]

    out: dict[str, Callable[[], Any]] = {
        "forward": lambda: fitted(y, T),
        "backward, squeezed": lambda: fitted(y, T, loss="backward", squeeze=(1.0, 2.0)),
        "backward, Brier": lambda: fitted(y, T, loss="backward", potential="brier"),
        "sets": lambda: fitted(masks, tp.partial_labels(3, 0.3)),
        "complementary": lambda: fitted(comp, tp.complementary(3)),
        "PU": lambda: fitted(pu, tp.positive_unlabeled(0.5)),
        "no calibration": lambda: fitted(y, T, calibrate=False, l2=1e-3),
        "network": lambda: fitted(y, T, model="mlp", epochs=5, hidden=(8,)),
        "boosting": lambda: fitted(y, T, model="boosting"),
        "tuned": lambda: fitted(y, T, tune=True),
        "estimated T": lambda: fitted(y, "estimate"),
    }
    return out


def losses() -> dict[str, Callable[[], Any]]:
    """Values and gradients of every loss and potential of the registry."""
    v = torch.as_tensor(np.random.default_rng(3).normal(size=(6, 4)))
    p = torch.softmax(v, -1)

    def of_potential(F: tp.Potential) -> list[Any]:
        return [F.value(v), F.link(v), F.probabilities(v), F.inverse_link(p), F.conjugate(p)]

    def of_loss(make: Callable[[tp.Transition], Any], name: str) -> list[Any]:
        T = TRANSITIONS[name]()
        x = torch.as_tensor(np.random.default_rng(4).normal(size=(8, T.num_classes))).requires_grad_()
        loss = make(T)
        value = loss(x, torch.as_tensor(np.asarray(T.sample(np.arange(8) % T.num_classes, seed=2))))
        value.sum().backward()
        return [value, x.grad]

    out: dict[str, Callable[[], Any]] = {f"F, {n}": lambda m=m: of_potential(m()) for n, m in POTENTIALS.items()}
    for kind in ("symmetric", "complementary", "partial", "three annotators"):
        for name, make in LOSSES.items():
            out[f"{name}, {kind}"] = lambda make=make, kind=kind: of_loss(make, kind)
    return out


def tables() -> dict[str, Callable[[], Any]]:
    """What the command does, on frames."""
    import pandas as pd

    X, z, _ = model(3, 240, seed=11)
    names = np.array(["ant", "bee", "cat"])
    T = tp.symmetric_noise(3, 0.2)
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(240) % 17 == 0, np.nan, X[:, 0]),
            "weight": X[:, 1],
            "colour": names[(X[:, 2] > 0).astype(int) + (X[:, 2] > 1)],
            "seen": pd.date_range("2024-01-01", periods=240, freq="7h"),
            "label": names[T.sample(z, seed=12)],
            "true": np.where(np.arange(240) % 4 == 0, names[z], ""),
            "who": np.arange(240) % 30,
        }
    )
    for i, e in enumerate((0.1, 0.2, 0.3)):
        frame[f"a{i}"] = names[tp.symmetric_noise(3, e).sample(z, seed=13 + i)]
    columns = {"label": "label", "true_label": "true", "ignore": ["who", "a0", "a1", "a2"]}

    def trained(**settings: Any) -> list[Any]:
        fit = tp.TableModel.fit(frame, "symmetric:0.2", **(columns | settings))
        return [fit.predict_proba(frame)[:9], fit.card(), fit.summary()]

    def evaluated() -> str:
        fit = tp.TableModel.fit(frame, "symmetric:0.2", **columns)
        return str(fit.evaluate(frame, label="label", true_label="true"))

    return {
        "train": trained,
        "train, group": lambda: trained(group="who", ignore=["a0", "a1", "a2"]),
        "evaluate": evaluated,
        "crowd": lambda: str(tp.estimate_table(frame, "annotators", label="a0,a1,a2")),
        "clean rows": lambda: str(tp.estimate_table(frame, "clean", label="label", true_label="true")),
        "prevalence": lambda: str(tp.prevalence_table(frame, label="label", transition="symmetric:0.2")),
        "simulate": lambda: str(
            tp.simulate(frame.assign(true=names[z]), "pair:0.3", label="true", classes="ant,bee,cat")
        ),
    }


def plots() -> dict[str, Callable[[], Any]]:
    """What is drawn: the data of lines, points, bars and images."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib.figure import Figure

    _, z, q = model(4)
    T = tp.symmetric_noise(4, 0.3)
    y = T.sample(z, seed=1)

    def drawn(thing: Any) -> list[Any]:
        axes = Figure().add_subplot()
        thing.plot(ax=axes)
        out: list[Any] = [line.get_xydata() for line in axes.lines]
        out += [c.get_offsets() for c in axes.collections] + [np.array(i.get_array()) for i in axes.images]
        out += [[b.get_x(), b.get_y(), b.get_width(), b.get_height()] for b in axes.patches if hasattr(b, "get_x")]
        return [*out, axes.get_xlim(), axes.get_ylim(), [t.get_text() for t in axes.texts]]

    return {
        "T": lambda: drawn(T),
        "score": lambda: drawn(tp.weak_accuracy(y, q.argmax(1), T)),
        "calibration": lambda: drawn(tp.weak_calibration(y, q, T)),
    }


def cases() -> dict[str, Callable[[], Any]]:
    """Every case by its name."""
    out = {f"{name}: {what}": call for name in TRANSITIONS for what, call in of_kind(name).items()}
    rooms = {"estimates": estimates, "classifier": classifiers, "losses": losses, "table": tables, "plot": plots}
    for head, room in rooms.items():
        out |= {f"{head}: {what}": call for what, call in room().items()}
    return out
