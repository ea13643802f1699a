"""Laws that every registered method keeps, on every kind of label that it takes; cards; a user's own loss."""

import numpy as np
import pytest
import torch

import tproper as tp
from tproper_lab import METHODS, find_method, from_function, methods_for, register, setting_of
from tproper_lab.deciding import counterexample, with_few_classes
from tproper_lab.methods import SETTINGS, LibraryLoss, StackedLoss

S, N = 3, 5
NOISE = tp.Transition([[0.7, 0.1, 0.0], [0.2, 0.6, 0.3], [0.1, 0.3, 0.7]])
BIASED = tp.complementary(3, weights=[[0, 1, 3], [2, 0, 1], [1, 2, 0]])
KINDS = {
    "complementary": tp.complementary(4),
    "biased complementary": BIASED,
    "multi_complementary": tp.multi_complementary(4, 2),
    "partial": tp.partial_labels(4, 0.4),
    "noisy": NOISE,
    "pu": tp.positive_unlabeled(0.4),
    "annotators": tp.annotators([NOISE, tp.symmetric_noise(3, 0.3)]),
    "complementary answers": tp.annotators([BIASED, tp.complementary(3)]),
    "other": tp.coarse_labels([[0], [1], [2]]),
}
CASES = [(m.name, kind) for kind, T in KINDS.items() for m in methods_for(T)]
DETACHED = {"rc", "proden"}  # their gradient is not the derivative of their value, on purpose: it is that of cc


def problem(name, kind, dtype=torch.float64, scale=1.5):
    """(loss, scores, labels, learned) of a small stack."""
    T = KINDS[kind]
    rng = np.random.default_rng(sum(map(ord, name + kind)))
    v = torch.tensor(rng.normal(0, scale, (S, N, T.num_classes)), dtype=dtype)
    labels = torch.as_tensor(T.sample(rng.integers(0, T.num_classes, (S, N)), seed=1))
    loss = METHODS[name].build(T)
    learned = loss.start(S, v.device)
    if learned is not None:
        learned = learned.to(dtype) + torch.tensor(rng.normal(0, 0.5, learned.shape), dtype=dtype)
    return loss, v, labels, learned


def test_every_method_has_a_case():
    assert {name for name, _ in CASES} == set(METHODS)
    assert {setting_of(T) for T in KINDS.values()} == set(SETTINGS)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_method_keeps_the_protocol(name, kind):
    loss, v, labels, learned = problem(name, kind, torch.float32)
    assert isinstance(loss, StackedLoss)
    risk = loss(v, labels, learned)
    assert risk.shape == (S,)
    assert risk.dtype == torch.float32
    p = loss.probabilities(v, learned)
    assert p.shape == v.shape
    torch.testing.assert_close(p.sum(-1), torch.ones(S, N))
    assert bool((p >= 0).all())


