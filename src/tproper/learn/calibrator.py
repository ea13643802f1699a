"""Calibration by weak labels alone: a map of scores, chosen by the weak risk that it saves on labels it did not see.

calibrator = tp.calibrate(scores, weak_labels, transition)
calibrator.probabilities(new_scores)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, Labels, NotReconstructibleError, Split, checks, compact, group_codes, random_folds, warn
from ..errors import InputError
from ..metrics import Z95, Score, posteriors_of_labels, read_labels, weak_calibration, weights_of
from ..solvers import centred, cross_fit, forward_risk, matching_scale, row_risks
from ..transitions import Encoded, Reconstruction, Transition, TransitionLike, columns_in_order, make_transition
from .defaults import row_count, uneven
from .gain import gain_of, no_gain
from .scaling import (
    METHODS,
    MethodName,
    Scaling,
    fit_cautiously,
    fit_scaling,
    identity_scaling,
    parameters,
    softmax_above_zero,
)
from .shares import draw_to_shares

Inputs = Literal["scores", "probabilities"]
FEWEST_ROWS = 100  # below this a gain cannot be told from chance
MOST_ROWS = 20_000  # beyond this a map of a few numbers is known well enough
ROUNDING = 0.05  # of the sum of a row of probabilities
MATRIX_AT_MOST = 10  # classes: a matrix has K^2 parameters
# standard errors by which a temperature must beat the identity, and a richer map the simpler one. A temperature that
# was drawn towards one (`fit_cautiously`) is the better guess where held-out labels cannot tell: it stays unless they
# clearly speak against it. Biases lower the weak risk of a model that cannot be right (linear, positive-unlabeled)
# sooner than its clean one: by two standard errors a third of such fits took them, and were calibrated worse
CLEAR, CLEARER = -1.0, 3.0


@dataclass(frozen=True)
class Calibrator:
    """A fitted map from scores, or from probabilities, to calibrated probabilities, none of them exactly zero.

    Attributes
    ----------
    method : "identity", "temperature", "bias", "vector" or "matrix"
        What was chosen, or asked for.
    gain : Score
        The fall of the weak risk on labels that the map was not fitted to (cross-validation), with a 95% interval for
        the fall by the map that is kept (`tproper.learn.gain`; coverage: docs/coverage.md).
    temperature, bias, scale
        The map: ``softmax(scale v + bias)`` of centred scores v; `temperature` is one over the scale, where that is
        one number.
    tried : list of dicts
        Each method that was considered: its cross-validated weak risk, and its gain over the identity with its error.
    reliability : dict
        "before" and "after": the calibration error of the cross-validated probabilities, from weak labels, with
        intervals and the curve (`Calibration.to_dict`). Empty where T has no reconstruction.
    drawn : float
        How far probabilities are drawn to the shares of the classes: 0 not at all, 1 altogether (`learn.shares`).
    notes : list of str
        What a reader should know.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> v, labels = np.array([[2.0, 0.0], [0.0, 2.0]] * 100), [0, 1, 0, 1, 0, 0, 1, 1] * 25
    >>> found = tp.calibrate(v, labels, tp.identity(2), method="temperature")
    >>> found.method, found.probabilities(v[:2]).shape
    ('temperature', (2, 2))
    """

    method: MethodName
    map: Scaling
    inputs: Inputs
    floor: float
    gain: Score
    tried: list[dict[str, Any]] = field(default_factory=list)
    reliability: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    drawn: float = 0.0

    @property
    def num_classes(self) -> int:
        """K."""
        return len(self.map.bias)

    @property
    def is_identity(self) -> bool:
        """Whether scores stay as they are."""
        return self.method == "identity" and float(self.scale) == 1.0 and self.inputs == "scores"

    @property
    def scale(self) -> FloatArray:
        """The factor of the centred scores: a number, a vector (K,) or a matrix (K, K)."""
        return self.map.scale

    @property
    def bias(self) -> FloatArray:
        """What is added to them (K,)."""
        return self.map.bias

    @property
    def temperature(self) -> float | None:
        """What centred scores are divided by, infinite where they say nothing; None where classes have their own."""
        if self.scale.ndim:
            return None
        return 1.0 / float(self.scale) if float(self.scale) else math.inf

    def scores(self, scores: ArrayLike | Tensor) -> FloatArray:
        """Calibrated scores (n, K): their softmax is `probabilities`."""
        v = _as_scores(scores, self.num_classes)
        if self.inputs == "probabilities":
            if not _in_simplex(v):
                raise InputError("scores: expected class probabilities, as the calibrator was fitted to, got others")
            v = _log_floored(v, self.floor)
        elif _in_simplex(v):
            warn(
                "scores: expected scores, as the calibrator was fitted to, got what looks like probabilities; if they "
                "are, pass their logarithm, or fit the calibrator to probabilities",
            )
        return self.map(v)

    def probabilities(self, scores: ArrayLike | Tensor) -> FloatArray:
        """Calibrated class probabilities (n, K), of the kind of scores that the calibrator was fitted to."""
        return softmax_above_zero(self.scores(scores))

    def on_top_of(self, factor: float, note: str = "") -> Calibrator:
        """The same map of `factor` times the scores."""
        if factor == 1.0:
            return self
        method: MethodName = "temperature" if self.method == "identity" else self.method
        return replace(
            self,
            method=method,
            map=Scaling(self.scale * factor, self.bias),
            notes=[*self.notes, *([note] if note else [])],
        )

    def __str__(self) -> str:
        lines = [f"calibration: {self.method}" + (f" {self.temperature:.4g}" if self.method == "temperature" else "")]
        if math.isfinite(self.gain.stderr):
            lines.append(f"weak risk falls by {self.gain.value:.4g} (standard error {self.gain.stderr:.2g})")
        for when, measured in self.reliability.items():
            low, high = measured["interval"]
            lines.append(f"calibration error {when} {measured['value']:.4g} (95% interval {low:.4g} to {high:.4g})")
        return "\n".join(lines + self.notes)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON; `from_dict` reads them."""
        return {
            "method": self.method,
            "scale": self.scale.tolist(),
            "bias": self.bias.tolist(),
            "inputs": self.inputs,
            "floor": self.floor,
            "gain": self.gain.to_dict(),
            "tried": self.tried,
            "reliability": self.reliability,
            "notes": list(self.notes),
            "drawn": self.drawn,
        }

    @staticmethod
    def from_dict(data: Mapping[str, Any]) -> Calibrator:
        """The calibrator that `to_dict` described."""
        method, inputs, bias = data["method"], data["inputs"], np.asarray(data["bias"], dtype=np.float64)
        scale = np.asarray(data["scale"], dtype=np.float64)
        shapes = {"vector": bias.shape, "matrix": bias.shape * 2}
        if method not in METHODS or inputs not in ("scores", "probabilities"):
            raise InputError(f"method: expected one of {', '.join(METHODS)}, got {method!r} of {inputs!r}")
        if bias.ndim != 1 or len(bias) < 2 or scale.shape != shapes.get(method, ()):
            raise InputError(f"scale: expected one for {len(bias)} classes and {method!r}, got shape {scale.shape}")
        if not (np.isfinite(scale).all() and np.isfinite(bias).all()):
            raise InputError("scale: expected finite numbers, got others")
        gain = Score.from_dict(data["gain"])
        floor = checks.real(data["floor"], "floor", 0, 1)
        kept = [dict(t) for t in data["tried"]]
        drawn = checks.real(data.get("drawn", 0.0), "drawn", 0, 1)
        reliability, notes = dict(data["reliability"]), data["notes"]
        return Calibrator(method, Scaling(scale, bias), inputs, floor, gain, kept, reliability, notes, drawn)


