"""Columns of Arrow files as arrays: what is not a number, or not a candidate set, is refused by column and row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._core import checks
from ..errors import InputError
from ..transitions import CandidateSetTransition

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnError(InputError):
    """A column that cannot be used: `fact` says why, and `advice` what to do, which a command words in its own way."""

    def __init__(self, fact: str, advice: str, row: int | None = None) -> None:
        super().__init__(f"{fact}; {advice}", row=row)  # the first bad one, counted from 0 in the block that was read
        self.fact: str = fact
        self.advice: str = advice

    def located(self, file: str, first_row: int) -> ColumnError:
        """The same error with the file, and the row counted from 1 in that file."""
        if self.row is None:
            return ColumnError(f"{self.fact} in {file}", self.advice)
        return ColumnError(f"{self.fact}, first at row {first_row + self.row + 1} of {file}", self.advice)


class CandidateLists:
    """Candidate sets of many rows as lists of classes: a few numbers per row, where masks take K bytes.

    ``lists[rows]`` gives the boolean masks (b, K) that losses take, for those rows only.
    """

    def __init__(self, members: NDArray[Any], ends: NDArray[Any], num_classes: int) -> None:
        # members of all lists, one list after another; an empty array has no type of its own
        self.members = np.asarray(members) if len(members) else np.empty(0, np.int64)
        self.ends = np.asarray(ends, dtype=np.int64)  # where each list ends among the members
        self.num_classes = checks.integer(num_classes, "num_classes", 2)
        self.shape = (len(self.ends), self.num_classes)
        if self.members.dtype.kind not in "iu":
            raise InputError(f"members: expected candidate classes as integers, got {self.members.dtype}")
        if len(self.members) and (self.members.min() < 0 or self.members.max() >= num_classes):
            raise InputError(f"labels: expected candidate classes in [0, {num_classes}), got classes outside it")

    @classmethod
    def from_masks(cls, masks: NDArray[np.bool_]) -> CandidateLists:
        """From boolean masks (n, K)."""
        small = np.uint16 if masks.shape[1] <= 1 << 16 else np.int32
        return cls(np.nonzero(masks)[1].astype(small), masks.sum(1).cumsum(), masks.shape[1])

    @classmethod
    def sample(cls, transition: CandidateSetTransition, y: NDArray[Any], seed: int) -> CandidateLists:
        """Draw a candidate set for every true class, a block of rows at a time: no (n, K) table ever exists.

        Each block has its own seed, so the draws differ from those of ``transition.sample(y, seed)``.
        """
        block = max(1, (1 << 22) // transition.num_classes)
        seeds = np.random.SeedSequence(seed).spawn(-(-len(y) // block))
        parts = [
            cls.from_masks(transition.sample(y[i * block : (i + 1) * block], np.random.default_rng(s)))
            for i, s in enumerate(seeds)
        ]
        return cls.joined(parts)

    @classmethod
    def joined(cls, parts: Sequence[CandidateLists]) -> CandidateLists:
        """Several, one after another."""
        offsets = np.cumsum([0, *(len(p.members) for p in parts[:-1])])
        ends = np.concatenate([p.ends + o for p, o in zip(parts, offsets, strict=True)])
        return cls(np.concatenate([p.members for p in parts]), ends, parts[0].num_classes)

    def __len__(self) -> int:
        return len(self.ends)

    def take(self, index: Any) -> CandidateLists:
        """The lists of some rows."""
        lengths = np.diff(self.ends, prepend=0)
        rows = np.arange(len(self))[index]
        length = lengths[rows]
        ends = length.cumsum()
        first = np.repeat((self.ends - lengths)[rows] - (ends - length), length)
        return CandidateLists(self.members[first + np.arange(len(first))], ends, self.num_classes)

    def masks(self) -> NDArray[np.bool_]:
        """Boolean masks (n, K) of all rows."""
        out = np.zeros(self.shape, bool)
        out[np.repeat(np.arange(len(self)), np.diff(self.ends, prepend=0)), self.members] = True
        return out

    def __getitem__(self, index: Any) -> NDArray[np.bool_]:
        return self.take(index).masks()


_DIGITS = Context(prec=80)  # as many as a decimal column can have, and more
EXACT = 1 << 53  # beyond it a float skips whole numbers
LEAVE_OUT = "leave the column out of features"
FILL = "drop or fill them, or leave the column out of features"


def decoded(column: pa.Array) -> pa.Array:
    """The values of a dictionary, and text of any layout as plain strings; other columns as they are."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    text = pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type)
    return column.cast(pa.string()) if text else column


