"""Checkpoints of streamed training: what was done, with which weights, and in which run.

A checkpoint serves the run that wrote it, and no other. So it carries that run's identity: the data files, the
columns, the order of the batches, the model, the loss and the optimizer, but not the number of epochs.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .._core import DamagedError, as_read, finite_number, json_hash, json_text, read_sealed, write_sealed
from ..errors import InputError
from ..losses import WeakLabelLoss, loss_to_dict
from ..transitions import Transition, make_transition, transition_to_dict

FORMAT = "tproper stream checkpoint"
_OURS = (FORMAT, "total_rows")  # either one marks a file as a checkpoint, with a checksum or from before there were any
LONGEST = 2000  # characters of a description; a longer one is kept as its hash


class CheckpointError(InputError):
    """A checkpoint of another run. `fact` says what differs, so that a command can give its own advice."""

    def __init__(self, path: Path, fact: str) -> None:
        super().__init__(
            f"checkpoint: expected the run that {path} belongs to, got {fact}; "
            "run it as it was, choose another checkpoint file, or delete this one"
        )
        self.path, self.fact = path, fact


@dataclass
class StreamProgress:
    """Where a streamed fit stands."""

    epoch: int = 0
    batches: int = 0  # done in this epoch
    rows: int = 0  # done in all epochs
    seconds: float = 0.0
    total_rows: int | None = None  # in all epochs, where it is known

    def __str__(self) -> str:
        share = f" of {self.total_rows:,}" if self.total_rows else ""
        rate = self.rows / self.seconds if self.seconds else 0.0
        left = f", about {(self.total_rows - self.rows) / rate:.0f} s left" if self.total_rows and rate else ""
        return f"epoch {self.epoch + 1}: {self.rows:,}{share} rows, {rate:,.0f} rows/s{left}"


# What identifies a run.


def described(value: Any) -> Any:
    """A setting as plain data: equal settings give equal data, in this process or another."""
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [described(v) for v in value]
    if isinstance(value, (set, frozenset)):
        return sorted((described(v) for v in value), key=json.dumps)
    if isinstance(value, dict):
        return {str(k): described(v) for k, v in value.items()}
    if isinstance(value, (np.ndarray, Tensor)):
        array = value.detach().cpu() if isinstance(value, Tensor) else np.ascontiguousarray(value)
        content = array.tolist() if isinstance(array, Tensor) or array.dtype == object else array.tobytes()
        return f"{value.dtype} {tuple(value.shape)} {_hash(content)}"
    if isinstance(value, Transition):
        try:
            return transition_to_dict(value)
        except ValueError:  # names of labels that are not plain data
            return {"name": value.name, "matrix": described(value.matrix())}
    if isinstance(value, nn.Module):
        return _loss_facts(value)
    if hasattr(value, "__qualname__"):  # functions and classes count by name; their code does not
        return _kind(value)
    return {"kind": _kind(type(value)), **_settings(value)}


def _kind(code: Any) -> str:
    return f"{code.__module__}.{code.__qualname__}"


def _settings(value: Any) -> dict[str, Any]:
    """The public attributes of an object that are plain data, or collections of it."""
    own = {k: v for k, v in vars(value).items() if not k.startswith("_")} if hasattr(value, "__dict__") else {}
    return {k: described(v) for k, v in own.items() if _is_plain(v) and not hasattr(type(value), k)}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str, np.generic, np.ndarray, Tensor))


def module_facts(module: nn.Module) -> dict[str, Any]:
    """What a module consists of, whatever its weights: its layers, their settings, and the shapes of the weights."""
    layers = {name or "itself": _layer(part) for name, part in module.named_modules()}
    shapes = {k: f"{v.dtype} {tuple(v.shape)}" for k, v in module.state_dict().items()}
    return {"layers": layers, "shapes": shapes}


def _layer(module: nn.Module) -> dict[str, Any]:
    """Its class, and for torch's own layers their settings; attributes of other layers may change in training."""
    own = _settings(module) if type(module).__module__.startswith("torch.") else {}
    return {"kind": _kind(type(module)), **{k: v for k, v in own.items() if k != "training"}}


def optimizer_facts(optimizer: torch.optim.Optimizer) -> dict[str, Any]:
    """Its kind, and the settings of every group of parameters."""
    groups = [
        {k: described(v) for k, v in group.items() if k != "params"} | {"parameters": len(group["params"])}
        for group in optimizer.param_groups
    ]
    return {"kind": type(optimizer).__qualname__, **{f"group {i}": g for i, g in enumerate(groups)}}


