"""Class-wise calibration: every class's probability against how often the class is there.

The squared errors of K classes in B bins each are averaged. An example is in K cells at once, and its targets sum to
one, so that the cells' errors move together; taken one class at a time, one class in forty would exclude 0 by chance,
and of a hundred classes some always do. So the K B cells are one quadratic form, ``|u|^2`` with
``u = sum_i z_i`` over examples, whose covariance ``S = sum_i z_i z_i'`` is known by its products with vectors alone:
the traces of S^2 and S^3 come from probes (Hutchinson, 1990): all unit vectors where there are few cells, random
signs beyond. No cells x cells matrix, O(n K) for a probe.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._core import FloatArray
from .binned import FEW, BinnedErrors, QuadraticForm
from .curve import Calibration, bin_sums, make_curve, trimmed
from .statistics import Reweigher, drawn_labels, spread_rows
from .uncertainty import TransitionDraws

PROBES = 64
PSEUDO = 2.0  # examples' worth of the model's own doubts, so that labels which all agree do not make a certainty


class Cells:
    """The cells (class, bin) of n examples, and their errors ``h = r_c - q_c``."""

    def __init__(
        self,
        weigher: Reweigher,
        labels: Tensor,
        q: Tensor,
        a: FloatArray,
        edges: FloatArray,
        groups: NDArray[np.int64] | None = None,
    ) -> None:
        self.groups = groups
        self.weigher, self.labels, self.q, self.a = weigher, labels, q, a
        self.K, self.B = edges.shape[0], edges.shape[1] - 1
        self.size = self.K * self.B
        inner = torch.as_tensor(edges[:, 1:-1].copy())
        self.cell = (torch.searchsorted(inner, q.T.contiguous()).T + self.B * torch.arange(self.K)).contiguous()
        sums, confidence = [np.zeros(self.size) for _ in range(7)], np.zeros(self.size)
        for i in weigher.blocks(len(q)):
            flat, weight = self.cell[i].reshape(-1).numpy(), np.repeat(a[i.numpy()], self.K)
            h = (weigher.targets(labels[i]) - q[i]).reshape(-1).numpy()
            for total, part in zip(sums, bin_sums(flat, self.size, weight, h), strict=True):
                total += part
            confidence += np.bincount(flat, weights=weight * q[i].reshape(-1).numpy(), minlength=self.size)
        self.errors = BinnedErrors(*(s.reshape(self.K, self.B) for s in sums))
        mass = self.errors.shares
        self.confidence = np.where(mass > 0, confidence.reshape(mass.shape) / np.where(mass > 0, mass, 1.0), np.nan)
        self.u = self.errors.u.ravel() / np.sqrt(self.K)
        # z_i = scale * a_i (h_i - d) in each of example i's cells; what of the variance is seen makes tr S unbiased
        used = self.errors.used
        ratio = np.sqrt(self.K * np.where(used, mass * self.errors.seen, 1.0))
        self.scale = torch.as_tensor(np.where(used, 1 / ratio, 0.0).ravel())
        self.centre = torch.as_tensor(np.where(used, self.errors.difference, 0.0).ravel())

    def blocks(self) -> list[Any]:
        """Sparse z (m, cells) of the examples, a block at a time; of the groups, where rows of a group err together."""
        out = []
        for i in self.weigher.blocks(len(self.q)):
            h = self.weigher.targets(self.labels[i]) - self.q[i]
            out.append(self._z(self.cell[i], h, torch.as_tensor(self.a[i.numpy()])[:, None]))
        return out if self.groups is None else [self._summed(out, self.groups)]

    def _summed(self, blocks: list[Any], groups: NDArray[np.int64]) -> Any:
        from scipy.sparse import csr_array, vstack

        rows, count = vstack(blocks, format="csr"), int(groups.max()) + 1
        member = csr_array((np.ones(len(groups)), (groups, np.arange(len(groups)))), shape=(count, len(groups)))
        return csr_array(member @ rows) * np.sqrt(count / (count - 1))

    def _z(self, cell: Tensor, h: Tensor, a: Tensor) -> Any:
        from scipy.sparse import csr_array

        z = self.scale[cell] * a * (h - self.centre[cell])
        starts = np.arange(0, cell.numel() + 1, self.K)
        return csr_array((z.reshape(-1).numpy(), cell.reshape(-1).numpy(), starts), shape=(len(cell), self.size))

    def pseudo(self) -> Any:
        """Examples whose class is drawn half from the model, half uniformly: worth `PSEUDO` of them together."""
        rows = torch.as_tensor(spread_rows(len(self.q)))
        labels, _ = drawn_labels(self.weigher.transition, self.q[rows], self.labels[rows], np.random.default_rng(0))
        weight = torch.tensor(np.sqrt(PSEUDO / len(rows)) * float((self.a**2).sum()), dtype=torch.float64)
        return self._z(self.cell[rows], self.weigher.targets(labels) - self.q[rows], weight)


def classwise_calibration(
    weigher: Reweigher,
    labels: Tensor,
    q: Tensor,
    weights: FloatArray | None,
    edges: FloatArray,
    groups: NDArray[np.int64] | None = None,
) -> Calibration:
    """The curve of every class, for `edges` (K, B + 1)."""
    n = len(q)
    a = np.full(n, 1.0 / n) if weights is None else weights / weights.sum()
    cells = Cells(weigher, labels, q, a, edges, groups)
    errors = cells.errors
    draws = weigher.draws
    shifts = None if draws is None else _shifts(cells, draws)
    known = _form(cells, None)
    variance = errors.variance
    if groups is not None:
        own = (cells.blocks()[0] ** 2).sum(axis=0).reshape(variance.shape) * cells.K
        variance = own / np.where(errors.used, errors.shares, np.nan)
    if shifts is not None:
        added = (shifts**2).sum(0).reshape(variance.shape) * cells.K
        variance = variance + added / np.where(errors.used, errors.shares, np.nan)
    forms = (known if shifts is None else _form(cells, shifts), known)
    return make_curve("class-wise", errors, forms, cells.confidence, edges, variance, None, draws)


def _shifts(cells: Cells, draws: TransitionDraws) -> FloatArray:
    """How draws of T move u (S, cells), divided by sqrt(S): their squares sum to what T adds to the covariance."""
    table = cells.weigher.cell_sums(cells.labels, cells.cell, cells.a, cells.size).reshape(-1, cells.K, cells.B)
    # of the targets in a cell (c, b) only entry c counts
    moved = np.einsum("scd,dcb->scb", draws.inverses, table) - np.einsum("ccb->cb", table)
    share, used = cells.errors.shares, cells.errors.used
    scaled = moved * np.where(used, 1 / np.sqrt(np.where(used, share, 1.0) * cells.K), 0.0)
    return trimmed(scaled).reshape(len(moved), -1) / np.sqrt(len(moved))


def _form(cells: Cells, shifts: FloatArray | None) -> QuadraticForm:
    rng = np.random.default_rng(0)
    size = cells.size
    probes = np.eye(size) if size <= PROBES else rng.choice([-1.0, 1.0], (size, PROBES)) / np.sqrt(PROBES)
    raw = float(cells.u @ cells.u)
    v = cells.u / np.sqrt(raw) if raw > 0 else np.sqrt(cells.errors.weight.ravel() / cells.K)
    start = np.column_stack([probes, v])
    seen = cells.blocks()
    blocks = [*seen, cells.pseudo()]

    def times(V: FloatArray) -> FloatArray:  # S V
        out: FloatArray = sum(z.T @ (z @ V) for z in blocks)
        return out if shifts is None else out + shifts.T @ (shifts @ V)

    once = times(start)
    twice = times(once)
    squares = [(z * z).sum(axis=1) for z in blocks]
    trace = sum(float(s.sum()) for s in squares)
    fourth = sum(float((s**2).sum()) for s in squares)
    noise = float(cells.errors.error.sum() / cells.K) if cells.groups is None else float(squares[0].sum())
    if shifts is not None:
        added = float((shifts**2).sum())
        trace, noise = trace + added, noise + added
    P = slice(0, -1)
    # an example paired with itself says nothing about S^2: it is taken out again, as long as anything is left
    e2 = max(float((once[:, P] ** 2).sum()) - fourth, trace**2 / size)
    e3 = max(float((once[:, P] * twice[:, P]).sum()), e2**2 / trace) if trace > 0 else 0.0
    e3 = min(e3, e2**1.5)  # as for every S
    p1, p2 = float(start[:, -1] @ once[:, -1]), float((once[:, -1] ** 2).sum())
    sampling = _sampling(cells, v)
    unknown = not cells.errors.used.any() or (cells.errors.error.sum() <= 0 and len(cells.q) < FEW)
    parts = (raw, trace, e2, e3, p1, p2, sampling, unknown, noise)
    return QuadraticForm(*(np.asarray(x) for x in parts))


def _sampling(cells: Cells, v: FloatArray) -> float:
    """Variance of theta per theta^2 because the cells' shares are random: that of an example's mean error."""
    share = np.where(cells.errors.used, cells.errors.shares, 1.0).ravel()
    per_example = torch.as_tensor(v**2 / share)[cells.cell].sum(-1).numpy()
    mean = float(cells.a @ per_example)
    return float((cells.a**2) @ (per_example - mean) ** 2)
