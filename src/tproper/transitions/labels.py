"""What weak labels mean: decided here, for everything that reads them.

Every transition carries its `LabelSpace` (``T.labels``): what one of its labels is, how people write it, and how a loss
takes it. Losses take labels *encoded*: rows of T, masks over the classes, or the answers of annotators. Wherever data
are read (estimators, scores, tests, tables), `LabelSpace.read` turns what people have into that, by these rules.

**Names or rows.** Text, booleans and categories are names; integers are rows of T as long as T has no names. Where it
has some (`Transition.named`), integers that are none of them are refused: they may be what a tool has numbered.
**Missing.** None, NaN, NA and an empty text say that a row has no label; among the answers of several annotators -1
does so too. A single label -1 is none of these, and is refused unless it is a name.
**Positive and unlabeled.** True is a labeled positive; False, and a missing label, are unlabeled. Integers are rows: 0
is labeled positive, 1 unlabeled.
**What a 2-d array is**, masks or answers or pairs, T says, never the array's values.

`tproper.transitions.reading` says which classes labels speak of where T has no names.
"""

from __future__ import annotations

import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import checks, warn
from ..errors import InputError
from .soft import SoftLabels, as_given

if TYPE_CHECKING:
    from .base import Transition

SET_SEPARATOR = "|"  # candidate sets are written a|b|c
POSITIVE_UNLABELED = "positive/unlabeled"
UNLABELED = "unlabeled"  # the second label of positive-unlabeled data
SHOWN = 8  # names listed in a message
NO_ANSWER = -1
BoolArray = NDArray[np.bool_]


# Values as people have them.


def item(label: Any) -> Any:
    """A NumPy scalar as the Python object it stands for."""
    return label.item() if isinstance(label, np.generic) else label


def label_text(name: object) -> str:
    """A label's name as text; sets in braces."""
    return "{" + ", ".join(map(str, sorted(name))) + "}" if isinstance(name, (set, frozenset)) else str(name)


def is_index(label: Any) -> bool:
    """Whether a label is a whole number, which may stand for a row."""
    whole = isinstance(label, (int, np.integer)) or (isinstance(label, (float, np.floating)) and label.is_integer())
    return whole and not isinstance(label, bool)


def key(label: Any) -> Any:
    """What a name is looked up by: True is not 1, and 1.0 is."""
    label = item(label)
    return ("boolean", label) if isinstance(label, bool) else label


def are_numbers(names: Sequence[Any]) -> bool:
    """Whether names are 0, 1, ... in order, as the columns of a table without names are."""
    return [key(name) for name in names] == list(range(len(names)))


def _text(name: Any) -> str:
    """A name as code has it; of a set always in one order."""
    return "{" + ", ".join(map(repr, sorted(name, key=str))) + "}" if isinstance(name, frozenset) else repr(name)


def shown(names: Iterable[Any]) -> str:
    """The first names of a list, for a message."""
    known = list(names)
    return ", ".join(map(_text, known[:SHOWN])) + (f", ... ({len(known)} in all)" if len(known) > SHOWN else "")


def absent(values: NDArray[Any], no_answer: bool = False) -> BoolArray:
    """Which values stand for none: None, NaN, NA, an empty text; -1 too where they are answers or known classes."""
    if values.dtype.kind in "biu":
        return values == NO_ANSWER if no_answer and values.dtype.kind == "i" else np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        gaps = np.isnan(values)
        return gaps | (values == NO_ANSWER) if no_answer else gaps
    if values.dtype.kind in "US":
        stripped = np.char.strip(values)
        return (stripped == "") | (stripped == "-1") if no_answer else np.asarray(stripped == "")
    none = (NO_ANSWER, "-1") if no_answer else ()
    gaps = [_is_none(v) or (not isinstance(item(v), (bool, frozenset)) and item(v) in none) for v in values.flat]
    return np.array(gaps, dtype=bool).reshape(values.shape)


