"""How often do warnings and refusals speak on clean data? ``python benchmarks/noise.py --draws 200 --jobs 2``.

Every draw is a data set of 400 rows with three classes that a linear model fits, or two for positives and the rest; its
labels arise exactly as the T says that the calls are given, or as the estimate supposes. What is called: the fit, the
weak accuracy on rows that were held out, the test of T, shares of classes, and the estimate of T where there is one.
Each kind of warning, each refusal, and each verdict "doubtful" or "not informative" is counted by its first words, at
most once a draw.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import tproper as tp

RECORD = Path(__file__).parent / "records" / "noise.json"
N = 400


def rows(seed: int, K: int = 3) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Features and classes, which a linear model fits."""
    rng = np.random.default_rng([2026, seed])
    X = rng.normal(size=(N, 4))
    scores = 2.0 * X[:, :K] + rng.gumbel(size=(N, K))
    return X, scores.argmax(1), rng


def judged(X: np.ndarray, y: Any, T: Any, names: Any = None) -> None:
    """What somebody with labels and a T calls."""
    half = N // 2
    model = tp.WeakLabelClassifier(T, random_state=0, classes=names).fit(X[:half], y[:half])
    transition = model.transition_
    rest, predicted = y[half:], model.predict(X[half:])
    said(tp.weak_accuracy(rest, predicted, transition))
    said(tp.check_transition(rest, transition, model.predict_proba(X[half:])))
    tp.weak_prevalence(rest, transition)


def said(result: Any) -> None:
    """Verdicts are counted as warnings are."""
    text = str(result)
    if "not informative" in text:
        warnings.warn("verdict: not informative", stacklevel=2)
    if getattr(result, "plausible", True) is False:
        warnings.warn("verdict: T is doubtful", stacklevel=2)


def given(make: Callable[[], tp.Transition], K: int = 3, named: bool = False) -> Callable[[int], None]:
    """Labels of a T that is given."""

    def draw(seed: int) -> None:
        X, z, rng = rows(seed, K)
        T = make()
        y = np.asarray(T.sample(z, rng))
        names = ["ant", "bee", "cat"][:K] if named else None
        judged(X, y if names is None else np.array(names)[y], T, names)

    return draw


def positive(seed: int) -> None:
    X, z, rng = rows(seed, 2)
    labeled = (z == 1) & (rng.random(N) < 0.5)
    tp.estimate_pu(labeled, X, random_state=0)
    tp.WeakLabelClassifier(("estimate", {"kind": "pu"}), random_state=0).fit(X, labeled)


def crowd(seed: int) -> None:
    X, z, rng = rows(seed)
    T = tp.annotators([tp.symmetric_noise(3, p) for p in (0.1, 0.2, 0.3, 0.25, 0.15)])
    answers = np.where(rng.random((N, 5)) < 0.7, np.asarray(T.sample(z, rng)), -1)
    found = tp.estimate_annotators(answers, random_state=0)
    tp.WeakLabelClassifier(found.transition, random_state=0).fit(X, answers)


def rules(seed: int) -> None:
    X, z, rng = rows(seed)
    columns = []
    for source in range(9):  # three rules a class, each right in four of five
        names = source % 3
        speaks = rng.random(N) < np.where(z == names, 0.4, 0.05)
        columns.append(np.where(speaks, names, -1))
    answers = np.column_stack(columns)
    found = tp.estimate_annotators(answers, random_state=0)
    tp.WeakLabelClassifier(found.transition, random_state=0).fit(X, answers)


def checked(seed: int) -> None:
    X, z, rng = rows(seed)
    y = np.asarray(tp.symmetric_noise(3, 0.2).sample(z, rng))
    true = np.where(rng.random(N) < 0.3, z, -1)
    T = tp.estimate_transition(y, true=true)
    said(tp.weak_accuracy(y, z, T, true=true))
    tp.weak_prevalence(y, true=true)
    judged(X, y, T)


def featured(seed: int) -> None:
    X, z, rng = rows(seed)
    y = np.asarray(tp.symmetric_noise(3, 0.2).sample(z, rng))
    tp.estimate_transition(y, X=X, random_state=0)


KINDS: dict[str, Callable[[int], None]] = {
    "clean": given(lambda: tp.identity(3)),
    "symmetric noise": given(lambda: tp.symmetric_noise(3, 0.2)),
    "pair noise by name": given(lambda: tp.pair_noise(3, 0.2), named=True),
    "complementary": given(lambda: tp.complementary(3)),
    "candidate sets": given(lambda: tp.partial_labels(3, 0.3)),
    "not these two": given(lambda: tp.multi_complementary(3, 1)),
    "binary noise": given(lambda: tp.binary_noise(0.1, 0.2), 2),
    "positives and the rest with T": given(lambda: tp.positive_unlabeled(0.5), 2),
    "annotators with T": given(lambda: tp.annotators([tp.symmetric_noise(3, 0.2)] * 3)),
    "positives and the rest": positive,
    "crowd": crowd,
    "rules that abstain": rules,
    "checked rows": checked,
    "features": featured,
}


def heard(kind: str, seed: int) -> list[str]:
    """What spoke in one draw, by its first words."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            KINDS[kind](seed)
            refused = []
        except ValueError as error:
            refused = [f"refused: {first_words(str(error))}"]
    return sorted({f"{w.category.__name__}: {first_words(str(w.message))}" for w in caught} | set(refused))


def first_words(text: str) -> str:
    """The start of a message, its numbers taken out."""
    return re.sub(r"[-+]?\d[\d.e+-]*%?", "#", text)[:60]


def batch(job: tuple[str, list[int]]) -> tuple[str, int, Counter[str]]:
    """Some draws of a kind."""
    kind, seeds = job
    return kind, len(seeds), Counter(words for seed in seeds for words in heard(kind, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--kinds", help="these alone, with commas")
    parser.add_argument("--out", type=Path, default=RECORD)
    options = parser.parse_args()
    kinds = options.kinds.split(",") if options.kinds else list(KINDS)
    seeds = list(range(options.first, options.first + options.draws))
    jobs = [(kind, seeds[i : i + 10]) for i in range(0, len(seeds), 10) for kind in kinds]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    draws: Counter[str] = Counter()
    with ProcessPoolExecutor(options.jobs) as pool:
        for kind, number, found in pool.map(batch, jobs):
            counts[kind] += found
            draws[kind] += number
    record = {kind: {"draws": draws[kind], "heard": dict(counts[kind].most_common())} for kind in kinds}
    options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    for kind, row in record.items():
        print(f"{kind}: " + ("; ".join(f"{n / row['draws']:.1%} {w}" for w, n in row["heard"].items()) or "silent"))


if __name__ == "__main__":
    main()
