"""Soft labels: shares of labels mean what a label drawn by them means, for every kind of label and every loss."""

import numpy as np
import pandas as pd
import pytest
import torch

import tproper as tp
from tproper.transitions import hard_labels

from .registry import LOSSES, TRANSITIONS, centred, inside, random_columns

BATCH = {"ga": tp.GradientAscentLoss, "nonnegative": tp.NonNegativeLoss}
SCORES = {f"forward {s}": s for s in ("brier", "spherical", "tsallis:1.5")}
LISTED = [name for name in TRANSITIONS if "annotator" not in name]
R_EXISTS = [name for name in LISTED if TRANSITIONS[name]().diagnose().reconstructible]


def shares(T: tp.Transition, n: int, seed: int = 0) -> np.ndarray:
    """Shares of the labels that can occur; some are zero."""
    rng = np.random.default_rng(seed)
    s = rng.dirichlet(np.ones(T.num_weak_labels), n) * (rng.random((n, T.num_weak_labels)) < 0.8) + 1e-3
    s *= T.matrix().max(axis=1) > 0
    return s / s.sum(axis=1, keepdims=True)


def of_labels(loss: torch.nn.Module, v: torch.Tensor, s: np.ndarray) -> torch.Tensor:
    """``sum_y s_y l(v, y)``, label by label."""
    out = torch.zeros(())
    for y, label in enumerate(hard_labels(loss.transition)):
        if s[:, y].any():
            each = loss.evaluate(v, label.expand(len(v), *label.shape))
            out = out + torch.as_tensor(s[:, y]).reshape(-1, *[1] * (each.ndim - 1)) * each
    return out


@pytest.mark.parametrize("name", R_EXISTS)
@pytest.mark.parametrize("kind", [*LOSSES, *BATCH, *SCORES])
def test_the_loss_of_shares_is_the_mean_of_the_losses_of_labels(name, kind):
    T = TRANSITIONS[name]()
    if kind in SCORES:
        loss = tp.ForwardLoss(T, score=SCORES[kind], reduction="none")
    else:
        loss = BATCH[kind](T) if kind in BATCH else LOSSES[kind](T)
    s, v = shares(T, 4), centred(4, T.num_classes, seed=1)
    torch.testing.assert_close(loss.evaluate(v, tp.SoftLabels(s)), of_labels(loss, v, s))
    certain = np.eye(T.num_weak_labels)[s.argmax(axis=1)]
    torch.testing.assert_close(
        loss.evaluate(v, tp.SoftLabels(certain)), loss.evaluate(v, hard_labels(T)[torch.as_tensor(s.argmax(axis=1))])
    )
    if kind not in BATCH:  # what a solver calls, and autograd
        both = loss.bind(T.encode(tp.SoftLabels(s)))
        x = v.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(loss.evaluate(x, tp.SoftLabels(s)).sum(), x)
        torch.testing.assert_close(both(v), (of_labels(loss, v, s), gradient))


@pytest.mark.parametrize("name", R_EXISTS)
def test_targets_and_scores_are_linear_in_the_shares(name):
    T = TRANSITIONS[name]()
    R, s = T.reconstruction(), shares(T, 6)
    np.testing.assert_allclose(R.targets(tp.SoftLabels(s)).numpy(), s @ R.matrix().T, atol=1e-12)
    q = inside(6, T.num_classes).numpy()
    expected = (s @ R.matrix().T * ((q**2).sum(1, keepdims=True) - 2 * q + 1)).sum(1).mean()
    assert tp.weak_brier(tp.SoftLabels(s), q, T).value == pytest.approx(expected)


