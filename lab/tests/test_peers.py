"""The field's losses, each against a slow loop in NumPy float64 written from another form of its formula."""

import math

import numpy as np
import pytest
import torch

import tproper as tp
from tproper_lab import METHODS, find_method
from tproper_lab.peers.learned import VolMinNet

S, N, K = 2, 6, 4


def softmax(v):
    e = np.exp(v - v.max())
    return e / e.sum()


def stack(seed=0, classes=K):
    return torch.tensor(np.random.default_rng(seed).normal(0, 2, (S, N, classes)), requires_grad=True)


def indices(seed=1, classes=K):
    return torch.tensor(np.random.default_rng(seed).integers(0, classes, (S, N)))


def masks(T=None, seed=2):
    T = T or tp.partial_labels(K, 0.4)
    return torch.as_tensor(T.sample(np.random.default_rng(seed).integers(0, K, (S, N)), seed))


def loop(each, v, labels):
    """Mean over the examples of each trial, one example at a time."""
    v = v.detach().numpy()
    return np.array([np.mean([each(v[s, i], labels[s, i].numpy()) for i in range(N)]) for s in range(S)])


def risk(name, T, v, labels):
    return find_method(name).build(T)(v, labels, None)


# Each from another form: sums over the other classes, pairs, the unbiased estimator, an explicit target.


def nl(v, y):
    return -math.log(sum(softmax(v)[z] for z in range(K) if z != y))


def lw(v, y):
    p = softmax(v)
    rest = [1 - p[z] for z in range(K)]
    q = math.exp(rest[y]) / sum(math.exp(r) for r in rest)
    return -math.log(q) - rest[y] / sum(rest) * math.log(q)


def pc(v, y):
    return sum(1 / (1 + math.exp(v[z] - v[y])) for z in range(K) if z != y)


def op(v, y):
    return v[y] + math.log(sum(math.exp(-v[z]) for z in range(K)))


@pytest.mark.parametrize(
    ("name", "each"),
    [("scl_nl", nl), ("scl_exp", lambda v, y: math.exp(softmax(v)[y])), ("l_w", lw), ("pc", pc), ("op", op)],
)
def test_complementary_losses_equal_their_loops(name, each):
    v, y = stack(), indices()
    np.testing.assert_allclose(risk(name, tp.complementary(K), v, y).detach(), loop(each, v, y), rtol=1e-12)


def excluded(label):
    return [z for z in range(K) if not label[z]] if np.ndim(label) else [int(label)]


def mae_estimator(v, label):
    """Feng et al. 2020b: the unbiased estimator for s excluded classes, loss |p - e_z|_1 = 2 - 2 p_z."""
    loss, out = 2 - 2 * softmax(v), excluded(label)
    inside = [z for z in range(K) if z not in out]
    s = len(out)
    return sum(loss[z] for z in inside) - (K - 1 - s) / s * sum(loss[z] for z in out)


def surrogate(f):
    def each(v, label):
        out = excluded(label)
        return 2 * (K - 1) / len(out) * f(1 - sum(softmax(v)[z] for z in out))

    return each


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("mcl_mae", mae_estimator),
        ("mcl_exp", surrogate(lambda c: math.exp(-c))),
        ("mcl_log", surrogate(lambda c: -math.log(c))),
    ],
)
def test_mcl_equals_its_loops(name, each, several):
    T = tp.multi_complementary(K, 2) if several else tp.complementary(K)
    v, y = stack(), masks(T) if several else indices()
    np.testing.assert_allclose(risk(name, T, v, y).detach(), loop(each, v, y), rtol=1e-12)