def calibrate(
    scores: ArrayLike | Tensor,
    labels: Labels,
    transition: TransitionLike,
    method: str = "auto",
    *,
    inputs: str = "auto",
    sample_weight: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    progress: Callable[[float], None] | None = None,
) -> Calibrator:
    """Calibrate any model's scores by held-out weak labels: the forward risk ``-log (T softmax(g(v)))_y`` chooses g.

    The labels must not be those that the model was trained on: hold some out, or predict each row by a model that did
    not see it (``sklearn.model_selection.cross_val_predict``).

    Parameters
    ----------
    scores : (n, K) array or tensor
        Scores (logits), or probabilities: rows that lie in the simplex are taken for probabilities, and their logarithm
        is scaled. A probability of zero is mixed with the uniform distribution first (`Calibrator.floor`).
    labels : weak labels as the transition takes them
        One for each row.
    transition : Transition or text
        T; a text may leave the number of classes to the scores.
    method : "auto", "identity", "temperature", "bias", "vector" or "matrix"
        "auto" goes from simple to rich. A temperature, drawn towards one by its standard error, is taken unless it
        raises the cross-validated weak risk by more than one standard error of the paired difference; a richer map only
        if it lowers that risk by more than three. What few or very weak labels cannot tell is hardly changed.
    inputs : "auto", "scores" or "probabilities"
        What `scores` holds, where it should not be guessed.
    sample_weight : (n,) array, optional
        A row of weight two is fitted as if it stood there twice; weights that sum to less than n stand for n rows.
        Standard errors take it for one label that counts double, since repeating a label says nothing new: "auto" and
        `gain` are surer of rows that are repeated than of rows with weights.
    groups : (n,) array, optional
        Rows of one group are never on both sides of the cross-validation.
    progress : callable, optional
        Called with the share of the work that is done, from 0 to 1.

    Returns
    -------
    Calibrator
        ``.probabilities(scores)`` gives calibrated probabilities.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng, T = np.random.default_rng(0), tp.symmetric_noise(2, 0.2)
    >>> v = rng.normal(size=(3000, 2))
    >>> z = (rng.random(3000) < 1 / (1 + np.exp(v[:, 0] - v[:, 1]))).astype(int)
    >>> found = tp.calibrate(3 * v, T.sample(z, 1), T)  # three times too sure of itself
    >>> bool(2 < found.temperature < 4)
    True
    """
    if method != "auto" and method not in METHODS:
        raise InputError(f"method: expected 'auto' or one of {', '.join(METHODS)}, got {method!r}")
    v = _as_scores(scores, None)
    T = make_transition(transition, v.shape[1] if isinstance(transition, str) else None)
    K = T.num_classes
    read = read_labels(T, labels)
    v = _as_scores(columns_in_order(scores, read.space, "scores"), K)
    T, y = read.bare, read.labels
    if len(y) != len(v):
        raise InputError(f"labels: expected one for each of the {len(v)} rows of scores, got {len(y)}")
    w = np.where(read.missing, 0.0, row_counts(sample_weight, len(v)))
    if not w.any():
        raise InputError(f"labels: expected at least one row with a label and a weight, got none of {len(v)}")
    kind, floor = _kind(inputs, v), 0.0
    notes: list[str] = []
    if kind == "probabilities":
        if (v <= 0).any():
            floor = 1.0 / (len(v) + K)
            notes.append(f"probabilities of zero were mixed with the uniform distribution, {floor:.2g} of it")
        v = _log_floored(v, floor)
    out = fit_calibrator(v, y, T, w, method, group_codes(groups, len(v)), True, kind, floor, notes, progress)
    if progress is not None:
        progress(1.0)
    return out


