"""Forward correction with a T that is learned beside the classifier: no T is given.

`learned` are numbers (S, K, K) that stand for one T per trial; the loss is ``-log (T p)_y``, and T gets its gradient
from the same risk: the posterior that EM's E-step would compute appears in it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from tproper.errors import InputError
from tproper.transitions import Transition

from ..methods import Method, Softmax, register, setting_of

START = -2.0  # where VolMinNet's authors start: off-diagonal weights sigmoid(-2) = .12 beside a diagonal of 1
OFF_BY = 0.1  # how far from its pattern a T starts in `AdaptedForward`


class LearnedForward(Softmax):
    """``mean_i -log (T p_i)_{y_i}`` plus a penalty of T."""

    def __init__(self, num_classes: int) -> None:
        self.num_classes = num_classes

    @abstractmethod
    def log_transition(self, learned: Tensor) -> Tensor:
        """log T from what is learned.  # (S, K, K) -> (S, K, K), columns of T sum to one"""

    def penalty(self, log_t: Tensor) -> Tensor:
        """What is added to the risk.  # (S, K, K) -> (S,)"""
        return torch.zeros_like(log_t[:, 0, 0])

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """The forward risk of each trial under its own T, and the penalty."""
        if learned is None:
            raise InputError("learned: expected the numbers that T is made of, as start() gives them, got None")
        log_t = self.log_transition(learned)
        rows = log_t.gather(1, labels[..., None].expand(*labels.shape, self.num_classes))  # (S, n, K)
        return -torch.logsumexp(torch.log_softmax(scores, -1) + rows, -1).mean(1) + self.penalty(log_t)


def log_abs_det(matrices: Tensor) -> Tensor:
    """``log |det|`` of matrices (S, K, K) by elimination, as a fixed sequence of operations: part of a CUDA graph.

    Without exchange of rows, which T's large diagonal makes superfluous.
    """
    rest, out = matrices, matrices.new_zeros(len(matrices))
    for _ in range(matrices.shape[1]):
        pivot = rest[:, :1, :1]
        out = out + pivot.abs().log()[:, 0, 0]
        rest = rest[:, 1:, 1:] - rest[:, 1:, :1] * rest[:, :1, 1:] / pivot
    return out


class VolMinNet(LearnedForward):
    """VolMinNet: ``forward risk + lambda log |det T|`` (Li et al. 2021).

    T is ``I + sigmoid(w)`` off the diagonal, columns normalised, so that the diagonal is always the largest entry of
    its column. The smallest T that explains the labels is the true one where some examples are sure enough of their
    class (the paper's "sufficiently scattered").
    """

    def __init__(self, num_classes: int, weight: float = 1e-4) -> None:
        super().__init__(num_classes)
        self.weight = weight

    def start(self, trials: int, device: torch.device) -> Tensor:
        """The authors' starting point."""
        return torch.full((trials, self.num_classes, self.num_classes), START, device=device)

    def log_transition(self, learned: Tensor) -> Tensor:
        """``log (I + sigmoid(w) off the diagonal)``, less the logarithm of the columns' sums."""
        eye = torch.eye(self.num_classes, dtype=torch.bool, device=learned.device)
        weights = torch.nn.functional.logsigmoid(learned).masked_fill(eye, 0.0)
        return weights - torch.logsumexp(weights, 1, keepdim=True)

    def penalty(self, log_t: Tensor) -> Tensor:
        """``lambda log |det T|``."""
        return self.weight * log_abs_det(log_t.exp())


class AdaptedForward(LearnedForward):
    """The noise adaptation layer: T is a softmax over each column (Goldberger & Ben-Reuven 2017).

    Gradient steps on the joint likelihood, which the EM of Mnih & Hinton (2012) climbs by turns. Nothing but the start
    says which class is which: noisy labels start near T = I, complementary ones near the uniform complementary T.
    """

    def __init__(self, num_classes: int, complementary: bool) -> None:
        super().__init__(num_classes)
        self.complementary = complementary

    def start(self, trials: int, device: torch.device) -> Tensor:
        """log of nine tenths the pattern, one tenth the uniform T."""
        K = self.num_classes
        eye = torch.eye(K, device=device)
        pattern = (1 - eye) / (K - 1) if self.complementary else eye
        return ((1 - OFF_BY) * pattern + OFF_BY / K).log().expand(trials, K, K).clone()

    def log_transition(self, learned: Tensor) -> Tensor:
        """Log-softmax over the weak labels of each class."""
        return torch.log_softmax(learned, 1)


def _method(
    name: str, title: str, reference: str, labels: set[str], make: Callable[[Transition], LearnedForward], known: str
) -> Method:
    words = "T is learned with the classifier, so there is no loss for a fixed T that certify could decide; "
    return Method(name, title, reference, frozenset(labels), make, words=words + known, uses_t=False)


register(
    _method(
        "volminnet", "VolMinNet", "Li, Liu, Han, Niu & Sugiyama 2021, ICML", {"noisy"},
        lambda T: VolMinNet(T.num_classes),
        "its minimiser is p where the data identify T (sufficiently scattered, the paper assumes); log |det T| "
        "falls without end as T nears a singular one, so the risk is not bounded from below in T",
    )
)  # fmt: skip
register(
    _method(
        "adapted", "forward, T learned", "Goldberger & Ben-Reuven 2017, ICLR", {"noisy", "complementary"},
        lambda T: AdaptedForward(T.num_classes, setting_of(T) == "complementary"),
        "the risk is bounded from below by 0; p is one of its minimisers, but T and p are not identified without "
        "further assumptions",
    )
)  # fmt: skip
