"""What all losses share: labels in, a pointwise loss, weights and a reduction out."""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import singledispatch
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from .._core import FloatArray, Labels, as_tensors, checks, log_mixture, tracing
from ..errors import InputError
from ..potentials import LogSumExp
from ..transitions import Rows, SoftLabels, Tables, Targets, Transition, is_soft, pieces, read_transition
from .bounds import Bounds, stated
from .given import given_transitions
from .kernels import cpu, dispatch
from .kernels.registry import plan

Reduction = Literal["none", "mean", "sum"]
REDUCTIONS = ("none", "mean", "sum")
Backend = Literal["auto", "torch", "triton"]
HALVES = (torch.float16, torch.bfloat16)

SIGNATURE = "transition"  # its key in the state
DEFINING = ("forward", "evaluate", "_evaluate", "_each", "_reduce", "pointwise", "line", "_finite", "_masked", "risk")


@singledispatch
def certificate_of(loss: Any, **settings: Any) -> Any:
    """Properness and boundedness of a loss: what `tproper.certify(loss)` and ``loss.certify()`` answer.

    The certificates room registers one function for each kind of loss, and others may for theirs. A room is loaded when
    it is needed, so that one may not be there yet.
    """
    room = f"{__package__.rpartition('.')[0]}.certificates"
    if room not in sys.modules:
        importlib.import_module(room)
        return certificate_of(loss, **settings)
    raise InputError(
        f"loss: expected a tproper loss, a callable on probabilities, or a kind of loss that certificate_of.register "
        f"knows, got {type(loss).__name__}"
    )


def reduce(losses: Tensor, reduction: Reduction, weights: Tensor | None = None) -> Tensor:
    """Weights, then none, mean or sum. The mean of weighted losses is divided by the sum of the weights."""
    losses = weighted(losses, weights)
    if reduction == "none":
        return losses
    if reduction == "sum":
        return losses.sum()
    return losses.mean() if weights is None else losses.sum() / weights.sum()


