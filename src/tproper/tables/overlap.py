"""Whether a table holds rows that a model was trained on: their scores would be too good, and should say so.

A model keeps digests of some of its training rows: 12 to 20 bits of a cryptographic hash of a row's features. They
cannot be turned around: any number of rows has the same digest, and among rows that the model never saw, one in 8 to
one in 128 has a digest that a training row has as well (more in tables of over 100,000 rows), so that a list of
possible rows does not tell which of them were trained on. The smallest digests are kept; these are as good as random,
so that a table's rows with digests as small as these match as often as all of its rows (Broder, 1997): a small part of
the training table is recognised, too, because it matches more often than chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._core import FloatArray
from ..inputs import Columns

BLOCK = 1 << 16  # rows that are hashed at a time
KEPT = 256  # digests that a model keeps
FEWEST = 8  # with fewer, or where few rows are unique, nothing is kept: chance would look like overlap
REPEATED, TELLING = 0.05, 0.5  # of the rows; values of one column, as a share of the different rows
SHARE = 0.1  # of the digests that are kept, or of the table's: as many more matches than chance gives are overlap
CHANCE = 1e-4  # how often a table of other rows may be suspected
ROOM = 8  # digests there are for each training row, at least, where 20 bits allow it
DIGITS = (3, 4, 5)  # hexadecimal digits of a digest
MOST_ROWS = 2 * 16 ** DIGITS[-1]  # of more training rows nothing is kept: nearly every row would match one by chance


def _hashes(X: Columns | FloatArray) -> NDArray[np.uint64]:
    """64 bits for each row of features, the same for the same numbers and texts. They never leave the process."""
    out = np.empty(len(X), dtype=np.uint64)
    for i in range(0, len(X), BLOCK):
        some = X[i : i + BLOCK]
        rows = some.bits() if isinstance(some, Columns) else np.ascontiguousarray(some + 0.0)  # -0.0 is 0.0
        out[i : i + BLOCK] = [int.from_bytes(blake2b(row, digest_size=8).digest(), "big") for row in rows]
    return out


def _cut(hashes: NDArray[np.uint64], digits: int) -> NDArray[np.int64]:
    return (hashes >> np.uint64(64 - 4 * digits)).astype(np.int64)


def kept_digests(X: Columns | FloatArray) -> list[str]:
    """The smallest digests of training rows, where most rows are there once."""
    if len(X) > MOST_ROWS:
        return []
    once, counts = np.unique(_hashes(X), return_counts=True)
    unique = once[counts == 1]
    if len(unique) < max(FEWEST, len(X) / 2):
        return []
    digits = next((d for d in DIGITS if 16**d >= ROOM * len(X)), DIGITS[-1])
    return [f"{digest:0{digits}x}" for digest in np.unique(_cut(unique, digits))[:KEPT].tolist()]


def repeated_rows(X: Columns | FloatArray, encoded: Any) -> str:
    """A warning where rows have the features of other rows, which is hardly chance: they are not independent.

    It is hardly chance where one column alone has nearly as many values as there are different rows. Of wide features
    (n, d), which are sparse, as of texts, most rows must differ.
    """
    n = encoded.shape[0]
    different = len(np.unique(_hashes(X)))
    again = n - different
    if again < max(FEWEST, REPEATED * n):
        return ""
    dense = isinstance(encoded, np.ndarray)
    most = max(len(np.unique(column)) for column in encoded.T) if dense else TELLING * n
    if most < TELLING * different or (not dense and different < most):
        return ""
    return (
        f"{again} of {n} rows have exactly the features of another row: if they are of one person, document or item, "
        "they are not independent, intervals are too narrow and tests too sure; name the column that says which rows "
        "belong together with --group"
    )


class Overlap:
    """Counts which of a model's training rows turn up in a table."""

    def __init__(self, kept: Sequence[str]) -> None:
        self.digits = len(kept[0]) if kept else DIGITS[0]
        digests = sorted({int(digest, 16) for digest in kept})
        slots = digests[-1] + 1 if len(digests) >= KEPT else 16**self.digits
        self.kept = np.zeros(slots, dtype=bool)  # one for each digest that could have been kept
        self.kept[digests] = True
        self.met = np.zeros(slots, dtype=bool)  # among the table's rows

    def add(self, X: Columns | FloatArray) -> None:
        """Some rows of the table."""
        if self.kept.any():
            digests = _cut(_hashes(X), self.digits)
            self.met[digests[digests < len(self.met)]] = True

    def warning(self) -> str | None:
        """A sentence where training rows are among the table's."""
        kept, met, matches = int(self.kept.sum()), int(self.met.sum()), int((self.kept & self.met).sum())
        if matches == 0:
            return None
        from scipy.stats import hypergeom

        more = matches - kept * met / len(self.met)  # than chance gives
        if more < SHARE * min(kept, met) or hypergeom.sf(matches - 1, len(self.met), kept, met) > CHANCE:
            return None
        return (
            f"this table holds rows that the model was trained on (it has {matches} of the {kept} digests of such rows "
            f"that the model keeps, and chance gives {kept * met / len(self.met):.0f}): scores on them are too good; "
            "evaluate on other rows, or look at the scores that `train` printed, each by a model that had not seen the "
            "row"
        )