def _is_none(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return not isinstance(value, (set, frozenset, list, tuple, np.ndarray)) and checks.absent(value)


def holds_collections(y: Any) -> bool:
    """Whether labels are lists, sets, tuples or series themselves; a 2-d array does not count."""
    if isinstance(checks.unmasked(y, "y"), (np.ndarray, Tensor)) and y.ndim != 1:
        return False
    if hasattr(y, "columns") or isinstance(y, (str, bytes)):  # a data frame is 2-d
        return False
    if isinstance(y, Tensor) or (isinstance(y, np.ndarray) and y.dtype.kind != "O"):
        return False
    first = next((v for v in y if not _is_none(v)), None) if isinstance(y, Iterable) else None
    return isinstance(first, (set, frozenset, list, tuple, np.ndarray)) or hasattr(first, "to_list")


def column(y: Any, argument: str = "y") -> NDArray[Any]:
    """One label for each row, as a 1-d array: names, booleans or whole numbers, and gaps."""
    if y is None:
        raise InputError(f"{argument}: requires y to be passed, but the target y is None")
    if holds_collections(y) and not all(isinstance(v, (list, np.ndarray)) and len(v) == 1 for v in y):
        raise InputError(
            f"{argument}: expected one label per example, got collections; candidate sets need a transition such as "
            "'partial:0.3'"
        )
    array = checks.array(y, argument)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise InputError(
            f"{argument}: expected one label per example, y should be a 1d array, got an array of shape {array.shape} "
            "instead"
        )
    if len(array) == 0:
        raise InputError(f"{argument}: expected at least one label, got an empty batch")
    if array.dtype.kind == "c":
        raise InputError(f"{argument}: expected names or whole numbers, got complex ones; Complex data not supported")
    if array.dtype.kind == "f":
        broken = np.flatnonzero(~np.isnan(array) & (array != np.floor(array)))
        infinite = np.flatnonzero(np.isinf(array))
        if len(infinite):
            raise InputError(f"{argument}: expected names or whole numbers, Input {argument} contains infinity")
        if len(broken):
            raise InputError(
                f"{argument}: expected names or whole numbers, got {array[broken[0]]!r} at row {broken[0]}; "
                "Unknown label type: continuous"
            )
    return array


def distinct(values: NDArray[Any], argument: str = "y") -> list[Any]:
    """The different values but for gaps, sorted; all of one kind."""
    present = values[~absent(values)]
    if present.dtype.kind != "O":
        return [_whole(v) for v in np.unique(present).tolist()]
    found = {key(v): _whole(item(v)) for v in present}
    return ordered(found.values(), argument)


def _whole(name: Any) -> Any:
    return int(name) if isinstance(name, float) and name.is_integer() else name


def ordered(names: Iterable[Any], argument: str = "y") -> list[Any]:
    """Names in sorted order."""
    listed = list(names)
    kinds = {_kind(name) for name in listed}
    if len(kinds) > 1:
        every = ", ".join(sorted({type(name).__name__ for name in listed}))
        raise InputError(f"{argument}: expected labels of one kind, got a mix of {every}; pass `classes`")
    return sorted(listed)


def _kind(name: Any) -> str:
    return "boolean" if isinstance(name, bool) else "number" if isinstance(name, (int, float)) else type(name).__name__


def check_spelling(names: Sequence[Any], argument: str = "y") -> None:
    """Names that nobody has listed: refuse one that is another but for spaces, warn where they differ by case."""
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str):
            continue
        plain = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
        other = seen.setdefault(plain, name)
        if other == name:
            continue
        advice = "write them alike, or pass `classes` if they are different ones"
        if other.split() == name.split() or name != name.strip() or other != other.strip():
            raise InputError(
                f"{argument}: expected every class written in one way, got {other!r} beside {name!r}, which differ by "
                f"spaces; {advice}"
            )
        warn(
            f"{argument}: the classes {other!r} and {name!r} differ by case alone, and count as different ones; "
            f"{advice}",
        )


def distinct_names(names: Any, argument: str, size: int | None = None) -> list[Any]:
    """A list of two or more different names."""
    if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
        raise InputError(f"{argument}: expected a list of at least 2 class names, got {names!r}")
    given = checks.array(names if hasattr(names, "__array__") else list(names), argument)
    if given.ndim != 1 or len(given) < 2:
        raise InputError(f"{argument}: expected a list of at least 2 class names, got {checks.short(names)}")
    out = [_whole(item(name)) for name in given]
    if size is not None and len(out) != size:
        raise InputError(f"{argument}: expected {size} names, one for each column of T, got {len(out)}")
    if any(_is_none(name) for name in out):
        raise InputError(f"{argument}: expected class names, got a missing one among {shown(out)}")
    if len({key(name) for name in out}) != len(out):
        raise InputError(f"{argument}: expected distinct class names, got {checks.short(names)}")
    return out


def names_array(names: Sequence[Any]) -> NDArray[Any]:
    """Class names as an array; texts, booleans and numbers in a type of their own."""
    if len({_kind(name) for name in names}) == 1 and isinstance(names[0], (str, bool, int, float)):
        return np.asarray(names)
    out = np.empty(len(names), dtype=object)
    out[:] = names
    return out


# The labels of a transition.


