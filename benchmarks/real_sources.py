"""Sources as they are: rules that abstain, judges, crowds, copies, errors in common, chosen gold, checked rows.

    OMP_NUM_THREADS=1 python benchmarks/real_sources.py --data DIR [--only rules copies ...] [--draws 40]
    python benchmarks/real_sources.py --render      # docs/estimation/real_sources.md again, from the record alone

`--data` is a folder with programmatic/*.csv (columns lf0, lf1, ... with -1 where a rule abstains, text, truth, split),
judges/*.csv and crowds/*.csv with *_truth.csv; nothing of it is copied. Sections that need no data run without it.
Peers (snorkel, crowd-kit) are run where they are installed, and left out elsewhere. Power-tuned prediction-powered
inference is computed here from its formula, and compared with ppi_py's where that is installed.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from _protocol import RECORDS, machine
from scipy.stats import norm
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

import tproper as tp

ROOT = Path(__file__).parent.parent
RECORD, PAGE = RECORDS / "real_sources.json", ROOT / "docs" / "estimation" / "real_sources.md"
RULES = {
    "youtube": ("wrench_youtube", "WRENCH; UCI YouTube Spam, CC BY 4.0"),
    "rna": ("rna", "regularized-data-programming; ODbL 1.0"),
    "yoruba": ("wrench_yoruba", "KnowMAN / WRENCH; no licence given"),
    "spouse": ("spouse", "Snorkel's sentences; no licence given"),
    "semeval": ("wrench_semeval", "WRENCH; no licence given"),
}
JUDGES = {"emotion": "css_emotion", "stance": "css_semeval_stance"}
CROWDS = ("dog", "duck", "rte", "wsd")
TIES, SPLITS = 20, 8
FAIR = 0.93  # an interval that holds the truth less often is too narrow to be compared


def score(p: np.ndarray, z: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and calibration error (15 bins of confidence)."""
    own = np.clip(p[np.arange(len(z)), z], np.finfo(float).eps, 1)
    top, hit = p.max(axis=1), p.argmax(axis=1) == z
    bins = np.minimum((top * 15).astype(int), 14)
    gaps = [abs(hit[bins == b].mean() - top[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins)]
    return {"accuracy": float(hit.mean()), "log_loss": float(-np.log(own).mean()), "calibration": float(sum(gaps))}


def votes(answers: np.ndarray, K: int) -> np.ndarray:
    """How many sources name each class (n, K)."""
    return np.stack([(answers == k).sum(axis=1) for k in range(K)], axis=1).astype(float)


def majority(answers: np.ndarray, z: np.ndarray, K: int) -> dict[str, float]:
    """The majority, ties broken at random, mean of 20; its log loss from (votes + 1) shares."""
    V = votes(answers, K)
    broken = [(V + np.random.default_rng(s).random(V.shape) / 2).argmax(axis=1) for s in range(TIES)]
    P = (V + 1) / (V + 1).sum(axis=1, keepdims=True)
    return score(P, z) | {"accuracy": float(np.mean([(b == z).mean() for b in broken]))}


def quietly(call: Callable[[], Any]) -> Any:
    """The call, its warnings aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def snorkel(answers: np.ndarray, K: int) -> list[np.ndarray]:
    """Posteriors of Snorkel's label model, seeds 1 to 3; empty where it is not installed."""
    try:
        from snorkel.labeling.model import LabelModel
    except ImportError:
        return []
    out = []
    for seed in (1, 2, 3):
        model = LabelModel(cardinality=K, verbose=False)
        model.fit(answers, n_epochs=500, seed=seed, progress_bar=False)
        out.append(model.predict_proba(answers))
    return out


def average(runs: list[dict[str, float]]) -> dict[str, float]:
    """Means over runs of tables of numbers."""
    return {key: float(np.mean([r[key] for r in runs])) for key in runs[0]}


# Rules that abstain.


def programmatic(data: Path, name: str) -> tuple[pd.DataFrame, np.ndarray, np.ndarray, int]:
    """The table, its answers (n, m), its classes, and how many classes there are."""
    table = pd.read_csv(data / "programmatic" / f"{RULES[name][0]}.csv")
    columns = [c for c in table if c.startswith("lf")]
    z = table["truth"].to_numpy()
    return table, table[columns].to_numpy(), z, int(z.max()) + 1


def on_tables() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Features, classes and hand-written rules of one class each, on two tables of scikit-learn."""
    cancer, wine = load_breast_cancer(as_frame=True), load_wine(as_frame=True)
    c, w = cancer.data, wine.data
    written = {
        "breast cancer": (
            cancer,
            [
                (c["worst radius"] > 17, 0),
                (c["worst concave points"] > 0.16, 0),
                (c["mean texture"] > 22, 0),
                (c["mean radius"] < 13, 1),
                (c["worst area"] < 650, 1),
            ],
        ),
        "wine": (
            wine,
            [
                (w["proline"] > 900, 0),
                (w["flavanoids"] > 2.9, 0),
                (w["color_intensity"] < 3.6, 1),
                (w["alcohol"] < 12.4, 1),
                (w["flavanoids"] < 1.2, 2),
                (w["hue"] < 0.75, 2),
            ],
        ),
    }
    return {
        name: (
            table.data.to_numpy(),
            table.target.to_numpy(),
            np.column_stack([np.where(speaks, k, -1) for speaks, k in rules]),
        )
        for name, (table, rules) in written.items()
    }


def against(answers: np.ndarray, z: np.ndarray, K: int, **settings: Any) -> dict[str, Any]:
    """The estimate, the majority and Snorkel on the rows with a vote."""
    told = (answers >= 0).any(axis=1)
    since = time.perf_counter()
    result = quietly(lambda: tp.estimate_annotators(answers, num_classes=K, random_state=0, **settings))
    seconds = time.perf_counter() - since
    versus = quietly(lambda: result.versus_vote)
    out = {
        "rows": int(told.sum()),
        "rules": answers.shape[1],
        "classes": K,
        "tproper": score(result.posteriors[told], z[told]),
        "majority": majority(answers[told], z[told], K),
        "seconds": seconds,
        "versus": [versus.value, *versus.interval],
    }
    theirs = [score(p[told], z[told]) for p in snorkel(answers, K)]
    return out | ({"snorkel": average(theirs)} if theirs else {})


def rules(data: Path | None, draws: int) -> dict[str, Any]:
    """Classes of the training rows."""
    out = {}
    for name in RULES if data is not None else ():
        table, answers, z, K = programmatic(data, name)
        train = (table["split"] == "train").to_numpy()
        out[name] = against(answers[train], z[train], K)
    for name, (_, z, answers) in on_tables().items():
        out[name] = against(answers, z, int(z.max()) + 1)
    return out


def words(train: pd.Series, *others: pd.Series) -> list[np.ndarray]:
    """TF-IDF reduced to 100 components, fitted to the first."""
    tfidf = TfidfVectorizer(min_df=2, ngram_range=(1, 2), sublinear_tf=True).fit(train)
    reduce = TruncatedSVD(100, random_state=0).fit(tfidf.transform(train))
    return [reduce.transform(tfidf.transform(text)) for text in (train, *others)]


def regression(X: np.ndarray, P: np.ndarray, test: np.ndarray, K: int) -> np.ndarray:
    """Logistic regression on posteriors: every row once for each class, with its probability for a weight."""
    rows, classes = np.nonzero(P > 1e-6)
    model = LogisticRegression(max_iter=2000).fit(X[rows], classes, sample_weight=P[rows, classes])
    out = np.full((len(test), K), 1e-9)
    out[:, model.classes_] = model.predict_proba(test)
    return out / out.sum(axis=1, keepdims=True)


def one_end(X: np.ndarray, answers: np.ndarray, X_test: np.ndarray, z_test: np.ndarray, K: int) -> dict[str, Any]:
    """The classifier trained by T beside logistic regression on votes and on Snorkel's labels, on the test rows."""
    told = (answers >= 0).any(axis=1)
    result = quietly(lambda: tp.estimate_annotators(answers, num_classes=K, random_state=0))
    T = quietly(lambda: result.transition)
    model = quietly(lambda: tp.WeakLabelClassifier(T, random_state=0).fit(X, answers))
    V = votes(answers[told], K)
    hard = np.eye(K)[(V + np.random.default_rng(0).random(V.shape) / 2).argmax(axis=1)]
    out: dict[str, Any] = {
        "tproper": score(quietly(lambda: model.predict_proba(X_test)), z_test),
        "posteriors": score(regression(X[told], result.posteriors[told], X_test, K), z_test),
        "votes": score(regression(X[told], hard, X_test, K), z_test),
    }
    theirs = [score(regression(X[told], p[told], X_test, K), z_test) for p in snorkel(answers, K)]
    if theirs:
        out["snorkel"] = average(theirs)
    return out


def end(data: Path | None, draws: int) -> dict[str, Any]:
    """End models on the test split, and the coverage of weak scores over resampled splits."""
    out: dict[str, Any] = {}
    for name in RULES if data is not None else ():
        table, answers, z, K = programmatic(data, name)
        train, test = ((table["split"] == part).to_numpy() for part in ("train", "test"))
        text = table["text"].fillna("")
        X, X_test = words(text[train], text[test])
        out[name] = one_end(X, answers[train], X_test, z[test], K)
        whole = words(text)[0]
        out[name]["weak"] = resampled(whole, answers, z, K)
    for name, (X, z, answers) in on_tables().items():
        K = int(z.max()) + 1
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        some = np.random.default_rng(0).random(len(z)) < 0.7
        out[name] = one_end(X[some], answers[some], X[~some], z[~some], K)
        out[name]["weak"] = resampled(X, answers, z, K)
    return out


def resampled(X: np.ndarray, answers: np.ndarray, z: np.ndarray, K: int) -> dict[str, float]:
    """How often the weak accuracy's interval holds the truth on the rows left out of random splits."""
    held, width, low, high = [], [], [], []
    for seed in range(SPLITS):
        some = np.random.default_rng(seed).random(len(z)) < 0.7
        result = quietly(lambda some=some: tp.estimate_annotators(answers[some], num_classes=K, random_state=0))
        p = regression(X[some], result.posteriors, X[~some], K).argmax(axis=1)
        try:
            found = quietly(lambda p=p, r=result, s=some: tp.weak_accuracy(answers[~s], p, r.transition))
        except tp.NotReconstructibleError:
            return {}
        truth = float((p == z[~some]).mean())
        held.append(found.interval[0] <= truth <= found.interval[1])
        width.append(found.interval[1] - found.interval[0])
        low.append(truth)
        high.append(found.value)
    return {
        "held": float(np.mean(held)),
        "width": float(np.mean(width)),
        "truth": float(np.mean(low)),
        "value": float(np.mean(high)),
        "splits": SPLITS,
    }


# Judges and crowds.


def judges(data: Path | None, draws: int) -> dict[str, Any]:
    """Language models as annotators, against people."""
    out: dict[str, Any] = {}
    if data is None:
        return out
    for name, file in JUDGES.items():
        table = pd.read_csv(data / "judges" / f"{file}.csv", dtype=str, keep_default_na=False)
        classes = sorted(set(table["truth"]))
        code = {c: i for i, c in enumerate(classes)}
        said = table.iloc[:, 3:].to_numpy()
        K, answers = len(code), np.array([[code.get(v, len(code)) for v in row] for row in said])  # no class: refused
        z = table["truth"].map(code).to_numpy()
        result = quietly(lambda a=answers, K=K: tp.estimate_annotators(a, num_classes=K, random_state=0))
        out[name] = {
            "tproper": score(result.posteriors, z),
            "majority": majority(answers, z, K),
            "rho": result.rho,
        }
    table = pd.read_csv(data / "judges" / "pandalm.csv")
    people = table[["human1", "human2", "human3"]].to_numpy()
    said = (
        table[["gpt35", "pandalm7b"]].astype(str).apply(lambda column: column.map({"Tie": 0, "0": 0, "1": 1, "2": 2}))
    )
    V = votes(people, 3)
    clear = ((V.max(axis=1) >= 2) & said.notna().all(axis=1)).to_numpy()
    z, answers = V.argmax(axis=1)[clear], said[clear].astype(int).to_numpy()
    shares, found = np.bincount(z, minlength=3) / len(z), []
    for seed in range(draws):
        true = np.full(len(z), -1)
        rows = np.random.default_rng(seed).choice(len(z), 150, replace=False)
        true[rows] = z[rows]
        told = quietly(lambda t=true: tp.weak_prevalence(answers, true=t))
        low, high = told.interval.T
        result = quietly(lambda t=true: tp.estimate_annotators(answers, t, num_classes=3, random_state=0))
        free = true < 0
        right = quietly(lambda t=true: tp.weak_accuracy(answers[:, 0], answers[:, 0], None, true=t))
        alone = float((answers[:, 0] == z).mean())
        found.append(
            score(result.posteriors[free], z[free])
            | {
                "held": float(((low <= shares) & (shares <= high)).mean()),
                "width": float((high - low).mean()),
                "accuracy_held": float(right.interval[0] <= alone <= right.interval[1]),
            }
        )
    out["pandalm"] = average(found) | {"rows": len(z), "judge": float((answers[:, 0] == z).mean()),
                                       "judge2": float((answers[:, 1] == z).mean())}  # fmt: skip
    return out


def crowds(data: Path | None, draws: int) -> dict[str, Any]:
    """People, in long tables."""
    out: dict[str, Any] = {}
    for name in CROWDS if data is not None else ():
        table = pd.read_csv(data / "crowds" / f"{name}.csv")
        truth = pd.read_csv(data / "crowds" / f"{name}_truth.csv").set_index("item")["truth"]
        K = int(table["answer"].max()) + 1
        given = tp.Answers(table["item"].to_numpy(), table["annotator"].to_numpy(), table["answer"].to_numpy())
        result = quietly(lambda g=given, K=K: tp.estimate_annotators(g, num_classes=K, random_state=0))
        z = truth.reindex(given.items).to_numpy()
        known = ~pd.isna(z)
        z = z[known].astype(int)
        wide = given.table()[known] if not given.repeated() else None
        out[name] = {"tproper": score(result.posteriors[known], z), "rho": result.rho}
        if wide is not None:
            out[name]["majority"] = majority(wide, z, K)
        out[name] |= crowd_kit(table, given, known, z, K)
    return out


def crowd_kit(table: pd.DataFrame, given: Any, known: np.ndarray, z: np.ndarray, K: int) -> dict[str, Any]:
    """Scores of crowd-kit's methods, by their posteriors, where it is installed."""
    try:
        from crowdkit.aggregation import GLAD, MACE, DawidSkene, OneCoinDawidSkene
    except ImportError:
        return {}
    frame = table.rename(columns={"item": "task", "annotator": "worker", "answer": "label"})
    methods = {"DS": DawidSkene(), "OneCoin": OneCoinDawidSkene(), "GLAD": GLAD(), "MACE": MACE(random_state=0)}
    found = {}
    for name, method in methods.items():
        P = quietly(lambda m=method: m.fit_predict_proba(frame)).reindex(index=given.items, columns=range(K))
        found[name] = score(P.fillna(0.0).to_numpy()[known], z)
    return {"crowd-kit": found}


# Copies, errors in common.


def sources(rng: np.random.Generator, right: list[float], n: int, K: int, coverage: float) -> tuple[Any, Any]:
    """Independent sources: answers (n, m) and classes."""
    z = rng.integers(0, K, n)
    wrong = (z[:, None] + rng.integers(1, K, (n, len(right)))) % K
    answers = np.where(rng.random((n, len(right))) < np.array(right), z[:, None], wrong)
    answers[rng.random(answers.shape) > coverage] = -1
    return answers, z


def copied(
    rng: np.random.Generator, K: int, times: int, same: float, n: int = 1000
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six honest sources and one of .6 `times` times: all answers, those without the copies, classes."""
    answers, z = sources(rng, [0.70, 0.73, 0.76, 0.79, 0.82, 0.85, 0.6], n, K, 0.6)
    again = np.tile(answers[:, 6:], (1, times - 1))
    moved = (rng.random(again.shape) > same) & (again >= 0)
    again[moved] = (again[moved] + rng.integers(1, K, moved.sum())) % K
    return np.column_stack([answers, again]), answers, z


def copies(data: Path | None, draws: int) -> dict[str, Any]:
    """Copies are named, and count as one; honest sources are not."""
    out: dict[str, Any] = {}
    for K in (2, 3, 4):
        for times in (3, 5):
            for same in (1.0, 0.95):
                runs = []
                for seed in range(draws):
                    every, alone, z = copied(np.random.default_rng([seed, K, times]), K, times, same)
                    a, b = (
                        quietly(lambda x=x, K=K: tp.estimate_annotators(x, num_classes=K, random_state=0))
                        for x in (every, alone)
                    )
                    those = range(6, 6 + times)
                    right = {(i, j) for i in those for j in those if i < j}
                    s, t = score(a.posteriors, z), score(b.posteriors, z)
                    runs.append(
                        {
                            "named": float({(c.first, c.second) for c in a.copied} == right),
                            "accuracy": s["accuracy"] - t["accuracy"],
                            "log_loss": s["log_loss"] - t["log_loss"],
                        }
                    )
                out[f"K {K}, {times} times, {same:.0%}"] = average(runs)
    for K in (2, 3, 4):
        named = {"two of .97": 0, "five one-class rules": 0}
        for seed in range(draws):
            rng = np.random.default_rng([seed, K, 97])
            answers, z = sources(rng, [0.97, 0.97, 0.7, 0.65, 0.8], 1000, K, 0.7)
            own = np.arange(5) % K
            one = np.where(rng.random((1000, 5)) < np.where(z[:, None] == own, 0.5, 0.06), own, -1)
            for key, x in (("two of .97", answers), ("five one-class rules", one)):
                found = quietly(lambda x=x, K=K: tp.estimate_annotators(x, num_classes=K, random_state=0))
                named[key] += not found.copied
        out |= {f"K {K}, {key}: none named": {"named": v / draws} for key, v in named.items()}
    return out


def hard(rng: np.random.Generator, K: int, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    """Five sources of .8; on a quarter of the items each is drawn to one wrong class with .7."""
    answers, z = sources(rng, [0.8] * 5, n, K, 1.0)
    lure = (z + rng.integers(1, K, n)) % K
    drawn = (rng.random(n) < 0.25)[:, None] & (rng.random((n, 5)) < 0.7)
    return np.where(drawn, lure[:, None], answers), z


def common(data: Path | None, draws: int) -> dict[str, Any]:
    """Errors in common, with 200 of 600 items known, and without."""
    out: dict[str, Any] = {}
    for K in (4, 6):
        runs, sure, right, blind_sure, held = [], 0, 0, 0.0, 0
        for seed in range(draws):
            answers, z = hard(np.random.default_rng([seed, K]), K)
            true = np.where(np.arange(600) < 200, z, -1)
            told = quietly(lambda a=answers, t=true, K=K: tp.estimate_annotators(a, t, num_classes=K, random_state=0))
            V = votes(answers, K) + 1
            p, own = told.posteriors[200:], z[200:]
            vote = score((V / V.sum(axis=1, keepdims=True))[200:], own)["log_loss"]
            runs.append(score(p, own) | {"vote": vote})
            top = p.max(axis=1) > 0.99
            sure, right = sure + int(top.sum()), right + int((p.argmax(axis=1) == own)[top].sum())
            said = V.argmax(axis=1)
            found = quietly(lambda a=answers, s=said, t=true: tp.weak_accuracy(a, s, None, true=t))
            held += found.interval[0] <= (said == z).mean() <= found.interval[1]
            blind = quietly(lambda a=answers, K=K: tp.estimate_annotators(a, num_classes=K, random_state=0))
            blind_sure = max(blind_sure, float(blind.posteriors.max()))
        out[f"K {K}"] = average(runs) | {
            "above .99": sure,
            "right": right / max(sure, 1),
            "interval held": held / draws,
            "largest without gold": blind_sure,
        }
    return out


# Checked rows.


def power_tuned(y: np.ndarray, own: np.ndarray, rest: np.ndarray) -> tuple[float, float]:
    """Prediction-powered inference for a mean, power-tuned (Angelopoulos, Duchi and Zrnic, 2023): 95% interval."""
    n, N = len(y), len(rest)
    both = np.cov(y, own)
    spread = np.concatenate([own, rest]).var(ddof=1)
    lam = float(np.clip(both[0, 1] / ((1 + n / N) * spread), 0, 1)) if spread > 0 else 0.0
    value = lam * rest.mean() + (y - lam * own).mean()
    half = norm.ppf(0.975) * np.sqrt((y - lam * own).var() / n + lam**2 * rest.var() / N)
    return value - half, value + half


def wilson(k: float, n: int) -> tuple[float, float]:
    """The score interval of a share."""
    q = norm.ppf(0.975)
    centre, half = (k + q * q / 2) / (n + q * q), q / (n + q * q) * np.sqrt(k * (n - k) / n + q * q / 4)
    return centre - half, centre + half


def prevalence(data: Path | None, draws: int) -> dict[str, Any]:
    """Shares of classes from n rows checked at random of 2,000 that judges labelled."""
    out: dict[str, Any] = {}
    for K, shares in ((2, np.array([0.3, 0.7])), (4, np.array([0.1, 0.2, 0.3, 0.4]))):
        for name, accuracies in (("judge .7", [0.7]), ("judge .9", [0.9]), ("three judges", [0.7, 0.75, 0.8])):
            for n in (100, 400):
                found: dict[str, list[tuple[float, float]]] = {"tproper": [], "ppi": [], "checked": []}
                for seed in range(draws * 5):
                    rng = np.random.default_rng([seed, K, n, len(accuracies), int(accuracies[0] * 10)])
                    z = rng.choice(K, 2000, p=shares)
                    said = np.stack([tp.symmetric_noise(K, 1 - a).sample(z, rng) for a in accuracies], axis=1)
                    own = np.zeros(2000, bool)
                    own[rng.choice(2000, n, replace=False)] = True
                    true = np.where(own, z, -1)
                    labels = said[:, 0] if len(accuracies) == 1 else said
                    ours = quietly(lambda y=labels, t=true: tp.weak_prevalence(y, true=t)).interval
                    for c in range(K):
                        f = (said == c).mean(axis=1)
                        y = (z[own] == c).astype(float)
                        ends = {
                            "tproper": tuple(ours[c]),
                            "ppi": power_tuned(y, f[own], f[~own]),
                            "checked": wilson(y.sum(), n),
                        }
                        for key, (low, high) in ends.items():
                            found[key].append((high - low, float(low <= shares[c] <= high)))
                cell = {
                    k: dict(zip(("width", "held"), np.mean(v, axis=0).tolist(), strict=True)) for k, v in found.items()
                }
                cell["ratio"] = cell["tproper"]["width"] / cell["ppi"]["width"]
                out[f"K {K}, {name}, {n} checked"] = cell | {"draws": draws * 5}
    return out


def chosen(data: Path | None, draws: int) -> dict[str, Any]:
    """A hundred checked rows of each label: shares, and the accuracy of the judge and of a classifier, with X."""
    out: dict[str, Any] = {}
    cells = {"K 2, prior .1": (0.15, [0.1, 0.9]), "K 2, prior .03": (0.15, [0.03, 0.97]),
             "K 4": (0.2, [0.1, 0.2, 0.3, 0.4])}  # fmt: skip
    for name, (noise, given) in cells.items():
        shares, K = np.array(given), len(given)
        runs = []
        for seed in range(draws * 5):
            rng = np.random.default_rng([seed, K, int(100 * given[0])])
            z = rng.choice(K, 2000, p=shares)
            y = tp.symmetric_noise(K, noise).sample(z, rng)
            X = rng.normal(size=(2000, 3)) + 1.5 * np.eye(3)[z % 3]
            true = np.full(2000, -1)
            for label in range(K):
                rows = np.flatnonzero(y == label)
                rows = rng.choice(rows, min(100, len(rows)), replace=False)
                true[rows] = z[rows]
            own = true >= 0
            predicted = LogisticRegression(max_iter=500).fit(X[:500], y[:500]).predict(X)
            run = {}
            for key, more in (("", {}), (", with X", {"X": X})):
                low, high = quietly(lambda y=y, t=true, m=more: tp.weak_prevalence(y, true=t, **m)).interval.T
                run[f"shares{key}"] = float(((low <= shares) & (shares <= high)).mean())
                run[f"width{key}"] = float((high - low).mean())
            for key, p in (("the judge", y), ("a classifier on X", predicted)):
                found = quietly(lambda y=y, p=p, t=true: tp.weak_accuracy(y, p, None, true=t))
                share = float((1 - noise) if p is y else _right(predicted, z, X, shares))
                run[f"accuracy of {key}"] = float(found.interval[0] <= share <= found.interval[1])
            run["checked"] = int(own.sum())
            runs.append(run)
        out[name] = average(runs) | {"draws": len(runs)}
    return out


def _right(predicted: np.ndarray, z: np.ndarray, X: np.ndarray, shares: np.ndarray) -> float:
    return float((predicted == z).mean())


SECTIONS = {
    "rules": rules,
    "end": end,
    "judges": judges,
    "crowds": crowds,
    "copies": copies,
    "common": common,
    "chosen": chosen,
    "prevalence": prevalence,
}


# The page.


def row(*cells: Any) -> str:
    """A line of a table."""
    return "| " + " | ".join(str(c) for c in cells) + " |"


def table(head: list[str], rows: list[list[Any]]) -> list[str]:
    """A table and an empty line."""
    return [row(*head), row(*["---"] * len(head)), *(row(*r) for r in rows), ""]


def two(entry: dict[str, float] | None) -> str:
    """Accuracy / log loss."""
    return "-" if entry is None else f"{entry['accuracy']:.3f} / {entry['log_loss']:.2f}"


def three(entry: dict[str, float] | None) -> str:
    """Accuracy / log loss / calibration error."""
    return "-" if entry is None else f"{two(entry)} / {entry['calibration']:.3f}"


def share(value: float) -> str:
    """A share in per cent."""
    return f"{100 * value:.0f} %"


def won(found: dict[str, Any], ours: str, theirs: str, who: str) -> str:
    """On which sets a rival has the lower log loss, in words."""
    worse = [name for name, f in found.items() if theirs in f and f[theirs]["log_loss"] < f[ours]["log_loss"]]
    sets = sum(theirs in f for f in found.values())
    return f"{who} the lower log loss on {len(worse)} of {sets} sets" + (f" ({', '.join(worse)})." if worse else ".")


def rules_page(found: dict[str, Any]) -> list[str]:
    """Rules on training rows."""
    rows = [
        [name, f"{f['rules']}, {f['classes']}", f["rows"], three(f["tproper"]), three(f["majority"]),
         three(f.get("snorkel")),
         f"{f['versus'][0]:+.3f} ({f['versus'][1]:+.3f} to {f['versus'][2]:+.3f})"]
        for name, f in found.items()
    ]  # fmt: skip
    head = ["set", "rules, classes", "rows", "`estimate_annotators`", "majority", "Snorkel", "`.versus_vote`"]
    return [
        "## Rules that abstain",
        "",
        "Accuracy / log loss / calibration error (15 bins) on the training rows with a vote. Majority: mean over "
        f"{TIES} ways of breaking ties; its log loss is that of (votes + 1) shares. Snorkel 0.10: 500 epochs, mean of "
        "seeds 1 to 3. What `.versus_vote` says of accuracy, estimate less majority, comes from the votes alone.",
        "",
        *table(head, rows),
        won(found, "tproper", "snorkel", "Snorkel has"),
        "",
    ]


def end_page(found: dict[str, Any]) -> list[str]:
    """Classifiers trained on rules."""
    splits = next(f["weak"]["splits"] for f in found.values() if f["weak"])
    rows = [
        [name, three(f["tproper"]), three(f["votes"]), three(f.get("snorkel"))]
        + (
            [share(f["weak"]["held"]), f"{f['weak']['width']:.2f}", f"{f['weak']['truth']:.3f}"]
            if f["weak"]
            else ["-"] * 3
        )
        for name, f in found.items()
    ]
    head = ["set", "`WeakLabelClassifier`", "votes + logistic regression", "Snorkel + logistic regression",
            "interval holds the truth", "its width", "accuracy of that model"]  # fmt: skip
    return [
        "## The classifier trained on them",
        "",
        "Accuracy / log loss / calibration error (15 bins) on the test rows, one split each; TF-IDF of the texts, "
        "reduced to 100 components (standardised columns of the last two). Snorkel: mean of seeds 1 to 3. The last "
        f"columns: `weak_accuracy` by the rules' answers alone on the rows left out of {splits} random splits.",
        "",
        *table(head, rows),
        won(found, "tproper", "snorkel", "Logistic regression on Snorkel's labels has"),
        won(found, "tproper", "votes", "On the votes it has"),
        "",
        "Rules are made of the words that the classifier sees, so its certainty is calibrated between what they say by "
        "themselves and with the features, and `weak_accuracy` has bounds. The shares that these rest on (a quarter, "
        "and a tenth of the rows out of reach) were chosen with all seven sets in view. No answer of a rule can show "
        "that rows have other class shares than rules suggest (spouse: 7 % positive): checked rows can.",
        "",
    ]


def judges_page(found: dict[str, Any], people: dict[str, Any]) -> list[str]:
    """Judges and crowds."""
    rows = [
        [name, three(f["tproper"]), three(f.get("majority")), f"{f['rho']:.2f}"]
        for name, f in [*((k, v) for k, v in found.items() if k != "pandalm"), *people.items()]
    ]
    out = [
        "## Judges and crowds",
        "",
        "emotion, stance: zero-shot answers of 12 language models, refusals as answers of their own. dog, "
        "duck, rte, wsd: "
        "people. Accuracy / log loss / calibration error (15 bins).",
        "",
        *table(["set", "`estimate_annotators`", "majority", "rho"], rows),
    ]
    kits = {k: v["crowd-kit"] for k, v in people.items() if "crowd-kit" in v}
    if kits:
        names = list(next(iter(kits.values())))
        out += table(["crowd-kit", *names], [[k, *(three(v[n]) for n in names)] for k, v in kits.items()])
    f = found["pandalm"]
    return [
        *out,
        f"PandaLM: two judges (right in {f['judge']:.3f} and {f['judge2']:.3f}) and 150 of {f['rows']} rows "
        f"checked by three "
        f"people, a new draw each time. Labels of the other rows: {f['accuracy']:.3f} right, log loss "
        f"{f['log_loss']:.2f}. "
        f"Shares of the verdicts: the interval holds them in {share(f['held'])}, mean width {f['width']:.3f}. "
        f"Accuracy of "
        f"the first judge: in {share(f['accuracy_held'])}.",
        "",
    ]


def shared_page(copied_: dict[str, Any], hard_: dict[str, Any]) -> list[str]:
    """Copies, errors in common."""
    named = [
        [k, share(f["named"]), f"{f['accuracy']:+.3f}", f"{f['log_loss']:+.3f}"]
        for k, f in copied_.items()
        if "accuracy" in f
    ]
    most = max(f["largest without gold"] for f in hard_.values())
    honest = [[k, share(f["named"])] for k, f in copied_.items() if "accuracy" not in f]
    rows = [
        [k, f"{f['log_loss']:.3f}", f"{f['vote']:.3f}", f["above .99"],
         share(f["right"]) if f["above .99"] else "-", share(f["interval held"])]
        for k, f in hard_.items()
    ]  # fmt: skip
    return [
        "## Copies",
        "",
        "Six sources of .70 to .85 and one of .6, three or five times, exact and 95 %, coverage .6, 1,000 "
        "items: draws in which "
        "exactly the copies are named, and the difference to the estimate without copies.",
        "",
        *table(["cell", "named rightly", "accuracy", "log loss"], named),
        *table(["honest sources", "draws in which none is called a copy"], honest),
        "## Errors in common",
        "",
        "Five sources of .8; on a quarter of the items each is drawn to one wrong class with .7. The classes "
        "of 200 of 600 items "
        "are known; figures are of the other 400.",
        "",
        *table(
            ["classes", "log loss", "of the smoothed vote", "items with p > .99", "of them right",
             "interval of the vote's accuracy holds it"],
            rows,
        ),
        f"Without a known class the largest posterior was {most:.2f}: "
        "nothing shows such errors, as sources that are drawn to one wrong class look like sources that are right. The "
        "output says so; give some true classes.",
        "",
    ]  # fmt: skip


def checked_page(prevalence_: dict[str, Any], chosen_: dict[str, Any]) -> list[str]:
    """Checked rows."""
    rows = []
    for k, f in prevalence_.items():
        short = " *" if f["ppi"]["held"] < FAIR else ""
        ratio = f"{f['tproper']['width'] / f['ppi']['width']:.2f}{short}"
        cells = [f"{f[key]['width']:.3f}, {share(f[key]['held'])}" for key in ("tproper", "ppi", "checked")]
        rows.append([k, *cells, ratio])
    head = ["cell", "`weak_prevalence`", "power-tuned prediction-powered", "checked rows alone", "ratio of widths"]
    keys = [k for k in next(iter(chosen_.values())) if not k.startswith("width") and k not in ("checked", "draws")]
    draws, drawn = next(iter(prevalence_.values()))["draws"], next(iter(chosen_.values()))["draws"]
    return [
        "## Shares of the classes, n rows checked at random",
        "",
        f"2,000 labels, {draws} draws, the mean over classes. Width of the interval, and how often it holds the truth. "
        "Ratio: the width of `weak_prevalence` to that of prediction-powered inference; * where the latter holds the "
        f"truth in less than {share(FAIR)}, so that it is too narrow to compare with.",
        "",
        *table(head, rows),
        "## A hundred rows of each label checked",
        "",
        f"How often the interval holds the truth, in {drawn} draws.",
        "",
        *table(["cell", *keys], [[k, *(share(f[key]) for key in keys)] for k, f in chosen_.items()]),
    ]


def render(record: dict[str, Any]) -> str:
    """The page."""
    m = record["machine"]["rules"]
    revisions = ", ".join(f"{name}: {run['commit']}" for name, run in sorted(record["machine"].items()))
    licences = "; ".join(f"{name}: {what}" for name, (_, what) in RULES.items())
    lines = [
        "# Sources as they are",
        "",
        "Made by `benchmarks/real_sources.py` from `benchmarks/records/real_sources.json`; do not edit. Machine: "
        f"{m['cpu']}, {m['date']}; {revisions}. No data are kept here. {licences}; emotion, stance: "
        f"LLMs_for_CSS, "
        "no licence given; pandalm: Apache-2.0; dog, duck: crowd_truth_infer; rte, wsd: Snow and others "
        "(2008), no licence "
        "given; breast cancer, wine: scikit-learn's tables with rules written by hand.",
        "",
        "The prior of rules (how often they are right, even classes) was chosen on these five sets of rules; "
        "the rules on "
        "scikit-learn's tables were written afterwards.",
        "",
        *rules_page(record["rules"]),
        *end_page(record["end"]),
        *judges_page(record["judges"], record["crowds"]),
        *shared_page(record["copies"], record["common"]),
        *checked_page(record["prevalence"], record["chosen"]),
    ]
    return "\n".join(lines).rstrip() + "\n"


def page() -> str:
    """The page, from the record."""
    return render(json.loads(RECORD.read_text()))


def main() -> None:
    """Run sections, keep what they found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="*", default=list(SECTIONS))
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--out", type=Path, default=RECORD)
    parser.add_argument("--render", action="store_true")
    arguments = parser.parse_args()
    if arguments.render:
        PAGE.write_text(page())
        return
    record = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    for name in arguments.only:
        since = time.perf_counter()
        record[name] = SECTIONS[name](arguments.data, arguments.draws)
        record.setdefault("machine", {})[name] = machine() | {"seconds": round(time.perf_counter() - since)}
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
        print(name, json.dumps(record[name], indent=1), flush=True)


if __name__ == "__main__":
    main()