def fit_calibrator(
    v: FloatArray,
    y: Tensor,
    T: Transition,
    w: FloatArray,
    method: str,
    groups: NDArray[np.int64] | None = None,
    cautious: bool = True,
    kind: Inputs = "scores",
    floor: float = 0.0,
    notes: Sequence[str] = (),
    progress: Callable[[float], None] | None = None,
) -> Calibrator:
    """`calibrate` for scores (n, K), encoded labels and counts that are known to be right.

    Without `cautious`, "auto" has no reason to stay near the scores as they are.
    """
    notes, K = list(notes), T.num_classes
    used = np.flatnonzero(w > 0)
    if len(used) > MOST_ROWS:
        used = used[np.linspace(0, len(used) - 1, MOST_ROWS).round().astype(np.int64)]
        notes.append(f"fitted to {MOST_ROWS} of {len(v)} rows, evenly spaced")
    v, y, w = v[used], y[torch.as_tensor(used)], w[used]
    plain = row_risks(T, y, v)
    if not np.isfinite(plain).all():
        row = int(used[np.flatnonzero(~np.isfinite(plain))[0]])
        raise InputError(f"labels: expected labels that can occur under the transition, got another at row {row}")
    says = _says_something(T, y)
    if not says.all():
        notes.append(f"{np.count_nonzero(~says)} of {len(says)} labels say nothing of the class and are left out")
        used, v, y, w = used[says], v[says], y[torch.as_tensor(says)], w[says]
        if not len(v):
            return Calibrator("identity", identity_scaling(K), kind, floor, no_gain(0), notes=notes)
    splits = folds(len(v), None if groups is None else groups[used])
    own = None if groups is None else compact(groups[used])
    maps = _Maps(v, y, T, w, splits, cautious and method == "auto", own, progress)
    return _chosen(method, maps, kind, floor, notes)