@dataclass(frozen=True)
class Encoded:
    """Labels that were read already: what a `LabelSpace` is given instead of names it passes on as they are."""

    labels: Tensor
    missing: BoolArray | None = None  # which rows have none

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, rows: Any) -> Encoded:
        index = torch.as_tensor(rows) if not isinstance(rows, slice) else rows
        return Encoded(self.labels[index], None if self.missing is None else self.missing[rows])


class LabelSpace(ABC):
    """The labels of one T: how they are written, what they are called, and how losses take them.

    Parameters
    ----------
    transition : Transition
    classes : sequence, optional
        Names of the classes in the order of T's columns; None where they are 0 .. K-1.
    """

    kind: ClassVar[str]
    of_sets: ClassVar[bool] = False  # whether a label is a set of classes, written a|b|c
    missing_row: ClassVar[int | None] = None  # the row of T that a missing label stands for, where it is a label
    found: bool = False  # whether names of classes were found among labels, in sorted order: nobody has given them

    def __init__(self, transition: Transition, classes: Sequence[Any] | None = None) -> None:
        self.transition = transition
        self.classes = None if classes is None else [item(c) for c in classes]

    def __repr__(self) -> str:
        return f"<labels of {self.transition.name}: {self.kind}, classes {shown(self.class_names)}>"

    @property
    def class_names(self) -> list[Any]:
        """The names of the classes, in the order of T's columns."""
        return list(range(self.transition.num_classes)) if self.classes is None else list(self.classes)

    @property
    def names(self) -> list[Any]:
        """The names of the weak labels, in the order of T's rows."""
        own = self.class_names
        words = self.transition._names_for(own)
        if words is not None:
            return words
        return [
            frozenset(own[z] for z in name) if isinstance(name, (set, frozenset)) else name
            for name in self.transition.weak_labels
        ]

    @property
    def unsorted(self) -> bool:
        """Whether classes have names that do not stand in sorted order in T."""
        return self.class_names != sorted_names(self.class_names)

    def read(self, y: Any, argument: str = "y") -> tuple[Tensor, BoolArray]:
        """Labels as people have them: encoded, and which rows (n,) have none (what stands there means nothing)."""
        if isinstance(y, Encoded):
            missing = np.zeros(len(y), dtype=bool) if y.missing is None else y.missing
            return self.transition.encode(as_given(y.labels)), missing
        if isinstance(y, SoftLabels):
            named = y.names is not None and not self.transition.separate
            shares = SoftLabels(y.arranged(self.names).tensor, validate=False) if named else y
            return self.transition.encode(shares), np.zeros(len(y), dtype=bool)
        return self._read(y, argument)

    @abstractmethod
    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """`read`, of what people have."""

    def encode(self, y: Any, argument: str = "y") -> Tensor:
        """Encoded labels of rows that all have one."""
        labels, missing = self.read(y, argument)
        if missing.any():
            raise InputError(
                f"{argument}: expected a label for every example, got a missing one (NaN or None) at row "
                f"{int(missing.argmax())}"
            )
        return labels

    def missing(self, y: Any, argument: str = "y") -> BoolArray:
        """Which rows (n,) have no label."""
        return self.read(y, argument)[1]

    def decode(self, encoded: Any) -> list[Any]:
        """The names of encoded labels."""
        names = self.names
        return [names[int(y)] for y in self.row(self._tensor(encoded)).reshape(-1)]

    def all(self) -> Tensor:
        """Every label, encoded, in the order of T's rows."""
        return torch.arange(self.transition.num_weak_labels)

    def row(self, encoded: Tensor) -> Tensor:
        """The row of ``T.matrix()`` of each encoded label."""
        return self.transition.row_index(encoded)

    def entry(self, row: int, z: int) -> tuple[str, int]:
        """What the probability of a row of T in class z is called; and -1 where it is one minus what is called so."""
        label, of_class = self.names[row], f"class {self.class_names[z]}"
        if isinstance(label, tuple):
            return f"P(label {label[1]} | {of_class}) of source {label[0]}", 1
        return f"P(label {_text(label) if isinstance(label, frozenset) else label} | {of_class})", 1

    def to_dict(self) -> dict[str, Any]:
        """Plain data: the kind of label, and the names of classes and labels where they have some."""
        own = self.transition._weak_labels
        return {"kind": self.kind, "classes": self.classes, "weak_labels": None if own is None else list(own)}

    def class_index(self) -> dict[Any, int]:
        """The class of each name."""
        return {key(name): z for z, name in enumerate(self.class_names)}

    def known_classes(self, true: Any, n: int | None = None, argument: str = "true") -> NDArray[np.int64]:
        """The class of each row by number; -1 where it is unknown: -1, None, NaN or an empty text."""
        column = known_column(true, n, argument)
        if any(is_index(c) and c == NO_ANSWER for c in self.class_names):
            raise InputError(
                f"{argument}: expected classes other than -1, which stands for an unknown one, got a class -1"
            )
        gaps = absent(column, no_answer=True)
        out = look_up(column, self.class_index(), gaps, argument, None, self._unknown_class)
        out[gaps] = NO_ANSWER
        return out

    def _unknown_class(self, label: Any) -> tuple[str, str]:
        return f"classes among {shown(self.class_names)}, got {label!r}", like(label, self.class_names)

    def _tensor(self, encoded: Any) -> Tensor:
        return encoded if isinstance(encoded, Tensor) else torch.as_tensor(np.asarray(encoded))


