"""Training on data that does not fit in memory: Parquet and Arrow files, folders of them, or any iterable of batches.

    source = ParquetSource("clicks/", label="label", batch_size=4096, seed=0)
    fit_stream(learner, source, epochs=3, checkpoint="run/checkpoint.safetensors")

Memory holds one block of rows, whatever the size of the files. A checkpoint needs only the number of batches that are
done, because a source gives the same batches for the same seed: a resumed run ends with the weights that an
uninterrupted one has.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from . import _checks
from ._checks import FloatArray
from ._sources import Batch, CandidateLists, IterableSource, ParquetSource, Source, as_source
from .losses import WeakLabelLoss

__all__ = [
    "Batch",
    "CandidateLists",
    "IterableSource",
    "Learner",
    "ParquetSource",
    "Source",
    "StreamProgress",
    "as_source",
    "fit_stream",
]


class Learner:
    """A module, a loss and an optimizer as something that learns batch by batch and can be put aside.

    `optimizer` makes an optimizer from parameters, for example ``lambda p: torch.optim.SGD(p, lr=.1, momentum=.9)``.
    `standardise` is a pair (mean, standard deviation) of the features, as `ParquetSource.moments` gives it.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: WeakLabelLoss | nn.Module,
        optimizer: Callable[[Any], torch.optim.Optimizer],
        standardise: tuple[FloatArray, FloatArray] | None = None,
        device: torch.device | str = "cpu",
    ) -> None:
        self.device = torch.device(device)
        self.module, self.loss = module.to(self.device), loss.to(self.device)
        self.optimizer = optimizer(self.module.parameters())
        moments = (0.0, 1.0) if standardise is None else standardise
        self._centre, self._scale = (torch.as_tensor(m, dtype=torch.float32, device=self.device) for m in moments)
        self.last_loss: Tensor | None = None

    def _inputs(self, X: NDArray[Any]) -> Tensor:
        return (torch.as_tensor(X, dtype=torch.float32, device=self.device) - self._centre) / self._scale

    def partial_fit(self, X: NDArray[Any], labels: NDArray[Any]) -> Learner:
        """One step on one batch."""
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(self.module(self._inputs(X)), torch.as_tensor(labels, device=self.device))
        value.backward()
        self.optimizer.step()
        self.last_loss = value.detach()
        return self

    @torch.no_grad()
    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Class probabilities (n, K) by the loss's own link."""
        self.module.eval()
        link: Any = self.loss.probabilities
        return np.asarray(link(self.module(self._inputs(X)).double()).cpu())

    def stream_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain facts from which training goes on as if it had not stopped."""
        return _training_state(self.module, self.optimizer)

    def load_stream_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Take over what `stream_state` gave."""
        _load_training_state(self.module, self.optimizer, tensors, facts)


class _EstimatorLearner:
    """A scikit-learn style classifier of this package, seen as something that can be put aside.

    Its module, optimiser and random numbers do not exist before the first batch. To go on from a checkpoint it is shown
    one batch, which makes them, and then given their contents.
    """

    def __init__(self, estimator: Any, classes: Any) -> None:
        self.estimator, self.classes = estimator, classes

    def partial_fit(self, X: NDArray[Any], labels: NDArray[Any]) -> None:
        self.estimator.partial_fit(X, labels, classes=self.classes)

    def stream_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        model = self.estimator
        tensors, facts = _training_state(model.module_, model._optimizer)
        kind, keys, *rest = model._stream.get_state()
        tensors["random"] = torch.as_tensor(keys.astype(np.int64))
        return tensors, {**facts, "random": [kind, *rest], "history": model.history_, "n_iter": model.n_iter_}

    def load_stream_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        model = self.estimator
        _load_training_state(model.module_, model._optimizer, tensors, facts)
        kind, *rest = facts["random"]
        model._stream.set_state((kind, tensors["random"].numpy().astype(np.uint32), *rest))
        model.history_, model.n_iter_ = facts["history"], facts["n_iter"]


