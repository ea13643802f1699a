"""The laws as functions that raise AssertionError, so that the planted faults can show that they would be caught."""

from __future__ import annotations

import numpy as np
import torch
from scipy.stats import chi2, chisquare

import tproper as tp

from .registry import centred, every_label, inside, random_columns, table


def left_inverse(T: tp.Transition, method: str) -> None:
    """R T = I, and columns of R sum to one."""
    R = T.reconstruction(method)
    assert np.abs(R.matrix() @ T.matrix() - np.eye(T.num_classes)).max() < 1e-9
    assert np.abs(R.matrix().sum(axis=0) - 1).max() < 1e-9
    assert R.residual < 1e-9


def targets_are_unbiased(T: tp.Transition, method: str) -> None:
    """The mean target given class z is the one-hot vector of z."""
    targets = T.reconstruction(method).targets(every_label(T)).numpy()
    assert np.abs(targets.T @ T.matrix() - np.eye(T.num_classes)).max() < 1e-9


def adjointness(T: tp.Transition, method: str) -> None:
    """<R e_y, x> by `inner` is the inner product with the target."""
    R, y = T.reconstruction(method), every_label(T)
    x = torch.randn(len(y), T.num_classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.allclose(R.evidence(y).inner(x), (R.targets(y) * x).sum(-1), atol=1e-10)


def targets_agree_with_themselves(T: tp.Transition, method: str) -> None:
    """Products, gradients in place, blocks and layouts of targets are those of the targets written out."""
    R, y = T.reconstruction(method), every_label(T)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(len(y), T.num_classes, dtype=torch.float64, generator=generator)
    x = x - x.mean(-1, keepdim=True)
    g = torch.randn(len(y), T.num_classes, dtype=torch.float64, generator=generator)
    targets = R.evidence(y)
    r, silent = targets.dense(torch.float64), R.silent(y)
    speak = torch.ones(len(y), 1, dtype=torch.float64) if silent is None else (~silent).double()[:, None]
    some = slice(len(y) // 2, None)
    for part, rows in (
        (targets, slice(None)),
        (targets.flat(torch.float64), slice(None)),
        (targets.flat(torch.float64, True), slice(None)),
        (targets.flat(torch.float64)[some], some),
    ):
        size = 1 + float(r.abs().max())
        close = {"rtol": 1e-10, "atol": 1e-10 * size}
        torch.testing.assert_close(part.dense(torch.float64), r[rows], **close)
        torch.testing.assert_close(part.product(x[rows] + 3), (r * (x + 3)).sum(-1)[rows], **close)
        torch.testing.assert_close(part.product(x[rows], centred=True), (r * x).sum(-1)[rows], **close)
        for share in (1.0, 0.25):
            slope = g[rows].clone()
            part.subtract_(slope, share)
            torch.testing.assert_close(slope, (share * (g - r) * speak)[rows], **close)


def rows_agree_with_themselves(T: tp.Transition) -> None:
    """Masses, posteriors in place, blocks and layouts of rows of T are those of the rows written out."""
    y = every_label(T)
    matrix = torch.as_tensor(T.matrix())
    v = 2 * torch.randn(len(y), T.num_classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p = v.softmax(-1)
    t = matrix[T.row_index(y)]
    q = t * p
    mass = q.sum(-1)
    occurs = mass > 0  # labels that never occur have no posterior
    rows = T.evidence(y)
    torch.testing.assert_close(rows.logs(torch.float64).exp(), t)
    torch.testing.assert_close(rows.mass(p), mass)
    torch.testing.assert_close(rows.log_mass(v), mass.log())
    for class_major in (False, True):
        for some in (slice(None), slice(len(y) // 2, None)):
            slope = p[some].clone()
            losses = rows.prepared(torch.float64, class_major)[some].posterior_(slope, 0.25)
            here = occurs[some]
            torch.testing.assert_close(losses[here], -mass.log()[some][here])
            torch.testing.assert_close(slope[here], 0.25 * (p - q / mass[:, None])[some][here])
    for needs in ("norm", "all"):
        rows = T.evidence(y, torch.float64, {k: torch.tensor(a) for k, a in T.tables(needs).items()})
        torch.testing.assert_close(rows.square(p), (p @ matrix.T).square().sum(-1))
    torch.testing.assert_close(rows.all(p), p @ matrix.T)
    torch.testing.assert_close(rows.index, T.row_index(y))


def fenchel_young(F: tp.Potential, K: int) -> None:
    """F(v) + F*(q) >= <q, v>, with equality at q = link(v)."""
    v, q = centred(6, K), inside(6, K)
    at_link = F.value(v) + F.conjugate(F.link(v)) - (F.link(v) * v).sum(-1)
    assert at_link.abs().max() < 1e-6
    assert (F.value(v) + F.conjugate(q) - (q * v).sum(-1)).min() > -1e-6


def link_is_the_gradient(F: tp.Potential, K: int) -> None:
    """link(v) is the gradient of F, shifted to sum to one."""
    v = centred(6, K).requires_grad_()
    (gradient,) = torch.autograd.grad(F.value(v).sum(), v)
    want = gradient + (1 - gradient.sum(-1, keepdim=True)) / K
    assert torch.allclose(F.link(v.detach()), want, atol=1e-6)


def inverse_link_inverts(F: tp.Potential, K: int) -> None:
    """link(inverse_link(p)) = p inside the simplex, and the scores are centred."""
    p = inside(6, K)
    v = F.inverse_link(p)
    assert v.sum(-1).abs().max() < 1e-8
    assert torch.allclose(F.link(v), p, atol=1e-6)
    assert torch.allclose(F.probabilities(v), p, atol=1e-6)


def minimiser_recovers_the_truth(loss: torch.nn.Module) -> None:
    """Minimise the exact mean loss over scores: the loss's own probabilities are the truth (Definition 3)."""
    T = loss.transition
    p = inside(1, T.num_classes, seed=3)
    weak = torch.as_tensor(T.matrix()) @ p[0]
    v = torch.zeros(1, T.num_classes, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [v], max_iter=500, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )

    def risk() -> torch.Tensor:
        optimiser.zero_grad()
        values = table(loss, v)[0]
        out = (weak * torch.where(weak > 0, values, 0.0)).sum()  # a label that never occurs may have an infinite loss
        out.backward()
        return out

    optimiser.step(risk)
    assert torch.allclose(loss.probabilities(v.detach()), p, atol=2e-4)


def descent_respects_bounds(loss: torch.nn.Module) -> None:
    """Descent on a label's loss comes close to its bound and never passes it; without a bound it falls on and on."""
    bounds, labels = torch.as_tensor(loss.lower_bounds()), every_label(loss.transition)
    assert not bounds.isnan().any()
    bounded, endless = torch.isfinite(bounds), torch.isneginf(bounds)
    v = torch.zeros(len(labels), loss.transition.num_classes, dtype=torch.float64, requires_grad=True)
    if bounded.any():
        optimiser = torch.optim.LBFGS(
            [v], max_iter=400, tolerance_grad=1e-12, tolerance_change=1e-16, line_search_fn="strong_wolfe"
        )

        def total() -> torch.Tensor:
            optimiser.zero_grad()
            out = loss(v, labels)[bounded].sum()
            out.backward()
            return out

        optimiser.step(total)
        reached = loss(v, labels).detach()[bounded]
        assert (reached >= bounds[bounded] - 1e-9).all()
        assert (reached - bounds[bounded]).max() < 0.02
    if endless.any():
        x, values = torch.zeros_like(v)[endless].requires_grad_(), []
        for _ in range(100):
            out = loss(x, labels[endless])
            values.append(out.detach())
            x = (x - 30 * torch.autograd.grad(out.sum(), x)[0]).detach().requires_grad_()
        least = torch.stack(values).cummin(0).values  # beside a kink a step overshoots: every other value is higher
        first, second = least[0] - least[50], least[50] - least[99]
        assert (second > 0.5 * first).all()  # no slower than before
        assert (second > 1).all()


def identity_is_cross_entropy(make: type[torch.nn.Module]) -> None:
    """T = I: torch's cross entropy, value and gradient."""
    K = 6
    v = (3 * torch.randn(9, K, generator=torch.Generator().manual_seed(0))).requires_grad_()
    y = torch.arange(9) % K
    ours, theirs = make(tp.identity(K))(v, y), torch.nn.functional.cross_entropy(v, y)
    assert torch.allclose(ours, theirs, atol=1e-6)
    ours, theirs = (torch.autograd.grad(x, v)[0] for x in (ours, theirs))
    assert torch.allclose(ours, theirs, atol=1e-6)


def shifts_change_nothing(F: tp.Potential, K: int) -> None:
    """Potentials live on centred scores and centre for themselves."""
    v = centred(6, K)
    assert torch.allclose(F.value(v + 3.7), F.value(v), atol=1e-9)
    assert torch.allclose(F.link(v + 3.7), F.link(v), atol=1e-7)


def derivatives_by_finite_differences(F: tp.Potential, K: int) -> None:
    """Value and link have the derivatives that autograd says (raises RuntimeError otherwise)."""
    v = centred(3, K, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(F.value, v, atol=1e-6)
    assert torch.autograd.gradcheck(F.link, v, atol=1e-5)


def probabilities_lie_in_the_simplex(F: tp.Potential, K: int) -> None:
    """At scores large enough for sparse links to have zeros."""
    v = 5 * torch.randn(20, K, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    p = F.probabilities(v)
    assert p.min() >= 0
    assert (p.sum(-1) - 1).abs().max() < 1e-9


def samples_follow_the_matrix(T: tp.Transition) -> None:
    """Chi-square test of every column; labels of probability zero never occur."""
    n = 4000
    for z in range(T.num_classes):
        drawn = T.row_index(T.encode(T.sample(np.full(n, z), seed=z))).numpy()
        counts = np.bincount(drawn, minlength=T.num_weak_labels)
        expected = n * T.matrix()[:, z]
        kept = expected > 0
        assert (counts[~kept] == 0).all()
        if kept.sum() > 1:
            assert chisquare(counts[kept], expected[kept] * counts.sum() / expected[kept].sum()).pvalue > 1e-5


def samples_are_independent_of_classes_of_the_same_seed(T: tp.Transition) -> None:
    """Classes from ``default_rng(s)``, then labels with seed s: each class still has its column of T."""
    n, K, matrix = 6000, T.num_classes, T.matrix()
    for seed in (0, 5):
        for z in (
            np.random.default_rng(seed).choice(K, n, p=np.full(K, 1 / K)),
            np.random.default_rng(seed).integers(0, K, n),
        ):
            counts = np.zeros(matrix.shape)
            np.add.at(counts, (T.row_index(T.encode(T.sample(z, seed))).numpy(), z), 1)
            expected = matrix * counts.sum(axis=0)
            kept = expected > 0
            statistic = ((counts - expected)[kept] ** 2 / expected[kept]).sum()
            freedom = int(kept.sum()) - K
            assert freedom == 0 or chi2.sf(statistic, freedom) > 1e-5


def minimum_variance_is_minimal() -> None:
    """No left inverse has targets of smaller mean square under the prior."""
    rng = np.random.default_rng(0)
    T = tp.Transition(random_columns(7, 3, seed=1))
    prior = np.array([0.5, 0.3, 0.2])
    weak = T.matrix() @ prior
    R = T.reconstruction("min_variance", prior=prior).matrix()
    kernel = np.linalg.svd(T.matrix())[0][:, 3:]
    for _ in range(200):
        other = R + 0.1 * rng.standard_normal((3, 4)) @ kernel.T
        assert ((other**2) @ weak).sum() >= ((R**2) @ weak).sum() - 1e-12


def critical_k_is_where_boundedness_begins(T: tp.Transition) -> None:
    """Squeezing with alpha = 1 is bounded from the critical k on, and not before."""
    k = float(tp.critical_k(T).max())
    assert np.isfinite(tp.BackwardLoss(T, squeeze=(k * 1.0001, 1.0)).lower_bounds()).all()
    assert np.isneginf(tp.BackwardLoss(T, squeeze=(k * 0.9999, 1.0)).lower_bounds()).any()
