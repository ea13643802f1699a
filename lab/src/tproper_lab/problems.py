"""Weak-label problems: which labels a trial learns from, and what it is told about them.

A `Problem` is plain data, and part of a trial's identity: T as text, the digest of a file of labels. A `Task` is the
problem on a data set: T as an object, and the weak labels of every training image, drawn from a trial's seed or given.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tproper.errors import InputError
from tproper.extension import json_text
from tproper.losses import ForwardLoss
from tproper.transitions import Transition, complementary, make_transition, transition_to_dict

from .datasets import Dataset

#: Two classes out of ten, positive first, for problems with two: even digits; vehicles.
TWO_CLASSES = {"mnist": "0+2+4+6+8|1+3+5+7+9", "digits": "0+2+4+6+8|1+3+5+7+9", "cifar10": "0+1+8+9|2+3+4+5+6+7"}
#: How methods come to know T.
SOURCES = ("known", "wrong", "given", "estimated")


@dataclass(frozen=True)
class Problem:
    """Weak labels and the T that methods are told. A T is text (``symmetric:0.3``) or JSON."""

    name: str  # as a reader calls it
    labels: str = ""  # the T that labels are drawn from; empty where they come from a file
    digest: str = ""  # SHA-256 of the labels of a file; empty where they are drawn
    told: str = ""  # the T that methods are told; empty where it is the one that labels are drawn from
    source: str = "known"  # how methods come to know it: one of `SOURCES`
    merged: str = ""  # the data set's classes in groups that are the classes here, 0+1|2+3; empty: as they are

    def __post_init__(self) -> None:
        if bool(self.labels) == bool(self.digest):
            raise InputError("problem: expected either a T to draw labels from or the digest of given labels")
        if self.digest and not self.told:
            raise InputError("problem: expected the T that given labels are taken to follow, got none")
        if self.source not in SOURCES:
            raise InputError(f"problem: expected source to be one of {', '.join(SOURCES)}, got {self.source!r}")
        if (self.source == "known") != (not self.told):
            raise InputError(
                f"problem: expected a T for the methods unless its source is 'known', got source {self.source!r} "
                f"{'with' if self.told else 'without'} one"
            )


@dataclass(frozen=True, eq=False)
class Task:
    """A problem on a data set: its images with their classes, T as methods are told it, and the labels."""

    data: Dataset
    told: Transition
    truth: Transition | None = None  # what labels are drawn from
    given: np.ndarray | None = None  # labels from a file, in the data set's order

    def weak_labels(self, seed: int) -> np.ndarray:
        """A weak label for every training image: drawn by the seed, on the CPU, or those of the file."""
        if self.given is not None:
            return self.given
        assert self.truth is not None
        # the stream of stored records; the data set's classes are not drawn, so it shares its numbers with nothing
        return np.asarray(self.truth.sample(self.data.train_labels, np.random.default_rng(seed)))


@lru_cache(maxsize=8)
def papers_task(data: Dataset) -> Task:
    """The paper's: one uniform complementary label per image, T known; the same object for the same data set."""
    transition = complementary(data.num_classes)
    return Task(data, transition, transition)


def resolve(problem: Problem, data: Dataset, given: Mapping[str, np.ndarray] | None = None) -> Task:
    """The task of a problem on a data set; `given` has the labels of files by their digest."""
    data = merge_classes(data, problem.merged)
    truth = text_transition(problem.labels, data.num_classes) if problem.labels else None
    told = text_transition(problem.told, data.num_classes) if problem.told else truth
    assert told is not None
    labels = None
    if problem.digest:
        if problem.digest not in (given or {}):
            raise InputError(
                f"labels: expected the file of the problem {problem.name} (SHA-256 {problem.digest}), got none"
            )
        labels = checked_labels((given or {})[problem.digest], told, data)
    elif truth is not None and truth is not told:
        _check_told(truth, told)
    return Task(data, told, truth, labels)


def _check_told(truth: Transition, told: Transition) -> None:
    """Labels that are drawn from one T must exist, and be possible, under the T that methods are told."""
    if truth.label_shape != told.label_shape:
        raise InputError(f"problem: expected a T with labels like those of {truth.name}, got {told.name}")
    if truth.label_shape:
        return  # too many to list; `encode` names the first that is impossible
    drawn, known = ~np.isneginf(truth.log_row_maxima()), ~np.isneginf(told.log_row_maxima())
    for label in np.flatnonzero(drawn):
        if label >= len(known) or not known[label]:
            raise InputError(
                f"problem: expected a T that allows every label drawn from {truth.name}, got {told.name}, under which "
                f"label {label} is impossible"
            )


def impossible_share(task: Task) -> float:
    """The share of given labels that have probability 0 under the T that methods are told, given the true classes."""
    if task.given is None:
        return 0.0
    certain = torch.eye(task.data.num_classes, dtype=torch.float64).log()[torch.as_tensor(task.data.train_labels)]
    losses = ForwardLoss(task.told, reduction="none")(certain, torch.as_tensor(task.given))  # inf where impossible
    return float(losses.isinf().double().mean())


def shortened(text: str, length: int = 40) -> str:
    """The text, cut to `length` characters with dots at the end."""
    return text if len(text) <= length else text[: length - 3] + "..."


def merge_classes(data: Dataset, groups: str) -> Dataset:
    """The data set with its classes merged into those groups, in their order."""
    if not groups:
        return data
    try:
        transition = make_transition(f"coarse:{groups}", data.num_classes)
    except ValueError as error:
        raise InputError(
            f"merged: expected groups of all {data.num_classes} classes of {data.name}, each class once, as in "
            f"{TWO_CLASSES.get(data.name, '0+1|2+3')!r}, got {groups!r}"
        ) from error
    kept = transition.matrix().argmax(axis=0)  # class -> group
    return replace(
        data,
        train_labels=kept[data.train_labels],
        test_labels=kept[data.test_labels],
        num_classes=transition.num_weak_labels,
    )