def _training_state(module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[dict[str, Tensor], dict[str, Any]]:
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


def _load_training_state(
    module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], facts: dict[str, Any]
) -> None:
    module.load_state_dict({k.removeprefix("module."): v for k, v in tensors.items() if k.startswith("module.")})
    state: dict[int, dict[str, Any]] = {int(i): dict(entries) for i, entries in facts["state"].items()}
    for name, value in tensors.items():
        if name.startswith("optimizer."):
            _, i, key = name.split(".", 2)
            state.setdefault(int(i), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": facts["param_groups"]})


@dataclass
class StreamProgress:
    """Where a streamed fit stands."""

    epoch: int = 0
    batches: int = 0  # done in this epoch
    rows: int = 0  # done in all
    seconds: float = 0.0
    total_rows: int | None = None  # of all epochs, where it is known

    def __str__(self) -> str:
        share = f" of {self.total_rows:,}" if self.total_rows else ""
        rate = self.rows / self.seconds if self.seconds else 0.0
        left = f", about {(self.total_rows - self.rows) / rate:.0f} s left" if self.total_rows and rate else ""
        return f"epoch {self.epoch + 1}: {self.rows:,}{share} rows, {rate:,.0f} rows/s{left}"


def fit_stream(
    learner: Any,
    source: Any,
    *,
    epochs: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Callable[[StreamProgress], None] | None = None,
    classes: Any = None,
) -> Any:
    """Train anything with ``partial_fit(X, labels)`` on a source, an epoch at a time, in constant memory.

    Parameters
    ----------
    learner : Learner, WeakLabelClassifier, or any object with partial_fit
    source : ParquetSource, path, or iterable of (X, labels)
    epochs : int
    checkpoint : path, optional
        A .safetensors file, replaced every `checkpoint_seconds` and when training is interrupted. If it exists,
        training goes on from it, with the same batches as if it had never stopped; the weights are the same, too.
        Works for `Learner`, for `WeakLabelClassifier` with an integer ``random_state``, and for whatever has
        ``stream_state()`` and ``load_stream_state()``. The file stays at the end, and then says that all is done.
    progress : callable, optional
        Called with a `StreamProgress` after every batch.
    classes : list, optional
        Class names for the first ``partial_fit`` of a classifier whose transition does not say how many there are.

    Returns
    -------
    The learner.
    """
    epochs = _checks.integer(epochs, "epochs", 1)
    if not hasattr(learner, "partial_fit"):
        raise ValueError(f"learner: expected an object with partial_fit, got {type(learner).__name__}")
    source = as_source(source)
    given = learner
    if not isinstance(learner, Learner) and hasattr(learner, "predict_proba"):
        learner = _EstimatorLearner(learner, classes)
    elif classes is not None:
        raise ValueError(f"classes: expected None for a {type(learner).__name__}, which has no class names")
    if isinstance(source, IterableSource) and source._once and epochs > 1:
        raise ValueError("source: expected a collection or a function for several epochs, got an iterator")
    at = StreamProgress(total_rows=None if source.rows is None else epochs * source.rows)
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        if not hasattr(learner, "stream_state"):
            raise ValueError(
                f"checkpoint: expected a learner with stream_state, such as Learner, got {type(given).__name__}"
            )
        if path.exists():
            at = _restore(learner, source, path, at)
    began, saved = time.monotonic() - at.seconds, time.monotonic()
    try:
        while at.epoch < epochs:
            for X, labels in source.batches(at.epoch, at.batches):
                learner.partial_fit(X, labels)
                at.batches += 1
                at.rows += len(X)
                at.seconds = time.monotonic() - began
                if progress is not None:
                    progress(at)
                if path is not None and time.monotonic() - saved > checkpoint_seconds:
                    _save(learner, source, path, at)
                    saved = time.monotonic()
            if not at.batches:
                raise ValueError("source: expected at least one batch, got none")
            at.epoch, at.batches = at.epoch + 1, 0
    finally:  # also when interrupted: what is done is kept
        if path is not None and at.rows:
            _save(learner, source, path, at)
    return given


def _identity(source: Source) -> dict[str, Any]:
    """What must not change between a checkpoint and its resumption, or batches would be other ones."""
    names = ("seed", "shuffle", "batch_size", "block_rows", "rows", "label", "features", "num_classes")
    return {n: getattr(source, n) for n in names if hasattr(source, n)}


def _save(learner: Any, source: Source, path: Path, at: StreamProgress) -> None:
    """Under another name, synced, renamed: the file is always a whole one."""
    from safetensors.torch import save

    tensors, facts = learner.stream_state()
    header = {"progress": json.dumps(asdict(at)), "learner": json.dumps(facts), "source": json.dumps(_identity(source))}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as file:
            file.write(save({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, metadata=header))
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _restore(learner: Any, source: Source, path: Path, fresh: StreamProgress) -> StreamProgress:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = {k: json.loads(v) for k, v in (file.metadata() or {}).items()}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        at, facts, before = StreamProgress(**header["progress"]), header["learner"], header["source"]
    except (SafetensorError, KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"checkpoint: expected a file that fit_stream wrote, got {path} ({error})") from None
    now = json.loads(json.dumps(_identity(source)))
    if before != now:
        changed = ", ".join(sorted(k for k in before.keys() | now.keys() if before.get(k) != now.get(k)))
        raise ValueError(
            f"checkpoint: expected the source that {path} was made with, got another {changed}; "
            "use that source again, or another checkpoint file"
        )
    if isinstance(learner, _EstimatorLearner) and not hasattr(learner.estimator, "module_"):
        learner.partial_fit(*next(iter(source.batches(0))))
    learner.load_stream_state(tensors, facts)
    at.total_rows = fresh.total_rows
    return at