def _says_something(T: Transition, y: Tensor) -> NDArray[np.bool_]:
    """Rows whose label is likelier for some classes than for others; the risk of the rest is the same for every p."""
    n = len(y)
    _, gradient = forward_risk(T, y, np.full(n, 1.0 / n))(np.zeros((T.num_classes, n)))  # (1/K - q) / n
    return np.abs(gradient).max(axis=0) * n > 1e-12


def method_of(setting: Any) -> str | None:
    """The method that an estimator's `calibrate` stands for; None for none."""
    if setting is None or (isinstance(setting, (bool, np.bool_, int)) and setting in (0, 1)):
        return "auto" if setting else None
    if isinstance(setting, str) and (setting == "auto" or setting in METHODS):
        return setting
    expected = ", ".join(map(repr, METHODS))
    raise InputError(f"calibrate: expected 'auto', False or one of {expected}, got {setting!r}")


def identity_calibrator(num_classes: int, note: str) -> Calibrator:
    """Nothing changed, and why."""
    return Calibrator("identity", identity_scaling(num_classes), "scores", 0.0, no_gain(0), notes=[note])


# Chosen between 0 and a half with the sets of docs/estimation/real_sources.md in view
INDEPENDENT = 0.25  # probability that rules err independently of what the features say of the class


def as_sure_as_labels(scores: FloatArray, labels: Tensor, transition: Transition, weights: FloatArray) -> Calibrator:
    """The temperature at which held-out scores are as sure of the rows as their labels alone are.

    For labels that were made from the features: a model that sees them foretells the labels' errors too, so that no
    risk by labels can tell what it has learned of the class from what it has learned of them. The labels by themselves
    have the posteriors q by T; were they independent of the features given the class, both together would have
    ``g = softmax(log T[y] + v)``. The target t is q, and by a quarter g (`INDEPENDENT`), and
    ``-sum_z t_z log softmax(s v)_z`` is least at the scale s that is kept.
    """
    g = posteriors_of_labels(transition, labels, scores)
    q = (1 - INDEPENDENT) * posteriors_of_labels(transition, labels) + INDEPENDENT * g
    scale = matching_scale(scores, q, weights, limits=(-4.0, 4.0))
    note = (
        "hardly surer of held-out rows than their labels alone are: rules see the features, and every weak risk would "
        "call a sharper model better"
    )
    map_ = Scaling(np.array(scale), np.zeros(transition.num_classes))
    return Calibrator("temperature", map_, "scores", 0.0, no_gain(len(q)), notes=[note])


@dataclass
class _Maps:
    """Maps fitted to scores v (n, K), and what they make of rows that they were not fitted to."""

    v: FloatArray
    y: Tensor
    T: Transition
    w: FloatArray
    splits: list[Split]
    cautious: bool
    groups: NDArray[np.int64] | None = None  # rows that are not independent
    progress: Callable[[float], None] | None = None
    outside: dict[str, FloatArray] = field(default_factory=dict)  # cross-validated scores by method
    risks: dict[str, FloatArray] = field(default_factory=dict)  # their weak risks, row by row
    log_scales: dict[int, float] = field(default_factory=dict)  # of each fold's temperature: richer maps begin there

    def fit(self, name: MethodName, rows: Any = slice(None), log_scale: float | None = None) -> Scaling:
        """The map of this kind for these rows."""
        v, y, w = self.v[rows], self.y[rows], self.w[rows]
        if self.cautious and name == "temperature":
            own = None if self.groups is None else self.groups[rows]
            return fit_cautiously(v, y, self.T, w, float(w.sum() / self.w.sum()), own)
        return fit_scaling(name, v, y, self.T, w, log_scale)

    def validate(self, name: MethodName) -> None:
        """Cross-validate a method."""

        def mapped(f: int, train: NDArray[np.int64], test: NDArray[np.int64]) -> FloatArray:
            fitted = self.fit(name, train, self.log_scales.get(f))
            if name == "temperature":
                self.log_scales[f] = math.log(float(fitted.scale))
            return fitted(self.v[test])

        g = cross_fit(mapped, self.splits, len(self.v))
        self.outside[name], self.risks[name] = g, row_risks(self.T, self.y, g)
        if self.progress is not None:
            self.progress(len(self.risks) / (len(METHODS) + 1))  # and the measures of the one that is chosen

    def choose(self) -> MethodName:
        """The method with the least cross-validated risk, a richer one only for a clear gain."""
        choice: MethodName = "identity"
        for name in METHODS[1:]:
            K = self.T.num_classes
            if (name == "vector" and K == 2) or (name == "matrix" and K > MATRIX_AT_MOST):
                break  # of two classes only the difference of the scores counts: bias has all maps of it
            self.validate(name)
            fall, error = _mean(self.risks[choice] - self.risks[name], self.w, self.groups)
            clear = fall > (CLEAR if name == "temperature" else CLEARER) * error
            if name in ("vector", "matrix") and not clear:
                break  # the next one has still more to lose
            choice = name if clear else choice
        return choice


