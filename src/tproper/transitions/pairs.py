"""Pairs of examples: what is known is a relation of two unseen classes, "the same", "another", "no lower than".

Two examples x, x' are drawn independently, with classes z, z', and the label of the pair depends on both:

    kernel[y, z, z'] = P(label y | z, z'),      P(y | x, x') = p' K_y p'',

with p and p' the class probabilities of the two. Where pairs are sampled by their relation (n_S similar pairs beside
n_U unlabeled ones), the pooled pairs of sample b have ``weights[b, z, z'] = n_b P_b(z, z') / (pi_z pi_z')`` instead, pi
the class shares of the population, and ``P(b | x, x') = p' W_b p'' / sum_b p' W_b p''`` with p of the *population*.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._core import FloatArray, Labels, checks
from ..errors import InputError
from .families import BagTransition, unlabeled_sets

SIMILAR, DISSIMILAR, UNLABELED_PAIR, FIRST = "similar", "dissimilar", "unlabeled", "first"
PAIR_KINDS = ("sd", "su", "du", "sdu", "similarity", "comparison")


class PairKernel:
    """How the classes of two examples become the label of the pair: ``weights[y, z, z']`` for classes z and z'.

    `pairs` makes the usual ones.

    Parameters
    ----------
    weights : (L, K, K) array
        ``weights[y, z, z']`` >= 0, in proportion to ``P(y | z, z')`` or to the shares of samples (see the module).
    names : list, optional
        Of the L labels.
    name : str
        What messages call the kernel.
    proportions : (2 L, K) array, optional
        Class shares of the first members of the pairs of each label, then of the second ones: what `apart` needs.
    sizes : (L,) array, optional
        How many pairs there are of each label.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> same = np.eye(2)
    >>> kernel = tp.PairKernel([same, 1 - same], names=["similar", "dissimilar"])
    >>> kernel.weights.shape
    (2, 2, 2)
    """

    def __init__(
        self,
        weights: ArrayLike,
        names: Sequence[Any] | None = None,
        name: str = "pairs",
        proportions: ArrayLike | None = None,
        sizes: ArrayLike | None = None,
    ) -> None:
        W = np.array(checks.array(weights, "weights"), dtype=np.float64)
        if W.ndim != 3 or W.shape[1] != W.shape[2] or W.shape[1] < 2 or not len(W):
            raise InputError(f"weights: expected shape (labels, K, K), got {W.shape}")
        if not np.isfinite(W).all() or (W < 0).any():
            raise InputError("weights: expected finite numbers >= 0, got others")
        if (W.sum(axis=0) <= 0).any():
            raise InputError("weights: expected some label for every pair of classes, got a pair without any")
        self.weights = W
        self.num_labels, self.num_classes = W.shape[:2]
        self.names = list(range(len(W))) if names is None else list(names)
        if len(self.names) != len(W):
            raise InputError(f"names: expected {len(W)} names, got {len(self.names)}")
        self.name = name
        self._proportions = None if proportions is None else np.asarray(proportions, dtype=np.float64)
        self._sizes = None if sizes is None else np.asarray(sizes, dtype=np.float64)

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(map(str, self.names))}; {self.num_classes} classes>"

    def probability(self, first: ArrayLike, second: ArrayLike) -> FloatArray:
        """P(label | x, x') (n, L), for the class probabilities (n, K) of both."""
        a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
        mass = np.einsum("nz,yzw,nw->ny", a, self.weights, b)
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def sample(self, first: ArrayLike, second: ArrayLike, seed: int | np.random.Generator) -> NDArray[np.int64]:
        """One label for each pair of classes, by ``weights`` normalised over the labels."""
        z, w = (checks.index_labels(c, self.num_classes, name="classes").cpu().numpy() for c in (first, second))
        share = self.weights[:, z, w] / self.weights[:, z, w].sum(axis=0)
        u = np.random.default_rng(seed).random(len(z))
        return np.minimum((share.cumsum(axis=0) <= u).sum(axis=0), self.num_labels - 1).astype(np.int64)

    def encode(self, labels: Labels) -> NDArray[np.int64]:
        """Rows of the kernel (n,), from rows or names."""
        given = checks.array(labels, "labels")
        if given.dtype.kind in "iu":
            return checks.index_labels(given, self.num_labels).numpy()
        place = {name: y for y, name in enumerate(self.names)}
        unknown = [v for v in given.tolist() if v not in place]
        if unknown:
            raise InputError(f"labels: expected {', '.join(map(str, self.names))}, got {unknown[0]!r}")
        return np.array([place[v] for v in given.tolist()], dtype=np.int64)

    def symmetries(self) -> list[tuple[int, ...]]:
        """The renamings of the classes that leave the kernel as it is: data do not tell them apart (K <= 8)."""
        K = self.num_classes
        if K > 8:
            raise InputError(f"kernel: expected at most 8 classes to list renamings, got {K}")
        return [p for p in permutations(range(K)) if np.allclose(self.weights[:, p][:, :, p], self.weights)]

    def apart(self) -> BagTransition:
        """T of the members of pairs, pulled apart: bags of unlabeled data with known class shares.

        Bag y holds the first members of the pairs of label y, bag L + y the second ones (bags of equal shares are one).
        This is how the theory of backward losses carries over: the unbiased risks of similar-unlabeled (Bao, Niu and
        Sugiyama, 2018), dissimilar-unlabeled and similar-dissimilar (Shimada, Bao, Sato and Sugiyama, 2021) and
        pairwise comparison data (Feng et al., 2021) are ``BackwardLoss(kernel.apart())`` on these bags, which Theorem 7
        makes proper and `certify` certifies. It needs two classes and a known prior other than 1/2.
        """
        if self._proportions is None or self._sizes is None:
            raise InputError(
                f"kernel: expected pairs with a known prior, whose members have known shares, got {self.name}"
            )
        return unlabeled_sets(self._proportions, np.concatenate([self._sizes, self._sizes]))

    def bags(self, labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The bags (rows of `apart`) of the first and of the second members of pairs with these labels."""
        y = self.encode(labels)
        return y, y + self.num_labels


def pairs(
    kind: str, *, K: int | None = None, prior: ArrayLike | None = None, sizes: Sequence[int] | None = None
) -> PairKernel:
    """Pairs of examples whose relation is known: of one class, of two, or in an order.

    Classes are found up to a renaming that leaves the relation as it is (`PairKernel.symmetries`): "similar" and
    "dissimilar" do not say which class is which. A prior with different shares, or a few labeled rows, do.

    Parameters
    ----------
    kind : str
        ``"similarity"``: every pair has a label, "similar" or "dissimilar". Neither prior nor sizes are needed.
        ``"su"``, ``"du"``, ``"sd"``, ``"sdu"``: samples of similar (s) and of dissimilar (d) pairs, and of unlabeled
        (u) ones (any two examples of the population make one), of the `sizes` given in this order.
        ``"comparison"``: pairs of which the first is of no lower class than the second. They are compared with the same
        pairs the other way round, so that the data hold the label "first" alone.
    K : int
        The number of classes, where `prior` does not say it.
    prior : (K,) array
        Class shares of the population.
    sizes : list of int
        How many pairs each sample has.

    Classes are found up to a renaming that leaves the relation as it is (`PairKernel.symmetries`): "similar" and
    "dissimilar" say nothing of which class is which. A prior with different shares, or a few labeled rows, do.

    Returns
    -------
    PairKernel
        What `PairLoss` is made of.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.pairs("su", prior=[0.7, 0.3], sizes=[100, 200]).weights.round(2).tolist()
    [[[172.41, 0.0], [0.0, 172.41]], [[200.0, 200.0], [200.0, 200.0]]]
    """
    checks.choice(kind, "kind", PAIR_KINDS)
    shares = None if prior is None else checks.probability_vector(prior, "prior", len(checks.array(prior, "prior")))
    if shares is None and (K is None or kind not in ("similarity", "comparison")):
        raise InputError(f"prior: expected the class shares for pairs {kind!r}, got none")
    size = checks.integer(K if shares is None else len(shares), "K", 2)
    if K is not None and size != K:
        raise InputError(f"prior: expected {K} shares, got {size}")
    same, any_pair = np.eye(size), np.ones((size, size))
    if kind == "similarity":
        return PairKernel([same, any_pair - same], [SIMILAR, DISSIMILAR], f"pairs({kind})")
    if kind == "comparison":
        first = np.tril(any_pair)  # class z of the first is no lower than w of the second
        return _comparison(first, shares)
    assert shares is not None
    letters = {"s": SIMILAR, "d": DISSIMILAR, "u": UNLABELED_PAIR}
    if sizes is None or len(sizes) != len(kind):
        raise InputError(f"sizes: expected {len(kind)} numbers, one for each of {kind!r}, got {sizes!r}")
    counts = np.array([checks.integer(n, "sizes", 1) for n in sizes], dtype=np.float64)
    alike = float((shares**2).sum())
    relation = {"s": same / alike, "d": (any_pair - same) / (1 - alike), "u": any_pair}
    of_members = {"s": shares**2 / alike, "d": shares * (1 - shares) / (1 - alike), "u": shares}
    weights = [n * relation[letter] for n, letter in zip(counts, kind, strict=True)]
    members = [of_members[letter] for letter in kind]
    return PairKernel(weights, [letters[x] for x in kind], f"pairs({kind})", [*members, *members], counts)


def _comparison(first: FloatArray, shares: FloatArray | None) -> PairKernel:
    members = None
    if shares is not None:
        joint = first * np.outer(shares, shares)
        joint /= joint.sum()
        members = [joint.sum(axis=1), joint.sum(axis=0), joint.sum(axis=0), joint.sum(axis=1)]
    sizes = None if members is None else [1.0, 1.0]
    return PairKernel([first, first.T], [FIRST, "second"], "pairs(comparison)", members, sizes)


def pair_prior(similar: float) -> FloatArray:
    """The class shares of a problem with two classes, from the share of similar pairs among all pairs.

    ``similar = pi^2 + (1 - pi)^2``, so ``pi = (1 + sqrt(2 similar - 1)) / 2``. Pairs do not tell which class has which
    share.

    Parameters
    ----------
    similar : float
        The share of pairs whose members are of the same class, at least 1/2.

    Returns
    -------
    (2,) array
        The class shares, the larger one first.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.pair_prior(0.58).round(6)
    array([0.7, 0.3])
    """
    share = checks.real(similar, "similar", 0, 1)
    if share < 0.5:
        raise InputError(
            f"similar: expected at least 1/2, as two classes have whatever their shares are, got {share:g}; by chance "
            "it may fall below: the shares are then near 1/2 each, and pairs cannot tell the classes apart"
        )
    larger = (1 + np.sqrt(2 * share - 1)) / 2
    return np.array([larger, 1 - larger])