@pytest.mark.parametrize(("name", "kind"), [c for c in CASES if c[0] not in DETACHED])
def test_gradients_are_derivatives(name, kind):
    loss, v, labels, learned = problem(name, kind)
    inputs = (v.requires_grad_(),) if learned is None else (v.requires_grad_(), learned.requires_grad_())
    assert torch.autograd.gradcheck(lambda v, *w: loss(v, labels, *(w or (None,))), inputs, fast_mode=True)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_trial_s_of_a_stack_is_trial_s_alone(name, kind):
    loss, v, labels, learned = problem(name, kind)
    together = loss(v, labels, learned)
    for s in range(S):
        one = slice(s, s + 1)
        alone = loss(v[one], labels[one], None if learned is None else learned[one])
        torch.testing.assert_close(together[one], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_order_of_examples_does_not_matter(name, kind):
    loss, v, labels, learned = problem(name, kind)
    order = torch.tensor([3, 0, 4, 2, 1])
    torch.testing.assert_close(loss(v, labels, learned), loss(v[:, order], labels[:, order], learned))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_common_shift_of_the_scores_does_not_matter(name, kind):
    loss, v, labels, learned = problem(name, kind)
    torch.testing.assert_close(loss(v, labels, learned), loss(v + 3.0, labels, learned), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_extreme_scores_give_finite_risks_and_gradients(name, kind):
    loss, v, labels, learned = problem(name, kind, torch.float32)
    v = (1e4 * v.sign()).requires_grad_()
    risk = loss(v, labels, learned)
    (slope,) = torch.autograd.grad(risk.sum(), v)
    assert bool(torch.isfinite(risk).all())
    assert bool(torch.isfinite(slope).all())


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_nothing_is_read_back_to_the_host(name, kind):
    """Under vmap a value cannot be looked at: what runs there has static shapes and no branch on data."""
    loss, v, labels, learned = problem(name, kind)
    twice = (torch.stack([v, 0.5 * v]), torch.stack([labels, labels.flip(1)]))
    rest = () if learned is None else (torch.stack([learned, -learned]),)
    got = torch.vmap(lambda v, y, *w: loss(v, y, *(w or (None,))))(*twice, *rest)
    for i in range(2):
        expected = loss(twice[0][i], twice[1][i], None if learned is None else rest[0][i])
        torch.testing.assert_close(got[i], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if isinstance(m.make(KINDS["noisy"]), LibraryLoss)])
def test_the_librarys_losses_are_the_librarys_losses(name, kind):
    loss, v, labels, _ = problem(name, kind)
    expected = torch.stack([loss.core(v[s], labels[s]) for s in range(S)])
    torch.testing.assert_close(loss(v, labels, None), expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(loss.probabilities(v, None)[0], loss.core.probabilities(v[0]))


def test_settings_follow_a_colon():
    T = tp.complementary(4)
    loss = find_method("gls:0.3,1.5").build(T)
    assert (loss.core.potential.k, loss.core.potential.alpha) == (0.3, 1.5)
    assert find_method("gls:0.3,1.5").name == "gls:0.3,1.5"
    assert find_method("forward:brier").build(T).core.score.name == "brier"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", "method: expected one of .*scl_nl.*, got 'nonsense'"),
        ("scl_nl:2", "method: expected 'scl_nl' without settings, got 'scl_nl:2'"),
        ("gls:1", "method: expected gls:k,alpha as in 'gls:1,2', got 'gls:1'"),
        ("gce:0", "method: expected gce:q with 0 < q <= 1, as in 'gce:0.7', got 'gce:0'"),
        ("gce:nan", "method: expected gce:q with 0 < q <= 1"),
        ("ls:-1", "method: expected ls:r with 0 <= r <= 1, as in 'ls:0.2', got 'ls:-1'"),
        ("nls:1", "method: expected nls:r with r < 0, as in 'nls:-0.4', got 'nls:1'"),
        ("sce:1", "method: expected sce:alpha,beta with both > 0, as in 'sce:0.1,1', got 'sce:1'"),
        ("forward:what", "what"),
    ],
)
def test_a_wrong_name_is_told(name, message):
    with pytest.raises(ValueError, match=message):
        find_method(name).build(tp.complementary(4))


def test_a_method_refuses_labels_that_it_is_not_for():
    message = r"method: expected one for partial labels \(partial_labels\(4, 0.4\)\), got 'scl_nl', which is for compl"
    with pytest.raises(ValueError, match=message):
        METHODS["scl_nl"].build(KINDS["partial"])
    with pytest.raises(ValueError, match="method: expected one for partial_labels"):
        METHODS["scl_nl"].card(KINDS["partial"])


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="method: expected a name that is not taken, got 'cc'"):
        register(METHODS["cc"])


# Several answers an example.


def test_several_answers_are_averaged_and_missing_ones_left_out():
    T = tp.annotators([NOISE] * 3)
    rng = np.random.default_rng(0)
    v, y = torch.tensor(rng.normal(size=(1, 3, 3))), torch.tensor([[[0, 1, 2], [2, -1, -1], [-1, -1, -1]]])
    losses = -torch.log_softmax(v[0], -1).numpy()
    expected = (losses[0].mean() + losses[1, 2] + 0.0) / 3
    np.testing.assert_allclose(METHODS["ce"].build(T)(v, y, None), [expected], rtol=1e-12)


