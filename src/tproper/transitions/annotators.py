"""Several annotators: each example has up to m answers, independent of each other given its class.

A weak label is the row of answers ``(y_1, ..., y_m)``, -1 where an annotator gave none, and

    T[(y_1, ..., y_m), z] = prod over the annotators a who answered of T_a[y_a, z].

There are prod M_a such labels, far too many to list; beyond 4,096 nothing here does. Logarithms of a label's row of T
are sums of rows of the ``log T_a``; its target is a mixture of the answers' own targets; the Gram matrix ``T^T T`` is
the entry-wise product of the annotators' Gram matrices. Which answers are missing must not depend on the class.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, NotReconstructibleError, checks, count_text, look_up, tracing
from ..errors import InputError
from .base import Transition, read_transitions
from .dense import ENUMERATION_LIMIT, DenseReconstruction, dense_guard
from .diagnosis import Diagnosis, diagnose_matrix
from .evidence import Dense, DenseRows, Kinds, Needs, Rows, Silenced, Tables, Targets
from .inverses import left_inverse
from .posterior import drawn_parts
from .reconstruction import CONDITION_LIMIT, Reconstruction
from .soft import SoftLabels

MOST_LABELS = 1 << ENUMERATION_LIMIT  # rows of answers are listed one by one up to this many
LEAST_VARIANCE = 1e-9  # of a target; otherwise an annotator who is never wrong would silence all others
GRAM_TOL = 1e-13  # eigenvalues of a Gram matrix of unit vectors: below it they are rounding
MISSING = -1
NO_ANSWER = "give -1 where there is no answer"
BLOCK = 1 << 17  # entries looked up at a time: they stay in the cache
SPARSE = 0.2  # of the answers given, below which only these are looked up
DEPENDENT = (
    "answers depend on each other given the class (rho = {:.2f}): where annotators err together the score errs with "
    "them, and the interval does not allow for it"
)


MADE_OF_FEATURES = (
    "rules see what the model sees, and a model foretells their errors too; give the class of some rows (true=), or "
    "see weak_accuracy, which has bounds"
)


class AnnotatorTransition(Transition):
    """T of several answers per example, given the T of each annotator. Labels are (..., m) integers, -1 = no answer.

    `matrix()` and `weak_labels` list the complete rows of answers, the last annotator's changing fastest, where there
    are at most 4,096 of them. `rho`: how much answers depend on each other given the class, where that was estimated.
    `silence`: the answer that -1 stands for where an annotator's silence is one (rules that abstain), -1 where it says
    nothing. `unidentified` says why an estimate of T does not tell the classes apart; empty where it does.
    """

    _label_kind = "answers"

    def __init__(
        self,
        transitions: Sequence[Transition],
        rho: float = 0.0,
        unidentified: str = "",
        silence: Sequence[int] | None = None,
    ) -> None:
        self.transitions, self.rho, self.unidentified = list(transitions), rho, unidentified
        self.caution = f"not informative: {unidentified}" if unidentified else DEPENDENT.format(rho) if rho > 0 else ""
        self.silence = np.array([-1] * len(self.transitions) if silence is None else silence, dtype=np.int64)  # (m,)
        self.of_features = bool((self.silence >= 0).any())
        if self.of_features and not unidentified:
            self.caution = f"not informative: {MADE_OF_FEATURES}"
        self.num_classes = self.transitions[0].num_classes
        self.sizes = [t.num_weak_labels for t in self.transitions]
        self.offsets = np.cumsum([0, *self.sizes])
        dense_guard(int(self.offsets[-1]), self.num_classes, "annotators")
        self.num_weak_labels = math.prod(self.sizes)
        self.name = f"annotators({len(self.transitions)})"
        self._weak_labels = None
        self._classes = common_names(self.transitions, "transitions")

    @property
    def label_shape(self) -> tuple[int, ...]:
        """One answer from each annotator."""
        return (len(self.transitions),)

    @property
    def separate(self) -> Sequence[Transition]:
        """T of each annotator."""
        return self.transitions

    def draws_of_posterior(self, count: int, seed: int | np.random.SeedSequence = 0) -> FloatArray | None:
        """Products of draws, for the complete rows of answers, which must be few enough to be listed."""
        parts = drawn_parts(self.transitions, count, seed)
        if parts is None:
            return None
        rows = np.array(self.weak_labels)
        return np.asarray(np.prod([T[:, rows[:, a]] for a, T in enumerate(parts)], axis=0), dtype=np.float64)

    def _given_inverse(self, matrix: ArrayLike) -> Reconstruction:
        """Of complete rows of answers."""
        return CompleteReconstruction(matrix, self)

    @property
    def share_shape(self) -> tuple[int, ...]:
        """A row for each annotator, as long as the longest."""
        return (len(self.sizes), max(self.sizes))

    def _spoken(self, shares: Tensor) -> Tensor:
        """Shares (..., m, M) of answers, checked; silence that is an answer is a share of one."""
        out = shares.clone()
        for a, size in enumerate(self.sizes):
            if tracing.readable(out) and bool((out[..., a, size:] > 0).any()):
                raise InputError(f"labels: expected shares of {size} labels from annotator {a}, got some of others")
            if self.silence[a] >= 0:
                row = out.new_zeros(out.shape[-1])
                row[int(self.silence[a])] = 1.0
                out[..., a, :] = torch.where(out[..., a, :].isnan(), row, out[..., a, :])
        return out

    @property
    def listed(self) -> bool:
        """Whether the complete rows of answers are few enough to be listed."""
        return self.num_weak_labels <= MOST_LABELS

    @property
    def weak_labels(self) -> list[Any]:
        """The complete rows of answers, as tuples, in the order of the rows of `matrix()`."""
        if not self.listed:
            raise InputError(
                f"{self.name}: complete rows of answers are listed up to {MOST_LABELS} of them, got "
                f"{count_text(self.num_weak_labels)}; targets, samples, losses and certificates need no list"
            )
        return list(product(*(range(size) for size in self.sizes)))

    def matrix(self) -> FloatArray:
        """T of the complete rows of answers (at most 4,096)."""
        return self.evidence(self.encode(self.weak_labels)).logs(torch.float64).exp().numpy()

    def row_index(self, labels: Tensor) -> Tensor:
        """The row of `matrix()` that belongs to each complete row of answers."""
        if not self.listed:
            raise InputError(f"{self.name}: {count_text(self.num_weak_labels)} rows of answers have no numbers")
        if tracing.readable(labels) and bool((labels < 0).any()):
            row = int((labels < 0).any(-1).reshape(-1).nonzero()[0])
            raise InputError(f"labels: expected an answer from every annotator, got a missing one at row {row}")
        steps = np.cumprod([1, *self.sizes[:0:-1]])[::-1].copy()
        return (labels * torch.as_tensor(steps, device=labels.device)).sum(-1)

    def encode(self, labels: Labels, device: torch.device | None = None, validate: bool = True) -> Tensor:
        """Answers (..., m) as int64, checked; -1 where there is none."""
        if isinstance(labels, SoftLabels):
            return self._spoken(labels.of(self, device))
        m = len(self.sizes)
        most = max(self.sizes)
        out = checks.index_labels(labels, most, device=device, validate=False, instead=NO_ANSWER)
        if out.ndim == 0 or out.shape[-1] != m:
            raise InputError(f"labels: expected the answers of {m} annotators (n, {m}), got shape {tuple(out.shape)}")
        if validate and tracing.readable(out):
            limit = torch.as_tensor(self.sizes, device=out.device)
            wrong = (out < MISSING) | (out >= limit)
            if bool(wrong.any()):
                *_, a = place = tuple(int(i) for i in wrong.nonzero()[0])
                raise InputError(
                    f"labels: expected answers in [0, {self.sizes[a]}), or -1 for none, from annotator {a}, "
                    f"got {int(out[place])} at row {place[0]}"
                )
        if self.of_features:
            out = torch.where(out == MISSING, kept_on(self, "silence", out.device), out)
        return out

    def draw(self, classes: NDArray[np.int64], rng: np.random.Generator) -> NDArray[Any]:
        """An answer from every annotator: set those that are missing to -1."""
        return np.stack([t.draw(classes, rng) for t in self.transitions], axis=-1)

    def diagnose(self) -> Diagnosis:
        """Of the complete rows of answers; beyond 4,096 of them, of T with columns scaled to length one.

        By ``T^T T = prod_a T_a^T T_a``, entry by entry. Two classes have disjoint supports if they do for some
        annotator.
        """
        if self.listed:
            return diagnose_matrix(self.matrix(), self.name, None)
        K, overlap = self.num_classes, ~np.eye(self.num_classes, dtype=bool)
        for t in self.transitions:
            support = (t.matrix() > 0).astype(np.float64)
            overlap &= support.T @ support > 0
        values, vectors = np.linalg.eigh(self._cosines())
        rank = int((values > GRAM_TOL * values[-1]).sum())
        smallest = math.sqrt(max(float(values[0]), 0.0))
        return Diagnosis(
            name=self.name,
            num_classes=K,
            num_weak_labels=self.num_weak_labels,
            rank=rank,
            smallest_singular_value=smallest,
            condition_number=math.sqrt(values[-1]) / smallest if rank == K else math.inf,
            disjoint_supports=not overlap.any(),
            ambiguity_degree=None,
            _kernel=lambda: vectors[:, : K - rank],
        )

    def _cosines(self) -> FloatArray:
        """Cosines of the angles between T's columns: products of the annotators' own."""
        out = np.ones((self.num_classes, self.num_classes))
        for t in self.transitions:
            T = t.matrix()
            T /= np.linalg.norm(T, axis=0)
            out *= T.T @ T
        return out

    def left_inverse(self, method: str, prior: FloatArray | None) -> Reconstruction:
        """The best mixture of the annotators' own R; for "tightest", or where none has one, R of the whole T."""
        usable = [_invertible(t) for t in self.transitions]
        if any(usable) and method != "tightest":
            return AnswerReconstruction(self, method, prior, usable)
        if not self.listed:
            raise NotReconstructibleError(
                f"transition: expected an annotator whose own T can be inverted (or at most {MOST_LABELS} different "
                f"rows of answers, for 'tightest' too), got {count_text(self.num_weak_labels)} rows of answers; "
                "use 'auto', or ForwardLoss"
            )
        return CompleteReconstruction(left_inverse(self.matrix(), method, prior), self, method)

    def signature(self) -> FloatArray:
        """Of the annotators one after the other, and the answers that silence stands for."""
        parts = [np.append(t.signature(), t.num_weak_labels) for t in self.transitions]
        return np.concatenate([*parts, self.silence + 2.0])

    def tables(self, needs: Needs = "label") -> dict[str, FloatArray]:
        """log T of all annotators, one under the other, and a row of zeros for a missing answer."""
        with np.errstate(divide="ignore"):
            blocks = [np.log(t.matrix()) for t in self.transitions]
        return self._with_whole({"log_T": np.concatenate([*blocks, np.zeros((1, self.num_classes))])}, needs)

    def gram(self) -> FloatArray:
        """The product of the annotators' own, entry by entry."""
        return np.asarray(np.prod([t.gram() for t in self.transitions], axis=0), dtype=np.float64)

    def speaks(self, labels: Tensor) -> Tensor:
        """Whether somebody gave an answer other than silence (n,)."""
        return ((labels >= 0) & (labels != kept_on(self, "silence", labels.device))).any(-1)

    def log_row_maxima(self) -> FloatArray:
        """``log max_z T_yz`` of every complete row of answers; of every single answer where these cannot be listed."""
        with np.errstate(divide="ignore"):
            if self.listed:
                return np.log(self.matrix().max(axis=1))
            return np.log(np.concatenate([t.matrix().max(axis=1) for t in self.transitions]))

    def place(self, labels: Tensor) -> Tensor | None:
        """None: answers may be missing."""
        return None

    def answer_rows(self, labels: Tensor) -> Tensor:
        """Where each answer stands in the stacked tables; a missing one in their last row."""
        offsets = kept_on(self, "offsets", labels.device)
        return torch.where(labels < 0, offsets[-1], labels + offsets[:-1])

    def rows(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Rows:
        """``sum_a log T_a[y_a]`` (..., K): 0 for a row without answers."""
        return DenseRows(self.sum_answers(labels, tables["log_T"].to(dtype))[0])

    def sum_answers(self, labels: Tensor, *stacked: Tensor) -> list[Tensor]:
        """Of each of some tables, with a row for every answer and zeros for a missing one, the sum over the answers
        given (..., K). Where most are missing only the others are looked at."""
        if tracing.at_hand(labels):
            flat = labels.reshape(-1, labels.shape[-1])
            given = flat >= 0
            if int(given.sum()) < SPARSE * flat.numel():
                row, annotator = given.nonzero(as_tuple=True)
                answer = torch.as_tensor(self.offsets)[annotator] + flat[row, annotator]
                sums = [t.new_zeros(len(flat), t.shape[1]).index_add(0, row, look_up(t, answer)) for t in stacked]
                return [s.reshape(*labels.shape[:-1], s.shape[1]) for s in sums]
        rows = self.answer_rows(labels)
        return [sum_rows(t, rows) for t in stacked]


class AnswerReconstruction(Reconstruction):
    """R of several annotators: ``r = 1/K + sum_a w_a (R_a e_{y_a} - 1/K) / sum_a w_a`` over those who answered.

    Given the class the answers' own targets are independent, each with the class's one-hot vector as its mean, so every
    such mixture is unbiased whatever answers are missing, and weights ``w_a = 1 / V_a`` have the smallest variance,
    ``V_a = E ||R_a e_y - e_z||^2 = E ||R_a e_y||^2 - 1`` for the prior. Annotators whose own T cannot be inverted have
    weight 0 (`left_out`); a row without a usable answer is silent: its target is 1/K, its loss 0.

    Where T was estimated, mostly from these very answers, the weights are ``1 / sqrt(V_a)``. An annotator who was right
    more often than the shrunk T_a says was lucky on them: with signal t_a (``R_a`` about ``1 / t_a``), luck
    ``s_a - t_a`` and weights w_a, the targets are too large by ``sum_a w_a (s_a - t_a) / t_a``. Shrinkage towards
    the mean leaves ``sum_a (s_a - t_a)`` at 0: weights like t_a, that is 1 / sqrt(V_a), keep it there, while
    1 / V_a, like t_a^2, would trust the lucky ones most.
    """

    transition: AnnotatorTransition

    def __init__(
        self, transition: AnnotatorTransition, method: str, prior: FloatArray | None, usable: Sequence[bool]
    ) -> None:
        self.transition, self.method, self.prior = transition, method, prior
        K = transition.num_classes
        p = np.full(K, 1.0 / K) if prior is None else prior
        self.left_out = [a for a, ok in enumerate(usable) if not ok]
        self.weights = np.zeros(len(usable))
        self.residual = 0.0
        blocks = []
        for a, t in enumerate(transition.transitions):
            if not usable[a]:
                blocks.append(np.full((t.num_weak_labels, K), 1.0 / K))
                continue
            wide = "min_variance" if method == "inverse" else method
            own = t.left_inverse("inverse" if t.num_weak_labels == K else wide, prior)
            R = own.matrix()
            blocks.append(R.T)
            self.residual = max(self.residual, own.residual)
            variance = float((R**2).sum(axis=0) @ (t.matrix() @ p)) - 1.0
            self.weights[a] = 1.0 / max(variance, LEAST_VARIANCE)
        if any(t.posterior is not None for t in transition.transitions):
            self.weights = np.sqrt(self.weights)
        self.weights /= self.weights.max()
        self._columns = np.concatenate(blocks)  # (sum of M_a, K): the target of each answer alone

    def __repr__(self) -> str:
        out = f"; no R of their own: annotators {self.left_out}" if self.left_out else ""
        return f"<reconstruction (mixture) of {self.transition.name}, max |R T - I| = {self.residual:.2g}{out}>"

    def tables(self) -> dict[str, FloatArray]:
        """Each answer's weighted and centred target, and its weight; zeros for a missing answer."""
        weight = np.append(np.repeat(self.weights, self.transition.sizes), 0.0)
        centred = np.concatenate([self._columns - 1.0 / self.transition.num_classes, np.zeros_like(self._columns[:1])])
        return {"answer_targets": weight[:, None] * centred, "answer_weight": weight[:, None]}

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """The mixtures."""
        weight, weighted = tables["answer_weight"].to(dtype), tables["answer_targets"].to(dtype)
        total, mixed = self.transition.sum_answers(labels, weight, weighted)
        mixtures = mixed / torch.where(total > 0, total, 1.0) + 1.0 / self.transition.num_classes
        return Silenced(Dense(mixtures), self.silent(labels))

    def own(self, annotator: int) -> FloatArray:
        """R_a (K, M_a) of one annotator."""
        return self._columns[self.transition.offsets[annotator] : self.transition.offsets[annotator + 1]].T

    def to_plain(self) -> Any:
        """The method, and the prior that it is best for."""
        return self.method if self.prior is None else {"method": self.method, "prior": self.prior.tolist()}

    def shares(self, labels: Tensor | None) -> FloatArray | None:
        """How much each annotator counts in the targets of these rows, on average; they sum to one."""
        if labels is None:  # all have answered
            return np.asarray(self.weights / self.weights.sum())
        weight = torch.as_tensor(self.weights) * (labels.cpu() >= 0)
        total = weight.sum(-1, keepdim=True)
        shares = torch.where(total > 0, weight / torch.where(total > 0, total, 1.0), 0.0).sum(0).numpy()
        return np.asarray(shares / shares.sum())

    def silent(self, labels: Tensor) -> Tensor:
        """Rows without a usable answer."""
        return ~((labels >= 0) & (kept_on(self, "weights", labels.device) > 0)).any(-1)

    def kinds(self, alike: FloatArray | None = None) -> Kinds:
        """The complete rows where they can be listed, then every answer alone.

        A bound ``inf_v s F(v) - <r, v>`` is concave in the target r and its sum s, and every target is a mixture of the
        answers' own, so over all rows, complete or not, the least bound is that of some answer alone.
        """
        m = len(self.transition.sizes)
        alone = [f"annotator {a} alone, answer {y}" for a in range(m) for y in range(self.transition.sizes[a])]
        used = np.repeat(self.weights > 0, self.transition.sizes)
        columns, names = self._columns[used], [name for name, ok in zip(alone, used, strict=True) if ok]
        if not self.transition.listed:
            return Kinds(names, lambda rows: columns[rows], lambda values: values, None, slice(0, None))
        complete = [f"answers {label}" for label in self.transition.weak_labels]
        columns, M = np.concatenate([self.matrix().T, columns]), self.transition.num_weak_labels
        return Kinds(complete + names, lambda rows: columns[rows], lambda values: values[:M], None, slice(M, None))


class CompleteReconstruction(DenseReconstruction):
    """R of the whole T, for complete rows of answers; an incomplete row is silent: its target is 1/K, its loss 0."""

    transition: AnnotatorTransition

    def least_scatter(self) -> FloatArray | None:
        """None: answers may be missing."""
        return None

    def tables(self) -> dict[str, FloatArray]:
        """The columns of R, and 1/K."""
        return {"R_T": np.concatenate([self._R.T, np.full((1, len(self._R)), 1.0 / len(self._R))])}

    def columns(self, labels: Tensor, dtype: torch.dtype, tables: Tables) -> Targets:
        """The columns of R."""
        rows, silent = self.transition.row_index(labels.clamp_min(0)), self.silent(labels)
        where = torch.where(silent, len(tables["R_T"]) - 1, rows)
        return Silenced(Dense(look_up(tables["R_T"].to(dtype), where)), silent)

    def silent(self, labels: Tensor) -> Tensor:
        """Incomplete rows."""
        return (labels < 0).any(-1)

    def kinds(self, alike: FloatArray | None = None) -> Kinds:
        """The complete rows: all others are silent."""
        return replace(super().kinds(alike), index=None, gaps=slice(0, 0))


def annotators(transitions: Iterable[Transition | str], rho: float = 0.0) -> AnnotatorTransition:
    """Several answers per example, independent given its class: labels are (n, m) integers, -1 for no answer.

    ``T[(y_1, ..., y_m), z] = prod_a T_a[y_a, z]`` over the annotators who answered. A row without any answer says
    nothing. For one label per example, from one of several sources, see `multi_source`.

    Parameters
    ----------
    transitions : list of Transition or text
        One for each annotator.
    rho : float
        From 0 to 1: how much answers depend on each other after all (`estimate_annotators` estimates it). Scores from
        such answers carry a note.

    Returns
    -------
    AnnotatorTransition
        Its losses and targets never list the combinations of answers.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.annotators([tp.symmetric_noise(2, 0.1), tp.symmetric_noise(2, 0.2)])
    >>> T.reconstruction().targets([[0, 0], [0, 1], [-1, 0]]).numpy().round(2)
    array([[ 1.18, -0.18],
           [ 0.77,  0.23],
           [ 1.33, -0.33]])
    """
    parts = read_transitions(transitions)
    if not parts:
        raise InputError(
            f"transitions: expected a list with one Transition for each annotator, got {checks.short(transitions)}"
        )
    for a, t in enumerate(parts):
        if not isinstance(t, Transition) or t.label_shape:
            got = t.name if isinstance(t, Transition) else type(t).__name__
            raise InputError(f"transitions: expected annotators who answer with one label each, got {got} at {a}")
        if t.num_classes != parts[0].num_classes:
            raise InputError(
                f"transitions: expected {parts[0].num_classes} classes for every annotator, as for the first, "
                f"got {t.num_classes} at {a}"
            )
    return AnnotatorTransition(parts, checks.real(rho, "rho", 0, 1))


def common_names(parts: Sequence[Transition], argument: str) -> list[Any] | None:
    """The names of the classes of several T; those that have any must have the same, in one order."""
    named = [t.classes for t in parts if t.classes is not None]
    if any(names != named[0] for names in named):
        raise InputError(f"{argument}: expected T of the same classes in one order, got those of {named}")
    return named[0] if named else None


def kept_on(owner: Any, name: str, device: torch.device) -> Tensor:
    """An array of the owner's on a device, copied there once: a copy from the host cannot be part of a CUDA graph."""
    if device.type == "cpu":
        return torch.as_tensor(getattr(owner, name))
    kept = owner.__dict__.setdefault("_kept", {})
    if (name, device) not in kept:
        kept[name, device] = torch.as_tensor(getattr(owner, name), device=device)
    return kept[name, device]


def sum_rows(table: Tensor, index: Tensor) -> Tensor:
    """``sum over the last axis of table[index]``: (..., m) -> (..., K), without the (..., m, K) array in between."""
    if tracing.transformation():
        return look_up(table, index).sum(-2)
    rows = index.reshape(-1, index.shape[-1])
    if table.dtype == torch.float64 and not table.is_cuda:  # torch sums bags of float64 five times slower than this
        blocks = rows.split(max(1, BLOCK // (rows.shape[1] * table.shape[1])))
        flat = torch.cat([look_up(table, part).sum(1) for part in blocks])
    else:
        flat = torch.nn.functional.embedding_bag(rows, table, mode="sum")
    return flat.reshape(*index.shape[:-1], table.shape[1])


def _invertible(t: Transition) -> bool:
    diagnosis = t.diagnose()
    return diagnosis.reconstructible and diagnosis.condition_number <= CONDITION_LIMIT
