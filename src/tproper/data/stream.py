"""Training on data that does not fit in memory: Parquet and Arrow files, folders of them, or any iterable of batches.

    source = ParquetSource("clicks/", label="label", batch_size=4096, seed=0)
    fit_stream(learner, source, epochs=3, checkpoint="run/checkpoint.safetensors")

Memory holds one block of rows, whatever the size of the files. A source gives the same batches for the same seed, so
the number of batches done, the weights, the optimizer and the random numbers are all that a checkpoint needs: a resumed
run ends with the weights of an uninterrupted one. Only the run that wrote a checkpoint accepts it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from .._core import DamagedError, FloatArray, all_finite, checks, finite_rows, optimizer_tensors, warn
from ..errors import InputError
from ..losses import WeakLabelLoss
from . import checkpoints as _checkpoints
from .checkpoints import CheckpointError, StreamProgress
from .columns import check_finite
from .sources import NO_BATCH, Batch, IterableSource, Source, as_source

L = TypeVar("L")  # what is trained comes back as it was given


class Learner:
    """A module, a loss and an optimizer as something that learns batch by batch and can be saved and resumed.

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
        self._identity = {
            "module": _checkpoints.module_facts(module),
            "loss": loss,
            "optimizer": _checkpoints.optimizer_facts(self.optimizer),
            "standardise": standardise,
        }
        self._centre, self._scale = (torch.as_tensor(m, dtype=torch.float64) for m in moments)

    def _inputs(self, X: NDArray[Any]) -> Tensor:
        """In float32, once centred: a time in seconds has no digits left there before."""
        return ((torch.as_tensor(X) - self._centre) / self._scale).float().to(self.device)

    def partial_fit(self, X: NDArray[Any], labels: NDArray[Any]) -> Learner:
        """One step on one batch. A batch whose loss or gradient is not finite is refused, and no step is made.

        Weights that a finite gradient turns infinite are lost for good, and the error says so.
        """
        check_finite(np.asarray(X))
        self.module.train()
        self.optimizer.zero_grad(set_to_none=True)
        value = self.loss(self.module(self._inputs(X)), torch.as_tensor(labels, device=self.device))
        value.backward()
        weights = list(self.module.parameters())
        if not all_finite([value, *(p.grad for p in weights if p.grad is not None)]):
            spoiled = (
                "" if all_finite(weights) else "; the weights are spoiled: go back to a checkpoint, or start again"
            )
            raise InputError(
                f"loss: expected a finite value and gradient, got one that is not (loss {value.item()}); no step was "
                f"made; lower the learning rate, or rescale the features{spoiled}"
            )
        self.optimizer.step()
        if not all_finite([*weights, *optimizer_tensors(self.optimizer)]):
            raise InputError(
                "optimizer: expected finite weights and moments after the step, got infinite ones; the learner is "
                "spoiled: go back to a checkpoint or start again, with a lower learning rate or rescaled features"
            )
        return self

    @torch.no_grad()
    def predict_proba(self, X: NDArray[Any]) -> FloatArray:
        """Class probabilities (n, K) by the loss's own link; by softmax where it has none."""
        self.module.eval()
        scores = self.module(self._inputs(X)).double()
        link: Any = getattr(self.loss, "probabilities", None)
        p = torch.softmax(scores, -1) if link is None else link(scores)
        return finite_rows(p.cpu().numpy(), self.module)

    def stream_identity(self) -> dict[str, Any]:
        """What a checkpoint's learner must have in common with this one; settings count as they were at the start."""
        return self._identity

    def stream_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and plain facts from which training goes on as if it had not stopped."""
        tensors, facts = _checkpoints.training_state(self.module, self.optimizer)
        return tensors | _checkpoints.random_state(self.device), facts

    def load_stream_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        """Take over what `stream_state` gave."""
        _checkpoints.load_training_state(self.module, self.optimizer, tensors, facts)
        _checkpoints.load_random_state(tensors, self.device)


# Of our classifier's settings, those that `partial_fit` uses.
_SETTINGS = (
    "loss", "model", "potential", "squeeze", "reconstruction", "l2", "batch_size", "learning_rate", "hidden",
    "random_state",
)  # fmt: skip


class _EstimatorLearner:
    """A scikit-learn style classifier; ours (`saves`) can be saved and resumed.

    Its module, optimiser and random numbers do not exist before the first batch. To resume from a checkpoint it is
    shown one batch, which makes them, and then given their contents.
    """

    def __init__(self, estimator: Any, classes: Any) -> None:
        self.estimator, self.classes = estimator, classes
        self.saves = all(hasattr(estimator, name) for name in _SETTINGS)

    def partial_fit(self, X: NDArray[Any], labels: NDArray[Any]) -> None:
        self.estimator.partial_fit(X, labels, classes=self.classes)

    def stream_identity(self) -> dict[str, Any]:
        model = self.estimator
        classes = model.classes if self.classes is None else self.classes
        transition = _checkpoints.transition_facts(model.transition, None if classes is None else len(classes))
        facts = {name: getattr(model, name) for name in _SETTINGS}
        return {"transition": transition, "classes": None if classes is None else list(classes), **facts}

    def prepare(self, source: Source) -> None:
        """Make what a checkpoint's contents go into."""
        if getattr(self.estimator, "optimizer_", None) is None:
            first = source.first() if isinstance(source, IterableSource) else next(iter(source.batches(0)), None)
            if first is None:
                raise InputError(NO_BATCH)
            self.partial_fit(*first)

    def stream_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        model = self.estimator
        tensors, facts = _checkpoints.training_state(model.module_, model.optimizer_)
        kind, keys, *rest = model.random_stream_.get_state()
        tensors["random"] = torch.as_tensor(keys.astype(np.int64))
        facts["made"] = _checkpoints.code_facts(model.module_, model.loss_)
        return tensors, {**facts, "random": [kind, *rest], "history": model.history_, "n_iter": model.n_iter_}

    def load_stream_state(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        model = self.estimator
        if facts["made"] != _checkpoints.code_facts(model.module_, model.loss_):
            raise RuntimeError("its module has other layers, or its loss is another")
        _checkpoints.load_training_state(model.module_, model.optimizer_, tensors, facts)
        kind, *rest = facts["random"]
        model.random_stream_.set_state((kind, tensors["random"].numpy().astype(np.uint32), *rest))
        calls = checks.integer(facts["n_iter"], "n_iter", 1)
        history = [{"call": i, **entry} for i, entry in enumerate(facts["history"], 1)]  # older ones have no number
        for entry in history:
            checks.real(entry["loss"], "loss")
            checks.integer(entry["call"], "call", 1)
        model.history_, model.n_iter_ = history, calls


def fit_stream(
    learner: L,
    source: Source | str | Path | Sequence[str | Path] | Iterable[Batch] | Callable[[], Iterable[Batch]],
    *,
    epochs: int = 1,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 60.0,
    progress: Callable[[StreamProgress], None] | None = None,
    classes: Sequence[Any] | NDArray[Any] | None = None,
) -> L:
    """Train anything with ``partial_fit(X, labels)`` on a source, in constant memory, and return it.

    Parameters
    ----------
    learner : Learner, WeakLabelClassifier, or any object with partial_fit
    source : ParquetSource, path, or iterable of (X, labels)
    epochs : int
    checkpoint : path, optional
        A .safetensors file, replaced every `checkpoint_seconds` and when training is interrupted. If it exists,
        training resumes from it, with the batches and the weights of a run that never stopped. A checkpoint of other
        data, another model or other settings is refused (`CheckpointError`); a larger number of epochs is fine. A
        damaged one is not used: a warning says so, and training starts afresh. Whether batches that the caller makes
        are the same as before cannot be checked.
        Works for `Learner`, for `WeakLabelClassifier` with an integer ``random_state``, and for whatever has
        ``stream_state()`` and ``load_stream_state()``. The file is kept at the end, and records that training is done.
    progress : callable, optional
        Called with a `StreamProgress` after every batch.
    classes : list, optional
        Class names for the first ``partial_fit`` of a classifier whose transition does not say how many there are.
    """
    epochs, source = checks.integer(epochs, "epochs", 1), as_source(source)
    if isinstance(source, IterableSource) and source.once and epochs > 1:
        raise InputError("source: expected a collection or a function for several epochs, got an iterator")
    trained = _learner(learner, classes)
    keep = _Keeper(trained, source, checkpoint, checkpoint_seconds)
    at = keep.restored(StreamProgress(total_rows=None if source.rows is None else epochs * source.rows), epochs)
    began = time.monotonic() - at.seconds
    with _WholeSteps() as steps:
        try:
            while at.epoch < epochs:
                for X, labels in source.batches(at.epoch, at.batches):
                    with steps:
                        trained.partial_fit(X, labels)
                        at.batches, at.rows = at.batches + 1, at.rows + len(X)
                    at.seconds = time.monotonic() - began
                    if progress is not None:
                        progress(at)
                    keep.now_and_then(at)
                if not at.batches:
                    raise InputError(NO_BATCH)
                with steps:
                    at.epoch, at.batches = at.epoch + 1, 0
        finally:  # also when interrupted: what is done is kept, but never half a batch
            if at.rows and steps.whole:
                keep.save(at)
    return learner


def _learner(given: Any, classes: Any) -> Any:
    """What is trained: the object itself, or a classifier seen as something that can be saved and resumed."""
    if not hasattr(given, "partial_fit"):
        raise InputError(f"learner: expected an object with partial_fit, got {type(given).__name__}")
    if not hasattr(given, "stream_state") and hasattr(given, "predict_proba"):
        return _EstimatorLearner(given, classes)
    if classes is not None:
        raise InputError(f"classes: expected None for a {type(given).__name__}, which has no class names")
    return given


class _Keeper:
    """The checkpoint of a run, where there is one."""

    def __init__(self, learner: Any, source: Source, checkpoint: str | Path | None, seconds: float) -> None:
        self.learner, self.source = learner, source
        self.seconds = checks.real(seconds, "checkpoint_seconds", 0)
        self.path = None if checkpoint is None else Path(checkpoint)
        self.run: dict[str, Any] = {}
        self.saved = time.monotonic()
        if self.path is None:
            return
        if not getattr(learner, "saves", hasattr(learner, "stream_state")):
            given = learner.estimator if isinstance(learner, _EstimatorLearner) else learner
            raise InputError(
                f"checkpoint: expected a learner with stream_state, such as Learner, got {type(given).__name__}"
            )
        self.run = _checkpoints.identity(learner, source)

    def restored(self, fresh: StreamProgress, epochs: int) -> StreamProgress:
        """Where to start: at the checkpoint, or at the beginning."""
        if self.path is None or not self.path.exists():
            return fresh
        try:
            at, tensors, facts = _checkpoints.read_checkpoint(self.path, self.run, self.source.rows)
        except DamagedError as error:
            warn(f"{error}; training starts afresh")
            return fresh
        if (at.epoch, at.batches) > (epochs, 0):
            begun = at.epoch + (at.batches > 0)
            raise CheckpointError(self.path, f"fewer epochs ({epochs}, of which it has begun {begun})")
        if isinstance(self.learner, _EstimatorLearner):
            self.learner.prepare(self.source)
        try:
            self.learner.load_stream_state(tensors, facts)
        except (RuntimeError, LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            # the two learners only look alike from outside
            fact = f"a learner that its state does not fit ({' '.join(str(error).split())})"
            raise CheckpointError(self.path, fact) from None
        at.total_rows = fresh.total_rows
        return at

    def save(self, at: StreamProgress) -> None:
        """Write the checkpoint."""
        if self.path is not None:
            _checkpoints.save_checkpoint(self.learner, self.run, self.path, at)
            self.saved = time.monotonic()

    def now_and_then(self, at: StreamProgress) -> None:
        """Write the checkpoint if the last one is old enough."""
        if self.path is not None and time.monotonic() - self.saved > self.seconds:
            self.save(at)


class _WholeSteps:
    """Ctrl-C waits for the end of a batch: ``with steps:`` inside ``with _WholeSteps() as steps:``.

    Weights in the middle of a batch never occur in an uninterrupted run. A second Ctrl-C does not wait;
    then, as after an error inside a batch, `whole` is False and the state must not be kept.
    """

    def __init__(self) -> None:
        self.whole = True
        self._inside = self._open = False
        self._waiting: tuple[int, FrameType | None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _WholeSteps:
        if self._open:
            self._inside, self.whole = True, False
            return self
        self._open = True
        if threading.current_thread() is threading.main_thread():  # signals reach no other thread
            for number in (signal.SIGINT, signal.SIGTERM):
                before = signal.getsignal(number)
                if callable(before):  # not where the signal is ignored, or ends the process anyway
                    self._before[number] = before
                    signal.signal(number, self._received)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> None:
        if self._inside:
            self.whole = kind is None
            self._inside = False
            if self._waiting is not None and kind is None:
                number, frame = self._waiting
                self._waiting = None
                self._before[number](number, frame)
            return
        for number, before in self._before.items():
            signal.signal(number, before)

    def _received(self, number: int, frame: FrameType | None) -> None:
        if self._inside and self._waiting is None:
            self._waiting = (number, frame)
        else:
            self._before[number](number, frame)
