"""Further cases: estimated T in every score, odd inputs, larger crowds, tables that drift, soft labels, batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tests.laws.registry import POTENTIALS, TRANSITIONS

import tproper as tp

Cases = dict[str, Callable[[], Any]]


def world(K: int = 3, n: int = 300, seed: int = 21) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features (n, 4), classes and probabilities that are a little too sure."""
    rng = np.random.default_rng([seed, K])
    X = rng.normal(size=(n, 4))
    v = 1.3 * X @ rng.normal(size=(4, K))
    p = np.exp(v) / np.exp(v).sum(1, keepdims=True)
    z = (p.cumsum(1) > rng.random((n, 1))).argmax(1)
    q = np.exp(1.5 * v)
    return X, z, q / q.sum(1, keepdims=True)


def crowd_of(z: np.ndarray, K: int, m: int, gaps: float, seed: int) -> np.ndarray:
    """Answers (n, m) of annotators of growing error, with gaps."""
    rng = np.random.default_rng(seed)
    makes = [tp.symmetric_noise(K, 0.1 + 0.5 * a / m) for a in range(m)]
    answers = np.stack([t.sample(z, seed=seed + a) for a, t in enumerate(makes)], axis=1)
    return np.where(rng.random(answers.shape) < gaps, -1, answers)


def of_T(T: tp.Transition) -> list[Any]:
    """The matrix, with errors where there are some."""
    more = [T.stderr, T.interval(), T.samples(3, 1)] if isinstance(T, tp.EstimatedTransition) else []
    return [T.matrix() if T.num_classes <= 12 else 0, *more, str(T)]


def structures() -> Cases:
    """Matrices, reconstructions, targets, draws and certificates of every kind."""
    out: Cases = {}
    for name, make in TRANSITIONS.items():
        T = make()
        y = T.sample(np.arange(12) % T.num_classes, seed=3)
        labels = T.encode(y)
        v = torch.as_tensor(np.random.default_rng(1).normal(size=(12, T.num_classes)))

        def rows(T: tp.Transition = T, labels: Any = labels, v: torch.Tensor = v) -> list[Any]:
            R = T.reconstruction()
            r = R.evidence(labels)
            return [
                labels.double(),
                R.matrix(),
                R.residual,
                R.targets(labels),
                r.inner(v),
                r.total,
                T.diagnose().to_dict(),
            ]

        def bounds(T: tp.Transition = T) -> list[Any]:
            squeezed = tp.BackwardLoss(T, squeeze=(0.5, 1.5))
            weighed = tp.BackwardLoss(T, tp.Brier(), class_weights=np.arange(1.0, T.num_classes + 1))
            losses = [tp.BackwardLoss(T), squeezed, weighed, tp.ForwardLoss(T, score="log" if T.separate else "brier")]
            return [[loss.lower_bounds(), str(loss.certify())] for loss in losses]

        def methods(T: tp.Transition = T) -> list[Any]:
            prior = np.arange(1.0, T.num_classes + 1) / np.arange(1.0, T.num_classes + 1).sum()
            found = [T.reconstruction("min_variance", prior).matrix(), T.reconstruction("pinv").matrix()]
            return [*found, tp.critical_k(T, "tightest"), tp.critical_k(T)]

        out |= {f"{name}: rows": rows, f"{name}: bounds": bounds, f"{name}: methods": methods}
    out["a wide T"] = lambda: tp.Transition(np.random.default_rng(0).dirichlet(np.ones(2), 4).T).diagnose().to_dict()
    return out


