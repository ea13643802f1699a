"""Certificates: is a loss proper, is it bounded from below, and what shows it.

* Lower bounds are exact: ``inf_v lambda_{F,R}(v, y) = -F*(R e_y)`` (Proposition 14).
* Boundedness is decided exactly: for potentials whose conjugate lives on the simplex it is membership of ``R e_y`` in
  the simplex; at alpha = 1 it is ``k >= k*``; for alpha > 1 and affine potentials it always holds (Corollary 15).
* Where a loss is unbounded a witness is given: a direction of scores along which it falls, and the slope.
* Properness follows from Theorem 7, strictness from Appendix D and the rank of T.

For a loss that is only a function, the verdict is numerical, with a counterexample where it fails.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from .._core import ByValue, FloatArray, checks, critical_k_of, in_simplex, plain, simplex_threshold
from ..errors import InputError
from ..losses import (
    AtLeastOneLoss,
    BackwardLoss,
    BagCountLoss,
    BatchRiskLoss,
    Bounds,
    ForwardBackwardLoss,
    ForwardLoss,
    PairLoss,
    WeakLabelLoss,
    certificate_of,
    kinds_of,
    unknown,
    weighted,
)
from ..potentials import BayesRisk, Potential, Squeezed
from ..transitions import Kinds, Reconstruction, Transition, read_transition
from .probing import probe_callable, strictness, violates_convexity

MOST_ASKED = 100  # kinds of labels among which the steepest fall is sought


@dataclass(frozen=True, eq=False)
class Witness(ByValue):
    """Why a loss has no lower bound: a ray of scores along which it falls forever. `Certificate.witness` has one.

    Attributes
    ----------
    direction : (K,) array
        Along the scores ``t * direction`` the loss falls like ``slope * t``.
    slope : float
        Negative.
    label : str
        The weak label whose loss falls.

    Examples
    --------
    >>> import tproper as tp
    >>> witness = tp.BackwardLoss(tp.complementary(3)).certify().witness
    >>> witness.slope < 0
    True
    """

    direction: FloatArray
    slope: float
    label: str
    kind: int = 0  # of the certificate's `groups`, which the label is

    def __str__(self) -> str:
        shown = np.array2string(self.direction, precision=4, suppress_small=True, threshold=8)
        return f"{self.label}: along scores t * {shown} the loss falls by {-self.slope:.4g} per unit of t"


@dataclass(frozen=True, eq=False)
class Certificate(ByValue):
    """What is known about a loss, and how. `certify` makes it; it prints as a table, and ``to_dict()`` is for JSON.

    Attributes
    ----------
    reconstructible : bool
        Whether some R has R T = I.
    proper, strictly_proper : bool
        Whether the true class probabilities have the least expected loss, and they alone.
    lower_bounded : bool
        Whether every label's loss is bounded from below.
    bounds : (M,) array
        The greatest lower bound of each weak label, ``-inf`` where there is none (``-F*(R e_y)``, Proposition 14).
    witness : Witness or None
        A direction along which an unbounded loss falls.
    evidence : "exact" or "numerical"
        Proven by formula, or searched for.
    notes : tuple of str
        What a reader should know.

    Examples
    --------
    >>> import tproper as tp
    >>> found = tp.certify(tp.BackwardLoss(tp.complementary(3), squeeze=(1.0, 2.0)))
    >>> found.strictly_proper, found.lower_bounded, found.evidence
    (True, True, 'exact')
    """

    loss: str
    transition: str
    reconstructible: bool
    proper: bool
    strictly_proper: bool
    lower_bounded: bool
    # one per weak label (per set size for candidate sets of more than 12 classes); where answers may be missing, one
    # more: the least of all incomplete rows
    bounds: FloatArray
    witness: Witness | None
    evidence: Literal["exact", "numerical"]
    notes: tuple[str, ...] = ()
    counterexample: Mapping[str, Any] | None = None
    groups: tuple[tuple[str, float], ...] = field(default=(), repr=False)  # (kind of label, its bound)
    searched: bool = False  # bounds are the smallest values that a search found, which proves no bound

    def to_dict(self, most: int | None = None) -> dict[str, Any]:
        """Plain values; "inf" and "-inf" as text, for JSON. Arrays of more than `most` numbers are summed up."""
        out = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "groups"}
        out["witness"] = None if self.witness is None else asdict(self.witness)
        out["counterexample"] = None if self.counterexample is None else _rounded(self.counterexample)
        return dict(plain(out, most))

    def __str__(self) -> str:
        title = f"{self.loss}, {self.transition}"
        worst = float(np.min([b for _, b in self.groups])) if self.groups else -math.inf
        rows = [
            ("reconstructible", _yes(self.reconstructible)),
            ("T-proper", _yes(self.proper)),
            ("strictly T-proper", _yes(self.strictly_proper)),
            ("bounded from below", self._bounded(worst)),
            ("evidence", self.evidence),
        ]
        lines = [title, "-" * len(title), *(f"{k:<20}{v}" for k, v in rows)]
        if len(self.groups) > 1:
            lines.append("lower bounds")
            shown = self.groups if len(self.groups) <= 12 else (*self.groups[:8], *self.groups[-2:])
            for i, (name, bound) in enumerate(shown):
                if len(self.groups) > 12 and i == 8:
                    lines.append(f"  ... {len(self.groups) - 10} more")
                lines.append(f"  {name:<24}{bound:.6g}")
        if self.witness is not None:
            lines.append(f"witness  {self.witness}")
        if self.counterexample is not None:
            lines.append(f"counterexample  {_rounded(self.counterexample)}")
        lines += [f"note  {n}" for n in self.notes]
        return "\n".join(lines)

    def _bounded(self, worst: float) -> str:
        if not self.lower_bounded:
            return "NO"
        if math.isnan(worst):
            return "yes, by a bound that is not computed"
        return f"no fall found; smallest value found {worst:.6g}" if self.searched else f"yes, by {worst:.6g}"


def _yes(flag: bool) -> str:
    return "yes" if flag else "NO"


def _rounded(d: Mapping[str, Any]) -> dict[str, Any]:
    return {k: (np.round(v, 6).tolist() if isinstance(v, np.ndarray) else v) for k, v in d.items()}


def certify(
    loss: WeakLabelLoss | Callable[[Tensor], Tensor], transition: Transition | str | None = None, seed: int = 0
) -> Certificate:
    """Decide whether a loss is proper and bounded from below: the same answer as that of ``loss.certify()``.

    Parameters
    ----------
    loss : a tproper loss, one that `tproper.losses.certificate_of` knows, or a callable
        A callable maps class probabilities (n, K) to the losses of all weak labels (n, M); it is decided numerically,
        as is a subclass of a loss that computes something else.
    transition : Transition or text
        Needed with a callable only.
    seed : int
        For the numerical search.

    Returns
    -------
    Certificate
        Prints as a table.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.certify(tp.BackwardLoss(tp.symmetric_noise(3, 0.3))).lower_bounded
    False
    >>> tp.certify(lambda q: -q.log(), tp.identity(3)).proper
    True
    """
    checks.integer(seed, "seed", 0)
    own = getattr(loss, "certify", None)
    registered = certificate_of.dispatch(type(loss)) is not certificate_of.dispatch(object)
    if registered or (isinstance(loss, nn.Module) and callable(own)):
        if transition is not None:
            raise InputError("transition: expected None, since a tproper loss knows its own")
        settings = {"seed": seed} if seed else {}
        out: Certificate = certificate_of(loss, **settings) if registered else own(**settings)  # type: ignore[misc]
        return out
    if not callable(loss):
        raise InputError(f"loss: expected a tproper loss or a callable on probabilities, got {type(loss).__name__}")
    if transition is None:
        raise InputError("transition: expected the Transition that the callable loss is for, got none")
    return _certify_callable(loss, read_transition(transition), seed)


@certificate_of.register
def _certify_backward(loss: BackwardLoss, seed: int = 0) -> Certificate:
    if not loss.is_as_written(BackwardLoss):
        return _certify_as_it_computes(loss, seed)
    F, R = loss.potential, loss.reconstruction
    notes: list[str] = []
    counterexample = None
    proper, strict = F.proper, F.proper and F.strictly_proper
    if F.evidence == "numerical":
        counterexample = violates_convexity(F, loss.transition.num_classes, seed)
        if counterexample is not None:
            proper = strict = False
            notes.append(
                "S is not convex, so Theorem 4 does not apply"
                if isinstance(F, BayesRisk)
                else "F is not convex (or F - max v falls without end), so Theorem 5 does not apply"
            )
        elif strict:
            strict, counterexample = strictness(F, loss.transition.num_classes, seed, notes)
    if not F.strictly_proper and F.proper:
        notes.append("F* is not strictly convex on the simplex: different probabilities share a minimiser (Appendix D)")
    if isinstance(F, Squeezed) and F.k > 0 and F.alpha < 1:
        notes.append("alpha < 1: F is not convex, and v = 0 is optimal for many different probabilities")
    if isinstance(F, Squeezed) and F.k >= 1 and F.alpha == 1:
        notes.append("alpha = 1 and k >= 1: v = 0 is optimal for every p, so nothing can be learned")
    if F.radius < math.inf:
        notes.append(
            f"F is infinite at centred scores of a norm above {F.radius:g}, without a gradient that leads back: keep "
            "scores inside"
        )
    w = loss.weights_of_classes()
    if w is not None:
        proper = strict = False
        notes.append("class weights: the minimiser is the posterior under the re-weighted class prior, not p itself")
    kinds = kinds_of(F, R, w)
    try:
        known = loss.bounds()
    except ValueError as failure:
        if F.proper and counterexample is None:
            raise
        notes.append(str(failure))  # the search for a maximum relies on convexity: without it a failure is a note
        known = unknown(kinds)
    values = known.values
    notes += known.notes
    witness = _witness(F, kinds, values, w, notes)
    if not np.isfinite(values).all() and w is None and F.domain == "simplex":
        notes.append("targets leave the simplex, where F* is infinite; squeeze F, or use Brier(), or ForwardLoss")
    exact = F.evidence == "exact" and not (isinstance(F, Squeezed) and F.alpha < 1)
    return Certificate(
        loss=f"BackwardLoss with {F.name}",
        transition=loss.transition.name,
        reconstructible=True,  # R exists
        proper=proper,
        strictly_proper=strict,
        lower_bounded=bool((values > -math.inf).all()) or (F.proper and not np.isneginf(values).any()),
        bounds=_with_incomplete(known),
        witness=witness,
        evidence="exact" if exact and not np.isnan(values).any() else "numerical",
        notes=tuple(notes),
        counterexample=counterexample,
        groups=_groups(known),
    )


def _groups(known: Bounds) -> tuple[tuple[str, float], ...]:
    return tuple(zip(known.names, map(float, known.values), strict=True))


def _with_incomplete(known: Bounds) -> FloatArray:
    """The bounds of T's rows, and after them that of rows of answers with gaps, where they may be passed."""
    return known.rows if known.incomplete is None else np.append(known.rows, known.incomplete)


