"""The family between forward and backward correction: B T = F, -sum_j B_jy log (F p)_j."""

import numpy as np
import pytest
import torch

import tproper as tp

from .registry import TRANSITIONS, centred, dense, inside, random_columns, table

SQUARE = ["symmetric", "pair", "binary", "complementary", "biased complementary", "positive-unlabeled", "ordinal"]
POSITIVE = random_columns(5, 3, seed=2)  # without zeros: d x K
EVERY = [n for n in TRANSITIONS if "annotator" not in n]


@pytest.mark.parametrize("name", SQUARE)
def test_its_ends_are_forward_and_backward(name):
    T = TRANSITIONS[name]()
    v = centred(6, T.num_classes)
    for middle, loss in ((1.0, tp.ForwardLoss(T)), (0.0, tp.BackwardLoss(T))):
        torch.testing.assert_close(table(tp.ForwardBackwardLoss(T, middle, reduction="none"), v), table_of(loss, v))


def table_of(loss, v):
    loss.reduction = "none"
    return table(loss, v)


@pytest.mark.parametrize("name", EVERY)
def test_expected_risk_is_least_at_p(name):
    T = TRANSITIONS[name]()
    K = T.num_classes
    middles = [np.eye(K), random_columns(K + 2, K, seed=3), 0.3, 0.5]
    for middle in middles:
        loss = tp.ForwardBackwardLoss(T, middle, reduction="none")
        for p in inside(10, K, seed=4):
            q = torch.as_tensor(T.matrix() @ p.numpy())
            v = p.log()[None].clone().requires_grad_()
            risk = (table(loss, v) * q).sum()
            (slope,) = torch.autograd.grad(risk, v)
            assert float(slope.abs().max()) < 1e-9
            others = table(loss, inside(20, K, seed=5).log()) @ q
            assert bool((others >= risk.detach() - 1e-9).all())


@pytest.mark.parametrize("name", ["symmetric", "pair", "complementary", "more labels than classes"])
@pytest.mark.parametrize("middle", [0.5, "positive", "zeros"])
def test_bounds_are_reached_and_never_crossed(name, middle):
    T = TRANSITIONS[name]()
    K = T.num_classes
    if middle == 0.5 and T.num_weak_labels != K:
        middle = "positive"
    F = {"positive": random_columns(4, K, seed=7), "zeros": np.vstack([np.eye(K) / 2, np.full((1, K), 0.5)])}
    loss = tp.ForwardBackwardLoss(T, F.get(middle, middle), reduction="none")
    bounds = loss.lower_bounds()
    far = torch.randn(4000, K, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    values = table(loss, far * torch.logspace(-1, 2, 4000, dtype=torch.float64)[:, None])
    assert bool((values >= torch.as_tensor(bounds) - 1e-7).all())
    for y in np.flatnonzero(np.isneginf(bounds)):  # it does fall, without end
        assert float(values[:, y].min()) < -20
    certificate = loss.certify()
    assert certificate.proper
    assert certificate.lower_bounded == bool(np.isfinite(bounds).all())
    if middle == "positive":
        assert certificate.lower_bounded


def test_the_verdict_on_bounds_needs_all_sets_of_classes():
    """A label whose B is negative on two rows that together, not alone, are inside of a set."""
    T = dense(tp.complementary(3))
    assert not tp.ForwardBackwardLoss(T, 0.0).is_bounded().any()
    assert tp.ForwardBackwardLoss(T, 0.5).is_bounded().all()  # F has no zeros
    assert tp.ForwardBackwardLoss(T, T).is_bounded().all()


def test_it_trains_is_saved_and_takes_soft_labels(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    z = (X @ rng.normal(size=(3, 3))).argmax(1)
    T = tp.symmetric_noise(3, 0.3)
    y = T.sample(z, 1)
    clf = tp.WeakLabelClassifier(T, loss="forward_backward:0.5", calibrate=False).fit(X, y)
    assert (clf.predict(X) == z).mean() > 0.85
    again = tp.load(tp.save(clf, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict_proba(X), clf.predict_proba(X))
    soft = tp.WeakLabelClassifier(T, loss="forward_backward:0.5", calibrate=False).fit(X, tp.SoftLabels(np.eye(3)[y]))
    np.testing.assert_allclose(soft.predict_proba(X), clf.predict_proba(X), atol=1e-6)


def test_gradients_and_masked_classes():
    T = TRANSITIONS["symmetric"]()
    loss = tp.ForwardBackwardLoss(T, 0.5, reduction="none")
    v = centred(3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, torch.tensor([0, 1, 3])), v)
    masked = torch.tensor([[0.3, -torch.inf, 0.1, 0.2]], dtype=torch.float64)
    assert bool(torch.isfinite(loss(masked, torch.tensor([0]))).all())


@pytest.mark.parametrize("middle", [1.5, np.ones((2, 4)), np.full((2, 3), 0.5), "forward"])
def test_a_wrong_middle_is_refused(middle):
    with pytest.raises(tp.InputError) as error:
        tp.ForwardBackwardLoss(tp.symmetric_noise(4, 0.2), middle)
    assert error.value.argument == "middle"
