"""What random small faults in the code once showed that no test held."""

import json
import logging
import math
import sys
import types

import numpy as np
import pytest
import torch
from refusals import refused
from scipy import stats

import tproper as tp
from tproper._core.finite import NonFiniteError, finite_rows
from tproper.data.spelling import nearest
from tproper.estimation.rules import tempered
from tproper.evaluation.bounds import bounds_without, candidate_bounds
from tproper.evaluation.streamed import StreamedScores
from tproper.learn import calibrator
from tproper.learn.estimating import estimate_labels
from tproper.learn.fitting import flag
from tproper.losses import counts as bag_counts
from tproper.metrics.statistics import _freedom
from tproper.potentials.dual import DualSide
from tproper.transitions.parsing import transition_from_dict, transition_to_dict
from tproper.transitions.sets import CandidateSetTransition


def draws(K: int = 4, n: int = 400, seed: int = 0, temperature: float = 0.4):
    """Probabilities of an overconfident model, true classes, and labels of symmetric noise."""
    rng = np.random.default_rng(seed)
    v = 2 * rng.normal(size=(n, K))
    p = np.exp(v) / np.exp(v).sum(1, keepdims=True)
    z = np.array([rng.choice(K, p=row) for row in p])
    q = np.exp(v / temperature)
    return q / q.sum(1, keepdims=True), z, tp.symmetric_noise(K, 0.3).sample(z, seed=seed)


# Numbers that are not finite.


@pytest.mark.parametrize(("bad", "row"), [([[0, 0], [0, math.nan], [0, 0]], 1), ([[0.0], [1.0], [math.inf]], 2)])
def test_the_first_row_that_is_not_finite_is_named(bad, row):
    with pytest.raises(NonFiniteError) as caught:
        finite_rows(np.array(bad), torch.nn.Linear(2, 2))
    assert f"row {row}" in str(caught.value)


def test_a_mask_of_every_class_is_not_finite():
    values = np.array([[0.0, -math.inf], [-math.inf, -math.inf]])
    with pytest.raises(NonFiniteError, match="row 1"):
        finite_rows(values, torch.nn.Linear(2, 2), masks=True)
    assert finite_rows(values[:1], torch.nn.Linear(2, 2), masks=True) is not None


# Calibration.


def test_more_classes_than_a_matrix_map_takes_are_calibrated_all_the_same():
    q, _, labels = draws(K=12, n=1500)
    found = tp.calibrate(q, labels, tp.symmetric_noise(12, 0.3))
    assert found.method not in ("identity", "matrix")
    assert found.gain.value > 0


def test_rows_that_sum_to_one_with_negative_entries_are_scores():
    q, _, labels = draws(n=300)
    T = tp.symmetric_noise(4, 0.3)
    scores = q.copy()
    scores[:, 0] -= 2.0
    scores[:, 1] += 2.0  # sums stay one, and most rows have a negative entry
    with pytest.raises(tp.InputError, match="inputs='probabilities'"):
        tp.calibrate(scores, labels, T, inputs="probabilities")
    assert tp.calibrate(scores, labels, T, method="identity").probabilities(scores) == pytest.approx(
        np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    )


# Everything that works through rows block by block.