def _witness(
    F: Potential, kinds: Kinds, values: FloatArray, weights: FloatArray | None, notes: list[str]
) -> Witness | None:
    """The steepest descent ray, at unit scale ||v||_1 = 2, of the most unbounded kind of label.

    Every F whose conjugate lives on the simplex has recession function max v. With U the entries of r above its
    simplex threshold tau and m its smallest entry, ``v = 1_U/|U| - e_m`` has ``<r, v> - max v = tau - r_m = k*``:
    the dual solution of the linear program behind `critical_k`. Squeezing with alpha = 1 adds k to the slope.

    With class weights the target w r sums to s: for s > 0 the loss is s times that of the target w r / s. For s <= 0 it
    is concave, and falls from the smallest entry of w r towards the largest. Where F grows faster than its scores
    (affine, or squeezed with alpha > 1), no slope describes how fast it falls, and there is no witness.
    """
    unbounded = np.flatnonzero(np.isneginf(values))
    if len(unbounded) == 0:
        return None
    y, r, s = _steepest(kinds, unbounded, weights)
    direction = np.zeros(len(r))
    if s > 0:
        above = r / s > float(simplex_threshold(torch.as_tensor(r / s)))
        direction = above / above.sum()
    else:
        direction[r.argmax()] = 1.0
    direction[r.argmin()] -= 1.0
    growth = s * float(F.recession(torch.as_tensor(direction))) if s != 0 else 0.0
    if not math.isfinite(growth):
        return None
    witness = Witness(direction, growth - float(direction @ r), kinds.names[y], y)
    if s > 0 and not _walks_down(F, witness, r, s):
        notes.append(f"{witness.label}: no ray was found along which the loss falls, though its bound is -inf")
        return None
    return witness


