"""Watching a training loss against what is certified about it.

A bounded loss cannot fall below its bound; one that does is not the loss it claims to be. An unbounded one can
fall forever, and the fall is a sign: in expectation a weak-label loss equals a supervised loss, which is at least
its `floor` (0 for cross entropy and all other textbook scores). A training loss that lies *below the floor, and by
more than chance*, has no supervised counterpart: the model has learned the noise of the weak labels.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._core import FloatArray, Labels, checks, thin, warn
from ..errors import InputError
from ..losses import WeakLabelLoss

REMEMBERED = 16384  # rows of the history
FEWEST_BATCHES = 20  # below this a standard error of batch means is a guess


class UnboundedLossWarning(UserWarning):
    """An unbounded training loss has fallen below the least value that a supervised loss can have: the model runs away.

    `LossMonitor` issues it. Take a bounded loss instead, such as `ForwardLoss`.

    Examples
    --------
    >>> import warnings, tproper as tp
    >>> monitor = tp.LossMonitor(tp.BackwardLoss(tp.complementary(3)), window=20)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     for step in range(100):
    ...         monitor.update(1 - 0.05 * step, n=10)
    >>> [w.category.__name__ for w in caught], monitor.alarm
    (['UnboundedLossWarning'], True)
    """


class BoundViolationWarning(UserWarning):
    """A training loss lies below the certified bound of the loss it claims to be, or is not finite: it is computed
    wrongly.

    Examples
    --------
    >>> import warnings, tproper as tp
    >>> monitor = tp.LossMonitor(tp.ForwardLoss(tp.symmetric_noise(2, 0.2)), every=1)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     monitor.update(-1.0, n=10)  # it cannot be below -log 0.8 = 0.22
    >>> [w.category.__name__ for w in caught]
    ['BoundViolationWarning']
    """


class LossMonitor:
    """Watches a running loss for what cannot be right. Works in any loop or callback, and touches no gradient.

    For a bounded loss each batch mean is compared with its bound: the mean of the labels' own bounds where `labels` are
    given, else the bound of the worst label. For an unbounded loss an `UnboundedLossWarning` is issued, once, when the
    mean of the last `window` batches lies more than `threshold` standard errors below the least value that a supervised
    loss can have. A few batches of weak labels often lie below it by chance; that raises no alarm. Two things keep the
    standard error honest:

    * over several epochs the same labels come again and their noise does not average out, so it is never less than
      that of one epoch (`num_examples`);
    * it is taken as it was when the running loss was last above that least value: a loss that falls without bound
      swings ever more widely, and would hide in its own noise.

    Parameters
    ----------
    loss : a tproper loss
        Reduced by its mean (or by its sum, with `n` given at each update).
    window : int
        Batches in the running mean.
    num_examples : int, optional
        How many different training examples there are. Needs labels or n at each update. Without it batches are taken
        for independent, which is right within one epoch.
    threshold : float
        Standard errors at which to warn. At the default the chance of a false alarm, during a long run with a model
        that does not fit the noise, is below 1%.
    every : int
        Values are read, which makes a GPU wait, once in this many updates.

    Attributes
    ----------
    bounded : bool
        Whether the loss has a certified bound; `bound` is that of the worst label.
    `floor` : float
        The least value that a supervised loss can have.
    alarm : bool
        Whether a warning was due; `alarm_step` is the update at which it was.
    history : dict of arrays
        By update: "value", "bound", "mean" and "stderr" of the running loss, and "update", its number. Beyond 16,384
        updates older ones are thinned out (every second stays, then every fourth, ...).

    Examples
    --------
    >>> import torch, tproper as tp
    >>> loss = tp.ForwardLoss(tp.symmetric_noise(2, 0.2))
    >>> monitor = tp.LossMonitor(loss)
    >>> for step in range(3):
    ...     labels = torch.tensor([0, 1])
    ...     monitor.update(loss(torch.zeros(2, 2), labels), labels)
    >>> monitor.bounded, monitor.alarm
    (True, False)
    """

    def __init__(
        self,
        loss: WeakLabelLoss,
        window: int = 100,
        num_examples: int | None = None,
        threshold: float = 4.5,
        every: int = 10,
    ) -> None:
        if not isinstance(loss, WeakLabelLoss):
            raise InputError(f"loss: expected a tproper loss, got {type(loss).__name__}")
        if loss.reduction == "none":
            raise InputError("loss: expected reduction 'mean' or 'sum', got 'none'; the monitor watches batch means")
        self.loss = loss
        self.window = checks.integer(window, "window", FEWEST_BATCHES)
        self.num_examples = None if num_examples is None else checks.integer(num_examples, "num_examples", 1)
        self.threshold = checks.real(threshold, "threshold", 0.0, 30.0, low_open=True)
        self.every = checks.integer(every, "every", 1)
        self._bounds = loss.bounds()
        self.bound = self._bounds.least
        self.bounded = self._bounds.bounded
        self.floor = self._bounds.floor
        self.alarm = False
        self.alarm_step: int | None = None
        self._warned: set[str] = set()
        self._pending: list[tuple[Tensor | float, Tensor | float, int | None]] = []
        self._rows: list[tuple[float, float, float, float, float]] = []
        self._updates = 0
        self._recent = np.zeros((2, self.window))  # the last batches' means and numbers of examples, the newest last
        self._held = 0  # how many of them there are
        self._chance = math.inf  # standard error over one epoch when the running loss was last above the floor

    def update(self, value: Tensor | float, labels: Labels | None = None, n: int | None = None) -> None:
        """Take in the loss of one batch.

        Parameters
        ----------
        value : the batch's loss, a number or a tensor of one element
        labels : the batch's weak labels, which give its exact bound (for a loss without example weights)
        n : number of examples, where labels are not given
        """
        if isinstance(value, Tensor):
            if value.numel() != 1:
                raise InputError(
                    f"value: expected the mean loss of a batch, got a tensor of shape {tuple(value.shape)}"
                )
            value = value.detach().reshape(())
        else:
            value = _number(value)
        bound: Tensor | float = self.bound
        if labels is not None:
            if self.loss.ignore_index is not None:
                labels, out = self.loss.ignored(labels)
                labels = labels[~out]
                if not len(labels):
                    return
            # on a GPU a look at the labels would make the host wait; the loss has looked at them anyway
            on_gpu = isinstance(labels, Tensor) and labels.is_cuda
            encoded = self.loss.transition.encode(labels, validate=not on_gpu)
            size = encoded.shape[: encoded.ndim - len(self.loss.transition.label_shape)].numel()
            if n is not None and n != size:
                raise InputError(f"n: expected {size}, the number of labels, got {n}")
            n = size
            bound = self._bounds.of(encoded).mean()
        if n is None and (self.loss.reduction == "sum" or self.num_examples is not None):
            raise InputError("n: expected the number of examples in the batch (or its labels), got neither")
        if n is not None:
            n = checks.integer(n, "n", 1)
            if self.loss.reduction == "sum":
                value = value / n
        self._pending.append((value, bound, n))
        if len(self._pending) >= self.every:
            self._read()

    def _read(self) -> None:
        """Read what has come in since the last time: one synchronisation for all of it."""
        pending, self._pending = self._pending, []
        values, bounds = _to_floats([p[0] for p in pending]), _to_floats([p[1] for p in pending])
        for value, bound, (_, _, n) in zip(values, bounds, pending, strict=True):
            step, self._updates = self._updates, self._updates + 1
            if math.isfinite(value):
                self._recent[:, :-1] = self._recent[:, 1:]
                self._recent[:, -1] = value, n or 1
                self._held = min(self._held + 1, self.window)
            mean, stderr = self._running()
            self._rows.append((value, bound, mean, stderr, step))
            thin(self._rows, lambda row: int(row[-1]), REMEMBERED)
            self._judge(step, value, bound, mean, stderr)

    def _running(self) -> tuple[float, float]:
        """Mean over the window and its standard error.

        The spread comes from differences of successive batches, so that the trend of training is not taken for noise.
        """
        if not self._held:
            return math.nan, math.nan
        values, sizes = self._recent[:, -self._held :]
        total = sizes.sum()
        mean = float(values @ sizes / total)
        if len(values) < FEWEST_BATCHES:
            return mean, math.nan
        steps = values[1:] - values[:-1]
        batches = total**2 / (sizes @ sizes)
        return mean, math.sqrt(float(steps @ steps) / len(steps) / 2 / batches)

    def _distance(self) -> float:
        """The threshold, widened as Student's t asks for a spread that few batches have shown.

        A spread from m - 1 successive differences of normal values has about 2/3 (m - 1) degrees of freedom.
        """
        from scipy.special import ndtr, stdtrit  # slow to import, so only when it is needed

        return -float(stdtrit(2 / 3 * (self._held - 1), ndtr(-self.threshold)))

    def _falls(self, mean: float, stderr: float) -> bool:
        """Whether an unbounded loss lies below the floor by more than chance; see the class."""
        if math.isnan(stderr):
            return False
        by_chance = stderr
        if self.num_examples is not None:  # the window may hold more examples than there are
            by_chance *= math.sqrt(max(1.0, float(self._recent[1].sum()) / self.num_examples))
        if mean >= self.floor:
            self._chance = by_chance
            return False
        return self.floor - mean > self._distance() * min(by_chance, self._chance)

    def _judge(self, step: int, value: float, bound: float, mean: float, stderr: float) -> None:
        if math.isnan(value) or value == -math.inf:
            self._warn("finite", f"the loss is {value} at update {step}: training has diverged", step)
            return
        # the bound is exact; the value carries the rounding of float32 (or less) over a batch
        if value < bound - 1e-3 * (1 + abs(bound)):
            self._warn(
                "bound",
                f"the loss is {value:.6g} at update {step}, below its certified bound {bound:.6g}: this is not the "
                f"mean of {type(self.loss).__name__} over these labels",
                step,
            )
        if not self.bounded and self._falls(mean, stderr):
            self._warn(
                "unbounded",
                f"the running loss is {mean:.4g} (standard error {stderr:.2g}) at update {step}, below {self.floor:g}, "
                "the least that a supervised loss can be, and nothing bounds it: the model is fitting the noise of "
                "the weak labels. Stop here, or use a bounded loss: ForwardLoss, squeeze=(k, 2) or potential=Brier()",
                step,
            )

    def _warn(self, kind: str, message: str, step: int) -> None:
        if not self.alarm:
            self.alarm, self.alarm_step = True, step
        if kind not in self._warned:
            self._warned.add(kind)
            category = UnboundedLossWarning if kind == "unbounded" else BoundViolationWarning
            warn(message, category)

    @property
    def history(self) -> dict[str, FloatArray]:
        """What was seen so far, by update: ready to plot, over "update"."""
        self._read()
        columns = np.array(self._rows, dtype=np.float64).reshape(-1, 5).T
        return dict(zip(("value", "bound", "mean", "stderr", "update"), columns, strict=True))

    def __str__(self) -> str:
        self._read()
        mean, stderr = self._running()
        least = f"bounded from below by {self.bound:.6g}"
        kind = least if self.bounded else f"unbounded; a supervised loss is at least {self.floor:g}"
        state = f"ALARM at update {self.alarm_step}" if self.alarm else "no alarm"
        error = "" if math.isnan(stderr) else f", standard error {stderr:.2g}"
        running = f"{self._updates} updates" + ("" if math.isnan(mean) else f", running mean {mean:.4g}{error}")
        return f"{type(self.loss).__name__} ({kind}): {running}, {state}"

    def __repr__(self) -> str:
        return f"<LossMonitor: {self}>"


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"value: expected the mean loss of a batch, got {value!r}") from None


def _to_floats(values: list[Tensor | float]) -> list[float]:
    tensors = [v for v in values if isinstance(v, Tensor)]
    if not tensors:
        return [float(v) for v in values]
    read = iter(torch.stack([t.double() for t in tensors]).tolist())  # the one place that waits for a device
    return [next(read) if isinstance(v, Tensor) else float(v) for v in values]
