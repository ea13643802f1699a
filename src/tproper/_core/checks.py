"""Input rules and their messages, in one place.

Every message has the form "<argument>: expected <rule>, got <value>" followed by what to do about it.
Nothing here repairs an input: what breaks a rule raises ``ValueError``.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from ..errors import InputError
from .tracing import readable

FloatArray: TypeAlias = NDArray[np.float64]
LEAVE_OUT = "leave these examples out"
Labels: TypeAlias = Any  # numpy, torch or lists: integers (n,), masks (n, K), sets, or (source, label) pairs

COLUMN_SUM_TOL = 1e-6  # column sums of T, and R T = I, are accepted within this
RANK_TOL = 1e-10  # singular values below this share of the largest count as zero
SIMPLEX_TOL = 1e-12  # membership of the probability simplex


class NotReconstructibleError(InputError):
    """T has no left inverse: some classes cannot be told apart from weak labels. `ForwardLoss` needs none.

    Examples
    --------
    >>> import tproper as tp
    >>> try:
    ...     tp.BackwardLoss(tp.coarse_labels([[0, 1], [2]]))
    ... except tp.NotReconstructibleError:
    ...     print("classes 0 and 1 look alike")
    classes 0 and 1 look alike
    """


class ConditioningWarning(UserWarning):
    """T can be inverted, but only just: targets have huge entries, and everything estimated from them a huge variance.

    Examples
    --------
    >>> import warnings, tproper as tp
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     R = tp.symmetric_noise(2, 0.5 - 1e-9).reconstruction()
    >>> [w.category.__name__ for w in caught]
    ['ConditioningWarning']
    """


def integer(value: Any, name: str, minimum: int) -> int:
    """A whole number that is at least `minimum`."""
    try:
        out = operator.index(value)
    except TypeError:
        raise InputError(f"{name}: expected an integer >= {minimum}, got {short(value)}") from None
    if isinstance(value, bool) or out < minimum:
        raise InputError(f"{name}: expected an integer >= {minimum}, got {value!r}")
    return out


def real(
    value: Any,
    name: str,
    low: float = -np.inf,
    high: float = np.inf,
    low_open: bool = False,
    why: str = "",
    high_open: bool = False,
) -> float:
    """A finite number in [low, high], without the ends that are open."""
    opening, closing = "(" if low_open or low == -np.inf else "[", ")" if high_open or high == np.inf else "]"
    rule = f"a finite number in {opening}{low:g}, {high:g}{closing}"
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        out = float(value)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: expected {rule}, got {short(value)}") from None
    if not np.isfinite(out) or out < low or out > high or (low_open and out == low) or (high_open and out == high):
        raise InputError(f"{name}: expected {rule}, got {out!r}{'; ' + why if why else ''}")
    return out


def choice(value: Any, name: str, options: Iterable[str]) -> None:
    """Refuse what is not one of these names."""
    known = list(options)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name}: expected one of {', '.join(known)}, got {short(value)}")


def array(value: Any, name: str) -> NDArray[Any]:
    """What torch, pandas or lists hold, as NumPy's array; a list that mixes text with other things keeps them apart."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype == torch.bfloat16 else value).numpy()  # numpy knows no bfloat16
    value = unmasked(value, name)
    try:
        out = np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
    except InputError as error:  # an object that is no array says so itself
        raise InputError(f"{name}: {error}") from None
    except ValueError:
        raise InputError(f"{name}: expected rows of equal length, got {short(value)}") from None
    if out.dtype.kind == "U" and isinstance(value, (list, tuple)):  # numpy would spell NaN "nan", and 1 "1"
        kept = np.array(value, dtype=object)
        return out if all(isinstance(v, str) for v in kept.flat) else kept
    return out


