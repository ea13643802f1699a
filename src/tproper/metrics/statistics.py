"""Means, standard errors and intervals for scores of weak labels: the statistics behind `metrics`.

A score of weak labels is a mean of ``g_i = <R e_{y_i}, s_i>``, where ``s_i`` holds the score that example i would
get under each class. The g are unbiased, yet far from normal: a complementary label over 10 classes turns
"correct or not" into 1 or -8, with -8 rare. The usual ``mean +- 1.96 stderr`` then misses, and where the rare label
did not turn up at all it collapses to a point. Two things put that right:

* the interval asks of every candidate mean what variance it would entail, as Wilson's interval does for a
  proportion, instead of taking the variance of the sample for all of them (`score_interval`);
* how variance goes with the mean is learned from the sample together with a reference: labels drawn from the
  model's own predictions and T, which holds the rare labels at their rates even where the sample holds none.

For T = I the interval of an accuracy is exactly Wilson's. All functions work along the last axis, so that a test
can run thousands of data sets at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import gammainc
from torch import Tensor

from .._core import FloatArray, Labels, checks, plain
from ..transitions import AnnotatorTransition, Reconstruction, Transition

Z95 = 1.959963984540054  # the 97.5% point of the normal distribution
LEVEL = 0.95
FEW = 30  # examples that all agree say nothing about spread when they are fewer
BLOCK = 1 << 22  # entries (examples x classes) handled at a time
REFERENCE_DRAWS = 512  # at least this many reference labels ...
REFERENCE_ROWS = 4096  # ... from at most this many examples: beyond, the correction is too small to matter

Values = Callable[[Tensor], Tensor]  # example indices (m,) -> one value per class (m, K)


@dataclass(frozen=True)
class Score:
    """An estimate with its uncertainty. ``float(score)`` is its value; it prints as one line."""

    name: str
    value: float
    stderr: float
    interval: tuple[float, float]  # 95%
    n: int
    informative: bool = True
    note: str = ""

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        low, high = self.interval
        line = f"{self.name} {self.value:.4g} (95% interval {low:.4g} to {high:.4g}, n = {self.n})"
        return line + (f"; {self.note}" if self.note else "")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: infinities are the texts "inf" and "-inf", NaN is None."""
        return dict(plain(asdict(self)))


