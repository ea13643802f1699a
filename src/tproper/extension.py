"""What packages that extend tproper build on, beside the library itself: files that are whole or absent, and numerics.

The names of `tproper` and those in the `__all__` of its packages (`tproper.transitions`, `tproper.losses`, ...) are
public as well; `tproper.cli` has what a command of its own needs. `tproper-lab` is made of these alone.

- `atomic_file`, `write_file`: a file appears under its name when it is whole, and replaces nothing unasked; `mark`
  remembers what stood there before long work, so that nothing newer is overwritten after it; `remove_drafts` clears
  away what killed processes left.
- `write_sealed`, `read_sealed`: tensors with a header of text under a checksum of every byte; what was changed since
  raises `DamagedError`.
- `json_text`: JSON in which infinities are the texts "inf" and "-inf", and NaN is null.
- `seeded_torch`: PyTorch's generator seeded inside a block, and as it was after it.
- `log_mixture`: ``log sum_z w_z softmax(v)_z`` with an exact -inf, and a zero gradient, where every term is 0.
"""

from ._core import (
    DamagedError,
    Mark,
    atomic_file,
    json_text,
    log_mixture,
    mark,
    read_sealed,
    seeded_torch,
    write_file,
    write_sealed,
)
from ._core import sweep as remove_drafts

__all__ = [
    "DamagedError",
    "Mark",
    "atomic_file",
    "json_text",
    "log_mixture",
    "mark",
    "read_sealed",
    "remove_drafts",
    "seeded_torch",
    "write_file",
    "write_sealed",
]