def test_several_complementary_answers_leave_a_set():
    T = tp.annotators([tp.complementary(4)] * 3)
    v = torch.tensor(np.random.default_rng(0).normal(size=(1, 3, 4)))
    y = torch.tensor([[[0, 1, 1], [2, -1, -1], [-1, -1, -1]]])
    left = torch.tensor([[[0, 0, 1, 1], [1, 1, 0, 1], [1, 1, 1, 1]]], dtype=torch.bool)
    for name in ("mcl_log", "cc", "avg"):
        sets = METHODS[name].make(T).each(v, left).mean(1)
        torch.testing.assert_close(METHODS[name].build(T)(v, y, None), sets)
    five = tp.annotators([tp.complementary(4)] * 4)
    everything = torch.tensor([[[0, 1, 2, 3]]])  # excluded: then nothing is
    assert METHODS["cc"].build(five)(v[:, :1], everything, None).item() == pytest.approx(0.0, abs=1e-12)


# Cards.


def expected_risk(method, T, p, q):
    """E_{y ~ T p} loss(q, y), by the method itself: the scores log q, one example a label."""
    labels = np.arange(T.num_weak_labels)
    if T.per_class_labels:
        labels = np.array([[z in s for z in range(T.num_classes)] for s in T.weak_labels])
    scores = torch.tensor(np.log(q)).expand(len(labels), 1, len(q))
    losses = method.build(T)(scores, torch.as_tensor(labels)[:, None], None)
    return float((T.matrix() @ p) @ losses.numpy())


@pytest.mark.parametrize(
    ("name", "T", "proper", "bounded"),
    [
        ("scl_nl", tp.complementary(3), True, True),
        ("scl_exp", tp.complementary(3), False, True),
        ("op", tp.complementary(3), False, True),
        ("cc", tp.partial_labels(3, 0.4), True, True),
        ("ce", tp.symmetric_noise(3, 0.2), False, True),
        ("nls", tp.symmetric_noise(3, 0.2), False, False),
    ],
)
def test_cards_by_search_come_with_a_counterexample_that_holds(name, T, proper, bounded):
    card = METHODS[name].card(T)
    assert (card.proper, card.bounded, card.evidence) == (proper, bounded, "numerical")
    assert card.certificate.searched
    if not proper:
        p, q = (card.certificate.counterexample[x] for x in "pq")
        assert expected_risk(METHODS[name], T, p, q) < expected_risk(METHODS[name], T, p, p) - 1e-9
        assert "counterexample" in card.verdict
    assert card.to_dict()["certificate"]["proper"] is proper
    assert METHODS[name].reference in str(card)


@pytest.mark.parametrize(
    ("name", "proper", "bounded"),
    [
        ("forward", True, True),
        ("bc", True, False),
        ("gls", True, True),
        ("backward_brier", True, True),
        ("ga", False, True),
        ("upu", True, False),
        ("nnpu", False, True),
    ],
)
def test_cards_of_the_librarys_losses_are_exact(name, proper, bounded):
    card = METHODS[name].card(KINDS["pu"])
    assert (card.proper, card.bounded, card.evidence) == (proper, bounded, "exact")


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_method_is_decided_or_says_why_not(name, kind):
    method = METHODS[name]
    if method.decide is None:
        card = method.card(KINDS[kind])
        assert (card.proper, card.bounded, card.evidence) == (None, None, "words")
        assert "certif" in card.verdict
        assert card.certificate is None
    assert method.title
    assert method.reference


