"""Structured losses at the price of cross entropy: one read of the scores, one write of the gradient.

On a CUDA device `BackwardLoss` (log-sum-exp, squeezed or not) and `ForwardLoss` of structured transitions (identity,
symmetric noise, complementary, partial and multi-complementary labels) run in one Triton kernel; everything else, and
everything elsewhere, in plain PyTorch. Both compute the same function; `backend` says which one it is and why:

>>> loss = fuse(tp.BackwardLoss(tp.complementary(10), squeeze=(1, 2)))
>>> loss.backend_for(scores)
'torch: scores are on cpu'

Labels that lie on the device are checked there, without a synchronisation: see `_Fault`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..._core import FloatArray, Labels, checks, tracing
from ...potentials import LogSumExp, Squeezed
from ...transitions import CandidateSetTransition, SetReconstruction, UniformReconstruction, UniformTransition
from ..backward import BackwardLoss
from ..base import Reduction, WeakLabelLoss
from ..forward import ForwardLoss

Backend = Literal["auto", "torch", "triton"]
BACKENDS = ("auto", "torch", "triton")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
SMALL = 1 << 18  # scores up to which launching a kernel costs more than what it does
FEW = 1 << 16  # losses up to which one program sums them fast enough


@dataclass(frozen=True)
class Plan:
    """A loss as the kernel sees it: a handful of numbers, and the name of the table that depends on the set's size.

    Backward: `numbers` are (c, b) of the target ``b 1 + c ind``. Forward: (d, o) of ``T = o 1 1^T + (d - o) I``.
    """

    forward: bool
    numbers: tuple[float, float]
    by_size: str | None = None
    squeeze: tuple[float, float] | None = None
    set_size: int = 0  # the only size that candidate sets have; 0: any


def plan(loss: nn.Module) -> Plan | str:
    """How a loss runs in the kernel, or, as a string, why it cannot; remembered until one of its parts is replaced."""
    own, weights = loss.__dict__, loss._buffers.get("class_weights")
    T, F, R = own.get("transition"), own.get("potential"), own.get("reconstruction")
    squeeze = (F.k, F.alpha) if isinstance(F, Squeezed) else None  # k is often annealed in place
    known: tuple[Any, ...] = own.get("_plan", (None,) * 6)
    same = known[0] is T and known[1] is F and known[2] is R and known[3] is weights
    if not same or known[4] != squeeze:
        known = own["_plan"] = (T, F, R, weights, squeeze, _planned(loss))
    made: Plan | str = known[5]
    return made


def _planned(loss: nn.Module) -> Plan | str:
    if type(loss) is ForwardLoss:
        T = loss.transition
        if isinstance(T, UniformTransition):
            return Plan(forward=True, numbers=(T.diagonal, T.off_diagonal))
        if isinstance(T, CandidateSetTransition):
            return Plan(forward=True, numbers=(0.0, 0.0), by_size="log_weight", set_size=_set_size(T))
        return f"{T.name} has no structure that the kernel knows"
    if type(loss) is not BackwardLoss:
        return f"{type(loss).__name__} is neither BackwardLoss nor ForwardLoss"
    if loss.class_weights is not None:
        return "class_weights are given"
    F, squeeze = loss.potential, None
    if isinstance(F, Squeezed):
        if F.alpha < 1:
            return f"squeezing with alpha = {F.alpha:g} < 1 has no finite gradient"
        if F.k > 0:
            squeeze = (F.k, F.alpha)
        F = F.base
    if type(F) is not LogSumExp:
        return f"the potential is {F.name}, not log-sum-exp"
    R = loss.reconstruction
    if type(R) is UniformReconstruction:
        c = R.coefficient
        return Plan(False, (c, 0.0 if c == 1.0 else (1 - c) / R.transition.num_classes), squeeze=squeeze)
    if type(R) is SetReconstruction:
        return Plan(False, (0.0, 0.0), "coefficient", squeeze, _set_size(R.transition))
    return f"the reconstruction of {loss.transition.name} is dense"


def _set_size(T: CandidateSetTransition) -> int:
    sizes = T.set_sizes()
    return sizes[0] if len(sizes) == 1 else 0


@cache
def triton_installed() -> bool:
    """Whether Triton can be imported (found, not loaded)."""
    return find_spec("triton") is not None


def obstacle(loss: nn.Module, scores: Tensor, weights: Any = None) -> str | None:
    """Why this call cannot run in the kernel; None if it can."""
    if not (scores.is_cuda or _interpreted()):
        return f"scores are on {scores.device.type}"
    if not triton_installed():
        return "triton is not installed"
    if scores.dtype not in DTYPES:
        return f"scores are {str(scores.dtype).replace('torch.', '')}"
    if torch.compiler.is_compiling():
        return "torch.compile is tracing, and fuses the plain formulation itself"
    if torch._C._functorch.peek_interpreter_stack() is not None:
        return "a functorch transform is active"
    if tracing.forward_mode():
        return "forward-mode differentiation is active"
    if isinstance(weights, Tensor) and weights.requires_grad:
        return "example weights require a gradient"
    made = plan(loss)
    return made if isinstance(made, str) else None


def _interpreted() -> bool:
    """Triton's interpreter runs kernels on the CPU (TRITON_INTERPRET=1): slow, for tests."""
    import os

    return os.environ.get("TRITON_INTERPRET") == "1"