def unmasked(value: Any, name: str) -> Any:
    """The value itself; a masked array is refused, since NumPy hands out what lies under its mask."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        count = int(np.ma.getmaskarray(value).sum())
        raise InputError(f"{name}: expected no masked entries, got {count}; fill them in, or leave their rows out")
    return value


def no_gradient(value: Any, name: str, instead: str) -> None:
    """Refuse a tensor that is being learned: numbers are read from it once, and its gradient would stay away."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise InputError(
            f"{name}: expected numbers, got a tensor that requires a gradient, which cannot be passed on; "
            f"{instead}, or detach it"
        )


def matrix(value: ArrayLike | Tensor, name: str) -> FloatArray:
    """A finite, non-empty float64 matrix (copied: later changes by the caller do not reach us)."""
    given = array(value, name)
    try:
        if np.iscomplexobj(given):
            raise TypeError
        out = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}: expected a matrix of numbers, got {short(value)}") from None
    if out.ndim != 2 or out.size == 0:
        raise InputError(f"{name}: expected a non-empty 2-d matrix, got shape {out.shape}")
    entries(out, np.isfinite(out), name, "finite entries")
    return out


def rows(value: ArrayLike | Tensor, name: str) -> FloatArray:
    """As `matrix`, and a vector is one row."""
    return matrix(np.atleast_2d(array(value, name)), name)


def entries(table: FloatArray, good: NDArray[np.bool_], name: str, rule: str) -> None:
    """Refuse a table with an entry that is not good."""
    if not good.all():
        y, z = np.argwhere(~good)[0]
        raise InputError(f"{name}: expected {rule}, got {table[y, z]:g} at row {y}, column {z}")


def column_stochastic(value: ArrayLike | Tensor, name: str = "matrix") -> FloatArray:
    """T[y, z] = P(y | z): non-negative, columns sum to one within 1e-6."""
    T = matrix(value, name)
    entries(T, T >= 0, name, "probabilities >= 0")
    sums = T.sum(axis=0)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums[worst] - 1) > COLUMN_SUM_TOL:
        hint = ""
        if np.abs(T.sum(axis=1) - 1).max() <= COLUMN_SUM_TOL:
            hint = (
                "; its rows sum to one, so it looks row-stochastic: T[y, z] = P(weak label y | class z) has one "
                "column per class, pass the transpose"
            )
        raise InputError(
            f"{name}: expected every column to sum to 1 (T[y, z] = P(weak label y | class z)), "
            f"got {sums[worst]:.9g} in column {worst}{hint}"
        )
    return T


def probability_vector(value: ArrayLike, name: str, size: int) -> FloatArray:
    """Strictly positive numbers that sum to one."""
    given = array(value, name)
    try:
        out = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected {size} numbers that sum to 1, got {short(value)}") from None
    if out.shape != (size,):
        raise InputError(f"{name}: expected {size} numbers, got shape {out.shape}")
    if not np.isfinite(out).all() or (out <= 0).any():
        raise InputError(f"{name}: expected strictly positive numbers, got {out.tolist()}")
    if abs(out.sum() - 1) > COLUMN_SUM_TOL:
        raise InputError(f"{name}: expected numbers that sum to 1, got the sum {out.sum():.9g}")
    return out


def scores(value: Tensor, num_classes: int, some: bool = True) -> Tensor:
    """Scores are a floating tensor (..., K), with `some` of at least one row."""
    if not isinstance(value, Tensor) or not value.is_floating_point():
        kind = str(value.dtype) if isinstance(value, Tensor) else type(value).__name__
        raise InputError(f"scores: expected a floating torch tensor (..., {num_classes}), got {kind}")
    if value.ndim < 1 or value.shape[-1] != num_classes:
        raise InputError(
            f"scores: expected the last dimension to be the {num_classes} classes, got shape {tuple(value.shape)}"
        )
    if some and value.numel() == 0:
        raise InputError(f"scores: expected at least one example, got shape {tuple(value.shape)}")
    return value


