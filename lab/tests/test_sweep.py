"""Grids, the search's extension beyond a winning end, breadth first; the paper's data."""

import math

import numpy as np
import pytest

import tproper as tp
from tproper_lab import paper, sweep
from tproper_lab.protocol import Trial


def test_breadth_first_gives_every_cell_a_trial_before_a_second():
    configs = [paper.chosen(m, "linear") for m in ("bc", "gls", "bc")]
    trials = sweep.breadth_first(configs, range(2))
    assert [(t.config.loss, t.seed) for t in trials] == [("bc", 0), ("gls", 0), ("bc", 1), ("gls", 1)]


def test_two_more_values_beyond_an_end():
    assert sweep.beyond(paper.RATES, 0.1) == (0.3, 1.0)
    assert sweep.beyond(paper.RATES, 0.0001) == (0.00003, 0.00001)
    assert sweep.beyond(paper.COEFFICIENTS, 10.0) == (30.0, 100.0)
    assert sweep.beyond(paper.COEFFICIENTS, 0.01) == (0.003, 0.001)
    assert sweep.beyond(paper.RATES, 0.01) == ()


def fake_training(accuracy):
    """Trains nothing: the validation accuracy is a function of the configuration."""
    seen = {}

    def run(trials):
        for trial in trials:
            seen[trial.id] = {
                "config_key": trial.config.key, "seed": trial.seed, "valid_accuracy": accuracy(trial.config),
            }  # fmt: skip
        return list(seen.values())

    return run, seen


def test_search_finds_the_peak_and_goes_beyond_the_end_that_wins():
    run, seen = fake_training(lambda c: -abs(math.log(c.lr / 1.0)) - abs(math.log(c.k / 0.3)))
    best = sweep.search("gls", paper.chosen("gls", "mlp"), run)
    assert (best.lr, best.k) == (1.0, 0.3)
    assert len(seen) == 9 * 7


def test_search_extends_an_end_only_once_and_both_axes_at_need():
    run, seen = fake_training(lambda c: c.lr + c.weight_decay)
    best = sweep.search("bc_tuned", paper.chosen("bc_tuned", "mlp"), run)
    assert (best.lr, best.weight_decay) == (1.0, 1.0)
    assert len(seen) == 9 * 9


def test_search_that_is_stopped_gives_nothing():
    assert sweep.search("bc", paper.chosen("bc", "mlp"), lambda trials: None) is None


def test_search_trials_are_not_evaluation_trials():
    tried: list[Trial] = []
    sweep.search("bc", paper.chosen("bc", "mlp"), lambda trials: tried.extend(trials))
    assert {t.seed for t in tried} == {1000}


def test_figure_grids_hold_all_else_fixed():
    base = paper.chosen("gls", "mlp")
    assert {c.k for c in sweep.product(base, {"k": paper.COEFFICIENTS})} == set(paper.COEFFICIENTS)
    assert {(c.lr, c.k) for c in sweep.product(base, {"alpha": paper.EXPONENTS})} == {(base.lr, base.k)}


def test_the_released_settings_differ_from_the_paper_for_one_model():
    pairs = {m: (paper.chosen("gls", m), paper.chosen("gls_released", m)) for m in paper.MODELS}
    assert [model for model, (papers, released) in pairs.items() if papers != released] == ["wrn28_2"]
    assert [config.k for config in pairs["wrn28_2"]] == [1.0, 0.3]
    assert paper.ACCURACY["gls", "wrn28_2"] == paper.ACCURACY["gls_released", "wrn28_2"]


def test_every_cell_of_the_paper_has_its_settings():
    assert len([cell for cell in paper.ACCURACY if cell[0] != "gls_released"]) == 20
    gls = paper.chosen("gls", "resnet20")
    assert (gls.dataset, gls.lr, gls.k, gls.alpha, gls.weight_decay) == ("cifar10", 0.1, 1.0, 2.0, 1e-4)
    tuned = paper.chosen("ga_tuned", "linear")
    assert (tuned.lr, tuned.weight_decay) == (0.001, 0.1)
    assert paper.chosen("bc", "mlp", "digits").dataset == "digits"


def test_the_papers_reconstruction_inverts_partial_labels():
    r = np.array(paper.partial_reconstruction(0.1))
    t = tp.partial_labels(3, 0.1).matrix()
    assert np.allclose(r @ t, np.eye(3), atol=1e-12)
    assert r.sum(axis=0) == pytest.approx(np.ones(7))


@pytest.mark.parametrize(("model", "c"), [("mlp", 1.0), ("wrn28_2", 0.3)])
def test_figure_3_of_the_released_code_divides_its_coefficient_by_the_exponent(model, c):
    v = np.array([0.3, -1.2, 0.9])
    for config in paper.released_exponents(paper.chosen("gls", model), (1.0, 1.5, 2.0, 3.0)):
        ours = config.k / 2 * (np.abs(v) ** config.alpha).sum()
        assert ours == pytest.approx(c / config.alpha * (np.abs(v) ** config.alpha).sum())


@pytest.mark.parametrize(
    ("value", "up", "down"), [(0.5, 1, 0.3), (2, 3, 1), (0.05, 0.1, 0.03), (7, 10, 3), (9.99, 10, 3)]
)
def test_a_grid_of_ones_own_is_left_for_the_series(value, up, down):
    """Not for 2 and 7 after .5: rates of others are comparable."""
    first, second = sweep.beyond([value, value / 100], value)
    assert (first, second) == (up, sweep.beyond([up, 1e-9], up)[0])
    assert sweep.beyond([value, value * 100], value)[0] == down