class _Fault:
    """Where the kernel reports a label that is none, in memory that the host sees too.

    Reading a device's labels would make the host wait for it in every step. So they are read before a loss's first
    call alone; from then on the kernel looks at them as it goes. A bad label makes the loss NaN and leaves its row
    without a gradient, so that no model is spoilt, and one of the next calls raises the error.
    """

    def __init__(self, device: torch.device) -> None:
        self.memory = torch.zeros(2, dtype=torch.int64, pin_memory=device.type == "cuda")
        self.seen = self.memory.numpy()

    def check(self, loss: WeakLabelLoss) -> None:
        """Raise what the kernel has reported since the last time."""
        if not self.seen[0]:
            return
        row, label, T = int(self.seen[0]) - 1, int(self.seen[1]), loss.transition
        self.seen[0] = 0
        rule = f"integers in [0, {T.num_classes}), got {label}"
        if isinstance(T, CandidateSetTransition):
            only = _set_size(T)
            rule = f"candidate sets of {only} classes, got one of {label}"
            if label == 0:
                rule = "non-empty candidate sets, got an empty one"
        raise ValueError(f"labels: expected {rule} at row {row} of an earlier batch (its loss was NaN, its gradient 0)")


_faults: WeakKeyDictionary[WeakLabelLoss, _Fault] = WeakKeyDictionary()


class _Fused(torch.autograd.Function):
    """The reduced loss. Its gradient is made in the same pass, for the upstream gradient of one that a loss sees.

    Should another upstream gradient come (a scaled or weighted loss), or the gradient be asked for a second time, the
    kernel runs again with it (a small gradient is multiplied by it, which is cheaper to launch). That is also the way
    for losses that are not reduced, and for float16, where a gradient divided by the batch size would underflow before
    a gradient scaler could save it. Where the gradient is to be differentiated itself, the plain formulation makes it.
    """

    @staticmethod
    def forward(
        ctx: Any, scores: Tensor, labels: Tensor, weights: Tensor | None, by_size: Tensor | None,
        call: tuple[WeakLabelLoss, Plan, Reduction, Tensor | None, Any],
    ) -> Tensor:  # fmt: skip
        _, made, reduction, fault, config = call
        n = len(scores)
        if weights is not None:
            weights = weights.detach().float()
            if reduction == "mean":
                weights = weights / weights.sum()
        scale = 1.0 / n if reduction == "mean" and weights is None else 1.0
        early = ctx.needs_input_grad[0] and reduction != "none" and scores.dtype != torch.float16
        gradient = torch.empty_like(scores) if early else None
        losses = torch.empty(n, dtype=torch.float32, device=scores.device)
        _launch(made, scores, labels, by_size, losses, gradient, scale, weights, fault=fault, config=config)
        ctx.call, ctx.scale, ctx.gradient = call, scale, gradient
        ctx.save_for_backward(scores, labels, weights, by_size)
        if reduction != "none" and weights is None and 0 < n <= FEW:
            return _total(losses, scores, scale)
        return _reduced(losses, weights, reduction).to(scores.dtype)

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        gradient, ctx.gradient = ctx.gradient, None  # handed over: a second call makes its own
        differentiated = torch.is_grad_enabled()
        batched = torch._C._functorch.is_legacy_batchedtensor(upstream)  # is_grads_batched: many upstream gradients
        if gradient is not None and gradient.numel() <= SMALL and not differentiated and not batched:
            return gradient.mul_(upstream), None, None, None, None
        scores, labels, weights, by_size = ctx.saved_tensors
        loss, made, reduction, fault, config = ctx.call
        if differentiated or batched:
            with torch.enable_grad():
                scores = scores if differentiated else scores.detach().requires_grad_()
                losses = loss.pointwise(scores.float(), labels)
                value = _reduced(losses, weights, reduction).to(scores.dtype)
                (gradient,) = torch.autograd.grad(value, scores, upstream, create_graph=differentiated)
            return gradient, None, None, None, None
        ready = gradient is not None
        if gradient is None:
            gradient = torch.empty_like(scores)
        upstream = upstream.contiguous() if reduction == "none" else upstream
        _launch(made, scores, labels, by_size, None, gradient, ctx.scale, weights, upstream, ready, fault, config)
        return gradient, None, None, None, None