def scores_in_pieces():
    """What the scores, bounds and losses say of some rows."""
    q, z, labels = draws(n=90)
    q[::7] = np.eye(4)[z[::7]]  # probabilities of zero: log loss counts such rows
    T, out = tp.symmetric_noise(4, 0.3), {}
    for name in ("accuracy", "balanced_accuracy"):
        out[name] = getattr(tp, f"weak_{name}")(labels, q.argmax(1), T)
    for name in ("log_loss", "brier", "calibration"):
        out[name] = getattr(tp, f"weak_{name}")(labels, q, T)
    masks = tp.partial_labels(4, 0.3).sample(z, seed=3)
    out["masks"] = tp.weak_log_loss(masks, 0.9 * q + 0.025, tp.partial_labels(4, 0.3))
    crowd = tp.annotators([T, tp.symmetric_noise(4, 0.1), tp.pair_noise(4, 0.2)])
    answers = crowd.sample(z, seed=5)
    out["crowd"] = tp.weak_accuracy(answers, q.argmax(1), crowd)
    flat = {k: (s.value, s.stderr) for k, s in out.items()}
    flat["infinite"] = (str(out["log_loss"]),)  # how many rows have probability zero
    for name, score in out.items():  # their ends rest on drawn labels, which blocks draw in another order
        flat[f"ends of {name}"] = tuple(np.round(np.array(score.interval) / max(score.stderr, 1e-3), 1))
    v = torch.as_tensor(np.log(np.maximum(q, 1e-3)), dtype=torch.float64)
    for name, loss, y in (("backward", tp.BackwardLoss(T), labels), ("crowd", tp.ForwardLoss(crowd), answers)):
        x = v.clone().requires_grad_()
        loss(x, torch.as_tensor(np.asarray(y))).backward()
        flat[f"gradient, {name}"] = tuple(x.grad.ravel().tolist())
    flat["bounds"] = tuple(tp.BackwardLoss(T, squeeze=(1.0, 2.0)).lower_bounds())
    flat["shares"] = tuple(tp.weak_prevalence(answers, crowd).value)
    return flat


def test_small_blocks_give_what_one_piece_gives(monkeypatch):
    whole = scores_in_pieces()
    rooms = [m for name, m in sys.modules.items() if name.startswith("tproper") and isinstance(m, types.ModuleType)]
    changed = [m for m in rooms if isinstance(vars(m).get("BLOCK"), int)]
    assert len(changed) >= 4
    for module in changed:
        monkeypatch.setattr(module, "BLOCK", 8)  # two rows of four classes
    for name, found in scores_in_pieces().items():
        for mine, other in zip(found, whole[name], strict=True):
            assert mine == (
                other if isinstance(other, str) else pytest.approx(other, rel=1e-9, abs=1e-12, nan_ok=True)
            ), name


# Messages that carry a number or a name.


def test_given_transitions_name_the_column_that_is_off():
    T = np.stack([np.eye(3)] * 2)
    T[1, :, 2] *= 0.5
    with pytest.raises(tp.InputError, match=r"sum 0.5 in column 2 of T\[1\]"):
        tp.BackwardLoss(tp.identity(3))(torch.zeros(2, 3), torch.tensor([0, 1]), transitions=torch.as_tensor(T).float())


def test_impossible_labels_are_counted_in_words():
    T = tp.Transition([[0.9, 0.2], [0.1, 0.8], [0.0, 0.0]])
    labels = np.array([0] * 50 + [1] * 50 + [2] * 3)
    said = str(tp.check_transition(labels, T))
    assert "occurs 3 times" in said


def test_near_names_are_suggested():
    assert nearest("ctas", ["cats", "dogs"]) == "; did you mean 'cats'?"
    assert nearest("zebra", ["cats", "dogs"]) == ""
    assert "same number" in nearest("3", ["3.0", "4"])
    assert "same number" in nearest("3.0", ["3", "4"])
    assert "double quotes" in nearest("cats", [" cats", "dogs"])


def test_condition_number_is_that_of_numpy():
    T = tp.Transition([[0.7, 0.2, 0.1], [0.2, 0.5, 0.2], [0.1, 0.3, 0.7]])
    assert T.diagnose().condition_number == pytest.approx(np.linalg.cond(T.matrix()))


# Verbose fits beside the user's own logging.


def test_lines_go_to_the_users_handlers_where_there_are_some(capsys):
    from tproper._core.logs import tell

    root, ours = logging.getLogger(), logging.getLogger("tproper")
    handlers, own, level = root.handlers[:], ours.handlers[:], ours.level
    heard = []

    class Listener(logging.Handler):
        def emit(self, record):
            heard.append(record.getMessage())

    try:
        root.handlers[:] = [Listener()]
        ours.handlers[:] = [h for h in own if isinstance(h, logging.NullHandler)]
        tell("tproper.learn", "one line", 1)
        assert heard == ["one line"]
        assert capsys.readouterr().err == ""
        root.handlers[:] = []
        tell("tproper.learn", "another line", 1)
        assert "another line" in capsys.readouterr().err
    finally:
        root.handlers[:], ours.handlers[:] = handlers, own
        ours.setLevel(level)