def example_weights(value: ArrayLike | Tensor, like: Tensor, validate: bool, some: bool = True) -> Tensor:
    """One finite weight >= 0 per example, with `some` not all zero; `like` has the shape, dtype and device due."""
    value = unmasked(value, "weights")
    try:
        out = torch.as_tensor(value, device=like.device).to(like.dtype)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"weights: expected {tuple(like.shape)} numbers, got {short(value)}") from None
    if out.shape != like.shape:
        raise InputError(f"weights: expected shape {tuple(like.shape)}, one per example, got {tuple(out.shape)}")
    if validate and readable(out):
        low, high = (float(x) for x in torch.aminmax(out.detach()))
        if not (low >= 0 and np.isfinite(high)):  # a NaN fails this too
            raise InputError(f"weights: expected finite numbers >= 0, got values from {low:g} to {high:g}")
        if some and high == 0:
            raise InputError("weights: expected at least one weight > 0, got zeros only")
    return out


def different(names: Sequence[Any], name: str) -> None:
    """Refuse names that occur twice."""
    seen = set()
    for given in names:
        key = frozenset(given) if isinstance(given, set) else given
        if not isinstance(key, Hashable):
            raise InputError(f"{name}: expected texts, numbers, sets or tuples, got {short(given)}")
        if key in seen:
            raise InputError(f"{name}: expected every name once, got {given!r} twice")
        seen.add(key)


def label_tensor(labels: Labels, device: torch.device | None, name: str = "labels") -> Tensor:
    """Labels of any kind as a tensor of numbers or booleans."""
    if isinstance(labels, Tensor):
        if labels.dtype in (torch.uint16, torch.uint32, torch.uint64):  # few operations know these
            labels = labels.long()
        return labels if device is None else labels.to(device)
    given = array(labels, name)
    if given.dtype == object and given.size:
        missing = np.array([absent(v) for v in given.flat])
        if missing.any():
            raise InputError(f"{name}: expected a number for every example, got {_missing(missing)}")
        if all(isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in given.flat):
            given = given.astype(np.int64)
    if given.dtype == object or given.dtype.kind in "USMm":
        raise InputError(f"{name}: expected numbers, got {short(labels)}; encode names as indices first")
    if given.dtype.kind == "c":
        raise InputError(f"{name}: expected real numbers, got complex ones, {short(labels)}")
    if given.dtype.kind == "u":
        given = given.astype(np.int64)
    # torch cannot share read-only memory, such as tables read from disk
    given = np.asarray(given, order="C") if given.flags.writeable else given.copy()
    return torch.as_tensor(given, device=device)


def ignored(labels: Labels, index: int, device: torch.device | None = None) -> tuple[Tensor, Tensor]:
    """Labels with 0 in place of `index`, and where that was; of masks and flags nothing is ignored."""
    given = label_tensor(labels, device)
    if given.dtype == torch.bool:
        return given, torch.zeros_like(given)
    if not given.is_floating_point():
        given = given.long()  # a narrow type would take the index into its range: to uint8, -100 is 156
    out = given == index
    return given.masked_fill(out, 0), out


def _missing(at: NDArray[np.bool_], instead: str = LEAVE_OUT) -> str:
    """How many values are missing, and what to do."""
    return f"{int(at.sum())} of {at.size} missing, the first at position {int(at.argmax())}; {instead}"