def text_transition(text: str, num_classes: int) -> Transition:
    """The T that a problem's text stands for: a specification, or JSON."""
    return make_transition(json.loads(text) if text.startswith("{") else text, num_classes)


def transition_text(transition: Transition) -> str:
    """T as JSON, exact; of an estimate the matrix alone, which is all that training uses."""
    plain = transition_to_dict(transition)
    if plain["family"] == "estimated":
        plain = plain | {"family": "matrix"}
        for name in ("notes", "concentration", "draws", "counts"):
            del plain[name]
    return json_text(plain, sort_keys=True)


def drawn_problem(
    spec: str, data: Dataset, told: str | Transition | None = None, source: str = "wrong", merged: str = ""
) -> Problem:
    """Labels drawn from `spec` (``complementary``, ``partial:0.3``, ``T.csv``, ...), on a data set.

    On a T of two classes the data set's classes are merged into two (`TWO_CLASSES`), unless `merged` says how. `told`
    is what methods are told in its place.
    """
    classes = merge_classes(data, merged).num_classes if merged else None
    try:
        transition = make_transition(spec, classes)
    except ValueError:
        transition = make_transition(spec, classes or data.num_classes)
    if not merged and transition.num_classes == 2 < data.num_classes:
        if data.num_classes != 10 or data.name not in TWO_CLASSES:
            raise InputError(f"merged: expected two groups of the {data.num_classes} classes of {data.name}, got none")
        merged = TWO_CLASSES[data.name]
    wanted = merge_classes(data, merged).num_classes
    make_transition(transition, wanted)  # refuses another number of classes
    text = transition_text(transition) if _is_file(spec) else spec
    if told is None:
        return Problem(spec, text, merged=merged)
    other = f"{told}, {source}" if isinstance(told, str) else source
    return Problem(f"{spec} (T told: {other})", text, told=_told(told, wanted), source=source, merged=merged)


def given_problem(
    name: str, labels: np.ndarray, told: str | Transition, data: Dataset, source: str = "given", merged: str = ""
) -> Problem:
    """Labels from a file, and the T that they are taken to follow."""
    wanted = merge_classes(data, merged)
    text = _told(told, wanted.num_classes)
    digest = labels_digest(checked_labels(labels, text_transition(text, wanted.num_classes), wanted))
    return Problem(name, digest=digest, told=text, source=source, merged=merged)


def _told(told: str | Transition, num_classes: int) -> str:
    transition = make_transition(told, num_classes)
    return transition_text(transition) if not isinstance(told, str) or _is_file(told) else told


def _is_file(spec: str) -> bool:
    return Path(spec).suffix.lower() in (".csv", ".npy", ".json")


def read_labels(path: str | Path) -> np.ndarray:
    """Weak labels, one row per image: ``.npy``, or ``.csv`` of whole numbers without header and index."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in (".npy", ".csv"):
        raise InputError(f"labels: expected a .npy or .csv file, got {path}")
    try:
        if suffix == ".npy":  # mapped first: the header's size is compared with the file's, nothing is allocated
            return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
        return _read_csv(path)
    except OSError as error:
        raise InputError(f"labels: cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"labels: expected {path} in UTF-8, got other bytes") from None
    except (ValueError, EOFError, OverflowError) as error:
        raise InputError(f"labels: {path} is not a table of labels: {error}") from None


def _read_csv(path: Path) -> np.ndarray:
    """Whole numbers, the same number of them in every line; a line that holds anything else is named."""
    rows: list[list[int]] = []
    for number, line in enumerate(path.read_text(encoding="utf-8-sig").splitlines(), start=1):
        try:
            rows.append([int(cell) for cell in line.split(",")])
        except ValueError:
            got = shortened(repr(line)) + ("; write it without header and index" if number == 1 else "")
            raise InputError(f"expected whole numbers in line {number}, got {got}") from None
        if len(rows[-1]) != len(rows[0]):
            raise InputError(f"expected {len(rows[0])} numbers in line {number}, as in the first, got {len(rows[-1])}")
    table = np.array(rows, dtype=np.int64)
    return table[:, 0] if table.ndim == 2 and table.shape[1] == 1 else table


def checked_labels(labels: Any, told: Transition, data: Dataset) -> np.ndarray:
    """Labels (n,), answers (n, m) or masks (n, K) of all training images, as the transition takes them."""
    array = np.asarray(labels)
    if told.vacuous is not None and array.dtype != bool and np.isin(array, (0, 1)).all():
        array = array.astype(bool)
    n = len(data.train_labels)
    if array.ndim == 0 or len(array) != n:
        got = "one number" if array.ndim == 0 else f"{len(array)} rows"
        raise InputError(f"labels: expected one row for each of the {n} training images of {data.name}, got {got}")
    encoded = told.encode(array).numpy()
    if encoded.shape != (n, *told.label_shape):
        raise InputError(
            f"labels: expected shape {(n, *told.label_shape)} for the transition {told.name}, got {array.shape}"
        )
    if not told.label_shape:
        impossible = np.isneginf(told.log_row_maxima())[encoded]
        if impossible.any():
            row = int(impossible.argmax())
            raise InputError(f"labels: expected labels that T allows, got {encoded[row]} at row {row}, whose row is 0")
    return encoded


def labels_digest(labels: np.ndarray) -> str:
    """SHA-256 of labels, the same however they were stored."""
    plain = np.ascontiguousarray(labels, dtype=np.int64)
    return hashlib.sha256(json.dumps(plain.shape).encode() + plain.astype("<i8").tobytes()).hexdigest()