def test_candidates_of_a_search_say_nothing_themselves():
    from tproper.learn.search import with_params

    T = tp.symmetric_noise(3, 0.2)
    quiet = with_params(tp.WeakLabelClassifier(T, verbose=lambda done: None, tune=True), {"l2": 1.0}, T)
    assert quiet.verbose == 0
    assert quiet.tune is False


# Soft labels.


def test_a_missing_soft_answer_is_a_row_of_gaps_of_one_annotator():
    s = np.full((5, 2, 3), 1 / 3)
    s[1, 0] = math.nan
    crowd = tp.annotators([tp.symmetric_noise(3, 0.2), tp.symmetric_noise(3, 0.3)])
    v = torch.zeros(5, 3, dtype=torch.float64)
    assert torch.isfinite(tp.ForwardLoss(crowd, reduction="none")(v, tp.SoftLabels(s))).all()
    s[1, 0] = [math.nan, 0.5, 0.5]  # part of an answer is none
    with pytest.raises(tp.InputError, match="shares"):
        tp.SoftLabels(s)


def test_shares_of_labels_are_evaluated_and_said_not_to_be_tested():
    q, _, labels = draws(n=200)
    T, hard = tp.symmetric_noise(4, 0.3), np.eye(4)[labels]
    found, other = tp.evaluate(q, tp.SoftLabels(hard), T), tp.evaluate(q, labels, T)
    assert found.check is None
    assert "was not tested" in str(found)
    assert found.to_dict()["trust"]["check"] is None
    for name, score in found.scores.items():
        assert score.value == pytest.approx(other.scores[name].value)
    for name in ("accuracy", "log_loss"):
        moved = tp.sensitivity(name, tp.SoftLabels(hard), q.argmax(1) if name == "accuracy" else q, T)
        assert moved.effect == pytest.approx(other.sensitivity[name].effect)


# Standard errors.


def test_standard_error_of_clean_accuracy_is_that_of_a_mean():
    hits = np.array([1] * 7 + [0] * 5)
    score = tp.weak_accuracy(np.zeros(12, int), 1 - hits, tp.identity(2))
    assert score.stderr == pytest.approx(hits.std(ddof=1) / math.sqrt(12))


def test_the_kinds_of_text_in_a_checkpoints_difference():
    from tproper.data.checkpoints import _text

    assert _text("sgd") == "sgd"
    assert _text("") == json.dumps("")
    assert _text(3) == "3"


# Verdicts on arbitrary losses, near their limits.


def test_a_loss_that_falls_ever_more_slowly_along_a_ray_is_bounded_where_its_ray_levels_off():
    def log_loss(q):  # (n, 2) -> (n, 2): unbounded above, bounded from below by zero
        return -torch.log(q.clamp_min(1e-300))

    def falls(q):  # the second label's loss falls with -log of the first class's probability
        first = torch.log(q[:, 0].clamp_min(1e-300))
        return torch.stack([-first, first], dim=1)

    assert tp.certify(log_loss, tp.identity(2)).lower_bounded
    verdict = tp.certify(falls, tp.identity(2))
    assert verdict.lower_bounded is False
    assert verdict.witness.slope == pytest.approx(-1.0, rel=0.05)


# The end of an optimisation that was seen before.


def test_an_end_is_near_if_its_probabilities_are():
    from types import SimpleNamespace

    from tproper.solvers import linear

    problem = next(c for c in vars(linear).values() if isinstance(c, type) and hasattr(c, "is_near"))
    scores = np.random.default_rng(0).normal(size=(3, 50))
    shares = np.exp(scores) / np.exp(scores).sum(0)
    here = SimpleNamespace(scores=scores)
    apart = np.roll(shares, 1, axis=0)
    assert not problem.is_near(here, [])
    assert not problem.is_near(here, [SimpleNamespace(shares=apart)])
    assert problem.is_near(here, [SimpleNamespace(shares=apart), SimpleNamespace(shares=shares)])
    step = np.zeros_like(shares)
    step[0] = 3 * linear.CLOSE  # each column is off by more than what is forgiven on average
    assert not problem.is_near(here, [SimpleNamespace(shares=shares + step)])
    assert problem.is_near(here, [SimpleNamespace(shares=shares + step / 6)])


