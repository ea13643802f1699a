"""What each trial of a stack minimises: a risk and its gradient from stacked scores.

``scores`` are (S, n, K): S trials, n examples, K classes. `Objective` is the one stacked kernel of the lab: the paper's
losses written once more with a leading trial axis and with hyperparameters that are tensors, so that trials with
different losses share one launch; the tests hold each of them equal to the core's loss. `StackObjective` gives every
slot of a stack its method: by that kernel where it has the pair of potential and labels (`kernel_settings`), else by
the method's own function and autograd. Nothing in it asks the host, so that it can be part of a CUDA graph.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tproper import NotReconstructibleError
from tproper.losses import BackwardLoss, ForwardLoss, GradientAscentLoss
from tproper.potentials import LogSumExp, Squeezed
from tproper.transitions import Transition

from .methods import LibraryLoss, StackedLoss, find_method
from .protocol import LOSSES, TrialConfig

try:  # one launch instead of some sixty; exists where Triton does
    from . import step_kernels
except ImportError:
    step_kernels = None  # type: ignore[assignment]

BC, GA, GLS, FORWARD = range(len(LOSSES))


class Objective:
    """Tables of one weak-label problem: targets R e_y and log T[y, :] for every weak label y."""

    def __init__(self, transition: np.ndarray, reconstruction: np.ndarray, device: torch.device):
        with np.errstate(divide="ignore"):
            log_t = np.log(transition)  # -inf where a label is impossible, as logsumexp wants it
        self.log_transition = torch.tensor(log_t, dtype=torch.float32, device=device)  # (M, K)
        self.targets = torch.tensor(reconstruction.T, dtype=torch.float32, device=device)  # (M, K)

    def __call__(
        self,
        scores: Tensor,  # (S, n, K)
        labels: Tensor,  # (S, n) weak labels
        kind: Tensor,  # (S,) index into LOSSES
        k: Tensor,  # (S,)
        alpha: Tensor,  # (S,)
    ) -> Tensor:
        """The batch risk of every trial.  # (S,)

        * bc: ``F(v) - <r, v>`` with ``F = logsumexp`` and ``r = R e_y``;
        * gls: bc plus ``k/2 sum_z |v_z - mean v|^alpha``;
        * ga: ``sum_z | mean_i( -r_iz log p_iz ) |``, p = softmax(v);
        * forward: ``-log (T p)_y = logsumexp(v) - logsumexp_z(v_z + log T[y, z])``.
        """
        target = self.targets[labels]
        log_p = torch.log_softmax(scores, dim=-1)
        by_class = -target * log_p  # sum r = 1, so the sum over z is F(v) - <r, v>
        centred = scores - scores.mean(dim=-1, keepdim=True)
        squeeze = (k[:, None, None] / 2 * centred.abs() ** alpha[:, None, None]).sum(dim=-1)
        backward = (by_class.sum(dim=-1) + squeeze).mean(dim=1)
        ascent = by_class.mean(dim=1).abs().sum(dim=-1)
        forward = -torch.logsumexp(log_p + self.log_transition[labels], dim=-1).mean(dim=1)
        return torch.where(kind == GA, ascent, torch.where(kind == FORWARD, forward, backward))

    def with_gradient(
        self, scores: Tensor, labels: Tensor, kind: Tensor, k: Tensor, alpha: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The batch risk of every trial, and its gradient with respect to the scores.  # (S,), (S, n, K)"""
        if scores.is_cuda and step_kernels is not None and scores.shape[1] <= step_kernels.LARGEST_BATCH:
            tables = (self.targets, self.log_transition)
            return step_kernels.objective(scores.contiguous(), labels, *tables, kind, k, alpha)
        with torch.enable_grad():
            scores = scores.detach().requires_grad_()
            risk = self(scores, labels, kind, k, alpha)
            (gradient,) = torch.autograd.grad(risk.sum(), scores)
        return risk.detach(), gradient


KERNEL = "the stacked kernel"  # the method of all slots that it computes
Settings = tuple[int, float, float]  # kind, k, alpha: what the kernel needs to know of a loss