def weighted(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Losses (...), or shares (..., K), times weights (...). Weight zero leaves a row out, even an infinite one."""
    if weights is None:
        return losses
    weights = weights.reshape(*weights.shape, *[1] * (losses.ndim - weights.ndim))
    return losses.masked_fill(weights == 0, 0.0) * weights


def _summed(each: Tensor, row: Tensor, share: Tensor, n: int) -> Tensor:
    """``sum over pieces of share x loss`` for each of n rows."""
    share = share.reshape(-1, *[1] * (each.ndim - 1)).to(each.dtype)
    return each.new_zeros(n, *each.shape[1:]).index_add(0, row, share * each)


def left_out(scores: Tensor, weights: Tensor | None) -> Tensor:
    """Scores with zeros in rows of weight zero: such a row's gradient is 0, where 0 times its own might be NaN."""
    if weights is None:
        return scores
    out = weights == 0
    if tracing.at_hand(out) and not bool(out.any()):
        return scores
    return torch.where(out[..., None], 0.0, scores)


class WeakLabelLoss(nn.Module, ABC):
    """What all losses share: labels in, a pointwise loss, weights and a reduction out.

    Called as ``loss(scores, labels, weights=None, transitions=None)``:

    * scores (..., K): the model's raw outputs;
    * labels: weak labels as the transition takes them ((...) indices, (..., K) candidate masks, ...), or
      `tproper.SoftLabels`, whose loss is the mean of the labels' losses by their shares;
    * weights (...): optional example weights; an example of weight 0 is left out, whatever its loss is;
    * transitions: optional, replaces `transition`: (M, K) or (1, M, K) for all examples (a T that is being learned),
      or (..., M, K), one T per example (instance-dependent noise). Gradients reach it.

    Under autocast losses are float32, as torch's own; examples whose label is `ignore_index` are left out.

    Tables follow ``.to(device)``, keep their digits under ``.half()``, and are part of ``state_dict()``, which loads
    into a loss of the same T alone. Labels are checked on every call; pass ``validate=False`` to skip that (in plain
    PyTorch on a GPU it costs a synchronisation).

    A new loss is `pointwise`, `pointwise_with` and `lower_bounds`. Where the registry has kernels for its `pair`, calls
    run in them: a Triton kernel on CUDA, blocks of rows on the CPU. ``backend_for(scores)`` says what runs, and
    `tproper.fuse` chooses. The Triton kernel checks labels as it goes: after a loss's first call, which looks
    beforehand, a bad label makes the loss NaN and one of the next calls raises the error.
    """

    _backend: Backend = "auto"

    def __init__(
        self, transition: Transition | str, reduction: Reduction, validate: bool, ignore_index: int | None = None
    ) -> None:
        super().__init__()
        transition = read_transition(transition)
        checks.choice(reduction, "reduction", REDUCTIONS)
        self.transition, self._label_shape = transition, transition.label_shape
        self.reduction: Reduction = reduction
        self.validate = validate
        if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
            raise InputError(f"ignore_index: expected a whole number or None, got {ignore_index!r}")
        if ignore_index is not None and self._label_shape:
            raise InputError(f"ignore_index: expected None for {transition.name}, whose labels are not single indices")
        self.ignore_index = ignore_index

    def _register(self, tables: dict[str, FloatArray]) -> None:
        self._table_names = tuple(tables)
        for name, array in tables.items():
            self.register_buffer(name, torch.as_tensor(np.array(array)))

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> WeakLabelLoss:
        """``.to(device)``, ``.float()`` and their like. ``.half()`` and ``.bfloat16()`` leave the tables' digits alone.

        Models are cast as a whole, their loss with them; an R of three digits would be another R.
        """
        before = dict(self._buffers)
        super()._apply(fn, recurse)
        for name, old in before.items():
            new = self._buffers[name]
            if old is not None and new is not None and new.is_floating_point() and new.dtype.itemsize < 4:
                self._buffers[name] = old.to(new.device)
        return self

    def _made_tables(self) -> dict[str, FloatArray]:
        """The tables, made anew from T."""
        return {}

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Tables, and numbers by which T is recognised: some T have no tables, or share those of their R."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + SIGNATURE] = torch.from_numpy(self.transition.fingerprint())

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """The state of another T is refused: bounds and certificates would go on speaking of this one."""
        errors, before = args[-1], len(args[-1])
        known = state_dict.get(prefix + SIGNATURE)  # states of earlier versions have none
        if isinstance(known, Tensor) and not known.is_meta:
            own = torch.from_numpy(self.transition.fingerprint())
            digits = max(1e-6, torch.finfo(known.dtype).eps)
            if known.shape != own.shape or not torch.allclose(known.to(own), own, rtol=digits, atol=0):
                errors.append(
                    f"{prefix}{SIGNATURE}: expected the state of a loss for {self.transition.name}, got that of "
                    "another transition; make the loss with the transition that was saved"
                )
        state_dict = {name: value for name, value in state_dict.items() if name != prefix + SIGNATURE}
        for name, own in as_tensors(self._made_tables()).items():
            given = state_dict.get(prefix + name)
            if isinstance(given, Tensor) and given.shape == own.shape and not given.is_meta:
                digits = max(1e-6, torch.finfo(given.dtype).eps)  # casts round
                largest = float(own.nan_to_num(0.0, 0.0, 0.0).abs().amax())  # logarithms may be -inf
                if not torch.allclose(given.to(own), own, rtol=digits, atol=digits * largest):
                    errors.append(
                        f"{prefix}{name}: expected the table of {self.transition.name} that this loss was made for, "
                        "got that of another transition; make the loss with the transition that was saved"
                    )
        if len(errors) == before:  # else nothing is copied
            super()._load_from_state_dict(state_dict, prefix, *args)

    @property
    def tables(self) -> Tables:
        """The buffers, by name."""
        return {name: self._buffers[name] for name in self._table_names}  # type: ignore[misc]

    @property
    def backend(self) -> Backend:
        """Where calls run, as `tproper.fuse` set it: decided call by call, in plain PyTorch, or in the kernel."""
        return self._backend

    def pair(self) -> tuple[Any, Any] | str:
        """What the registry of kernels finds this loss by, (F, R) or (score, T); a string says why there is nothing."""
        return f"{type(self).__name__} is neither BackwardLoss nor ForwardLoss"

    def backend_for(self, scores: Tensor, weights: Any = None) -> str:
        """``"triton"``, or ``"torch: ..."`` with the reason, for a call with these scores."""
        why = dispatch.obstacle(self, scores, weights)
        return "triton" if why is None else f"torch: {why}"

    def forward(
        self, scores: Tensor, labels: Labels, weights: Tensor | None = None, transitions: Tensor | None = None
    ) -> Tensor:
        """The reduced loss of a batch."""
        return self.evaluate(scores, labels, weights, transitions, self.reduction)

    def evaluate(
        self,
        scores: Tensor,
        labels: Labels,
        weights: Tensor | None = None,
        transitions: Tensor | None = None,
        reduction: Reduction = "none",
    ) -> Tensor:
        """The loss of a batch with another reduction than its own; each example's, by default."""
        scores = checks.scores(scores, self.transition.num_classes)
        soft = isinstance(labels, SoftLabels)
        if self.ignore_index is not None and not soft:
            labels, weights = self._ignored(scores, labels, weights)
        dtype = scores.dtype
        half, autocast = dtype in HALVES, torch.is_autocast_enabled(scores.device.type)
        if half and autocast:
            dtype = torch.float32  # as torch's own losses: half precision has no room for a scaled or summed loss
        why = "labels are soft" if soft else dispatch.obstacle(self, scores, weights, transitions)
        if why is None:
            return dispatch.call(self, scores, labels, weights, reduction, dtype)
        if self._backend == "triton":
            raise InputError(f"backend: 'triton' cannot run this call: {why}; use 'auto' or 'torch'")
        if half:  # sums over classes need float32
            scores = scores.float()
        if autocast:
            with torch.autocast(scores.device.type, enabled=False):
                return self._evaluate(scores, labels, weights, transitions, reduction).to(dtype)
        return self._evaluate(scores, labels, weights, transitions, reduction).to(dtype)

    def _ignored(self, scores: Tensor, labels: Labels, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Labels with `ignore_index` replaced by a valid one, and weights that leave these examples out."""
        given, out = self.ignored(labels, scores.device)
        if given.dtype == torch.bool:
            return given, weights
        dtype = torch.promote_types(scores.dtype, torch.float32)
        if weights is None:
            return given, (~out).to(dtype)
        like = scores.detach()[..., 0].to(dtype)
        return given, checks.example_weights(weights, like, False).masked_fill(out, 0)

    def ignored(self, labels: Labels, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
        """Labels with 0 in place of `ignore_index`, and which examples (...) they leave out."""
        given, out = checks.ignored(labels, cast(int, self.ignore_index), device)
        pairs = out.ndim > 1 and out.shape[-1] == 2  # (source, label), with the index in either place
        if pairs and self.transition.sources:
            out = out.any(-1)
            given = given.masked_fill(out[..., None], 0)
        return given, out

    def _evaluate(
        self, scores: Tensor, labels: Labels, weights: Tensor | None, transitions: Tensor | None, reduction: Reduction
    ) -> Tensor:
        if weights is not None:
            some = self.ignore_index is None  # else a batch may be ignored as a whole
            weights = checks.example_weights(weights, scores[..., 0], self.validate, some)
            scores = left_out(scores, weights)
        if transitions is None:
            encoded = self.transition.encode(labels, scores.device, self.validate)
            own = self.transition.share_shape if encoded.is_floating_point() else self._label_shape
            if encoded.shape != scores.shape[:-1] + own:
                checks.same_leading_shape(scores, encoded, own)
            if reduction == "mean" and weights is None:  # the mean and its gradient at once, where a kernel serves
                work = self._work(scores, encoded)
                if work is not None:
                    return cpu.run(scores, work, lambda v: self.pointwise(v, encoded), mean=True)
            losses = self._each(scores, encoded)
        elif isinstance(labels, SoftLabels):
            losses = self._soft_with(transitions, scores, labels)
        else:
            transitions, encoded = given_transitions(transitions, labels, scores, self.validate)
            losses = self.pointwise_with(transitions, scores.reshape(-1, scores.shape[-1]), encoded)
            losses = losses.reshape(scores.shape[:-1] + losses.shape[1:])
        return self._reduce(losses, weights, reduction)

    def _reduce(self, losses: Tensor, weights: Tensor | None, reduction: Reduction = "mean") -> Tensor:
        return reduce(losses, reduction, weights)

    def _work(self, scores: Tensor, labels: Tensor) -> cpu.Work | None:
        """The CPU kernel for a call, where one serves."""
        if self._backend == "torch" or labels.is_floating_point() or scores.is_cuda or tracing.transformation():
            return None
        return self._kernel(labels, scores.dtype)

    def _kernel(self, labels: Tensor, dtype: torch.dtype, class_major: bool = False) -> cpu.Work | None:
        """What a CPU kernel does to blocks of rows, for a loss that the registry has a plan of."""
        planned = plan(self)
        if isinstance(planned, str):
            return None
        evidence: Any = cast(Any, self).evidence(labels, dtype)  # which a loss that has a plan knows
        if planned.forward:
            return cpu.forward_cross_entropy(evidence.prepared(dtype, class_major))
        return cpu.cross_entropy(evidence.flat(dtype, class_major), planned.squeeze)

    def _each(self, scores: Tensor, labels: Tensor) -> Tensor:
        """`pointwise`, in the kernel or as it is written."""
        if labels.is_floating_point():
            lead = scores.shape[:-1]
            shares = labels.reshape(-1, *labels.shape[len(lead) :])
            losses = self.pointwise_soft(scores.reshape(-1, scores.shape[-1]), shares.to(scores.dtype))
            return losses.reshape(lead + losses.shape[1:])
        work = self._work(scores, labels)
        if work is None:
            return self.pointwise(scores, labels)
        return cpu.run(scores, work, lambda v: self.pointwise(v, labels))

    def per_example(self, scores: Tensor, labels: Tensor, weights: Tensor | None = None) -> Tensor:
        """One loss per example, times its weight, for encoded labels that need no check."""
        weights = None if weights is None else weights.to(scores)
        return weighted(self._each(left_out(scores, weights), labels), weights)

    def bind(
        self,
        labels: Tensor,
        weights: Tensor | None = None,
        dtype: torch.dtype = torch.float64,
        class_major: bool = False,
    ) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
        """For solvers: a function from scores (n, K) to the losses (n,) of encoded labels and their gradients (n, K).

        Both are times the weights (n,). No graph is recorded, labels are not checked, and what they need is made once.
        With `class_major`, scores will be transposed views of (K, n) arrays, which are faster to sum over few classes.
        """
        plain = self.backend == "torch" or isinstance(self.pair(), str)
        work = None if plain else self._closed_form(labels, dtype, class_major)
        return _bound(work, lambda v: self._each(v, labels), weights)

    def _closed_form(self, labels: Tensor, dtype: torch.dtype, class_major: bool) -> cpu.Work | None:
        """Losses and gradients of blocks of rows: the kernel. None where autograd has to find the gradient."""
        return None if is_soft(labels) else self._kernel(labels, dtype, class_major)

    def pointwise_soft(self, scores: Tensor, shares: Tensor) -> Tensor:
        """The mean of the labels' losses by their shares, ``sum_y s_y l(v, y)``, of rows of scores (n, K).

        The loss of the mixture ``sum_y s_y T_y`` of rows of T would be improper.
        """
        row, labels, share = pieces(self.transition, shares)
        return _summed(self._each(scores[row], labels), row, share, len(scores))

    def _soft_with(self, transitions: Tensor, scores: Tensor, labels: SoftLabels) -> Tensor:
        """One loss for each example, which has a T of its own."""
        lead = scores.shape[:-1]
        v, shares = scores.reshape(-1, scores.shape[-1]), labels.tensor.to(scores)
        transitions, _ = given_transitions(
            transitions, torch.zeros(lead, dtype=torch.int64, device=v.device), scores, self.validate
        )
        if shares.shape != (*lead, transitions.shape[1]):
            raise InputError(
                f"labels: expected shares {(*lead, transitions.shape[1])}, got shape {tuple(shares.shape)}"
            )
        row, y = shares.reshape(len(v), -1).nonzero(as_tuple=True)
        T = transitions if len(transitions) == 1 else transitions[row]
        losses = _summed(self.pointwise_with(T, v[row], y), row, shares.reshape(len(v), -1)[row, y], len(v))
        return losses.reshape(lead + losses.shape[1:])

    @abstractmethod
    def pointwise(self, scores: Tensor, labels: Tensor) -> Tensor:
        """One loss per example, for encoded labels: the definition, which every kernel is held to."""

    @abstractmethod
    def pointwise_with(self, transitions: Tensor, scores: Tensor, labels: Tensor) -> Tensor:
        """One loss for each example, which has a T of its own."""

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities by this loss's own link."""
        return torch.softmax(checks.scores(scores, self.transition.num_classes, some=False), -1)

    @abstractmethod
    def lower_bounds(self) -> FloatArray:
        """The greatest lower bound of the loss for each weak label, ``-inf`` where there is none.

        In the order of the transition's rows; one per set size for candidate sets of more than 12 classes.
        """

    def bounds(self) -> Bounds:
        """All that is known of the lower bounds: which labels they are of, the least of all, those of given labels."""
        return stated(self.lower_bounds(), self.transition)

    def is_as_written(self, known: type[WeakLabelLoss]) -> bool:
        """Whether this computes what the class `known` does: a subclass may have rewritten it, and is another loss."""
        return all(getattr(type(self), name, None) is getattr(known, name, None) for name in DEFINING)

    def bounds_are_of(self, known: type[WeakLabelLoss]) -> bool:
        """Whether `lower_bounds` is that of the class `known`."""
        return type(self).lower_bounds is known.lower_bounds

    def scores_of(self, p: Tensor) -> Tensor:
        """Scores whose `probabilities` are p (..., K), all positive."""
        return p.log()

    def certify(self, seed: int = 0) -> Any:
        """Properness and boundedness of this loss, with evidence: `tproper.certify(self)`."""
        return certificate_of(self, **({"seed": seed} if seed else {}))


def bind_evidence(
    evidence: Targets | Rows,
    weights: Tensor | None = None,
    dtype: torch.dtype = torch.float64,
    class_major: bool = False,
    share: float = 1.0,
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """`WeakLabelLoss.bind` where what is known of each row is given as it is.

    Targets r have the loss ``logsumexp v - <r, v>``, likelihoods of the classes t ``-log sum_z t_z softmax(v)_z``. Both
    losses and gradients are times the weights (n,), or a `share` for all.
    """
    if isinstance(evidence, Targets):
        work = cpu.cross_entropy(evidence.flat(dtype, class_major))
        return _bound(work, lambda v: LogSumExp().weak_loss(v, evidence.inner, evidence.total), weights, share)
    work = cpu.forward_cross_entropy(evidence.prepared(dtype, class_major))
    return _bound(work, lambda v: -log_mixture(v, evidence.logs(v.dtype)), weights, share)


def _bound(
    work: cpu.Work | None, definition: Callable[[Tensor], Tensor], weights: Tensor | None, share: float = 1.0
) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """Losses and gradients by a kernel, and by the definition where there is none, or where it cannot tell."""
    gaps = weights is not None and bool((weights == 0).any())  # asked once: a solver calls thousands of times

    def both(scores: Tensor) -> tuple[Tensor, Tensor]:
        v = left_out(scores.detach(), weights) if gaps else scores.detach()
        if work is not None:
            losses, gradient = cpu.value_and_slope(v, work, share=share)
            if bool((losses > -torch.inf).all()):
                if weights is None:
                    return losses if share == 1.0 else losses.mul_(share), gradient
                losses = weighted(losses, weights) if gaps else losses.mul_(weights)
                return losses, gradient.mul_(weights[:, None])
        with torch.enable_grad():
            v = v.requires_grad_()
            losses = weighted(definition(v), weights) * share
            (gradient,) = torch.autograd.grad(losses.sum(), v)
        return losses.detach(), left_out(gradient, weights)  # 0 times an infinite slope is NaN

    return both


class JointLoss(nn.Module):
    """What losses share whose labels speak of several examples at once: pairs, bags."""

    def __init__(self, num_classes: int, reduction: Reduction) -> None:
        super().__init__()
        checks.choice(reduction, "reduction", REDUCTIONS)
        self.num_classes = num_classes
        self.reduction: Reduction = reduction

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities of one example: softmax."""
        return torch.softmax(checks.scores(scores, self.num_classes, some=False), -1)

    def certify(self, seed: int = 0) -> Any:
        """Properness and bounds, with evidence."""
        return certificate_of(self)