def _reduced(losses: Tensor, weights: Tensor | None, reduction: Reduction) -> Tensor:
    """Weights have been divided by their sum already where a mean is wanted."""
    if weights is not None:
        losses = losses * weights
    if reduction == "none":
        return losses
    return losses.mean() if reduction == "mean" and weights is None else losses.sum()


def _total(losses: Tensor, scores: Tensor, scale: float) -> Tensor:
    """`scale` times the sum of the losses, in the scores' dtype: one kernel for the sum, the scaling and the cast."""
    from .triton_rows import total

    out = torch.empty((), dtype=scores.dtype, device=scores.device)
    with _on_device_of(scores):
        total(losses, out, scale)
    return out


def _on_device_of(scores: Tensor) -> AbstractContextManager[Any]:
    """Kernels start on the current device: make it the scores', where it is another."""
    elsewhere = scores.is_cuda and scores.get_device() != torch.cuda.current_device()
    return torch.cuda.device_of(scores) if elsewhere else nullcontext()


def _launch(
    made: Plan, scores: Tensor, labels: Tensor, by_size: Tensor | None, losses: Tensor | None,
    gradient: Tensor | None, scale: float, weights: Tensor | None,
    upstream: Tensor | None = None, unless_one: bool = False, fault: Tensor | None = None, config: Any = None,
) -> None:  # fmt: skip
    from .triton_rows import launch

    with _on_device_of(scores):
        launch(
            scores, labels, forward=made.forward, numbers=made.numbers, by_size=by_size, squeeze=made.squeeze,
            losses=losses, gradient=gradient, scale=scale, weights=weights, upstream=upstream,
            unless_one=unless_one, fault=fault, set_size=made.set_size, config=config,
        )  # fmt: skip


def fused_loss(
    loss: WeakLabelLoss,
    scores: Tensor,  # (..., K)
    labels: Tensor,  # (...) or (..., K), encoded
    weights: Tensor | None = None,  # (...)
    reduction: Reduction | None = None,
    fault: Tensor | None = None,
    config: Any = None,
) -> Tensor:
    """The loss of encoded labels in the kernel, reduced as the loss says or as asked; raises where it cannot run.

    Scores that are not contiguous are copied. With `fault` the kernel checks the labels (see `_Fault`).
    """
    reduction = loss.reduction if reduction is None else reduction
    made = plan(loss)
    if isinstance(made, str):
        raise ValueError(f"loss: expected one that the Triton kernel knows, but {made}; use backend='torch'")
    by_size = None if made.by_size is None else loss.tables[made.by_size].to(scores.device)
    flat, weights = scores, None if weights is None else weights.reshape(-1)
    if scores.ndim != 2:
        K = scores.shape[-1]
        flat, labels = scores.reshape(-1, K), labels.reshape(-1, K) if made.by_size else labels.reshape(-1)
    call = (loss, made, reduction, fault, config)
    out: Tensor = _Fused.apply(flat.contiguous(), labels.contiguous(), weights, by_size, call)
    return out.reshape(scores.shape[:-1]) if reduction == "none" else out


