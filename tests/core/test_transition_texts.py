"""A text such as "complementary:4" is a transition wherever one is asked for, and means what the object means."""

import inspect

import numpy as np
import pytest
import torch

import tproper as tp

TEXT, T = "symmetric:3,0.25", tp.symmetric_noise(3, 0.25)
RNG = np.random.default_rng(0)
V = RNG.normal(size=(60, 3))
P = np.exp(V) / np.exp(V).sum(axis=1, keepdims=True)
Z = P.argmax(axis=1)
Y = T.sample(Z, seed=1)
TRUE = np.where(np.arange(60) < 30, Z, -1)


def of_loss(make):
    return lambda T: float(make(T)(torch.as_tensor(V), Y))


def of_classifier(T):
    return tp.WeakLabelClassifier(T, calibrate=False).fit(V, Y).predict_proba(V)


# What each public name makes of a transition, as numbers.
USES = {
    "BackwardLoss": of_loss(tp.BackwardLoss),
    "ForwardLoss": of_loss(tp.ForwardLoss),
    "ForwardBackwardLoss": of_loss(lambda T: tp.ForwardBackwardLoss(T, middle=T)),
    "GradientAscentLoss": of_loss(tp.GradientAscentLoss),
    "NonNegativeLoss": of_loss(tp.NonNegativeLoss),
    "MultiLabelClassifier": lambda T: (
        tp.MultiLabelClassifier("symmetric:2,0.2" if isinstance(T, str) else tp.symmetric_noise(2, 0.2))
        .fit(V, (V[:, :2] > 0).astype(int))
        .predict_proba(V)
    ),
    "Reconstruction": lambda T: tp.Reconstruction(globals()["T"].reconstruction().matrix(), T).targets(Y).numpy(),
    "WeakLabelClassifier": of_classifier,
    "annotators": lambda T: tp.annotators([globals()["T"], T]).reconstruction().targets(np.stack([Y, Y], 1)).numpy(),
    "calibrate": lambda T: tp.calibrate(V, Y, T).probabilities(V),
    "calibrated_scorer": lambda T: tp.calibrated_scorer(T)(tp.WeakLabelClassifier(T, calibrate=False).fit(V, Y), V, Y),
    "certify": lambda T: tp.certify(lambda q: -q.log(), T).bounds,
    "check_transition": lambda T: tp.check_transition(Y, T, P).p_value,
    "conformal": lambda T: tp.conformal(P, Y, T).threshold,
    "critical_k": tp.critical_k,
    "decompose": lambda T: tp.decompose(-np.log(P), T).delta,
    "evaluate": lambda T: tp.evaluate(P, Y, T).scores["log_loss"].value,
    "inspect": lambda T: tp.inspect(T).critical_k,
    "multi_source": lambda T: tp.multi_source([globals()["T"], T]).matrix(),
    "paired_test": lambda T: tp.paired_test(Y, P, P[:, ::-1], T).value,
    "sensitivity": lambda T: tp.sensitivity("brier", Y, P, T).effect,
    "simulate": lambda T: tp.simulate({"z": [str(z) for z in Z]}, T, label="z").table["weak_label"].to_pylist(),
    "weak_accuracy": lambda T: tp.weak_accuracy(Y, Z, T).value,
    "weak_balanced_accuracy": lambda T: tp.weak_balanced_accuracy(Y, Z, T).value,
    "weak_brier": lambda T: tp.weak_brier(Y, P, T).value,
    "weak_calibration": lambda T: tp.weak_calibration(Y, P, T).value,
    "weak_log_loss": lambda T: tp.weak_log_loss(Y, P, T).value,
    "weak_prevalence": lambda T: tp.weak_prevalence(Y, T).value,
    "weak_scorer": lambda T: tp.weak_scorer("brier", T)(tp.WeakLabelClassifier(T, calibrate=False).fit(V, Y), V, Y),
}  # fmt: skip
RESULTS = {"Certificate", "Evaluation", "PUEstimate", "PredictionSets"}  # have one, and take none


def asked() -> set[str]:
    """The public names that have an argument for a transition."""
    values = {name: getattr(tp, name) for name in tp.__all__}
    errors = {name for name, value in values.items() if isinstance(value, type) and issubclass(value, BaseException)}
    taken = {name: set(inspect.signature(value).parameters) for name, value in values.items() if name not in errors}
    return {name for name, arguments in taken.items() if {"transition", "transitions"} & arguments} - RESULTS


def test_every_name_with_a_transition_is_tried():
    assert asked() - {"Reconstruction"} == set(USES) - {"Reconstruction"}


@pytest.mark.parametrize("name", USES)
def test_a_text_means_what_the_object_means(name):
    assert np.array_equal(USES[name](TEXT), USES[name](T))


@pytest.mark.parametrize(
    "call",
    [
        lambda T: tp.weak_log_loss(Y, P, T).value,
        lambda T: tp.weak_brier(Y, P, T).value,
        lambda T: tp.weak_calibration(Y, P, T).value,
        lambda T: tp.conformal(P, Y, T).threshold,
        lambda T: tp.evaluate(P, Y, T).scores["brier"].value,
        lambda T: tp.paired_test(Y, P, P[:, ::-1], T).value,
        lambda T: tp.check_transition(Y, T, P).p_value,
        lambda T: tp.multi_source([tp.identity(3), T]).matrix(),
        lambda T: tp.weak_log_loss(Y, P, T, true=TRUE).value,
        lambda T: tp.weak_prevalence(Y, T, num_classes=3).value,
    ],
)
def test_probabilities_say_how_many_classes_there_are(call):
    assert np.array_equal(call("symmetric:0.25"), call(T))


def test_with_checked_rows():
    assert tp.weak_accuracy(Y, Z, TEXT, true=TRUE).value == tp.weak_accuracy(Y, Z, T, true=TRUE).value


def test_a_text_that_leaves_out_the_number_of_classes_is_refused_where_nothing_says_it():
    for call in (lambda: tp.ForwardLoss("symmetric:0.25"), lambda: tp.weak_accuracy(Y, Z, "symmetric:0.25")):
        with pytest.raises(tp.InputError) as caught:
            call()
        assert caught.value.argument == "transition"


def test_a_matrix_is_refused_with_what_to_write():
    with pytest.raises(tp.InputError, match=r"tp\.Transition\(matrix\)"):
        tp.weak_accuracy(Y, Z, T.matrix())
