"""Training methods: what the lab can train a stack of trials with, by name.

A `Method` knows which weak labels it can be trained on, makes the batch risk of S trials at once (`StackedLoss`), and
says what is proven about it (`card`). The library's own losses come in by one adapter, `LibraryLoss`; the losses of
other papers are in `peers`; a user's own is one function (`from_function`).

Names may carry settings after a colon: ``gls:0.3,2`` is k = .3, alpha = 2; ``forward:brier`` names a score.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from tproper.certificates import Certificate, certify
from tproper.errors import InputError
from tproper.losses import BatchRiskLoss, WeakLabelLoss, make_loss
from tproper.transitions import AnnotatorTransition, Transition, families

from . import outside
from .deciding import searched, table

MOST_LABELS = 32  # weak labels that a search for a user's own loss goes through

#: The kinds of weak labels that a method can be trained on.
SETTINGS = ("complementary", "multi_complementary", "partial", "noisy", "pu", "annotators", "other")


def setting_of(transition: Transition) -> str:
    """Which of `SETTINGS` a T belongs to, by what it is and never by its name.

    Labels that are called like the classes are complementary where they hit the true class less often than a blind
    guess would (trace T < 1), and noisy elsewhere.
    """
    if transition.labels.missing_row is not None:
        return "pu"
    if isinstance(transition, AnnotatorTransition):
        return "annotators"
    if transition.vacuous is not None:
        return "multi_complementary" if isinstance(transition, families.FixedSizeSets) else "partial"
    if transition.label_kind == "classes":
        return "complementary" if float(transition.matrix().trace()) < 1 else "noisy"
    return "other"


@runtime_checkable
class StackedLoss(Protocol):
    """The batch risk of each of S trials that are trained at once.

    Called in a CUDA graph: shapes are static, nothing is read back to the host.
    """

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """Risks (S,); their sum is differentiated by `scores` and by `learned`.

        scores (S, n, K); labels (S, n) int64, (S, n, K) boolean candidate masks, or (S, n, m) answers, -1 = none.
        """

    def start(self, trials: int, device: torch.device) -> Tensor | None:
        """Starting values (S, ...) of what is learned beside the model (the logits of a T); None for most."""

    def probabilities(self, scores: Tensor, learned: Tensor | None) -> Tensor:
        """Class probabilities (S, n, K) by the method's own link."""


class Softmax:
    """What most methods share: nothing is learned beside the model, and probabilities are softmax."""

    def start(self, trials: int, device: torch.device) -> Tensor | None:
        """Nothing."""
        return None

    def probabilities(self, scores: Tensor, learned: Tensor | None) -> Tensor:
        """Softmax."""
        return torch.softmax(scores, -1)


