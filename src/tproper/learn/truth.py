"""Rows whose true class is known, among rows of weak labels: one more annotator, who is never wrong.

Given the class, a weak label says nothing more of the features, so the joint likelihood of both kinds of rows is

    sum over rows of unknown class of log (T p(x))_y  +  sum over rows of known class of log p_z(x),

which is the forward loss of ``annotators([T, identity])`` with the answers (y, -1) and (-1, z). Backward losses of it
give rows of known class their one-hot target, and others the target of their weak label: each row is unbiased by
itself, whatever decided which classes are known (as long as the class, given the features, did not).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import _safe_indexing
from torch import Tensor, nn

from .._core import checks
from ..errors import InputError
from ..transitions import (
    ENUMERATION_LIMIT,
    Encoded,
    LabelSpace,
    SoftLabels,
    Transition,
    absent,
    annotators,
    identity,
    is_soft,
    known_column,
    multi_source,
)

if TYPE_CHECKING:
    from .fitting import Training


def take(y: Any, rows: NDArray[np.int64]) -> Any:
    """The labels of some rows, in what held them."""
    if isinstance(y, Tensor | SoftLabels | Encoded):
        return y[torch.as_tensor(rows)]
    return _safe_indexing(y if hasattr(y, "__getitem__") else checks.array(y, "y"), rows)


def count(y: Any) -> int:
    """How many labels there are."""
    return len(y) if hasattr(y, "__len__") else len(np.asarray(y))


def weak_part(y: Any, true: Any) -> Any:
    """The labels of the rows of unknown class; all labels where there are no such rows."""
    if true is None:
        return y
    n = count(y)
    rows = np.flatnonzero(absent(known_column(true, n), no_answer=True))
    return take(y, rows) if 0 < len(rows) < n else y


def read_both(
    y: Any, true: Any, space: LabelSpace
) -> tuple[Tensor, NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Weak labels as the transition takes them; known classes, -1 where unknown; and the rows that have one or the
    other, None where all do.

    Where the class is known the weak label is not read: it may be missing, and what stands for it means nothing.
    """
    if true is None:
        labels, missing = space.read(y)
        if missing.all():
            raise InputError(f"y: expected a label in some row, got none in {len(missing)}")
        return labels, None, None if not missing.any() else np.flatnonzero(~missing)
    n = count(y)
    known = space.known_classes(true, n)
    rows = np.flatnonzero(known < 0)
    transition = space.transition
    if not len(rows):
        return torch.zeros((n, *transition.label_shape), dtype=transition.label_dtype), known, None
    some, missing = space.read(take(y, rows) if len(rows) < n else y)
    out = torch.zeros((n, *some.shape[1:]), dtype=some.dtype)
    out[torch.as_tensor(rows)] = some
    if not missing.any():
        return out, known, None
    return out, known, np.setdiff1d(np.arange(n), rows[missing])


def check_informative(labels: Tensor, transition: Transition) -> None:
    """Refuse encoded labels that all say nothing: there is nothing to learn from them."""
    gone = labels.isnan() if is_soft(labels) else labels < 0
    if transition.separate and bool(gone.all()):
        raise InputError(f"y: expected at least one answer, got none in {len(labels)} rows")
    full = transition.vacuous
    if full is not None and not is_soft(labels) and bool((labels == full).all()):
        raise InputError(f"y: expected a candidate set that leaves a class out, got every class in all {len(labels)}")


def weights_of_labelled(silent: NDArray[np.bool_], weights: Any) -> NDArray[np.float64]:
    """Weights (n,) in which rows without a label or an answer count nothing."""
    out = np.where(silent, 0.0, 1.0 if weights is None else weights)
    if not out.any():
        raise InputError(f"y: expected at least one row with an answer to score, got none of {len(out)}")
    return out


def with_truth(
    transition: Transition, labels: Tensor, known: NDArray[np.int64], forward: bool
) -> tuple[Transition, Tensor]:
    """T and labels of both kinds of rows.

    Candidate sets of `partial_labels` and a forward loss: a known class is the set of that class alone, whose loss is
    ``-log p_z`` up to a constant. Other candidate sets become the labels of two sources, up to 12 classes.
    """
    K = transition.num_classes
    z = torch.as_tensor(known)
    given = z >= 0
    if transition.trained_shares is not None:
        raise InputError("true: expected None with bags of unlabeled data, whose classes are the bags', got some")
    if transition.vacuous is not None:
        alone = transition.of_known_classes(labels, given, z) if forward else None
        if alone is not None:
            return transition, alone
        if K > ENUMERATION_LIMIT or bool(given.all()) or not bool(given.any()):
            raise InputError(
                f"true: expected partial_labels with a forward loss, or at most {ENUMERATION_LIMIT} classes and rows "
                f"of both kinds, got {transition.name} of {K} classes"
            )
        share = float(given.double().mean())
        filled = labels.clone()
        filled[given] = labels[~given][0]
        rows = torch.where(given, transition.num_weak_labels + z, transition.row_index(filled))
        return multi_source([transition, identity(K)], [1 - share, share]), rows
    if is_soft(labels):
        return _soft_with_truth(transition, labels, known)
    parts, weak = [transition], labels[:, None].clone()
    if transition.separate:
        parts, weak = list(transition.separate), labels.clone()
    weak[given] = -1
    return annotators([*parts, identity(K)]), torch.cat([weak, z[:, None]], dim=1)


def _soft_with_truth(transition: Transition, shares: Tensor, known: NDArray[np.int64]) -> tuple[Transition, Tensor]:
    """The same of soft labels: a known class is an annotator's share of one."""
    parts = transition.separate or [transition]
    T, K = annotators([*parts, identity(transition.num_classes)]), transition.num_classes
    z = torch.as_tensor(known)
    out = torch.zeros(len(shares), len(parts) + 1, max(T.sizes), dtype=shares.dtype)
    out[:, :-1, : shares.shape[-1]] = shares.reshape(len(shares), len(parts), -1)
    out[z >= 0, :-1] = torch.nan
    out[z < 0, -1] = torch.nan
    out[z >= 0, -1, :K] = torch.nn.functional.one_hot(z[z >= 0], K).to(out)
    return T, out


def with_known_classes(
    data: Training, known: NDArray[np.int64] | None, loss: Any, make: Callable[[Transition], nn.Module]
) -> Training:
    """The rows of a fit with what is known of their classes (-1 elsewhere): T, labels and the loss of both kinds.

    `loss` is the setting, and `make` makes it of a T.
    """
    if known is None or not (known >= 0).any():
        check_informative(data.labels, data.transition)
        return data
    if isinstance(loss, nn.Module):
        raise InputError("true: expected a loss by its name, or a callable that makes one from T, got a loss object")
    both, labels = with_truth(data.transition, data.labels, known, loss == "forward")
    return replace(data, labels=labels, transition=both, loss=make(both))
