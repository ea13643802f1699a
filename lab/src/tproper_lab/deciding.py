"""What `certify` says about a loss that is only a function of scores and labels, in seconds where classes are many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tproper.certificates import Certificate, certify
from tproper.transitions import Transition, UniformTransition, families

Each = Callable[[Tensor, Tensor], Tensor]  # scores (S, n, K), labels -> losses (S, n)
FEW_CLASSES = 4
TRUTHS = 16  # probabilities at which a counterexample is looked for
LEAST_GAIN = 1e-6  # a smaller advantage over the truth might be rounding


def searched(each: Each, transition: Transition, title: str) -> Certificate:
    """`certify` of a loss of single examples whose probabilities are softmax of the scores.

    The search grows fast with the number of classes. Beyond 4 of them

    * a counterexample for this very T is looked for by one step of descent from the truth. Where there is one,
      properness is decided; how far the loss falls is searched for with 4 classes, since it does not depend on T;
    * where there is none, a family that is the same at every number of classes (uniform noise, uniform complementary
      labels, candidate sets) is decided with 4, and the certificate's T says so; any other T as it is.

    Both take a loss that treats all classes alike, as those of the papers do; for another one use `certify`.
    """
    small = with_few_classes(transition)
    example = None if small is transition else counterexample(each, transition)
    if example is None:
        base = transition if small is None else small
        return certify(table(each, base, title), base)
    reduced = families.symmetric_noise(FEW_CLASSES, 0.2) if small is None else small
    few = certify(table(each, reduced, title), reduced)
    least = float(few.bounds.min())
    return replace(
        few,
        transition=transition.name,
        reconstructible=transition.diagnose().reconstructible,
        proper=False,
        strictly_proper=False,
        bounds=np.full(transition.num_weak_labels, least),
        groups=(("any label", least),),
        witness=None,
        counterexample=example,
        notes=(*few.notes, f"the counterexample is for this T; the bound was searched for with {FEW_CLASSES} classes"),
    )


def table(each: Each, transition: Transition, title: str) -> Callable[[Tensor], Tensor]:
    """The losses of all weak labels (n, M) as a function of probabilities (n, K), as `certify` takes them."""
    K, rows = transition.num_classes, transition.num_weak_labels
    labels = transition.labels.all()[:, None]

    def losses(p: Tensor) -> Tensor:  # every weak label is a trial
        shape = (rows, len(p))
        given = labels.expand(*shape, *transition.label_shape)
        return each(p.log().expand(*shape, K), given).T

    losses.__name__ = title
    return losses


def with_few_classes(transition: Transition) -> Transition | None:
    """The same family with 4 classes, or this T where it has no more; None for a T of another kind."""
    if transition.num_classes <= FEW_CLASSES:
        return transition
    if isinstance(transition, UniformTransition):  # the same odds of the true class against each other one
        d, o = transition.diagonal, transition.off_diagonal
        kept = d / (d + (FEW_CLASSES - 1) * o)
        if d < o:
            return families.complementary(FEW_CLASSES, noise=kept)
        return families.symmetric_noise(FEW_CLASSES, 1 - kept)
    if transition.size_probability is not None and transition.rate is not None:
        return families.partial_labels(FEW_CLASSES, transition.rate.value)
    if isinstance(transition, families.FixedSizeSets):
        excluded = transition.num_classes - transition.set_sizes()[0]
        return families.multi_complementary(FEW_CLASSES, min(excluded, FEW_CLASSES - 2))
    return None


def counterexample(each: Each, transition: Transition) -> dict[str, Any] | None:
    """Probabilities q whose expected loss under the truth p is smaller than p's own; None where no step finds one.

    The expected loss of a proper loss is stationary at the truth. Where its gradient at v = log p is not zero, a short
    step against it leads to such a q. Candidate sets of more than 12 classes are too many to list, and not looked at.
    """
    K = transition.num_classes
    if not transition.listed:
        return None
    losses = table(each, transition, "")
    truths = np.random.default_rng(0).dirichlet(np.full(K, 2.0), TRUTHS)
    p = torch.as_tensor(0.99 * truths + 0.01 / K)
    weak = p @ torch.as_tensor(transition.matrix()).T  # (n, M)

    def risk(v: Tensor) -> Tensor:
        return (weak * losses(torch.softmax(v, -1))).sum(-1)

    with torch.enable_grad():
        v = p.log().requires_grad_()
        value = risk(v)
        (slope,) = torch.autograd.grad(value.sum(), v)
    own = value.detach()
    best: dict[str, Any] | None = None
    for step in 2.0 ** np.arange(10, -12, -1):  # some losses are steep, some nearly flat
        there = v.detach() - step * slope
        gains = own - risk(there).detach()
        i = int(gains.argmax())
        if float(gains[i]) > LEAST_GAIN * (1 + abs(float(own[i]))) and (best is None or gains[i] > best["gain"]):
            best = {"p": p[i].numpy(), "q": torch.softmax(there[i], -1).numpy(), "gain": float(gains[i])}
    return best
