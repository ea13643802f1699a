"""Probabilities of rows by models that have not seen them: what scores in the model card rest on.

All rows are scored, in folds; where one fit takes long only the first fold is, and the card says why. An item or a
group is never on both sides. Features keep the scale of the whole table, which knows nothing of labels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from .._core import FloatArray, Split, gathered_warnings, random_folds
from ..data import Bar
from ..errors import InputError
from ..solvers import cross_fit
from ..transitions import Encoded
from .rows import Rows
from .streaming import probabilities

FOLDS = 5
SECONDS = 120.0  # that the fits of all folds may take, unless --folds asks for them


@dataclass(frozen=True)
class Unseen:
    """Some rows with the probabilities of models that were not trained on them."""

    rows: NDArray[np.int64]
    p: FloatArray  # (len(rows), K)
    how: str  # in words


def splits_of(rows: Rows, folds: int | None, seed: int) -> list[Split]:
    """(rows to train on, rows to score) of each fold."""
    n = len(rows)
    splits = random_folds(n, min(folds or FOLDS, n), np.random.default_rng(seed), rows.group)
    for train, _ in splits:
        check_groups(rows, train)
    return splits


def check_groups(rows: Rows, part: NDArray[np.int64]) -> None:
    """A model needs two groups to hold one out itself: refused here, where all groups are known, by what to do."""
    if rows.group is None or len(np.unique(rows.group[part])) > 1:
        return
    count = len(np.unique(rows.group))
    if count == 1:
        raise InputError("--group: expected at least two groups, got one; leave it out")
    raise InputError(
        f"--group: expected at least two groups beside those that are scored, got {count} in all; give --holdout 0, "
        "which scores none, or more --folds"
    )


def cross_fitted(
    rows: Rows, features: Any, make: Callable[[], Any], splits: Sequence[Split], folds: int | None
) -> Unseen:
    """Fit one model for each fold to the rows outside of it; `make` gives an estimator."""
    n = len(rows)
    with Bar("scoring", len(splits), "folds") as bar:

        def scored(train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
            with gathered_warnings():  # the fit to all rows has said it
                model = fit_part(make(), features, rows, train)
            p = _probabilities(model, features, rows, test)
            bar.step()
            return p

        started = time.monotonic(), time.process_time()
        first = scored(*splits[0])
        # the processor's time, where others keep the clock waiting: what is scored should not depend on them
        took = min(time.monotonic() - started[0], time.process_time() - started[1])
        if folds is None and took * len(splits) > SECONDS:
            how = (
                f"on {len(first):,} of {n:,} rows, which a second model was not trained on; not cross-fitted on all "
                f"rows, because one fit takes {took:.0f} s (--folds {len(splits)} does it anyway)"
            )
            return Unseen(splits[0][1], first, how)
        p = cross_fit(lambda f, train, test: scored(train, test) if f else first, splits, n)
    together = f", {len(np.unique(rows.group)):,} groups kept whole" if rows.group is not None else ""
    how = f"on all {n:,} rows, each by a model that was not trained on it ({len(splits)} folds{together})"
    return Unseen(np.arange(n), p, how)


def held_out(estimator: Any, features: Any, rows: Rows, held: NDArray[np.int64]) -> Unseen:
    """Rows that were kept from the model itself."""
    p = _probabilities(estimator, features, rows, held)
    return Unseen(held, p, f"on {len(held):,} rows that were held out")


def _probabilities(estimator: Any, features: Any, rows: Rows, part: NDArray[np.int64]) -> FloatArray:
    kind = " of those with a label" if rows.dropped else ""
    return probabilities(estimator, features[part], lambda i: f"{part[i] + 1}{kind}")


def fit_part(estimator: Any, features: Any, rows: Rows, part: NDArray[np.int64]) -> Any:
    """Fit to the features of some rows, with their known classes and groups."""
    known = None if rows.true is None else np.array([*rows.codec.names, None], dtype=object)[rows.true[part]]
    group = None if rows.group is None else rows.group[part]
    labels = Encoded(torch.as_tensor(rows.labels[part]))
    some = features if np.array_equal(part, np.arange(features.shape[0])) else features[part]
    return estimator.fit(some, labels, true=known, groups=group)