class Reweigher:
    """``<R e_y, values>`` for batches of examples, in blocks: memory stays bounded whatever n and K are."""

    def __init__(self, transition: Transition, reconstruction: Reconstruction) -> None:
        self.transition = transition
        self.reconstruction = reconstruction
        # copies: the tables may be read-only views, which torch cannot share
        self.tables = {k: torch.as_tensor(np.array(a)) for k, a in reconstruction.tables().items()}

    def blocks(self, n: int) -> list[Tensor]:
        """Example indices, a block at a time."""
        return list(torch.arange(n).split(max(1, BLOCK // self.transition.num_classes)))

    def targets(self, labels: Tensor) -> Tensor:
        """The targets (m, K) of encoded labels."""
        return self.reconstruction._targets(labels, self.tables, torch.float64)

    def __call__(self, values: Values, labels: Tensor) -> FloatArray:
        """g (n,) for n encoded labels."""
        parts = [self.reconstruction.weigh(values(i), labels[i], self.tables) for i in self.blocks(len(labels))]
        return torch.cat(parts).numpy()

    def reference(
        self, values: Values, posterior: Values, batch: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """g of labels drawn from the model's own predictions, with importance weights; both (..., m).

        Classes are drawn half from `posterior`, half uniformly, and weighted back, so that the labels which are
        rare under the model are in the reference for certain, at their small weights.
        """
        n, K = batch[-1], self.transition.num_classes
        rows = np.unique(np.linspace(0, n - 1, min(n, REFERENCE_ROWS)).round().astype(np.int64))
        rows = np.tile(rows, -(-REFERENCE_DRAWS // len(rows)))
        sets = int(np.prod(batch[:-1], dtype=np.int64))
        picked = torch.as_tensor((np.arange(sets)[:, None] * n + rows).reshape(-1))
        g, weight = [], []
        for part in self.blocks(len(picked)):
            i = picked[part]
            p = posterior(i)
            mixed = (p + 1.0 / K) / 2
            u = torch.as_tensor(rng.random((len(i), 1)))
            z = (mixed.cumsum(-1) < u).sum(-1, keepdim=True).clamp_max(K - 1)
            weight.append((p.gather(-1, z) / mixed.gather(-1, z))[:, 0].numpy())
            drawn = self.transition.encode(self.transition.sample(z[:, 0], rng), validate=False)
            g.append(self.reconstruction.weigh(values(i), drawn, self.tables).numpy())
        shape = (*batch[:-1], len(rows))
        return np.concatenate(g).reshape(shape), np.concatenate(weight).reshape(shape)


def encoded(transition: Transition, labels: Labels) -> Tensor:
    """Checked weak labels of n examples on the CPU: (n,) indices or (n, K) masks."""
    if not isinstance(labels, Tensor) and hasattr(labels, "to_numpy"):  # a pandas or polars column
        labels = labels.to_numpy()
    out = transition.encode(labels).cpu()
    if out.ndim != 1 + len(transition.label_shape):
        want = f"(n, {transition.num_classes}) candidate masks" if transition.per_class_labels else "(n,) labels"
        want = f"(n, {transition.label_shape[0]}) answers" if isinstance(transition, AnnotatorTransition) else want
        raise ValueError(f"labels: expected {want}, got shape {tuple(out.shape)}")
    return out


def moment_slope(g: FloatArray, weights: FloatArray, reference: FloatArray, shares: FloatArray) -> FloatArray:
    """How the second moment of g goes with its mean: ``Cov(g^2, g) / Var g``.

    Taken over the sample and the reference together, at equal weight. Where g has two values it is their sum,
    whatever the weights are: ``g^2 = (a + b) g - a b``.
    """
    ours = weights / weights.sum(-1, keepdims=True)
    theirs = shares / shares.sum(-1, keepdims=True)
    x = np.concatenate([g, reference], -1)
    w = np.concatenate([ours, theirs], -1) / 2
    d = x - (w * x).sum(-1, keepdims=True)
    variance = (w * d * d).sum(-1)
    flat = variance <= 1e-30 * (w * x * x).sum(-1)
    return np.where(flat, 0.0, (w * x * x * d).sum(-1) / np.where(flat, 1.0, variance))


class Estimate:
    """A weighted mean of g (..., n) with what is needed for intervals and tests.

    With weights a_i that sum to one, ``error^2 = sum a_i^2 (g_i - mean)^2`` estimates the variance of the mean. Its
    own error goes along with that of the mean: at a mean that is off by delta the variance is about

        V(delta) = error^2 + bend * delta - spread * delta^2,

    ``spread = sum a_i^2`` (1/n) and ``bend = (sum a^3 / sum a^2) (slope - 2 mean)``, `slope` being `moment_slope`. The
    interval holds every mean with ``delta^2 <= q^2 V(delta)``.
    """

    def __init__(self, g: FloatArray, weights: FloatArray, slope: FloatArray, student: bool) -> None:
        a = weights / weights.sum(-1, keepdims=True)
        self.mean = (a * g).sum(-1)
        self.spread = (a * a).sum(-1)
        population = (a * a * (g - self.mean[..., None]) ** 2).sum(-1)  # n in the denominator, as Wilson has it
        with np.errstate(divide="ignore", invalid="ignore"):
            self.stderr = np.sqrt(population / (1 - self.spread))  # n - 1, the unbiased one
        self.error2 = self.stderr**2 if student else population
        self.bend = (a**3).sum(-1) / self.spread * (slope - 2 * self.mean)
        self.quantile = student_quantile(1 / self.spread - 1) if student else np.full_like(self.mean, Z95)

    def interval(self) -> tuple[FloatArray, FloatArray]:
        """The two roots of ``delta^2 = q^2 V(delta)``."""
        q2 = self.quantile**2
        a, b, c = 1 + q2 * self.spread, q2 * self.bend, q2 * self.error2
        root = np.sqrt(b * b + 4 * a * c)
        return self.mean + (b - root) / (2 * a), self.mean + (b + root) / (2 * a)

    def statistic(self, null: float = 0.0) -> FloatArray:
        """How many standard errors, under the hypothesis that the mean is `null`, the estimate lies away from it."""
        delta = null - self.mean
        variance = self.error2 + self.bend * delta - self.spread * delta**2
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(
                variance > 0, -delta / np.sqrt(np.where(variance > 0, variance, 1.0)), -np.sign(delta) * np.inf
            )
        return np.where(delta == 0, 0.0, t)


def student_quantile(df: FloatArray) -> FloatArray:
    """The 97.5% point of Student's t."""
    from scipy.stats import t  # scipy.stats takes long to import, and only intervals need it

    return np.asarray(t.ppf((1 + LEVEL) / 2, np.maximum(df, 1e-3)))


def estimate(
    weigher: Reweigher,
    values: Values,
    posterior: Values,
    labels: Tensor,
    weights: FloatArray | None = None,
    batch: tuple[int, ...] | None = None,
    student: bool = True,
    seed: int = 0,
) -> Estimate:
    """Mean of ``<r_i, s_i>`` over examples, for scores `values` and a model's class probabilities `posterior`.

    `batch` (..., n) splits the examples into data sets that are handled side by side. The reference labels come
    from a generator with a fixed seed, so that the same data always give the same interval.
    """
    batch = (len(labels),) if batch is None else batch
    g = weigher(values, labels).reshape(batch)
    w = np.ones(batch) if weights is None else weights.reshape(batch)
    reference, shares = weigher.reference(values, posterior, batch, np.random.default_rng(seed))
    return Estimate(g, w, moment_slope(g, w, reference, shares), student)


class BinnedErrors:
    """Calibration errors ``d_b = accuracy - confidence`` in bins, from the sums of weights a, h = g - confidence.

    ``sum_b w_b d_b^2`` is estimated by ``sum_b w_b (d_b^2 - var_b)``: the square of a noisy difference is too large
    by its variance, which the spread within the bin shows. With weights known, this is unbiased; a bin with one
    example has no spread and is left out (it weighs 1/n).
    """

    def __init__(self, counts: FloatArray, a: FloatArray, a2: FloatArray, ah: FloatArray, a2h: FloatArray,
                 a2h2: FloatArray) -> None:  # fmt: skip
        used = counts >= 2
        safe = np.where(used, a, 1.0)
        self.counts = counts
        self.shares = a / a.sum(-1, keepdims=True)  # (..., B)
        self.difference = np.where(a > 0, ah / np.where(a > 0, a, 1.0), np.nan)
        d = np.where(used, ah / safe, 0.0)
        scatter = np.maximum(a2h2 - 2 * d * a2h + d * d * a2, 0.0)
        self.variance = np.where(used, scatter / safe**2 * counts / np.maximum(counts - 1, 1), np.nan)
        self._used, self._d, self._w = used, d, np.where(used, self.shares, 0.0)
        self.examples = counts.sum(-1)
        self.error = self._w * np.where(used, self.variance, 0.0)  # w_b var_b
        self.raw = (self._w * d * d).sum(-1)
        self.squared = self.raw - self.error.sum(-1)

    def stderr(self) -> FloatArray:
        """``Var = sum w^2 (4 d^2 var + 2 var^2)``, with d^2 freed of its own noise, and never below d = 0."""
        e = self.error
        d2 = self._w * self._d**2
        return np.sqrt(np.maximum((4 * d2 * e - 2 * e * e).sum(-1), (2 * e * e).sum(-1)))

    def interval(self, error: FloatArray | None = None) -> tuple[FloatArray, FloatArray]:
        """Every value of ``theta = sum w d^2 >= 0`` under which the observed ``sum w d^2`` is not among the extreme 5%.

        Given theta, the observed sum is a quadratic form in normal variables: its first three cumulants are those
        of a shifted gamma distribution, which is exact where ``w_b var_b`` is the same in all bins (a non-central
        chi-square, nearly). `error` replaces the bins' ``w_b var_b`` by better known ones.
        """
        e = np.where(self._used, self.error if error is None else error, 0.0)
        d2 = self._w * self._d**2
        total = d2.sum(-1, keepdims=True)
        profile = np.where(total > 0, d2 / np.where(total > 0, total, 1.0), self._w)  # how theta spreads over bins
        e1, e2, e3 = e.sum(-1), (e * e).sum(-1), (e**3).sum(-1)
        p1, p2 = (profile * e).sum(-1), (profile * e * e).sum(-1)
        w = np.where(self._w > 0, self._w, 1.0)
        sampling = np.maximum((profile**2 / w).sum(-1) - 1, 0) / np.maximum(self.examples, 1)  # w_b are random too

        def below(theta: FloatArray, raw: FloatArray = self.raw) -> FloatArray:
            k2 = 2 * e2 + 4 * theta * p1 + theta**2 * sampling
            k3 = 8 * e3 + 24 * theta * p2
            return _shifted_gamma(raw - theta - e1, k2, k3)

        top = np.full_like(self.raw, 0.0) + 4 * self.raw + 40 * e1
        low, high = (_falling_root(below, (1 + side * LEVEL) / 2, top) for side in (1, -1))
        # The sum is smaller than noise alone would make it: no theta fits, which is chance and not certainty. Then the
        # upper end is what a sum as large as the noise would give.
        none = below(np.zeros_like(top)) <= (1 - LEVEL) / 2
        if none.any():
            usual = np.maximum(self.raw, e1)
            high = np.where(none, _falling_root(lambda t: below(t, usual), (1 - LEVEL) / 2, top), high)
        unknown = ~self._used.any(-1) | ((e1 <= 0) & (self.examples < FEW))  # no spread was seen, so none is known
        return np.where(unknown, 0.0, low), np.where(unknown, 1.0, high)


def _shifted_gamma(x: FloatArray, k2: FloatArray, k3: FloatArray) -> FloatArray:
    """P(X <= x) for the gamma distribution, shifted to mean 0, with variance k2 and third cumulant k3."""
    certain = (k2 <= 0) | (k3 <= 0)
    k2, k3 = np.where(certain, 1.0, k2), np.where(certain, 1.0, k3)
    shape, scale = 4 * k2**3 / k3**2, k3 / (2 * k2)
    return np.where(certain, (x >= 0).astype(np.float64), gammainc(shape, np.maximum(x / scale + shape, 0.0)))


def _falling_root(f: Callable[[FloatArray], FloatArray], level: float, top: FloatArray) -> FloatArray:
    """theta in [0, top] where the falling f passes `level`; 0 where it starts below."""
    low, high = np.zeros_like(top), top.copy()
    for _ in range(20):  # widen until the root is inside
        high = np.where(f(high) > level, 2 * high + 1e-300, high)
    for _ in range(60):
        middle = (low + high) / 2
        above = f(middle) > level
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(f(np.zeros_like(top)) <= level, 0.0, high)


# -- inputs of the public functions --


def as_array(value: Any, name: str) -> np.ndarray:
    """Numbers from numpy, torch or lists; anything else is refused."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(f"{name}: expected an array of numbers with rows of equal length") from None


def predictions_of(value: Any, K: int, n: int, name: str = "predictions") -> Tensor:
    """Predicted classes (n,), checked."""
    array = as_array(value, name)
    if array.ndim != 1:
        hint = "; pass probabilities.argmax(axis=1)" if array.ndim == 2 else ""
        raise ValueError(f"{name}: expected predicted classes of shape ({n},), got shape {array.shape}{hint}")
    if array.dtype.kind == "f" and np.array_equal(array, np.floor(array)):  # NaN is not equal to itself
        array = array.astype(np.int64)
    out = checks.index_labels(array, K, name)
    if len(out) != n:
        raise ValueError(f"{name}: expected one predicted class for each of the {n} labels, got {len(out)}")
    return out


def probabilities_of(value: Any, K: int, n: int, name: str = "probabilities") -> Tensor:
    """Class probabilities (n, K), checked to sum to one."""
    array = as_array(value, name)
    if array.ndim != 2 or array.shape != (n, K):
        raise ValueError(f"{name}: expected shape ({n}, {K}), labels x classes, got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{name}: expected numbers, got dtype {array.dtype}")
    # rounding of a softmax in the caller's precision: 1e-6 in float64, 3e-4 in float32, .09 in bfloat16
    half = isinstance(value, Tensor) and value.dtype == torch.bfloat16
    eps = torch.finfo(torch.bfloat16).eps if half else np.finfo(array.dtype).eps if array.dtype.kind == "f" else 0.0
    tol = max(1e-6, math.sqrt(eps))
    q = array.astype(np.float64)
    if not np.isfinite(q).all():
        row, z = np.argwhere(~np.isfinite(q))[0]
        raise ValueError(f"{name}: expected finite numbers, got {q[row, z]} at row {row}, column {z}")
    if (q < 0).any():
        row, z = np.argwhere(q < 0)[0]
        raise ValueError(f"{name}: expected numbers >= 0, got {q[row, z]:g} at row {row}, column {z}")
    sums = q.sum(axis=1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > tol:
        raise ValueError(
            f"{name}: expected rows that sum to 1, got {sums[worst]:.9g} in row {worst}; "
            "pass class probabilities, such as loss.probabilities(scores), not scores"
        )
    return torch.as_tensor(q)


def heard(value: Any, weigher: Reweigher, labels: Tensor) -> FloatArray | None:
    """Example weights (n,), checked, or None; 0 for labels that say nothing (rows in which no annotator answered)."""
    w, silent = weights_of(value, len(labels)), weigher.reconstruction.silent(labels)
    if silent is None or not bool(silent.any()):
        return w
    w = np.where(silent.numpy(), 0.0, 1.0 if w is None else w)
    if w.sum() <= 0:
        raise ValueError(f"labels: expected at least one row with an answer that says something, got none of {len(w)}")
    return w


def weights_of(value: Any, n: int) -> FloatArray | None:
    """Example weights (n,), checked, or None."""
    if value is None:
        return None
    try:
        w = as_array(value, "sample_weight").astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight: expected {n} numbers, got {checks.short(value)}") from None
    if w.shape != (n,) or not np.isfinite(w).all() or (w < 0).any() or w.sum() <= 0:
        raise ValueError(f"sample_weight: expected {n} finite numbers >= 0 with a positive sum, got shape {w.shape}")
    return w


def setup(
    labels: Labels, transition: Transition, reconstruction: str | Reconstruction, prior: ArrayLike | None
) -> tuple[Reweigher, Tensor]:
    """The reweigher of a transition, and the encoded labels."""
    if not isinstance(transition, Transition):
        raise ValueError(f"transition: expected a tproper.Transition, got {type(transition).__name__}")
    weigher = Reweigher(transition, transition.reconstruction(reconstruction, prior))
    return weigher, encoded(transition, labels)
