"""More kinds of weak labels by name: ordinal noise, hierarchies, open sets, rows without a label, case-control PU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray, checks
from ..errors import InputError
from .base import DenseTransition
from .dense import DENSE_LIMIT
from .families import BagTransition, coarse_labels, of_positives, unlabeled_sets

UNLABELED_ROW = "unlabeled"
NONE_OF_THESE = "none of these"


class NamedTransition(DenseTransition):
    """A kind with a matrix of its own, made again from its parameters when it is read from a file.

    `words` says what each label is called: a number stands for the class of that number, a set for a set of classes,
    and a text for itself. Without `words` labels are classes.
    """

    def __init__(self, matrix: FloatArray, kind: str, parameters: Mapping[str, Any], words: Sequence[Any] = ()) -> None:
        super().__init__(matrix, list(words) or None)
        self.kind, self.parameters = kind, dict(parameters)
        self.name = f"{kind}({', '.join(_shown(v) for v in parameters.values())})"

    def names_for(self, classes: list[Any]) -> list[Any] | None:
        """The names of the weak labels where classes have these names."""
        if self._weak_labels is None:
            return None
        return [_word(w, classes) for w in self._weak_labels]


def _word(word: Any, classes: list[Any]) -> Any:
    if isinstance(word, frozenset):
        return frozenset(classes[z] for z in word)
    return word if isinstance(word, str) else classes[word]


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else checks.cut(str(value), 40)


def ordinal_noise(K: int, p: float, spread: float = 0.0) -> NamedTransition:
    """Classes in an order: with probability p the label is another class, a near one rather than a far one.

    A wrong class at distance d has a probability in proportion to ``spread^(d-1)``, so that `spread` = 0 (the default)
    gives neighbours alone, each as likely as the other, and `spread` = 1 is `symmetric_noise`. At both ends, where
    there are classes on one side alone, these have all of p: the label is wrong with probability p whatever the class
    is.

    >>> import tproper as tp
    >>> tp.ordinal_noise(3, 0.2).matrix().round(2)
    array([[0.8, 0.1, 0. ],
           [0.2, 0.8, 0.2],
           [0. , 0.1, 0.8]])
    """
    K = checks.integer(K, "K", 2)
    p, spread = checks.real(p, "p", 0, 1), checks.real(spread, "spread", 0, 1)
    if K * K > DENSE_LIMIT:
        raise InputError(f"K: expected at most {math.isqrt(DENSE_LIMIT)} classes for ordinal noise, got {K}")
    distance = np.abs(np.arange(K)[:, None] - np.arange(K))
    weight = np.where(distance == 0, 0.0, np.power(spread, np.maximum(distance - 1, 0), dtype=np.float64))
    T = p * weight / weight.sum(axis=0) + (1 - p) * np.eye(K)
    return NamedTransition(T, "ordinal_noise", {"K": K, "p": p, "spread": spread})


def hierarchical_labels(groups: Sequence[Any], coarse: float | Sequence[float]) -> NamedTransition:
    """A hierarchy of labels: some rows are labeled with their class, some with a group that holds it.

    `groups` partition the classes, and `coarse` is the probability of a label that is a group. Or several levels, from
    fine to coarse: a list of partitions, and a probability for each. A group of one class is that class. Which level a
    row is labeled at must not depend on its class. A label is a set of classes.

    >>> import tproper as tp
    >>> tp.hierarchical_labels([[0, 1], [2]], 0.25).matrix()
    array([[0.75, 0.  , 0.  ],
           [0.  , 0.75, 0.  ],
           [0.  , 0.  , 1.  ],
           [0.25, 0.25, 0.  ]])
    """
    try:
        nested = isinstance(groups[0][0], (list, tuple))
    except (TypeError, IndexError, KeyError):
        raise InputError(f"groups: expected a list of lists of class indices, got {checks.short(groups)}") from None
    levels = list(groups) if nested else [groups]
    shares = [coarse] if isinstance(coarse, (int, float)) else list(coarse)
    if len(shares) != len(levels):
        raise InputError(f"coarse: expected {len(levels)} probabilities, one for each level, got {len(shares)}")
    shares = [checks.real(c, "coarse", 0, 1) for c in shares]
    if sum(shares) > 1 + checks.SIMPLEX_TOL:
        raise InputError(f"coarse: expected probabilities that sum to at most 1, got {sum(shares):g}")
    K = sum(map(len, levels[0]))
    rows: dict[frozenset[int], FloatArray] = {frozenset([z]): np.zeros(K) for z in range(K)}
    for level, share in zip([[[z] for z in range(K)], *levels], [max(0.0, 1 - sum(shares)), *shares], strict=True):
        T = coarse_labels(level)
        if T.num_classes != K:
            raise InputError(f"groups: expected the same {K} classes at every level, got {T.num_classes}")
        for name, row in zip(T.weak_labels, T.matrix(), strict=True):
            rows[name] = rows.get(name, np.zeros(K)) + share * row
    parameters = {"groups": _plain(groups), "coarse": shares if nested else shares[0]}
    return NamedTransition(np.array(list(rows.values())), "hierarchical_labels", parameters, list(rows))


def _plain(groups: Any) -> Any:
    return [_plain(g) for g in groups] if isinstance(groups, (list, tuple)) else int(groups)


def none_of_these(K: int, listed: int, miss: float = 0.0, false: float = 0.0) -> NamedTransition:
    """An open set: only the first `listed` classes can be chosen, and the label of others is "none of these".

    `miss` is the probability that a listed class is labeled "none of these"; `false` that a class which is not listed
    is labeled as one that is, each as often as the others.

    >>> import tproper as tp
    >>> tp.none_of_these(3, 2, miss=0.1).matrix()
    array([[0.9, 0. , 0. ],
           [0. , 0.9, 0. ],
           [0.1, 0.1, 1. ]])
    """
    K, listed = checks.integer(K, "K", 2), checks.integer(listed, "listed", 1)
    miss, false = checks.real(miss, "miss", 0, 1), checks.real(false, "false", 0, 1)
    if listed >= K:
        raise InputError(f"listed: expected less than K = {K}, so that some class is not listed, got {listed}")
    T = np.zeros((listed + 1, K))
    T[:listed, :listed] = (1 - miss) * np.eye(listed)
    T[listed, :listed] = miss
    T[:listed, listed:] = false / listed
    T[listed, listed:] = 1 - false
    parameters = {"K": K, "listed": listed, "miss": miss, "false": false}
    return NamedTransition(T, "none_of_these", parameters, [*range(listed), NONE_OF_THESE])


def partly_labeled(K: int, rates: float | ArrayLike) -> NamedTransition:
    """Some rows have their class as their label, others none: class z is labeled with probability `rates` (K,), or one.

    With K = 2 this is learning from positive, negative and unlabeled data. The labels are the classes and "unlabeled".
    Where the rates differ, that a row has no label says something of its class.

    >>> import tproper as tp
    >>> tp.partly_labeled(2, [0.5, 0.1]).matrix()
    array([[0.5, 0. ],
           [0. , 0.1],
           [0.5, 0.9]])
    """
    K = checks.integer(K, "K", 2)
    given = [rates] * K if np.ndim(rates) == 0 else list(np.asarray(rates).tolist())
    if len(given) != K:
        raise InputError(f"rates: expected one probability, or {K} of them, got {len(given)}")
    r = np.array([checks.real(x, "rates", 0, 1) for x in given])
    T = np.concatenate([np.diag(r), (1 - r)[None]])
    parameters = {"K": K, "rates": float(r[0]) if np.ndim(rates) == 0 else r.tolist()}
    return NamedTransition(T, "partly_labeled", parameters, [*range(K), UNLABELED_ROW])


def case_control_pu(prior: float, labeled: int, unlabeled: int) -> BagTransition:
    """PU learning from two samples: `labeled` positives, and `unlabeled` rows of the population.

    `prior` is the share of positives in the population; class 0 is positive. Label 0 (or True) is the sample of
    positives, 1 (or False) the other. In the two together positives are more frequent than in the population: the
    estimator's `predict_proba` gives the probabilities of the population.

    >>> import tproper as tp
    >>> tp.case_control_pu(0.25, 50, 100).matrix().round(3)
    array([[0.667, 0.   ],
           [0.333, 1.   ]])
    """
    prior = checks.real(prior, "prior", 0, 1, low_open=True)
    if prior == 1:
        raise InputError("prior: expected less than 1, so that some rows are negative, got 1")
    n = [checks.integer(labeled, "labeled", 1), checks.integer(unlabeled, "unlabeled", 1)]
    out = unlabeled_sets([[1.0, 0.0], [prior, 1 - prior]], n, prior=[prior, 1 - prior])
    return of_positives(out, f"case_control_pu({prior:g}, {n[0]}, {n[1]})")
