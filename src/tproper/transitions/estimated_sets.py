"""Partial labels whose inclusion probability was estimated: candidate sets with the uncertainty of p."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._core import FloatArray, checks
from .dense import EstimatedTransition
from .families import partial_labels
from .posterior import Posterior
from .reconstruction import Reconstruction
from .sets import IndependentSets
from .shrinkage import beta_interval


@dataclass(frozen=True)
class FamilyTest:
    """One test of what the family says about candidate sets."""

    name: str
    p_value: float


class EstimatedPartialLabels(IndependentSets, EstimatedTransition):
    """`partial_labels(K, p)` with ``p ~ Beta(a, b)``; its estimate is the mean, ``a / (a + b)``.

    Everything of partial labels works without enumerating sets. `stderr`, `interval` and `samples` of the whole T
    enumerate them (up to 12 classes); `p_stderr`, `p_interval` and `rates` are those of p, for any K.
    """

    def __init__(
        self,
        num_classes: int,
        a: float,
        b: float,
        *,
        notes: Sequence[str] = (),
        flip_rates: FloatArray | None = None,
        tests: Sequence[FamilyTest] = (),
    ) -> None:
        self.a, self.b = checks.real(a, "a", 0, low_open=True), checks.real(b, "b", 0, low_open=True)
        base = partial_labels(num_classes, self.a / (self.a + self.b))
        super().__init__(base.log_weight, f"estimated {base.name}", base.num_weak_labels, self.a / (self.a + self.b))
        self.posterior: Posterior = PosteriorOfRate(self)
        self.notes, self.classifier = list(notes), None
        self.flip_rates = flip_rates  # (K,): P(class is a wrong candidate), each class by itself
        self.tests = list(tests)

    @property
    def p_stderr(self) -> float:
        """Posterior standard deviation of p."""
        return float(np.sqrt(self.p * (1 - self.p) / (self.a + self.b + 1)))

    def p_interval(self, level: float = 0.95) -> tuple[float, float]:
        """The central posterior interval of p."""
        low, high = beta_interval(self.a, self.b, (1 - checks.real(level, "level", 0, 1)) / 2)
        return float(low), float(high)

    def rates(self, n: int, seed: int | np.random.Generator = 0) -> FloatArray:
        """n posterior draws of p."""
        return np.random.default_rng(seed).beta(self.a, self.b, checks.integer(n, "n", 1))

    def describe(self, classes: Sequence[Any]) -> str:
        """p with its interval, the tests of the family, and the notes; all classes are alike."""
        low, high = self.p_interval()
        lines = [f"{self.name}: p = {self.p:.4f} (95% interval {low:.4f} to {high:.4f})"]
        lines += [f"{t.name}: p-value {t.p_value:.3g}" for t in self.tests]
        return "\n".join([*lines, *self.notes])


class PosteriorOfRate(Posterior):
    """That of T with ``p ~ Beta(a, b)``: candidate sets are listed, up to 12 classes, when it is asked."""

    def __init__(self, transition: EstimatedPartialLabels) -> None:
        self.transition = transition
        self.concentration = self.draws = self.counts = None

    @property
    def mean(self) -> FloatArray:  # type: ignore[override]
        """The estimate."""
        return self.transition.matrix()

    def samples(self, n: int, seed: int | np.random.Generator = 0) -> FloatArray:
        """T at draws of p."""
        T = self.transition
        masks = checks.masks_of_sets(T.candidate_sets(), T.num_classes)
        sizes = masks.sum(axis=1)
        p = T.rates(n, seed)[:, None]
        weight = p ** (sizes - 1) * (1 - p) ** (T.num_classes - sizes)  # (n, M)
        return weight[:, :, None] * masks

    def size_draws(self, count: int) -> FloatArray:
        """``|S| - 1`` is binomial."""
        from scipy.stats import binom  # scipy is imported where it is used

        K = self.transition.num_classes
        return np.asarray(binom.pmf(np.arange(-1, K), K - 1, self.transition.rates(count)[:, None]))

    def confusions(self, R: Reconstruction, count: int) -> FloatArray | None:
        """Where sets are too many to list."""
        return None if self.transition.listed else self.symmetric_confusions(R, count)

    def symmetric_confusions(self, R: Reconstruction, count: int) -> FloatArray:
        """``R T_s``, of which all classes are alike: one number for each draw is enough.

        The target of a set of size m holds the same ``u_m`` for each of its members, and the true class is one:
        the diagonal is the mean of ``u_m`` over ``m - 1 ~ Binomial(K - 1, p_s)``, and columns sum to one.
        """
        from scipy.special import gammaln, xlog1py, xlogy  # scipy is imported where it is used

        K = self.transition.num_classes
        others = np.arange(K)
        u = R.targets(np.tri(K, dtype=bool))[:, 0].numpy()  # row m - 1: the first m classes are candidates
        p = self.transition.rates(count)[:, None]
        log_choose = gammaln(K) - gammaln(others + 1) - gammaln(K - others)
        diagonal = np.exp(log_choose + xlogy(others, p) + xlog1py(K - 1 - others, -p)) @ u
        off = (1 - diagonal) / (K - 1)
        return np.asarray(off[:, None, None] + (diagonal - off)[:, None, None] * np.eye(K))
