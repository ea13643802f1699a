"""The named kinds of weak labels: each function returns a `Transition`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray, checks, count_text
from ..errors import InputError
from .base import Transition, read_transitions
from .dense import DENSE_LIMIT, DenseTransition
from .labels import POSITIVE_UNLABELED
from .sets import CandidateSetTransition, FixedSizeSets, independent_sets, log_binomial
from .stacked import StackedTransition
from .uniform import UniformTransition

AnyTransition = TypeVar("AnyTransition", bound=Transition)

MOST_IN_SETS = 100_000  # classes of candidate sets: the mask of one example has as many entries


def _named(transition: Transition, name: str) -> Transition:
    transition.name = name
    return transition


def of_positives(transition: AnyTransition, name: str) -> AnyTransition:
    """T of two classes whose labels are 0 = labeled positive and 1 = unlabeled."""
    transition.name, transition.label_kind = name, POSITIVE_UNLABELED
    return transition


def identity(K: int) -> Transition:
    """Clean labels: the weak label is the class, T = I. Supervised learning is this case.

    Parameters
    ----------
    K : int
        The number of classes.

    Returns
    -------
    Transition
        K weak labels, K classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.identity(2).matrix()
    array([[1., 0.],
           [0., 1.]])
    """
    return UniformTransition(checks.integer(K, "K", 2), 1.0, f"identity({K})")


def symmetric_noise(K: int, p: float) -> Transition:
    """With probability p the label is wrong, every wrong label equally likely (Example 1 of the paper).

    ``T = (1 - p) I + p/(K - 1) (1 1^T - I)``.

    Parameters
    ----------
    K : int
        The number of classes.
    p : float
        The probability of a wrong label.

    Returns
    -------
    Transition
        K weak labels, K classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.symmetric_noise(3, 0.3).matrix().round(2)
    array([[0.7 , 0.15, 0.15],
           [0.15, 0.7 , 0.15],
           [0.15, 0.15, 0.7 ]])
    """
    K, p = checks.integer(K, "K", 2), checks.real(p, "p", 0, 1)
    return UniformTransition(K, 1.0 - p, f"symmetric_noise({K}, {p:g})")


def pair_noise(K: int, p: float) -> Transition:
    """With probability p an example of class z is labeled z + 1 (the last class as the first); else its label is right.

    Parameters
    ----------
    K : int
        The number of classes.
    p : float
        The probability of a wrong label.

    Returns
    -------
    Transition
        K weak labels, K classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.pair_noise(3, 0.25).matrix()
    array([[0.75, 0.  , 0.25],
           [0.25, 0.75, 0.  ],
           [0.  , 0.25, 0.75]])
    """
    K, p = checks.integer(K, "K", 2), checks.real(p, "p", 0, 1)
    if K * K > DENSE_LIMIT:
        raise InputError(
            f"K: expected at most {math.isqrt(DENSE_LIMIT)} classes for pair noise (its R is dense), got {K}"
        )
    T = (1 - p) * np.eye(K) + p * np.roll(np.eye(K), 1, axis=0)
    return _named(Transition(T), f"pair_noise({K}, {p:g})")


def binary_noise(r_pos: float, r_neg: float) -> Transition:
    """Two classes whose labels are flipped, each class at a rate of its own. Class 0 is the positive one.

    Parameters
    ----------
    r_pos, r_neg : float
        P(label 1 | class 0) and P(label 0 | class 1): how often a positive, and a negative, is labeled wrongly.

    Returns
    -------
    Transition
        Two weak labels, two classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.binary_noise(0.25, 0.125).matrix()
    array([[0.75 , 0.125],
           [0.25 , 0.875]])
    """
    a, b = checks.real(r_pos, "r_pos", 0, 1), checks.real(r_neg, "r_neg", 0, 1)
    return _named(Transition([[1 - a, b], [a, 1 - b]]), f"binary_noise({a:g}, {b:g})")


def complementary(K: int, weights: ArrayLike | None = None, noise: float = 0.0) -> Transition:
    """ "Not this class": the label y says that the class is not y.

    Without `weights` every wrong class is equally likely: ``T = (1 1^T - I) / (K - 1)``.

    Parameters
    ----------
    K : int
        The number of classes.
    weights : (K, K) array, optional
        ``weights[y, z]``, with a zero diagonal, is the relative frequency of label y given class z; columns are
        normalised.
    noise : float
        The probability that the label is the true class after all (the diagonal of T).

    Returns
    -------
    Transition
        K weak labels, K classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.complementary(3).matrix()
    array([[0. , 0.5, 0.5],
           [0.5, 0. , 0.5],
           [0.5, 0.5, 0. ]])
    """
    K, noise = checks.integer(K, "K", 2), checks.real(noise, "noise", 0, 1)
    name = f"complementary({K}{f', noise={noise:g}' if noise else ''})"
    if weights is None:
        return UniformTransition(K, noise, name)
    W = checks.matrix(weights, "weights")
    if W.shape != (K, K):
        raise InputError(f"weights: expected a {K} x {K} matrix, got shape {W.shape}")
    if np.diag(W).any():
        raise InputError("weights: expected a zero diagonal (a complementary label is never the class); use `noise`")
    sums = W.sum(axis=0)
    if (W < 0).any() or (sums <= 0).any():
        raise InputError("weights: expected entries >= 0 and a positive sum in every column")
    return _named(Transition((1 - noise) * W / sums + noise * np.eye(K)), f"biased {name}")


def set_size(K: int) -> int:
    """A number of classes that masks can be made for."""
    K = checks.integer(K, "K", 2)
    if K > MOST_IN_SETS:
        raise InputError(
            f"K: expected at most {MOST_IN_SETS:,} classes for candidate sets, got {count_text(K)}: the mask of one "
            f"example would take {count_text(K)} bytes"
        )
    return K


def partial_labels(K: int, p: float) -> CandidateSetTransition:
    """Candidate sets: the true class, and every other class independently with probability p (Example 2 of the paper).

    ``P(S | z) = p^(|S|-1) (1-p)^(K-|S|)`` for every set S that holds z. Labels are boolean masks (n, K), True = still
    possible.

    Parameters
    ----------
    K : int
        The number of classes.
    p : float
        The probability that a wrong class is in the set.

    Returns
    -------
    CandidateSetTransition
        Its losses, targets and samples never list the 2^K - 1 sets.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.partial_labels(3, 0.5)
    >>> T.reconstruction().targets([[True, False, False], [True, True, False]]).numpy().round(2)
    array([[ 2.11, -0.56, -0.56],
           [ 0.78,  0.78, -0.56]])
    >>> T.weak_labels[:4]
    [frozenset({0}), frozenset({1}), frozenset({2}), frozenset({0, 1})]
    """
    K, p = set_size(K), checks.real(p, "p", 0, 1)
    return independent_sets(K, p)


def multi_complementary(K: int, m: int) -> CandidateSetTransition:
    """Several classes that an example is *not*: m different ones, drawn uniformly. m = 1 is `complementary`.

    Labels are boolean masks (n, K) of the K - m classes that are still possible.

    Parameters
    ----------
    K : int
        The number of classes.
    m : int
        How many classes are ruled out for each example, 1 to K - 1.

    Returns
    -------
    CandidateSetTransition
        ``P(S | z) = 1 / (K-1 choose m)`` for every set S of K - m classes that holds z.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.multi_complementary(5, 2)
    >>> T.sample([0, 4], seed=0).sum(axis=1).tolist()
    [3, 3]
    """
    K, m = set_size(K), checks.integer(m, "m", 1)
    if m >= K:
        raise InputError(f"m: expected at most K - 1 = {K - 1} classes to be excluded, got {m}")
    log_weight = np.full(K + 1, -np.inf)
    log_weight[K - m] = -log_binomial(K - 1, np.array([m]))[0]
    return FixedSizeSets(log_weight, f"multi_complementary({K}, {m})", math.comb(K, m))


def positive_unlabeled(
    r: float | None = None, *, prior: float | None = None, labeled: int | None = None, n: int | None = None
) -> Transition:
    """Positive and unlabeled data (PU): a share r of the positives is labeled, at random, and nothing else is.

    Class 0 is positive. Label 0 (or True) is a labeled positive, label 1 (or False) is unlabeled. Give r, or the
    numbers that it follows from: ``r = labeled / (n prior)``.

    Parameters
    ----------
    r : float, optional
        P(labeled | positive).
    prior : float, optional
        P(positive), the share of positives among all rows.
    labeled, n : int, optional
        How many rows are labeled, and how many rows there are, labeled ones included.

    Returns
    -------
    Transition
        Two weak labels, two classes.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.positive_unlabeled(0.25).matrix()
    array([[0.25, 0.  ],
           [0.75, 1.  ]])
    >>> tp.positive_unlabeled(prior=0.4, labeled=100, n=1000).matrix()
    array([[0.25, 0.  ],
           [0.75, 1.  ]])
    """
    if r is not None:
        if not (prior is None and labeled is None and n is None):
            raise InputError("r: expected either r, or prior, labeled and n, got both")
        r = checks.real(r, "r", 0, 1)
        return of_positives(Transition([[r, 0.0], [1.0 - r, 1.0]]), f"positive_unlabeled({r:g})")
    if prior is None or labeled is None or n is None:
        missing = [name for name, value in (("prior", prior), ("labeled", labeled), ("n", n)) if value is None]
        raise InputError(f"r: expected r, or prior, labeled and n together, got no {' and no '.join(missing)}")
    share = checks.real(prior, "prior", 0, 1, low_open=True)
    count, rows = checks.integer(labeled, "labeled", 0), checks.integer(n, "n", 1)
    if count > rows * share:
        raise InputError(
            f"prior: expected at least labeled / n = {count / rows:.4g}, the share of labeled rows, got {share:g}; "
            "n counts all rows, labeled ones included"
        )
    return positive_unlabeled(count / (rows * share))


class BagTransition(DenseTransition):
    """Bags of unlabeled data, and the class shares of the population that probabilities are wanted for.

    What is trained with T is ``P(class | x)`` among the pooled bags, whose class shares `pooled` are those of the bags
    by size. With `prior` the population has other shares, and by Bayes' rule ``P_population(z | x)`` is proportional to
    ``P_pooled(z | x) prior_z / pooled_z``: `population` computes it, and `WeakLabelClassifier` gives it.
    """

    _label_kind = "names"  # a bag is not a class, however many there are

    def __init__(self, matrix: ArrayLike, pooled: ArrayLike, prior: ArrayLike | None) -> None:
        super().__init__(matrix)
        self.pooled = checks.probability_vector(pooled, "pooled", self.num_classes)
        self.prior = None if prior is None else checks.probability_vector(prior, "prior", self.num_classes)
        self._describe()

    def with_prior(self, prior: ArrayLike | None) -> Self:
        """These bags, for a population with these class shares; None: for the pooled bags."""
        out = super().with_prior(prior)
        out._describe()
        return out

    def _describe(self) -> None:
        shares = self.pooled if self.prior is None else self.prior
        listed = ", ".join(f"{p:.3g}" for p in shares[:6]) + (", ..." if len(shares) > 6 else "")
        of = f"pooled bags (class shares {listed})" if self.prior is None else f"population with class shares {listed}"
        self.name = f"unlabeled_sets of {self.num_weak_labels} bags, probabilities of the {of}"

    @property
    def trained_shares(self) -> FloatArray | None:
        """Those of the pooled bags."""
        return self.pooled

    def population(self, probabilities: ArrayLike) -> FloatArray:
        """Class probabilities (..., K) of the population from those of the pooled bags; unchanged without a prior."""
        p = np.asarray(probabilities, dtype=np.float64)
        if p.ndim == 0 or p.shape[-1] != self.num_classes:
            raise InputError(f"probabilities: expected shape (..., {self.num_classes}), got {p.shape}")
        if self.prior is None:
            return p
        weighted = p * (self.prior / self.pooled)
        return weighted / weighted.sum(axis=-1, keepdims=True)


def unlabeled_sets(proportions: ArrayLike, sizes: ArrayLike, prior: ArrayLike | None = None) -> BagTransition:
    """Bags of unlabeled data with known class shares: the weak label of an example is its bag. UU learning has two.

    ``T[b, z]`` is proportional to ``sizes[b] * proportions[b, z]``. Probabilities trained with T are those of all bags
    together; with `prior` the classifier gives those of the population with these class shares instead
    (`BagTransition.population`). The name of T says which.

    Parameters
    ----------
    proportions : (bags, K) array
        Class shares of each bag; rows sum to one.
    sizes : (bags,) array
        How many examples each bag has.
    prior : (K,) array, optional
        Class shares of the population that probabilities are wanted for.

    Returns
    -------
    BagTransition
        As many weak labels as bags.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.unlabeled_sets([[0.75, 0.25], [0.25, 0.75]], sizes=[100, 100]).matrix()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    """
    P = checks.matrix(proportions, "proportions")
    try:
        n = np.asarray(sizes, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"sizes: expected {len(P)} positive numbers, one per bag, got {sizes!r}") from None
    if n.shape != (len(P),) or not np.isfinite(n).all() or (n <= 0).any():
        raise InputError(f"sizes: expected {len(P)} positive numbers, one per bag, got {np.asarray(sizes).tolist()}")
    if (P < 0).any() or np.abs(P.sum(axis=1) - 1).max() > checks.COLUMN_SUM_TOL:
        raise InputError("proportions: expected rows (bags) of non-negative class proportions that sum to 1")
    joint = n[:, None] * P
    if (joint.sum(axis=0) <= 0).any():
        z = int((joint.sum(axis=0) <= 0).argmax())
        raise InputError(f"proportions: expected every class in some bag, got none for class {z}")
    return BagTransition(joint / joint.sum(axis=0), joint.sum(axis=0) / joint.sum(), prior)


def coarse_labels(groups: Sequence[Sequence[int]]) -> Transition:
    """Groups of classes: the label is the index of the group that holds the class.

    Classes of one group cannot be told apart by such labels, so no backward loss exists; `ForwardLoss` is still proper.

    Parameters
    ----------
    groups : list of lists of class indices
        Every class 0 .. K-1 in exactly one group.

    Returns
    -------
    Transition
        As many weak labels as groups.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.coarse_labels([[0, 1], [2]])
    >>> T.matrix()
    array([[1., 1., 0.],
           [0., 0., 1.]])
    >>> T.diagnose().reconstructible
    False
    """
    try:
        sets = [frozenset(checks.integer(z, "groups", 0) for z in g) for g in groups]
    except TypeError:
        raise InputError(f"groups: expected a list of lists of class indices, got {groups!r}") from None
    members = sorted(z for g in sets for z in g)
    if not members or members != list(range(len(members))) or sum(map(len, groups)) != len(members):
        raise InputError(
            "groups: expected every class 0 .. K-1 in exactly one group, got " + repr([sorted(g) for g in sets])
        )
    if any(len(g) == 0 for g in sets):
        raise InputError("groups: expected non-empty groups")
    T = checks.masks_of_sets(sets, len(members))
    return _named(Transition(T, weak_labels=sets), f"coarse_labels of {len(sets)} groups")


def multi_source(transitions: Iterable[Transition | str], weights: ArrayLike | None = None) -> StackedTransition:
    """Several sources of labels (people, data sets, rules), each with its own T (Appendix B of the paper).

    T is the T of the sources one below the other, each times its weight. A label is a pair (source, label), or the
    index of its row. Where one example has answers of several sources, see `annotators`.

    Parameters
    ----------
    transitions : list of Transition or text
        One for each source.
    weights : (sources,) array, optional
        The share of the examples that each source labels; positive, sums to one. Default: equal shares.

    Returns
    -------
    StackedTransition
        As many weak labels as the sources have together.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.multi_source([tp.identity(2), tp.symmetric_noise(2, 0.5)], weights=[0.5, 0.5])
    >>> T.matrix()
    array([[0.5 , 0.  ],
           [0.  , 0.5 ],
           [0.25, 0.25],
           [0.25, 0.25]])
    >>> T.encode([(0, 1), (1, 0)]).tolist()
    [1, 2]
    """
    sources = read_transitions(transitions)
    if not sources or not all(isinstance(t, Transition) for t in sources):
        raise InputError("transitions: expected a non-empty list of Transition objects")
    if len({t.num_classes for t in sources}) != 1:
        raise InputError(f"transitions: expected the same number of classes, got {[t.num_classes for t in sources]}")
    n = len(sources)
    w = np.full(n, 1.0 / n) if weights is None else checks.probability_vector(weights, "weights", n)
    return StackedTransition(sources, w)