class Names(LabelSpace):
    """One label for each example: the name of a class, a name of its own, or the number of a row of T."""

    kind = "index"

    @property
    def names(self) -> list[Any]:
        """The names of the weak labels: of the classes, where labels are classes; else T's own, or 0 .. M-1."""
        return self.class_names if self.transition.label_kind == "classes" else super().names

    @property
    def has_names(self) -> bool:
        """Whether a label is known by a name: then an integer that is none is refused."""
        of_classes = self.transition.label_kind == "classes" or self.transition._names_for(self.class_names) is not None
        return self.classes is not None if of_classes else self.transition._weak_labels is not None

    @cached_property
    def index(self) -> dict[Any, int]:
        """The row of T by name, or by number where labels have no names."""
        out = {key(name): y for y, name in enumerate(self.names)}
        return out if self.has_names else {y: y for y in range(self.transition.num_weak_labels)} | out

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Rows of T (n,)."""
        whole = type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "iu" and len(y) and not self.has_names
        if whole and y.min() >= 0 and y.max() < self.transition.num_weak_labels:  # rows: there is nothing to look up
            return torch.from_numpy(y.astype(np.int64)), np.zeros(len(y), dtype=bool)
        if isinstance(next(iter(self.names)), tuple) and holds_collections(y):
            values = np.empty(len(y), dtype=object)
            values[:] = [v if _is_none(v) else tuple(item(m) for m in v) for v in y]
        else:
            values = column(y, argument)
        missing = absent(values)
        return torch.from_numpy(self.rows_of(values, missing, argument)), missing

    def rows_of(
        self, values: NDArray[Any], missing: BoolArray, argument: str, at: NDArray[np.int64] | None = None
    ) -> NDArray[np.int64]:
        """The row of each name, 0 where one is missing; `at` are the values' places, for the message."""
        return look_up(values, self.index, missing, argument, at, self._unknown)

    def _unknown(self, label: Any) -> tuple[str, str]:
        numbered = self.has_names and is_index(label) and not any(map(is_index, self.names))
        within = numbered and 0 <= label < len(self.names)
        got = f"labels among {shown(self.names)}, got {label!r}"
        return got, ("if these are rows of T, pass T.labels.decode(rows)" if within else like(label, self.names))


ANSWERS = {True: 0, False: 1, ("boolean", True): 0, ("boolean", False): 1, "yes": 0, "no": 1}