@pytest.mark.parametrize("name", ["forward", "backward", "gLS 1, 2"])
def test_the_mean_of_losses_is_proper_and_the_loss_of_the_mixture_is_not(name):
    """E[s | z] = T e_z: shares of another spread than a single label's have the same risk, and so the same minimum."""
    T = tp.Transition(random_columns(3, 3, seed=4))
    loss = LOSSES[name](T)
    for p in inside(50, 3, seed=5):
        s = (T.matrix() @ p.numpy())[None]  # the mean of every such labelling
        v = loss.scores_of(p[None]).clone().requires_grad_()
        (slope,) = torch.autograd.grad(loss(v, tp.SoftLabels(s)).sum(), v)
        assert float(slope.abs().max()) < 1e-9
    # T = I: the mixture's loss -log sum_y s_y p_y is least with all of p on the largest share, not at p = s
    s = torch.tensor([0.6, 0.3, 0.1], dtype=torch.float64)
    mixture = lambda p: -torch.log(p @ s)  # noqa: E731
    assert mixture(torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)) < mixture(s) - 0.2
    mean = tp.ForwardLoss(tp.identity(3))
    assert mean(s.log()[None], tp.SoftLabels(s[None])) < mean(torch.tensor([[9.0, 0, 0]]), tp.SoftLabels(s[None]))


def test_shares_of_several_annotators_are_those_of_their_joint_answers():
    T = tp.annotators([tp.symmetric_noise(3, 0.3), tp.Transition(random_columns(2, 3, seed=5))])
    s = np.zeros((5, 2, 3))
    s[:, 0], s[:, 1, :2] = shares(tp.identity(3), 5), shares(tp.identity(2), 5, seed=1)
    s[0, 1] = np.nan
    v = centred(5, 3)
    for loss in (tp.ForwardLoss(T, reduction="none"), tp.BackwardLoss(T, reduction="none")):
        want = torch.zeros(5, dtype=torch.float64)
        for i in range(5):
            for a in range(3):
                for b in [-1] if i == 0 else [0, 1]:
                    share = s[i, 0, a] * (1.0 if b < 0 else s[i, 1, b])
                    want[i] += share * float(loss(v[i : i + 1], [[a, b]]))
        torch.testing.assert_close(loss(v, tp.SoftLabels(s)), want)
    s[0, 0, 0] = np.nan
    with pytest.raises(tp.InputError, match="shares"):
        tp.SoftLabels(s)


def test_each_example_may_have_its_own_transition():
    rng = np.random.default_rng(0)
    T = torch.as_tensor(np.stack([random_columns(4, 3, seed) for seed in range(5)]))
    s, v = rng.dirichlet(np.ones(4), 5), centred(5, 3)
    loss = tp.ForwardLoss(tp.Transition(random_columns(4, 3, 9)), reduction="none")
    want = sum(torch.as_tensor(s[:, y]) * loss(v, torch.full((5,), y), transitions=T) for y in range(4))
    torch.testing.assert_close(loss(v, tp.SoftLabels(s), transitions=T), want)