def test_mcl_mae_is_unbiased_for_the_mean_absolute_error():
    """Summed over all sets with their probabilities, the estimator is the loss of the true class."""
    T = tp.multi_complementary(K, 2)
    rng = np.random.default_rng(0)
    v = torch.tensor(rng.normal(size=(1, 1, K)))
    each = METHODS["mcl_mae"].build(T).each
    sets = torch.tensor([[z in s for z in range(K)] for s in T.weak_labels])
    losses = each(v.expand(1, len(sets), K), sets[None])[0].numpy()
    np.testing.assert_allclose(losses @ T.matrix(), 2 - 2 * softmax(v[0, 0].numpy()), rtol=1e-12)


def test_scl_nl_is_forward_of_the_uniform_transition_up_to_a_constant():
    v, y, T = stack(), indices(), tp.complementary(K)
    difference = risk("forward", T, v, y) - risk("scl_nl", T, v, y)
    np.testing.assert_allclose(difference.detach(), math.log(K - 1), rtol=1e-12)


def test_ure_is_the_backward_risk():
    """Ishida et al. 2019: -(K - 1) l(y) + sum_z l(z), and gradient ascent on what of it is negative."""
    v, y, T = stack(), indices(), tp.complementary(K)

    def each(v, y):
        losses = -np.log(softmax(v))
        return -(K - 1) * losses[y] + losses.sum()

    np.testing.assert_allclose(risk("bc", T, v, y).detach(), loop(each, v, y), rtol=1e-10)
    for name, join in (("ga", abs), ("nn", lambda x: max(x, 0.0))):
        expected = []
        for s in range(S):
            shares = np.zeros(K)
            for i in range(N):
                losses = -np.log(softmax(v[s, i].detach().numpy()))
                for z in range(K):
                    shares[z] += losses[z] * (1 - (K - 1) * (y[s, i].item() == z)) / N
            expected.append(sum(join(x) for x in shares))
        np.testing.assert_allclose(risk(name, T, v, y).detach(), expected, rtol=1e-10)


# Partial labels.


def test_partial_losses_equal_their_loops():
    v, s, T = stack(), masks(), tp.partial_labels(K, 0.4)

    def inside(s):
        return [z for z in range(K) if s[z]]

    def cc(v, s):
        return -math.log(sum(softmax(v)[z] for z in inside(s)))

    def weighted(v, s):
        p = softmax(v)
        total = sum(p[z] for z in inside(s))
        return -sum(p[z] / total * math.log(p[z]) for z in inside(s))

    def average(v, s):
        return -np.mean([math.log(softmax(v)[z]) for z in inside(s)])

    for name, each in (("cc", cc), ("rc", weighted), ("proden", weighted), ("avg", average)):
        np.testing.assert_allclose(risk(name, T, v, s).detach(), loop(each, v, s), rtol=1e-12)


def test_cc_is_forward_up_to_a_constant_of_each_set():
    T, s = tp.partial_labels(K, 0.4), masks()
    a, b = stack(3), stack(4)
    cc = risk("cc", T, a, s) - risk("cc", T, b, s)
    forward = risk("forward", T, a, s) - risk("forward", T, b, s)
    torch.testing.assert_close(cc, forward, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["rc", "proden"])
def test_self_weighted_losses_have_the_gradient_of_cc(name):
    T, s = tp.partial_labels(K, 0.4), masks()
    slopes = []
    for method in (name, "cc"):
        v = stack()
        risk(method, T, v, s).sum().backward()
        slopes.append(v.grad)
    torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-14)


# Noisy labels.


def targets(rate):
    def each(v, y):
        target = np.full(K, rate / K)
        target[y] += 1 - rate
        return -(target * np.log(softmax(v))).sum()

    return each


def sce(v, y):
    label = np.full(K, math.exp(-4.0))  # log 0 is taken to be -4
    label[y] = 1.0
    p = softmax(v)
    return 0.3 * -math.log(p[y]) + 2.0 * -(p * np.log(label)).sum()