def absent(value: Any) -> bool:
    """Whether a value of a column is missing: None, NaN, pandas' NA (which does not even equal itself)."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def short(value: Any) -> str:
    """A value for a message, on one line, cut to 60 characters."""
    return cut(" ".join(repr(value).split()))


def cut(text: str, length: int = 60) -> str:
    """The text, cut to `length` characters with dots at the end."""
    return text if len(text) <= length else text[: length - 3] + "..."


def index_labels(
    labels: Labels,
    size: int,
    name: str = "labels",
    device: torch.device | None = None,
    validate: bool = True,
    instead: str = LEAVE_OUT,
) -> Tensor:
    """Integer labels in [0, size) as an int64 tensor; `instead` says what to do where some are missing."""
    out = label_tensor(labels, device, name)
    if out.numel() == 0:
        raise InputError(f"{name}: expected at least one label, got an empty batch")
    if out.is_floating_point() or out.is_complex() or out.dtype == torch.bool:
        got = f"dtype {str(out.dtype).replace('torch.', '')}"
        if out.is_floating_point() and readable(out) and bool(out.isnan().any()):
            got += f" with {_missing(out.isnan().cpu().numpy(), instead)}"
        raise InputError(f"{name}: expected integers in [0, {size}), got {got}")
    if validate and readable(out):
        low, high = (int(x) for x in torch.aminmax(out))
        if low < 0 or high >= size:
            raise InputError(f"{name}: expected integers in [0, {size}), got {low if low < 0 else high}")
    return out.long()


def positive_unlabeled_labels(labels: Labels) -> Labels:
    """Booleans, True = labeled positive, as 0 = labeled positive and 1 = unlabeled; 1 and -1 are refused.

    A batch of ones would mean "unlabeled" here and "positive" there: what cannot be told apart is not guessed.
    """
    out = label_tensor(labels, None)
    if out.dtype == torch.bool:
        return (~out).long()
    if out.numel() and readable(out) and bool((out == -1).any()):
        raise InputError(
            "labels: expected 0 = labeled positive and 1 = unlabeled, or booleans (True = labeled positive), got -1; "
            "for labels 1 (positive) and -1 (unlabeled) pass labels == 1"
        )
    return out


def mask_labels(labels: Labels, num_classes: int, device: torch.device | None = None, validate: bool = True) -> Tensor:
    """Candidate sets as a boolean tensor (..., K), True = still possible; collections of sets are accepted too."""
    if isinstance(labels, Sequence) and len(labels) and isinstance(labels[0], (set, frozenset)):
        labels = masks_of_sets(labels, num_classes)
    out = label_tensor(labels, device)
    if out.is_floating_point() or out.ndim == 0 or out.shape[-1] != num_classes:
        raise InputError(
            f"labels: expected boolean candidate masks (n, {num_classes}), True = class still possible, "
            f"got dtype {str(out.dtype).replace('torch.', '')} and shape {tuple(out.shape)}"
        )
    if out.numel() == 0:
        raise InputError("labels: expected at least one label, got an empty batch")
    if validate and readable(out):
        if out.dtype != torch.bool and not bool(((out == 0) | (out == 1)).all()):
            raise InputError("labels: expected masks of 0 and 1 (or booleans), got other integers")
        empty = (out.bool().view(torch.uint8).amax(-1) == 0).reshape(-1)  # eight times as fast as any(-1)
        if bool(empty.any()):
            raise InputError(
                f"labels: expected non-empty candidate sets, got an empty one at row {int(empty.nonzero()[0])}"
            )
    return out.bool()


def masks_of_sets(labels: Sequence[Any], num_classes: int) -> NDArray[np.bool_]:
    """Boolean (n, K) masks of a sequence of sets of class indices."""
    out = np.zeros((len(labels), num_classes), dtype=bool)
    for row, members in enumerate(labels):
        if not isinstance(members, (set, frozenset, list, tuple)):
            raise InputError(f"labels: expected sets of classes, got {short(members)} at row {row}")
        for z in members:
            if isinstance(z, bool) or not isinstance(z, (int, np.integer)) or not 0 <= z < num_classes:
                raise InputError(f"labels: expected sets of classes in [0, {num_classes}), got {z!r} at row {row}")
            out[row, z] = True
    return out


def same_leading_shape(scores: Tensor, labels: Tensor, label_shape: tuple[int, ...] = ()) -> None:
    """Labels (..., *label_shape) must go with scores (..., K)."""
    want = scores.shape[:-1] + label_shape if label_shape else scores.shape[:-1]
    if labels.shape != want:
        raise InputError(
            f"labels: expected shape {tuple(want)} for scores of shape {tuple(scores.shape)}, got {tuple(labels.shape)}"
        )
