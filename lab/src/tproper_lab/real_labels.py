"""Weak labels that people or models gave: CIFAR-10N, complementary labels of CIFAR-10, CIFAR-10H; and your own file.

``real_problem("cifar10n:random1", directory, clean_labels)`` gives the labels, a T for them, and a sentence on both.
A specification is a source, its columns, and how T is known::

    cifar10n:random1   cifar10n:random2   cifar10n:random3   cifar10n:aggregate   cifar10n:worst   cifar10n:all
    llava:1   llava:3                   the first, or the first three, of a model's complementary labels
    file:mine.npz:noisy                 your own: the array `labels` (n,) or (n, m), in the order of the images
    file:mine.npz:complementary         (several per row, -1 = none: all; file:mine.npz:complementary:1 the first)

    ...:T=true        (the default) the frequencies of the labels given the true classes
    ...:T=uniform     complementary labels: uniform; noisy labels: symmetric, with the true share of wrong labels
    ...:T=estimated   from the labels alone, by the agreement of three or more answers per image (`estimate_annotators`)

Known content is held against its digest, and the order of the images against their true classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tproper.errors import InputError
from tproper.estimation import estimate_annotators
from tproper.transitions import Transition, annotators, complementary, symmetric_noise

from .datasets import DataError
from .label_files import (
    CIFAR10N,
    DIGESTS,
    HUMAN,
    LLAVA,
    MISSING,
    IntArray,
    cifar10h_counts,
    find,
    integers,
    read_arrays,
    truth_in,
)

SOURCES = ("cifar10n", "llava", "file")
MEANS = ("noisy", "complementary")
WAYS = ("true", "uniform", "estimated")
COLUMNS = {
    "random1": "random_label1",
    "random2": "random_label2",
    "random3": "random_label3",
    "aggregate": "aggre_label",
    "worst": "worse_label",
}
RANDOM = ("random1", "random2", "random3")
START = {"noisy": "majority", "complementary": "opposite"}  # what answers say, for `estimate_annotators`

__all__ = ["RealProblem", "Spec", "cifar10h_counts", "estimated_here", "parse_spec", "real_problem"]


class RealProblem(NamedTuple):
    """Labels in the order of the images ((n,), or (n, m) answers), a T for them, and a sentence on both."""

    labels: IntArray
    transition: Transition
    description: str


class Spec(NamedTuple):
    """``source:column:T=way``; for a file `column` is its path."""

    source: str
    column: str
    means: str  # one of `MEANS`
    way: str  # one of `WAYS`
    first: int | None = None  # how many columns; None: all


class Given(NamedTuple):
    """What a file holds: all answers, which columns are asked for, and the true classes where it has them."""

    answers: IntArray  # (n, m): what T=estimated may use
    chosen: IntArray  # (n, columns)
    truth: NDArray[Any] | None
    where: str


def parse_spec(spec: str) -> Spec:
    """A specification, checked."""
    parts = str(spec).split(":")
    way = parts.pop()[2:] if parts[-1].startswith("T=") else "true"
    source, *rest = parts or [""]
    if way not in WAYS:
        raise InputError(f"labels: expected T=true, T=uniform or T=estimated, got 'T={way}' in {spec!r}")
    if source == "cifar10n" and len(rest) == 1 and rest[0] in (*COLUMNS, "all"):
        return Spec(source, rest[0], "noisy", way)
    if source == "llava" and len(rest) == 1 and rest[0] in set("123456789"):
        return Spec(source, "", "complementary", way, int(rest[0]))
    if source == "file" and len(rest) >= 2:
        count = int(rest.pop()) if rest[-1].isdecimal() and len(rest) > 2 else None
        if rest[-1] in MEANS and rest[0] and count != 0:
            return Spec(source, ":".join(rest[:-1]), rest[-1], way, count)
    expected = {
        "cifar10n": f"cifar10n:COLUMN with a column of {', '.join(COLUMNS)}, all",
        "llava": "llava:M with M labels per image, 1 to 9",
        "file": "file:PATH:noisy or file:PATH:complementary",
    }.get(source, f"a source of {', '.join(SOURCES)}, as in cifar10n:random1")
    raise InputError(f"labels: expected {expected}, got {spec!r}")


def estimated_here(spec: str) -> bool:
    """Whether a problem's T is estimated from published labels, rather than given."""
    return spec.split(":")[0] in SOURCES and spec.endswith(":T=estimated")


