"""Soft labels: shares of weak labels in place of one of them.

A row s of shares (an annotator's confidence, the votes of a crowd, what a model believes the label to be) means

    E[s | class z] = T e_z,        s >= 0, sum s = 1:

as if a label were drawn from it, and all draws were seen. Whatever is linear in the label takes shares as they are: the
target is ``R s = sum_y s_y R e_y``, and every loss is the mean of the labels' losses, ``sum_y s_y l(v, y)``, which is
T-proper wherever l is. The loss of the *mixture* of rows of T, ``-log sum_y s_y (T p)_y``, is not: with T = I it puts
all of p on the largest share.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from .._core import FloatArray, checks, tracing
from ..errors import InputError

if TYPE_CHECKING:
    from .base import Transition
    from .reconstruction import Reconstruction

MOST_COMBINATIONS = 1 << 12  # of the answers of one row that several annotators leave open


class SoftLabels:
    """Shares of weak labels: a row says how far each label applies, (n, M), or (n, m, M) for m annotators' beliefs.

    Their meaning is ``E[s | class z] = T e_z``. A float array by itself is never taken to be soft.

    Parameters
    ----------
    shares : array, tensor or data frame
        Rows of numbers >= 0 that sum to one, ``shares[i, y]`` that of the weak label in row y of T. Columns of a frame
        are the labels' names. Of several annotators, a row of NaN is no answer, and columns that an annotator's labels
        do not fill are zeros.
    names : list, optional
        The names of the M weak labels, in the order of the columns.
    validate : bool
        Check the shares.

    Examples
    --------
    >>> import tproper as tp, torch
    >>> loss = tp.ForwardLoss(tp.symmetric_noise(2, 0.2))
    >>> soft = tp.SoftLabels([[0.9, 0.1], [0.25, 0.75]])
    >>> round(loss(torch.zeros(2, 2), soft).item(), 4)
    0.6931
    """

    tensor: Tensor

    def __init__(self, shares: ArrayLike | Tensor | SoftLabels, names: Any = None, *, validate: bool = True) -> None:
        if isinstance(shares, SoftLabels):
            names = shares.names if names is None else names
            shares = shares.tensor
        columns = getattr(shares, "columns", None)
        if names is None and columns is not None:
            names = list(columns)
        if isinstance(shares, Tensor):
            checks.no_gradient(shares, "shares", "shares are data")
            self.tensor = shares if shares.is_floating_point() else shares.double()
        else:
            try:
                self.tensor = torch.as_tensor(np.array(checks.array(shares, "shares"), dtype=np.float64))
            except (TypeError, ValueError):
                raise InputError(f"shares: expected numbers of shape (n, labels), got {checks.short(shares)}") from None
        self.names: list[Any] | None = None if names is None else list(names)
        if validate and tracing.readable(self.tensor):
            self._check()

    def _check(self) -> None:
        s = self.tensor
        if s.ndim < 2 or not s.numel():
            raise InputError(f"shares: expected shape (n, labels) or (n, annotators, labels), got {tuple(s.shape)}")
        if self.names is not None and len(self.names) != s.shape[-1]:
            raise InputError(f"names: expected {s.shape[-1]} names, one for each column, got {len(self.names)}")
        gaps = s.isnan().all(-1) if s.ndim > 2 else torch.zeros(s.shape[:-1], dtype=torch.bool, device=s.device)
        flat = s.masked_fill(gaps[..., None], 0.0).double().reshape(-1, s.shape[-1])
        bad = ~(flat.isfinite() & (flat >= 0))
        if bool(bad.any()):
            i, y = bad.nonzero()[0].tolist()
            raise InputError(f"shares: expected finite numbers >= 0, got {float(flat[i, y]):g} at row {i}, column {y}")
        sums = torch.where(gaps.reshape(-1), 1.0, flat.sum(-1))
        off = (sums - 1).abs()
        if float(off.max()) > max(1e-6, math.sqrt(torch.finfo(s.dtype).eps)):
            i = int(off.argmax())
            raise InputError(
                f"shares: expected rows that sum to 1, got {float(sums[i]):.9g} in row {i}; divide votes by their "
                "number, and leave rows without any out"
            )

    @classmethod
    def from_frame(cls, frame: Any, prefix: str = "p_") -> SoftLabels:
        """From the columns of a table that begin with `prefix`, such as p_cat and p_dog: what follows is the label's
        name.

        >>> import pandas as pd, tproper as tp
        >>> table = pd.DataFrame({"size": [3, 5], "p_cat": [0.9, 0.2], "p_dog": [0.1, 0.8]})
        >>> tp.SoftLabels.from_frame(table).names
        ['cat', 'dog']
        """
        columns = [name for name in getattr(frame, "columns", ()) if str(name).startswith(prefix)]
        if len(columns) < 2:
            raise InputError(f"prefix: expected two or more columns that begin with {prefix!r}, got {columns}")
        return cls(frame[columns], [str(name)[len(prefix) :] for name in columns])

    @property
    def shape(self) -> tuple[int, ...]:
        """(n, M) or (n, m, M)."""
        return tuple(self.tensor.shape)

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, rows: Any) -> SoftLabels:
        index = rows if isinstance(rows, slice | Tensor) else torch.as_tensor(np.atleast_1d(np.asarray(rows)))
        return SoftLabels(self.tensor[index], self.names, validate=False)

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        raise InputError("expected labels, got soft ones, which are not taken here; labels.draw(seed) gives hard ones")

    def __repr__(self) -> str:
        return f"<soft labels {self.shape}>"

    def numpy(self) -> FloatArray:
        """The shares as float64."""
        return self.tensor.detach().cpu().double().numpy()

    def arranged(self, names: Any) -> SoftLabels:
        """With columns in the order of these names; as they are where columns have no names."""
        wanted = list(names)
        if self.names is None or self.names == wanted:
            return self
        if set(self.names) != set(wanted) or len(self.names) != len(wanted):
            raise InputError(f"shares: expected the columns {wanted}, one for each weak label, got {self.names}")
        order = torch.as_tensor([self.names.index(name) for name in wanted], device=self.tensor.device)
        return SoftLabels(self.tensor.index_select(-1, order), wanted, validate=False)

    def draw(self, seed: int | np.random.Generator) -> NDArray[np.int64]:
        """One label of each row (or of each annotator in it, -1 where there is none), drawn by its shares."""
        s = self.numpy()
        gaps: NDArray[np.bool_] = np.asarray(np.isnan(s).any(axis=-1))
        total = np.where(gaps[..., None], 0.0, s).cumsum(axis=-1)
        u = np.random.default_rng(seed).random(s.shape[:-1]) * total[..., -1]
        drawn = (total <= u[..., None]).sum(axis=-1)
        return np.where(gaps, -1, np.minimum(drawn, s.shape[-1] - 1)).astype(np.int64)

    def of(self, transition: Transition, device: torch.device | None = None) -> Tensor:
        """The shares (n, M) or (n, m, M) as `transition` takes them: what its `encode` returns."""
        want = transition.share_shape
        if self.tensor.shape[-len(want) :] != want or self.tensor.ndim <= len(want):
            raise InputError(
                f"labels: expected shares (n, {', '.join(map(str, want))}) for {transition.name}, "
                f"got shape {self.shape}"
            )
        if len(want) > 1:
            return self.tensor.to(device=device)
        # names of classes are the estimator's to match: T itself knows those of its rows
        own = transition.weak_labels if self.names is not None else []
        named = bool(own) and own != list(range(len(own)))
        return (self.arranged(own) if named else self).tensor.to(device=device)


def is_soft(labels: Any) -> bool:
    """Whether encoded labels are shares: no other encoded label is a number with a point."""
    return isinstance(labels, Tensor) and labels.is_floating_point()


def as_given(labels: Any) -> Any:
    """Encoded labels as a caller may pass them: shares as `SoftLabels`."""
    return SoftLabels(labels, validate=False) if is_soft(labels) else labels


def hard_labels(transition: Transition, device: torch.device | None = None) -> Tensor:
    """Every weak label, encoded, in the order of T's rows (M, *label_shape)."""
    labels: Any = transition.weak_labels if transition.label_shape else torch.arange(transition.num_weak_labels)
    return transition.encode(labels, validate=False).to(device=device)