def _steepest(kinds: Kinds, unbounded: np.ndarray, weights: FloatArray | None) -> tuple[int, FloatArray, float]:
    """The kind whose loss falls most steeply, its target and the target's sum.

    Of thousands of them a few hundred, evenly spread, stand for all.
    """
    some = unbounded[np.linspace(0, len(unbounded) - 1, min(len(unbounded), MOST_ASKED)).astype(int)]
    parts = [weighted(kinds.targets(slice(i, i + 1)), weights) for i in some]
    r, s = (np.concatenate(x) for x in zip(*parts, strict=True))
    steep = np.where(s > 0, s * critical_k_of(r / np.where(s > 0, s, 1.0)[:, None]), np.ptp(r, axis=1))
    best = int(steep.argmax())
    return int(some[best]), r[best], float(s[best])


def _walks_down(F: Potential, witness: Witness, r: FloatArray, s: float) -> bool:
    """Whether ``s F(t v) - t <r, v>`` falls along the witness at its slope: walked before it is printed."""
    t = torch.tensor([[1e3], [2e3], [4e3]], dtype=torch.float64)
    v = t * torch.as_tensor(witness.direction)
    values = s * F.value(v) - v @ torch.as_tensor(r)
    slopes = torch.diff(values) / torch.diff(t[:, 0])
    rounding = 1e-9 * (1 + float(np.abs(r).max()))
    return bool((slopes <= 0.5 * witness.slope + rounding).all())


