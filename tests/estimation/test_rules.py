"""Sources that abstain: what their silence says, the form of their T, and what the answers show of the majority."""

import csv
import json
import warnings

import numpy as np
import pytest

import tproper as tp
from tproper.estimation import rules
from tproper.transitions import transition_from_dict, transition_to_dict


def rules_of(seed, n=1500, K=2, m=8, right=(0.65, 0.9), coverage=0.25, prior=None, names=1):
    """Rules that vote for `names` classes of their own where they see them: answers (n, m) and classes."""
    rng = np.random.default_rng(seed)
    z = rng.choice(K, n, p=np.full(K, 1 / K) if prior is None else prior)
    answers = np.full((n, m), -1)
    for a in range(m):
        own = (a + np.arange(names)) % K
        good = rng.uniform(*right)
        vote = np.where(rng.random(n) < good, z, rng.integers(0, K, n))
        seen = np.isin(vote, own) & (rng.random(n) < coverage * K / names * rng.uniform(0.5, 1.0))
        answers[seen, a] = vote[seen]
    return answers, z


def scores(result, answers, z, K):
    """Accuracy and log loss of the estimate, and of the smoothed vote, over rows with a vote."""
    votes = np.stack([(answers == k).sum(axis=1) for k in range(K)], axis=1)
    told = votes.sum(axis=1) > 0
    q = (votes + 1.0) / (votes + 1.0).sum(axis=1, keepdims=True)
    top = votes == votes.max(axis=1, keepdims=True)
    share = (top / top.sum(axis=1, keepdims=True))[np.arange(len(z)), z]
    p = result.posteriors
    loss = [-np.log(x[np.arange(len(z)), z][told]).mean() for x in (p, q)]
    return (p.argmax(axis=1) == z)[told].mean(), share[told].mean(), *loss


@pytest.mark.parametrize(("K", "names"), [(2, 1), (5, 1), (5, 2), (4, 4)], ids=str)
def test_rules_that_abstain_are_read_at_least_as_well_as_by_vote(K, names):
    found = []
    for seed in range(8):
        answers, z = rules_of(seed, K=K, names=names)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            found.append(scores(tp.estimate_annotators(answers, num_classes=K), answers, z, K))
    ours, vote, loss, smoothed = np.mean(found, axis=0)
    assert ours > vote - 0.005
    assert loss < smoothed


def test_what_gaps_mean_is_decided_for_each_source_and_said():
    answers, z = rules_of(0, K=3, m=6)
    rng = np.random.default_rng(0)
    judge = np.where(rng.random(len(z)) < 0.7, z, rng.integers(0, 3, len(z)))
    judge[rng.random(len(z)) < 0.3] = -1
    whole = np.where(rng.random(len(z)) < 0.6, z, rng.integers(0, 3, len(z)))
    both = np.column_stack([answers, judge, whole])
    result = tp.estimate_annotators(both)
    assert [g.meaning for g in result.missing] == ["answer"] * 6 + ["random", "none"]
    assert "names 1 of 3 classes" in str(result)
    assert [len(t.matrix()) for t in result.transitions] == [4] * 6 + [3, 3]
    assert (result.posteriors.argmax(axis=1) == z).mean() > (whole == z).mean()
    item, who = np.nonzero(answers >= 0)
    long = tp.Answers(item, who, answers[item, who])
    with pytest.warns(tp.IdentifiabilityWarning):
        assert {g.meaning for g in tp.estimate_annotators(long).missing} == {"random"}
    asked = tp.estimate_annotators(long, missing={0: "answer", 1: "answer"})
    assert [g.meaning for g in asked.missing[:3]] == ["answer", "answer", "random"]
    for wrong in ("never", {"lf": "answer"}, ["answer"], 3):
        with pytest.raises(tp.InputError) as error:
            tp.estimate_annotators(answers, missing=wrong)
        assert error.value.argument == "missing"