def pieces(transition: Transition, shares: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Shares as weighted hard labels: the row of each piece, its encoded label, and its share.

    Of several annotators a piece is a row of answers, its share their product.
    """
    if not transition.separate:
        row, y = shares.nonzero(as_tuple=True)
        return row, hard_labels(transition, shares.device)[y], shares[row, y]
    n, m, _ = shares.shape
    row = torch.arange(n, device=shares.device)
    labels = torch.empty(n, 0, dtype=torch.int64, device=shares.device)
    share = torch.ones(n, dtype=shares.dtype, device=shares.device)
    open_answers = torch.where(shares.isnan().any(-1), 1, (shares > 0).sum(-1)).double().prod(-1)
    if float(open_answers.max()) > MOST_COMBINATIONS:
        raise InputError(
            f"labels: expected at most {MOST_COMBINATIONS:,} combinations of the answers that a row leaves open, got "
            f"{float(open_answers.max()):,.0f} at row {int(open_answers.argmax())}; a backward loss needs no list of "
            "them, and labels.draw(seed) gives one answer of each annotator, for any loss"
        )
    for a in range(m):
        own = shares[row, a]
        gone = own.isnan().any(-1)
        own = torch.where(gone[:, None], 0.0, own)
        own[gone, 0] = 1.0
        piece, y = own.nonzero(as_tuple=True)
        answer = torch.where(gone[piece], -1, y)
        row, share = row[piece], share[piece] * own[piece, y]
        labels = torch.cat([labels[piece], answer[:, None]], dim=1)
    return row, transition.encode(labels, validate=False), share


def soft_targets(reconstruction: Reconstruction, shares: Tensor, dtype: torch.dtype) -> Tensor:
    """``R s`` (..., K), linear in the shares; of several annotators, the mixture of those who answered."""
    R, sizes = reconstruction, [t.num_weak_labels for t in reconstruction.transition.separate]
    if not sizes:
        return shares.to(dtype) @ R.evidence(hard_labels(R.transition, shares.device), dtype).dense(dtype)
    weights, own = getattr(R, "weights", None), getattr(R, "own", None)
    if weights is None or own is None:
        raise InputError("reconstruction: expected 'auto' for the shares of several annotators, got one of whole rows")
    K = R.transition.num_classes
    out = torch.zeros(len(shares), K, dtype=dtype, device=shares.device)
    total = torch.zeros(len(shares), 1, dtype=dtype, device=shares.device)
    for a, (w, size) in enumerate(zip(weights, sizes, strict=True)):
        answered = ~shares[:, a].isnan().any(-1, keepdim=True)
        s = torch.where(answered, shares[:, a, :size], 1.0 / size).to(dtype)
        columns = torch.as_tensor(np.array(own(a)), dtype=dtype, device=shares.device)  # (K, M_a)
        out += w * answered * (s @ columns.T - 1.0 / K)
        total += w * answered
    return out / torch.where(total > 0, total, 1.0) + 1.0 / K


def soft_silent(reconstruction: Reconstruction, shares: Tensor) -> Tensor | None:
    """Rows of shares that say nothing: no usable annotator answered."""
    if not reconstruction.transition.separate:
        return None
    weights = torch.as_tensor(np.asarray(getattr(reconstruction, "weights", 1.0)), device=shares.device)
    return ~((~shares.isnan().any(-1)) & (weights > 0)).any(-1)