def real_problem(
    spec: str, directory: str | Path, clean_labels: Any, digests: Mapping[str, str] = DIGESTS
) -> RealProblem:
    """The labels that a specification names (see the head of this module), T for them, and a sentence on both.

    `directory` holds the label files; the path of a `file:` is relative to it. `clean_labels` (n,) are the true classes
    of the training images, in their order: T=true and T=uniform are made of them, and the order of the labels is held
    against them; T=estimated does not use them. `digests` are the SHA-256 of known content.
    """
    want = parse_spec(spec)
    clean = np.asarray(clean_labels)
    if clean.ndim != 1 or not len(clean) or clean.dtype.kind not in "iu" or clean.min() < 0:
        got = f"{clean.dtype} of shape {clean.shape}"
        raise InputError(f"clean_labels: expected the class of every image, integers from 0 on, got {got}")
    K = int(clean.max()) + 1
    given = _read(want, Path(directory), digests)
    hit = _check(given, clean, K, want)
    ts = _transitions(given, clean, K, want)
    alone = given.chosen.shape[1] == 1
    after_all = " after all" if want.means == "complementary" else ""
    how = {"true": "from the true classes", "uniform": "taken to be uniform", "estimated": "estimated from the labels"}
    several = "" if alone else f", {given.chosen.shape[1]} per image"
    text = (
        f"{spec.partition(':T=')[0]}: {want.means} labels{several}, {hit:.1%} of them the true class{after_all}; "
        f"T {how[want.way]}"
    )
    return RealProblem(given.chosen[:, 0] if alone else given.chosen, ts[0] if alone else annotators(ts), text)


def _read(want: Spec, directory: Path, digests: Mapping[str, str]) -> Given:
    if want.source == "cifar10n":
        path = find(directory, (CIFAR10N, HUMAN))
        arrays = read_arrays(path)

        def column(name: str) -> IntArray:
            if COLUMNS[name] not in arrays:
                hint = f"; the worst column is in {HUMAN}" if name == "worst" else ""
                raise DataError(f"{path}: expected {COLUMNS[name]}, got {', '.join(sorted(arrays))}{hint}")
            return integers(arrays[COLUMNS[name]], f"{COLUMNS[name]} in {path}", digests.get(COLUMNS[name]))

        names = RANDOM if want.column == "all" else (want.column,)
        chosen = np.stack([column(n) for n in names], axis=1)
        answers = np.stack([column(n) for n in RANDOM], axis=1) if want.way == "estimated" else chosen
        return Given(answers, chosen, truth_in(arrays), str(path))
    path = find(directory, (LLAVA if want.source == "llava" else want.column,))
    arrays = read_arrays(path)
    labels = arrays.get("labels", arrays.get("cl_labels"))
    if labels is None:
        raise DataError(f"{path}: expected an array named labels, got {', '.join(sorted(arrays)) or 'none'}")
    table = integers(labels, str(path), digests.get(LLAVA) if want.source == "llava" else None)
    table = table[:, None] if table.ndim == 1 else table
    if want.first is not None and want.first > table.shape[1]:
        raise DataError(f"{path}: expected {want.first} labels per row, got {table.shape[1]}")
    # T is estimated from the labels that are trained on, and from three where fewer are
    first = table.shape[1] if want.first is None else want.first
    return Given(table[:, : max(first, 3)], table[:, :first], truth_in(arrays), str(path))


