"""Several annotators: what holds for rows in which answers are missing, and for more rows than can be listed."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.transitions import transition_from_dict, transition_to_dict

from .registry import LOSSES, centred, random_columns


def crowd(m=3, K=3, seed=0, M=None):
    """Annotators with random T, better than chance."""
    M = K if M is None else M
    mixed = [0.6 * np.eye(M, K) + 0.4 * random_columns(M, K, seed + a) for a in range(m)]
    return tp.annotators([tp.Transition(T / T.sum(axis=0)) for T in mixed])


def patterns(m):
    """All subsets of annotators but the empty one."""
    return [[a for a in range(m) if s >> a & 1] for s in range(1, 2**m)]


def rows_of(T, answered):
    """Every row of answers in which only these annotators answered."""
    rows = np.unique(np.where(np.isin(np.arange(len(T.sizes)), answered), T.weak_labels, -1), axis=0)
    return rows, torch.stack([torch.as_tensor(T.transitions[a].matrix())[rows[:, a]] for a in answered]).prod(0)


@pytest.mark.parametrize("answered", patterns(3), ids=str)
def test_targets_are_unbiased_whatever_answers_are_missing(answered):
    T = crowd()
    rows, probability = rows_of(T, answered)
    for method in ("auto", "min_variance", "pinv"):
        targets = T.reconstruction(method).targets(rows)
        assert torch.allclose(targets.T @ probability, torch.eye(3, dtype=torch.float64), atol=1e-12)
        assert torch.allclose(targets.sum(-1), torch.ones(len(rows), dtype=torch.float64))


@pytest.mark.parametrize("answered", patterns(3), ids=str)
def test_forward_loss_is_the_sum_over_classes(answered):
    T = crowd(seed=5)
    rows, probability = rows_of(T, answered)
    v = centred(len(rows), 3, scale=3.0)
    want = -(probability * torch.softmax(v, -1)).sum(-1).log()
    assert torch.allclose(tp.ForwardLoss(T, reduction="none")(v, rows), want, atol=1e-12)


def test_no_other_mixture_of_the_answers_has_less_variance():
    T = crowd(m=2, seed=3)
    rows, joint = rows_of(T, [0, 1])
    own = [t.reconstruction().targets(rows[:, a]) for a, t in enumerate(T.transitions)]
    spread = [
        float((joint.mean(1) * (w * own[0] + (1 - w) * own[1]).square().sum(-1)).sum()) for w in np.linspace(0, 1)
    ]
    best = float((joint.mean(1) * T.reconstruction().targets(rows).square().sum(-1)).sum())
    assert best <= min(spread)
    assert best == pytest.approx(min(spread), rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_row_without_answers_says_nothing(loss):
    module = LOSSES[loss](crowd())
    v = centred(2, 3).requires_grad_()
    out = module(v, [[-1, -1, -1], [0, -1, 2]])
    assert out[0] == 0
    (gradient,) = torch.autograd.grad(out.sum(), v)
    assert not gradient[0].any()
    assert gradient[1].any()


def test_a_target_without_answers_is_uniform():
    assert tp.annotators([tp.symmetric_noise(4, 0.2)] * 2).reconstruction().targets([[-1, -1]]).tolist() == [[0.25] * 4]


def test_an_annotator_who_cannot_tell_classes_apart_is_left_out_of_the_mixture():
    coarse = tp.coarse_labels([[0, 1], [2]])
    T = tp.annotators([tp.symmetric_noise(3, 0.2), coarse])
    R = T.reconstruction()
    assert R.left_out == [1]
    assert "annotators [1]" in repr(R)
    assert torch.allclose(R.targets([[1, 0]]), R.targets([[1, -1]]))
    assert tp.BackwardLoss(T, reduction="none")(centred(1, 3), [[-1, 0]]).item() == 0
    assert tp.ForwardLoss(T, reduction="none")(centred(1, 3), [[-1, 0]]).item() > 0


def test_annotators_who_can_do_it_only_together():
    T = tp.annotators([tp.coarse_labels([[0], [1, 2]]), tp.coarse_labels([[1], [0, 2]])])
    targets = T.reconstruction().targets([[0, 1], [1, 0], [1, 1], [0, -1]])
    assert torch.allclose(targets[:3], torch.eye(3, dtype=torch.float64), atol=1e-9)
    assert torch.allclose(targets[3], torch.full((3,), 1 / 3, dtype=torch.float64))
    with pytest.raises(tp.NotReconstructibleError, match="use 'auto', or ForwardLoss"):
        tp.annotators(T.transitions * 8).reconstruction()
    with pytest.raises(ValueError, match="expected an answer from every annotator, got a missing one at row 1"):
        tp.Reconstruction(T.reconstruction().matrix(), T).targets([[0, 0], [0, -1]])


@pytest.mark.parametrize("potential", [tp.Brier(), tp.LogSumExp().squeezed(1.0, 2.0), tp.LogSumExp()])
def test_no_row_complete_or_not_falls_below_the_certified_bound(potential):
    T = crowd(seed=8)
    loss = tp.BackwardLoss(T, potential=potential, reduction="none")
    certificate = loss.certify()
    least = min(bound for _, bound in certificate.groups)
    rows = np.concatenate([rows_of(T, answered)[0] for answered in patterns(3)])
    exact = -potential.conjugate(loss.reconstruction.targets(rows))
    assert float(exact.min()) == pytest.approx(least, rel=1e-12)
    assert certificate.lower_bounded == math.isfinite(least)
    many = tp.BackwardLoss(tp.annotators(T.transitions * 10), potential=potential).certify()
    assert many.lower_bounded == certificate.lower_bounded
    if certificate.lower_bounded:
        assert min(bound for _, bound in many.groups) == pytest.approx(least)


def test_hundreds_of_annotators():
    m, K, n = 300, 5, 64
    T = crowd(m, K)
    y = np.arange(n) % K
    answers = T.sample(y, seed=1)
    answers[np.random.default_rng(2).random((n, m)) < 0.9] = -1
    assert T.diagnose().reconstructible
    assert "about 10^210" in str(T.diagnose())
    v = torch.zeros(n, K, requires_grad=True)
    out = tp.ForwardLoss(T, reduction="none")(v, answers)
    (gradient,) = torch.autograd.grad(out.sum(), v)
    assert torch.isfinite(out).all()
    assert (gradient.argmin(-1).numpy() == y).mean() > 0.95  # p - posterior
    assert tp.weak_accuracy(answers, y, T).value == pytest.approx(1.0, abs=0.1)
    assert tp.ForwardLoss(T).lower_bounds().shape == (m * K,)
    assert tp.certify(tp.ForwardLoss(T)).lower_bounded
    with pytest.raises(ValueError, match="listed up to 4096 of them, got about 10"):
        T.matrix()


def test_classes_that_no_annotator_tells_apart():
    coarse = tp.Transition([[0.8, 0.8, 0.3], [0.2, 0.2, 0.7]])
    for m in (2, 20):
        diagnosis = tp.annotators([coarse] * m).diagnose()
        assert diagnosis.rank == 2
        assert diagnosis.confused_classes() == [[0, 1]]


def test_answers_that_exclude_a_class_have_exact_zeros():
    T = tp.annotators([tp.complementary(3)] * 2)
    loss = tp.ForwardLoss(T, reduction="none")
    v = torch.zeros(1, 3, requires_grad=True)
    assert loss(v, [[0, 1]]).item() == pytest.approx(-math.log(1 / 12), rel=1e-6)
    (gradient,) = torch.autograd.grad(loss(v, [[0, 1]]).sum(), v)
    assert torch.allclose(gradient, torch.tensor([[1 / 3, 1 / 3, -2 / 3]]))
    many = tp.annotators([tp.identity(2)] * 2)
    out = tp.ForwardLoss(many, reduction="none")(v[:, :2], [[0, 1]])
    assert torch.isposinf(out).all()


def test_scores_leave_rows_without_answers_out():
    T, rng = crowd(3, 4), np.random.default_rng(0)
    z = rng.integers(0, 4, 4000)
    answers = T.sample(z, seed=1)
    answers[rng.random(answers.shape) < 0.6] = -1
    heard = (answers >= 0).any(axis=1)
    assert not heard.all()
    predictions = np.where(rng.random(4000) < 0.8, z, (z + 1) % 4)
    q = np.full((4000, 4), 0.1) + 0.6 * np.eye(4)[predictions]
    for score, given in ((tp.weak_accuracy, predictions), (tp.weak_log_loss, q), (tp.weak_brier, q)):
        everything, some = score(answers, given, T), score(answers[heard], given[heard], T)
        assert everything.value == pytest.approx(some.value, rel=1e-12)
        assert everything.stderr == pytest.approx(some.stderr, rel=1e-3)
    accuracy = tp.weak_accuracy(answers, predictions, T)
    assert accuracy.interval[0] < (predictions == z).mean() < accuracy.interval[1]
    whole = tp.weak_calibration(answers, q, T, bins=5).value
    assert whole == pytest.approx(tp.weak_calibration(answers[heard], q[heard], T, bins=5).value, rel=0.05)
    with pytest.raises(ValueError, match="expected at least one row with an answer"):
        tp.weak_accuracy([[-1, -1, -1]] * 2, [0, 1], T)


def test_the_monitor_knows_the_bound_of_incomplete_rows():
    T = crowd()
    for loss in (tp.ForwardLoss(T), tp.BackwardLoss(T, squeeze=(1.0, 2.0))):
        monitor = tp.LossMonitor(loss, every=1)
        labels = np.array([[0, -1, 1], [-1, -1, -1], [2, 2, 2]])
        v = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([v], max_iter=300, line_search_fn="strong_wolfe", tolerance_grad=1e-10)

        def closure(v=v, loss=loss, labels=labels, optimiser=optimiser):
            optimiser.zero_grad()
            value = loss(v, labels)
            value.backward()
            return value

        optimiser.step(closure)
        value = loss(v.detach(), labels)
        monitor.update(value, labels)
        assert float(value) == pytest.approx(float(monitor.history["bound"][0]), abs=2e-3)
        assert not monitor.alarm
        assert monitor.bound <= float(monitor.history["bound"][0])


@pytest.mark.parametrize("loss", ["forward", "backward", "gLS 1, 2"])
def test_compiled_vmapped_and_in_single_precision(loss):
    module = LOSSES[loss](crowd())
    v, y = centred(4, 3), torch.tensor([[0, 1, -1], [2, 2, 2], [-1, -1, -1], [1, -1, 0]])
    assert torch.allclose(torch.func.vmap(module)(v, y), module(v, y))
    assert torch.allclose(module(v.float(), y).double(), module(v, y), atol=1e-6)
    torch._dynamo.reset()
    assert torch.allclose(torch.compile(module, backend="eager", fullgraph=True)(v, y), module(v, y))
    assert torch.autograd.gradcheck(lambda v: module(v, y), v.requires_grad_(), atol=1e-6)


def test_plain_data_is_exact():
    T = tp.annotators([tp.symmetric_noise(3, 0.1), tp.Transition.from_counts([[5, 1, 0], [2, 3, 1], [0, 0, 9]])])
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert again.same_as(T)
    assert again.name == T.name
    assert isinstance(again.transitions[1], tp.EstimatedTransition)
    assert not again.same_as(tp.annotators(T.transitions[::-1]))


@pytest.mark.parametrize("settings", [{}, {"loss": "backward", "potential": "brier"}, {"model": "mlp", "epochs": 30}])
def test_the_classifier_takes_answers(settings, tmp_path):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 600)
    X = 2 * np.eye(3)[z] + 0.5 * rng.normal(size=(600, 3))
    T = crowd()
    answers = T.sample(z, seed=1)
    answers[rng.random(answers.shape) < 0.3] = -1
    model = tp.WeakLabelClassifier(T, random_state=0, **settings).fit(X, answers)
    assert (model.predict(X) == z).mean() > 0.95
    assert model.score(X, answers) == pytest.approx((model.predict(X) == z).mean(), abs=0.1)
    tp.save(model, tmp_path / "model.tproper")
    again = tp.load(tmp_path / "model.tproper")
    assert np.array_equal(again.predict_proba(X), model.predict_proba(X))
    names = np.array(["cat", "dog", "owl"], dtype=object)
    named = np.where(answers < 0, None, names[answers])
    by_name = tp.WeakLabelClassifier(T.named(names.tolist()), random_state=0, **settings).fit(X, named)
    assert by_name.classes_.tolist() == ["cat", "dog", "owl"]
    assert np.allclose(by_name.predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_names_that_nobody_knows():
    T = tp.annotators([tp.symmetric_noise(2, 0.1)] * 2)
    model = tp.WeakLabelClassifier(T, classes=["a", "b"])
    with refused("y"):
        model.fit(np.eye(3), np.array([["a", None], ["b", "b"], ["a", "c"]], dtype=object))
    with refused("y"):
        model.fit(np.eye(3), ["a", "b", "a"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([[0, 1]], r"^labels: expected the answers of 3 annotators \(n, 3\), got shape \(1, 2\)$"),
        ([0, 1], r"^labels: expected the answers of 3 annotators \(n, 3\), got shape \(2,\)$"),
        ([[0, 1, 3]], r"^labels: expected answers in \[0, 3\), or -1 for none, from annotator 2, got 3 at row 0$"),
        ([[0, 0, 0], [0, -2, 1]], r"^labels: .* from annotator 1, got -2 at row 1$"),
        (
            [[0.0, 1.0, math.nan]],
            r"^labels: expected integers in \[0, 3\), got dtype float64 .*; give -1 where there is no answer$",
        ),
        ([["a", "b", "c"]], r"^labels: expected numbers, got"),
        (np.empty((0, 3), dtype=int), r"^labels: expected at least one label, got an empty batch$"),
    ],
)
def test_labels_that_are_no_answers(labels, message):
    with pytest.raises(ValueError, match=message):
        crowd().encode(labels)


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        ([], "transitions"),
        (tp.identity(3), "transitions"),
        ([np.eye(3)], "transitions"),
        ([tp.partial_labels(3, 0.1)], "transitions"),
        ([tp.identity(3), tp.identity(4)], "transitions"),
    ],
)
def test_annotators_that_are_none(transitions, message):
    with refused(message):
        tp.annotators(transitions)


def test_annotators_may_come_from_a_generator():
    assert tp.annotators(tp.identity(3) for _ in range(2)).label_shape == (2,)


@pytest.mark.parametrize("shape", [(40,), (2, 20)])
def test_answers_are_summed_alike_whether_few_or_many_are_given(shape, monkeypatch):
    T = tp.annotators(crowd(m=5).transitions * 4)
    labels = torch.as_tensor(T.sample(np.zeros(shape, dtype=int), 0))
    labels[torch.as_tensor(np.random.default_rng(0).random(labels.shape) < 0.9)] = -1
    R = T.reconstruction()
    found = []
    for share in (0.0, 1.0):  # below which only those given are looked at
        monkeypatch.setattr(sys.modules[type(T).__module__], "SPARSE", share)
        found.append((R.targets(labels), T.evidence(labels).logs(torch.float64)))
        assert found[-1][0].shape == (*shape, 3)
    torch.testing.assert_close(found[0], found[1], rtol=1e-13, atol=1e-13)