@pytest.mark.parametrize("K", [2, 3])
def test_crowd_workers_with_few_answers_do_not_abstain(K):
    """A wide table of a crowd: the same estimate as the long one, whatever single workers happened to name."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, K, 200)
        answers = np.where(rng.random((200, 60)) < 0.7, z[:, None], rng.integers(0, K, (200, 60)))
        answers[rng.random(answers.shape) > 0.06] = -1
        answers = answers[:, (answers >= 0).any(axis=0)]
        assert {g.meaning for g in tp.estimate_annotators(answers, num_classes=K).missing} == {"random"}


def test_more_of_the_same_rows_change_nothing():
    answers, _ = rules_of(1, n=2000, K=4)
    once = tp.estimate_annotators(np.tile(answers, (8, 1))).posteriors
    again = tp.estimate_annotators(np.tile(answers, (40, 1))).posteriors
    assert np.abs(once[:2000] - again[:2000]).max() < 0.02


def test_rows_without_a_vote_may_be_left_out():
    answers, _ = rules_of(2, n=4000, K=2, m=5, coverage=0.12)
    told = (answers >= 0).any(axis=1)
    every, some = tp.estimate_annotators(answers), tp.estimate_annotators(answers[told])
    assert some._fit.unseen.sum() == pytest.approx((~told).sum(), rel=0.25)
    assert np.abs(every.posteriors[told] - some.posteriors).mean() < 0.03


def test_a_rule_that_is_worse_than_chance_is_found_by_known_classes():
    answers, z = rules_of(3, n=3000, K=2, m=6, right=(0.8, 0.8))
    rng = np.random.default_rng(3)
    bad = np.where(rng.random(3000) < 0.15, z, 1 - z)
    answers = np.column_stack([answers, np.where((bad == 0) & (rng.random(3000) < 0.6), 0, -1)])
    true = np.where(rng.random(3000) < 0.1, z, -1)
    blind, told = tp.estimate_annotators(answers), tp.estimate_annotators(answers, true)

    def right(result):
        return next(r.accuracy for r in result.ranking if r.annotator == 6)

    assert right(blind) > 0.5  # without them it is taken for a rule
    assert right(told) < 0.35


def test_rules_that_err_together_are_counted_as_fewer():
    honest, _ = rules_of(4, K=2, m=6)
    result = tp.estimate_annotators(honest)
    assert result.design_effect < 1.3
    seen = np.random.default_rng(4).random((1500, 6)) < 0.65
    copied = np.column_stack([honest, np.where(seen, honest[:, [0, 1, 0, 1, 0, 1]], -1)])
    with pytest.warns(tp.DependenceWarning, match="err together"):
        again = tp.estimate_annotators(copied)
    assert again.design_effect > 1.5
    assert again.posteriors.max() <= 0.99


def test_silence_is_a_row_of_T_for_losses_scores_and_files():
    answers, z = rules_of(5, K=2)
    T = tp.estimate_annotators(answers).transition
    again = transition_from_dict(json.loads(json.dumps(transition_to_dict(T))))
    assert again.same_as(T)
    assert not again.same_as(tp.annotators(T.transitions))
    assert (T.encode(answers).numpy()[answers < 0] == 2).all()
    X = np.random.default_rng(0).normal(size=(len(z), 3)) + 1.5 * np.eye(3)[z]
    model = tp.WeakLabelClassifier(T, random_state=0).fit(X, answers)
    assert (model.predict(X) == z).mean() > 0.8
    score = tp.weak_accuracy(answers, z, T)
    assert score.n == len(z)
    assert score.interval[0] - 0.05 < 1.0


def test_the_label_of_each_item_by_name():
    rng = np.random.default_rng(6)
    z = rng.integers(0, 2, 300)
    names = np.array(["ham", "spam"])
    item, who = np.repeat(np.arange(300), 5), np.tile(np.arange(5), 300)
    said = np.where(rng.random(1500) < 0.8, z[item], 1 - z[item])
    result = tp.estimate_annotators(tp.Answers(item, who, names[said]))
    assert result.classes.tolist() == ["ham", "spam"]
    assert (result.labels == names[z]).mean() > 0.85
    assert tp.estimate_annotators(np.stack([z, z, 1 - z], axis=1)).labels.dtype.kind == "i"


def test_versus_vote_holds_the_difference():
    """95% intervals of the difference of accuracies, in 60 crowds; and it is seen where it is large."""
    held, seen = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 3, 500)
        right = rng.uniform(0.3, 0.95, 9)
        answers = np.where(rng.random((500, 9)) < right, z[:, None], rng.integers(0, 3, (500, 9)))
        answers[rng.random(answers.shape) < 0.5] = -1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            result = tp.estimate_annotators(answers, num_classes=3)
        told = (answers >= 0).any(axis=1)
        votes = np.stack([(answers == k).sum(axis=1) for k in range(3)], axis=1)[told]
        top = votes == votes.max(axis=1, keepdims=True)
        vote = (top / top.sum(axis=1, keepdims=True))[np.arange(len(votes)), z[told]].mean()
        difference = (result.posteriors.argmax(axis=1) == z)[told].mean() - vote
        low, high = result.versus_vote.interval
        held += low <= difference <= high
        seen += result.versus_vote.better == "a"
    assert held >= 50
    assert seen >= 30


def test_features_teach_the_classifier_and_leave_the_posteriors_of_rules_alone():
    """Rules that see the first feature: a classifier that is told of it confirms whatever they say."""
    rng = np.random.default_rng(7)
    z = rng.integers(0, 2, 1500)
    X = rng.normal(size=(1500, 4)) + np.outer(z, [1.0, 1.0, 0.0, 0.0])
    answers = np.stack([np.where(X[:, 0] > t, 1, -1) for t in (0.5, 1.0, 1.5)], axis=1)
    answers = np.column_stack([answers, *(np.where(X[:, 1] < t, 0, -1) for t in (0.0, 0.5))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tp.DependenceWarning)
        plain, both = tp.estimate_annotators(answers), tp.estimate_annotators(answers, X=X)
    assert np.array_equal(plain.posteriors, both.posteriors)
    p = both.classifier.predict_proba(X)
    assert -np.log(p[np.arange(1500), z]).mean() < np.log(2)


def test_the_passes_with_silence_are_the_sums_that_they_stand_for():
    answers, _ = rules_of(8, n=50, K=3, m=4)
    result = tp.estimate_annotators(answers, missing="answer", num_classes=3)
    crowd, rng = result._fit.crowd, np.random.default_rng(0)
    P, T = rng.dirichlet(np.ones(3), 50), rng.dirichlet(np.ones(4), (4, 3)).transpose(0, 2, 1)
    full = np.where(answers < 0, 3, answers)
    counts, evidence = np.zeros((4, 4, 3)), np.zeros((50, 3))
    for i in range(50):
        for a in range(4):
            counts[a, full[i, a]] += P[i]
            evidence[i] += np.log(T[a, full[i, a]])
    assert np.abs(crowd.counts(P) - counts).max() < 1e-10
    assert np.abs(crowd.evidence(T) - evidence).max() < 1e-10
    D, _ = rules.design_effect(result._fit, np.log(result.prior))
    assert 1.0 <= D <= rules.LARGEST


def test_the_command_reads_silence_and_writes_labels(tmp_path):
    from typer.testing import CliRunner

    from tproper.cli.main import app

    answers, z = rules_of(9, n=600, K=2, m=5)
    X = np.random.default_rng(9).normal(size=(600, 2)) + 1.5 * np.eye(2)[z]
    with (tmp_path / "rules.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["x0", "x1", *(f"lf{a}" for a in range(5))])
        rows.writerows(np.column_stack([X.round(4).astype(object), answers]).tolist())
    labels = ",".join(f"lf{a}" for a in range(5))
    run = CliRunner().invoke
    called = [str(tmp_path / "rules.csv"), "--label", labels, "--out", str(tmp_path / "T.json")]
    done = run(app, ["estimate", "annotators", *called, "--labels-out", str(tmp_path / "labels.csv")])
    assert done.exit_code == 0, done.output
    assert "silence is an answer of every source" in done.output
    written = list(csv.DictReader((tmp_path / "labels.csv").open()))
    assert list(written[0]) == ["item", "label", "probability", "answers"]
    assert len(written) == 600
    assert np.mean([int(row["label"]) == k for row, k in zip(written, z, strict=True)]) > 0.7
    asked = ["--transition", "estimate", "--missing", "random", "--out", str(tmp_path / "model")]
    trained = run(app, ["train", called[0], "--label", labels, *asked])
    assert trained.exit_code == 0, trained.output
    assert "DO NOT USE THIS MODEL" in trained.output
    assert (tmp_path / "model" / "model_card.md").read_text().splitlines()[2].startswith("**Do not use this model")
    refused = run(app, ["estimate", "annotators", *called, "--missing", "never"])
    assert refused.exit_code == 2


def test_a_classifier_of_rules_is_as_sure_as_their_answers_alone():
    """Rules that see the features err where these say so: the forward risk would call a sharper model better."""
    losses = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 2, 3000)
        X = rng.normal(size=(3000, 6)) + 0.8 * z[:, None]
        answers = np.stack([np.where(X[:, j] > 1.2, 1, -1) for j in range(3)], axis=1)
        answers = np.column_stack([answers, *(np.where(X[:, j] < -0.4, 0, -1) for j in range(3))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            T = tp.estimate_annotators(answers[:1500]).transition
        models = [
            tp.WeakLabelClassifier(T, calibrate=how, random_state=0).fit(X[:1500], answers[:1500])
            for how in ("auto", False)
        ]
        p = [m.predict_proba(X[1500:])[np.arange(1500), z[1500:]] for m in models]
        losses.append([-np.log(x).mean() for x in p])
        assert "than their labels alone" in str(models[0].calibrator_)
    ours, plain = np.mean(losses, axis=0)
    assert ours < plain - 0.1
    assert ours < np.log(2)


def test_the_accuracy_by_rules_that_see_the_features_is_bounded_and_not_perfect():
    """Unbiased scores take a model that foretells the rules' errors for a perfect one."""
    held, lows = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 2, 2000)
        X = rng.normal(size=(2000, 6)) + 0.8 * z[:, None]
        answers = np.stack([np.where(X[:, j] > 1.2, 1, -1) for j in range(3)], axis=1)
        answers = np.column_stack([answers, *(np.where(X[:, j] < -0.4, 0, -1) for j in range(3))])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", tp.DependenceWarning)
            T = tp.estimate_annotators(answers[:1200]).transition
        model = tp.WeakLabelClassifier(T, random_state=0).fit(X[:1200], answers[:1200])
        predicted = model.predict(X[1200:])
        score = tp.weak_accuracy(answers[1200:], predicted, T)
        held.append(score.interval[0] <= (predicted == z[1200:]).mean() <= score.interval[1])
        lows.append(score.interval[0])
        assert "by the rules alone" in score.note
        twice = tp.weak_accuracy(
            np.repeat(answers[1200:], 2, axis=0), np.repeat(predicted, 2), T, groups=np.repeat(np.arange(800), 2)
        )
        assert abs(twice.interval[0] - score.interval[0]) < 0.005
    assert np.mean(held) == 1
    assert np.mean(lows) > 0.5
