"""Kinds of weak labels: each is declared once, and is what its declaration says."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import tproper as tp
from tproper.tables.labels import LabelCodec
from tproper.transitions import (
    ALIASES,
    BY_NAME,
    KINDS,
    families,
    named,
    noisy_sets,
    questions,
    transition_from_dict,
    transition_to_dict,
)

from .registry import TRANSITIONS, every_label

EVERY = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
# What is made of other transitions, or of numbers of the user's own, with the T that it must be.
COMPOSED = {
    "unlabeled_sets": (
        lambda: tp.unlabeled_sets([[0.5, 0.5], [0.2, 0.8]], [10, 10]), [[5 / 7, 5 / 13], [2 / 7, 8 / 13]],
    ),
    "multi_source": (
        lambda: tp.multi_source([tp.identity(2), tp.complementary(2)], [0.25, 0.75]),
        [[0.25, 0], [0, 0.25], [0, 0.75], [0.75, 0]],
    ),
    "annotators": (
        lambda: tp.annotators([tp.symmetric_noise(2, 0.1), tp.binary_noise(0, 0.5)]),
        [[0.9, 0.05], [0, 0.05], [0.1, 0.45], [0, 0.45]],
    ),
}  # fmt: skip


@EVERY
def test_a_kind_is_the_matrix_of_its_declaration(kind):
    T = tp.parse_transition(kind.example)
    np.testing.assert_allclose(T.matrix(), kind.small, atol=1e-15)
    made = eval(kind.call, {"tp": tp})
    np.testing.assert_array_equal(made.matrix(), T.matrix())
    assert made.same_as(T)


@pytest.mark.parametrize("name", COMPOSED)
def test_what_is_composed_is_the_matrix_worked_out_by_hand(name):
    make, small = COMPOSED[name]
    np.testing.assert_allclose(make().matrix(), small, atol=1e-15)


def test_every_public_kind_is_declared_and_registered():
    rooms = (families, named, noisy_sets, questions)
    public = {n for n in tp.__all__ if any(getattr(tp, n) is getattr(room, n, None) for room in rooms)}
    public = {n for n in public if callable(getattr(tp, n)) and not isinstance(getattr(tp, n), type)}
    declared = {kind.make.__name__ for kind in KINDS}
    assert public - declared == set(COMPOSED) - {"annotators"}
    types = {type(make()) for make in TRANSITIONS.values()}
    assert {type(tp.parse_transition(kind.example)) for kind in KINDS} <= types


@EVERY
def test_the_readme_knows_it(kind):
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    assert f"`{kind.make.__name__}(" in readme
    assert (Path(__file__).parents[2] / "docs" / "guides" / f"{kind.guide}.md").exists()


@EVERY
def test_a_kind_has_its_names_in_text(kind):
    for name in (kind.name, *kind.aliases):
        assert ALIASES.get(name, name) in BY_NAME
        text = kind.example.replace(kind.name, name, 1)
        assert tp.parse_transition(text).same_as(tp.parse_transition(kind.example))
    if kind.takes_classes:  # the number of classes may be left out
        K = tp.parse_transition(kind.example).num_classes
        rest = kind.example.split(":", 1)[1].split(",", 1)
        text = kind.name + (":" + rest[1] if len(rest) > 1 else "")
        assert tp.parse_transition(text, num_classes=K).same_as(tp.parse_transition(kind.example))
    with pytest.raises(tp.InputError):
        tp.parse_transition(kind.name + ":nonsense")
    assert all((kind.help, kind.column, kind.guide))


@EVERY
def test_a_kind_is_written_and_read(kind):
    T = tp.parse_transition(kind.example)
    again = transition_from_dict(transition_to_dict(T))
    assert type(again) is type(T)
    assert again.name == T.name
    assert again.label_kind == T.label_kind
    np.testing.assert_array_equal(again.matrix(), T.matrix())
    words = [f"class {z}" for z in range(T.num_classes)]
    assert again.named(words).labels.names == T.named(words).labels.names


@EVERY
def test_a_classifier_reads_the_names_of_a_kind(kind):
    """Labels by name, with classes by name, are the rows of T."""
    T = tp.parse_transition(kind.example)
    classes = [f"class {z}" for z in range(T.num_classes)]
    names = T.named(classes).labels.names
    rows = every_label(T)
    X = np.random.default_rng(0).normal(size=(12 * len(names), 2))
    given = [names[y] for y in range(len(names))] * 12
    encoded = rows.repeat(12, *[1] * (rows.ndim - 1))
    settings = {"calibrate": False, "max_iter": 20, "classes": classes}
    clf = tp.WeakLabelClassifier(T, **settings)
    if T.label_kind == "positive/unlabeled":
        X, given, encoded = X[::2], given[1::2], encoded[1::2]
        given[0], encoded[0] = names[0], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fit that is cut short
        a = clf.fit(X, given)
    got = torch.as_tensor(tp.ForwardLoss(T).evaluate(torch.as_tensor(a._scores(X)), encoded))
    assert bool(torch.isfinite(got).all())
    assert torch.equal(T.named(classes).labels.encode(given), encoded)


@EVERY
def test_scores_tests_and_class_shares_take_it(kind):
    T = tp.parse_transition(kind.example)
    K, rng = T.num_classes, np.random.default_rng(0)
    z = rng.integers(0, K, 400)
    y = T.sample(z, 1)
    p = np.full((400, K), 0.3 / K)
    p[np.arange(400), z] += 0.7
    assert tp.check_transition(y, T, p).plausible
    assert np.isfinite(tp.inspect(T).diagnosis.smallest_singular_value)
    if T.diagnose().reconstructible:
        score = tp.weak_accuracy(y, z, T)
        assert abs(score.value - 1) < 5 * score.stderr + 1e-9
        shares = tp.weak_prevalence(y, T)
        assert (np.abs(shares.value - np.bincount(z, minlength=K) / 400) < 5 * shares.stderr + 0.02).all()
        assert str(tp.sensitivity("accuracy", y, z, T))
    for score in ("log", "brier", "spherical"):
        assert tp.ForwardLoss(T, score=score).certify().lower_bounded


@EVERY
def test_a_table_holds_it(kind):
    """The raw example of the declaration is read, and every label is written and read back."""
    pa = pytest.importorskip("pyarrow")
    T = tp.parse_transition(kind.example)
    first = {"spam": ["spam", "ham"], "good": ["good", "fair", "poor", "bad"]}.get(kind.column, ["cat", "dog", "ant"])
    codec = LabelCodec(T, first[: T.num_classes])
    rows = every_label(T)
    texts, _ = codec.decode(rows.numpy())
    encoded, missing = codec.encode(pa.array(texts))
    assert not missing.any()
    np.testing.assert_array_equal(encoded, rows.numpy())
    encoded, missing = codec.encode(pa.array([kind.column]))
    assert not missing.any()
    assert texts[int(T.row_index(torch.as_tensor(encoded))[0])] == kind.column


@pytest.mark.parametrize(
    ("wrong", "argument"),
    [
        (lambda: tp.ordinal_noise(3, 1.2), "p"),
        (lambda: tp.ordinal_noise(3, 0.2, -1), "spread"),
        (lambda: tp.noisy_partial_labels(3, 0.2, 2), "e"),
        (lambda: tp.noisy_partial_labels(3, 0.0, 1.0), "e"),
        (lambda: tp.yes_no(1), "K"),
        (lambda: tp.yes_no(3, miss=1.5), "miss"),
        (lambda: tp.yes_no(3).encode([[3, 1]]), "question"),
        (lambda: tp.yes_no(3).encode([[0, 2]]), "answer"),
        (lambda: tp.hierarchical_labels([[0, 1], [1]], 0.2), "groups"),
        (lambda: tp.hierarchical_labels([[0, 1], [2]], [0.2, 0.3]), "coarse"),
        (lambda: tp.hierarchical_labels([[[0, 1], [2]], [[0, 1, 2]]], [0.7, 0.6]), "coarse"),
        (lambda: tp.none_of_these(3, 3), "listed"),
        (lambda: tp.partly_labeled(3, [0.2, 0.3]), "rates"),
        (lambda: tp.case_control_pu(1.0, 10, 10), "prior"),
        (lambda: tp.case_control_pu(0.3, 0, 10), "labeled"),
    ],
)
def test_a_wrong_parameter_is_refused_by_its_name(wrong, argument):
    with pytest.raises(tp.InputError) as error:
        wrong()
    assert error.value.argument == argument


def test_a_question_is_a_name_or_a_pair():
    T = tp.yes_no(3).named(["cat", "dog", "ant"])
    rows = [0, 5, 1, 3]
    pairs = [("cat", True), ("ant", False), ("dog", "yes"), ("cat", 0)]
    assert T.labels.encode(pairs).tolist() == rows
    assert T.labels.encode(["cat", "not ant", "dog", "not cat"]).tolist() == rows
    frame = pd.DataFrame(pairs, columns=["asked", "answer"])
    assert T.labels.encode(frame).tolist() == rows
    assert T.labels.missing([("cat", True), ("cat", None), None]).tolist() == [False, True, True]
    for wrong in ([("cow", True)], [("cat", "perhaps")], [("cat", True, 1)]):
        with pytest.raises(tp.InputError, match="at row 0"):
            T.labels.encode(wrong)


def test_questions_and_noisy_sets_need_no_table():
    K = 50_000
    for T in (tp.yes_no(K, 0.1, 0.05), tp.noisy_partial_labels(1_000, 0.01, 0.1)):
        y = T.sample(np.arange(8), seed=0)
        v = torch.zeros(8, T.num_classes, dtype=torch.float64).normal_(generator=torch.Generator().manual_seed(0))
        for loss in (tp.ForwardLoss(T), tp.BackwardLoss(T, squeeze=(1.0, 2.0))):
            assert bool(torch.isfinite(loss(v, y)))
        assert tp.BackwardLoss(T).certify().proper


def test_probabilities_of_case_control_data_are_those_of_the_population():
    """Recovers P(positive | x) of the population, where positives are rarer than in the two samples together."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    z = rng.random(20_000) < 1 / (1 + np.exp(-2 * x + 2))
    positives = x[z][:3_000]
    X = np.concatenate([positives, x[10_000:]])[:, None]
    T = tp.case_control_pu(float(z.mean()), len(positives), 10_000)
    labeled = np.arange(len(X)) < len(positives)
    p = tp.WeakLabelClassifier(T, calibrate=False).fit(X, labeled).predict_proba(X)
    truth = 1 / (1 + np.exp(-2 * X[:, 0] + 2))
    assert np.abs(p[:, 1] - truth).mean() < 0.05