class Questions(Names):
    """Yes or no to one class: "cat" and "not cat", or pairs of the class asked for and the answer (True, "yes", 1)."""

    kind = "questions"

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Rows of T (n,)."""
        if holds_collections(y):
            pairs = list(y)
        else:
            table = checks.array(y, argument)
            if table.ndim != 2 or table.shape[1] != 2:
                return super()._read(y, argument)
            pairs = table.tolist()
        asked, answers = np.empty(len(pairs), dtype=object), np.empty(len(pairs), dtype=object)
        for i, pair in enumerate(pairs):
            if not _is_none(pair) and not (_is_pair(pair) and len(pair) == 2):
                raise InputError(f"{argument}: expected pairs (class asked for, answer), got {pair!r} at row {i}")
            asked[i], answers[i] = (None, None) if _is_none(pair) else (item(pair[0]), item(pair[1]))
        missing = absent(asked) | absent(answers)
        rows = look_up(asked, self.class_index(), missing, argument, None, self._unknown_class)
        wrong = lambda v: (f'the answers True and False, or "yes" and "no", got {v!r}', "")  # noqa: E731
        no = look_up(answers, ANSWERS, missing, argument, None, wrong)
        return torch.from_numpy(rows + self.transition.num_classes * no), missing


def like(label: Any, names: Sequence[Any]) -> str:
    """Advice where a name is another one but for spaces or case."""
    if not isinstance(label, str):
        return ""
    plain = " ".join(label.casefold().split())
    close = [n for n in names if isinstance(n, str) and " ".join(n.casefold().split()) == plain]
    return f"did you mean {close[0]!r}?" if close else ""


def look_up(
    values: NDArray[Any],
    index: dict[Any, int],
    missing: BoolArray,
    argument: str,
    at: NDArray[np.int64] | None,
    unknown: Callable[[Any], tuple[str, str]],
) -> NDArray[np.int64]:
    """The number of each name; 0 where one is missing."""
    if values.dtype.kind != "O":
        some = values[~missing] if missing.any() else values
        different, inverse = np.unique(some, return_inverse=True)
        found = np.array([index.get(key(name), -1) for name in different], dtype=np.int64)[inverse.reshape(-1)]
        out = np.zeros(len(values), dtype=np.int64)
        out[~missing] = found
    else:
        pairs = zip(values, missing, strict=True)
        out = np.array([0 if gap else index.get(key(name), -1) for name, gap in pairs], dtype=np.int64)
    wrong = np.flatnonzero(out < 0)
    if len(wrong):
        first = int(wrong[0])
        expected, advice = unknown(_whole(item(values[first])))
        place = first if at is None else int(at[first])
        raise InputError(f"{argument}: expected {expected} at row {place}" + (f"; {advice}" if advice else ""))
    return out


class ListedSets(Names):
    """One of the sets of classes that T lists, as a set or list of names, or as text: a|b; or the number of a row."""

    kind = "sets"
    of_sets = True

    @property
    def has_names(self) -> bool:
        """Whether classes have names; the sets of a T without them are known by number too."""
        return self.classes is not None and not are_numbers(self.classes)

    @cached_property
    def index(self) -> dict[Any, int]:
        """The row of T by the set, by its text, and by its number where classes have no names."""
        out: dict[Any, int] = {name: y for y, name in enumerate(self.names)}
        return out if self.has_names else out | {y: y for y in range(len(out))}

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Rows of T (n,)."""
        if holds_collections(y):
            given = list(y)
            if all(_all_boolean(v) for v in given if not _is_none(v)):
                raise InputError(
                    f"{argument}: expected the sets that {self.transition.name} lists, got booleans; name the classes"
                )
        else:
            given = list(column(y, argument))
        values = np.empty(len(given), dtype=object)
        values[:] = [self._set(v) for v in given]
        missing = absent(values)
        return torch.from_numpy(self.rows_of(values, missing, argument)), missing

    def _set(self, label: Any) -> Any:
        if isinstance(label, str) and label.strip() and self.classes is not None:
            own = {str(c): c for c in self.classes}
            return frozenset(own.get(part.strip(), part.strip()) for part in label.split(SET_SEPARATOR))
        return label if _is_none(label) or not _is_collection(label) else frozenset(item(z) for z in label)


def _is_collection(label: Any) -> bool:
    return isinstance(label, (set, frozenset, list, tuple, np.ndarray)) or hasattr(label, "to_list")


def _is_pair(label: Any) -> bool:
    return _is_collection(label) and not isinstance(label, (set, frozenset))


def _all_boolean(label: Any) -> bool:
    return len(label) > 0 and all(isinstance(z, (bool, np.bool_)) for z in label)


