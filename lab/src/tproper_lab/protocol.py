"""What a trial is, and when it slows down and stops.

The paper's protocol: SGD with Nesterov momentum .9, batches of 256, a linear warm-up over 4 epochs from
.001 of the learning rate; after every epoch the validation accuracy; no improvement for 10 epochs
multiplies the learning rate by .1, and the third time ends the trial. What is reported belongs to the
epoch with the best validation accuracy.

Trials of a benchmark have a `Problem`, and a schedule that no clean label enters: the learning rate falls to zero
along a cosine. Their epoch is chosen twice, by clean validation accuracy and by the calibrated risk of held-out
weak labels.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from tproper.errors import InputError

from .problems import Problem

#: The paper's objectives, which one stacked kernel computes.
LOSSES = ("bc", "ga", "gls", "forward")
#: "plateau": the paper's rule, by clean validation accuracy; "cosine": from the start to zero in `max_epochs`.
SCHEDULES = ("plateau", "cosine")
#: How the epoch is chosen whose scores are reported.
CLEAN, WEAK = RULES = ("clean", "weak")
#: Search trials have seeds from here on, so that none of them is an evaluation trial as well.
SEARCH_SEED = 1000


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
    schedule: str = "plateau"

    def __post_init__(self) -> None:
        for name in ("batch_size", "patience", "stops_at", "max_epochs"):
            if getattr(self, name) < 1:
                raise InputError(f"expected {name} >= 1, got {getattr(self, name)}")
        if not 0 < self.validation < 1:
            raise InputError(f"expected 0 < validation < 1, got {self.validation}")
        if self.schedule not in SCHEDULES:
            raise InputError(f"expected schedule to be one of {', '.join(SCHEDULES)}, got {self.schedule!r}")

    @property
    def without_variants(self) -> Protocol:
        """The same protocol with the options that the paper does not mention off."""
        return replace(self, augment_validation=False, warmup_by_epoch=False)


def batch_size(dataset: str) -> int:
    """The paper's, but for digits: its 1293 training examples would be five batches of 256."""
    return 32 if dataset == "digits" else Protocol.batch_size


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
    #: The weak labels; None: the paper's, one uniform complementary label per image.
    problem: Problem | None = None
    #: Learning rate of what a method learns beside the model (the logits of T).
    learned_lr: float = 0.0
    #: SHA-256 of the file that a user's own loss stands in.
    code: str = ""

    def __post_init__(self) -> None:
        if self.problem is None and self.loss not in LOSSES:
            raise InputError(f"expected loss to be one of {', '.join(LOSSES)}, got {self.loss!r}")
        squeezed = self.problem is None and self.loss == "gls"
        if squeezed and not self.k > 0:
            raise InputError(f"expected k > 0 for the loss 'gls', got {self.k}")
        if not squeezed and (self.k, self.alpha) != (0.0, 2.0):
            raise InputError(f"k and alpha belong to the loss 'gls' alone, got {self.loss!r}")

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON. What was added later is left out where it is not used: old keys stay."""
        values = asdict(self)
        for part, names in ((values["protocol"], LATER_IN_PROTOCOL), (values, LATER)):
            for name, unused in names.items():
                if part[name] == unused:
                    del part[name]
        return values

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> TrialConfig:
        """What ``as_dict`` gave."""
        problem = values.get("problem")
        nested = {
            "protocol": Protocol(**values["protocol"]),
            "problem": None if problem is None else Problem(**problem),
        }
        return cls(**{**values, **nested})

    @property
    def key(self) -> str:
        """A digest of the configuration: equal settings, equal key, on every machine."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


#: Fields that old records do not have, and what they stand for there.
LATER_IN_PROTOCOL: dict[str, Any] = {"augment_validation": False, "warmup_by_epoch": False, "schedule": "plateau"}
LATER: dict[str, Any] = {"problem": None, "learned_lr": 0.0, "code": ""}


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
    weak: list[float] = field(default_factory=list)  # calibrated risk of held-out weak labels, by epoch
    weak_epoch: int = 0  # which they keep

    def record(self, protocol: Protocol, risk: float, accuracy: float) -> bool:
        """Take in one epoch; true if its validation accuracy is the best so far."""
        self.epoch += 1
        self.risk.append(risk)
        self.valid.append(accuracy)
        if accuracy > self.best_accuracy:
            self.best_accuracy, self.best_epoch, self.stale = accuracy, self.epoch, 0
            return True
        self.stale += protocol.schedule == "plateau"
        if self.stale >= protocol.patience:
            self.stale = 0
            self.reductions += 1
        return False

    def record_weak(self, risk: float, keeps: bool) -> bool:
        """Take in an epoch's weak risk, and whether it keeps the epoch; the first is kept until another one is."""
        self.weak.append(risk)
        if keeps or not self.weak_epoch:
            self.weak_epoch = len(self.weak)
        return self.weak_epoch == len(self.weak)

    def replayed(self, protocol: Protocol) -> Progress:
        """What the epochs' risks and accuracies lead to: equal to this one, if it can have come about at all."""
        again = Progress(seconds=self.seconds, weak=self.weak, weak_epoch=self.weak_epoch)
        for risk, accuracy in zip(self.risk, self.valid, strict=True):
            again.record(protocol, risk, accuracy)
        return again

    def finished(self, protocol: Protocol) -> bool:
        """Whether the trial has met the condition to stop."""
        return self.reductions >= protocol.stops_at or self.epoch >= protocol.max_epochs

    def lr_factor(self, protocol: Protocol) -> float:
        """What the schedule has made of the learning rate (warm-up not counted)."""
        if protocol.schedule == "cosine":
            return (1 + math.cos(math.pi * self.epoch / protocol.max_epochs)) / 2
        return protocol.reduction**self.reductions
