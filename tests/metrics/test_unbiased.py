"""Over 2,000 simulated data sets (1,000 for a ratio) a score is unbiased (|z| < 4), its 95% interval covers 93% to 97%.

Everything is drawn anew in each data set: examples from a pool, classes from their true probabilities, weak labels
from T. The model is miscalibrated on purpose. All data sets go through the library's own estimators at once
(`batch`); `test_public_functions_agree` ties the public functions to them.
"""

import functools

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.metrics import TopLabel, paired_test, weak_accuracy, weak_balanced_accuracy, weak_brier, weak_log_loss
from tproper.metrics.statistics import Reweigher, estimate

REPETITIONS, CHUNK = 2000, 500
CASES = {
    "complementary, K = 10": (tp.complementary(10), 400),
    "complementary, K = 4": (tp.complementary(4), 400),
    "partial, p = .3": (tp.partial_labels(6, 0.3), 400),
    "noisy 20%, symmetric": (tp.symmetric_noise(6, 0.2), 400),
    "noisy 20%, pair": (tp.pair_noise(6, 0.2), 400),
    "PU, r = .5": (tp.positive_unlabeled(0.5), 400),
    "two sources": (tp.multi_source([tp.complementary(4), tp.symmetric_noise(4, 0.3)], [0.6, 0.4]), 400),
}


class Simulation:
    """Data sets from a pool of examples with true probabilities p and a model's probabilities q."""

    def __init__(self, transition, n, sharpness=3.0, temperature=1.6, seed=0):
        self.transition, self.n = transition, n
        self.rng = np.random.default_rng(seed)
        K = transition.num_classes
        scores = torch.as_tensor(self.rng.normal(size=(2000, K)) * sharpness)
        self.p = torch.softmax(scores, -1)
        self.q = torch.softmax(scores * temperature, -1)  # overconfident
        self.other = torch.softmax(scores + torch.as_tensor(self.rng.normal(size=(2000, K))), -1)  # a worse model
        self.weigher = Reweigher(transition, transition.reconstruction())

    def draw(self, repetitions):
        """Rows of the pool (repetitions * n,), their true classes and weak labels."""
        rows = torch.as_tensor(self.rng.integers(0, len(self.p), repetitions * self.n))
        u = torch.as_tensor(self.rng.random((len(rows), 1)))
        z = (self.p.cumsum(-1)[rows] < u).sum(-1).clamp_max(self.p.shape[1] - 1)
        return rows, z, self.transition.encode(self.transition.sample(z, self.rng), validate=False)

    def truth(self, values):
        """The expected score of class-wise scores (pool, K)."""
        return float((self.p * values).sum(-1).mean())


def summarise(truth, value, low, high):
    z = (value.mean() - truth) / (value.std() / np.sqrt(len(value)))
    return z, ((low <= truth) & (truth <= high)).mean()


def check(truth, value, low, high, most=0.97):
    z, cover = summarise(truth, value, low, high)
    assert abs(z) < 4, f"biased: z = {z:.2f}"
    assert 0.93 <= cover <= most, f"coverage {cover:.4f}"


def scores_of(sim, name):
    """Class-wise scores over the pool, the posterior that goes with them, and whether Student's t is used."""
    K = sim.q.shape[1]
    hit = torch.nn.functional.one_hot(sim.q.argmax(-1), K).double()
    if name == "accuracy":
        return hit, (hit + 1.0 / K) / 2, False
    if name == "balanced accuracy, known prior":
        prior = sim.p.mean(0)
        return hit / (K * prior), (hit + 1.0 / K) / 2, False
    if name == "difference of log losses":
        return sim.other.log() - sim.q.log(), (sim.q + sim.other) / 2, True
    return (-sim.q.log() if name == "log loss" else (sim.q**2).sum(-1, keepdim=True) - 2 * sim.q + 1), sim.q, True


MEANS = ["accuracy", "balanced accuracy, known prior", "log loss", "Brier score", "difference of log losses"]


