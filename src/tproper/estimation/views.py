"""What a test of T sees of labels, whatever their kind: counts, likelihoods, labels drawn from T."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray, Labels
from ..transitions import CandidateSetTransition, StackedTransition, Transition, posterior_draws
from .hull import Block, one_hot_block

DRAWS = 1000  # draws of an estimated T, many more than it has entries
DRAWS_EACH = 200  # of each annotator's T, and of a T with many entries
Index = NDArray[np.int64]


class OneLabel:
    """Labels that are rows of T."""

    def __init__(self, T: FloatArray, index: Index, draws: FloatArray | None, names: Sequence[str]) -> None:
        self.T, self.index, self.draws, self.names = T, index, draws, list(names)
        self.n, self.num_classes, self.features = len(index), T.shape[1], len(T)

    def counts(self, rows: Index) -> FloatArray:
        """How often each label occurs."""
        return np.bincount(self.index[rows], minlength=len(self.T)).astype(np.float64)

    def block(self, rows: Index, reference: FloatArray | None = None) -> Block | None:
        """Label shares of some rows; `reference` class shares say which labels are rare."""
        return one_hot_block(self.counts(rows), self.T, reference)

    def shifts(self, blocks: Sequence[Block]) -> Callable[[list[FloatArray]], FloatArray] | None:
        """What draws of T do to the blocks' mean features; None where T is given."""
        draws = self.draws
        if draws is None:
            return None
        parts = [np.einsum("fm,smk->sfk", b.cells, draws) for b in blocks if b.cells is not None]
        return lambda priors: np.concatenate([d @ p for d, p in zip(parts, priors, strict=True)], axis=1)

    def labels(self, rows: Index) -> Index:
        """The labels of some rows."""
        return self.index[rows]

    def likelihood(self, labels: Index) -> FloatArray:
        """P(label | class) (m, K)."""
        return self.T[labels]

    def simulate(self, rows: Index, classes: Index, rng: np.random.Generator) -> Index:
        """Labels drawn for given classes."""
        return Transition(self.T).sample(classes, rng)


