"""A user's own loss: one function in a file of theirs, run once before it is trusted with hours of training."""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import traceback
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch

from tproper.errors import InputError
from tproper.transitions import Transition

from .methods import METHODS, OWN, Method, MethodError, from_function
from .objectives import differentiated


def register_own(place: str) -> tuple[Method, str]:
    """A user's own loss, ``file.py:name``, as a method of that name; and the digest of its file.

    The name is that of a function of (scores, labels), of a function of T that gives a loss, or of a `Method`.
    """
    file, colon, name = place.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier() or path.suffix != ".py" or not path.is_file():
        missing = ", no such file" if path.suffix == ".py" and not path.is_file() else ""
        raise InputError(f"method: expected file.py:function, got {place!r}{missing}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    method = _method(getattr(_module(path, digest), name, None), name, path)
    known = METHODS.get(name)
    if known is not None and known.reference != method.reference:
        raise InputError(f"method: expected a name that is not taken, got {name!r}; rename the function")
    METHODS[name] = method
    return method, digest


def _method(found: Any, name: str, path: Path) -> Method:
    """What a user's name stands for."""
    if isinstance(found, Method):
        return replace(found.named(name), reference=found.reference or OWN)
    if not callable(found):
        raise InputError(f"method: expected a function {name} in {path}, or a Method, got none")
    of_T = _takes(found, 1) and not _takes(found, 2)
    return Method(name, name, OWN, make=found) if of_T else from_function(found, name)


def _takes(function: Any, count: int) -> bool:
    """Whether it can be called with so many arguments; a built-in that does not tell is taken to."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        return True
    return True


def _module(path: Path, digest: str) -> ModuleType:
    """A user's file, run as a module that Python knows (dataclasses ask for theirs), with those beside it."""
    spec = importlib.util.spec_from_file_location(f"tproper_own_{path.stem}_{digest[:12]}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)  # last, so that it hides nothing
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # anything may go wrong in a user's file, and it is theirs to mend
        del sys.modules[spec.name]
        raise InputError(f"method: {path} cannot be run: {type(error).__name__}: {error}") from error
    return module


def rehearse(method: Method, told: Transition) -> None:
    """Run a user's own loss once as training will, on two trials of three examples, so that its mistakes come first.

    In float32, as training does, and in float64, as its certificate will: a function that makes its constants without
    a dtype fails in one of them. Where it raises an error, the sentence names that error and the line; losses and
    gradients must be finite.
    """
    S, n, K = 2, 3, told.num_classes
    labels = told.encode(told.sample(np.arange(S * n) % K, seed=0)).unflatten(0, (S, n))
    scores = torch.randn(S, n, K, generator=torch.Generator().manual_seed(0))
    for dtype in (torch.float32, torch.float64):
        try:
            risk, slope, _ = differentiated(method.build(told), scores.to(dtype), labels, None)
        except MethodError:
            raise
        except Exception as error:
            reason = (str(error).strip() or "no reason given").splitlines()[0]
            line = traceback.extract_tb(error.__traceback__)[-1]
            in_float64, advice = "", ""
            if dtype is torch.float64:
                in_float64 = " in float64, in which it is certified (float32, in which it is trained, works)"
                advice = "; make its constants with dtype=scores.dtype and device=scores.device"
            raise InputError(
                f"method: {method.name} fails on scores {tuple(scores.shape)} and labels {tuple(labels.shape)}"
                f"{in_float64}: {type(error).__name__}: {reason} "
                f"({Path(line.filename).name}, line {line.lineno}){advice}"
            ) from error
        for what, values in (("losses", risk), ("gradients", slope)):
            wrong = values[~values.isfinite()]
            if len(wrong):
                raise InputError(
                    f"method: expected finite {what} of {method.name} at ordinary scores, got {wrong[0].item()}"
                )
