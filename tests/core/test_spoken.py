"""What results print reads as plain English: no addresses, no figures that cannot be, no sentence that begins small."""

import re

import numpy as np
import pytest
from test_words import coined

import tproper as tp

RNG = np.random.default_rng(0)
T = tp.symmetric_noise(3, 0.2)
V = 2 * RNG.normal(size=(900, 3))
P = np.exp(V) / np.exp(V).sum(axis=1, keepdims=True)
Z = (RNG.random(900)[:, None] > P.cumsum(axis=1)).sum(axis=1).clip(0, 2)
Y = T.sample(Z, seed=1)
CHECKED = np.where(np.arange(900) < 150, Z, -1)
WRONG = RNG.random((300, 4)) < [0.1, 0.2, 0.3, 0.4]
ANSWERS = np.where(WRONG, (Z[:300, None] + RNG.integers(1, 3, (300, 4))) % 3, Z[:300, None])
COUNTED = tp.Transition.from_counts(np.bincount(Y[:150] * 3 + Z[:150], minlength=9).reshape(3, 3))


def two_of_three():
    clf = tp.MultiLabelClassifier("symmetric:2,0.2").fit(V, (V[:, :2] > 0).astype(int))
    return clf.weak_scores(V, (V[:, :2] > 0).astype(int))  # labels without the noise: more than right


RESULTS = {
    "transition": lambda: T,
    "estimated transition": lambda: COUNTED,
    "its table": lambda: COUNTED.notes[0],
    "diagnosis": T.diagnose,
    "reconstruction": T.reconstruction,
    "certificate": lambda: tp.BackwardLoss(T).certify(),
    "batch certificate": lambda: tp.GradientAscentLoss(T).certify(),
    "inspection": lambda: tp.inspect("complementary:3"),
    "score": lambda: tp.weak_accuracy(Y, Z, T),
    "score of few": lambda: tp.weak_accuracy(Y[:3], Z[:3], T),
    "score at an end": lambda: tp.weak_accuracy([0] * 20, [0] * 20, T),
    "score by an estimate": lambda: tp.weak_log_loss(Y, P, COUNTED),
    "calibration": lambda: tp.weak_calibration(Y, P, T),
    "paired test": lambda: tp.paired_test(Y, P, np.full_like(P, 1 / 3), T),
    "sets": lambda: tp.conformal(P, Y, T),
    "evaluation": lambda: tp.evaluate(P, Y, T, true=CHECKED),
    "evaluation in doubt": lambda: tp.evaluate(P, Z, T),
    "check": lambda: tp.check_transition(Y, T, P),
    "check in doubt": lambda: tp.check_transition(Z, T, P),
    "sensitivity": lambda: tp.sensitivity("accuracy", Y, Z, T),
    "prevalence": lambda: tp.weak_prevalence(Y, COUNTED),
    "prevalence of checked rows": lambda: tp.weak_prevalence(Y, true=CHECKED),
    "crowd": lambda: tp.estimate_annotators(ANSWERS),
    "against the vote": lambda: tp.estimate_annotators(ANSWERS).versus_vote,
    "sources": lambda: tp.estimate_annotators({"vote": Y[:300], "not": ((Z[:300] + 1) % 3, "not this")}),
    "positives": lambda: tp.estimate_pu((Z == 0) & (np.arange(900) % 2 == 0), scores=V[:, 0]),
    "groups": lambda: tp.transitions_by_group(ANSWERS, np.arange(300) < 150),
    "calibrator": lambda: tp.calibrate(3 * V, Y, T),
    "monitor": lambda: tp.LossMonitor(tp.BackwardLoss(T)),
    "decomposition": lambda: tp.decompose(-np.log(P[:5]), tp.identity(3)),
    "several classes": two_of_three,
    "table": lambda: tp.read_table({"x": [1.0], "label": ["a"]}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RESULTS)
def test_a_result_reads_as_plain_english(name):
    text = str(RESULTS[name]())
    assert " object at 0x" not in text
    assert re.search(r"\bnan\b|\d[eE]\+\d", text) is None, "figures that nobody reads"
    assert re.search(r"[^.]\. [a-z](?!\.)", text) is None, "a sentence that begins with a small letter"
    assert coined(text) == []


def test_a_mean_beyond_what_is_possible_is_not_printed():
    text = str(two_of_three()).splitlines()[-1]
    assert text == "average: not informative, as the accuracy of 0, 1 is not"


def test_sensitivity_says_which_way():
    text = str(tp.sensitivity("accuracy", [0, 1] * 50, [0, 1] * 45 + [1, 0] * 5, tp.symmetric_noise(2, 0.1)))
    assert "if they are off by 5 points" in text
    assert re.search(r"matters most: if it is one point higher than assumed, accuracy (rises|falls) by 0\.\d{4}$", text)