@certificate_of.register
def _certify_forward(loss: ForwardLoss, seed: int = 0) -> Certificate:
    if not loss.is_as_written(ForwardLoss):
        return _certify_as_it_computes(loss, seed)
    diagnosis = loss.transition.diagnose()
    known = loss.bounds()
    notes = [] if diagnosis.reconstructible else [f"not strict: {diagnosis.confusion()} cannot be told apart"]
    if not loss.score.strictly_proper:
        notes.append(f"not strict: the score {loss.score.name} gives different distributions the same loss")
    if loss.score.evidence == "numerical":
        notes.append(f"the bounds of the score {loss.score.name} were searched for; the loss is never below 0")
    if np.isposinf(known.rows).any():
        notes.append("labels that never occur have the bound inf")
    if known.incomplete is not None:
        notes.append("a row of answers has loss >= 0 however many of them are missing; 0 where all are")
    return Certificate(
        loss="ForwardLoss" if loss.score.name == "log" else f"ForwardLoss with the score {loss.score.name}",
        transition=loss.transition.name,
        reconstructible=diagnosis.reconstructible,
        proper=True,  # the score is proper on weak labels, and p = q minimises E l(T q, y) whatever T is
        strictly_proper=diagnosis.reconstructible and loss.score.strictly_proper,
        lower_bounded=True,
        bounds=_with_incomplete(known),
        witness=None,
        evidence=loss.score.evidence,
        notes=tuple(notes),
        groups=_groups(known),
    )


@certificate_of.register
def _certify_forward_backward(loss: ForwardBackwardLoss, seed: int = 0) -> Certificate:
    if not loss.is_as_written(ForwardBackwardLoss):
        return _certify_as_it_computes(loss, seed)
    known = loss.bounds()
    strict = bool(np.linalg.matrix_rank(loss.middle) == loss.transition.num_classes)
    notes = ["proper because B T = F; sets of classes decide whether it is bounded, and the values are searched for"]
    if not strict:
        notes.append("not strict: F does not have full rank")
    return Certificate(
        loss="ForwardBackwardLoss",
        transition=loss.transition.name,
        reconstructible=True,
        proper=True,
        strictly_proper=strict,
        lower_bounded=bool(np.isfinite(known.rows).all()),
        bounds=known.rows,
        witness=None,
        evidence="numerical",
        notes=tuple(notes),
        groups=_groups(known),
    )


NOT_CLAIMED = "nothing is claimed of strictness, nor of R: the label speaks of several examples at once"
MEMBERS = "given all members, whose classes are independent given their features"
ANY_BAG = (("any bag", 0.0),)  # reached by members that are certain


@certificate_of.register
def _certify_pairs(loss: PairLoss, seed: int = 0) -> Certificate:
    kernel, bounds = loss.kernel, loss.lower_bounds()
    notes = ["the log score of the label's probability given both examples, which are independent", NOT_CLAIMED]
    if kernel.num_classes <= 8:
        same = len(kernel.symmetries())
        if same > 1:
            notes.append(f"classes are found up to a renaming: {same} leave these labels' probabilities as they are")
    groups = tuple((f"label {name}", float(b)) for name, b in zip(kernel.names, bounds, strict=True))
    return _of_a_log_score("PairLoss", kernel.name, notes, groups)