def transition_facts(value: Any, num_classes: int | None) -> Any:
    """T itself where it is known, so that a matrix in a file counts by its content."""
    try:
        return None if value is None else described(make_transition(value, num_classes))
    except ValueError:
        return described(value)


def code_facts(module: nn.Module, loss: nn.Module) -> Any:
    """The module and the loss that came of settings which are code, such as a function that builds the module."""
    return as_read(_bounded([module_facts(module), described(loss)], 1))


def identity(learner: Any, source: Any) -> dict[str, Any]:
    """What must stay the same from a checkpoint to its resumption, so that batches and steps are the same."""
    if hasattr(source, "identity"):
        batches = source.identity()
    else:
        batches = {n: getattr(source, n) for n in ("rows", "batch_size", "seed") if hasattr(source, n)}
    facts = {"source": type(source).__qualname__, **batches}
    own = learner.stream_identity() if hasattr(learner, "stream_identity") else {"type": type(learner).__qualname__}
    facts |= {f"learner's {k}": v for k, v in own.items()}
    out: dict[str, Any] = as_read({k: _bounded(described(v)) for k, v in facts.items()})
    return out


def _loss_facts(loss: nn.Module) -> dict[str, Any]:
    parts: list[Any] = []
    for part in loss.modules():
        if isinstance(part, WeakLabelLoss):
            try:
                facts = loss_to_dict(part)
            except ValueError:  # the caller's own code
                facts = _layer(part)
            parts += [facts, described(part.transition)]
    values = {k: described(v) for k, v in [*loss.named_parameters(), *loss.named_buffers()]}
    return {**_layer(loss), "parts": parts, "values": values}


def _hash(content: Any) -> str:
    digest = hashlib.sha256(content).hexdigest() if isinstance(content, bytes) else json_hash(content)
    return f"sha256 {digest}"


def _bounded(value: Any, level: int = 0) -> Any:
    if len(json.dumps(value)) <= LONGEST:
        return value
    if isinstance(value, dict) and level == 0:
        return {k: _bounded(v, 1) for k, v in value.items()}
    return _hash(value)


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    """In words: "another seed (4 instead of 3), files (b.parquet)"."""
    differences = []
    for key in _changed(before, now):
        old, new = before.get(key), now.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            inner = _changed(old, new)
            differences.append(f"{key} ({', '.join(inner[:3])}{' and more' if len(inner) > 3 else ''})")
        else:
            values = f"{_text(new)} instead of {_text(old)}"
            differences.append(f"{key} ({values})" if len(values) <= 120 and "sha256" not in values else key)
    return "another " + ", ".join(differences)