class Pointwise(Softmax):
    """The mean over the batch of a loss of single examples, ``each(scores (S, n, K), labels) -> (S, n)``."""

    def __init__(self, each: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.each = each

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """The mean over the batch."""
        return self.each(scores, labels).mean(1)


class OverAnswers(Pointwise):
    """A loss of single labels where each example has several: the mean over the answers that it has."""

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """labels (S, n, m), -1 = no answer. An example without answers has the loss 0."""
        there = labels >= 0
        each = torch.stack([self.each(scores, y) for y in labels.clamp_min(0).unbind(-1)], -1)
        return ((each * there).sum(-1) / there.sum(-1).clamp_min(1)).mean(1)


class LeftByAnswers(Pointwise):
    """A loss of candidate sets where each example has several complementary labels: the classes that none excludes."""

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """labels (S, n, m), -1 = no answer. Where answers exclude every class, nothing is excluded."""
        classes = torch.arange(scores.shape[-1], device=labels.device)
        left = (labels[..., None] != classes).all(-2)
        return self.each(scores, left | ~left.any(-1, keepdim=True)).mean(1)


class LibraryLoss(Softmax):
    """A loss of the library on a stack: the formula stays where it is.

    `core` is the loss itself, so that an engine that has a kernel for its pair (F, R) can see what to run.
    """

    def __init__(self, core: WeakLabelLoss) -> None:
        self.core = core

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        """The mean over the batch; of a batch loss, the risk of each trial's class risks."""
        each = self.core.to(scores.device).pointwise(scores, labels)
        means = each.mean(1)  # (S,), or (S, K) class risks
        return torch.vmap(self.core.risk)(means) if isinstance(self.core, BatchRiskLoss) else means

    def probabilities(self, scores: Tensor, learned: Tensor | None) -> Tensor:
        """The loss's own link."""
        return self.core.probabilities(scores)


def _mean_transition(transitions: Sequence[Transition]) -> Transition:
    """The T of one answer chosen at random."""
    first, *others = transitions
    if all(first.same_as(t) for t in others):
        return first
    mean = Transition(np.mean([t.matrix() for t in transitions], axis=0))
    mean.name = "the mean of the annotators' T"
    return mean


@dataclass(frozen=True)
class Card:
    """What is known about a method for one T. `proper` and `bounded` are None where nothing decides them."""

    method: str
    title: str
    reference: str
    transition: str
    proper: bool | None
    bounded: bool | None
    evidence: str  # "exact", "numerical", or "words"
    verdict: str
    certificate: Certificate | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return vars(self) | {"certificate": None if self.certificate is None else self.certificate.to_dict()}

    def __str__(self) -> str:
        return f"{self.title} ({self.reference}), {self.transition}: {self.verdict}"


@dataclass(frozen=True)
class Method:
    """A way of training from weak labels: ``Method(make=lambda T: loss)`` is one.

    `make` takes T, and gives a loss of the library or one made like them, a `StackedLoss`, or a function
    ``(scores (S, n, K), labels) -> (S, n)`` losses. What is not said otherwise holds for all of them: any labels, a
    certificate of the loss by `tproper.certify` where it can tell.

    A pointwise loss takes several answers per example too, where it takes each of them, or (complementary answers) the
    set of classes that they leave.
    """

    name: str = ""  # as typed after --methods; that of the entry point where it comes from another package
    title: str = ""  # as printed: the name, unless something else is said
    reference: str = ""  # the citation in one line
    labels: frozenset[str] = frozenset(SETTINGS)  # which of `SETTINGS` it can be trained on
    make: Callable[[Transition], Any] | None = None
    decide: Callable[[Transition], Certificate | None] | None = None  # what `certify` says; None: see `words`
    words: str = ""  # what is known where `decide` does not apply, and why it does not
    settings: Callable[[str], Method] | None = None  # the method that a name with settings (name:text) stands for
    pointwise: bool = False  # whether `make` gives a `Pointwise` loss
    uses_t: bool = True  # whether it is told T; else it goes by the kind of label alone

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise InputError(f"make: expected a function of T that gives a loss, got {type(self.make).__name__}")

    def named(self, name: str) -> Method:
        """The method by the name that a package's entry point gives it."""
        return replace(self, name=name, title=self.title or name)

    def made(self, transition: Transition) -> StackedLoss:
        """What `make` gives, as the risk of a stack of trials."""
        assert self.make is not None
        loss = self.make(transition)
        if isinstance(loss, WeakLabelLoss):
            return LibraryLoss(loss)
        if isinstance(loss, StackedLoss):
            return loss
        if not callable(loss):
            raise MethodError(f"make: expected a loss, or a function of (scores, labels), got {type(loss).__name__}")
        return _Function(loss)

    def fits(self, transition: Transition) -> bool:
        """Whether it can be trained on the labels of this T."""
        return setting_of(transition) in self.labels or self._by_answers(transition) is not None

    def _by_answers(self, transition: Transition) -> type[Pointwise] | None:
        """How a loss of single labels, or of sets, takes several answers per example; None where it does not."""
        if not isinstance(transition, AnnotatorTransition) or not self.pointwise or "annotators" in self.labels:
            return None
        kinds = {setting_of(t) for t in transition.transitions}
        if kinds == {"complementary"} and "multi_complementary" in self.labels:
            return LeftByAnswers
        return OverAnswers if kinds <= self.labels else None

    def build(self, transition: Transition) -> StackedLoss:
        """The loss of a stack of trials."""
        if not self.fits(transition):
            raise InputError(
                f"method: expected one for {setting_of(transition)} labels ({transition.name}), got {self.name!r}, "
                f"which is for {', '.join(sorted(self.labels))}"
            )
        several = self._by_answers(transition)
        if several is None:
            return self.made(transition)
        single = self.made(transition.transitions[0])  # type: ignore[attr-defined]
        assert isinstance(single, Pointwise)
        return several(single.each)

    def certify(self, transition: Transition) -> Certificate | None:
        """The certificate for this T, or None where there is no pointwise loss to certify.

        The expected mean over several answers is the expected loss of one label with the mean of the annotators' T.
        """
        several = self._by_answers(transition)
        if self.decide is None and several is None and not self.words:
            made = self.made(transition)
            if isinstance(made, LibraryLoss):
                return certify(made.core)
            return _searched(made.function, transition, self.title) if isinstance(made, _Function) else None
        if self.decide is None or several is LeftByAnswers:
            return None
        if several is OverAnswers:
            return self.decide(_mean_transition(transition.transitions))  # type: ignore[attr-defined]
        return self.decide(transition)

    def card(self, transition: Transition) -> Card:
        """Whether the method is proper and bounded for this T, and how that is known."""
        if not self.fits(transition):
            raise InputError(f"method: expected one for {transition.name}, got {self.name!r}")
        c = self.certify(transition)
        about = (self.name, self.title, self.reference, transition.name)
        if c is None:
            unknown = "its labels are the sets that several answers leave, whose T certify has no list of"
            if self.decide is None:
                unknown = NOT_SEARCHED
            return Card(*about, None, None, "words", self.words or unknown)
        verdict = f"{'proper' if c.proper else 'not proper'}, {'bounded' if c.lower_bounded else 'not bounded'} below"
        how = c.evidence if not c.searched else "no counterexample found" if c.proper else "counterexample"
        where = "" if c.transition == transition.name or not c.searched else f", decided for {c.transition}"
        return Card(*about, c.proper, c.lower_bounded, c.evidence, f"{verdict} ({how}{where})", c)


METHODS: dict[str, Method] = {}
OWN = "user's own"  # the reference of a method that a user's file gives
NOT_SEARCHED = (
    f"it gives risks of whole batches, or there are more than {MOST_LABELS} weak labels: nothing that "
    "certify could search through"
)


def register(method: Method) -> Method:
    """Make a method known by its name."""
    if method.name in METHODS:
        raise InputError(f"method: expected a name that is not taken, got {method.name!r}")
    METHODS[method.name] = method
    return method


def find_method(name: str) -> Method:
    """The method of this name, with its settings if the name carries any."""
    stem, colon, settings = name.partition(":")
    if stem not in METHODS:
        _take_in(stem)
    method = METHODS.get(stem)
    if method is None:
        raise InputError(f"method: expected one of {', '.join(sorted(METHODS))}, got {name!r}")
    if not colon:
        return method
    if not settings:
        raise InputError(f"method: expected settings after the colon, or none, got {name!r}")
    if method.settings is None:
        raise InputError(f"method: expected {stem!r} without settings, got {name!r}")
    return replace(method.settings(settings), name=name)


def _take_in(name: str) -> None:
    """Register the method that another package's entry point names, if there is one: a `Method`, or its `make`."""
    if name in METHODS or name not in outside.points("methods"):
        return
    found = outside.loaded("methods", name)
    METHODS[name] = (found if isinstance(found, Method) else Method(make=found)).named(name)


def methods_for(transition: Transition) -> list[Method]:
    """The methods that can be trained on the labels of this T: the lab's, registered ones, those of other packages."""
    for name in outside.points("methods"):
        _take_in(name)
    return [m for m in METHODS.values() if m.fits(transition)]


def pointwise(
    name: str,
    title: str,
    reference: str,
    labels: Iterable[str],
    each: Callable[[Tensor, Tensor], Tensor],
) -> Method:
    """The method of a loss of single examples that needs no T, ``each(scores (S, n, K), labels) -> (S, n)``."""
    return Method(
        name, title, reference, frozenset(labels), lambda _: Pointwise(each),
        lambda T: searched(each, T, title), pointwise=True, uses_t=False,
    )  # fmt: skip


class MethodError(InputError):
    """A user's function that gives something else than losses or risks."""


class _Function(Softmax):
    """A user's function, whose losses of single examples are averaged and whose risks are taken as they are.

    Losses of another precision come back in that of the scores.
    """

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        self.function = function

    def __call__(self, scores: Tensor, labels: Tensor, learned: Tensor | None) -> Tensor:
        losses = self.function(scores, labels)
        if not isinstance(losses, Tensor) or not losses.is_floating_point():
            got = losses.dtype if isinstance(losses, Tensor) else type(losses).__name__
            raise MethodError(f"method: expected a tensor of real numbers, the losses, got {got}")
        if losses.shape not in (scores.shape[:2], scores.shape[:1]):
            raise MethodError(
                f"method: expected risks of shape {tuple(scores.shape[:1])} or losses of shape "
                f"{tuple(scores.shape[:2])} for scores {tuple(scores.shape)}, got shape {tuple(losses.shape)}"
            )
        if scores.requires_grad and not losses.requires_grad:
            raise MethodError("method: expected losses with a gradient by the scores, got constant or detached ones")
        losses = losses.to(scores.dtype)
        return losses.mean(1) if losses.ndim == 2 else losses


def from_function(
    function: Callable[[Tensor, Tensor], Tensor],
    name: str | None = None,
    labels: Iterable[str] = SETTINGS,
) -> Method:
    """A user's own loss: ``function(scores (S, n, K), labels) -> (S, n)`` losses or ``(S,)`` risks of batches.

    Losses of single examples are certified by search. The method is not registered: pass it on, or `register` it.
    """
    if not callable(function):
        raise InputError(f"method: expected a function of (scores, labels), got {type(function).__name__}")
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        written = f"{getattr(function, '__name__', 'one')}{inspect.signature(function)}"
        raise InputError(f"method: expected a function of (scores, labels), got {written}") from None
    except ValueError:  # a built-in that does not tell its arguments
        pass
    kinds = frozenset(labels)
    if kinds - set(SETTINGS):
        unknown = ", ".join(sorted(kinds - set(SETTINGS)))
        raise InputError(f"labels: expected some of {', '.join(SETTINGS)}, got {unknown}")
    title = str(name or getattr(function, "__name__", "own"))

    return Method(
        title, title, OWN, kinds, lambda _: _Function(function), lambda T: _searched(function, T, title),
        words=NOT_SEARCHED,
    )  # fmt: skip


def _searched(function: Callable[[Tensor, Tensor], Tensor], transition: Transition, title: str) -> Certificate | None:
    """The verdict of a search on a function of (scores, labels); None where it is of batches, or labels are many."""
    labels = torch.as_tensor(transition.sample(np.zeros((3, 2), dtype=np.int64), seed=0))
    pointwise = function(torch.zeros(3, 2, transition.num_classes), labels).shape == (3, 2)
    small = transition.num_weak_labels <= MOST_LABELS and not isinstance(transition, AnnotatorTransition)
    return certify(table(function, transition, title), transition) if pointwise and small else None


# The library's own losses.

_PAPER = "Yoshida, Takenouchi & Sugiyama 2021"


def _library(name: str, title: str, reference: str, spec: str, **options: Any) -> Method:
    def core(transition: Transition) -> WeakLabelLoss:
        loss = make_loss(spec, transition, **options)
        assert isinstance(loss, WeakLabelLoss)
        return loss

    return Method(
        name, title, reference, frozenset(SETTINGS), lambda T: LibraryLoss(core(T)), lambda T: certify(core(T)),
    )  # fmt: skip


def _forward(score: str) -> Method:
    return _library("forward", f"forward {score}", "Patrini et al. 2017; Yu et al. 2018", f"forward:{score}")


def _gls(text: str) -> Method:
    try:
        k, alpha = (float(x) for x in text.split(","))
    except ValueError:
        raise InputError(f"method: expected gls:k,alpha as in 'gls:1,2', got 'gls:{text}'") from None
    return _library("gls", f"BC + gLS (k = {k:g}, alpha = {alpha:g})", _PAPER, "gls", squeeze=(k, alpha))


register(replace(_forward("log"), settings=_forward))
register(_library("bc", "BC", "Natarajan et al. 2013; Ishida et al. 2019", "backward"))
register(replace(_gls("1,2"), settings=_gls))
register(_library("backward_brier", "backward, Brier", _PAPER, "backward", potential="brier"))
register(_library("ga", "BC + GA", "Ishida et al. 2019", "ga"))
register(_library("nn", "BC + NN", "Ishida et al. 2019; Kiryo et al. 2017", "nonnegative"))


from . import peers  # noqa: E402, F401  they register themselves; a name is never looked for before they have
