"""Potentials and losses by name, and as plain data for saved models."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from .._core import plugins
from ..errors import InputError
from ..potentials import Brier, LogSumExp, Max, Potential, Sparsemax, Spherical, Squeezed, Tsallis
from ..transitions import (
    METHODS,
    Reconstruction,
    Transition,
)
from .backward import BackwardLoss
from .base import WeakLabelLoss
from .batch import GradientAscentLoss, NonNegativeLoss
from .forward import ForwardLoss
from .forward_backward import HALF, ForwardBackwardLoss
from .scores import PotentialScore

LOSSES = ("forward", "backward", "gls", "ga", "nonnegative", "forward_backward")
_OTHERS: dict[str, Callable[[Transition], nn.Module]] = {}  # registered by others
SQUEEZE = (1.0, 2.0)  # k and alpha of "gls" where none are given: the paper's choice
# Name -> how to make it, and what the text after a colon is.
_POTENTIALS: dict[str, tuple[Callable[..., Potential], type | None]] = {
    "logsumexp": (LogSumExp, None),
    "sparsemax": (Sparsemax, None),
    "brier": (Brier, str),
    "spherical": (Spherical, str),
    "tsallis": (Tsallis, float),
    "max": (Max, None),
}


def register_potential(name: str, make: Callable[..., Potential], argument: type | None = None) -> None:
    """A potential of your own by its name: ``register_potential("quartic", Quartic)``.

    With `argument`, a type such as float, the text after a colon is given to `make` (``name:1.5``). A class that takes
    no argument can be saved with a model; whoever loads that model needs the plugin too.
    """
    plugins.add(_POTENTIALS, name, (make, argument))


def register_loss(name: str, make: Callable[[Transition], nn.Module]) -> None:
    """A loss of your own by its name, made of a transition: ``register_loss("robust", RobustLoss)``.

    A class that needs no more than the transition can be saved with a model.
    """
    if name in LOSSES:
        raise InputError(f"name: expected one that is not taken, got {name!r}")
    plugins.add(_OTHERS, name, make)


def make_potential(spec: str | Potential) -> Potential:
    """A potential by name: logsumexp, brier, spherical, sparsemax, max, ``tsallis:1.5``, ``brier:simplex``."""
    if isinstance(spec, Potential):
        return spec
    name, colon, argument = str(spec).partition(":")
    make, argument_kind = plugins.find(_POTENTIALS, name if isinstance(spec, str) else None) or (None, None)
    if make is None or (colon and argument_kind is None):
        known = ", ".join(_POTENTIALS)
        raise InputError(
            f"potential: expected one of {known} (tsallis:1.5, brier:simplex) or a Potential, got {spec!r}"
        )
    if argument_kind is not float:
        return make(*([argument] if colon else []))
    try:
        number = float(argument)
    except ValueError:
        raise InputError(f"potential: expected a number as in '{name}:1.5', got {spec!r}") from None
    return make(number)


def make_loss(
    loss: Any,
    transition: Transition,
    potential: str | Potential = "logsumexp",
    squeeze: tuple[float, float] | None = None,
    reconstruction: Any = "auto",
) -> nn.Module:
    """The loss that a name, an object or a factory ``transition -> loss`` stands for; ``forward:brier`` names a score.

    Settings that the loss has no use for are refused, not ignored.
    """
    given = {
        "potential": not (isinstance(potential, str) and potential == "logsumexp"),
        "squeeze": squeeze is not None,
        "reconstruction": not (isinstance(reconstruction, str) and reconstruction == "auto"),
    }

    def refuse(*names: str) -> None:
        for name in names:
            if given[name]:
                shown = loss if isinstance(loss, str) else type(loss).__name__
                raise InputError(f"{name}: expected its default with loss={shown!r}, which has no use for it")

    if isinstance(loss, nn.Module):
        refuse("potential", "squeeze", "reconstruction")
        if isinstance(loss, WeakLabelLoss) and not loss.transition.same_as(transition):
            raise InputError(
                f"loss: expected one for the transition {transition.name}, got one for {loss.transition.name}"
            )
        return loss
    make = loss if callable(loss) else None if loss in LOSSES else plugins.find(_OTHERS, loss)
    if make is not None:
        refuse("potential", "squeeze", "reconstruction")
        module = make(transition)
        if not isinstance(module, nn.Module):
            raise InputError(f"loss: expected the callable to return a loss module, got {type(module).__name__}")
        return module
    if isinstance(loss, str) and loss.partition(":")[0] == "forward":
        refuse("potential", "squeeze", "reconstruction")
        return ForwardLoss(transition, score=loss.partition(":")[2] or "log")
    if loss in ("backward", "gls"):
        chosen = SQUEEZE if loss == "gls" and squeeze is None else squeeze
        R = _reconstruction(reconstruction, transition)
        F = make_potential(potential)
        if isinstance(F, Spherical) and F.domain == "affine":
            raise InputError(
                "potential: expected one that is finite at all scores, got spherical (affine), which is infinite "
                "outside of the unit ball, so that no model can be trained with it; use 'spherical:simplex'"
            )
        return BackwardLoss(transition, F, chosen, R)
    if isinstance(loss, str) and loss.partition(":")[0] == "forward_backward":
        refuse("potential", "squeeze")
        try:
            share = float(loss.partition(":")[2] or HALF)
        except ValueError:
            raise InputError(f"loss: expected a number as in 'forward_backward:0.5', got {loss!r}") from None
        return ForwardBackwardLoss(transition, share, reconstruction=_reconstruction(reconstruction, transition))
    if loss in ("ga", "nonnegative"):
        refuse("potential", "squeeze")
        R = _reconstruction(reconstruction, transition)
        kind = GradientAscentLoss if loss == "ga" else NonNegativeLoss
        return kind(transition, reconstruction=R)
    known = ", ".join([*LOSSES, *_OTHERS])
    raise InputError(f"loss: expected one of {known}, a loss object, or a callable, got {loss!r}")


def _reconstruction(value: Any, transition: Transition) -> str | Reconstruction:
    if isinstance(value, str) and value not in METHODS:
        raise InputError(
            f"reconstruction: expected one of {', '.join(METHODS)}, a Reconstruction or a matrix, got {value!r}"
        )
    return value if isinstance(value, (str, Reconstruction)) else Reconstruction(value, transition)


# Plain data.


def loss_to_dict(loss: nn.Module) -> dict[str, Any]:
    """JSON-ready; losses that are not tproper's own, and potentials given as functions, are code and are refused."""
    if type(loss) is ForwardLoss:
        if isinstance(loss.score, PotentialScore):
            raise InputError(f"score: that of {loss.score.name} is code, which a model file does not hold")
        extra: dict[str, Any] = {} if loss.score.name == "log" else {"score": loss.score.name}
        if loss.link is not None:
            extra["link"] = _potential_to_plain(loss.link)
        return {"kind": "forward", **extra, **_ignored(loss)}
    if type(loss) is ForwardBackwardLoss:
        R = loss.reconstruction.to_plain()
        middle = loss.share if loss.share is not None else loss.middle.tolist()
        return {"kind": "forward_backward", "middle": middle, "reconstruction": R, **_ignored(loss)}
    kinds: dict[type, str] = {BackwardLoss: "backward", GradientAscentLoss: "ga", NonNegativeLoss: "nonnegative"}
    for name, make in _OTHERS.items():
        if type(loss) is make:
            return {"kind": name}
    kind = kinds.get(type(loss))
    if kind is None:
        raise InputError(
            f"loss: a {type(loss).__name__} is code, which a model file does not hold; "
            f"use one of tproper's losses, or save module_.state_dict() yourself"
        )
    assert isinstance(loss, (BackwardLoss, GradientAscentLoss, NonNegativeLoss))
    out: dict[str, Any] = {"kind": kind, "reconstruction": loss.reconstruction.to_plain()}
    if isinstance(loss, BackwardLoss):
        out["potential"] = _potential_to_plain(loss.potential)
        weights = loss.class_weights
        out["class_weights"] = None if weights is None else [float(w) for w in weights]
    return out | _ignored(loss)