class SetLabel:
    """Candidate sets. Only the size of a set and its members matter; its features are ``1_S / |S|``."""

    draws = None

    def __init__(self, transition: CandidateSetTransition, masks: NDArray[np.bool_]) -> None:
        self.transition, self.masks = transition, masks
        self.n, self.num_classes = masks.shape
        K, size = self.num_classes, transition.size_probability
        self.features = K
        j = np.maximum(np.arange(K + 1), 1)
        other = (j - 1) / (K - 1)  # P(another class is in S | |S|)
        pair = other * (j - 2) / max(K - 2, 1) * (K > 2)
        own = float((size / j).sum())
        self.A = np.full((K, K), (1 - own) / (K - 1))
        np.fill_diagonal(self.A, own)
        self.inclusion = np.full((K, K), float((size * other).sum()))  # P(a in S | z)
        np.fill_diagonal(self.inclusion, 1.0)
        self.moments = [float((size * x / j**2).sum()) for x in (np.ones(K + 1), other, pair)]

    def block(self, rows: Index, reference: FloatArray | None = None) -> Block | None:
        """Mean of ``1_S / |S|`` over some rows."""
        masks = self.masks[rows]
        if len(rows) == 0:
            return None
        f = (masks / masks.sum(axis=1, keepdims=True)).mean(axis=0)
        return Block(f, self.A, len(rows), self.second)

    def second(self, pi: FloatArray) -> FloatArray:
        """E[phi phi^T] for class shares pi, by the size of S."""
        own, other, pair = self.moments
        both = pi[:, None] + pi
        out = both * other + (pi.sum() - both) * pair
        np.fill_diagonal(out, pi * own + (pi.sum() - pi) * other)
        return out

    def shifts(self, blocks: Sequence[Block]) -> None:
        """Families of candidate sets have no draws."""

    def labels(self, rows: Index) -> NDArray[np.bool_]:
        """The labels of some rows."""
        return self.masks[rows]

    def likelihood(self, labels: NDArray[np.bool_]) -> FloatArray:
        """P(S | class) up to a factor that depends on the size of S alone."""
        return labels.astype(np.float64)

    def simulate(self, rows: Index, classes: Index, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Sets drawn for given classes."""
        return self.transition.sample(classes, rng)


class SeveralAnswers:
    """Answers (n, m) of several annotators, -1 where there is none; independent given the class."""

    def __init__(self, transitions: Sequence[Transition], answers: Index) -> None:
        self.answers = answers
        self.n = len(answers)
        self.tables = [t.matrix() for t in transitions]
        self.each_draws = [posterior_draws(t, DRAWS_EACH, a) for a, t in enumerate(transitions)]
        self.draws = None if all(d is None for d in self.each_draws) else self.each_draws
        self.num_classes = self.tables[0].shape[1]
        self.features = max(map(len, self.tables))

    def one(self, a: int) -> tuple[OneLabel, Index]:
        """Annotator a's answers alone, and the rows that have one."""
        rows = np.flatnonzero(self.answers[:, a] >= 0)
        names = [f"answer {y}" for y in range(len(self.tables[a]))]
        return OneLabel(self.tables[a], self.answers[rows, a], self.each_draws[a], names), rows

    def pair(self, a: int, b: int) -> OneLabel | None:
        """The pairs of answers of annotators a and b: ``T[(i, j), z] = T_a[i, z] T_b[j, z]``."""
        rows = np.flatnonzero((self.answers[:, a] >= 0) & (self.answers[:, b] >= 0))
        if len(rows) == 0:
            return None
        index = self.answers[rows, a] * len(self.tables[b]) + self.answers[rows, b]
        names = [f"answers ({i}, {j})" for i in range(len(self.tables[a])) for j in range(len(self.tables[b]))]
        draws = None
        both = [(self.tables[i], self.each_draws[i]) for i in (a, b)]
        if any(d is not None for _, d in both):
            first, second = (T[None] if d is None else d for T, d in both)
            draws = (first[:, :, None] * second[:, None]).reshape(DRAWS_EACH, -1, self.num_classes)
        T = np.einsum("iz,jz->ijz", self.tables[a], self.tables[b]).reshape(-1, self.num_classes)
        return OneLabel(T, index, draws, names)

    def labels(self, rows: Index) -> Index:
        """The answers to some rows."""
        return self.answers[rows]

    def likelihood(self, labels: Index) -> FloatArray:
        """P(answers | class), scaled by a factor a row."""
        logs = self._who_said_what(labels) @ _logs(self.tables)
        return np.exp(logs - _top(logs))

    def likelihoods(self, labels: Index) -> Iterator[FloatArray]:
        """P(answers | class) under each draw of every T, scaled by the factors of `likelihood`."""
        said = self._who_said_what(labels)
        top = _top(said @ _logs(self.tables))
        for s in range(DRAWS_EACH):
            drawn = [T if d is None else d[s] for T, d in zip(self.tables, self.each_draws, strict=True)]
            yield np.exp(said @ _logs(drawn) - top)

    def _who_said_what(self, answers: Index) -> Any:
        """One row an example, one column for each answer of each annotator: times their logs it gives likelihoods."""
        from scipy.sparse import csr_array

        row, who = np.nonzero(answers >= 0)
        start = np.cumsum([0, *map(len, self.tables)])
        column = start[who] + answers[row, who]
        return csr_array((np.ones(len(row)), (row, column)), shape=(len(answers), start[-1]))

    def simulate(self, rows: Index, classes: Index, rng: np.random.Generator) -> Index:
        """Answers drawn for given classes, missing where they are."""
        answers = self.answers[rows].copy()
        for a, T in enumerate(self.tables):
            has = answers[:, a] >= 0
            if has.any():
                answers[has, a] = Transition(T).sample(classes[has], rng)
        return answers


def _logs(tables: Sequence[FloatArray]) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(np.concatenate(tables))


def _top(logs: FloatArray) -> FloatArray:
    top = logs.max(axis=1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


View = OneLabel | SetLabel | SeveralAnswers


def view_of(labels: Labels, transition: Any) -> View:
    """Labels checked and seen through their T."""
    if hasattr(transition, "transitions"):
        return SeveralAnswers(list(transition.transitions), _answers(labels, list(transition.transitions)))
    if not isinstance(transition, Transition):
        raise ValueError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
    if not isinstance(labels, torch.Tensor) and hasattr(labels, "to_numpy"):  # a pandas or polars column
        labels = labels.to_numpy()
    encoded = transition.encode(labels).cpu().numpy()
    if encoded.ndim != 1 + transition.per_class_labels:
        want = f"(n, {transition.num_classes}) candidate masks" if transition.per_class_labels else "(n,) labels"
        raise ValueError(f"labels: expected {want}, got shape {encoded.shape}")
    if isinstance(transition, CandidateSetTransition):
        return SetLabel(transition, encoded)
    T = transition.matrix()
    draws = posterior_draws(transition, DRAWS if T.size <= 2000 else DRAWS_EACH)
    if isinstance(transition, StackedTransition):  # the sources' shares are tested by themselves
        source = np.searchsorted(transition.offsets, np.arange(len(T)), side="right") - 1
        shares = np.bincount(source[encoded], minlength=len(transition.sources)) / len(encoded)
        scale = (shares / transition.weights)[source][:, None]
        T, draws = T * scale, None if draws is None else draws * scale
    names = [f"label {name}" for name in transition.weak_labels]
    return OneLabel(T, encoded, draws, names)


def _answers(labels: Labels, transitions: Sequence[Transition]) -> Index:
    try:
        table = np.asarray(labels.detach().cpu() if isinstance(labels, torch.Tensor) else labels)
    except ValueError:
        table = np.empty(0, dtype=object)
    if table.ndim != 2 or table.shape[1] != len(transitions) or table.dtype.kind not in "iu":
        raise ValueError(
            f"labels: expected integer answers (n, {len(transitions)}), one column an annotator, -1 = missing, "
            f"got dtype {table.dtype} and shape {table.shape}"
        )
    for a, t in enumerate(transitions):
        low, high = int(table[:, a].min(initial=0)), int(table[:, a].max(initial=0))
        if low < -1 or high >= t.num_weak_labels:
            wrong = low if low < -1 else high
            raise ValueError(
                f"labels: expected answers in [0, {t.num_weak_labels}), or -1, of annotator {a}, got {wrong}"
            )
    if len(table) == 0 or (table < 0).all():
        raise ValueError("labels: expected at least one answer, got none")
    return table.astype(np.int64)