def _checked(loss: WeakLabelLoss, scores: Tensor, labels: Labels) -> tuple[Tensor, Tensor | None]:
    """Encoded labels, and where the kernel shall report bad ones, if it is the kernel that checks them."""
    T, device = loss.transition, scores.device
    if not isinstance(labels, Tensor) or labels.device != device:
        return T.encode(labels, None, loss.validate).to(device), None  # checked where they are, which waits for nothing
    fault = _faults.get(loss)
    if not loss.validate or (fault is None and not tracing.readable(scores)):
        return T.encode(labels, device, False), None
    if fault is None:
        encoded = T.encode(labels, device, True)
        _faults[loss] = _Fault(device)
        return encoded, None
    fault.check(loss)
    binary = not T.per_class_labels or labels.dtype == torch.bool
    return T.encode(labels, device, not binary), fault.memory


def fast_path(loss: WeakLabelLoss, scores: Tensor, labels: Labels, weights: Any = None) -> Tensor | None:
    """The loss of a call in the kernel where it can run, else None: what a loss asks before it takes the plain way."""
    if getattr(loss, "backend", "auto") == "torch" or obstacle(loss, scores, weights) is not None:
        return None
    encoded, fault = _checked(loss, scores, labels)
    checks.same_leading_shape(scores, encoded, loss.transition.label_shape)
    if weights is not None:
        weights = checks.example_weights(weights, scores.detach()[..., 0].float(), loss.validate)
    return fused_loss(loss, scores, encoded, weights, fault=fault)


class FusedLoss(nn.Module):
    """A loss with a choice of backend; called like the loss it wraps. See `fuse`."""

    def __init__(self, loss: WeakLabelLoss, backend: Backend = "auto") -> None:
        super().__init__()
        if not isinstance(loss, WeakLabelLoss):
            raise ValueError(f"loss: expected a tproper loss, got {type(loss).__name__}")
        if backend not in BACKENDS:
            raise ValueError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")
        if backend == "triton":
            made = plan(loss)
            if isinstance(made, str):
                raise ValueError(f"backend: 'triton' cannot run this loss: {made}; use 'auto' or 'torch'")
            if not triton_installed():
                raise ValueError("backend: 'triton' needs the package triton, which is not installed; use 'torch'")
        self.loss = loss
        self.backend: Backend = backend

    def backend_for(self, scores: Tensor, weights: Any = None) -> str:
        """``"triton"``, or ``"torch: ..."`` with the reason, for a call with these scores."""
        if self.backend == "torch":
            return "torch: asked for"
        found = obstacle(self.loss, scores, weights)
        return "triton" if found is None else f"torch: {found}"

    def forward(self, scores: Tensor, labels: Labels, weights: Any = None, transitions: Tensor | None = None) -> Tensor:
        """The reduced loss of a batch."""
        scores = checks.scores(scores, self.loss.transition.num_classes)
        if self.backend == "triton":
            found = obstacle(self.loss, scores, weights)
            if transitions is not None:
                found = "there is one transition per example"
            if found is not None:
                raise ValueError(f"backend: 'triton' cannot run this call: {found}; use 'auto' or 'torch'")
        if transitions is None and self.backend != "torch":
            fast = fast_path(self.loss, scores, labels, weights)
            if fast is not None:
                return fast
        out: Tensor = self.loss(scores, labels, weights, transitions)
        return out

    def probabilities(self, scores: Tensor) -> Tensor:
        """Class probabilities by the loss's own link."""
        return self.loss.probabilities(scores)

    def lower_bounds(self) -> FloatArray:
        """The greatest lower bound for each weak label."""
        return self.loss.lower_bounds()

    def certify(self) -> Any:
        """Properness and boundedness, with evidence."""
        return self.loss.certify()

    def extra_repr(self) -> str:
        """Which backend runs where."""
        made = plan(self.loss)
        if self.backend == "torch" or isinstance(made, str):
            return f"backend={self.backend!r} (torch{'' if self.backend == 'torch' else ': ' + str(made)})"
        missing = "" if triton_installed() else ", but triton is not installed"
        return f"backend={self.backend!r} (triton on CUDA{missing}, torch elsewhere)"


def fuse(loss: WeakLabelLoss, backend: Backend = "auto") -> FusedLoss:
    """The same loss with its backend in your hand.

    ``"auto"``: the Triton kernel where it can run, else plain PyTorch; ``"torch"``: always plain PyTorch;
    ``"triton"``: the kernel, or a ``ValueError`` that says what stands in its way.
    """
    return FusedLoss(loss, backend)


WeakLabelLoss._fast_path = staticmethod(fast_path)
WeakLabelLoss._obstacle = staticmethod(obstacle)
