"""Transitions and losses as text and as plain data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import tproper as tp
from tproper.losses.names import loss_from_dict, loss_to_dict, make_loss, make_potential
from tproper.transitions import Transition
from tproper.transitions.parsing import make_transition, parse_transition, transition_from_dict, transition_to_dict

TEXTS = {
    "identity:3": tp.identity(3),
    "complementary:10": tp.complementary(10),
    "complementary:10,noise=0.05": tp.complementary(10, noise=0.05),
    "symmetric:10,0.2": tp.symmetric_noise(10, 0.2),
    "symmetric_noise:10,0.2": tp.symmetric_noise(10, 0.2),
    "pair:4,0.3": tp.pair_noise(4, 0.3),
    "binary:0.1,0.2": tp.binary_noise(0.1, 0.2),
    "partial:5,0.1": tp.partial_labels(5, 0.1),
    "multi_complementary:7,3": tp.multi_complementary(7, 3),
    "pu:0.5": tp.positive_unlabeled(0.5),
    "coarse:0+1|2+3": tp.coarse_labels([[0, 1], [2, 3]]),
}
FAMILIES = [
    *TEXTS.values(),
    tp.complementary(3, weights=[[0, 1, 2], [1, 0, 1], [3, 1, 0]]),
    tp.unlabeled_sets([[0.2, 0.8], [0.7, 0.3]], [10, 30]),
    tp.multi_source([tp.symmetric_noise(3, 0.1), tp.coarse_labels([[0, 1], [2]])], [0.3, 0.7]),
    tp.partial_labels(40, 0.1),
    Transition(np.random.default_rng(0).dirichlet(np.ones(5), size=3).T, weak_labels=["a", "b", 2, 3.5, "e"]),
]


def same(a: Transition, b: Transition) -> bool:
    small = a.num_classes <= 12
    return a.same_as(b) and (not small or (np.array_equal(a.matrix(), b.matrix()) and a.weak_labels == b.weak_labels))


@pytest.mark.parametrize("text", TEXTS)
def test_text_names_a_transition(text: str) -> None:
    assert same(parse_transition(text), TEXTS[text])
    assert same(parse_transition(text, TEXTS[text].num_classes), TEXTS[text])


@pytest.mark.parametrize(
    ("text", "K", "expected"),
    [
        ("complementary", 4, tp.complementary(4)),
        ("symmetric:0.2", 4, tp.symmetric_noise(4, 0.2)),
        ("symmetric:p=0.2", 4, tp.symmetric_noise(4, 0.2)),
        ("partial:0.3", 6, tp.partial_labels(6, 0.3)),
        ("complementary:noise=0.1", 5, tp.complementary(5, noise=0.1)),
    ],
)
def test_number_of_classes_may_come_from_the_data(text: str, K: int, expected: Transition) -> None:
    assert same(parse_transition(text, K), expected)


@pytest.mark.parametrize(
    ("text", "K", "message"),
    [
        ("", None, "expected a text such as"),
        ("complementary", None, "with K the number of classes"),
        ("symetric:10,0.2", None, "expected one of binary, case_control_pu, coarse"),
        ("symmetric:ten,0.2", None, "expected an integer for K of 'symmetric', got 'ten'"),
        ("symmetric:10,much", None, "expected a number for p of 'symmetric', got 'much'"),
        ("symmetric:", 3, "got nothing after the colon"),
        ("symmetric:10,0.2,3", None, "expected 'symmetric:K,p'"),
        ("complementary:10,nois=0.1", None, "the unknown parameter 'nois'"),
        ("symmetric:10,p=0.1,p=0.2", None, "every parameter once, got 'symmetric:10,p=0.1,p=0.2'"),
        ("symmetric:10,1.2", None, "expected a finite number in [0, 1] for p of 'symmetric', got 1.2"),
        ("complementary:10", 3, "expected one for 3 classes, got 10"),
        ("pu:0.5", 3, "expected one for 3 classes, got 2"),
        ("coarse:a+b|c", None, "expected groups of class indices"),
        ("no_such_file.csv", None, "expected a file that can be read, got 'no_such_file.csv'"),
    ],
)
def test_wrong_text_is_one_clear_sentence(text: str, K: int | None, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        parse_transition(text, K)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("T", FAMILIES, ids=lambda T: T.name)
def test_plain_data_round_trip_is_exact(T: Transition) -> None:
    back = transition_from_dict(json.loads(json.dumps(transition_to_dict(T), allow_nan=False)))
    assert type(back) is type(T)
    assert back.name == T.name
    assert same(T, back)


def test_planted_change_breaks_the_round_trip() -> None:
    data = transition_to_dict(tp.symmetric_noise(5, 0.2))
    assert not same(transition_from_dict(data | {"diagonal": data["diagonal"] + 1e-12}), tp.symmetric_noise(5, 0.2))


@pytest.mark.parametrize(
    "data", [{}, {"family": "os.system", "name": "x"}, {"family": "uniform", "name": "x"}, [], None]
)
def test_malformed_plain_data_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match="transition: "):
        transition_from_dict(data)  # type: ignore[arg-type]


def test_matrix_files(tmp_path: Path) -> None:
    T = np.array([[0.9, 0.2], [0.1, 0.8]])
    np.save(tmp_path / "T.npy", T)
    np.savetxt(tmp_path / "T.csv", T, delimiter=",")
    (tmp_path / "T.json").write_text(json.dumps({"matrix": T.tolist(), "weak_labels": ["yes", "no"]}))
    for suffix in ("npy", "csv", "json"):
        assert np.array_equal(parse_transition(str(tmp_path / f"T.{suffix}")).matrix(), T)
    assert parse_transition(str(tmp_path / "T.json")).weak_labels == ["yes", "no"]
    (tmp_path / "bad.csv").write_text("0.9,0.2\n0.1\n")
    (tmp_path / "row.csv").write_text("0.9,0.1\n0.2,0.8\n")
    (tmp_path / "bad.json").write_text("{")
    np.save(tmp_path / "code.npy", np.array([{}], dtype=object), allow_pickle=True)
    for name in ("bad.csv", "row.csv", "bad.json", "code.npy"):
        with pytest.raises(ValueError, match="expected a transition matrix, got"):
            parse_transition(str(tmp_path / name))


def test_other_ways_to_say_it() -> None:
    want = tp.symmetric_noise(5, 0.2)
    for value in (
        want,
        "symmetric:0.2",
        ("symmetric", {"p": 0.2}),
        ("symmetric", 0.2),
        {"name": "symmetric", "p": 0.2},
    ):
        assert same(make_transition(value, 5), want)
    assert np.array_equal(make_transition(np.eye(3)).matrix(), np.eye(3))
    with pytest.raises(ValueError, match="wrong parameters for 'symmetric'"):
        make_transition(("symmetric", {"q": 0.2}), 5)


SKEWED = tp.Transition([[0.9, 0.1, 0.2, 0.1], [0.1, 0.6, 0.1, 0.1], [0, 0.2, 0.6, 0.2], [0, 0.1, 0.1, 0.6]])
CROWD = tp.annotators([tp.symmetric_noise(4, 0.2), SKEWED])
GROUPS = tp.annotators([tp.coarse_labels([[0, 1], [2]]), tp.coarse_labels([[0], [1, 2]])])  # no R of their own
LOSSES = [
    tp.ForwardLoss(tp.complementary(4)),
    tp.ForwardLoss(tp.pair_noise(4, 0.2), score="tsallis:1.2345678901"),
    tp.BackwardLoss(CROWD, reconstruction=CROWD.reconstruction(prior=[0.7, 0.1, 0.1, 0.1])),
    tp.BackwardLoss(CROWD, reconstruction="tightest"),
    tp.BackwardLoss(GROUPS),
    tp.BackwardLoss(tp.complementary(4)),
    tp.BackwardLoss(tp.complementary(4), squeeze=(0.3, 1.5)),
    tp.BackwardLoss(tp.pair_noise(4, 0.2), tp.Brier(), class_weights=[1, 2, 3, 4]),
    tp.BackwardLoss(tp.partial_labels(4, 0.2), tp.Tsallis(1.5), reconstruction="tightest"),
    tp.BackwardLoss(tp.complementary(4), tp.Spherical("simplex")),
    tp.GradientAscentLoss(tp.symmetric_noise(4, 0.2)),
    tp.NonNegativeLoss(tp.unlabeled_sets([[0.2, 0.8], [0.7, 0.3], [0.5, 0.5]], [1, 2, 3])),
]


@pytest.mark.parametrize("loss", LOSSES, ids=str)
def test_losses_come_back_the_same(loss: tp.BackwardLoss) -> None:
    import torch

    back = loss_from_dict(json.loads(json.dumps(loss_to_dict(loss))), loss.transition)
    v = (
        torch.randn(20, loss.transition.num_classes, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        / 3
    )
    y = loss.transition.sample(np.arange(20) % loss.transition.num_classes, 0)
    if loss.transition.label_kind == "answers":
        y[::3, 0] = -1
    if hasattr(loss, "reconstruction"):
        assert np.array_equal(loss.reconstruction.matrix(), back.reconstruction.matrix())
    assert torch.equal(loss(v, y), back(v, y))
    assert torch.equal(loss.probabilities(v), back.probabilities(v))


def test_settings_without_use_are_refused() -> None:
    T = tp.complementary(4)
    for settings in ({"squeeze": (1, 2)}, {"potential": "brier"}, {"reconstruction": "pinv"}):
        with pytest.raises(ValueError, match="which has no use for it"):
            make_loss("forward", T, **settings)
    with pytest.raises(ValueError, match="which has no use for it"):
        make_loss("ga", T, squeeze=(1, 2))
    with pytest.raises(ValueError, match="loss: expected one of forward"):
        make_loss("forwards", T)
    with pytest.raises(ValueError, match="got one for symmetric_noise"):
        make_loss(tp.ForwardLoss(tp.symmetric_noise(4, 0.1)), T)


def test_potentials_by_name() -> None:
    assert make_potential("tsallis:1.5").a == 1.5  # type: ignore[attr-defined]
    assert make_potential("brier:simplex").domain == "simplex"
    for text in ("softmax", "tsallis", "tsallis:x", "logsumexp:2"):
        with pytest.raises(ValueError, match="potential: "):
            make_potential(text)
    with pytest.raises(ValueError, match=r"^a: expected "):
        make_potential("tsallis:-1")


def test_a_potential_that_is_infinite_somewhere_cannot_be_trained_with() -> None:
    with pytest.raises(ValueError, match="use 'spherical:simplex'"):
        make_loss("backward", tp.complementary(3), potential="spherical")
    made = make_loss("backward", tp.complementary(3), potential="spherical:simplex")
    assert isinstance(made, tp.BackwardLoss)