def _check(given: Given, clean: IntArray, K: int, want: Spec) -> float:
    """Labels must fit the images in number, range and order; gives the share that name the true class."""
    n, least = len(clean), 0 if given.chosen.shape[1] == 1 else MISSING
    if len(given.chosen) != n:
        raise DataError(f"{given.where}: expected labels of {n} images, got {len(given.chosen)}")
    for answers, lowest in ((given.chosen, least), (given.answers, MISSING)):  # those that T is estimated from, too
        low, high = int(answers.min()), int(answers.max())
        if low < lowest or high >= K:
            raise DataError(f"{given.where}: expected labels in [0, {K}), got {low if low < lowest else high}")
    there = given.chosen != MISSING
    empty = np.flatnonzero(~there.any(axis=0))
    if len(empty):
        raise DataError(f"{given.where}: expected some labels in every column, got none in column {empty[0]}")
    if given.truth is not None:
        truth = np.asarray(given.truth).reshape(-1)
        if len(truth) != n:
            raise DataError(f"{given.where}: expected true classes of {n} images, got {len(truth)}")
        differ = np.flatnonzero(truth != clean)
        if len(differ):
            raise DataError(
                f"{given.where}: its true classes are not those of the images: another order, or other images; the "
                f"first difference is at row {differ[0]}"
            )
    hit = float((given.chosen == clean[:, None])[there].mean())
    by_chance = float(
        (np.bincount(given.chosen[there], minlength=K) / there.sum()) @ (np.bincount(clean, minlength=K) / n)
    )
    error = 4 * np.sqrt(by_chance * (1 - by_chance) / n)  # of an order that has nothing to do with the images
    if hit < by_chance + error if want.means == "noisy" else hit > by_chance - error:
        expected = "more" if want.means == "noisy" else "less"
        raise DataError(
            f"{given.where}: expected {want.means} labels, which name the true class {expected} often than chance "
            f"({by_chance:.1%}), got {hit:.1%}; are they in the order of the images?"
        )
    return hit


def _transitions(given: Given, clean: IntArray, K: int, want: Spec) -> list[Transition]:
    """T of each column that is trained on."""
    if want.way == "uniform" and want.means == "complementary":
        return [complementary(K) for _ in given.chosen.T]
    if want.way == "estimated":
        return _estimated(given, K, want)
    out: list[Transition] = []
    for column in given.chosen.T:
        there = column != MISSING
        counts = _counts(column[there], np.eye(K)[clean[there]])
        if (counts.sum(axis=0) == 0).any():
            raise DataError(
                f"{given.where}: expected labels of every class, got none of class {counts.sum(axis=0).argmin()}"
            )
        T = Transition(counts / counts.sum(axis=0))
        out.append(T if want.way == "true" else symmetric_noise(K, float((column != clean)[there].mean())))
    return out


def _counts(labels: IntArray, classes: NDArray[np.float64]) -> NDArray[np.float64]:
    """``counts[y, z]``: how often y was given where the class is z, by probabilities (n, K) of the classes."""
    out = np.zeros((classes.shape[1], classes.shape[1]))
    np.add.at(out, labels, classes)
    return out


def _estimated(given: Given, K: int, want: Spec) -> list[Transition]:
    """By the agreement of the answers; of the aggregate, a function of the answers, by the classes that they imply."""
    if want.column == "worst":
        raise InputError(
            "labels: expected T=true or T=uniform for cifar10n:worst, which was chosen by the true class so that "
            "agreement does not tell its T, got T=estimated"
        )
    m = given.answers.shape[1]
    if m < 3:
        raise InputError(
            f"labels: expected at least 3 answers per image for T=estimated, got {m} in {given.where}; with features "
            "T can be had from one: see tproper.estimate_transition"
        )
    estimate = estimate_annotators(given.answers, num_classes=K, start=START[want.means])
    if want.column == "aggregate":
        return [Transition.from_counts(_counts(given.chosen[:, 0], estimate.posteriors))]
    which = RANDOM.index(want.column) if want.column in RANDOM else 0
    return [estimate.transitions[which + i] for i in range(given.chosen.shape[1])]
