"""Class shares of a population whose labels come from a judge with a known or estimated T.

The labels' shares q mix the columns of T, ``q = T pi``. The class shares pi are those of greatest likelihood,

    max_pi  sum_y n_y log (T pi)_y,   pi >= 0,  sum pi = 1,

which is ``T^-1 q`` where T is square and that has no negative entry (Rogan and Gladen, 1978, for two classes).
Intervals come from repeating both draws: labels anew from their shares, and T anew from its own distribution. They
also leave room for labels that might occur, and have not, and hold all shares that fit the labels as well.

Where the class of some rows is known (`true`) these speak of the classes themselves. With a known T a checked row of
class z is a label that only class z can give, so that the same likelihood takes it; which rows were checked may then
depend on their labels. Without T, or with one that was estimated (perhaps from these very rows), the shares are

    pi_z = sum_y P(y) P(z | y),      P(y) of all rows, P(z | y) of the checked ones,

the maximum likelihood of both together (`metrics.checked`), which needs no T.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtr

from .._core import RANK_TOL, FloatArray, Labels, NotReconstructibleError, checks, group_codes, mixture_shares, warn
from ..errors import InputError
from ..metrics import (
    Z95,
    CheckedRows,
    Known,
    PairedTest,
    SelectionWarning,
    encoded,
    known_classes,
    read_labels,
    weights_of,
)
from ..transitions import (
    SoftLabels,
    Transition,
    hard_labels,
    identity,
    read_transition,
)
from .arguments import feature_matrix
from .guessing import guesses_by_features
from .hull import chi_square
from .views import log_likelihood

REPEATS = 1000
MOST_ASKED = 3  # classes whose rows are asked for in print
ROWS = 100  # clean rows that `next_clean_rows` shares out
ITERATIONS, TOLERANCE = 1000, 1e-6
ENTRIES = 1 << 24  # of all draws of T together
PROGRAMS = 100  # classes, up to which each has its own linear programs
PROFILED = 20  # classes, up to which the profile likelihood is followed too
DROP = 1.92  # of the log-likelihood within a 95% interval: half of chi-squared's quantile
EDGE = 1e-3  # an end this close to 0 or 1 may be there: EM comes near at its own slow pace
CONTRADICTED = 0.01  # p-value at which checked rows contradict T
STILL = 1e-6  # a standard error at which no repetition has moved a share


@dataclass(frozen=True, eq=False)
class Prevalence:
    """Shares of the classes in the population that the labels come from. `weak_prevalence` makes it; prints as a table.

    Attributes
    ----------
    value, stderr : (K,) array
        The shares, which sum to one, and their standard errors.
    interval : (K, 2) array
        95% intervals.
    classes : list
        The names of the classes.
    next_clean_rows : (K,) array
        How 100 more rows of known class are best shared among the classes; zeros if T is known.
    from_transition : float
        The share of the variance that comes from T's own error.
    notes : list of str
        What a reader should know.

    Examples
    --------
    >>> import tproper as tp
    >>> found = tp.weak_prevalence([0] * 700 + [1] * 300, tp.symmetric_noise(2, 0.2))
    >>> found.value.round(3).tolist()  # 0.7 = 0.8 v + 0.2 (1 - v)
    [0.833, 0.167]
    >>> bool(found.interval[0, 0] < found.value[0] < found.interval[0, 1])
    True
    """

    value: FloatArray  # (K,), sums to one
    stderr: FloatArray  # (K,)
    interval: FloatArray  # (K, 2), 95%
    next_clean_rows: np.ndarray  # (K,): how 100 more clean rows are best shared among the classes; zeros if T is known
    from_transition: float  # share of the variance that comes from T's own error
    n: int
    notes: list[str]
    classes: list[Any] = field(default_factory=list)  # their names; numbers where they have none
    checked: int = 0  # rows of known class
    _rows: CheckedRows | None = field(default=None, repr=False)
    _draws: FloatArray | None = field(default=None, repr=False)  # (repetitions, K)

    def difference(self, a: Any, b: Any) -> PairedTest:
        """The share of a class (or of some classes, in a list) less that of another, with an interval.

        Two systems are compared so: judges say of each item which is better ("A", "B", "tie"), people say it of some,
        and ``weak_prevalence(judges, true=people).difference("A", "B")`` is by how much A wins more often.

        Examples
        --------
        >>> import numpy as np
        >>> import tproper as tp
        >>> z = np.repeat(["A", "B", "tie"], [500, 300, 200])
        >>> rng = np.random.default_rng(0)
        >>> judge = np.where(rng.random(1000) < 0.8, z, rng.choice(["A", "B", "tie"], 1000))
        >>> people = np.where(rng.random(1000) < 0.2, z, None)
        >>> tp.weak_prevalence(judge, true=people).difference("A", "B").better
        'a'
        """
        weight = self._places(a, "a") - self._places(b, "b")
        if self._rows is not None:
            found = self._rows.mean(np.broadcast_to(weight, (self._rows.n, len(weight))))
            stderr, (low, high) = found.stderr, found.ends
            p = float(2 * stdtr(found.freedom, -abs(found.statistic())))
        else:
            assert self._draws is not None
            draws = self._draws @ weight
            stderr, (low, high) = float(draws.std()), np.quantile(draws, [0.025, 0.975]).tolist()
            p = min(2 * float(min((draws <= 0).mean(), (draws >= 0).mean())), 1.0)
        value = float(self.value @ weight) if self._rows is None else found.mean
        interval = max(min(low, value), -1.0), min(max(high, value), 1.0)
        better: Literal["a", "b"] | None = None
        if not interval[0] <= 0 <= interval[1]:
            better = "a" if value > 0 else "b"
        note = f"a is {_named(a)}, b is {_named(b)}"
        return PairedTest("share", value, stderr, interval, self.n, True, note, (-1.0, 1.0), p_value=p, better=better)

    def _places(self, which: Any, name: str) -> FloatArray:
        """1 for the classes that are named."""
        names = self.classes or list(range(len(self.value)))
        out = np.zeros(len(names))
        for one in which if isinstance(which, (list, tuple)) else [which]:
            if one not in names:
                raise InputError(f"{name}: expected one of {', '.join(map(repr, names))}, or a list, got {one!r}")
            out[names.index(one)] = 1.0
        return out

    def __str__(self) -> str:
        known = f" and {self.checked} rows of known class" if self.checked else ""
        lines = [f"class shares from {self.n} weak labels{known} (95% interval)"]
        names = self.classes or list(range(len(self.value)))
        for z, v, (low, high) in zip(names, self.value, self.interval, strict=True):
            lines.append(f"{z!s:>5}  {v:.4f}  ({low:.4f} to {high:.4f})")
        wanted = sorted(zip(self.next_clean_rows.tolist(), map(str, names), strict=True), key=lambda one: -one[0])
        asked = [f"{rows} more rows of class {z}" for rows, z in wanted if rows]
        more = f" and of {len(asked) - MOST_ASKED} other classes" if len(asked) > MOST_ASKED else ""
        lines += [f"To narrow this, check {', '.join(asked[:MOST_ASKED])}{more}."] if asked else []
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        names = self.classes or list(range(len(self.value)))
        rows = zip(names, self.value.tolist(), self.stderr.tolist(), self.interval.tolist(), strict=True)
        shares = [{"class": z, "value": v, "stderr": e, "interval": i} for z, v, e, i in rows]
        return {"n": self.n, "checked": self.checked, "shares": shares, "notes": list(self.notes)}


def _named(which: Any) -> str:
    return " or ".join(map(str, which)) if isinstance(which, (list, tuple)) else str(which)


def weak_prevalence(
    labels: Labels,
    transition: Transition | str | None = None,
    *,
    true: ArrayLike | None = None,
    X: Any = None,
    num_classes: int | None = None,
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    random_state: int = 0,
    **renamed: Any,
) -> Prevalence:
    """Shares of the classes in the population that weak labels come from, with intervals that include T's own error.

    With T alone: the shares v at which ``T v`` matches the shares of the labels. With checked rows as `true`: their
    mean, made precise by all labels.

    Parameters
    ----------
    labels : weak labels as the transition takes them
        Without one, one label a row or a row of answers, by name or number.
    transition : Transition or text, optional
        Known, or estimated (`EstimatedTransition`): then each repetition has its own draw of T. It may be left out
        where `true` says the class of some rows.
    true : (n,) classes, -1 or None where unknown, optional
        The class of the rows that somebody has checked. With a known T both are used in one likelihood; an estimated T,
        which may come from these very rows, is not used. Checked rows are taken for a random sample, or, where their
        labels differ from those of all rows, for one that was drawn by label: the notes say which.
    X : (n, d) features, optional, a scipy matrix too
        Beside `true`: a regression on checked rows, cross-fitted, guesses the others' classes, which makes the interval
        narrower by as much as features foretell classes, and cannot make it wrong. T is then not used.
    num_classes : int, optional
        Beside `true` without T: numbers from there on are labels that name no class, such as a refusal.
    groups : (n,) names, optional
        Rows of one group (a person, a document) are not independent.
    sample_weight : (n,) array, optional
        Where rows were checked by another design: for each checked row the inverse of its probability of being checked.
        Others are not read. T is then not used.
    random_state : int
        Seed of the repetitions.

    Returns
    -------
    Prevalence
        `value`, `stderr`, `interval`, `next_clean_rows`; prints as a table.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = (rng.random(2000) < 0.3).astype(int)
    >>> judge = np.where(rng.random(2000) < 0.8, z, 1 - z)
    >>> checked = np.where(np.arange(2000) < 400, z, -1)
    >>> low, high = tp.weak_prevalence(judge, true=checked).interval[1]
    >>> bool(low < 0.3 < high)
    True
    """
    if renamed:
        hint = "; seed is random_state here" if "seed" in renamed else ""
        raise TypeError(f"weak_prevalence() got an unexpected keyword argument {min(renamed)!r}{hint}")
    if transition is None and true is None:
        raise InputError("transition: expected a tproper.Transition, or the classes of some rows as true=, got neither")
    transition = None if transition is None else read_transition(transition, num_classes)
    if X is not None and true is None:
        raise InputError("X: expected it beside true=, whose rows it learns from, got no true=")
    if sample_weight is not None and true is None:
        raise InputError("sample_weight: expected it beside true=, for rows checked by a design, got no true=")
    if isinstance(labels, SoftLabels):
        return _by_soft(transition, labels, true, groups, random_state)
    if true is None:
        assert transition is not None
        read = read_labels(transition, labels)
        y, given = read.labels, read.given
        if given is not None:  # rows without a label say nothing
            y, groups = y[given], None if groups is None else checks.array(groups, "groups")[given]
        return _by_transition(read.bare, y, None, groups, random_state, read.space.classes)
    known = _of_classes(known_classes(labels, true, transition), num_classes, transition)
    if not (known.true >= 0).any():
        if transition is None:
            raise InputError("true: expected the class of some rows, got none")
        return weak_prevalence(labels, transition, groups=groups, random_state=random_state)
    use_T = transition is not None and not transition.estimated and sample_weight is None and X is None
    if use_T:
        assert transition is not None
        contradiction = _contradicts(transition, known)
        if transition.diagnose().reconstructible and not contradiction:
            y, true = known.labels, known.true
            labelled: NDArray[np.bool_] = np.asarray((known.columns >= 0).any(axis=1))
            some = np.flatnonzero(labelled | (true >= 0))  # else nothing is known of a row
            if len(some) < len(true):
                y, true, labelled = y[some], true[some], labelled[some]
                groups = None if groups is None else checks.array(groups, "groups")[some]
            bare = known.space.transition.named(None)
            return _by_transition(bare, y, true, groups, random_state, known.space.classes, labelled)
        note = contradiction or "T does not tell the classes apart, and is not used: the checked rows do"
    elif transition is not None and not transition.estimated:
        note = "T is not used: the checked rows and all labels say what they know without it"
    elif transition is not None:
        note = (
            "T is not used: it was estimated, perhaps from these rows, which together with all labels say all that "
            "they know of the shares"
        )
    else:
        note = "no T is used"
    return _by_checked(known, X, groups, sample_weight, note, random_state)


def _by_soft(
    transition: Transition | None, labels: SoftLabels, true: Any, groups: ArrayLike | None, random_state: int
) -> Prevalence:
    """From soft labels: their mean has the expectation ``T pi``; intervals by its normal distribution (of groups)."""
    if transition is None or true is not None or transition.separate:
        raise InputError(
            "labels: expected a transition, one label a row and no true= for soft labels, got another call; "
            "labels.draw(seed) gives hard labels"
        )
    s = encoded(transition, labels).numpy()
    if not transition.diagnose().reconstructible:
        raise NotReconstructibleError(f"transition: expected one that tells the classes apart, got {transition.name}")
    group = group_codes(groups, len(s))
    own = np.arange(len(s)) if group is None else group
    G, mean, n = int(own.max()) + 1, s.mean(axis=0), len(s)
    if G < 2:
        raise InputError(f"labels: expected at least two independent rows, got {G}")
    sums = np.zeros((G, s.shape[1]))
    np.add.at(sums, own, s - mean)
    rng = np.random.default_rng(checks.integer(random_state, "random_state", 0))
    T = transition.matrix()
    size = int(np.clip(ENTRIES // T.size, 200, REPEATS))
    cut = np.linalg.svd(sums, full_matrices=False)  # sums' sums / n^2 is the covariance of the mean
    noise = rng.standard_normal((size, len(cut.S))) @ (cut.S[:, None] * cut.Vh) / n * math.sqrt(G / (G - 1))
    again = np.maximum(mean + noise, 0.0)
    again /= again.sum(axis=1, keepdims=True)
    value = class_shares(T[None], mean[None])[0]
    from_labels, with_T = _repeated(transition, hard_labels(transition), T, again, rng)
    repeats = from_labels if with_T is None else with_T
    low, high = np.quantile(repeats, [0.025, 0.975], axis=0)
    interval = np.stack([np.minimum(low, value), np.maximum(high, value)], axis=1)
    variance = repeats.var(axis=0)
    share = max(0.0, 1 - float(from_labels.var(axis=0).sum() / max(variance.sum(), 1e-300)))
    notes = ["soft labels: the interval is that of their mean, for many rows"]
    K = len(value)
    return Prevalence(value, np.sqrt(variance), interval, np.zeros(K, int), share, n, notes, list(range(K)))


def _of_classes(known: Known, num_classes: int | None, transition: Transition | None) -> Known:
    """Labels beyond the classes stay labels."""
    if num_classes is None:
        return known
    K = checks.integer(num_classes, "num_classes", 2)
    if transition is not None or not all(isinstance(name, int) for name in known.classes):
        raise InputError("num_classes: expected it beside labels that are numbers, without a transition")
    if known.true.max(initial=-1) >= K:
        raise InputError(f"true: expected classes in [0, {K}), got {known.true.max()}")
    return replace(known, space=identity(K).labels)


def _by_checked(
    known: Known, X: Any, groups: ArrayLike | None, sample_weight: ArrayLike | None, note: str, seed: int
) -> Prevalence:
    """From the checked rows and all labels, whatever T is."""
    n, K = len(known.true), len(known.classes)
    chances = weights_of(sample_weight, n)
    if chances is not None and not (chances[known.true >= 0] > 0).all():
        raise InputError("sample_weight: expected numbers > 0 for the checked rows, got 0")
    together = group_codes(groups, n)
    rows = CheckedRows(known.columns, known.true, K, chances=chances, groups=together)
    notes = [note]
    if X is not None:
        seed = checks.integer(seed, "random_state", 0)
        matrix = feature_matrix(X, n, "rows of labels", sparse=True)
        rows.guesses, how = guesses_by_features(rows.guesses, known.true, matrix, together, seed)
        rows.held_out = rows.guesses
        rows.modelled = True
        notes = [how, note]
    shares = [rows.share((known.true == z).astype(np.float64), rows.guesses[:, z]) for z in range(K)]
    value = np.array([s.mean for s in shares])
    stderr = np.array([s.stderr for s in shares])
    interval = np.array([s.ends for s in shares])
    for doubt in rows.doubts:
        warn(f"weak_prevalence: {doubt}", SelectionWarning)
    notes = [rows.sentence, *rows.doubts, *notes]
    checked = int(rows.checked.sum())
    return Prevalence(value, stderr, interval, np.zeros(K, int), 0.0, n, notes, known.names, checked, rows)


def _contradicts(transition: Transition, known: Known) -> str:
    """What to say where the checked rows' labels cannot come from this T; empty otherwise.

    Given its label a row has class z with probability ``T[y, z] pi_z / (T pi)_y``, however rows were chosen by label.
    """
    if transition.label_shape:
        return ""
    labelled = known.columns[:, 0] >= 0
    y, z = known.columns[labelled, 0], known.true[labelled]
    T, K = transition.matrix(), transition.num_classes
    M = len(T)
    checked = z >= 0
    counts = np.zeros((M, K))
    np.add.at(counts, (y[checked], z[checked]), 1.0)
    free = np.bincount(y[~checked], minlength=M)
    pi = class_shares(np.vstack([T, np.eye(K)])[None], (np.append(free, counts.sum(axis=0)) / len(y))[None])[0]
    joint = T * pi
    expected = counts.sum(axis=1, keepdims=True) * joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    total, freedom = 0.0, 0
    for own, e in zip(counts, expected, strict=True):
        if (own[e <= 0] > 0).any():
            total, freedom = math.inf, 1
            break
        rare = e < 3
        o, e = np.append(own[~rare], own[rare].sum()), np.append(e[~rare], e[rare].sum())
        o, e = o[e > 0], e[e > 0]
        if len(e) > 1 and e.min() >= 1:
            total += float(((o - e) ** 2 / e).sum())
            freedom += len(e) - 1
    p = chi_square(total, freedom) if freedom else 1.0
    if p >= CONTRADICTED:
        return ""
    return f"T is not used: the checked rows contradict it (p = {p:.2g})"


def _by_transition(
    transition: Transition,
    labels: torch.Tensor,
    true: NDArray[np.int64] | None,
    groups: ArrayLike | None,
    random_state: int,
    names: list[Any] | None,
    labelled: NDArray[np.bool_] | None = None,
) -> Prevalence:
    """By the likelihood of encoded labels, and of the classes that are known; all rows but the `labelled` have only a
    class."""
    diagnosis = transition.diagnose()
    if not diagnosis.reconstructible:
        raise NotReconstructibleError(
            f"transition: expected rank {transition.num_classes} for {transition.num_classes} classes, got "
            f"{diagnosis.rank}: the shares of {diagnosis.confusion()} cannot be told apart from these labels"
        )
    encoded = labels
    group = group_codes(groups, len(encoded))
    if transition.separate:
        heard = (encoded >= 0).any(dim=1)  # no answer says nothing
        if true is not None:
            heard |= torch.as_tensor(true >= 0)
        encoded = encoded[heard]
        group = None if group is None else group[heard.numpy()]
        true = None if true is None else true[heard.numpy()]
        labelled = None if labelled is None else labelled[heard.numpy()]
        if not len(encoded):
            raise InputError("labels: expected at least one row with an answer, got -1 everywhere")
    K = transition.num_classes
    checked = np.zeros(len(encoded), bool) if true is None else true >= 0
    told = np.ones(len(encoded), bool) if labelled is None else labelled
    kinds, inverse = torch.unique(encoded[torch.as_tensor(told)], dim=0, return_inverse=True)
    kind = np.zeros(len(encoded), dtype=np.int64)
    kind[told] = kind_of_label = inverse.numpy().reshape(-1)
    U = len(kinds)
    T = _rows(transition, kinds)  # (U, K)
    if true is not None:  # a checked row is a label that its class alone can give
        kind[checked] = U + true[checked]
        T = np.vstack([T, np.eye(K)])
    counts = np.bincount(kind, minlength=len(T))
    n = int(counts.sum())
    shares = counts / n  # (U,)
    value = class_shares(T[None], shares[None])[0]

    rng = np.random.default_rng(checks.integer(random_state, "random_state", 0))
    size = int(np.clip(ENTRIES // T.size, 200, REPEATS))
    again = _again(kind, len(T), group, size, rng)
    from_labels, with_T = _repeated(transition, kinds, T, again, rng)
    repeats = from_labels if with_T is None else with_T
    low, high = np.quantile(repeats, [0.025, 0.975], axis=0)
    interval = np.stack([np.minimum(low, value), np.maximum(high, value)], axis=1)
    variance = repeats.var(axis=0)
    stderr = np.sqrt(variance)
    interval = _with_unseen(transition, kinds, n, value, stderr, interval)
    fitting = equally_likely(T[counts > 0], value)
    interval = np.clip(interval + fitting - value[:, None], 0.0, 1.0)
    if transition.num_classes <= PROFILED:
        edge = (interval[:, 0] <= EDGE) | (interval[:, 1] >= 1 - EDGE)
        ends = likely(T[counts > 0], counts[counts > 0], value, np.flatnonzero(edge))
        interval = np.stack([np.minimum(interval[:, 0], ends[:, 0]), np.maximum(interval[:, 1], ends[:, 1])], axis=1)
    interval[interval[:, 0] <= STILL, 0] = 0.0  # rounding
    free = np.ptp(fitting, axis=1) > STILL
    still = (stderr < STILL) | free
    stderr[still] = (interval[still, 1] - interval[still, 0]) / (2 * Z95)
    share = max(0.0, 1 - float(from_labels.var(axis=0).sum() / max(variance.sum(), 1e-300)))
    rows = next_rows(transition, value) if transition.posterior is not None else np.zeros(len(value), int)
    of_all = np.bincount(kind_of_label, minlength=U) / max(len(kind_of_label), 1)
    notes = _notes(transition, T[:U], of_all, value, len(kind_of_label), share if with_T is not None else None, rows)
    if true is not None:
        notes.append(
            f"the {int(checked.sum())} rows of known class are taken for rows that were chosen by nothing but their "
            "labels"
        )
    if free.any():
        notes.append(
            f"not determined: other shares of the classes {', '.join(map(str, np.flatnonzero(free)[:12]))}"
            f"{', ...' if free.sum() > 12 else ''} fit the labels equally well; their intervals cover all of these"
        )
    every = names or list(range(K))
    return Prevalence(value, stderr, interval, rows, share, n, notes, every, int(checked.sum()), None, repeats)


def _again(
    kind: NDArray[np.int64], U: int, group: NDArray[np.int64] | None, size: int, rng: np.random.Generator
) -> FloatArray:
    """Label shares (size, U) of repetitions: rows drawn anew, or whole groups of rows.

    Of G groups drawn anew the variance is too small by ``(G - 1) / G``: deviations are stretched by its root, and to
    Student's t of G - 1 degrees of freedom.
    """
    n = len(kind)
    if group is None:
        shares = np.bincount(kind, minlength=U) / n
        return np.asarray(rng.multinomial(n, shares / shares.sum(), size) / n)
    from scipy.sparse import csr_array
    from scipy.special import stdtrit

    G = int(group.max()) + 1
    table = csr_array((np.ones(n), (group, kind)), shape=(G, U))
    weights = rng.multinomial(G, np.full(G, 1.0 / G), size)
    drawn = np.asarray(weights @ table)
    drawn /= drawn.sum(axis=1, keepdims=True)
    centre = np.bincount(kind, minlength=U) / n
    stretch = math.sqrt(G / (G - 1)) * float(stdtrit(G - 1, 0.975)) / Z95
    out = np.maximum(centre + stretch * (drawn - centre), 0.0)
    return np.asarray(out / out.sum(axis=1, keepdims=True))


def _repeated(
    transition: Transition, kinds: torch.Tensor, T: FloatArray, again: FloatArray, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray | None]:
    """Class shares (S, K) for label shares `again` (S, U) by T, and by a draw of T for each; None where T is known.

    Some repetitions at a time: draws of T for every kind of label would be large.
    """
    step = max(1, ENTRIES // T.size)
    blocks = [slice(i, i + step) for i in range(0, len(again), step)]
    draws = _draws(transition, kinds, len(again), rng)
    from_labels = np.concatenate([class_shares(T[None], again[b]) for b in blocks])
    with_T = None if draws is None else np.concatenate([class_shares(draws(b), again[b]) for b in blocks])
    return from_labels, with_T


def _with_unseen(
    transition: Transition,
    kinds: torch.Tensor,
    n: int,
    value: FloatArray,
    stderr: FloatArray,
    interval: FloatArray,
) -> FloatArray:
    """Intervals (K, 2) that leave room for labels that have not occurred.

    Repetitions draw none of them, so that a class nobody has named yet would have the share 0 for sure. A label that
    is missing among n has a share up to ``e = 1 - .025^(1/n)`` (Clopper and Pearson, 1934), and moves the class shares
    by ``e (R e_y - pi)``. Where labels are sets or answers, and cannot be listed, R e_y is the class itself, for
    the classes whose share no repetition has moved.
    """
    if transition.label_shape:
        targets = np.eye(len(value))[stderr < STILL].T
    else:
        unseen = transition.matrix().max(axis=1) > 0
        unseen[transition.row_index(kinds).numpy()] = False
        targets = transition.reconstruction().matrix()[:, unseen]
    if not targets.size:
        return interval
    moved = value[:, None] + (1 - 0.025 ** (1 / n)) * (targets - value[:, None])  # (K, labels)
    low, high = np.clip(moved.min(axis=1), 0.0, 1.0), np.clip(moved.max(axis=1), 0.0, 1.0)
    return np.stack([np.minimum(interval[:, 0], low), np.maximum(interval[:, 1], high)], axis=1)


def equally_likely(T: FloatArray, value: FloatArray) -> FloatArray:
    """The least and the greatest share (K, 2) of each class among all that give the labels the likelihood of `value`.

    These are the pi of the simplex with ``T pi = T value`` for the rows of T that occur: a point where their rank is K,
    else a polytope, whose ends are linear programs; beyond 100 classes, bounds of them.
    """
    from scipy.optimize import linprog

    rows = np.vstack([T / T.max(axis=1, keepdims=True), np.ones(len(value))])
    _, size, basis = np.linalg.svd(rows, full_matrices=len(rows) < len(value))
    rank = int((size > RANK_TOL * size[0]).sum())
    out = np.stack([value, value], axis=1)
    free = np.flatnonzero(np.abs(basis[rank:]).max(axis=0, initial=0.0) > 1e-8)
    if len(free) > PROGRAMS:  # a class has at most the share of each label that excludes others
        most = ((T @ value)[:, None] / np.maximum(T, 1e-300)).min(axis=0)
        out[free] = np.stack([np.zeros(len(free)), np.clip(most[free], value[free], 1.0)], axis=1)
        return out
    for z in free:
        for side, sign in enumerate((1.0, -1.0)):
            aim = np.zeros(len(value))
            aim[z] = sign
            end = linprog(aim, A_eq=basis[:rank], b_eq=basis[:rank] @ value, bounds=(0.0, 1.0))
            if end.status == 0:
                out[z, side] = min(end.x[z], value[z]) if side == 0 else max(end.x[z], value[z])
    return out


def likely(T: FloatArray, counts: np.ndarray, value: FloatArray, classes: np.ndarray) -> FloatArray:
    """The ends (K, 2) of the profile likelihood: pi_z of any pi whose log-likelihood is within 1.92 of the greatest.

    For the `classes` whose intervals reach 0 or 1, where repetitions of the draw say little: a share of 0 hardly ever
    leaves it. What is returned is the share at a pi that was tried: the solver's, or, where it went too far, one on the
    way there.
    """
    from scipy.optimize import minimize

    rows = T / T.max(axis=1, keepdims=True)

    def fall(pi: FloatArray) -> float:
        with np.errstate(divide="ignore"):
            return DROP + float(counts @ np.log(np.maximum(rows @ pi, 0.0))) - top

    def slope(pi: FloatArray) -> FloatArray:
        out: FloatArray = (counts / np.maximum(rows @ pi, 1e-12)) @ rows
        return out

    top = float(counts @ np.log(rows @ value))
    rules = [
        {"type": "eq", "fun": lambda pi: pi.sum() - 1, "jac": np.ones_like},
        {"type": "ineq", "fun": lambda pi: np.maximum(fall(pi), -1e6), "jac": slope},
    ]
    out = np.stack([value, value], axis=1)
    for z in classes:
        for side, sign in enumerate((1.0, -1.0)):
            aim = np.zeros(len(value))
            aim[z] = sign
            solution = minimize(
                lambda pi, aim=aim: float(aim @ pi),
                0.98 * value + 0.02 / len(value),
                jac=lambda pi, aim=aim: aim,
                method="SLSQP",
                bounds=[(0.0, 1.0)] * len(value),
                constraints=rules,
                options={"maxiter": 200, "ftol": 1e-7},
            )
            pi = np.clip(solution.x, 0.0, None) / np.clip(solution.x, 0.0, None).sum()
            tried = (value + step * (pi - value) for step in np.linspace(1, 0, 51))
            end = next((p[z] for p in tried if fall(p) >= -0.01), value[z])
            out[z, side] = min(end, value[z]) if side == 0 else max(end, value[z])
    return out


def _draws(
    transition: Transition, kinds: torch.Tensor, size: int, rng: np.random.Generator
) -> Callable[[slice], FloatArray] | None:
    """Some of `size` draws of the rows (S, U, K) of the labels that occur, up to a factor; None where T is known."""
    if transition.size_probability is not None:  # what its rate is changes a row by a factor alone
        return None
    if not transition.separate:
        if transition.posterior is not None:
            T: FloatArray | None = transition.posterior.samples(size, rng)
        else:
            T = transition.draws_of_posterior(size)
        return None if T is None else T[:, transition.row_index(kinds).numpy()].__getitem__
    parts = [t.draws_of_posterior(size, a) for a, t in enumerate(transition.separate)]
    if all(p is None for p in parts):
        return None

    def drawn(some: slice) -> FloatArray:
        tables = [t.matrix() if p is None else p[some] for t, p in zip(transition.separate, parts, strict=True)]
        log = log_likelihood(tables, kinds.numpy())
        return np.exp(log - log.max(axis=2, keepdims=True))

    return drawn


def _rows(transition: Transition, kinds: torch.Tensor) -> FloatArray:
    """P(label | class) (U, K) of the labels that occur, up to a factor for each label."""
    if transition.size_probability is not None:
        return kinds.numpy().astype(np.float64)
    if transition.separate:
        log = log_likelihood([t.matrix() for t in transition.separate], kinds.numpy())
        return np.exp(log - log.max(axis=1, keepdims=True))
    out: FloatArray = transition.matrix()[transition.row_index(kinds).numpy()]
    return out


def class_shares(T: FloatArray, q: FloatArray) -> FloatArray:
    """The most likely class shares (B, K) for T (B or 1, U, K) and label shares q (B or 1, U).

    Square T: the inverse where it stays in the simplex. Elsewhere EM (`mixture_shares`), which is monotone and stays in
    the simplex. A factor of a label's row changes nothing.
    """
    size = max(len(T), len(q))
    K = T.shape[2]
    pi = np.full((size, K), 1.0 / K)
    todo = np.ones(size, dtype=bool)
    if T.shape[1] == K:
        with np.errstate(all="ignore"):
            try:
                exact = np.linalg.solve(T, np.broadcast_to(q, (size, K))[:, :, None])[:, :, 0]
            except np.linalg.LinAlgError:  # one of many draws is singular: EM takes all
                exact = np.full((size, K), -1.0)
        todo = ~((exact >= 0).all(axis=1) & (np.abs(exact.sum(axis=1) - 1) < 1e-6))
        pi[~todo] = exact[~todo]
        pi[todo] = np.maximum(exact[todo], 0.02 / K)
        pi[todo] /= pi[todo].sum(axis=1, keepdims=True)
    if todo.any():
        own, labels = T[todo] if len(T) > 1 else T, q[todo] if len(q) > 1 else q
        pi[todo] = mixture_shares(own, labels, 0.0, ITERATIONS, TOLERANCE, pi[todo])
    return pi


def next_rows(transition: Transition, value: FloatArray, rows: int = ROWS) -> np.ndarray:
    """How `rows` more clean rows are best shared among the classes.

    To first order an error of column z moves the class shares by ``-pi_z A dT_z``, A the minimum-variance left inverse
    of T, so that column z adds ``c_z / N_z`` to the variance of all shares together, with N_z clean rows of that class
    behind it. Each row goes where it lowers that sum most (Neyman's allocation).
    """
    T = transition.matrix()
    weight = 1.0 / np.maximum(T @ value, 1e-12)
    A = np.linalg.pinv(np.sqrt(weight)[:, None] * T) * np.sqrt(weight)  # (K, M)
    spread = ((A**2) @ T - (A @ T) ** 2).sum(axis=0)  # trace of A (diag(T_z) - T_z T_z^T) A^T
    c = np.maximum(value, 1e-3) ** 2 * np.maximum(spread, 0.0)
    assert transition.posterior is not None
    variance = (transition.posterior.stderr**2).sum(axis=0)
    behind = (T * (1 - T)).sum(axis=0) / np.maximum(variance, 1e-12)
    out = np.zeros(len(value), dtype=np.int64)
    for _ in range(rows):
        now = behind + out
        out[int((c / now - c / (now + 1)).argmax())] += 1
    return out


def _notes(
    transition: Transition,
    T: FloatArray,
    q: FloatArray,
    value: FloatArray,
    n: int,
    share: float | None,
    rows: np.ndarray,
) -> list[str]:
    notes = []
    if share is None:
        notes.append("T is taken as known: the intervals leave its error out")
    else:
        best = int(rows.argmax())
        more = f"; of {ROWS} more clean rows, {rows[best]} of class {best} would help most" if rows[best] else ""
        notes.append(f"{100 * share:.0f}% of the variance comes from T's own error{more}")
    if share is None and not transition.label_shape:
        misfit = 2 * n * float((q * np.log(q / (T @ value))).sum())
        if chi_square(misfit, transition.num_weak_labels - 1) < 0.01:
            notes.append("these label shares are not a mixture of T's columns: T is not the transition of these labels")
    return notes