# Numbers that only some kinds of data reach.


def test_the_interval_of_a_rate_is_that_of_its_beta():
    z = np.random.default_rng(0).integers(0, 3, 300)
    T = tp.estimate_transition(tp.partial_labels(3, 0.3).sample(z, seed=1), np.where(np.arange(300) < 150, z, -1))
    low, high = T.p_interval(0.9)
    assert (low, high) == pytest.approx(stats.beta(T.a, T.b).ppf([0.05, 0.95]), rel=1e-6)


@pytest.mark.parametrize(
    ("given", "meant"), [(0, False), (1, True), (np.bool_(False), False), (2, 2), ("auto", "auto"), (None, None)]
)
def test_switches_are_true_or_false_however_they_are_spelled(given, meant):
    found = flag(given)
    assert (found, type(found)) == (meant, type(meant))


def test_scores_of_a_stream_have_the_limits_of_those_of_a_table():
    q, _, labels = draws(n=300)
    T = tp.symmetric_noise(4, 0.3)
    stream = StreamedScores(T)
    for rows in np.array_split(np.arange(300), 3):
        stream.add(labels[rows], q[rows])
    found, whole = stream.scores(), tp.evaluate(q, labels, T).scores
    for name in ("accuracy", "log_loss", "brier"):
        assert found[name].limits == whole[name].limits
    assert found["calibration"].overconfidence.limits == whole["calibration"].overconfidence.limits == (-1.0, 1.0)


def test_sets_by_a_t_that_is_known_well_are_those_of_a_known_t():
    q, _, labels = draws(n=400)
    T = tp.symmetric_noise(4, 0.3)
    sure = tp.EstimatedTransition.from_dirichlet(1e9 * T.matrix())
    vague = tp.EstimatedTransition.from_dirichlet(1e2 * T.matrix())
    known = tp.conformal(q, labels, T).threshold
    assert tp.conformal(q, labels, sure).threshold == pytest.approx(known, abs=1e-3)
    assert tp.conformal(q, labels, vague).threshold <= known  # a lower one takes more classes in


def test_three_answers_an_item_are_enough():
    z = np.random.default_rng(0).integers(0, 3, 200)
    answers = np.stack([tp.symmetric_noise(3, 0.2).sample(z, seed=i) for i in range(3)], axis=1)
    assert "no item has answers from three" not in str(tp.estimate_annotators(answers).notes)
    pairs = answers.copy()
    pairs[np.arange(200), np.arange(200) % 3] = -1
    assert "no item has answers from three" in str(tp.estimate_annotators(pairs).notes)


def test_sets_that_name_nearly_every_class_hardly_tell_classes_apart():
    z = np.random.default_rng(0).integers(0, 5, 300)
    for p, told in ((0.97, True), (0.3, False)):
        T = tp.partial_labels(5, p)
        notes = " ".join(tp.check_transition(T.sample(z, seed=1), T).notes)
        assert ("hardly tells apart any two of the 5 classes" in notes) is told


def test_losses_of_sets_lie_between_their_best_and_worst_candidate():
    rng = np.random.default_rng(0)
    q, masks = rng.dirichlet(np.ones(4), 200), rng.random((200, 4)) < 0.5
    masks[np.arange(200), rng.integers(0, 4, 200)] = True
    for name, each in {"log_loss": -np.log(q), "brier": (q**2).sum(axis=1, keepdims=True) - 2 * q + 1}.items():
        ends = np.where(masks, each, np.inf).min(axis=1), np.where(masks, each, -np.inf).max(axis=1)
        (low, a), (high, b) = ((x.mean(), 1.96 * x.std(ddof=1) / math.sqrt(200)) for x in ends)
        found = candidate_bounds(masks, q)[name]
        assert (found.low, found.high) == pytest.approx((max(low - a, 0.0), high + b), rel=1e-3)