def scores_by_estimates() -> Cases:
    """Every score, test and choice by a T that was estimated."""
    X, z, q = world()
    guess, other = q.argmax(1), np.roll(q, 1, axis=1)
    true = np.where(np.arange(300) % 3 == 0, z, -1)
    noisy, masks = tp.symmetric_noise(3, 0.25).sample(z, seed=1), tp.partial_labels(3, 0.3).sample(z, seed=2)
    answers = crowd_of(z, 3, 5, 0.3, seed=3)
    counts = np.zeros((3, 3))
    np.add.at(counts, (noisy[:100], z[:100]), 1)
    shares = 0.8 * np.eye(3)[noisy] + 0.2 / 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told: dict[str, tuple[Any, Any]] = {
            "counts": (noisy, tp.Transition.from_counts(counts)),
            "clean rows": (noisy, tp.estimate_transition(noisy, true)),
            "sets": (masks, tp.estimate_transition(masks, true)),
            "annotators": (answers, tp.estimate_annotators(answers, random_state=0).transition),
            "soft": (tp.SoftLabels(shares), tp.symmetric_noise(3, 0.25)),
            "soft, by counts": (tp.SoftLabels(shares), tp.Transition.from_counts(counts)),
        }
    out: Cases = {}
    for name, (y, T) in told.items():
        calls: Cases = {
            "accuracy": lambda y, T: tp.weak_accuracy(y, guess, T),
            "balanced": lambda y, T: tp.weak_balanced_accuracy(y, guess, T),
            "balanced, prior": lambda y, T: tp.weak_balanced_accuracy(y, guess, T, prior=[0.5, 0.3, 0.2]),
            "log loss": lambda y, T: tp.weak_log_loss(y, q, T, sample_weight=np.arange(300) % 4 + 0.5),
            "Brier, groups": lambda y, T: tp.weak_brier(y, q, T, groups=np.arange(300) // 5),
            "Brier, tightest": lambda y, T: tp.weak_brier(y, q, T, reconstruction="tightest"),
            "paired, accuracy": lambda y, T: tp.paired_test(y, guess, other.argmax(1), T, "accuracy"),
            "paired, Brier": lambda y, T: tp.paired_test(y, q, other, T, "brier", groups=np.arange(300) // 5),
            "calibration": lambda y, T: (c := tp.weak_calibration(y, q, T, bins=6)) and [c.value, c.interval, str(c)],
            "calibration, even": lambda y, T: str(tp.weak_calibration(y, q, T, strategy="uniform", classwise=True)),
            "shares": lambda y, T: (s := tp.weak_prevalence(y, T)) and [s.value, s.stderr, s.interval, str(s)],
            "shares, groups": lambda y, T: str(tp.weak_prevalence(y, T, groups=np.arange(300) // 5)),
            "shares, checked": lambda y, T: str(tp.weak_prevalence(y, T, true=true)),
            "check": lambda y, T: (c := tp.check_transition(y, T, q, X=X)) and [c.to_dict(), str(c)],
            "check, groups": lambda y, T: str(tp.check_transition(y, T, q, groups=np.arange(300) // 5)),
            "conformal": lambda y, T: (c := tp.conformal(q, y, T, 0.8)) and [c.threshold, c.coverage, str(c)],
            "sensitivity": lambda y, T: str(tp.sensitivity("log_loss", y, q, T)),
            "calibrate": lambda y, T: (c := tp.calibrate(q, y, T)) and [c.scale, c.bias, c.gain, c.tried],
            "bias map": lambda y, T: tp.calibrate(q, y, T, method="bias").probabilities(q[:7]),
            "vector map": lambda y, T: tp.calibrate(np.log(q), y, T, method="vector").probabilities(np.log(q)[:7]),
            "evaluate": lambda y, T: str(tp.evaluate(q, y, T, X=X)),
            "evaluate, checked": lambda y, T: str(tp.evaluate(q, y, T, true=true, groups=np.arange(300) // 5)),
            "fit": lambda y, T: (c := tp.WeakLabelClassifier(T, random_state=0).fit(X, y)) and [
                c.predict_proba(X[:6]), c.l2_, c.coef_,
            ],
            "T": lambda y, T: of_T(T),
        }  # fmt: skip
        out |= {f"{name}: {what}": lambda call=call, y=y, T=T: call(y, T) for what, call in calls.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        many = crowd_of(z, 3, 34, 0.85, seed=37)
        large = tp.estimate_annotators(many, random_state=0).transition
    out["large crowd: accuracy"] = lambda: tp.weak_accuracy(many, guess, large)
    out["large crowd: log loss"] = lambda: tp.weak_log_loss(many, q, large, sample_weight=np.arange(300) % 4 + 0.5)
    return out


def crowds() -> Cases:
    """Crowds of every size and shape."""
    out: Cases = {}

    def told(found: Any) -> list[Any]:
        return [found.posteriors[:30], found.prior, [of_T(t) for t in found.transitions], found.notes, str(found)]

    _, z, _ = world()
    _, two, _ = world(2)
    X = world()[0]
    gold = np.where(np.arange(300) % 4 == 0, z, -1)
    wide = crowd_of(z, 3, 5, 0.3, seed=31)
    large = crowd_of(z, 3, 36, 0.85, seed=32)
    pairs = crowd_of(two, 2, 4, 0.2, seed=33)
    rng = np.random.default_rng(34)
    shared = wide.copy()  # two who answer alike, right or wrong
    shared[:, 4] = np.where(rng.random(300) < 0.8, shared[:, 3], shared[:, 4])
    rules = np.full((300, 6), -1)
    for a in range(6):
        speaks = (rng.random(300) < 0.35) & (wide[:, a % 5] == a % 3)
        rules[speaks, a] = a % 3
    item = np.repeat(np.arange(60), 6)
    long = tp.Answers(item, rng.integers(0, 9, 360), np.where(rng.random(360) < 0.7, z[item], rng.integers(0, 3, 360)))
    unlike = wide.copy()
    unlike[:, 2] = (unlike[:, 2] + 1) % 3  # one who says another class
    common = np.where((rng.random(300) < 0.2)[:, None], ((z + 1) % 3)[:, None], crowd_of(z, 3, 5, 0.0, 35))
    runs: dict[str, tuple[Any, dict[str, Any]]] = {
        "wide": (wide, {}),
        "wide, gold": (wide, {"true": gold}),
        "wide, X": (wide, {"X": X}),
        "wide, X and gold": (wide, {"X": X, "true": gold}),
        "wide, groups": (wide, {"groups": np.arange(300) // 3}),
        "wide, prior": (wide, {"prior_counts": [3.0, 1.0, 2.0]}),
        "wide, majority": (wide, {"start": "majority"}),
        "wide, opposite": (wide, {"start": "opposite"}),
        "large": (large, {}),
        "large, gold": (large, {"true": gold}),
        "two classes": (pairs, {}),
        "two classes, X": (pairs, {"X": X}),
        "two annotators": (wide[:, :2], {"true": gold}),
        "alike": (shared, {}),
        "rules": (rules, {}),
        "rules, gold": (rules, {"true": gold}),
        "rules, random": (rules, {"missing": "random"}),
        "long": (long, {}),
        "one unlike": (unlike, {}),
        "one unlike, gold": (unlike, {"true": gold}),
        "common errors": (common, {}),
        "common errors, gold": (common, {"true": gold}),
        "few": (wide[:25], {}),
    }
    for name, (answers, settings) in runs.items():

        def call(answers: Any = answers, settings: Any = settings) -> list[Any]:
            return told(tp.estimate_annotators(answers, random_state=0, **settings))

        out[name] = call
    masks = rng.random((300, 3)) < 0.35
    masks[np.arange(300), z] = True
    shares = 0.7 * np.eye(3)[wide[:, 0].clip(0)] + 0.1
    mixed = {
        "votes": wide[:, 1], "not": ((wide[:, 2].clip(0) + 1) % 3, "not this"), "set": (masks, "one of these"),
        "soft": tp.SoftLabels(shares), "unsure": np.where(rng.random(300) < 0.1, 3, wide[:, 3]),
    }  # fmt: skip
    for name, some in {"mixed": mixed, "mixed, three": dict(list(mixed.items())[:3])}.items():
        out[name] = lambda some=some: (f := tp.estimate_annotators(some, num_classes=3)) and [
            f.posteriors[:20], f.prior, [of_T(t) for t in f.transitions], str(f),
        ]  # fmt: skip
        out[f"{name}, gold"] = lambda some=some: str(tp.estimate_annotators(some, gold, num_classes=3))
    out["by group"] = lambda: str(tp.transitions_by_group(crowd_of(z, 3, 3, 0.0, 36), z % 2, random_state=0))
    return out


def transitions_of_data() -> Cases:
    """T from clean rows and features, in every form."""
    X, z, _ = world()
    gold = np.where(np.arange(300) % 3 == 0, z, -1)
    K5 = world(5)
    gold5 = np.where(np.arange(300) % 3 == 0, K5[1], -1)
    kinds: dict[str, tuple[tp.Transition, list[str]]] = {
        "symmetric": (tp.symmetric_noise(3, 0.25), ["auto", "symmetric"]),
        "pair": (tp.pair_noise(3, 0.2), ["auto"]),
        "complementary": (tp.complementary(3, noise=0.05), ["auto", "complementary"]),
        "skewed": (tp.Transition([[0.8, 0.1, 0.2], [0.1, 0.7, 0.2], [0.1, 0.2, 0.6]]), ["auto", "symmetric"]),
    }
    out: Cases = {}
    for name, (T, forms) in kinds.items():
        y = T.sample(z, seed=41)
        for form in forms:
            settings = {"structure": form, "random_state": 0}
            out[f"{name}, {form}, clean rows"] = lambda y=y, s=settings: of_T(tp.estimate_transition(y, gold, **s))
            out[f"{name}, {form}, X"] = lambda y=y, s=settings: of_T(tp.estimate_transition(y, X=X, **s))
            out[f"{name}, {form}, both"] = lambda y=y, s=settings: of_T(tp.estimate_transition(y, gold, X, **s))
        weights = {"sample_weight": np.arange(300) % 3 + 1.0}
        out[f"{name}, weights"] = lambda y=y, w=weights: of_T(tp.estimate_transition(y, gold, **w))
        out[f"{name}, groups"] = lambda y=y: of_T(tp.estimate_transition(y, gold, groups=np.arange(300) // 4))
    grade = tp.ordinal_noise(5, 0.3, 0.3).sample(K5[1], seed=42)
    out["ordinal"] = lambda: of_T(tp.estimate_transition(grade, gold5, structure="ordinal"))
    out["ordinal, X"] = lambda: of_T(tp.estimate_transition(grade, X=K5[0], structure="ordinal", random_state=0))
    for name, T in {
        "partial": tp.partial_labels(3, 0.3),
        "noisy partial": tp.noisy_partial_labels(3, 0.3, 0.15),
    }.items():
        masks = T.sample(z, seed=43)
        out[f"{name}, clean rows"] = lambda m=masks: of_T(tp.estimate_transition(m, gold))
        out[f"{name}, alone"] = lambda m=masks: of_T(tp.estimate_transition(m))
    labeled = (z == 0) & (np.random.default_rng(44).random(300) < 0.5)
    for sampling in ("one sample", "two samples"):
        out[f"PU, {sampling}"] = lambda s=sampling: (f := tp.estimate_pu(labeled, X, sampling=s)) and [
            f.prior, f.rate, str(f),
        ]  # fmt: skip
        out[f"PU, {sampling}, groups"] = lambda s=sampling: str(
            tp.estimate_pu(labeled, scores=X[:, 0], sampling=s, groups=np.arange(300) // 3)
        )
    return out


def fits() -> Cases:
    """Classifiers with other settings, several labels a row, streams of batches."""
    X, z, _ = world()
    T = tp.symmetric_noise(3, 0.25)
    y = T.sample(z, seed=51)
    gold = np.where(np.arange(300) % 3 == 0, z, -1)
    answers = crowd_of(z, 3, 4, 0.2, 52)
    comp = tp.complementary(3).sample(z, seed=53)
    settings: dict[str, dict[str, Any]] = {
        "potential": {"loss": "backward", "potential": "spherical:simplex"},
        "tightest": {"loss": "backward", "reconstruction": "tightest"},
        "another potential": {"loss": "backward", "potential": "tsallis:1.5"},
        "no search": {"l2": 0.01},
        "matrix": {"calibrate": "matrix"},
        "temperature": {"calibrate": "temperature"},
        "mlp, rate": {"model": "mlp", "epochs": 4, "learning_rate": 0.01, "hidden": (6,), "batch_size": 50},
        "linear by batches": {"loss": "ga", "epochs": 4},
        "ReLU": {"loss": "nonnegative", "epochs": 4, "model": "mlp", "hidden": (6,)},
        "boosting, backward": {"model": "boosting", "loss": "backward", "squeeze": (1.0, 2.0)},
        "boosting, no calibration": {"model": "boosting", "calibrate": False},
    }
    out: Cases = {}
    for name, some in settings.items():

        def call(some: dict[str, Any] = some) -> list[Any]:
            clf = tp.WeakLabelClassifier(T, random_state=0, **some).fit(X, y)
            return [clf.predict_proba(X[:8]), clf.score(X, y)]

        out[name] = call

    def with_gold() -> list[Any]:
        clf = tp.WeakLabelClassifier(T, random_state=0).fit(X, y, true=gold, groups=np.arange(300) // 3)
        return [clf.predict_proba(X[:8]), clf.l2_]

    def batches() -> list[Any]:
        clf = tp.WeakLabelClassifier(tp.complementary(3), model="mlp", hidden=(6,), random_state=0)
        for i in range(0, 300, 60):
            clf.partial_fit(X[i : i + 60], comp[i : i + 60], classes=[0, 1, 2])
        return [clf.predict_proba(X[:8])]

    def several() -> list[Any]:
        Y = np.stack([tp.symmetric_noise(2, 0.2).sample((z == k).astype(int), seed=54 + k) for k in range(3)], axis=1)
        clf = tp.MultiLabelClassifier("symmetric:0.2", random_state=0).fit(X, Y)
        found = clf.weak_scores(X, Y)
        return [clf.predict_proba(X[:8]), found.average, str(found)]

    def crowd() -> list[Any]:
        clf = tp.WeakLabelClassifier(tp.annotators([T] * 4), random_state=0).fit(X, answers)
        return [clf.predict_proba(X[:8])]

    def searched() -> list[Any]:
        clf = tp.WeakLabelClassifier(T, tune={"l2": [1e-3, 1e-1], "loss": ["forward"]}, random_state=0).fit(X, y)
        return [clf.predict_proba(X[:8]), clf.best_params_]

    def watched() -> list[Any]:
        loss = tp.BackwardLoss(tp.complementary(3))
        monitor, rng = tp.LossMonitor(loss, window=20, num_examples=300, every=1), np.random.default_rng(0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(60):
                monitor.update(1.0 - 0.2 * step + rng.normal() / 10, torch.as_tensor(comp[:30]))
        return [str(monitor.history)[:300], len(caught), *[str(w.message) for w in caught]]

    return out | {
        "gold": with_gold,
        "batches": batches,
        "several labels": several,
        "searched": searched,
        "watched": watched,
        "annotators": lambda: tp.WeakLabelClassifier("estimate", random_state=0).fit(X, y).predict_proba(X[:8]),
        "crowd": lambda: (
            tp.WeakLabelClassifier(tp.annotators([T] * 4), random_state=0).fit(X, answers).predict_proba(X[:8])
        ),
    }


def objectives() -> Cases:
    """Losses of batches, pairs and bags; potentials at their corners; the theorem read backwards."""
    rng = np.random.default_rng(61)
    v = torch.as_tensor(rng.normal(size=(12, 3)))
    y = torch.as_tensor(rng.integers(0, 3, 12))
    T = tp.Transition([[0.8, 0.1, 0.2], [0.1, 0.7, 0.2], [0.1, 0.2, 0.6]])

    def at(loss: Any, *labels: Any) -> list[Any]:
        x = v.clone().requires_grad_()
        value = loss(x, *labels)
        value.sum().backward()
        return [value, x.grad, loss.probabilities(v)]

    bags = [0] * 5 + [1] * 7
    out: Cases = {
        "GA": lambda: at(tp.GradientAscentLoss(T), y),
        "NN": lambda: at(tp.NonNegativeLoss(T), y),
        "forward-backward": lambda: at(tp.ForwardBackwardLoss(T, 0.3, reduction="none"), y),
        "forward, Tsallis": lambda: at(tp.ForwardLoss(T, score="tsallis:1.5", reduction="none"), y),
        "forward, spherical": lambda: at(tp.ForwardLoss(T, score="spherical", reduction="none"), y),
        "weights": lambda: at(tp.BackwardLoss(T, class_weights=[1.0, 2.0, 3.0], reduction="none"), y),
        "ignored": lambda: at(tp.ForwardLoss(T, ignore_index=2), y),
        "soft": lambda: at(tp.BackwardLoss(T), tp.SoftLabels(np.eye(3)[y] * 0.7 + 0.1)),
        "soft, forward": lambda: at(tp.ForwardLoss(T), tp.SoftLabels(np.eye(3)[y] * 0.7 + 0.1)),
        "counts": lambda: at(tp.BagCountLoss(3), bags, [[2, 2, 1], [3, 1, 3]]),
        "counts, marginal": lambda: at(tp.BagCountLoss(3, "marginal"), bags, [[2, 2, 1], [3, 1, 3]]),
        "given": lambda: tp.BackwardLoss(T)(v, y, transitions=torch.as_tensor(T.matrix())[None].repeat(12, 1, 1)),
        "decompose": lambda: str(tp.decompose(-np.log(np.full((4, 3), 1 / 3)) + 0.0, T, points=np.full((4, 3), 1 / 3))),
        "a callable": lambda: str(tp.certify(lambda q: -torch.log(q), tp.identity(3))),
        "a callable, improper": lambda: str(tp.certify(lambda q: -q, tp.identity(3))),
        "comparison": lambda: str(
            tp.comparison({"a": tp.certify(tp.ForwardLoss(T)), "b": tp.certify(tp.BackwardLoss(T, squeeze=(1, 2)))})
        ),
    }
    edge = torch.tensor([[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.4, 0.3, 0.2, 0.1]], dtype=torch.float64)
    far = torch.as_tensor(rng.normal(size=(5, 4))) * torch.tensor([[0.1], [1.0], [10.0], [100.0], [1000.0]])
    for name, make in POTENTIALS.items():

        def corners(make: Callable[[], tp.Potential] = make) -> list[Any]:
            F = make()
            found = []
            for call, x in ((F.conjugate, edge), (F.value, far), (F.link, far), (F.probabilities, far)):
                try:
                    found.append(call(x))
                except (ValueError, RuntimeError) as error:
                    found.append(type(error).__name__)
            return found

        out[f"corners of {name}"] = corners
    return out


def drifted() -> Cases:
    """Tables that are not as in training, columns of every kind, answers with names."""
    import pandas as pd

    X, z, _ = world()
    names = np.array(["ant", "bee", "cat"])
    words = [
        ["leg wing six", "honey wing flower", "milk paw night"][c] + f" w{i % 9} w{i % 4}" for i, c in enumerate(z)
    ]
    frame = pd.DataFrame(
        {
            "size": np.where(np.arange(300) % 13 == 0, np.nan, X[:, 0]),
            "weight": X[:, 1] * 40 + 100,
            "colour": names[(X[:, 2] > 0).astype(int) + (X[:, 2] > 1)],
            "wild": X[:, 3] > 0,
            "seen": pd.date_range("2024-01-01", periods=300, freq="9h"),
            "words": words,
            "label": names[tp.symmetric_noise(3, 0.2).sample(z, seed=62)],
        }
    )
    other = frame.assign(weight=frame.weight * 50, colour="dodo", seen=frame.seen + pd.Timedelta(days=900), size=np.nan)

    def told(table: Any) -> list[Any]:
        model = tp.TableModel.fit(frame, "symmetric:0.2", label="label")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            p = model.predict_proba(table.drop(columns="label"))
        return [p[:10], *[str(w.message) for w in caught]]

    def boosted() -> list[Any]:
        model = tp.TableModel.fit(frame.drop(columns="words"), "symmetric:0.2", label="label", model="boosting")
        return [model.predict_proba(frame)[:10]]

    def named() -> list[Any]:
        T = tp.symmetric_noise(3, 0.2).named(names)
        q = world()[2]
        table = pd.DataFrame(q, columns=names)
        return [tp.weak_log_loss(frame.label, table, T), str(tp.check_transition(frame.label, T, table))]

    return {"as it was": lambda: told(frame), "another": lambda: told(other), "boosted": boosted, "named": named}


def more() -> Cases:
    """Every further case by its name."""
    rooms = {
        "structure": structures, "by": scores_by_estimates, "crowds": crowds, "T of data": transitions_of_data,
        "fit": fits, "objective": objectives, "drift": drifted,
    }  # fmt: skip
    return {f"{head}: {name}": call for head, room in rooms.items() for name, call in room().items()}
