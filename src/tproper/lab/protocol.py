"""What a trial is, and when it slows down and stops.

The paper's protocol: SGD with Nesterov momentum .9, batches of 256, a linear warm-up over 4 epochs from
.001 of the learning rate; after every epoch the validation accuracy; no improvement for 10 epochs
multiplies the learning rate by .1, and the third time ends the trial. What is reported belongs to the
epoch with the best validation accuracy.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from typing import Any

#: The objectives a trial can train with.
LOSSES = ("bc", "ga", "gls", "forward")


#: Fields of the protocol that older records do not have; each is off there.
LATER = ("augment_validation", "warmup_by_epoch")


@dataclass(frozen=True)
class Protocol:
    """The numbers that all trials of a run share."""

    batch_size: int = 256
    momentum: float = 0.9
    warmup_epochs: int = 4
    warmup_start: float = 0.001
    patience: int = 10
    reduction: float = 0.1
    stops_at: int = 3
    validation: float = 0.1
    #: A guard, not part of the paper's protocol: no trial in the paper's tables comes near it.
    max_epochs: int = 400
    #: Crop and flip validation images too. The authors' released code does, their paper does not say so.
    augment_validation: bool = False
    #: Raise the warm-up's learning rate once an epoch instead of at every step, as the authors' released code does.
    warmup_by_epoch: bool = False

    def __post_init__(self) -> None:
        for name in ("batch_size", "patience", "stops_at", "max_epochs"):
            if getattr(self, name) < 1:
                raise ValueError(f"expected {name} >= 1, got {getattr(self, name)}")
        if not 0 < self.validation < 1:
            raise ValueError(f"expected 0 < validation < 1, got {self.validation}")


@dataclass(frozen=True)
class TrialConfig:
    """Everything about a trial but its seed."""

    dataset: str
    model: str
    loss: str
    lr: float
    weight_decay: float = 1e-4
    k: float = 0.0
    alpha: float = 2.0
    protocol: Protocol = field(default_factory=Protocol)

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"expected loss to be one of {', '.join(LOSSES)}, got {self.loss!r}")
        if self.loss == "gls" and not self.k > 0:
            raise ValueError(f"expected k > 0 for the loss 'gls', got {self.k}")
        if self.loss != "gls" and (self.k, self.alpha) != (0.0, 2.0):
            raise ValueError(f"k and alpha belong to the loss 'gls' alone, got {self.loss!r}")

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON. A later addition to the protocol is left out where it is off: old keys stay."""
        values = asdict(self)
        for name in LATER:
            if not values["protocol"][name]:
                del values["protocol"][name]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrialConfig:
        """What ``as_dict`` gave."""
        return cls(**{**values, "protocol": Protocol(**values["protocol"])})

    @property
    def key(self) -> str:
        """A digest of the configuration: equal settings, equal key, on every machine."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Trial:
    """One training run: a configuration and the seed of its split, labels, weights and batches."""

    config: TrialConfig
    seed: int

    @property
    def id(self) -> str:
        """The trial's name in the store and of its checkpoint."""
        return f"{self.config.key}-{self.seed}"


@dataclass
class Progress:
    """Where a trial stands; all of it is plain data, so a checkpoint is its JSON."""

    epoch: int = 0
    best_accuracy: float = -math.inf
    best_epoch: int = 0
    stale: int = 0
    reductions: int = 0
    seconds: float = 0.0
    risk: list[float] = field(default_factory=list)
    valid: list[float] = field(default_factory=list)
    scores: dict[str, float] = field(default_factory=dict)

    def record(self, protocol: Protocol, risk: float, accuracy: float) -> bool:
        """Take in one epoch; true if its validation accuracy is the best so far."""
        self.epoch += 1
        self.risk.append(risk)
        self.valid.append(accuracy)
        if accuracy > self.best_accuracy:
            self.best_accuracy, self.best_epoch, self.stale = accuracy, self.epoch, 0
            return True
        self.stale += 1
        if self.stale >= protocol.patience:
            self.stale = 0
            self.reductions += 1
        return False

    def replayed(self, protocol: Protocol) -> Progress:
        """What the epochs' risks and accuracies lead to: equal to this one, if it can have come about at all."""
        again = Progress(seconds=self.seconds, scores=self.scores)
        for risk, accuracy in zip(self.risk, self.valid, strict=True):
            again.record(protocol, risk, accuracy)
        return again

    def finished(self, protocol: Protocol) -> bool:
        """Whether the trial has met the condition to stop."""
        return self.reductions >= protocol.stops_at or self.epoch >= protocol.max_epochs

    def lr_factor(self, protocol: Protocol) -> float:
        """What the plateau rule has made of the learning rate (warm-up not counted)."""
        return protocol.reduction**self.reductions