@certificate_of.register
def _certify_counts(loss: BagCountLoss, seed: int = 0) -> Certificate:
    notes = [f"the log score of the counts' probability {MEMBERS}", NOT_CLAIMED]
    return _of_a_log_score("BagCountLoss", "numbers of each class in a bag", notes, ANY_BAG)


@certificate_of.register
def _certify_at_least_one(loss: AtLeastOneLoss, seed: int = 0) -> Certificate:
    notes = [f"the log score of the label's probability {MEMBERS}", NOT_CLAIMED]
    return _of_a_log_score("AtLeastOneLoss", "whether some member of a bag is positive", notes, ANY_BAG)


def _of_a_log_score(name: str, labels: str, notes: Sequence[str], groups: tuple[tuple[str, float], ...]) -> Certificate:
    """A log score of labels of several examples, with the bound of each kind of label."""
    return Certificate(
        loss=name,
        transition=labels,
        reconstructible=False,
        proper=True,
        strictly_proper=False,
        lower_bounded=True,
        bounds=np.array([bound for _, bound in groups]),
        witness=None,
        evidence="exact",
        notes=tuple(notes),
        groups=groups,
    )


@certificate_of.register
def _certify_batch(loss: BatchRiskLoss, seed: int = 0) -> Certificate:
    known = loss.bounds()
    if np.isnan(known.rows).any():
        raise InputError(
            f"loss: expected GradientAscentLoss or NonNegativeLoss as they are, got {type(loss).__name__}, which "
            "computes something else; certificate_of.register a function for it"
        )
    plain = bool(in_simplex(loss.reconstruction.kinds().all()).all())  # then no class risk is ever negative
    note = "proper only in the limit of infinite batches, where it equals backward-corrected cross entropy"
    if plain:
        note = "targets are probabilities, so the loss equals backward-corrected cross entropy"
    return Certificate(
        loss=type(loss).__name__,
        transition=loss.transition.name,
        reconstructible=True,
        proper=plain,
        strictly_proper=plain,
        lower_bounded=True,
        bounds=known.rows,
        witness=None,
        evidence="exact",
        notes=(note, "the bound is that of a whole batch"),
        groups=_groups(known),
    )


@certificate_of.register
def _certify_as_it_computes(loss: WeakLabelLoss, seed: int = 0) -> Certificate:
    """A loss of which no theorem speaks, decided numerically: its table of all weak labels over probabilities."""
    T, name = loss.transition, type(loss).__name__
    try:
        labels = T.encode(T.weak_labels if T.label_shape else list(range(T.num_weak_labels)))
    except ValueError:
        raise InputError(
            f"loss: expected weak labels that can be listed for the numerical verdict on {name}, got {T.name}; "
            "certificate_of.register a function for it"
        ) from None
    some = torch.as_tensor(np.random.default_rng(seed).dirichlet(np.full(T.num_classes, 3.0), 5))
    if not torch.allclose(loss.probabilities(loss.scores_of(some)), some, atol=1e-6):
        raise InputError(
            f"loss: expected scores_of to give scores whose probabilities are p for the numerical verdict on {name}, "
            "got others; define scores_of, or certificate_of.register a function"
        )

    each = copy.copy(loss)
    each.reduction = "none"

    def table(q: Tensor) -> Tensor:
        n, M = len(q), len(labels)
        scores = loss.scores_of(q)[:, None].expand(n, M, -1).reshape(n * M, -1)
        with torch.no_grad():
            out: Tensor = each(scores, labels.repeat(n, *[1] * (labels.ndim - 1)))
        return out.reshape(n, M)

    out = replace(_certify_callable(table, T, seed), loss=name)
    if loss.bounds_are_of(BackwardLoss) or loss.bounds_are_of(ForwardLoss):
        return out
    known = loss.bounds()
    note = f"bounds are those that {name} states"
    return replace(out, bounds=known.rows, groups=_groups(known), searched=False, notes=(out.notes[0], note))