def _chosen(method: str, maps: _Maps, kind: Inputs, floor: float, notes: list[str]) -> Calibrator:
    """Cross-validate the methods in question, choose, fit the choice to all rows."""
    y, T, w = maps.y, maps.T, maps.w
    n, K = len(y), T.num_classes
    maps.validate("identity")
    rows = _worth(maps.risks["identity"], w, maps.groups)
    if rows < FEWEST_ROWS and method in ("auto", "identity"):
        worth = "rows are" if maps.groups is None else "rows, which is what these groups are worth, are"
        notes.append(f"{rows:.0f} {worth} too few to calibrate with (fewer than {FEWEST_ROWS})")
        return Calibrator("identity", identity_scaling(K), kind, floor, no_gain(n), notes=notes)
    choice: MethodName = "identity"
    if method == "auto":
        choice = maps.choose()
    elif method != "identity":
        choice = cast(MethodName, method)
        maps.validate(choice)
    final = maps.fit(choice)
    before, after, kept = maps.outside["identity"], maps.outside[choice], maps.risks[choice]
    drawn = 0.0
    R: Reconstruction | None
    try:
        R = T.reconstruction()
    except NotReconstructibleError:
        R = None  # nothing tells how good the model is
    if method == "auto":
        drawn, shares, others = draw_to_shares(after, y, T, w, maps.splits, R, maps.groups)
        if drawn > 0:
            of_model = (1 - drawn) * centred(after)
            kept = row_risks(T, y, of_model + drawn * others)
            # shares of a few rows fewer err the other way than the rows left out, which calibration would be blamed for
            after = of_model + drawn * np.log(shares)
            final = Scaling((1 - drawn) * final.scale, (1 - drawn) * final.bias + drawn * np.log(shares))
            choice = "bias" if final.scale.ndim == 0 else choice
            notes.append(
                f"drawn to the shares of the classes by {drawn:.0%}: labels do not show that the model knows more, so "
                "probabilities say no more"
            )
    validated, _ = _mean(maps.risks["identity"] - kept, w)
    choices = int(method == "auto") + int(drawn > 0)
    gain = gain_of(T, y, before, final(maps.v), w, validated, parameters(choice, K), choices, maps.groups)
    if method == "auto" and choice == "identity":
        notes.append("no map lowers the weak risk clearly: none was taken")
    if gain.value + Z95 * gain.stderr < 0:
        notes.append(f"{choice} scaling was asked for, although it raises the weak risk on labels it was not fitted to")
    if R is None:
        notes.append("no calibration error: the transition has no reconstruction")
    reliability = {} if R is None else _reliability(y, before, after, T, R, w, maps.groups)
    return Calibrator(
        choice, final, kind, floor, gain, _compared(maps.risks, w, maps.groups), reliability, notes, drawn
    )


def _worth(risks: FloatArray, w: FloatArray, groups: NDArray[np.int64] | None) -> float:
    """How many rows weights and groups stand for: groups as many as have the error of the mean risk, and no group less
    than one."""
    rows = float(w.sum() ** 2 / (w @ w))
    if groups is None:
        return rows
    alone, together = (_mean(risks, w, g)[1] ** 2 for g in (None, groups))
    least = float(w.sum() ** 2 / np.sum(np.bincount(groups, weights=w) ** 2))
    return max(least, rows * min(alone / together, 1.0)) if together > 0 else least


