"""Scores that are no numbers are refused with their row, and training that leaves the numbers is undone."""

import numpy as np
import pytest
import torch
from torch import nn

import tproper as tp
from tproper.data.stream import Learner
from tproper.learn.classifier import WeakLabelClassifier

K, D = 3, 4
RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, D))
Y = tp.complementary(K).sample(RNG.integers(K, size=60), seed=0)
ASKED = ("predict_proba", "predict", "decision_function")


def classifier(model="linear", **options):
    return WeakLabelClassifier(tp.complementary(K), model=model, device="cpu", random_state=0, epochs=2, **options)


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("value", [1.7e308, -1.7e308])
def test_numbers_too_large_are_refused_with_their_row(ask, value):
    fitted = classifier().fit(X, Y)
    fitted.module_.weight.data *= 100  # the product overflows
    rows = X.copy()
    rows[5] = value
    with pytest.raises(ValueError, match=r"X: expected rows with finite scores, got .* at row 5: .* too large"):
        getattr(fitted, ask)(rows)
    getattr(fitted, ask)(np.delete(rows, 5, axis=0))


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("model", ["linear", "mlp", lambda d, k: nn.Linear(d, k)])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_model_with_weights_that_are_none_is_refused(ask, model, value):
    fitted = classifier(model).fit(X, Y)
    next(fitted.module_.parameters()).data.fill_(value)
    with pytest.raises(ValueError, match=r"got nan at row 0: the model's weights are not finite; train it again"):
        getattr(fitted, ask)(X)


class Masked(nn.Module):
    """Never says class 0."""

    def __init__(self, d, k):
        super().__init__()
        self.layer = nn.Linear(d, k)
        self.register_buffer("mask", torch.tensor([-torch.inf] + [0.0] * (k - 1)), persistent=False)

    def forward(self, x):
        return self.layer(x) + (0 if self.training else self.mask)


def test_a_module_of_the_callers_may_mask_classes():
    fitted = WeakLabelClassifier(None, model=Masked, loss=nn.CrossEntropyLoss(), epochs=1, random_state=0, device="cpu")
    fitted.fit(X, RNG.integers(K, size=60))
    p = fitted.predict_proba(X)
    assert (p[:, 0] == 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert (fitted.predict(X) > 0).all()
    with pytest.raises(ValueError, match="X: expected rows with finite scores"):
        fitted.decision_function(X)


def state(model):
    optimizer = model.optimizer_.state_dict()["state"]
    weights = [t.clone() for t in model.module_.state_dict().values()]
    return [*weights, *(t.clone() for s in optimizer.values() for t in s.values())]


@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_partial_fit_that_diverges_is_undone(model):
    """Afterwards everything goes on as if the call had never been."""
    tried, untouched = classifier(model, loss="backward"), classifier(model, loss="backward")
    for one in (tried, untouched):
        one.partial_fit(X, Y)
    before = state(tried)
    for group in tried.optimizer_.param_groups:
        group["lr"] = 1e37 if model == "mlp" else 1e307
    lr = [g["lr"] for g in tried.optimizer_.param_groups]
    says = r"got a step that diverged .*; the model is as it was before this call"
    with pytest.raises(ValueError, match=says):  # noqa: PT012
        for _ in range(50):
            tried.partial_fit(X, Y)
            before = state(tried)  # what it was before the call that failed
    assert all(torch.equal(a, b) for a, b in zip(before, state(tried), strict=True))
    assert [g["lr"] for g in tried.optimizer_.param_groups] == lr
    assert np.isfinite(tried.predict_proba(X[:1] * 0)).all()


def test_after_a_refused_call_the_next_is_as_if_it_had_not_been():
    tried, untouched = classifier(), classifier()
    for one in (tried, untouched):
        one.partial_fit(X, Y)
    huge = np.full_like(X, 1e300)
    with pytest.raises(ValueError, match="diverged"):
        tried.partial_fit(huge, Y)
    for one in (tried, untouched):
        one.partial_fit(X, Y)
    assert all(torch.equal(a, b) for a, b in zip(state(tried), state(untouched), strict=True))
    assert tried.n_iter_ == untouched.n_iter_ == 2
    assert len(tried.history_) == 2


def test_a_first_call_that_diverges_leaves_an_unfitted_model():
    model = classifier()
    settings = dict(vars(model))
    with pytest.raises(ValueError, match="diverged"):
        model.partial_fit(np.full_like(X, 1e308), Y)
    assert vars(model) == settings


def test_a_learner_makes_no_step_from_a_loss_that_is_none():
    torch.manual_seed(0)
    module = nn.Linear(D, K)
    learner = Learner(module, tp.BackwardLoss(tp.complementary(K)), lambda p: torch.optim.SGD(p, lr=0.1))
    before = [p.detach().clone() for p in module.parameters()]
    with pytest.raises(ValueError, match=r"finite value and gradient, got one that is not .*no step was made"):
        learner.partial_fit(np.full((8, D), 3e38), Y[:8])
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
    reckless = Learner(module, tp.BackwardLoss(tp.complementary(K)), lambda p: torch.optim.SGD(p, lr=3e38))
    with pytest.raises(ValueError, match=r"optimizer: expected finite weights and moments after the step.*spoiled"):
        reckless.partial_fit(X[:8] * 100, Y[:8])
    with pytest.raises(ValueError, match="weights are not finite"):
        reckless.predict_proba(X)


def test_moments_that_overflow_are_said():
    """Adam divides by the root of its second moment: were it infinite, nothing would be learned any more."""
    learner = Learner(nn.Linear(D, K), tp.ForwardLoss(tp.complementary(K)), torch.optim.Adam)
    learner.module.weight.data.zero_()
    with pytest.raises(ValueError, match="got infinite ones; the learner is spoiled"):
        learner.partial_fit(np.full((8, D), 1e30), Y[:8])