def _ignored(loss: WeakLabelLoss) -> dict[str, Any]:
    return {} if loss.ignore_index is None else {"ignore_index": loss.ignore_index}


def loss_from_dict(data: Mapping[str, Any], transition: Transition) -> nn.Module:
    """The inverse of `loss_to_dict`."""
    kind, ignored = data.get("kind"), data.get("ignore_index")
    if kind == "forward":
        link = data.get("link")
        chosen = None if link is None else _potential_from_plain(link)
        score = str(data.get("score", "log"))
        return ForwardLoss(transition, score=score, link=chosen, ignore_index=ignored)
    other = None if kind in LOSSES else plugins.find(_OTHERS, kind)
    if other is not None:
        return other(transition)
    if kind not in ("backward", "ga", "nonnegative", "forward_backward"):
        raise InputError(f"loss: expected a known kind of loss, got {kind!r}")
    R = Reconstruction.from_plain(data["reconstruction"], transition)
    if kind == "forward_backward":
        return ForwardBackwardLoss(transition, data["middle"], reconstruction=R, ignore_index=ignored)
    if kind == "backward":
        potential = _potential_from_plain(data["potential"])
        weights = data["class_weights"]
        return BackwardLoss(transition, potential, reconstruction=R, class_weights=weights, ignore_index=ignored)
    make = GradientAscentLoss if kind == "ga" else NonNegativeLoss
    return make(transition, reconstruction=R, ignore_index=ignored)


def _potential_to_plain(F: Potential) -> dict[str, Any]:
    if isinstance(F, Squeezed):
        return {"name": "squeezed", "k": F.k, "alpha": F.alpha, "base": _potential_to_plain(F.base)}
    names = {make: name for name, (make, _) in _POTENTIALS.items()}
    name = names.get(type(F))
    if name is None:
        raise InputError(f"potential: a {type(F).__name__} is code, which a model file does not hold")
    if isinstance(F, Tsallis):
        return {"name": name, "a": F.a}
    return {"name": name, "domain": F.domain} if name in ("brier", "spherical") else {"name": name}


def _potential_from_plain(data: Mapping[str, Any]) -> Potential:
    name = data["name"]
    if name == "squeezed":
        return Squeezed(_potential_from_plain(data["base"]), data["k"], data["alpha"], allow_improper=True)
    make, _ = plugins.find(_POTENTIALS, name) or (None, None)
    if make is None:
        raise InputError(f"potential: expected one of {', '.join(_POTENTIALS)}, got {name!r}")
    return make(**{k: v for k, v in data.items() if k != "name"})