def _compared(risks: Mapping[str, FloatArray], w: FloatArray, groups: NDArray[np.int64] | None) -> list[dict[str, Any]]:
    """The cross-validated risk of each method, and its gain over the identity."""
    out = []
    for name, risk in risks.items():
        fall, error = _mean(risks["identity"] - risk, w, groups)
        out.append({"method": name, "weak_risk": _mean(risk, w)[0], "gain": fall, "gain_stderr": error})
    return out


def _reliability(
    y: Tensor,
    before: FloatArray,
    after: FloatArray,
    T: Transition,
    R: Reconstruction,
    w: FloatArray,
    groups: NDArray[np.int64] | None,
) -> dict[str, Any]:
    """Calibration of the cross-validated probabilities before and after, from weak labels."""
    out: dict[str, Any] = {}
    for when, g in (("before", before), ("after", after)):
        p = torch.softmax(torch.as_tensor(g), -1).numpy()
        of_rows = weak_calibration(Encoded(y), p, T, reconstruction=R, sample_weight=uneven(w), groups=groups)
        out[when] = of_rows.to_dict()
    return out


def folds(n: int, groups: NDArray[np.int64] | None = None, parts: int = 0) -> list[Split]:
    """Rows to fit and rows to score, in `parts` folds (0: as many as a map needs); the same for the same n.

    Groups stay whole.
    """
    if n < 2:
        return []
    return random_folds(n, min(n, parts or (5 if n <= 5000 else 3)), np.random.default_rng(0), compact(groups))


def _mean(values: FloatArray, w: FloatArray, groups: NDArray[np.int64] | None = None) -> tuple[float, float]:
    """Weighted mean and its standard error; rows of a group count by their sum."""
    share = w / w.sum()
    mean = float(share @ values)
    off = share * (values - mean)
    if groups is not None:
        off = np.bincount(groups, weights=off)
    return mean, float(np.sqrt(np.sum(off**2) * len(off) / max(len(off) - 1, 1)))


def row_counts(sample_weight: ArrayLike | None, n: int) -> FloatArray:
    """How many rows each of n rows stands for, by its weight."""
    w = weights_of(sample_weight, n)
    return np.ones(n) if w is None else w * (row_count(w) / w.sum())


def _as_scores(scores: ArrayLike | Tensor, K: int | None) -> FloatArray:
    given = checks.array(scores, "scores")
    if given.ndim == 1:  # as scikit-learn has them for two classes
        raise InputError(
            f"scores: expected shape (n, {K or 'K'}), rows x classes, got {given.shape}; for two classes pass "
            "np.c_[-v / 2, v / 2] of a decision function v, or np.c_[1 - p, p] of probabilities p of class 1"
        )
    v = checks.matrix(scores, "scores")
    if K is not None and v.shape[1] != K:
        raise InputError(f"scores: expected shape (n, {K}), rows x classes, got {v.shape}")
    return v


def _in_simplex(v: FloatArray) -> bool:
    """Rows of probabilities, as rounded as bfloat16 or a table of three digits holds them: maps take their logarithm,
    in which a sum other than one is a constant. Scores do not all come so close by chance."""
    return bool((v >= 0).all() and np.abs(v.sum(axis=1) - 1).max() <= ROUNDING)


def _kind(inputs: str, v: FloatArray) -> Inputs:
    if inputs == "auto":
        return "probabilities" if _in_simplex(v) else "scores"
    if inputs not in ("scores", "probabilities"):
        raise InputError(f"inputs: expected 'auto', 'scores' or 'probabilities', got {inputs!r}")
    if inputs == "probabilities" and not _in_simplex(v):
        raise InputError("scores: expected rows >= 0 that sum to 1 with inputs='probabilities', got others")
    return inputs  # type: ignore[return-value]


def _log_floored(p: FloatArray, floor: float) -> FloatArray:
    """``log((1 - floor) p + floor / K)``; what is still zero is given the smallest positive number."""
    mixed = (1 - floor) * p + floor / p.shape[1]
    return np.log(np.maximum(mixed, np.finfo(np.float64).tiny))
