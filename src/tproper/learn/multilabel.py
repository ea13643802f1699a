"""Several yes/no classes at once, each with weak labels of its own, on shared features."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from .._core import FloatArray, checks
from ..errors import InputError
from ..losses import make_loss
from ..metrics import Score, weak_accuracy
from ..solvers import minibatch
from ..transitions import Encoded, Transition, TransitionLike, make_transition
from .classifier import WeakLabelClassifier
from .defaults import NETWORK_L2, NETWORK_RATE
from .modules import mlp_module, seeded

MISSING = -1


@dataclass(frozen=True)
class MultiLabelScores:
    """Accuracy of each class from its weak labels, and their average, with the error of rows that all classes share.

    `MultiLabelClassifier.weak_scores` makes it.

    Attributes
    ----------
    per_class : dict
        A `Score` for each class.
    average, stderr, interval
        Their mean, its standard error and its 95% interval.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> Z = (X > 0).astype(int)
    >>> Y = np.where(rng.random(Z.shape) < 0.2, 1 - Z, Z)
    >>> clf = tp.MultiLabelClassifier("symmetric:2,0.2").fit(X[:200], Y[:200])
    >>> found = clf.weak_scores(X[200:], Y[200:])
    >>> list(found.per_class), found.average > 0.9
    ([0, 1], True)
    """

    per_class: dict[Any, Score]
    average: float
    stderr: float
    interval: tuple[float, float]

    def __str__(self) -> str:
        low, high = self.interval
        lines = [f"{name}: {score}" for name, score in self.per_class.items()]
        silent = [str(name) for name, score in self.per_class.items() if not score.informative]
        if silent:
            return "\n".join([*lines, f"average: not informative, as the accuracy of {', '.join(silent)} is not"])
        shown = min(max(self.average, 0.0), 1.0)  # an unbiased estimate may pass what is possible
        lines.append(f"average: {shown:.4f} (95% interval {max(low, 0.0):.4f} to {min(high, 1.0):.4f})")
        return "\n".join(lines)


class MultiLabelClassifier(ClassifierMixin, BaseEstimator):
    """Which of K classes hold for a row, any number of them, from weak labels of each: K yes/no problems in one.

    Class c has a transition T_c of two classes, 0 = it does not hold, 1 = it does, and the loss of a row is the mean
    over the classes of ``l_c(v_c, y_c)`` with T_c. It is proper for the K marginal probabilities, as each l_c is for
    its own; nothing is said of how classes go together.

    Parameters
    ----------
    transitions : Transition, text, or one for each class
        ``tp.binary_noise(r_pos, r_neg)`` counts its class 0 as the positive one, and so must be given the other way
        round: here column 1 of T is "it holds".
    model : "linear" or "mlp"
        "linear": the objective is a sum over the classes, and each is fitted as by `WeakLabelClassifier`. "mlp": one
        network, whose hidden layers all classes share.
    loss, calibrate
        As for `WeakLabelClassifier`; a network is not calibrated.
    l2, epochs, batch_size, learning_rate, hidden, random_state
        As for `WeakLabelClassifier`.
    names : list, optional
        Of the classes; 0 .. K-1 by default.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> Z = (X[:, :2] > 0).astype(int)
    >>> Y = np.where(rng.random(Z.shape) < 0.2, 1 - Z, Z)
    >>> clf = tp.MultiLabelClassifier("symmetric:2,0.2").fit(X, Y)
    >>> bool((clf.predict(X) == Z).mean() > 0.95)
    True
    """

    def __init__(
        self,
        transitions: TransitionLike | Sequence[TransitionLike] = "identity:2",
        model: str = "linear",
        *,
        loss: str = "forward",
        l2: float | str = "auto",
        calibrate: bool | str = "auto",
        epochs: int = 100,
        batch_size: int = 64,
        learning_rate: float | str = "auto",
        hidden: tuple[int, ...] = (128,),
        names: Sequence[Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.transitions = transitions
        self.model = model
        self.loss = loss
        self.l2 = l2
        self.calibrate = calibrate
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.hidden = hidden
        self.names = names
        self.random_state = random_state

    def fit(self, X: Any, Y: ArrayLike) -> MultiLabelClassifier:
        """Fit to weak labels Y (n, K): rows of T_c in column c, -1 where there is no label of that class."""
        checks.choice(self.model, "model", ("linear", "mlp"))
        columns = _columns(Y)
        K = columns.shape[1]
        X = validate_data(self, X, dtype=np.float64)
        if len(X) != len(columns):
            raise InputError(f"Y: expected labels of {len(X)} rows, got {len(columns)}")
        transitions = _transitions(self.transitions, K)
        names = list(range(K)) if self.names is None else list(self.names)
        if len(names) != K:
            raise InputError(f"names: expected {K} names, one for each column of Y, got {len(names)}")
        for name, column, T in zip(names, columns.T, transitions, strict=True):
            if not (column >= 0).any():
                raise InputError(f"Y: expected some labels of every class, got none of {name!r}")
            T.encode(column[column >= 0])
        self.transitions_, self.classes_ = transitions, np.asarray(names)
        self.estimators_: list[WeakLabelClassifier] = []
        self.module_: nn.Module | None = None
        if self.model == "linear":
            for column, T in zip(columns.T, transitions, strict=True):
                rows = column >= 0
                one = WeakLabelClassifier(
                    T, self.loss, classes=[0, 1], l2=self.l2, calibrate=self.calibrate, random_state=self.random_state
                )
                self.estimators_.append(one.fit(X[rows], Encoded(torch.as_tensor(column[rows]))))
        else:
            self._fit_network(X, columns)
        return self

    def _fit_network(self, X: FloatArray, columns: NDArray[np.int64]) -> None:
        rng, device, K = check_random_state(self.random_state), torch.device("cpu"), columns.shape[1]
        rate = NETWORK_RATE if self.learning_rate == "auto" else float(self.learning_rate)
        l2 = NETWORK_L2 if self.l2 == "auto" else float(self.l2)
        with seeded(rng, device, False) as generator:
            self.module_ = mlp_module(X.shape[1], 2 * K, self.hidden, generator)
            loss = SeveralLosses([make_loss(self.loss, T, "logsumexp", None, "auto") for T in self.transitions_])
            steps = minibatch.Steps(rate, l2, self.batch_size, generator)
            steps.optimizer = minibatch.make_optimizer(self.module_, rate, l2)
            schedule = torch.optim.lr_scheduler.CosineAnnealingLR(steps.optimizer, self.epochs)
            rows = minibatch.Rows(X, torch.float32, device)
            for _ in range(self.epochs):
                value = minibatch.train_epoch(self.module_, loss, rows, torch.as_tensor(columns), None, steps)
                if not math.isfinite(value):
                    raise InputError(f"loss: expected a finite training loss, got {value}; lower learning_rate")
                schedule.step()
        self.module_.eval()

    def predict_proba(self, X: Any) -> FloatArray:
        """P(class c holds | x) (n, K)."""
        check_is_fitted(self, "transitions_")
        X = validate_data(self, X, reset=False, dtype=np.float64)
        if self.module_ is None:
            return np.stack([one.predict_proba(X)[:, 1] for one in self.estimators_], axis=1)
        with torch.no_grad():
            scores = self.module_(torch.as_tensor(X, dtype=torch.float32)).double().reshape(len(X), -1, 2)
        return torch.softmax(scores, -1)[..., 1].numpy()

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Which classes hold (n, K), 0 or 1."""
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def weak_scores(self, X: Any, Y: ArrayLike) -> MultiLabelScores:
        """Accuracy of each class by its weak labels (`tp.weak_accuracy`), and the average over the classes.

        The average's standard error is that of rows: what a row's labels say of several classes is added up first.
        """
        predicted, columns = self.predict(X), _columns(Y)
        if columns.shape != predicted.shape:
            raise InputError(f"Y: expected shape {predicted.shape}, got {columns.shape}")
        found: dict[Any, Score] = {}
        parts = np.zeros(predicted.shape)
        for c, (name, T) in enumerate(zip(self.classes_.tolist(), self.transitions_, strict=True)):
            rows = columns[:, c] >= 0
            y = columns[rows, c]
            found[name] = weak_accuracy(Encoded(torch.as_tensor(y)), predicted[rows, c], T.named(None))
            g = T.reconstruction().targets(y).numpy()[np.arange(len(y)), predicted[rows, c]]
            parts[rows, c] = (g - g.mean()) / len(g)
        value = float(np.mean([s.value for s in found.values()]))
        of_rows = parts.mean(axis=1)
        stderr = float(np.sqrt((of_rows**2).sum() * len(of_rows) / max(len(of_rows) - 1, 1)))
        return MultiLabelScores(found, value, stderr, (value - 1.96 * stderr, value + 1.96 * stderr))

    def score(self, X: Any, Y: ArrayLike, sample_weight: Any = None) -> float:
        """The average of the classes' accuracies by weak labels."""
        if sample_weight is not None:
            raise InputError("sample_weight: expected None, got weights")
        return self.weak_scores(X, Y).average

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.two_d_labels = True
        tags.target_tags.single_output = False
        tags.classifier_tags.multi_label = True
        return tags


