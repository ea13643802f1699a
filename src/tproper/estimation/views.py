"""What a test of T sees of labels, whatever their kind: counts, likelihoods, labels drawn from T."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray
from ..transitions import (
    Transition,
)
from .hull import Block, one_hot_block

DRAWS = 1000  # draws of an estimated T, many more than it has entries
DRAWS_EACH = 200  # of each annotator's T, and of a T with many entries
Index = NDArray[np.int64]


class OneLabel:
    """Labels that are rows of T."""

    def __init__(self, T: FloatArray, index: Index, draws: FloatArray | None, names: Sequence[str] = ()) -> None:
        self.T, self.index, self.draws, self.names = T, index, draws, list(names)
        self.n, self.num_classes, self.features = len(index), T.shape[1], len(T)

    def counts(self, rows: Index) -> FloatArray:
        """How often each label occurs."""
        return np.bincount(self.index[rows], minlength=len(self.T)).astype(np.float64)

    def block(self, rows: Index, reference: FloatArray | None = None) -> Block | None:
        """Label shares of some rows; `reference` class shares say which labels are rare."""
        return one_hot_block(self.counts(rows), self.T, reference)

    def shifts(self, blocks: Sequence[Block]) -> Callable[[list[FloatArray]], FloatArray] | None:
        """What draws of T do to the blocks' mean features; None where T is known."""
        draws = self.draws
        if draws is None:
            return None
        parts = [b.cells @ draws for b in blocks if b.cells is not None]
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
    """Candidate sets. Only the size of a set and its members matter; its features are ``1_S / |S|``.

    `draws` (S, K + 1) are those of the sizes' probabilities where p was estimated.
    """

    def __init__(self, transition: Transition, masks: NDArray[np.bool_]) -> None:
        self.transition, self.masks = transition, masks
        self.n, self.num_classes = masks.shape
        K, size = self.num_classes, transition.size_probability
        assert size is not None
        self.size_probability, self.sizes = size, np.bincount(masks.sum(axis=1), minlength=K + 1)
        self.features, self.names = K, [f"class {z} as a candidate" for z in range(K)]
        self.draws = None if transition.posterior is None else transition.posterior.size_draws(DRAWS)
        j = np.maximum(np.arange(K + 1), 1)
        other = (j - 1) / (K - 1)  # P(another class is in S | |S|)
        pair = other * (j - 2) / max(K - 2, 1) * (K > 2)
        own = float((size / j).sum())
        self.A = np.full((K, K), (1 - own) / (K - 1))
        np.fill_diagonal(self.A, own)
        self.T = np.full((K, K), float((size * other).sum()))  # P(a in S | z)
        np.fill_diagonal(self.T, 1.0)
        self.moments = [float((size * x / j**2).sum()) for x in (np.ones(K + 1), other, pair)]

    def counts(self, rows: Index) -> FloatArray:
        """How often each class is a candidate."""
        return self.masks[rows].sum(axis=0).astype(np.float64)

    def block(self, rows: Index, reference: FloatArray | None = None) -> Block | None:
        """Mean of ``1_S / |S|`` over some rows."""
        masks = self.masks[rows]
        f = (masks / masks.sum(axis=1, keepdims=True)).mean(axis=0)
        return Block(f, self.A, len(rows), self.second)

    def second(self, pi: FloatArray) -> FloatArray:
        """E[phi phi^T] for class shares pi, by the size of S."""
        own, other, pair = self.moments
        both = pi[:, None] + pi
        out = both * other + (pi.sum() - both) * pair
        np.fill_diagonal(out, pi * own + (pi.sum() - pi) * other)
        return out

    def shifts(self, blocks: Sequence[Block]) -> Callable[[list[FloatArray]], FloatArray] | None:
        """What draws of p do to the blocks' mean features, ``A pi``; None where p is known."""
        if self.draws is None:
            return None
        K = self.num_classes
        own = (self.draws / np.maximum(np.arange(K + 1), 1)).sum(axis=1, keepdims=True)
        other = (1 - own) / (K - 1)
        return lambda priors: np.concatenate([other * pi.sum() + (own - other) * pi for pi in priors], axis=1)

    def labels(self, rows: Index) -> NDArray[np.bool_]:
        """The labels of some rows."""
        return self.masks[rows]

    def likelihood(self, labels: NDArray[np.bool_]) -> FloatArray:
        """P(S | class) up to a factor that depends on the size of S alone."""
        return labels.astype(np.float64)

    def simulate(self, rows: Index, classes: Index, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Sets drawn for given classes."""
        return self.transition.sample(classes, rng)


def log_likelihood(tables: Sequence[FloatArray], answers: Index) -> FloatArray:
    """``sum_a log T_a[y_a, z]`` (..., n, K) over the annotators who answered, for tables (..., M_a, K)."""
    logs = _logs(tables)
    each = _one_hot_answers(tables, answers)
    if logs.ndim == 2:
        return each @ logs
    flat = np.stack([each @ one for one in logs.reshape(-1, *logs.shape[-2:])])
    return flat.reshape(*logs.shape[:-2], *flat.shape[1:])


class SeveralAnswers:
    """Answers (n, m) of several annotators, -1 where there is none; independent given the class."""

    def __init__(self, transitions: Sequence[Transition], answers: Index) -> None:
        self.answers, self.has = answers, answers >= 0
        self.n = len(answers)
        self.tables = [t.matrix() for t in transitions]
        self.each_draws = [t.draws_of_posterior(DRAWS_EACH, a) for a, t in enumerate(transitions)]
        self.draws = None if all(d is None for d in self.each_draws) else self.each_draws
        self.num_classes = self.tables[0].shape[1]
        self.features = max(map(len, self.tables))

    def busiest(self, most: int) -> list[int]:
        """The annotators with the most answers."""
        return np.argsort(-self.has.sum(axis=0), kind="stable")[:most].tolist()

    def one(self, a: int) -> tuple[OneLabel, Index]:
        """Annotator a's answers alone, and the rows that have one."""
        rows = np.flatnonzero(self.has[:, a])
        names = [f"answer {y}" for y in range(len(self.tables[a]))]
        return OneLabel(self.tables[a], self.answers[rows, a], self.each_draws[a], names), rows

    def pair(self, a: int, b: int) -> OneLabel:
        """The pairs of answers of annotators a and b: ``T[(i, j), z] = T_a[i, z] T_b[j, z]``."""
        rows = np.flatnonzero(self.has[:, a] & self.has[:, b])
        index = self.answers[rows, a] * len(self.tables[b]) + self.answers[rows, b]
        draws = None
        both = [(self.tables[i], self.each_draws[i]) for i in (a, b)]
        if any(d is not None for _, d in both):
            first, second = (T[None] if d is None else d for T, d in both)
            draws = (first[:, :, None] * second[:, None]).reshape(DRAWS_EACH, -1, self.num_classes)
        T = np.einsum("iz,jz->ijz", self.tables[a], self.tables[b]).reshape(-1, self.num_classes)
        return OneLabel(T, index, draws)

    def labels(self, rows: Index) -> Index:
        """The answers to some rows."""
        return self.answers[rows]

    def likelihood(self, labels: Index) -> FloatArray:
        """P(answers | class), scaled by one factor per row."""
        logs = log_likelihood(self.tables, labels)
        return np.exp(logs - _top(logs))

    def likelihoods(self, labels: Index) -> Iterator[FloatArray]:
        """P(answers | class) under each draw of every T, scaled by the factors of `likelihood`."""
        each = _one_hot_answers(self.tables, labels)
        top = _top(each @ _logs(self.tables))
        for s in range(DRAWS_EACH):
            drawn = [T if d is None else d[s] for T, d in zip(self.tables, self.each_draws, strict=True)]
            yield np.exp(each @ _logs(drawn) - top)

    def simulate(self, rows: Index, classes: Index, rng: np.random.Generator) -> Index:
        """Answers drawn for given classes, missing where they are."""
        answers = self.answers[rows].copy()
        for a, T in enumerate(self.tables):
            has = answers[:, a] >= 0
            if has.any():
                answers[has, a] = Transition(T).sample(classes[has], rng)
        return answers


def _one_hot_answers(tables: Sequence[FloatArray], answers: Index) -> Any:
    """One row per example, one column for each answer of each annotator: times their logs it gives likelihoods."""
    from scipy.sparse import csr_array

    row, who = np.nonzero(answers >= 0)
    start = np.cumsum([0, *(T.shape[-2] for T in tables)])
    column = start[who] + answers[row, who]
    return csr_array((np.ones(len(row)), (row, column)), shape=(len(answers), start[-1]))


def _logs(tables: Sequence[FloatArray]) -> FloatArray:
    """The logarithms of all tables, one below the other."""
    lead = np.broadcast_shapes(*(T.shape[:-2] for T in tables))
    with np.errstate(divide="ignore"):
        return np.log(np.concatenate([np.broadcast_to(T, (*lead, *T.shape[-2:])) for T in tables], axis=-2))


def _top(logs: FloatArray) -> FloatArray:
    top = logs.max(axis=1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


View = OneLabel | SetLabel | SeveralAnswers


def view_of(y: NDArray[Any], transition: Transition, names: Sequence[Any] | None = None) -> View:
    """Encoded labels, which may have names, seen through their T."""
    if transition.separate:
        return SeveralAnswers(transition.separate, y)
    if transition.size_probability is not None:
        return SetLabel(transition, y)
    y = transition.row_index(torch.as_tensor(y)).numpy()
    T = transition.matrix()
    draws = transition.draws_of_posterior(DRAWS if T.size <= 2000 else DRAWS_EACH)
    ends, weights = transition.source_rows
    if len(weights) > 1:  # the sources' shares are tested by themselves
        source = np.searchsorted(ends, np.arange(len(T)), side="right") - 1
        shares = np.bincount(source[y], minlength=len(weights)) / len(y)
        scale = (shares / weights)[source][:, None]
        T, draws = T * scale, None if draws is None else draws * scale
    return OneLabel(T, y, draws, [f"label {name}" for name in (transition.weak_labels if names is None else names)])
