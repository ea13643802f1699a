"""Sources of different kinds about one item: votes, "not this", "one of these", refusals and soft votes, together.

Whatever a source says is a row of weights W_a[i] over its own M_a labels: one 1 for a vote, a class ruled out or a set,
shares for a soft vote, zeros where it says nothing. With one T_a (M_a, K) for each source EM is the same for all:

    log P[i, z] = log p_z + sum_a W_a[i] . log T_a[:, z] + constant,        C_a = W_a' P.

Each T_a is shrunk to *its own* form m_a, the kind's: votes are right in a share r and else evenly wrong; "not this"
names the true class in a share e and else any other; "one of these" holds it in 1 - e, and each other class in p; what
is no class is as likely in every class. T_a = (C_a + s_a m_a) / total, s_a being the likeliest strength of those tried
(Dirichlet-multinomial). Shares enter by ``sum_y s_y log T_y``, as if a label were drawn from them and all draws seen.
Intervals of T come from classes and T drawn in turn from where EM ended, as in `posterior`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln, xlogy

from .._core import FloatArray, checks, drawn_classes
from ..errors import InputError
from ..transitions import AnnotatorTransition, EstimatedTransition, SoftLabels, annotators
from .arguments import MISSING, check_codes
from .dawid_skene import normalised

KINDS = ("votes", "not this", "one of these", "soft")
STRENGTHS = (1.0, 10.0, 100.0, 1000.0, 10000.0)  # of the form, in answers for each class
EVEN = 0.5  # of an answer, spread evenly over what a source may say
RIGHT, WRONG, EXTRA = (
    0.7,
    0.05,
    0.3,
)  # rates before the first answer: of votes, of sets and "not this", of other classes
ROUNDS, SETTLED = 300, 1e-6
FIRST, BETWEEN, KEPT = 30, 6, 40  # sweeps of the sampler
LEAST = 1e-12


@dataclass
class Source:
    """What one source said of all items."""

    name: Any
    kind: str
    W: csr_array  # (n, M) weights over its labels
    labels: list[Any]  # M: classes, sets of classes, and what is no class
    K: int
    sets: NDArray[np.bool_] | None = None  # (M, K) of "one of these"
    T: FloatArray = field(init=False)
    strength: float = field(default=STRENGTHS[1], init=False)

    def __post_init__(self) -> None:
        self.T = self.form(np.zeros((len(self.labels), self.K)))

    def form(self, C: FloatArray, rng: np.random.Generator | None = None) -> FloatArray:
        """m (M, K): the T of the kind with the rates of counts C (M, K); with `rng` drawn from what these tell."""

        def rate(hits: float, misses: float) -> float:
            return hits / (hits + misses) if rng is None else float(np.clip(rng.beta(hits, misses), 1e-6, 1 - 1e-6))

        M, K = C.shape
        if self.sets is not None:
            inside = self.sets
            hit = rate(
                float((C * inside).sum()) + (1 - WRONG) * EVEN * K, float((C * ~inside).sum()) + WRONG * EVEN * K
            )
            others = inside.sum(axis=1)[:, None] - inside  # classes in the set beside z
            extra, room = float((C * others).sum()), float(C.sum()) * (K - 1)
            p = rate(extra + EXTRA * EVEN * K, room - extra + (1 - EXTRA) * EVEN * K)
            m = np.exp(xlogy(others, p) + xlogy(K - 1 - others, 1 - p)) * np.where(inside, hit, 1 - hit)
        else:
            on, total = float(C[range(K), range(K)].sum()), float(C[:K].sum())
            usual = WRONG if self.kind == "not this" else RIGHT
            r = rate(on + usual * EVEN * K, total - on + (1 - usual) * EVEN * K)
            m = np.full((M, K), (1 - r) / (K - 1))
            m[range(K), range(K)] = r
            if M > K:  # what names no class
                told = float(C.sum()) + EVEN * M
                seen = C[K:].sum(axis=1) + EVEN
                rest = seen / told if rng is None else rng.dirichlet([*seen, told - float(seen.sum())])[:-1]
                m[:K] *= max(1 - float(rest.sum()), LEAST)
                m[K:] = rest[:, None]
        m = np.maximum(m, LEAST)
        out: FloatArray = m / m.sum(axis=0)
        return out

    def before(self, C: FloatArray) -> FloatArray:
        """What the Dirichlet parameters are before the counts, by the likeliest strength."""
        m = self.form(C)

        def likelihood(s: float) -> float:
            a = s * m + EVEN / len(m)
            columns = gammaln(a + C).sum(axis=0) - gammaln(a).sum(axis=0)
            return float((columns + gammaln(a.sum(axis=0)) - gammaln((a + C).sum(axis=0))).sum())

        self.strength = max(STRENGTHS, key=likelihood)
        return self.strength * m + EVEN / len(m)

    def evidence(self, T: FloatArray) -> FloatArray:
        """``W log T`` (n, K)."""
        return np.asarray(self.W @ np.log(np.maximum(T, LEAST)))

    def counts(self, P: FloatArray) -> FloatArray:
        """C (M, K)."""
        return np.asarray(self.W.T @ P)


@dataclass
class SourcesEstimate:
    """What `estimate_annotators` returns for sources of different kinds. Prints as a table.

    Attributes
    ----------
    posteriors : (n, K) array
        Class probabilities of the rows.
    labels : (n,) array
        The likeliest class of each row.
    prior : (K,) array
        Shares of the classes.
    transitions : list of EstimatedTransition
        One for each source of `names`; `transition` is `annotators` of them, to train with.
    notes : list of str
        What a reader should know.

    Examples
    --------
    >>> import numpy as np, tproper as tp
    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(3, size=300)
    >>> vote = np.where(rng.random(300) < 0.2, rng.integers(3, size=300), z)
    >>> not_this = (z + rng.integers(1, 3, 300)) % 3
    >>> found = tp.estimate_annotators({"vote": vote, "not": (not_this, "not this")})
    >>> bool((found.labels == z).mean() > 0.8)
    True
    """

    posteriors: FloatArray  # (n, K)
    prior: FloatArray  # (K,)
    classes: NDArray[Any]
    notes: list[str]
    _sources: list[Source] = field(repr=False)
    _concentration: list[FloatArray] = field(repr=False)

    @property
    def labels(self) -> NDArray[Any]:
        """(n,) the likeliest class of each item."""
        return self.classes[self.posteriors.argmax(axis=1)]

    @property
    def names(self) -> list[Any]:
        """Of the sources."""
        return [s.name for s in self._sources]

    @cached_property
    def transitions(self) -> list[EstimatedTransition]:
        """T of each source, with what the answers leave open of it."""
        return [
            EstimatedTransition.from_dirichlet(c, _texts(s, self.classes))
            for s, c in zip(self._sources, self._concentration, strict=True)
        ]

    @cached_property
    def transition(self) -> AnnotatorTransition:
        """`tp.annotators` of the `transitions`: what to train with, on `answers`."""
        return annotators(self.transitions)

    @cached_property
    def answers(self) -> NDArray[Any] | SoftLabels:
        """What the sources said, as `transition` has it: (n, m) names, None = nothing; shares if some are."""
        tables = [np.asarray(s.W.toarray()) for s in self._sources]
        if all(((t == 0) | (t == 1)).all() for t in tables):
            said = [np.where(t.any(axis=1), t.argmax(axis=1), MISSING) for t in tables]
            rows = np.stack(said, axis=1).astype(np.int64)
            return np.array(self.transition.labels.decode(rows), dtype=object)
        M = max(t.shape[1] for t in tables)
        shares = np.zeros((len(tables[0]), len(tables), M))
        for a, t in enumerate(tables):
            shares[:, a, : t.shape[1]] = np.where(t.any(axis=1, keepdims=True), t, np.nan)
            shares[~t.any(axis=1), a] = np.nan
        return SoftLabels(shares)

    def __str__(self) -> str:
        n, K = self.posteriors.shape
        head = f"{len(self._sources)} sources of {len({s.kind for s in self._sources})} kinds, {n} items, {K} classes"
        shares = ", ".join(f"{c} {p:.3f}" for c, p in zip(self.classes, self.prior.tolist(), strict=True))
        lines = [head, "-" * len(head), f"shares of the classes  {shares}"]
        for s, t in zip(self._sources, self.transitions, strict=True):
            low, high = np.quantile(_right(s, t.samples(200, 0), self.prior), [0.025, 0.975])
            value = float(_right(s, t.matrix()[None], self.prior)[0])
            said = int((s.W.sum(axis=1) > 0).sum())
            lines.append(
                f"{str(s.name)[:19]:<20}{s.kind:<14}{said:>8} answers  right {value:.3f}  "
                f"({min(low, value):.3f} to {max(high, value):.3f})"
            )
        return "\n".join([*lines, *(f"note  {note}" for note in self.notes)])


def _right(source: Source, T: FloatArray, prior: FloatArray) -> FloatArray:
    """How often it says what is so, of what it says of classes: T (S, M, K)."""
    K = source.K
    if source.sets is not None:
        return np.asarray((T * source.sets).sum(axis=1) @ prior)
    diagonal = T[:, range(K), range(K)] @ prior
    told = T[:, :K].sum(axis=1) @ prior
    return np.asarray(1 - diagonal / told if source.kind == "not this" else diagonal / told)


def _texts(source: Source, classes: NDArray[Any]) -> list[Any]:
    names = [str(c) for c in classes]
    if source.sets is not None:
        return [" or ".join(names[z] for z in np.flatnonzero(row)) for row in source.sets]
    prefix = "not " if source.kind == "not this" else ""
    return [prefix + name for name in names] + [f"other {y}" for y in range(len(source.labels) - source.K)]


def estimate_sources(
    sources: Mapping[Any, Any],
    true: ArrayLike | None,
    num_classes: int | None,
    prior_counts: FloatArray | float,
    rng: np.random.Generator,
    most: float,
) -> SourcesEstimate:
    """EM over all sources, then the sampler; no posterior without a known class is above `most`."""
    made, classes = _read(sources, true, num_classes)
    K, n = len(classes), made[0].W.shape[0]
    known = _known(true, n, classes)
    fixed = np.flatnonzero(known >= 0)
    counts = np.broadcast_to(np.asarray(prior_counts, dtype=np.float64), (K,))
    prior, P = np.full(K, 1.0 / K), np.full((n, K), 1.0 / K)
    for _ in range(ROUNDS):
        last = P
        P = _posteriors([s.evidence(s.T) for s in made], prior, known, fixed)
        total = P.sum(axis=0) + counts
        prior = total / total.sum()
        for s in made:
            C = s.counts(P)
            a = C + s.before(C)
            s.T = a / a.sum(axis=0)
        if float(np.abs(P - last).max()) < SETTLED:
            break
    concentration = _sampled(made, prior, known, fixed, counts, rng)
    notes = [
        f"{s.name}: shrunk to the form of {s.kind} with the weight of {s.strength:g} answers per class" for s in made
    ]
    told = np.stack([np.asarray(s.W.sum(axis=1)).ravel() > 0 for s in made], axis=1).sum(axis=1)
    if not len(fixed) and (told >= 3).sum() == 0:
        notes.append(
            "no item has answers from three sources: T rests on the forms of their kinds; give the true class of some"
        )
    if (told == 0).any():
        notes.append(f"{int((told == 0).sum())} items have no answer: their posterior is the prior")
    notes.append("sources are taken to err independently given the class; the true class of some items shows it if not")
    if not len(fixed):
        rows, top = np.arange(n), P.argmax(axis=1)
        high = P[rows, top] > most
        rest = 1 - P[rows, top]
        P[high] *= ((1 - most) / np.maximum(rest[high], LEAST))[:, None]
        P[rows[high], top[high]] = most
        P /= P.sum(axis=1, keepdims=True)
    return SourcesEstimate(P, prior, classes, notes, made, concentration)


def _posteriors(
    evidence: list[FloatArray], prior: FloatArray, known: NDArray[np.int64], fixed: NDArray[np.int64]
) -> FloatArray:
    P = normalised(np.sum(evidence, axis=0) + np.log(prior))[1]
    P[fixed] = np.eye(len(prior))[known[fixed]]
    return P


def _sampled(
    made: list[Source],
    prior: FloatArray,
    known: NDArray[np.int64],
    fixed: NDArray[np.int64],
    counts: FloatArray,
    rng: np.random.Generator,
) -> list[FloatArray]:
    """Dirichlet parameters (C, M, K) of each T, of some sweeps of classes and T in turn."""
    Ts, out = [s.T for s in made], [[] for _ in made]  # type: list[FloatArray], list[list[FloatArray]]
    K = len(prior)
    for sweep in range(FIRST + BETWEEN * KEPT):
        P = _posteriors([s.evidence(T) for s, T in zip(made, Ts, strict=True)], prior, known, fixed)
        z = drawn_classes(P, rng)
        z[fixed] = known[fixed]
        one = np.eye(K)[z]
        Ts = []
        for s, kept in zip(made, out, strict=True):
            C = s.counts(one)
            a = C + s.strength * s.form(C, rng) + EVEN / len(C)
            T = np.maximum(rng.standard_gamma(a), LEAST)
            Ts.append(T / T.sum(axis=0))
            if sweep >= FIRST and (sweep - FIRST) % BETWEEN == 0:
                kept.append(a)
        prior = np.maximum(rng.dirichlet(one.sum(axis=0) + counts), LEAST)
    return [np.array(kept) for kept in out]


# Inputs.


def _read(sources: Mapping[Any, Any], true: Any, num_classes: int | None) -> tuple[list[Source], NDArray[Any]]:
    given = {name: _with_kind(name, value) for name, value in sources.items()}
    if not given:
        raise InputError("answers: expected {source: what it said}, got no source")
    lengths = {name: len(labels) for name, (labels, _) in given.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"answers: expected as many items from every source, got {lengths}")
    named: set[str] = set()
    highest, widths = -1, set()
    columns: dict[Any, NDArray[Any]] = {}
    for name, (labels, kind) in given.items():
        if kind in ("votes", "not this"):
            columns[name] = _column(labels, name)
            if columns[name].dtype == object:
                named |= {v for v in columns[name] if v is not None}
            else:
                highest = max(highest, int(columns[name].max(initial=-1)))
        else:
            widths.add(labels.shape[-1])
    if named and highest >= 0:
        raise InputError("answers: expected names from every source, or numbers from every one, got both")
    if named:
        classes: NDArray[Any] = np.array(sorted(named | {str(v) for v in _names(true)}))
    else:
        known = _whole(true)
        masks = {labels.shape[-1] for labels, kind in given.values() if kind == "one of these"}
        most = max([highest + 1, known + 1, 2, *masks, *(widths if highest < 0 else [])])
        classes = np.arange(most if num_classes is None else num_classes)
        if known >= len(classes):
            raise InputError(f"true: expected classes in [0, {len(classes)}), got {known}")
    return [_source(name, columns.get(name), labels, kind, classes) for name, (labels, kind) in given.items()], classes


def _with_kind(name: Any, value: Any) -> tuple[Any, str]:
    """Labels and their kind: soft labels and columns of votes say it themselves, other kinds are named."""
    labels, kind = value, None
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
        labels, kind = value
    if isinstance(labels, SoftLabels):
        if kind not in (None, "soft"):
            raise InputError(f"answers: expected the kind 'soft' for soft labels, got {kind!r} from {name!r}")
        return labels, "soft"
    array = np.asarray(checks.array(labels, "answers"))
    if kind is None and array.ndim == 1:
        kind = "votes"
    if kind not in KINDS[:3]:
        ways = ", ".join(map(repr, KINDS))
        raise InputError(
            f"answers: expected (labels, kind) with a kind of {ways} from {name!r}, got {checks.short(kind)}; a column "
            "alone is one of votes, and shares come as tp.SoftLabels"
        )
    if kind == "one of these":
        if array.ndim != 2 or array.dtype != bool:
            raise InputError(
                f"answers: expected masks (n, K) of booleans from {name!r}, got {array.dtype} {array.shape}"
            )
    elif array.ndim != 1:
        raise InputError(f"answers: expected a column of {kind} from {name!r}, got shape {array.shape}")
    return array, kind


def _column(values: NDArray[Any], name: Any) -> NDArray[Any]:
    """Integers, -1 for none; or names, None for none."""
    if values.dtype.kind in "iu":
        check_codes(values, "answers", "for no answer")
        return values.astype(np.int64)
    if values.dtype.kind not in "OU":
        raise InputError(f"answers: expected integers, or names, from {name!r}, got dtype {values.dtype}")
    return np.array([None if checks.absent(v) or v == "" else str(v) for v in values], dtype=object)


def _source(name: Any, column: NDArray[Any] | None, labels: Any, kind: str, classes: NDArray[Any]) -> Source:
    K = len(classes)
    if kind == "soft":
        arranged = labels.arranged(list(classes)) if labels.names is not None and classes.dtype.kind == "U" else labels
        s = arranged.numpy()
        s = s[:, 0] if s.ndim == 3 and s.shape[1] == 1 else s
        if s.ndim != 2 or s.shape[1] < K:
            raise InputError(f"answers: expected shares (n, {K}) from {name!r}, got shape {labels.shape}")
        W = np.where(np.isnan(s).any(axis=1, keepdims=True), 0.0, s)
        return Source(name, kind, csr_array(W), list(range(W.shape[1])), K)
    if kind == "one of these":
        if labels.shape[1] != K:
            raise InputError(f"answers: expected masks (n, {K}) from {name!r}, got shape {labels.shape}")
        told = labels.any(axis=1)
        if not told.any():
            raise InputError(f"answers: expected a set from {name!r}, got none")
        sets, place = np.unique(labels[told], axis=0, return_inverse=True)
        rows = np.flatnonzero(told)
        own = csr_array((np.ones(len(rows)), (rows, place.ravel())), shape=(len(labels), len(sets)))
        return Source(name, kind, own, [frozenset(np.flatnonzero(r).tolist()) for r in sets], K, sets)
    assert column is not None
    if column.dtype == object:
        code = {c: z for z, c in enumerate(classes.tolist())}
        column = np.array([MISSING if v is None else code[v] for v in column], dtype=np.int64)
    rows = np.flatnonzero(column >= 0)
    if not len(rows):
        raise InputError(f"answers: expected an answer from {name!r}, got none")
    M = max(K, int(column.max()) + 1)
    W = csr_array((np.ones(len(rows)), (rows, column[rows])), shape=(len(column), M))
    return Source(name, kind, W, list(range(M)), K)


def _names(true: Any) -> list[Any]:
    if true is None:
        return []
    return [
        v for v in np.asarray(checks.array(true, "true"), dtype=object).ravel() if not checks.absent(v) and v != MISSING
    ]


def _whole(true: Any) -> int:
    numbers = [int(v) for v in _names(true) if isinstance(v, (int, np.integer))]
    return max(numbers, default=-1)


def _known(true: Any, n: int, classes: NDArray[Any]) -> NDArray[np.int64]:
    """The class of each item, -1 where unknown."""
    out = np.full(n, MISSING, dtype=np.int64)
    if true is None:
        return out
    cells = np.asarray(checks.array(true, "true"), dtype=object)
    if cells.shape != (n,):
        raise InputError(f"true: expected a class for each of the {n} items, got shape {cells.shape}")
    code = {c: z for z, c in enumerate(classes.tolist())}
    for i, v in enumerate(cells):
        if checks.absent(v) or (not isinstance(v, str) and v == MISSING) or v == "":
            continue
        if v not in code:
            raise InputError(f"true: expected classes among {checks.short(list(code))}, got {v!r} at row {i}")
        out[i] = code[v]
    return out