def is_list(kind: pa.DataType) -> bool:
    """Whether values are lists, in any layout that is read here."""
    import pyarrow as pa

    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def is_number(kind: pa.DataType) -> bool:
    """Whether values are numbers or booleans (or all missing): not dates, times, durations or bytes."""
    import pyarrow as pa

    t = pa.types
    return any(test(kind) for test in (t.is_integer, t.is_floating, t.is_decimal, t.is_boolean, t.is_null))


def common_type(kinds: Iterable[pa.DataType]) -> pa.DataType | None:
    """A type that holds the values of columns of these types, none of them changed; None where there is none.

    Text in any layout is text, whole numbers and fractions are float64, and what is missing throughout is of any type.
    """
    import pyarrow as pa

    t, distinct = pa.types, list(dict.fromkeys(kinds))
    if len(distinct) == 1:
        return distinct[0]
    plain = [kind.value_type if t.is_dictionary(kind) else kind for kind in distinct]
    plain = [pa.string() if t.is_large_string(kind) or t.is_string_view(kind) else kind for kind in plain]
    plain = [pa.float64() if t.is_floating(kind) else kind for kind in plain]
    for apart in (t.is_binary, t.is_decimal):  # Arrow would call text bytes, and lose digits of decimals among others
        if len({apart(kind) for kind in plain if not t.is_null(kind)}) > 1:
            return None
    try:
        schemas = [pa.schema([("", kind)]) for kind in plain]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def check_number_type(kind: pa.DataType, name: str) -> None:
    """Refuse what NumPy would turn into meaningless numbers.

    Text passes, since it may spell numbers: its values are checked when they are read.
    """
    import pyarrow as pa

    t = pa.types
    inner = kind.value_type if t.is_dictionary(kind) else kind
    if not (is_number(inner) or t.is_string(inner) or t.is_large_string(inner) or t.is_string_view(inner)):
        raise ColumnError(f"column {name!r}: expected numbers, got {kind}", LEAVE_OUT)


def check_no_gaps(
    column: pa.Array, name: str, rule: str = "a label in every row", advice: str = "drop those rows"
) -> None:
    """Refuse missing values."""
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        fact = f"column {name!r}: expected {rule}, got {column.null_count} missing among {len(column)} rows"
        raise ColumnError(fact, advice, row)


def feature_values(column: pa.Array, name: str) -> NDArray[Any]:
    """A feature column without gaps."""
    import pyarrow as pa

    check_number_type(column.type, name)
    check_no_gaps(column, name, "numbers without gaps", FILL)
    kind, column = column.type, decoded(column)
    plain = pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_boolean(column.type)
    try:
        out: NDArray[Any] = (column if plain else column.cast(pa.float64())).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise ColumnError(f"column {name!r}: expected numbers, got {kind}", LEAVE_OUT) from None
    inexact = first_inexact(column)
    if inexact is not None:
        row, text = inexact
        fact = f"expected numbers that a float holds (whole ones up to 2^53), got {text}, which would be rounded"
        raise ColumnError(f"column {name!r}: {fact}", LEAVE_OUT, row)
    return out