def _certify_callable(loss: Callable[[Tensor], Tensor], transition: Transition, seed: int) -> Certificate:
    verdict = probe_callable(loss, transition, seed)
    names = [f"label {name}" for name in transition.weak_labels]
    direction, slope, y = verdict.ray or (None, 0.0, 0)
    return Certificate(
        loss=getattr(loss, "__name__", type(loss).__name__),
        transition=transition.name,
        reconstructible=transition.diagnose().reconstructible,
        proper=verdict.proper,
        strictly_proper=verdict.strictly_proper,
        lower_bounded=bool((verdict.bounds > -math.inf).all()),
        bounds=verdict.bounds,
        witness=None if direction is None else Witness(direction, slope, names[y], y),
        evidence="numerical",
        notes=(
            "verdict by search: a no is proved by its counterexample, a yes is the absence of one",
            "bounds are the smallest values that a search found, not proven infima",
        ),
        counterexample=verdict.counterexample,
        groups=tuple(zip(names, map(float, verdict.bounds), strict=True)),
        searched=True,
    )


def critical_k(transition: Transition | str, reconstruction: str | Reconstruction = "auto") -> FloatArray:
    """The smallest k, for each weak label, at which squeezing cross entropy with alpha = 1 is bounded from below.

    ``k*(r) = min over p in the simplex of max(r - p) - min(r - p)`` at the target r = R e_y; in closed form
    ``tau - min(min r, 0)``, tau the simplex threshold of r. Zero iff the target is a probability vector.

    Parameters
    ----------
    transition : Transition or text
        T.
    reconstruction : str or Reconstruction
        R, or how to choose it.

    Returns
    -------
    (M,) array
        For candidate sets of more than 12 classes one number for each size of set.

    Examples
    --------
    >>> import tproper as tp
    >>> tp.critical_k(tp.complementary(4)).round(6)  # K (K - 2) / (K - 1)
    array([2.666667, 2.666667, 2.666667, 2.666667])
    """
    R = read_transition(transition).reconstruction(reconstruction)
    kinds = R.kinds()
    return kinds.spread(critical_k_of(kinds.all()))


@dataclass(frozen=True, eq=False)
class Decomposition(ByValue):
    """A T-proper loss in three parts: ``l_W(q, y) = F(v) - (R^T v)_y + Delta_y`` at each point q. `decompose` makes it.

    Attributes
    ----------
    scores : (n, K) array
        v.
    potential : (n,) array
        F(v).
    reconstruction : Reconstruction
        R.
    delta : (n, M) array
        The part in the cokernel of T: its mean is 0 whatever the class.
    residual : float
        How far the sum of the parts is from the loss.
    violation : float or None
        How much the loss breaks properness on the points; None where there were none.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> parts = tp.decompose(-np.log([[0.5, 0.5], [0.9, 0.1]]), tp.identity(2))
    >>> bool(parts.residual < 1e-12), parts.delta.shape
    (True, (2, 2))
    """

    scores: FloatArray  # (n, K): v, centred
    potential: FloatArray  # (n,): F(v)
    reconstruction: Reconstruction
    delta: FloatArray  # (n, M): the cokernel part
    residual: float  # max |T^T Delta|: zero up to rounding, whatever the loss
    violation: float | None  # how far some q_j beats q_i under q_i (> 0: not proper); None without points

    def __str__(self) -> str:
        n, K = self.scores.shape
        size = float(np.abs(self.delta).max())
        part = "none" if size < 1e-9 else f"up to {size:.4g}; T^T Delta is at most {self.residual:.2g}"
        lines = [
            f"Theorem 7: loss = F(v) - R^T v + Delta, at {n} points, {K} classes, {self.delta.shape[1]} weak labels",
            f"  R          {self.reconstruction.method}, of {self.reconstruction.transition.name}",
            f"  F(v)       from {self.potential.min():.6g} to {self.potential.max():.6g}",
            f"  v          from {self.scores.min():.6g} to {self.scores.max():.6g}, centred",
            f"  Delta      {part}",
        ]
        if self.violation is not None:
            proper = f"NO: a wrong guess is better by {self.violation:.4g}"
            lines.append(f"  proper     {proper if self.violation > 1e-9 else 'yes, on these points'}")
        return "\n".join(lines)

    __repr__ = __str__