def test_soft_labels_of_scores_of_more_dimensions():
    v = torch.as_tensor(np.random.default_rng(0).normal(size=(2, 5, 3)))
    shares = np.random.default_rng(1).dirichlet(np.ones(3), (2, 5))
    for loss in (
        tp.ForwardLoss(tp.symmetric_noise(3, 0.2), reduction="none"),
        tp.BackwardLoss(tp.identity(3), reduction="none"),
    ):
        flat = loss(v.reshape(10, 3), tp.SoftLabels(shares.reshape(10, 3)))
        torch.testing.assert_close(loss(v, tp.SoftLabels(shares)), flat.reshape(2, 5))


NOISY = [(0.0, 0.0), (0.0, 0.2), (0.3, 0.0), (0.3, 0.2), (0.3, 1.0), (1.0, 0.0), (1.0, 0.2), (1.0, 1.0)]


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize(("p", "e"), NOISY)
def test_which_noisy_sets_name_their_class(K, p, e):
    T = tp.noisy_partial_labels(K, p, e)
    assert T.diagnose().disjoint_supports == bool(((T.matrix() > 0).sum(axis=1) <= 1).all())


def test_one_annotators_shares_may_have_an_axis_of_their_own():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 200)
    votes = {"a": tp.symmetric_noise(3, 0.2).sample(z, 1), "b": tp.symmetric_noise(3, 0.3).sample(z, 2)}
    shares = 0.7 * np.eye(3)[tp.symmetric_noise(3, 0.2).sample(z, 3)] + 0.1
    flat, deep = (
        tp.estimate_annotators(votes | {"model": tp.SoftLabels(s)}, num_classes=3).posteriors
        for s in (shares, shares[:, None])
    )
    np.testing.assert_allclose(flat, deep)


def test_rounding_of_single_precision_does_not_leave_the_simplex():
    q = torch.tensor([[0.5, 0.5 + 1e-7, -1e-7]])
    assert tp.LogSumExp().conjugate(q).isfinite().all()
    assert tp.LogSumExp().conjugate(q.double() * torch.tensor([1.0, 1.0, 100.0])).isinf().all()


def test_value_and_link_found_together_are_differentiated_together():
    F, v = tp.Tsallis(1.5), torch.as_tensor(np.random.default_rng(0).normal(size=(4, 3))).requires_grad_()
    slopes = torch.tensor([1.0, -2.0, 4.0], dtype=torch.float64)
    value, p = DualSide.apply(v, F)
    (both,) = torch.autograd.grad(value.sum() + (p * slopes).sum(), v)
    apart = [torch.autograd.grad(x.sum(), v)[0] for x in (F.value(v), F.link(v) * slopes)]
    torch.testing.assert_close(both - both.mean(-1, keepdim=True), sum(g - g.mean(-1, keepdim=True) for g in apart))


def test_bounds_rest_on_a_T_whose_every_label_is_most_often_right():
    T = tp.Transition([[0.6, 0.5, 0.2], [0.2, 0.3, 0.2], [0.2, 0.2, 0.6]])  # class 1 is labeled 0 more often
    q = np.random.default_rng(0).dirichlet(np.ones(3), 60)
    assert bounds_without(T, np.arange(60) % 3, q, {}) == {}


def test_a_map_is_fitted_to_rows_from_the_first_to_the_last(monkeypatch):
    q, _, y = draws(n=300)
    T = tp.symmetric_noise(4, 0.3)
    some = np.linspace(0, 299, 120).round().astype(int)
    expected = tp.calibrate(q[some], y[some], T, method="temperature").scale
    monkeypatch.setattr(calibrator, "MOST_ROWS", 120)
    assert tp.calibrate(q, y, T, method="temperature").scale == pytest.approx(expected, rel=1e-9)


def test_rows_known_to_be_of_class_0_are_known():
    rng = np.random.default_rng(0)
    z = rng.integers(0, 3, 120)
    answers = np.stack([tp.symmetric_noise(3, 0.4).sample(z, seed=s) for s in range(3)], axis=1)
    true = np.where((z == 0) & (np.arange(120) < 60), 0, -1)
    found = estimate_labels("annotators", answers, 3, true, random_state=0)
    np.testing.assert_array_equal(found.posteriors[true == 0], np.eye(3)[np.zeros((true == 0).sum(), int)])


