"""Pairs of examples: the kernel, its loss, its bounds, and what the theory of backward losses says of it."""

import numpy as np
import pytest
import torch

import tproper as tp

KERNELS = {
    "similarity": lambda: tp.pairs("similarity", K=3),
    "su": lambda: tp.pairs("su", prior=[0.6, 0.3, 0.1], sizes=[100, 200]),
    "du": lambda: tp.pairs("du", prior=[0.7, 0.3], sizes=[100, 200]),
    "sd": lambda: tp.pairs("sd", prior=[0.7, 0.3], sizes=[80, 50]),
    "sdu": lambda: tp.pairs("sdu", prior=[0.5, 0.3, 0.2], sizes=[80, 50, 100]),
    "comparison": lambda: tp.pairs("comparison", K=3),
    "noisy similarity": lambda: tp.PairKernel(
        [0.9 * np.eye(3) + 0.1 * (1 - np.eye(3)), 0.1 * np.eye(3) + 0.9 * (1 - np.eye(3))]
    ),
}
EVERY = pytest.mark.parametrize("name", KERNELS)


def classes(n, K, seed):
    return torch.softmax(torch.randn(n, K, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)), -1)


def losses(loss, a, b):
    """(n, L) at probabilities a, b."""
    loss.reduction = "none"
    L = loss.kernel.num_labels
    return torch.stack([loss(a.log(), b.log(), np.full(len(a), y)) for y in range(L)], 1)


def test_small_kernels_by_hand():
    np.testing.assert_array_equal(tp.pairs("similarity", K=2).weights, [[[1, 0], [0, 1]], [[0, 1], [1, 0]]])
    su = tp.pairs("su", prior=[0.75, 0.25], sizes=[5, 8])
    np.testing.assert_allclose(su.weights, [[[8, 0], [0, 8]], [[8, 8], [8, 8]]])
    du = tp.pairs("du", prior=[0.75, 0.25], sizes=[3, 8])
    np.testing.assert_allclose(du.weights, [[[0, 8], [8, 0]], [[8, 8], [8, 8]]])
    np.testing.assert_array_equal(tp.pairs("comparison", K=2).weights, [[[1, 0], [1, 1]], [[1, 1], [0, 1]]])
    T = su.apart()  # first members: 9/10 of the similar, 3/4 of all are of class 0
    shares = T.matrix() * T.pooled
    np.testing.assert_allclose(shares[:2, 0] / shares[:2, 1], [9.0, 3.0])


@EVERY
def test_the_loss_is_the_bilinear_form(name):
    kernel = KERNELS[name]()
    a, b = classes(6, kernel.num_classes, 0), classes(6, kernel.num_classes, 1)
    q = torch.as_tensor(kernel.probability(a.numpy(), b.numpy()))
    torch.testing.assert_close(losses(tp.PairLoss(kernel), a, b), -q.log())
    torch.testing.assert_close(q.sum(1), torch.ones(6, dtype=torch.float64))


@EVERY
def test_expected_risk_is_least_at_both_classes_probabilities(name):
    kernel = KERNELS[name]()
    K, loss = kernel.num_classes, tp.PairLoss(kernel)
    for seed in range(50):
        a, b = classes(1, K, seed), classes(1, K, seed + 1000)
        q = torch.as_tensor(kernel.probability(a.numpy(), b.numpy()))
        v, w = a.log().requires_grad_(), b.log().requires_grad_()
        risk = (q * -loss.log_probability(v, w)).sum()
        for slope in torch.autograd.grad(risk, (v, w)):
            assert float(slope.abs().max()) < 1e-9
        others = losses(loss, classes(20, K, seed + 7), classes(20, K, seed + 8)) @ q[0]
        assert bool((others >= risk.detach() - 1e-12).all())


@EVERY
def test_bounds_are_reached_and_never_crossed(name):
    kernel = KERNELS[name]()
    loss, K = tp.PairLoss(kernel), kernel.num_classes
    bounds = torch.as_tensor(loss.lower_bounds())
    wild = torch.softmax(20 * torch.randn(3000, K, dtype=torch.float64), -1)
    other = torch.softmax(20 * torch.randn(3000, K, dtype=torch.float64), -1)
    some = losses(loss, wild, other)
    corners = torch.eye(K, dtype=torch.float64) * 60
    ends = torch.stack([-loss.log_probability(a[None], b[None])[0] for a in corners for b in corners])
    assert bool((some >= bounds - 1e-12).all())
    torch.testing.assert_close(ends.amin(0), bounds, atol=1e-9, rtol=0)
    certificate = loss.certify()
    assert certificate.proper
    assert certificate.lower_bounded
    assert ("renaming" in str(certificate)) == (len(kernel.symmetries()) > 1)