@pytest.mark.parametrize(
    ("name", "each"),
    [
        ("ce", targets(0.0)),
        ("ls:0.3", targets(0.3)),
        ("nls:-0.7", targets(-0.7)),
        ("sce:0.3,2", sce),
        ("gce:0.7", lambda v, y: (1 - softmax(v)[y] ** 0.7) / 0.7),
        ("gce:1", lambda v, y: 1 - softmax(v)[y]),
    ],
)
def test_noise_losses_equal_their_loops(name, each):
    v, y = stack(), indices()
    np.testing.assert_allclose(risk(name, tp.symmetric_noise(K, 0.2), v, y).detach(), loop(each, v, y), rtol=1e-12)


@pytest.mark.parametrize(("name", "tolerance"), [("ls:0", 1e-14), ("gce:1e-9", 1e-7)])
def test_their_limits_are_cross_entropy(name, tolerance):
    v, y, T = stack(), indices(), tp.symmetric_noise(K, 0.2)
    torch.testing.assert_close(risk(name, T, v, y), risk("ce", T, v, y), rtol=tolerance, atol=tolerance)


# Positive and unlabeled.

RATE = 0.4


def pu_loop(v, labels, loss, join):
    """From the papers' form: pi, the mean over the labeled, the mean over the whole sample."""
    out = []
    for margins, y in zip((v[..., 0] - v[..., 1]).detach().numpy(), labels.numpy(), strict=True):
        labeled = [m for m, label in zip(margins, y, strict=True) if label == 0]
        pi = len(labeled) / len(y) / RATE
        positive = pi * np.mean([loss(m) for m in labeled])
        negative = np.mean([loss(-m) for m in margins]) - pi * np.mean([loss(-m) for m in labeled])
        out.append(join(positive, negative))
    return np.array(out)


def pu_case(push=0.0):
    """Scores and labels, every trial with labeled ones; `push` moves the labeled towards the positive class."""
    v, y = stack(5, 2).detach(), indices(6, 2)
    y[:, 0] = 0
    v[..., 0] += push * (y == 0)
    return v.requires_grad_(), y


@pytest.mark.parametrize("push", [0.0, 30.0])
@pytest.mark.parametrize(
    ("name", "loss", "join"),
    [
        ("upu", lambda m: math.log1p(math.exp(-m)), lambda p, n: p + n),
        ("nnpu", lambda m: math.log1p(math.exp(-m)), lambda p, n: p + max(0.0, n)),
        ("nnpu_ascent", lambda m: math.log1p(math.exp(-m)), lambda p, n: p + n if n >= 0 else -n),
        ("nnpu_sigmoid", lambda m: 1 / (1 + math.exp(m)), lambda p, n: p + n if n >= 0 else -n),
    ],
)
def test_pu_risks_equal_their_loops(name, loss, join, push):
    v, y = pu_case(push)
    T = tp.positive_unlabeled(RATE)
    np.testing.assert_allclose(risk(name, T, v, y).detach(), pu_loop(v, y, loss, join), rtol=1e-9, atol=1e-12)