@functools.lru_cache(maxsize=1)
def samples(case):
    """A case with its samples, drawn once for all scores."""
    sim = Simulation(*CASES[case])
    return sim, [sim.draw(CHUNK) for _ in range(REPETITIONS // CHUNK)]


def simulated(sim, samples, values, posterior, student, weights=None):
    """Means and interval ends of many samples."""
    out = []
    for rows, _, y in samples:
        e = estimate(
            sim.weigher,
            lambda i, rows=rows: values[rows[i]],
            lambda i, rows=rows: posterior[rows[i]],
            y,
            None if weights is None else weights[rows],
            batch=(CHUNK, sim.n),
            student=student,
        )
        out.append((e.mean, *e.interval()))
    return map(np.concatenate, zip(*out, strict=True))


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("case", CASES)
def test_means(case, name):
    sim, drawn = samples(case)
    values, posterior, student = scores_of(sim, name)
    check(sim.truth(values), *simulated(sim, drawn, values, posterior, student))


@pytest.mark.parametrize("name", ["accuracy", "Brier score"])
def test_weighted_means(name):
    """Example weights that depend on the example: the weighted population mean is covered."""
    sim = Simulation(tp.complementary(4), 400)
    weights = np.exp(0.7 * sim.rng.normal(size=len(sim.p)))
    values, posterior, student = scores_of(sim, name)
    truth = float(((sim.p * values).sum(-1).numpy() * weights).sum() / weights.sum())
    drawn = [sim.draw(CHUNK) for _ in range(REPETITIONS // CHUNK)]
    check(truth, *simulated(sim, drawn, values, posterior, student, weights))


@pytest.mark.parametrize("case", CASES)
def test_squared_calibration_error(case):
    sim = Simulation(*CASES[case], temperature=0.5)
    confidence, predicted = sim.q.max(-1)
    edges = np.concatenate([[0], np.quantile(confidence.numpy(), [0.2, 0.4, 0.6, 0.8]), [1]])
    bins = np.searchsorted(edges[1:-1], confidence.numpy())
    gap = (sim.p.gather(1, predicted[:, None])[:, 0] - confidence).numpy()
    share = np.bincount(bins) / len(bins)
    truth = float((share * (np.bincount(bins, gap) / np.bincount(bins)) ** 2).sum())
    found = []
    for _ in range(REPETITIONS // 250):
        rows, _, y = sim.draw(250)
        top = TopLabel(sim.weigher, sim.q[rows], y, None, (250, sim.n))
        errors = top.binned(edges)
        form = errors.form(top.smoothed_error(errors))
        found.append((form.estimate, *form.interval()))
    # a bin's rare labels tell its variance poorly, which is then rather taken too large
    check(truth, *map(np.concatenate, zip(*found, strict=True)), most=0.98 if case == "complementary, K = 10" else 0.97)


# a ratio needs its denominators to be known: where many samples tell too little, their intervals are the whole range
RATIO_N = {"complementary, K = 4": 2000, "two sources": 800, "partial, p = .3": 1000, "noisy 20%, pair": 600}


@pytest.mark.parametrize("case", [c for c in CASES if c != "complementary, K = 10"])
def test_balanced_accuracy_with_unknown_prior(case):
    """Here through the public function, one data set at a time."""
    transition, n = CASES[case]
    sim = Simulation(transition, RATIO_N.get(case, n))
    predicted = sim.q.argmax(-1)
    hit = torch.nn.functional.one_hot(predicted, transition.num_classes).double()
    truth = float(((sim.p * hit).mean(0) / sim.p.mean(0)).mean())
    found = []
    for _ in range(REPETITIONS // 2):  # without the batches of the others
        rows, _, y = sim.draw(1)
        score = weak_balanced_accuracy(y, predicted[rows], transition, reconstruction=sim.weigher.reconstruction)
        found.append((score.value, *score.interval))
    check(truth, *np.array(found).T)


def test_ratio_says_when_denominators_are_too_noisy():
    sim = Simulation(tp.complementary(10), 1000)
    rows, _, y = sim.draw(1)
    score = weak_balanced_accuracy(y, sim.q.argmax(-1)[rows], sim.transition)
    assert not score.informative
    assert "share of class" in score.note or "too few weak labels" in score.note


@pytest.mark.parametrize("case", CASES)
def test_public_functions_agree(case):
    """The public functions give what `estimate` gives for the same data set."""
    sim = Simulation(*CASES[case])
    rows, _, y = sim.draw(1)
    public = {
        "accuracy": weak_accuracy(y, sim.q[rows].argmax(-1), sim.transition),
        "log loss": weak_log_loss(y, sim.q[rows], sim.transition),
        "Brier score": weak_brier(y, sim.q[rows], sim.transition),
        "difference of log losses": paired_test(y, sim.q[rows], sim.other[rows], sim.transition),
    }
    for name, score in public.items():
        values, posterior, student = scores_of(sim, name)
        e = estimate(
            sim.weigher,
            lambda i, v=values: v[rows[i]],
            lambda i, p=posterior: p[rows[i]],
            y,
            student=student,
            few_decide=name in ("accuracy", "difference of log losses"),
        )
        assert score.value == pytest.approx(float(e.mean), abs=1e-12)
        assert score.stderr == pytest.approx(float(e.stderr), rel=1e-12)
        low = float(e.interval()[0])
        if low > 0:  # not cut at the end of the possible range
            assert score.interval[0] == pytest.approx(low, rel=1e-9)


def test_these_lines_can_fail():
    """The plain interval (mean +- 1.96 stderr) and a wrong T are both caught by the lines above."""
    sim = Simulation(tp.complementary(10), 300, sharpness=8)
    values, _, _ = scores_of(sim, "accuracy")
    rows, _, y = sim.draw(REPETITIONS)
    g = sim.weigher(lambda i: values[rows[i]], y).reshape(REPETITIONS, sim.n)
    half = 1.96 * g.std(1) / np.sqrt(sim.n)
    _, cover = summarise(sim.truth(values), g.mean(1), g.mean(1) - half, g.mean(1) + half)
    assert cover < 0.93
    wrong = tp.complementary(10, noise=0.02)
    g = Reweigher(wrong, wrong.reconstruction())(lambda i: values[rows[i]], y).reshape(REPETITIONS, sim.n)
    z, _ = summarise(sim.truth(values), g.mean(1), g.mean(1), g.mean(1))
    assert abs(z) > 4
