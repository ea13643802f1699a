"""What a weak label is. A transition says so itself; its name is for people, and nothing depends on it."""

from __future__ import annotations

from typing import Any

from .._core import checks

# "classes": label y has the name of class y; "names": labels have names of their own, or are 0 .. M-1; "sets": listed
# sets of classes; "masks": candidate masks over the classes; "pairs": (source, label); "answers": one from each
# annotator; "questions": yes or no to one class, by its name ("cat", "not cat") or as a pair (class, answer);
# "positive/unlabeled": 0 = labeled positive, 1 = unlabeled.
POSITIVE_UNLABELED = "positive/unlabeled"
LABEL_KINDS = ("classes", "names", "sets", "masks", "pairs", "answers", "questions", POSITIVE_UNLABELED)


class LabelKind:
    """The kind of a transition's labels: it follows from the structure and the names of the rows, unless it is set."""

    num_classes: int
    num_weak_labels: int
    _weak_labels: list[Any] | None = None
    _classes: list[Any] | None = None  # names of the classes, in the order of T's columns
    _label_kind: str | None = None  # set where structure and names leave it open

    @property
    def classes(self) -> list[Any] | None:
        """The names of the classes in the order of T's columns; None where it has none (`Transition.named`)."""
        return None if self._classes is None else list(self._classes)

    @property
    def positive_unlabeled(self) -> bool:
        """Whether labels are 0 = labeled positive, 1 = unlabeled."""
        return self._label_kind == POSITIVE_UNLABELED  # structure alone never says so

    @property
    def label_kind(self) -> str:
        """What a weak label is: one of `LABEL_KINDS`. It follows from what T is, never from its name."""
        if self._label_kind is not None:
            return self._label_kind
        if self._weak_labels is not None:
            return "sets" if self._labels_are_sets() else "names"
        return "classes" if self.num_weak_labels == self.num_classes else "names"

    @label_kind.setter
    def label_kind(self, kind: str) -> None:
        checks.choice(kind, "label_kind", LABEL_KINDS)
        self._label_kind = kind

    def _labels_are_sets(self) -> bool:
        return bool(self._weak_labels) and all(isinstance(s, (set, frozenset)) for s in self._weak_labels or [])
