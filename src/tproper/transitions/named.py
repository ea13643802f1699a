"""More kinds of weak labels by name: ordinal noise, hierarchies, open sets, rows without a label, case-control PU."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray, checks
from ..errors import InputError
from .dense import DENSE_LIMIT, DenseTransition
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

    def _names_for(self, classes: list[Any]) -> list[Any] | None:
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

    A wrong class at distance d has a probability in proportion to ``spread^(d-1)``. The label of the first or last
    class, which has others on one side alone, is wrong with probability p, too.

    Parameters
    ----------
    K : int
        The number of classes.
    p : float
        The probability of a wrong label.
    spread : float
        0 (the default): only the next class on either side. 1: all wrong classes alike, as in `symmetric_noise`.

    Returns
    -------
    Transition
        K weak labels, K classes.

    Examples
    --------
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

    Which level a row is labeled at must not depend on its class.

    Parameters
    ----------
    groups : list of lists of class indices, or a list of such lists
        Groups that partition the classes; or several levels, from fine to coarse. A group of one class is that class.
    coarse : float or list of float
        The probability of a label that is a group, for each level.

    Returns
    -------
    Transition
        A label is a set of classes: the classes first, then the groups.

    Examples
    --------
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
    """An open set: only the first `listed` classes can be chosen, and the label of all others is "none of these".

    Parameters
    ----------
    K : int
        The number of classes.
    listed : int
        How many of them, the first ones, can be chosen.
    miss : float
        The probability that an example of a listed class is labeled "none of these".
    false : float
        The probability that an example of another class is labeled as a listed one, each as often as the others.

    Returns
    -------
    Transition
        ``listed + 1`` weak labels, the last of them "none of these".

    Examples
    --------
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
    """Some rows have their class as their label, others have none: class z is labeled with probability ``rates[z]``.

    With K = 2 this is learning from positive, negative and unlabeled data. Where the rates differ, the lack of a label
    says something about the class.

    Parameters
    ----------
    K : int
        The number of classes.
    rates : float or (K,) array
        The probability that an example is labeled, one for all classes or one for each.

    Returns
    -------
    Transition
        K + 1 weak labels: the classes, then "unlabeled".

    Examples
    --------
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
    """Positive and unlabeled data from two samples: `labeled` positives beside `unlabeled` rows of the population.

    Class 0 is positive. Label 0 (or True) is the sample of positives, 1 (or False) the other one. Positives are more
    frequent in the two samples together than in the population; the classifier's `predict_proba` gives the
    probabilities of the population.

    Parameters
    ----------
    prior : float
        The share of positives in the population.
    labeled, unlabeled : int
        The sizes of the two samples.

    Returns
    -------
    BagTransition
        Two weak labels, two classes.

    Examples
    --------
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