class Masks(LabelSpace):
    """Candidate sets: masks over the classes, lists or sets of their names, or text: a|b|c."""

    kind = "masks"
    of_sets = True

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Masks (n, K)."""
        masks, missing = self._masks(y, argument)
        masks[missing] = next(iter(masks[~missing]), True)  # any label that may occur: it means nothing
        return self.transition.encode(masks), missing

    def _masks(self, y: Any, argument: str) -> tuple[BoolArray, BoolArray]:
        given = _texts_as_lists(y, argument)
        K = self.transition.num_classes
        if not holds_collections(given) or all(_all_boolean(v) for v in given if not _is_none(v)):
            return self._from_table(given, argument)
        index = self.class_index()
        out, missing = np.zeros((len(given), K), dtype=bool), np.zeros(len(given), dtype=bool)
        for row, label in enumerate(given):
            if _is_none(label):
                missing[row] = True
                continue
            for member in label:
                z = index.get(key(member))
                if z is None:
                    raise InputError(
                        f"{argument}: expected classes among {shown(self.class_names)}, got {item(member)!r} at row "
                        f"{row}"
                    )
                out[row, z] = True
        return out, missing

    def _from_table(self, y: Any, argument: str) -> tuple[BoolArray, BoolArray]:
        K = self.transition.num_classes
        table = checks.array(columns_in_order(y, self, argument), argument)
        if table.dtype.kind == "O" and table.ndim == 2 and all(_all_boolean(row) for row in table):
            table = table.astype(bool)
        if table.ndim != 2 or table.shape[1] != K or table.dtype.kind not in "biuf":
            raise InputError(
                f"{argument}: expected candidate sets, as a boolean mask (n, {K}) or as lists of class names, "
                f"got shape {table.shape} and dtype {table.dtype}"
            )
        if table.dtype.kind != "b" and not np.isin(table, (0, 1)).all():
            raise InputError(f"{argument}: expected candidate masks of 0 and 1, got other numbers")
        return table.astype(bool), np.zeros(len(table), dtype=bool)

    def all(self) -> Tensor:
        """Every candidate set (up to 12 classes)."""
        return self.transition.encode(checks.masks_of_sets(self.transition.weak_labels, self.transition.num_classes))

    def decode(self, encoded: Any) -> list[Any]:
        """The sets of names that masks stand for."""
        own = self.class_names
        return [frozenset(own[int(z)] for z in mask.nonzero()) for mask in self._tensor(encoded)]


def _texts_as_lists(y: Any, argument: str) -> Any:
    """Sets written as text, as lists of names; what is no set among them is refused."""
    if isinstance(y, Tensor) or hasattr(y, "columns"):
        return y
    out = y
    if not holds_collections(y):
        array = checks.array(y, argument)
        if array.ndim != 1 or array.dtype.kind not in "OUS" or not any(isinstance(v, str) for v in array):
            return y
        out = [
            None if _is_none(v) else [part.strip() for part in v.split(SET_SEPARATOR)] if isinstance(v, str) else v
            for v in array.tolist()
        ]
    for row, label in enumerate(out):
        if not _is_none(label) and not _is_collection(label):
            raise InputError(
                f"{argument}: expected candidate sets, as lists of class names or as text such as a|b, got {label!r} "
                f"at row {row}"
            )
    return out


def columns_in_order(table: Any, space: LabelSpace, argument: str) -> Any:
    """A table with a column for each class, in the order of T's columns: a frame by name, an array in sorted order."""
    columns = list(table.columns) if hasattr(table, "columns") else None
    names = space.class_names
    if columns is not None and not are_numbers(columns):
        if set(map(key, columns)) == set(map(key, names)) and len(columns) == len(names):
            place = {key(c): i for i, c in enumerate(columns)}
            return checks.array(table, argument)[:, [place[key(name)] for name in names]]
        if space.classes is not None:
            raise InputError(f"{argument}: expected the columns {names} by name, got {columns}")
        return table
    if space.classes is not None and space.unsorted:
        raise InputError(
            f"{argument}: expected a frame with the columns {names} by name, got an array, whose columns would be read "
            f"in sorted order, where T has them in another; pass pd.DataFrame({argument}, columns=[...])"
        )
    return table


class Pairs(LabelSpace):
    """(source, label) pairs, the label by its name in its own source; or rows of the stacked T."""

    kind = "pairs"

    @property
    def parts(self) -> list[LabelSpace]:
        """The labels of each source."""
        return [space_of(t, self.classes) for t in self.transition.sources]

    @property
    def names(self) -> list[Any]:
        """(source, name) pairs."""
        return [(d, name) for d, part in enumerate(self.parts) for name in part.names]

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Rows of the stacked T (n,)."""
        collections = holds_collections(y)
        table = None if collections else checks.array(y, argument)
        if table is not None and (table.ndim < 2 or table.shape[1] == 1):
            values = column(table, argument)
            missing = absent(values)
            numbers = {y: y for y in range(self.transition.num_weak_labels)}
            unknown = lambda v: (f"rows of T, or (source, label) pairs, got {v!r}", "")  # noqa: E731
            return torch.from_numpy(look_up(values, numbers, missing, argument, None, unknown)), missing
        pairs = list(y) if table is None else table
        parts = self.parts
        which = np.zeros(len(pairs), dtype=np.int64)
        gaps = np.zeros(len(pairs), dtype=bool)
        labels = np.empty(len(pairs), dtype=object)
        for i, pair in enumerate(pairs):
            if _is_none(pair):
                gaps[i] = True
                continue
            whole = _is_pair(pair) and len(pair) == 2 and is_index(item(pair[0]))
            if not whole or not 0 <= item(pair[0]) < len(parts):
                raise InputError(
                    f"{argument}: expected (source, label) pairs with a source in [0, {len(parts)}), got {pair!r} at "
                    f"row {i}"
                )
            which[i], labels[i], gaps[i] = int(pair[0]), item(pair[1]), _is_none(pair[1])
        out = np.zeros(len(pairs), dtype=np.int64)
        for d, part in enumerate(parts):
            rows = np.flatnonzero((which == d) & ~gaps)
            if len(rows):
                out[rows] = self.transition.offsets[d] + part_rows(part, labels[rows], rows, argument)  # type: ignore[attr-defined]
        return torch.from_numpy(out), gaps


def part_rows(part: LabelSpace, labels: NDArray[Any], at: NDArray[np.int64], argument: str) -> NDArray[np.int64]:
    """Rows of one source's T of labels that are not missing; `at` are their places, for the message."""
    none = np.zeros(len(labels), dtype=bool)
    if isinstance(part, ListedSets):
        sets = np.empty(len(labels), dtype=object)
        sets[:] = [part._set(v) for v in labels]
        return part.rows_of(sets, none, argument, at)
    if isinstance(part, Names):
        return part.rows_of(labels, none, argument, at)
    if isinstance(part, Masks) and not all(_is_collection(v) or isinstance(v, str) for v in labels):
        numbers = {y: y for y in range(part.transition.num_weak_labels)}
        unknown = lambda v: (f"candidate sets or rows of T, got {v!r}", "")  # noqa: E731
        return look_up(labels, numbers, none, argument, at, unknown)
    return part.row(part.encode(list(labels), argument)).numpy()