def first_inexact(column: pa.Array) -> tuple[int, str] | None:
    """The first number that no float holds (whole beyond 2^53, or with too many decimals), with its position."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds, column = pa.types, decoded(column)
    if kinds.is_decimal(column.type):
        return _first_inexact_decimal(column)
    if kinds.is_string(column.type):
        long = pc.fill_null(pc.match_substring_regex(column, r"^\s*[+-]?[0-9]{16,}\s*$"), False)
        rows = np.flatnonzero(long.to_numpy(zero_copy_only=False))
    elif kinds.is_integer(column.type) and column.type.bit_width == 64:
        whole = column.fill_null(0)
        low, high = pa.scalar(-EXACT).cast(pa.int64()), pa.scalar(EXACT).cast(column.type)
        outside = pc.greater(whole, high)
        if kinds.is_signed_integer(column.type):
            outside = pc.or_(outside, pc.less(whole, low))
        rows = np.flatnonzero(outside.to_numpy(zero_copy_only=False))
    else:
        return None
    for row in rows.tolist():
        text = str(column[row].as_py()).strip()
        if len(text) > 300 or int(float(text)) != int(text):  # beyond 308 digits there is no float
            return row, checks.cut(text, 40)
    return None


def _first_inexact_decimal(column: pa.Array) -> tuple[int, str] | None:
    """A float holds a decimal that can be read off it again: 0.1, but not 0.1234567890123456789."""
    import pyarrow.compute as pc

    if column.type.precision <= 15:  # any number of 15 digits can
        return None
    values = column.unique().to_pylist()  # in the order in which they appear
    lost = next((v for v in values if v is not None and Decimal(repr(float(v))) != v), None)
    return None if lost is None else (int(pc.index(column, lost).as_py()), f"{lost.normalize(_DIGITS):f}")


def check_finite(X: NDArray[Any], names: Sequence[str] | None = None, where: str = "") -> None:
    """One NaN or infinity would make every weight NaN: refuse it by the name of its column, or by its number."""
    if X.dtype.kind != "f" or np.isfinite(X).all():
        return
    bad = ~np.isfinite(X)
    if bad.ndim != 2:
        raise InputError(
            f"features: expected finite numbers, got {int(bad.sum())} NaN or infinite values{where}; drop or fill them"
        )
    j = int(bad.any(0).argmax())
    column = f"column {j if names is None else repr(names[j])}"
    fact = f"{column}: expected finite numbers, got {int(bad[:, j].sum())} NaN or infinite among {len(X)} rows{where}"
    if names is None:
        raise InputError(f"{fact}; drop or fill them")
    raise ColumnError(fact, FILL, int(bad[:, j].argmax()))


def encoded_labels(column: pa.Array, name: str, encode: Callable[[pa.Array], Any]) -> NDArray[Any]:
    """Labels as the caller's `encode` reads them."""
    check_no_gaps(column, name)
    labels = np.asarray(encode(column))
    if labels.shape[:1] != (len(column),):
        raise InputError(f"encode: expected {len(column)} labels, one per row, got shape {labels.shape}")
    return labels


def check_label_type(kind: pa.DataType, name: str, num_classes: int | None) -> None:
    """Labels are integers, lists of integers, or lists of booleans."""
    import pyarrow as pa

    if not is_list(kind):
        if not pa.types.is_integer(kind):
            fact = f"column {name!r}: expected integers or lists of classes, got {kind}"
            raise ColumnError(fact, "pass encode to turn it into labels")
        return
    if num_classes is None:
        raise InputError("num_classes: expected the number of classes for a column of candidate lists, got None")
    members = kind.value_type
    if not (pa.types.is_integer(members) or pa.types.is_boolean(members) or pa.types.is_null(members)):
        fact = f"column {name!r}: expected lists of classes as integers, or of booleans, got {kind}"
        raise ColumnError(fact, "pass encode to turn them into masks")


def labels_of(column: pa.Array, name: str, num_classes: int | None) -> NDArray[np.int64] | CandidateLists:
    """Integers (n,), or candidate lists; an error names the row."""
    import pyarrow as pa

    check_no_gaps(column, name)
    check_label_type(column.type, name, num_classes)
    if not is_list(column.type):
        out: NDArray[np.int64] = column.to_numpy(zero_copy_only=False).astype(np.int64)
        return out
    assert num_classes is not None
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
    lengths = column.value_lengths().to_numpy(zero_copy_only=False).astype(np.int64)
    ends = lengths.cumsum()
    values = column.flatten()

    def refuse(rule: str, got: str, rows: NDArray[Any]) -> None:
        if len(rows):
            raise ColumnError(f"column {name!r}: expected {rule}, got {got}", "correct or drop the row", int(rows[0]))

    def rows_of(bad: NDArray[np.bool_]) -> NDArray[Any]:
        return np.searchsorted(ends, np.flatnonzero(bad), side="right")

    if values.null_count:
        gaps = values.is_null().to_numpy(zero_copy_only=False)
        refuse("lists without gaps", "a missing member", rows_of(gaps))
    members = values.to_numpy(zero_copy_only=False)
    if pa.types.is_boolean(kind.value_type):
        wrong = np.flatnonzero(lengths != num_classes)
        refuse(f"lists of {num_classes} booleans", f"{lengths[wrong[0]] if len(wrong) else 0}", wrong)
        masks = members.astype(bool).reshape(-1, num_classes)
        refuse("at least one candidate class", "none", np.flatnonzero(~masks.any(1)))
        return CandidateLists.from_masks(masks)
    refuse("at least one candidate class", "an empty list", np.flatnonzero(lengths == 0))
    outside = (members < 0) | (members >= num_classes)
    if outside.any():
        refuse(f"candidate classes in [0, {num_classes})", f"{members[outside][0]}", rows_of(outside))
    return CandidateLists(members, ends, num_classes)