def test_pu_risks_are_the_librarys_backward_and_non_negative_losses():
    T = tp.positive_unlabeled(RATE)
    for push in (0.0, 30.0):
        v, y = pu_case(push)
        torch.testing.assert_close(risk("upu", T, v, y), risk("bc", T, v, y), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(risk("nnpu", T, v, y), risk("nn", T, v, y), rtol=1e-9, atol=1e-9)
    assert bool((risk("nnpu", T, v, y) > risk("upu", T, v, y)).any()), "the negative risk is never below zero here"


def test_nnpu_is_upu_where_the_negative_risk_is_positive():
    T = tp.positive_unlabeled(RATE)
    v, y = pu_case()
    v = (v.detach() * 0.01).requires_grad_()  # all losses near log 2: the negative risk is near (1 - pi) log 2
    y = torch.ones_like(y).index_fill_(1, torch.tensor([0]), 0)
    for name in ("nnpu", "nnpu_ascent"):
        torch.testing.assert_close(risk(name, T, v, y), risk("upu", T, v, y))


# T learned.


def test_learned_forward_equals_forward_with_that_transition():
    v, y = stack(), indices()
    rng = np.random.default_rng(8)
    w = torch.tensor(rng.normal(size=(S, K, K)))
    for name, T0 in (("volminnet", tp.symmetric_noise(K, 0.3)), ("adapted", tp.complementary(K))):
        expected = []
        for s in range(S):
            if name == "volminnet":
                off = 1 / (1 + np.exp(-w[s].numpy()))
                T = np.where(np.eye(K, dtype=bool), 1.0, off)
            else:
                T = np.exp(w[s].numpy())
            T = T / T.sum(axis=0)
            loss = tp.ForwardLoss(tp.Transition(T))(v[s], y[s]).item()
            expected.append(loss + (1e-4 * math.log(abs(np.linalg.det(T))) if name == "volminnet" else 0.0))
        got = METHODS[name].build(T0)(v, y, w)
        np.testing.assert_allclose(got.detach(), expected, rtol=1e-10)


def test_learned_transitions_start_where_their_labels_point():
    noisy, complementary = tp.symmetric_noise(K, 0.3), tp.complementary(K)
    for name, T, sign in (("volminnet", noisy, 1), ("adapted", noisy, 1), ("adapted", complementary, -1)):
        loss = METHODS[name].build(T)
        T0 = loss.log_transition(loss.start(3, torch.device("cpu"))).exp()
        assert T0.shape == (3, K, K)
        torch.testing.assert_close(T0.sum(1), torch.ones(3, K))
        off = T0[0].masked_select(~torch.eye(K, dtype=torch.bool))
        assert bool(
            (sign * (T0[0].diagonal().min() - off.max()) > 0) if sign > 0 else T0[0].diagonal().max() < off.min()
        )


def test_the_volume_of_a_learned_transition_falls_without_end():
    """What the card of VolMinNet says: the risk is not bounded from below in T."""
    loss = METHODS["volminnet"].build(tp.symmetric_noise(3, 0.3))
    v, y = torch.zeros(1, 4, 3, dtype=torch.float64), torch.zeros(1, 4, dtype=torch.int64)
    risks = [loss(v, y, torch.full((1, 3, 3), w, dtype=torch.float64)).item() for w in (10.0, 20.0, 30.0)]
    np.testing.assert_allclose(np.diff(risks), -2e-3, rtol=1e-2)  # 1e-4 times two eigenvalues times ten
    assert "not bounded" in METHODS["volminnet"].words


def test_the_volume_has_its_gradient():
    loss = VolMinNet(K, weight=1.0)
    w = torch.tensor(np.random.default_rng(3).normal(size=(S, K, K)), requires_grad=True)
    v, y = stack().detach(), indices()
    assert torch.autograd.gradcheck(lambda w: loss(v, y, w), (w,))
    with pytest.raises(ValueError, match=r"learned: expected the numbers that T is made of, as start\(\) gives them"):
        loss(v, y, None)


def test_a_learned_transition_approaches_the_one_that_made_the_labels():
    """Given the true probabilities, gradient descent on the risk finds T."""
    rng = np.random.default_rng(0)
    T = np.array([[0.7, 0.1, 0.2], [0.2, 0.8, 0.1], [0.1, 0.1, 0.7]])
    z = rng.integers(0, 3, 6000)
    y = torch.as_tensor(tp.Transition(T).sample(z, 0))[None]
    v = 20 * torch.eye(3)[torch.as_tensor(z)][None]
    loss = METHODS["adapted"].build(tp.symmetric_noise(3, 0.3))
    learned = loss.start(1, torch.device("cpu")).requires_grad_()
    for _ in range(150):
        (slope,) = torch.autograd.grad(loss(v, y, learned).sum(), learned)
        learned = (learned - 5 * slope).detach().requires_grad_()
    assert np.abs(loss.log_transition(learned)[0].exp().detach().numpy() - T).max() < 0.03