@pytest.fixture(scope="module")
def problem():
    """Features, classes, T, and an annotator's confidence in each class: right on average, E[s | z] = T e_z."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 4))
    p = torch.softmax(torch.as_tensor(2 * X @ rng.normal(size=(4, 3))), 1).numpy()
    z = (p.cumsum(1) > rng.random((1500, 1))).argmax(1)
    noisy = tp.symmetric_noise(3, 0.2)
    s = 0.7 * np.eye(3)[noisy.sample(z, 1)] + 0.3 / 3
    return X, z, tp.Transition(0.7 * noisy.matrix() + 0.1), s, p


@pytest.mark.parametrize(
    "settings", [{}, {"loss": "gls"}, {"loss": "ga", "epochs": 20}, {"model": "mlp", "epochs": 20}]
)
def test_a_classifier_learns_from_soft_labels(problem, settings):
    X, z, T, s, p = problem
    clf = tp.WeakLabelClassifier(T, random_state=0, **settings).fit(X, tp.SoftLabels(s))
    less = 0.08 if settings.get("loss") == "ga" else 0.03  # a heuristic, after few epochs
    assert (clf.predict(X) == z).mean() > (p.argmax(1) == z).mean() - less
    score = clf.score(X, tp.SoftLabels(s))
    assert score == pytest.approx((clf.predict(X) == z).mean(), abs=0.06)


def test_columns_are_met_by_name(problem):
    X, z, _, s, _ = problem
    frame = pd.DataFrame(s, columns=["cat", "dog", "ant"])
    clf = tp.WeakLabelClassifier("symmetric:0.2").fit(X, tp.SoftLabels(frame))
    assert clf.classes_.tolist() == ["ant", "cat", "dog"]
    assert (clf.predict(X) == np.array(["cat", "dog", "ant"])[z]).mean() > 0.7
    with pytest.raises(tp.InputError, match="shares"):
        tp.WeakLabelClassifier("symmetric:0.2", classes=["cat", "dog", "owl"]).fit(X, tp.SoftLabels(frame))


def test_columns_of_a_table_are_found_by_their_prefix(problem):
    X, _, _, s, _ = problem
    table = pd.DataFrame(X, columns=list("wxyz")).assign(p_cat=s[:, 0], p_dog=s[:, 1], p_ant=s[:, 2])
    soft = tp.SoftLabels.from_frame(table)
    assert soft.names == ["cat", "dog", "ant"]
    np.testing.assert_array_equal(soft.numpy(), s)
    with pytest.raises(tp.InputError):
        tp.SoftLabels.from_frame(table, prefix="q_")


def test_known_classes_join_soft_labels(problem):
    X, z, T, s, p = problem
    true = np.where(np.arange(len(z)) % 5 == 0, z, -1)
    clf = tp.WeakLabelClassifier(T).fit(X, tp.SoftLabels(s), true=true)
    assert (clf.predict(X) == z).mean() > (p.argmax(1) == z).mean() - 0.03
    estimated = tp.estimate_transition(tp.SoftLabels(s), z)
    assert np.abs(estimated.matrix() - T.matrix()).max() < 0.05


def test_class_shares_come_from_the_mean(problem):
    _, z, T, s, _ = problem
    found = tp.weak_prevalence(tp.SoftLabels(s), T)
    exact = np.bincount(z) / len(z)
    assert np.abs(found.value - exact).max() < 4 * found.stderr.max()
    hard = tp.weak_prevalence(tp.SoftLabels(s).draw(0), T)
    assert (found.stderr < hard.stderr).all()  # shares say more than a label drawn by them


def test_drawn_labels_have_the_shares():
    s = np.array([[0.2, 0.0, 0.8], [1.0, 0.0, 0.0]])
    drawn = tp.SoftLabels(np.repeat(s, 4000, axis=0)).draw(1)
    assert np.bincount(drawn[:4000], minlength=3)[1] == 0
    assert (drawn[:4000] == 2).mean() == pytest.approx(0.8, abs=0.03)
    assert (drawn[4000:] == 0).all()


@pytest.mark.parametrize("given", [[0.5, 0.5], [[0.5, 0.6]], [[1.5, -0.5]], [[np.nan, 1.0]], [["a", "b"]], [[]]])
def test_what_is_no_share_is_refused(given):
    with pytest.raises(tp.InputError) as error:
        tp.SoftLabels(given)
    assert error.value.argument == "shares"


def test_soft_labels_are_never_guessed_and_never_taken_for_others():
    s = np.array([[0.5, 0.5], [0.1, 0.9]])
    T = tp.symmetric_noise(2, 0.1)
    with pytest.raises(tp.InputError):
        tp.ForwardLoss(T)(torch.zeros(2, 2), s)
    with pytest.raises(tp.InputError):
        tp.ForwardLoss(T)(torch.zeros(2, 2), tp.SoftLabels(np.full((2, 3), 1 / 3)))
    for refused in (lambda y: tp.check_transition(y, T), tp.estimate_annotators):
        with pytest.raises(tp.InputError, match=r"draw\(seed\)"):
            refused(tp.SoftLabels(s))