def decompose(
    loss_table: ArrayLike | Tensor | Callable[[Tensor], Tensor],
    transition: Transition | str,
    reconstruction: str | Reconstruction = "auto",
    points: ArrayLike | Tensor | None = None,
) -> Decomposition:
    """Split a T-proper loss into its potential, its reconstruction and a part that changes nothing (Theorem 7).

    The supervised loss ``l(q, z) = sum_y T_yz l_W(q, y)`` is proper; its dual representation is
    ``F(v) = mean_z l(q, z)`` and ``v = F(v) - l(q, .)``. The part of l_W that ``F(v) - R^T v`` does not explain
    lies in the cokernel of T and does not change any expected loss.

    Parameters
    ----------
    loss_table : (n, M) or (M,) array, or a callable
        Losses of all weak labels at n points q of the simplex; a callable is evaluated at `points`.
    transition : Transition or text
        T.
    reconstruction : str or Reconstruction
        R, or how to choose it.
    points : (n, K) array, optional
        The points q. With them, properness is checked on the sample: E_{q_i} l(q_j) >= E_{q_i} l(q_i).

    Returns
    -------
    Decomposition
        ``.potential``, ``.scores``, ``.reconstruction``, ``.delta`` and ``.residual``.

    Examples
    --------
    >>> import torch, tproper as tp
    >>> T, q = tp.symmetric_noise(2, 0.2), [[0.5, 0.5], [0.9, 0.1]]
    >>> forward = lambda q: -(q @ torch.as_tensor(T.matrix()).T).log()
    >>> parts = tp.decompose(forward, T, points=q)
    >>> bool(abs(parts.delta).max() < 1e-12)  # T is square: nothing is left over
    True
    """
    transition = read_transition(transition)
    R = transition.reconstruction(reconstruction)
    q = None if points is None else checks.rows(points, "points")
    if callable(loss_table) and not isinstance(loss_table, Tensor):
        if q is None:
            raise InputError("points: expected the probabilities (n, K) at which to evaluate the callable, got none")
        loss_table = loss_table(torch.as_tensor(q))
    table = checks.rows(loss_table, "loss_table")
    if table.shape[1] != transition.num_weak_labels:
        raise InputError(
            f"loss_table: expected {transition.num_weak_labels} columns, one per weak label, got {table.shape[1]}"
        )
    if q is not None and q.shape != (len(table), transition.num_classes):
        raise InputError(f"points: expected shape {(len(table), transition.num_classes)}, got {q.shape}")
    T = transition.matrix()
    supervised = table @ T  # (n, K): l(q, z)
    F = supervised.mean(axis=1)
    v = F[:, None] - supervised
    delta = table - (F[:, None] - v @ R.matrix())
    violation = None
    if q is not None:
        expected = q @ supervised.T  # [i, j] = E_{q_i} l(q_j)
        violation = float((expected.diagonal()[:, None] - expected).max())
    return Decomposition(v, F, R, delta, float(np.abs(delta @ T).max()), violation)


def comparison(certificates: Mapping[str, Certificate]) -> str:
    """Certificates side by side in a table, as Table 1 of the paper.

    Parameters
    ----------
    certificates : dict
        ``{name: certificate}``.

    Returns
    -------
    str
        The table.

    Examples
    --------
    >>> import tproper as tp
    >>> T = tp.complementary(3)
    >>> print(tp.comparison({"BC": tp.BackwardLoss(T).certify(), "forward": tp.ForwardLoss(T).certify()}))
             proper  strict  bounded     lower bound  evidence
    ----------------------------------------------------------
    BC       yes     yes     NO                 -inf  exact
    forward  yes     yes     yes            0.693147  exact
    """
    if not isinstance(certificates, Mapping) or not all(isinstance(c, Certificate) for c in certificates.values()):
        raise InputError(f"certificates: expected {{name: tp.certify(loss)}}, got {checks.short(certificates)}")
    width = max(len(n) for n in certificates)
    head = f"{'':<{width}}  {'proper':<8}{'strict':<8}{'bounded':<9}{'lower bound':>14}  evidence"
    lines = [head, "-" * len(head)]
    for name, c in certificates.items():
        bound = f"{c.bounds.min():.6g}" if c.lower_bounded else "-inf"
        flags = f"{_yes(c.proper):<8}{_yes(c.strictly_proper):<8}{_yes(c.lower_bounded):<9}"
        lines.append(f"{name:<{width}}  {flags}{bound:>14}  {c.evidence}")
    return "\n".join(lines)
