"""Bags with counts, and bags with some positive member: exact likelihoods and gradients."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch

import tproper as tp


def brute(p: torch.Tensor, counts) -> torch.Tensor:
    """log P(counts), by all classes that the members may have; p (m, K)."""
    m, K = p.shape
    total = torch.zeros((), dtype=p.dtype)
    for z in product(range(K), repeat=m):
        if [z.count(k) for k in range(K)] == list(counts):
            total = total + p[torch.arange(m), torch.tensor(z)].prod()
    return total.log()


def of_class(p: torch.Tensor, c: int) -> torch.Tensor:
    """log P(c of them), by all subsets; p (m,)."""
    total = torch.zeros((), dtype=p.dtype)
    for hit in product((False, True), repeat=len(p)):
        if sum(hit) == c:
            total = total + torch.where(torch.tensor(hit), p, 1 - p).prod()
    return total.log()


def scores(n, K, seed=0, scale=1.5):
    return scale * torch.randn(n, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("counts", [[8, 0, 0], [3, 3, 2], [0, 1, 7], [1, 6, 1]])
def test_bags_of_eight_are_the_sum_over_all_classes(counts):
    v = scores(8, 3).requires_grad_()
    for likelihood in ("auto", "joint"):
        loss = tp.BagCountLoss(3, likelihood, reduction="sum")
        ours = loss(v, [0] * 8, [counts])
        exact = -brute(torch.softmax(v, -1), counts)
        torch.testing.assert_close(ours, exact)
        torch.testing.assert_close(*(torch.autograd.grad(x, v)[0] for x in (ours, exact)))
    marginal = tp.BagCountLoss(3, "marginal", reduction="sum")(v, [0] * 8, [counts])
    exact = -sum(of_class(torch.softmax(v, -1)[:, k], c) for k, c in enumerate(counts))
    torch.testing.assert_close(marginal, exact)
    torch.testing.assert_close(*(torch.autograd.grad(x, v)[0] for x in (marginal, exact)))


@pytest.mark.parametrize("count", [0, 1, 9, 31, 32, 33, 60, 64])
def test_bags_of_64_are_exact_and_so_is_their_gradient(count):
    """Against fractions: P and, by leaving a member out, dP/dp_i = P_without(c - 1) - P_without(c)."""
    v = scores(64, 2, seed=count, scale=3.0).requires_grad_()
    ours = tp.BagCountLoss(2, reduction="sum")(v, [0] * 64, [[64 - count, count]])
    (slope,) = torch.autograd.grad(ours, v)
    p = [Fraction(float(x)) for x in torch.softmax(v.detach(), -1)[:, 1]]

    def exactly(members, k):
        f = [Fraction(1)] + [Fraction(0)] * 64
        for x in members:
            f = [(1 - x) * f[j] + (x * f[j - 1] if j else 0) for j in range(65)]
        return f[k] if 0 <= k <= 64 else Fraction(0)

    total = exactly(p, count)
    assert ours.item() == pytest.approx(-math.log(total), rel=1e-11)
    for i in (0, 17, 63):
        others = p[:i] + p[i + 1 :]
        dp = (exactly(others, count - 1) - exactly(others, count)) / total
        assert float(slope[i, 1]) == pytest.approx(-float(dp * p[i] * (1 - p[i])), rel=1e-8, abs=1e-12)


def test_bags_of_hundreds_are_stable():
    """Both far in the tails, and with members that are certain."""
    for scale, seed in ((1.0, 0), (20.0, 1), (200.0, 2)):
        v = scores(800, 3, seed, scale).requires_grad_()
        z = torch.softmax(v.detach(), -1).argmax(-1)
        right = torch.bincount(z, minlength=3)
        for counts in (right, right.flip(0), torch.tensor([800, 0, 0])):
            loss = tp.BagCountLoss(3, reduction="sum")(v, [0] * 800, counts[None].numpy())
            (slope,) = torch.autograd.grad(loss, v)
            assert bool(torch.isfinite(loss))
            assert bool(torch.isfinite(slope).all())
            assert float(loss) >= 0
    v = torch.zeros(600, 2, dtype=torch.float64)
    v[:, 1] = -40.0  # 600 members who are not, and 300 who are said to be: log of the binomial, and 300 times -40
    ours = float(tp.BagCountLoss(2, reduction="sum")(v, [0] * 600, [[300, 300]]))
    exact = 300 * (40 + math.log1p(math.exp(-40))) + 300 * math.log1p(math.exp(-40))
    assert ours == pytest.approx(exact - math.lgamma(601) + 2 * math.lgamma(301), rel=1e-12)


def test_bags_of_one_are_supervised_learning():
    v, y = scores(20, 4), torch.arange(20) % 4
    counts = torch.nn.functional.one_hot(y, 4).numpy()
    torch.testing.assert_close(tp.BagCountLoss(4)(v, np.arange(20), counts), torch.nn.functional.cross_entropy(v, y))


def test_bags_of_many_sizes_in_any_order():
    rng = np.random.default_rng(0)
    bags = rng.permutation(np.repeat(np.arange(5), [1, 3, 20, 2, 40]))
    v = scores(len(bags), 3).requires_grad_()
    z = rng.integers(0, 3, len(bags))
    counts = np.stack([np.bincount(z[bags == b], minlength=3) for b in range(5)])
    together = tp.BagCountLoss(3, reduction="none")(v, bags, counts)
    for b in range(5):
        rows = np.flatnonzero(bags == b)
        alone = tp.BagCountLoss(3, reduction="none")(v[rows], [0] * len(rows), counts[[b]])
        torch.testing.assert_close(together[b : b + 1], alone)
    assert torch.autograd.gradcheck(
        lambda x: tp.BagCountLoss(3)(x, bags[:6] * 0, [[2, 3, 1]]), v[:6].detach().requires_grad_()
    )


@pytest.mark.parametrize("likelihood", ["joint", "marginal"])
def test_the_expected_loss_is_least_at_p(likelihood):
    """Over all counts of a bag of 4, weighted by their probability."""
    p = torch.softmax(scores(4, 3, seed=3), -1)
    every = [c for c in product(range(5), repeat=3) if sum(c) == 4]
    weight = torch.stack([brute(p, c).exp() for c in every])
    v = p.log().clone().requires_grad_()
    loss = tp.BagCountLoss(3, likelihood, reduction="none")
    expected = lambda x: (loss(x.repeat(len(every), 1), np.repeat(np.arange(len(every)), 4), every) * weight).sum()  # noqa: E731
    (slope,) = torch.autograd.grad(expected(v), v)
    assert float(slope.abs().max()) < 1e-10
    at_p = float(expected(p.log()))
    assert all(float(expected(p.log() + scores(4, 3, seed=s, scale=0.5))) > at_p for s in range(5))


def test_at_least_one_is_exact_where_it_is_nearly_certain_and_nearly_impossible():
    loss = tp.AtLeastOneLoss(reduction="none")
    for gap in (-700.0, -40.0, -1.0, 0.0, 3.0, 40.0, 700.0):
        v = torch.zeros(300, 2, dtype=torch.float64)
        v[:, 1] = gap
        v.requires_grad_()
        some, none = loss(v, [0] * 300, [True]), loss(v, [0] * 300, [False])
        log_none = -300 * float(torch.nn.functional.softplus(torch.tensor(gap, dtype=torch.float64)))
        exact = -math.log(-math.expm1(log_none)) if log_none > -1 else -math.log1p(-math.exp(log_none))
        assert float(some) == pytest.approx(exact, rel=1e-9, abs=1e-300)
        assert float(none) == pytest.approx(-log_none)
        (slope,) = torch.autograd.grad(some.sum() + none.sum(), v)
        assert bool(torch.isfinite(slope).all())
    v = scores(7, 2)
    q = torch.softmax(v, -1)[:, 0]
    both = loss(v, [0, 0, 0, 1, 1, 1, 1], [True, False])
    torch.testing.assert_close(both, -torch.stack([(1 - q[:3].prod()).log(), q[3:].log().sum()]))
    assert torch.autograd.gradcheck(lambda x: loss(x, [0, 0, 0, 1, 1, 1, 1], [True, True]), v.requires_grad_())


def test_certificates():
    for loss in (tp.BagCountLoss(3), tp.AtLeastOneLoss()):
        assert loss.certify().proper
        assert loss.certify().bounds.tolist() == [0.0]


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (lambda: tp.BagCountLoss(1), "num_classes"),
        (lambda: tp.BagCountLoss(2, "exact"), "likelihood"),
        (lambda: tp.BagCountLoss(2)(torch.zeros(3, 2), [0, 0, 0], [[1, 1]]), "counts"),
        (lambda: tp.BagCountLoss(2)(torch.zeros(3, 2), [0, 0, 0], [[1.5, 1.5]]), "counts"),
        (lambda: tp.BagCountLoss(2)(torch.zeros(3, 2), [0, 0], [[1, 1]]), "counts"),
        (lambda: tp.BagCountLoss(2)(torch.zeros(3, 2), [0, 0, -1], [[1, 2]]), "bags"),
        (lambda: tp.BagCountLoss(10, "joint")(torch.zeros(64, 10), [0] * 64, [[7] * 4 + [6] * 6]), "likelihood"),
        (lambda: tp.AtLeastOneLoss()(torch.zeros(3, 2), [0, 0, 2], [True, False, True]), "positive"),
        (lambda: tp.AtLeastOneLoss()(torch.zeros(3, 2), [0, 0, 1], [2, 0]), "positive"),
        (lambda: tp.AtLeastOneLoss()(torch.zeros(3, 3), [0, 0, 1], [1, 0]), "scores"),
    ],
)
def test_wrong_calls_are_refused(wrong, argument):
    with pytest.raises(tp.InputError) as error:
        wrong()
    assert error.value.argument == argument