@EVERY
def test_sampling_matches_the_kernel_and_gradients_are_exact(name):
    kernel = KERNELS[name]()
    K, loss = kernel.num_classes, tp.PairLoss(kernel)
    z, w = 1, K - 1
    drawn = kernel.sample(np.full(4000, z), np.full(4000, w), 0)
    share = kernel.weights[:, z, w] / kernel.weights[:, z, w].sum()
    assert np.abs(np.bincount(drawn, minlength=kernel.num_labels) / 4000 - share).max() < 0.04
    a, b = classes(4, K, 0).log().requires_grad_(), classes(4, K, 1).log().requires_grad_()
    y = np.arange(4) % kernel.num_labels
    assert torch.autograd.gradcheck(lambda v, u: loss(v, u, y), (a, b))
    masked = a.detach().clone()
    masked[:, 0] = -torch.inf
    assert bool(torch.isfinite(loss(masked, b.detach(), np.full(4, 1))).all()) or name == "comparison"


def test_soft_labels_are_the_mean_of_losses():
    kernel = KERNELS["similarity"]()
    loss, a, b = tp.PairLoss(kernel), classes(3, 3, 0).log(), classes(3, 3, 1).log()
    s = np.array([[0.9, 0.1], [0.0, 1.0], [0.4, 0.6]])
    loss.reduction = "none"
    want = torch.as_tensor(s[:, 0]) * loss(a, b, ["similar"] * 3) + torch.as_tensor(s[:, 1]) * loss(
        a, b, ["dissimilar"] * 3
    )
    torch.testing.assert_close(loss(a, b, tp.SoftLabels(s)), want)


@pytest.mark.parametrize("kind", ["su", "du", "sd", "comparison"])
def test_members_pulled_apart_are_bags_with_known_shares(kind):
    """What `apart` rests on: the class shares of the members of each bag are those that its T says."""
    sizes = None if kind == "comparison" else [60_000, 60_000]
    kernel = tp.pairs(kind, prior=[0.7, 0.3], sizes=sizes)
    rng = np.random.default_rng(0)
    z, w = rng.choice(2, size=(2, 200_000), p=[0.7, 0.3])
    if kind == "comparison":
        kept = z >= w
        first, second, y = z[kept], w[kept], np.zeros(kept.sum(), dtype=int)
    else:
        relation = {"s": z == w, "d": z != w, "u": np.ones(len(z), dtype=bool)}
        rows = [np.flatnonzero(relation[letter])[:60_000] for letter in kind]
        first, second = z[np.concatenate(rows)], w[np.concatenate(rows)]
        y = np.repeat([0, 1], [len(r) for r in rows])
    T = kernel.apart()
    bag_a, bag_b = kernel.bags(y)
    bags, members = np.concatenate([bag_a, bag_b]), np.concatenate([first, second])
    found = np.array([[np.mean(members[bags == b] == c) for c in range(2)] for b in np.unique(bags)])
    shares = T.matrix()[np.unique(bags)] * T.pooled
    np.testing.assert_allclose(found, shares / shares.sum(1, keepdims=True), atol=0.02)
    assert tp.BackwardLoss(T, squeeze=(1.0, 2.0)).certify().proper


def test_the_prior_of_two_classes_comes_from_the_share_of_similar_pairs():
    np.testing.assert_allclose(tp.pair_prior(0.8**2 + 0.2**2), [0.8, 0.2])
    with pytest.raises(tp.InputError):
        tp.pair_prior(0.4)


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (lambda: tp.pairs("ss", K=2), "kind"),
        (lambda: tp.pairs("su", K=2), "prior"),
        (lambda: tp.pairs("su", prior=[0.7, 0.3]), "sizes"),
        (lambda: tp.pairs("su", prior=[0.7, 0.3], sizes=[1, 2, 3]), "sizes"),
        (lambda: tp.PairKernel(np.ones((2, 2, 3))), "weights"),
        (lambda: tp.PairKernel([np.eye(2)]), "weights"),
        (lambda: tp.pairs("similarity", K=2).encode(["like"]), "labels"),
        (lambda: tp.pairs("similarity", K=2).apart(), "kernel"),
        (lambda: tp.PairLoss("su"), "kernel"),
        (lambda: tp.PairLoss(tp.pairs("similarity", K=2))(torch.zeros(3, 2), torch.zeros(2, 2), [0, 1]), "second"),
    ],
)
def test_wrong_calls_are_refused(wrong, argument):
    with pytest.raises(tp.InputError) as error:
        wrong()
    assert error.value.argument == argument
