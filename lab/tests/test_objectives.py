"""The stacked objectives are the core's losses, trial by trial; the scores are scikit-learn's."""

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

import tproper as tp
from tproper_lab.objectives import Objective
from tproper_lab.protocol import LOSSES
from tproper_lab.results import probability_scores

K = 5
TRIALS = [("bc", 0.0, 2.0), ("ga", 0.0, 2.0), ("gls", 0.7, 2.0), ("forward", 0.0, 2.0), ("gls", 0.3, 1.2)]


def core_loss(loss, k, alpha):
    transition = tp.complementary(K)
    if loss == "ga":
        return tp.GradientAscentLoss(transition)
    if loss == "forward":
        return tp.ForwardLoss(transition)
    return tp.BackwardLoss(transition, squeeze=(k, alpha) if loss == "gls" else None)


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(len(TRIALS), 40, K, generator=generator)
    labels = torch.randint(0, K, (len(TRIALS), 40), generator=generator)
    return scores, labels


def stacked_risk(scores, labels, trials):
    transition = tp.complementary(K)
    objective = Objective(transition.matrix(), transition.reconstruction().matrix(), torch.device("cpu"))
    kind = torch.tensor([LOSSES.index(loss) for loss, _, _ in trials])
    k = torch.tensor([k for _, k, _ in trials])
    alpha = torch.tensor([alpha for _, _, alpha in trials])
    return objective(scores, labels, kind, k, alpha)


def test_stacked_risks_and_gradients_are_the_core_losses(batch):
    scores, labels = batch
    scores.requires_grad_()
    risks = stacked_risk(scores, labels, TRIALS)
    (gradient,) = torch.autograd.grad(risks.sum(), scores)
    for s, trial in enumerate(TRIALS):
        alone = scores[s].detach().double().requires_grad_()
        risk = core_loss(*trial)(alone, labels[s])
        (expected,) = torch.autograd.grad(risk, alone)
        assert risks[s].item() == pytest.approx(risk.item(), rel=1e-5), trial
        assert torch.allclose(gradient[s].double(), expected, rtol=1e-4, atol=1e-6), trial


def test_a_trial_does_not_feel_its_neighbours(batch):
    scores, labels = batch
    together = stacked_risk(scores, labels, TRIALS)
    for s, trial in enumerate(TRIALS):
        alone = stacked_risk(scores[s : s + 1], labels[s : s + 1], [trial])
        assert together[s] == alone[0]


def test_planted_fault_a_transposed_target_is_noticed(batch):
    scores, labels = batch
    wrong = Objective(
        np.eye(K)[::-1].copy(), tp.complementary(K).reconstruction().matrix(), torch.device("cpu")
    )  # forward with another T
    trial = torch.tensor([LOSSES.index("forward")])
    risk = wrong(scores[:1], labels[:1], trial, torch.zeros(1), torch.full((1,), 2.0))
    assert abs(risk.item() - core_loss("forward", 0, 2)(scores[0], labels[0]).item()) > 0.1


def test_probability_scores_are_scikit_learns():
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(K), 500)
    y = rng.integers(0, K, 500)
    found = probability_scores(torch.from_numpy(p), torch.from_numpy(y))
    assert found["log_loss"] == pytest.approx(log_loss(y, p))
    assert found["brier"] == pytest.approx(((p - np.eye(K)[y]) ** 2).sum(1).mean())
    assert found["zeros"] == 0


def test_calibration_error_by_hand():
    # three predictions of confidence .9 (bin 14), two of them right; one of .55 (bin 9), wrong
    p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9], [0.55, 0.45]], dtype=torch.float64)
    y = torch.tensor([0, 0, 0, 1])
    expected = (abs(2 - 2.7) + 0.55) / 4
    assert probability_scores(p, y)["ece"] == pytest.approx(expected)


def test_a_zero_probability_of_the_truth_is_counted_and_finite():
    found = probability_scores(torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([1, 0]))
    assert found["zeros"] == 1
    assert found["log_loss"] == pytest.approx((24 * np.log(2) + np.log(2)) / 2)