class Answers(LabelSpace):
    """One answer of each annotator (n, m), by name or number; -1, None, NaN or an empty text where there is none."""

    kind = "answers"

    @property
    def parts(self) -> list[LabelSpace]:
        """The labels of each annotator."""
        return [space_of(t, self.classes) for t in self.transition.transitions]  # type: ignore[attr-defined]

    @property
    def names(self) -> list[Any]:
        """The complete rows of answers, by name."""
        parts = [part.names for part in self.parts]
        return [tuple(parts[a][y] for a, y in enumerate(row)) for row in self.transition.weak_labels]

    def table(self, y: Any, argument: str = "y") -> NDArray[Any]:
        """The answers as they are given (n, m)."""
        values = checks.array(y, argument)
        m = self.transition.label_shape[0]
        if values.ndim != 2 or values.shape[1] != m or not len(values):
            raise InputError(f"{argument}: expected the answers of {m} annotators (n, {m}), got shape {values.shape}")
        return values

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Answers (n, m) as rows of each annotator's T, -1 where there is none: a row without any is no gap."""
        values = self.table(y, argument)
        given = ~absent(values, no_answer=True)
        out = np.full(values.shape, NO_ANSWER, dtype=np.int64)
        for a, part in enumerate(self.parts):
            rows = np.flatnonzero(given[:, a])
            if len(rows):
                out[rows, a] = part_rows(part, values[rows, a], rows, argument)
        return self.transition.encode(out), np.zeros(len(out), dtype=bool)

    def all(self) -> Tensor:
        """Every complete row of answers, where they can be listed."""
        return self.transition.encode(self.transition.weak_labels)

    def decode(self, encoded: Any) -> list[Any]:
        """Tuples of names, None where there is no answer."""
        names = [part.names for part in self.parts]
        rows = self._tensor(encoded).tolist()
        return [tuple(None if y < 0 else names[a][y] for a, y in enumerate(row)) for row in rows]