class SeveralLosses(nn.Module):
    """The mean over classes, and over the rows that have a label of a class, of each class's loss."""

    def __init__(self, losses: Sequence[nn.Module]) -> None:
        super().__init__()
        self.losses = nn.ModuleList(losses)

    def forward(self, scores: Tensor, labels: Tensor) -> Tensor:
        """Scores (n, 2K), labels (n, K)."""
        v = scores.reshape(len(scores), -1, 2)
        parts = []
        for c, loss in enumerate(self.losses):
            rows = labels[:, c] >= 0
            if bool(rows.any()):
                parts.append(loss(v[rows, c], labels[rows, c]) * rows.float().mean())
        return torch.stack(parts).sum() / len(self.losses) if parts else v.sum() * 0.0


def _columns(Y: ArrayLike) -> NDArray[np.int64]:
    given = checks.array(Y, "Y")
    if given.ndim != 2 or not given.size:
        raise InputError(f"Y: expected weak labels of every class (n, K), got shape {given.shape}")
    if given.dtype.kind == "b":
        given = given.astype(np.int64)
    if given.dtype.kind not in "iu" or given.min() < MISSING:
        raise InputError(f"Y: expected rows of each class's T, or -1 for none, got {checks.short(given.tolist())}")
    return given.astype(np.int64)


def _transitions(given: Any, K: int) -> list[Transition]:
    """One T of two classes for each column."""
    several = isinstance(given, (list, tuple)) and len(given) and isinstance(given[0], (Transition, str, Mapping))
    if isinstance(given, tuple) and several and isinstance(given[0], str) and not isinstance(given[-1], str):
        several = False  # ("symmetric", {"p": 0.2})
    out = [make_transition(t, 2) for t in given] if several else [make_transition(given, 2)] * K
    if len(out) != K:
        raise InputError(f"transitions: expected one, or one for each of {K} columns of Y, got {len(out)}")
    for T in out:
        if T.labels.missing_row is not None:
            raise InputError(
                "transitions: expected column 1 of T to be 'it holds', got T of PU, whose column 0 is; "
                "give tp.Transition([[1, 1 - r], [0, r]]), with 1 for a label"
            )
        if T.label_shape:
            raise InputError(f"transitions: expected labels that are single indices, got {T.name}")
    return out