def _changed(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [k for k in {**now, **before} if before.get(k) != now.get(k)]


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


# Weights and optimizer.


def training_state(module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors of both, and the plain values that the optimizer keeps."""
    tensors = {f"module.{k}": v for k, v in module.state_dict().items()}
    state = optimizer.state_dict()
    plain: dict[str, dict[str, Any]] = {}
    for i, entries in state["state"].items():
        for key, value in entries.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{i}.{key}"] = value
            elif value is not None:
                plain.setdefault(str(i), {})[key] = value
    return tensors, {"param_groups": state["param_groups"], "state": plain}


def load_training_state(
    module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    """The inverse of `training_state`."""
    module.load_state_dict({k.removeprefix("module."): v for k, v in tensors.items() if k.startswith("module.")})
    state: dict[int, dict[str, Any]] = {int(i): dict(entries) for i, entries in facts["state"].items()}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, i, key = name.split(".", 2)
            state.setdefault(int(i), {})[key] = value
    _check_state(optimizer, state, facts["param_groups"])
    optimizer.load_state_dict({"state": state, "param_groups": facts["param_groups"]})


def _check_state(optimizer: torch.optim.Optimizer, state: dict[int, dict[str, Any]], groups: Any) -> None:
    """Refuse what does not fit: an optimizer loads any shapes, names and settings, and fails at the next step."""
    own = optimizer.state_dict()
    weights = [p for group in optimizer.param_groups for p in group["params"]]
    for i, entries in state.items():
        if not 0 <= i < len(weights):
            raise RuntimeError(f"its optimizer has a state for weight {i} of {len(weights)}")
        if set(entries) != set(own["state"].get(i) or next(iter(state.values()))):
            raise RuntimeError(f"its optimizer keeps other things about weight {i} than it needs")
        for name, value in entries.items():
            shapes = [(), weights[i].shape] if name != "step" else [()]
            if isinstance(value, Tensor) and value.shape not in shapes:
                raise RuntimeError(f"its optimizer's {name} has shape {tuple(value.shape)} for weight {i}")
    for before, now in zip(groups, own["param_groups"], strict=True):
        wrong = {k for k in {*before, *now} if k not in before or k not in now or not _alike(before[k], now[k])}
        if wrong or before["params"] != now["params"]:
            raise RuntimeError(f"its optimizer has other settings ({', '.join(sorted(wrong)) or 'params'})")


def _alike(one: Any, other: Any) -> bool:
    """Whether one setting may have become the other: a schedule changes numbers, within their range, and no more."""
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):  # Adam's betas are shares
        return len(one) == len(other) and all(
            _alike(x, o) and (x < 1 or o >= 1) for x, o in zip(one, other, strict=True)
        )
    if all(finite_number(x) or isinstance(x, Tensor) for x in (one, other)):
        return (float(one) >= 0 or float(other) < 0) and abs(float(one)) < math.inf
    return type(one) is type(other) and one == other


def random_state(device: torch.device) -> dict[str, Tensor]:
    """The state of torch's random numbers, which dropout draws from, on the CPU and on the device in use."""
    out = {"torch_random.cpu": torch.get_rng_state()}
    if device.type == "cuda":
        out["torch_random.cuda"] = torch.cuda.get_rng_state(device)
    return out


def load_random_state(tensors: dict[str, Tensor], device: torch.device) -> None:
    """The inverse of `random_state`."""
    torch.set_rng_state(tensors["torch_random.cpu"])
    if device.type == "cuda" and "torch_random.cuda" in tensors:
        torch.cuda.set_rng_state(tensors["torch_random.cuda"], device)


# Files.


def save_checkpoint(learner: Any, run: dict[str, Any], path: Path, at: StreamProgress) -> None:
    """Write a whole file, with its checksum, in place of the last one."""
    tensors, facts = learner.stream_state()
    try:
        header = {"progress": json_text(asdict(at)), "learner": json_text(facts, default=_number)}
    except TypeError as error:
        raise InputError(
            f"checkpoint: expected a state of tensors, numbers and text, got another value: {error}"
        ) from None
    write_sealed(path, tensors, header | {"format": FORMAT, "run": json_text(run)})


def _number(value: Any) -> Any:
    """A learning rate may be a tensor of one number."""
    if isinstance(value, Tensor) and value.numel() == 1:
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be kept")


def read_checkpoint(
    path: Path, run: dict[str, Any], rows: int | None = None
) -> tuple[StreamProgress, dict[str, Tensor], dict[str, Any]]:
    """Progress, tensors and facts of a checkpoint of this very run; one of another run is refused.

    A damaged one raises `DamagedError`. A file that is not a checkpoint at all is not ours to replace, and is refused
    too. `rows` is the number of rows in an epoch, where it is known.
    """
    try:
        header, tensors = read_sealed(path)
        values = {k: json.loads(v) for k, v in header.items() if k in ("progress", "learner", "run")}
        at, facts, before = StreamProgress(**values["progress"]), values["learner"], values["run"]
    except (DamagedError, KeyError, TypeError, json.JSONDecodeError, RecursionError) as error:
        if any(text.encode() in path.read_bytes() for text in _OURS):
            raise DamagedError(f"checkpoint: {path} cannot be used ({error})") from None
        raise InputError(
            f"checkpoint: expected a file that fit_stream wrote, got {path} ({error}); delete it, or choose another"
        ) from None
    if before != run:
        raise CheckpointError(path, _difference(before, run))
    wrong = _impossible(at, rows)
    if wrong:
        raise DamagedError(f"checkpoint: {path} cannot be used (its progress has {wrong})")
    return at, tensors, facts


def _impossible(at: StreamProgress, rows: int | None) -> str:
    """Counts that cannot belong together: every epoch has at least one batch, and every batch at least one row."""
    counts = {"epoch": at.epoch, "batches": at.batches, "rows": at.rows}
    for name, count in counts.items():
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            return f"{name} = {count!r}"
    if not finite_number(at.seconds) or at.seconds < 0:
        return f"seconds = {at.seconds!r}"
    low, high = at.epoch + at.batches, math.inf
    if rows is not None:
        low, high = at.epoch * rows + at.batches, (at.epoch + (at.batches > 0)) * rows
    return "" if low <= at.rows <= high else f"{at.rows} rows in {at.epoch} epochs and {at.batches} batches"