def test_families_of_many_classes_are_decided_with_few():
    for T in (tp.complementary(10), tp.complementary(10, noise=0.05), tp.symmetric_noise(10, 0.8), tp.identity(10)):
        small = with_few_classes(T)
        assert small.num_classes == 4
        assert setting_of(small) == setting_of(T)
    assert with_few_classes(tp.partial_labels(10, 0.3)).same_as(tp.partial_labels(4, 0.3))
    assert with_few_classes(tp.multi_complementary(10, 5)).same_as(tp.multi_complementary(4, 2))
    assert with_few_classes(NOISE) is NOISE
    assert with_few_classes(tp.pair_noise(5, 0.2)) is None
    assert METHODS["scl_nl"].card(tp.complementary(10)).verdict.endswith("decided for complementary(4))")
    assert METHODS["avg"].card(tp.partial_labels(14, 0.3)).verdict.endswith("decided for partial_labels(4, 0.3))")


@pytest.mark.parametrize(
    ("name", "T"),
    [
        ("ce", tp.Transition(0.5 * np.eye(8) + 0.5 * np.random.default_rng(0).dirichlet(np.ones(8), 8).T)),
        ("scl_exp", tp.complementary(10)),
        ("avg", tp.partial_labels(8, 0.3)),
    ],
)
def test_a_counterexample_for_many_classes_is_one_for_that_transition(name, T):
    card = METHODS[name].card(T)
    assert (card.proper, card.bounded, card.transition) == (False, True, T.name)
    assert card.verdict == "not proper, bounded below (counterexample)"
    p, q = (card.certificate.counterexample[x] for x in "pq")
    gain = expected_risk(METHODS[name], T, p, p) - expected_risk(METHODS[name], T, p, q)
    assert gain == pytest.approx(card.certificate.counterexample["gain"])
    assert any("the counterexample is for this T" in note for note in card.certificate.notes)


def test_no_step_finds_a_counterexample_where_there_is_none():
    """Forward correction of the same T, written as a function, is proper: its gradient vanishes at the truth."""
    T = tp.Transition(np.random.default_rng(0).dirichlet(np.ones(8), 8).T)
    own = tp.ForwardLoss(T)
    assert counterexample(lambda v, y: own.evaluate(v, y), T) is None
    assert counterexample(METHODS["ce"].make(T).each, T) is not None


# A user's own.


def squares(scores, labels):
    hot = torch.nn.functional.one_hot(labels, scores.shape[-1])
    return (torch.softmax(scores, -1) - hot).square().sum(-1)


def test_a_users_own_loss_is_one_function():
    method = from_function(squares, labels={"noisy"})
    assert method.name == "squares"
    _, v, labels, _ = problem("ce", "noisy")
    torch.testing.assert_close(method.build(NOISE)(v, labels, None), squares(v, labels).mean(1))
    assert method.card(tp.identity(3)).proper is True
    whole = from_function(lambda v, y: squares(v, y).mean(1).square(), name="batch")
    torch.testing.assert_close(whole.build(NOISE)(v, labels, None), squares(v, labels).mean(1) ** 2)
    assert whole.card(NOISE).proper is None
    sets = from_function(lambda v, s: -(torch.log_softmax(v, -1) * s).sum(-1), name="sets", labels={"partial"})
    assert sets.card(tp.partial_labels(3, 0.4)).proper is False
    assert "squares" not in METHODS


def test_a_users_own_mistakes_are_told():
    with pytest.raises(ValueError, match=r"method: expected a function of \(scores, labels\), got int"):
        from_function(3)
    with pytest.raises(ValueError, match=r"method: expected a function of \(scores, labels\), got <lambda>\(scores\)"):
        from_function(lambda scores: scores)
    with pytest.raises(ValueError, match=r"labels: expected some of complementary, .*, got nosy"):
        from_function(squares, labels={"nosy"})
    _, v, labels, _ = problem("ce", "noisy")
    wrong = from_function(lambda v, y: v.mean(), name="wrong")
    with pytest.raises(ValueError, match=r"method: expected risks of shape \(3,\) or losses of shape \(3, 5\)"):
        wrong.build(NOISE)(v, labels, None)