class PositiveUnlabeled(Names):
    """Labeled positives, and rows that may be either: booleans, the positive's name or nothing, or rows 0 and 1."""

    kind = POSITIVE_UNLABELED
    missing_row = 1

    def entry(self, row: int, z: int) -> tuple[str, int]:
        """The one rate, and what is left of it."""
        return "r = P(labeled | positive)", 1 if row == 0 else -1

    @cached_property
    def positive(self) -> int:
        """T's column of the positive class."""
        return int(self.transition.matrix()[0].argmax())

    @property
    def class_names(self) -> list[Any]:
        """The names of the classes; of a T without names True is the positive one."""
        return [z == self.positive for z in range(2)] if self.classes is None else list(self.classes)

    @property
    def names(self) -> list[Any]:
        """The positive's name, and that of unlabeled rows."""
        own = self.class_names
        positive, other = own[self.positive], own[1 - self.positive]
        if not isinstance(positive, str):
            return [positive, other]
        if positive == UNLABELED:
            raise InputError(f"classes: expected the positive class first, got {UNLABELED!r}; pass `classes`")
        return [positive, UNLABELED]

    @cached_property
    def index(self) -> dict[Any, int]:
        """The row of T by name; a row that is not labeled may also be written as the other class."""
        own = self.class_names
        out = {key(self.names[0]): 0, key(self.names[1]): 1}
        out.setdefault(key(own[1 - self.positive]), 1)
        out.setdefault(UNLABELED, 1)
        if self.classes is None:
            out |= {0: 0, 1: 1}
        return out | {key(True): 0, key(False): 1}

    def _read(self, y: Any, argument: str) -> tuple[Tensor, BoolArray]:
        """Rows of T (n,): a missing label is the label "unlabeled"."""
        values = column(y, argument)
        gaps = absent(values)
        unnamed = self.classes is None or all(isinstance(c, bool) for c in self.classes)
        if unnamed and values.dtype.kind in "OUS" and any(isinstance(v, str) for v in values[~gaps]):
            rows = self._by_text(values, gaps, argument)
        else:
            if key(NO_ANSWER) not in self.index and _has_minus_one(values, gaps):
                raise InputError(
                    f"{argument}: expected True = labeled positive (or 0, T's row 0, and 1 = unlabeled), got -1; for "
                    f"labels 1 (positive) and -1 (unlabeled) pass {argument} == 1"
                )
            rows = self.rows_of(values, gaps, argument)
            if self.classes is None and gaps.any() and (rows[~gaps] == 1).any() and not _booleans(values, gaps):
                raise InputError(
                    f"{argument}: expected True = labeled positive and nothing elsewhere, got the number 1 beside "
                    f"gaps, both of which are unlabeled as rows of T; pass {argument} == 1 if 1 is a labeled positive"
                )
        rows[gaps] = 1
        self._check_share(rows, argument)
        return torch.from_numpy(rows), np.zeros(len(rows), dtype=bool)

    def _by_text(self, values: NDArray[Any], gaps: BoolArray, argument: str) -> NDArray[np.int64]:
        """A single name beside rows without one is that of the labeled positives."""
        named = [name for name in distinct(values, argument) if name != UNLABELED]
        if len(named) != 1:
            raise InputError(
                f"{argument}: expected the name of the positive class, and nothing or {UNLABELED!r} elsewhere, got "
                f"{shown(named)}; say which class is positive: T.named([POSITIVE, OTHER])"
            )
        return np.where(gaps | (values == UNLABELED), 1, 0).astype(np.int64)

    def _check_share(self, rows: NDArray[np.int64], argument: str) -> None:
        share, r = float((rows == 0).mean()), float(self.transition.matrix()[0].max())
        if share > r + 5 * (r * (1 - r) / len(rows)) ** 0.5:
            raise InputError(
                f"{argument}: expected at most a share r = {r:.3g} of labeled positives (True, or 0 = labeled positive "
                f"and 1 = unlabeled), got {share:.3g}: the labels may be coded the other way round, or r is too small"
            )


def _booleans(values: NDArray[Any], gaps: BoolArray) -> bool:
    return values.dtype.kind == "b" or all(isinstance(v, (bool, np.bool_)) for v in values[~gaps].tolist())


def _has_minus_one(values: NDArray[Any], gaps: BoolArray) -> bool:
    if values.dtype.kind in "iuf":
        return bool((values[~gaps] == -1).any())
    return any(is_index(v) and v == -1 for v in values[~gaps].tolist())


def known_column(true: Any, n: int | None = None, argument: str = "true") -> NDArray[Any]:
    """The classes of some rows as they are given, one for each row, missing where unknown."""
    array = checks.array(true, argument)
    if array.ndim != 1:
        raise InputError(f"{argument}: expected one class per row (n,), missing where unknown, got shape {array.shape}")
    if n is not None and len(array) != n:
        raise InputError(
            f"{argument}: expected one class for each of the {n} rows, missing where unknown, got {len(array)}"
        )
    return array


def sorted_names(names: Sequence[Any]) -> list[Any]:
    """Names in sorted order; those that have none as they are."""
    try:
        return sorted(names)
    except TypeError:
        return list(names)


KINDS: dict[str, type[LabelSpace]] = {
    "classes": Names,  # label y has the name of class y
    "names": Names,  # labels have names of their own, or are 0 .. M-1
    "sets": ListedSets,  # listed sets of classes
    "masks": Masks,  # candidate masks over the classes
    "pairs": Pairs,  # (source, label)
    "answers": Answers,  # one from each annotator
    "questions": Questions,  # yes or no to one class, by its name ("cat", "not cat") or as a pair (class, answer)
    POSITIVE_UNLABELED: PositiveUnlabeled,  # 0 = labeled positive, 1 = unlabeled
}


def space_of(transition: Transition, classes: Sequence[Any] | None = None) -> LabelSpace:
    """The labels of T where its classes have these names; None where they have none."""
    return KINDS[transition.label_kind](transition, classes)
