"""T from weak labels and what else is known: the true class of some rows, features, or both."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._core import FloatArray, Labels, check_room, checks, group_codes, warn
from ..errors import InputError
from ..metrics import SelectionWarning, dependence, weights_of
from ..transitions import EstimatedTransition, SoftLabels, Transition, structure_of
from .arguments import FROM_FLOATS, Seed, check_codes, feature_matrix, generator
from .features import from_features
from .folds import FOLDS, check_model
from .likelihood import Evidence
from .partial import from_masks
from .warnings import IdentifiabilityWarning

CHOSEN = 0.01  # p-value at which the labels of rows of known class differ from those of all
DRAWS, ENTRIES = 2000, 1 << 22  # of T


def estimate_transition(
    weak: Labels,
    true: ArrayLike | None = None,
    X: Any = None,
    *,
    num_classes: int | None = None,
    model: Any = "linear",
    structure: str = "auto",
    random_state: Seed = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> EstimatedTransition:
    """T from weak labels and the true class of some rows, or features, or both.

    With `true` alone T comes from the counts of the rows of known class (`Transition.from_counts`). With `X` it is the
    joint maximum likelihood of T and a classifier of the features, which needs no clean row but uses all there are.

    Parameters
    ----------
    weak : (n,) integers, or (n, K) boolean candidate masks
        Weak labels 0 .. M-1. There may be more of them than classes, or fewer. Masks are taken for
        `partial_labels(K, p)`: p needs neither `true` nor `X`, and the family is tested.
    true : (n,) integers, optional
        The class of each row, -1 where unknown. At least one of `true` and `X` is needed.
    X : (n, d) array or sparse matrix, optional
        Features. Without clean rows labels must carry the names of classes: label y most often means class y, or
        (complementary labels) that the class is not y. Which of the two is decided by likelihood.
    num_classes : int, optional
        Default: what `true` says, with a warning where weak labels name more; else as many as weak labels.
    model : "linear" or a scikit-learn classifier
        What predicts the class from the features; a classifier needs ``predict_proba`` and sample weights.
    structure : str
        Where counts are few T is shrunk towards a form: "auto" (chosen by evidence), "free", "pooled", "symmetric",
        "complementary", "ordinal" (classes in an order: errors among near ones).
    random_state : int, Generator or None
        How rows are put into folds; None is 0.
    groups : (n,) names, optional
        With `X`: rows of one group are never in different folds.
    sample_weight : (n,) array, optional
        Where rows of known class were chosen by another design, and without `X`: for each of them the inverse of its
        probability of being chosen. Others are not read.

    Which rows have a known class may depend on their labels ("100 of each label"), but on nothing else: where the
    labels of these rows differ from those of all (p < .01), counts would give a wrong T. Then P(class | label) is
    estimated, and T from it by Bayes' rule and the shares of all labels.

    Returns
    -------
    EstimatedTransition (`EstimatedPartialLabels` for masks)
        With `classifier` where X was given, and `notes`. An `IdentifiabilityWarning` says where the data do not
        determine T.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng, T = np.random.default_rng(0), tp.pair_noise(3, 0.2)
    >>> z = rng.integers(3, size=3000)
    >>> checked = np.where(np.arange(3000) < 1000, z, -1)
    >>> found = tp.estimate_transition(T.sample(z, 1), true=checked)
    >>> bool(abs(found.matrix() - T.matrix()).max() < 0.05)
    True
    """
    structure_of(structure)
    check_model(model)
    num_classes = None if num_classes is None else checks.integer(num_classes, "num_classes", 2)
    if isinstance(weak, SoftLabels):
        return _from_soft(weak, true, X, num_classes, structure)
    masks = _masks(weak, num_classes)
    if masks is not None:
        if structure != "auto" or not isinstance(model, str):
            raise InputError("structure: expected the defaults of structure and model for candidate masks, got another")
        return from_masks(masks, _known(true, *masks.shape), None if X is None else _features(X, len(masks)))
    evidence = _evidence(weak, true, X is not None, num_classes)
    n = len(evidence.weak)
    known = evidence.true >= 0
    if sample_weight is not None:
        if X is not None:
            raise InputError("sample_weight: expected it without X, whose likelihood has no weights, got both")
        weights = weights_of(sample_weight, n)
        assert weights is not None
        return Transition.from_counts(_weighted(evidence, weights), structure=structure)
    chosen = known.any() and not known.all() and dependence(evidence.weak, known, np.zeros(n, np.int64)) < CHOSEN
    if X is None:
        return _by_label(evidence) if chosen else Transition.from_counts(evidence.clean, structure=structure)
    evidence = replace(evidence, chosen=bool(chosen))
    rng, together = generator(random_state), group_codes(groups, n)
    return from_features(evidence, _features(X, n), model, structure, rng, together)


def _from_soft(
    weak: SoftLabels, true: ArrayLike | None, X: Any, num_classes: int | None, structure: Any
) -> EstimatedTransition:
    """T from soft labels of rows of known class: ``counts[y, z]`` is the sum of their shares of y.

    Shares scatter less than labels drawn by them, so the posterior, which is that of labels, is on the safe side.
    """
    if true is None or X is not None or weak.tensor.ndim != 2:
        raise InputError(
            "true: expected the class of some rows, and no X, for soft labels (n, M), got another call; "
            "weak.draw(seed) gives hard labels"
        )
    classes = _known(true, len(weak), num_classes)
    known = classes >= 0
    if not known.any():
        raise InputError("true: expected the class of some rows, got -1 in every row")
    K = int(classes.max()) + 1 if num_classes is None else num_classes
    counts = np.zeros((weak.shape[1], K))
    np.add.at(counts.T, classes[known], weak.numpy()[known])
    return Transition.from_counts(counts, weak.names, structure=structure)


def _by_label(evidence: Evidence) -> EstimatedTransition:
    """T from the classes of rows that were chosen by their label: ``T[y, z] = P(y) P(z | y) / sum_y P(y) P(z | y)``.

    Labels have the shares of all rows and the classes of a label a Dirichlet posterior (one pseudo-row, spread evenly:
    Perks, 1947); T is the mean of its draws.
    """
    M, K, clean = evidence.M, evidence.K, evidence.clean
    rng = np.random.default_rng(0)
    of_all = np.bincount(evidence.weak, minlength=M).astype(np.float64)
    size = int(np.clip(ENTRIES // (M * K), 200, DRAWS))
    shares = rng.standard_gamma(np.maximum(of_all, 1e-9), (size, M))
    classes = rng.standard_gamma(clean + 1.0 / K, (size, M, K))
    joint = shares[:, :, None] * classes / np.maximum(classes.sum(axis=2, keepdims=True), 1e-300)
    draws = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    notes = [
        f"the {int(clean.sum())} rows of known class were chosen by their label: their labels differ from those of all "
        f"{int(of_all.sum())} rows (p < {CHOSEN:g}). T comes from P(class | label) and the shares of all labels; "
        "assumes that among rows of one label those of known class are a random sample"
    ]
    left = np.flatnonzero((clean.sum(axis=1) == 0) & (of_all > 0))
    if len(left):
        text = (
            f"the class of no row with label {', '.join(map(str, left[:12].tolist()))} is known "
            f"({of_all[left].sum() / of_all.sum():.1%} of the rows): rows were chosen by label, so nothing says what "
            "these are"
        )
        notes.append(text)
        warn(f"estimate_transition: {text}", SelectionWarning)
    mean = draws.mean(axis=0)
    return EstimatedTransition(mean / mean.sum(axis=0), draws=draws, notes=notes)


def _weighted(evidence: Evidence, weights: FloatArray) -> FloatArray:
    """Counts of rows of known class by their weights, each column worth as many rows as its weights are."""
    known = evidence.true >= 0
    at = evidence.weak[known], evidence.true[known]
    if not (weights[known] > 0).all():
        raise InputError("sample_weight: expected numbers > 0 for rows of known class, got 0")
    counts = np.zeros((evidence.M, evidence.K))
    np.add.at(counts, at, weights[known])
    squares = np.bincount(at[1], weights[known] ** 2, evidence.K)
    return np.asarray(counts * np.divide(counts.sum(axis=0), squares, out=np.zeros(evidence.K), where=squares > 0))


def _evidence(weak: Labels, true: ArrayLike | None, with_features: bool, num_classes: int | None) -> Evidence:
    """One label per row, checked, beside the known classes."""
    labels = _labels(weak)
    classes = _known(true, len(labels), num_classes)
    clean = bool((classes >= 0).any())
    if not with_features and not clean:
        what = "got neither" if true is None else "got -1 in every row and no features"
        raise InputError(f"true: expected the class of some rows, or features X, {what}")
    M = int(labels.max()) + 1
    K = num_classes if num_classes is not None else int(classes.max()) + 1 if clean else M
    if K < 2:
        raise InputError(f"num_classes: expected at least 2 classes, got {K} from the labels; pass num_classes=")
    check_room(
        8.0 * M * K * max(K if with_features else 0, 16),
        f"T of {M} labels x {K} classes",
        "number labels and classes 0, 1, 2, ...",
    )
    if num_classes is None and K < M:
        warn(
            f"estimate_transition: `true` has {K} classes, and there are {M} weak labels; pass "
            f"num_classes={M} if every label names a class, and num_classes={K} if not",
            IdentifiabilityWarning,
        )
    if not clean:
        M = max(M, K)  # labels have the names of classes: one that does not occur is still a label
    return Evidence(labels, classes, M, K)


def _masks(weak: Labels, num_classes: int | None) -> np.ndarray | None:
    """Candidate masks (n, K), checked; None where labels are not masks."""
    if isinstance(weak, (list, tuple)) and len(weak) > 0 and isinstance(weak[0], (set, frozenset)):
        if num_classes is None:
            raise InputError("num_classes: expected the number of classes with sets of candidates, got none")
        return checks.mask_labels(weak, num_classes).numpy()
    array = checks.array(weak, "weak")
    if array.ndim != 2:
        return None
    masks = checks.mask_labels(array, array.shape[1] if num_classes is None else num_classes).numpy()
    if masks.shape[1] < 2:
        raise InputError(f"weak: expected candidate masks of at least 2 classes, got {masks.shape[1]}")
    return masks


def _labels(weak: Labels) -> np.ndarray:
    array = checks.array(weak, "weak")
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"weak: expected one weak label per row (n,), got shape {array.shape}")
    if array.dtype.kind not in "iu":
        raise InputError(f"weak: expected integers 0 .. M-1, got {checks.short(array.tolist())}; encode names first")
    if array.min() < 0:
        raise InputError(f"weak: expected integers >= 0, got {array.min()}; leave out rows without a weak label")
    return array.astype(np.int64)


def _known(true: ArrayLike | None, n: int, K: int | None = None) -> np.ndarray:
    if true is None:
        return np.full(n, -1)
    array = checks.array(true, "true")
    if array.shape != (n,):
        raise InputError(f"true: expected one class per row, shape ({n},), got {array.shape}")
    if array.dtype.kind not in "iu":
        raise InputError(
            f"true: expected integers, -1 where the class is unknown, got {checks.short(array.tolist())}"
            + (f"; {FROM_FLOATS}" if array.dtype.kind == "f" else "")
        )
    check_codes(array, "true", "where unknown")
    if K is not None and array.max() >= K:
        raise InputError(f"true: expected classes in [0, {K}), got {array.max()}")
    return array.astype(np.int64)


def _features(X: Any, n: int) -> Any:
    out = feature_matrix(X, n, "labels", sparse=True)
    if n < 2 * FOLDS:
        raise InputError(f"X: expected at least {2 * FOLDS} rows to estimate T with features, got {n}")
    return out