def kernel_settings(loss: StackedLoss) -> Settings | None:
    """How the stacked kernel runs a loss of the library; None where it does not, by types and never by names."""
    core = loss.core if isinstance(loss, LibraryLoss) else None
    if core is None or core.transition.label_shape:  # masks and answers have no table of labels
        return None
    if type(core) is GradientAscentLoss:
        return GA, 0.0, 2.0
    if type(core) is ForwardLoss:
        return (FORWARD, 0.0, 2.0) if core.plain else None
    if type(core) is not BackwardLoss or core.class_weights is not None:
        return None
    F = core.potential
    if type(F) is LogSumExp:
        return BC, 0.0, 2.0
    return (GLS, F.k, F.alpha) if type(F) is Squeezed and type(F.base) is LogSumExp else None


def _kernel(transition: Transition, device: torch.device) -> Objective:
    T = transition.matrix()
    try:
        R = transition.reconstruction().matrix()
    except NotReconstructibleError:  # forward correction needs none, and no other loss can be built
        R = np.zeros(T.T.shape)
    return Objective(T, R, device)


class StackObjective:
    """The batch risks of a stack's trials, each by its own method, and what methods learn beside the model.

    ``learned[method]`` (S, ...) are the logits of a T that is learned, one row per slot, with their velocity.
    """

    def __init__(self, transition: Transition, slots: int, device: torch.device):
        self.transition, self.slots, self.device = transition, slots, device
        self.methods: list[str | None] = [None] * slots  # None: nothing to train
        self.kind = torch.zeros(slots, dtype=torch.int64, device=device)
        self.k, self.alpha = torch.zeros(slots, device=device), torch.full((slots,), 2.0, device=device)
        self.learned: dict[str, Tensor] = {}
        self.velocity: dict[str, Tensor] = {}
        self.kernel: Objective | None = None
        self._losses: dict[str, StackedLoss] = {}
        self._groups: dict[str, Tensor | None] = {}  # the slots of each method; None: all of the stack

    def loss(self, method: str) -> StackedLoss:
        """A method's loss for this stack's T, made once."""
        if method not in self._losses:
            self._losses[method] = find_method(method).build(self.transition)
        return self._losses[method]

    def assign(self, slot: int, config: TrialConfig) -> bool:
        """Give a slot its method, starting afresh; true if a step is now another sequence of operations."""
        if config.problem is None:
            settings: Settings | None = (LOSSES.index(config.loss), config.k, config.alpha)
        else:
            settings = kernel_settings(self.loss(config.loss))
        method = config.loss
        if settings is not None:
            method = KERNEL
            self.kind[slot], self.k[slot], self.alpha[slot] = settings
            if self.kernel is None:
                self.kernel = _kernel(self.transition, self.device)
        else:
            self._start(slot, method)
        changed = self.methods[slot] != method
        self.methods[slot] = method
        if changed:
            self._regroup()
        return changed

    def _start(self, slot: int, method: str) -> None:
        start = self.loss(method).start(1, self.device)
        if start is None:
            return
        if method not in self.learned:
            self.learned[method] = start.detach().float().expand(self.slots, *start.shape[1:]).clone()
            self.velocity[method] = torch.zeros_like(self.learned[method])
        self.learned[method][slot], self.velocity[method][slot] = start[0].detach(), 0.0

    def _regroup(self) -> None:
        self._groups = {}
        for method in dict.fromkeys(m for m in self.methods if m is not None):
            slots = [slot for slot, m in enumerate(self.methods) if m == method]
            self._groups[method] = None if len(slots) == self.slots else torch.tensor(slots, device=self.device)

    def state(self, slot: int) -> dict[str, Tensor]:
        """What a checkpoint of this slot needs: what it has learned beside the model."""
        method = self.methods[slot]
        if method not in self.learned:
            return {}
        return {"learned": self.learned[method][slot], "learned_velocity": self.velocity[method][slot]}

    def state_shapes(self, config: TrialConfig) -> dict[str, torch.Size]:
        """The shapes of `state` for a trial that is not assigned yet."""
        start = None if config.problem is None else self.loss(config.loss).start(1, self.device)
        return {} if start is None else dict.fromkeys(("learned", "learned_velocity"), start.shape[1:])

    def restore(self, slot: int, state: dict[str, Tensor]) -> None:
        """Go on from `state`, after `assign`."""
        method = self.methods[slot]
        if method in self.learned:
            self.learned[method][slot] = state["learned"].to(self.device)
            self.velocity[method][slot] = state["learned_velocity"].to(self.device)

    def copy_from(self, other: StackObjective, slots: list[int]) -> None:
        """Take over these slots of another stack, where they stand."""
        pick = torch.tensor(slots, device=self.device)
        self._losses, self.kernel = other._losses, other.kernel
        for name in ("kind", "k", "alpha"):
            getattr(self, name).copy_(getattr(other, name)[pick])
        self.learned = {name: t[pick].clone() for name, t in other.learned.items()}
        self.velocity = {name: t[pick].clone() for name, t in other.velocity.items()}
        self.methods = [other.methods[slot] for slot in slots]
        self._regroup()

    def moved(self) -> list[Tensor]:
        """Tensors that a step changes."""
        return [*self.learned.values(), *self.velocity.values()]

    def with_gradient(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Risks (S,), their gradients by the scores (S, n, K), and by what methods learn (S, ...)."""
        parts = {method: self._differentiated(method, scores, labels) for method in self._groups}
        if any(slots is None for slots in self._groups.values()):  # one method for all of the stack
            ((method, (risk, slope, by_learned)),) = parts.items()
            return risk, slope, {} if by_learned is None else {method: by_learned}
        risk, slope, of_learned = scores.new_zeros(self.slots), torch.zeros_like(scores), {}
        for method, (value, gradient, by_learned) in parts.items():
            slots = self._groups[method]
            assert slots is not None
            risk.index_copy_(0, slots, value)
            slope.index_copy_(0, slots, gradient)
            if by_learned is not None:
                of_learned[method] = torch.zeros_like(self.learned[method]).index_copy(0, slots, by_learned)
        return risk, slope, of_learned

    def _differentiated(self, method: str, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Risks and gradients of the slots of one method."""
        slots = self._groups[method]

        def rows(t: Tensor) -> Tensor:
            return t if slots is None else t.index_select(0, slots)

        if method == KERNEL:
            assert self.kernel is not None
            return *self.kernel.with_gradient(*map(rows, (scores, labels, self.kind, self.k, self.alpha))), None
        learned = rows(self.learned[method]) if method in self.learned else None
        return differentiated(self._losses[method], rows(scores), rows(labels), learned)

    def descend(self, gradients: dict[str, Tensor], rates: Tensor, momentum: float) -> None:
        """A step of SGD with Nesterov momentum of what methods learn; ``rates`` (S,), 0 where nothing is learned."""
        for name, gradient in gradients.items():
            velocity = self.velocity[name].mul_(momentum).add_(gradient)
            rate = rates.reshape(-1, *(1,) * (gradient.ndim - 1))
            self.learned[name].sub_(rate * (gradient + momentum * velocity))

    def probabilities(self, slot: int, method: str, scores: Tensor) -> Tensor:
        """Class probabilities (n, K) of a slot's scores by its method's own link."""
        learned = self.learned.get(method)
        mine = None if learned is None else learned[slot : slot + 1]
        with torch.no_grad():
            return self.loss(method).probabilities(scores[None], mine)[0]


def differentiated(
    loss: StackedLoss, scores: Tensor, labels: Tensor, learned: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Risks (S,) and their gradients by autograd."""
    with torch.enable_grad():
        leaves = [scores.detach().requires_grad_()]
        if learned is not None:
            leaves.append(learned.detach().requires_grad_())
        risk = loss(leaves[0], labels, leaves[1] if learned is not None else None)
        gradients = torch.autograd.grad(risk.sum(), leaves)
    return risk.detach(), gradients[0], gradients[1] if learned is not None else None