def test_bags_whose_states_fill_a_block_by_themselves(monkeypatch):
    rng = np.random.default_rng(0)
    scores, sizes = torch.as_tensor(rng.normal(size=(12, 3))), torch.tensor([4, 5, 3])
    counts = torch.tensor([[2, 1, 1], [0, 5, 0], [1, 1, 1]])
    bags = torch.repeat_interleave(torch.arange(3), sizes)
    expected = tp.BagCountLoss(3, "joint")(scores, bags, counts)
    monkeypatch.setattr(bag_counts, "STATES", 1)
    torch.testing.assert_close(tp.BagCountLoss(3, "joint")(scores, bags, counts), expected)


@pytest.mark.parametrize("score", ["log_loss", "brier", "accuracy"])
def test_two_models_compared_the_other_way_round_differ_as_surely(score):
    q, z, y = draws(n=500, temperature=1.0)
    worse = 0.7 * q + 0.3 * np.roll(q, 1, axis=1)
    a, b = (q, worse) if score != "accuracy" else (q.argmax(1), worse.argmax(1))
    counts = np.zeros((4, 4))
    np.add.at(counts, (y[:80], z[:80]), 1)
    T = tp.Transition.from_counts(counts)
    assert T.stderr.max() > 0.05
    one, two = tp.paired_test(y, a, b, T, score), tp.paired_test(y, b, a, T, score)
    assert one.difference == pytest.approx(-two.difference)
    assert one.p_value == pytest.approx(two.p_value, rel=1e-9)


def test_degrees_of_freedom_are_those_of_the_kurtosis():
    g = np.random.default_rng(0).standard_t(5, size=(1, 40))
    a, none = np.full((1, 40), 1 / 40), g - g.mean()
    kurtosis = (none**4).mean() / (none**2).mean() ** 2
    found = _freedom(a, g, g, np.full((1, 40), 1 / 40), False, np.array([1e9]))
    assert found == pytest.approx(2 * 40 / (kurtosis - 1))


def test_probabilities_of_large_scores_by_distinct_scores():
    v, count = torch.tensor([[900.0, 0.0, -900.0]], dtype=torch.float64), torch.tensor([[1.0, 2.0, 3.0]])
    torch.testing.assert_close(
        tp.LogSumExp()._counted_link(v, count.double()), torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    )


@pytest.mark.parametrize("rate", ["miss", "false"])
def test_rates_of_none_of_these_are_probabilities(rate):
    with refused(rate):
        tp.none_of_these(4, 2, **{rate: 1.5})


def test_candidate_sets_of_any_law_of_sizes():
    g = np.array([-np.inf, math.log(0.25), -np.inf, math.log(0.75 / 3), -np.inf])  # of 4 classes: one, or three
    T = CandidateSetTransition(g, "one or three", 8)
    np.testing.assert_allclose(T.matrix().sum(axis=0), 1)
    z = np.random.default_rng(0).integers(0, 4, 4000)
    masks = T.sample(z, seed=1)
    assert masks[np.arange(4000), z].all()
    share = np.bincount(masks.sum(axis=1), minlength=5) / 4000
    np.testing.assert_allclose(share, [0, 0.25, 0, 0.75, 0], atol=0.03)
    again = transition_from_dict(transition_to_dict(T))
    np.testing.assert_array_equal(again.matrix(), T.matrix())


def test_log_odds_are_divided_and_the_prior_of_an_item_is_not():
    rng = np.random.default_rng(0)
    evidence, prior = rng.normal(size=(5, 3)), rng.normal(size=(5, 3))
    e = np.exp(evidence / 2.5 + prior)
    np.testing.assert_allclose(tempered(evidence, prior, 2.5), e / e.sum(axis=1, keepdims=True))


def test_labels_are_counted_as_long_as_floats_hold_their_number():
    exact, about = (tp.partial_labels(K, 0.3).diagnose().to_dict()["num_weak_labels"] for K in (53, 54))
    assert exact == 2**53 - 1
    assert isinstance(about, str)
