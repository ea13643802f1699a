"""A user's own loss: one function in a file of theirs, run once before it is trusted with hours of training."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import torch

from tproper.errors import InputError
from tproper.transitions import Transition

from .methods import METHODS, Method, MethodError, from_function
from .objectives import differentiated


def register_own(place: str) -> tuple[Method, str]:
    """A user's own loss, ``file.py:function``, as a method by the function's name; and the digest of its file."""
    file, colon, name = place.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier() or path.suffix != ".py" or not path.is_file():
        missing = ", no such file" if path.suffix == ".py" and not path.is_file() else ""
        raise InputError(f"method: expected file.py:function, got {place!r}{missing}")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    function: Callable[..., torch.Tensor] | None = getattr(_module(path, digest), name, None)
    if not callable(function):
        raise InputError(f"method: expected a function {name} in {path}, got none")
    method = from_function(function, name)
    known = METHODS.get(name)
    if known is not None and known.reference != method.reference:
        raise InputError(f"method: expected a name that is not taken, got {name!r}; rename the function")
    METHODS[name] = method
    return method, digest


def _module(path: Path, digest: str) -> ModuleType:
    """A user's file, run as a module that Python knows (dataclasses ask for theirs) and that imports its neighbours."""
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

    Where it raises an error, the sentence names that error and the line; losses and gradients must be finite.
    """
    S, n, K = 2, 3, told.num_classes
    labels = told.encode(told.sample(np.arange(S * n) % K, seed=0)).unflatten(0, (S, n))
    scores = torch.randn(S, n, K, generator=torch.Generator().manual_seed(0))
    try:
        risk, slope, _ = differentiated(method.build(told), scores, labels, None)
    except MethodError:
        raise
    except Exception as error:
        reason = (str(error).strip() or "no reason given").splitlines()[0]
        line = traceback.extract_tb(error.__traceback__)[-1]
        raise InputError(
            f"method: {method.name} fails on scores {tuple(scores.shape)} and labels {tuple(labels.shape)}: "
            f"{type(error).__name__}: {reason} ({Path(line.filename).name}, line {line.lineno})"
        ) from error
    for what, values in (("losses", risk), ("gradients", slope)):
        wrong = values[~values.isfinite()]
        if len(wrong):
            raise InputError(
                f"method: expected finite {what} of {method.name} at ordinary scores, got {wrong[0].item()}"
            )
