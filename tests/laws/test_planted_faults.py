"""Faults planted on purpose: each must be caught by a law, or the law is worth nothing."""

import math

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.losses import fuse
from tproper.potentials import base as potentials
from tproper.potentials import simplex
from tproper.transitions import base, dense, evidence, inverses, uniform

from . import laws


def caught(law, *arguments):
    with pytest.raises((AssertionError, RuntimeError)):
        law(*arguments)


def test_the_laws_hold_without_a_fault():
    T = tp.complementary(4)
    laws.left_inverse(T, "auto")
    laws.adjointness(T, "auto")
    laws.identity_is_cross_entropy(tp.ForwardLoss)
    laws.minimiser_recovers_the_truth(tp.BackwardLoss(T, squeeze=(1.0, 2.0), reduction="none"))
    laws.link_is_the_gradient(tp.LogSumExp().squeezed(1.0, 1.5), 4)


def test_a_flipped_sign_in_the_target(monkeypatch):
    def faulty(self, transition):
        original(self, transition)
        self.coefficient = -self.coefficient

    original = uniform.UniformReconstruction.__init__
    monkeypatch.setattr(uniform.UniformReconstruction, "__init__", faulty)
    T = tp.symmetric_noise(4, 0.2)
    caught(laws.left_inverse, T, "auto")
    caught(laws.targets_are_unbiased, T, "auto")
    caught(laws.minimiser_recovers_the_truth, tp.BackwardLoss(T, squeeze=(1.0, 2.0), reduction="none"))


def test_a_transposed_t(monkeypatch):
    T = tp.complementary(3, weights=[[0, 1, 2], [1, 0, 1], [3, 1, 0]])
    inverse = np.linalg.inv(T.matrix().T)
    monkeypatch.setattr(base, "left_inverse", lambda T, method, prior: inverse)
    with pytest.raises(ValueError, match="expected a left inverse"):
        T.reconstruction()


def test_forward_correction_with_a_transposed_t(monkeypatch):
    T = tp.complementary(3, weights=[[0, 1, 2], [1, 0, 1], [3, 1, 0]], noise=0.1)
    loss = tp.ForwardLoss(T, reduction="none")
    loss.log_T.copy_(loss.log_T.T.clone())
    caught(laws.minimiser_recovers_the_truth, loss)


def test_an_unnormalised_reconstruction(monkeypatch):
    def faulty(self, dtype):
        return original(self, dtype) + 0.1

    original = evidence.Step.dense
    monkeypatch.setattr(evidence.Step, "dense", faulty)
    caught(laws.left_inverse, tp.partial_labels(4, 0.3), "auto")
    caught(laws.adjointness, tp.partial_labels(4, 0.3), "auto")


def test_a_forgotten_mean_in_the_product(monkeypatch):
    def faulty(self, x, centred=False):
        return self.c * x.gather(-1, self.classes[..., None])[..., 0]

    monkeypatch.setattr(evidence.Spike, "product", faulty)
    caught(laws.adjointness, tp.complementary(4), "auto")
    caught(laws.targets_agree_with_themselves, tp.complementary(4), "auto")


def test_a_forgotten_share_in_the_gradient(monkeypatch):
    for kind, T in ((evidence.Spike, tp.complementary(4)), (evidence._SmallerSide, tp.partial_labels(4, 0.3))):
        original = kind.subtract_
        monkeypatch.setattr(kind, "subtract_", lambda self, g, share=1.0, original=original: original(self, g))
        caught(laws.targets_agree_with_themselves, T, "auto")


def test_a_prior_for_a_posterior(monkeypatch):
    def faulty(self, p, share):
        return original(self, p.clone(), share)

    for kind, T in ((evidence.TwoValued, tp.complementary(4)), (evidence.ScaledRows, tp.pair_noise(4, 0.2))):
        original = kind.posterior_
        monkeypatch.setattr(kind, "posterior_", faulty)
        caught(laws.rows_agree_with_themselves, T)


def test_softmax_for_the_link_of_squeezing(monkeypatch):
    monkeypatch.setattr(potentials.Squeezed, "_link", lambda self, v: self.base._link(v))
    F = tp.LogSumExp().squeezed(1.0, 2.0)
    caught(laws.link_is_the_gradient, F, 4)
    caught(laws.inverse_link_inverts, F, 4)
    caught(
        laws.minimiser_recovers_the_truth, tp.BackwardLoss(tp.complementary(4), squeeze=(1.0, 2.0), reduction="none")
    )


def test_squeezing_without_its_half(monkeypatch):
    original = potentials.Squeezed.penalty
    monkeypatch.setattr(potentials.Squeezed, "penalty", lambda self, v: 2 * original(self, v))
    caught(laws.link_is_the_gradient, tp.LogSumExp().squeezed(1.0, 1.5), 4)


def test_a_dropped_term_of_the_potential(monkeypatch):
    monkeypatch.setattr(simplex.Brier, "_value", lambda self, v: v.square().sum(-1) / 2)
    caught(laws.link_is_the_gradient, tp.Brier(), 4)
    caught(laws.fenchel_young, tp.Brier(), 4)


def test_a_wrong_bound(monkeypatch):
    monkeypatch.setattr(tp.BackwardLoss, "lower_bounds", lambda self: np.full(4, -1.0))
    caught(laws.descent_respects_bounds, tp.BackwardLoss(tp.complementary(4), squeeze=(1.0, 2.0), reduction="none"))


def test_an_unbounded_loss_that_is_called_bounded_and_the_reverse(monkeypatch):
    T = tp.complementary(4)
    plain, squeezed = (tp.BackwardLoss(T, squeeze=s, reduction="none") for s in (None, (1.0, 2.0)))
    monkeypatch.setattr(tp.BackwardLoss, "lower_bounds", lambda self: np.full(4, -100.0))
    caught(laws.descent_respects_bounds, plain)
    monkeypatch.setattr(tp.BackwardLoss, "lower_bounds", lambda self: np.full(4, -np.inf))
    caught(laws.descent_respects_bounds, squeezed)


def test_a_bound_that_is_not_the_greatest(monkeypatch):
    original = tp.BackwardLoss.lower_bounds
    monkeypatch.setattr(tp.BackwardLoss, "lower_bounds", lambda self: original(self) - 0.5)
    caught(laws.descent_respects_bounds, tp.BackwardLoss(tp.complementary(4), squeeze=(1.0, 2.0), reduction="none"))


def test_the_wrong_class_left_out_of_the_log_odds(monkeypatch):
    def faulty(scores, labels):
        others = scores.scatter(-1, (labels[..., None] + 1) % scores.shape[-1], -math.inf)
        return scores.gather(-1, labels[..., None])[..., 0] - torch.logsumexp(others, -1)

    monkeypatch.setattr(evidence, "log_odds", faulty)
    loss = fuse(tp.ForwardLoss(tp.complementary(4), reduction="none"), "torch")  # as it is defined, not its kernel
    caught(laws.minimiser_recovers_the_truth, loss)


def test_a_tsallis_entropy_without_its_a(monkeypatch):
    monkeypatch.setattr(
        simplex.Tsallis, "_conjugate", lambda self, q: (q.clamp_min(0).pow(self.a).sum(-1) - 1) / (self.a - 1)
    )
    caught(laws.derivatives_by_finite_differences, tp.Tsallis(1.5), 4)


def test_scores_that_are_not_centred(monkeypatch):
    monkeypatch.setattr(potentials, "centre", lambda v: v)
    monkeypatch.setattr(simplex, "centre", lambda v: v)
    F = tp.LogSumExp().squeezed(1.0, 4.0)
    caught(laws.shifts_change_nothing, F, 4)


def test_a_link_that_forgets_to_sum_to_one(monkeypatch):
    monkeypatch.setattr(potentials, "normalised", lambda q, gone=None: q)
    caught(laws.link_is_the_gradient, tp.LogSumExp().squeezed(1.0, 1.5), 4)


def test_squeezing_whose_link_forgets_alpha(monkeypatch):
    def faulty(self, v):
        return potentials.normalised(self.base._link(v) + self.k / 2 * v.sign() * v.abs().pow(self.alpha - 1))

    monkeypatch.setattr(potentials.Squeezed, "_link", faulty)
    caught(laws.link_is_the_gradient, tp.LogSumExp().squeezed(1.0, 1.5), 4)
    caught(laws.inverse_link_inverts, tp.LogSumExp().squeezed(1.0, 1.5), 4)


def test_a_simplex_threshold_that_takes_everybody_in(monkeypatch):
    from tproper._core import numerics as _numerics

    def faulty(q):
        return (q.sum(-1, keepdim=True) - 1) / q.shape[-1]

    monkeypatch.setattr(_numerics, "simplex_threshold", faulty)
    caught(laws.probabilities_lie_in_the_simplex, tp.Brier(domain="simplex"), 4)


def test_a_jacobian_with_the_wrong_sign(monkeypatch):
    original = simplex.Tsallis.jacobian_product
    monkeypatch.setattr(simplex.Tsallis, "jacobian_product", lambda self, p, x: -original(self, p, x))
    caught(laws.derivatives_by_finite_differences, tp.Tsallis(1.5), 4)


def test_a_newton_step_without_its_constraint(monkeypatch):
    from tproper.potentials import newton as _newton

    original = _newton._linearised

    def faulty(*arguments):
        p, product, solve = original(*arguments)
        return p + 0.01 * arguments[2], product, solve  # a gradient that is a little off

    monkeypatch.setattr(_newton, "_linearised", faulty)
    monkeypatch.setattr("tproper.potentials.conjugates.nested_roots", lambda base, penalty, q: torch.zeros_like(q))
    caught(laws.inverse_link_inverts, tp.LogSumExp().squeezed(1.0, 2.0), 4)


def test_samples_of_the_wrong_column(monkeypatch):
    original = dense.DenseTransition.draw
    wrong = lambda self, z, rng: original(self, (z + 1) % self.num_classes, rng)  # noqa: E731
    monkeypatch.setattr(dense.DenseTransition, "draw", wrong)
    caught(laws.samples_follow_the_matrix, tp.pair_noise(4, 0.2))


def test_samples_of_the_stream_that_classes_come_from(monkeypatch):
    monkeypatch.setattr("tproper.transitions.base.label_stream", np.random.default_rng)
    caught(laws.samples_are_independent_of_classes_of_the_same_seed, tp.symmetric_noise(4, 0.3))


def test_a_minimum_variance_that_forgets_the_prior(monkeypatch):
    original = inverses._min_variance
    monkeypatch.setattr(inverses, "_min_variance", lambda T, prior: original(T, None))
    caught(laws.minimum_variance_is_minimal)


def test_a_critical_k_that_forgets_the_negative_part(monkeypatch):
    from tproper._core import numerics as _numerics
    from tproper.certificates import certificate as certificates

    def faulty(columns):
        return _numerics.simplex_threshold(torch.as_tensor(columns))[..., 0].clamp_min(0.0).numpy()

    monkeypatch.setattr(certificates, "critical_k_of", faulty)
    caught(laws.critical_k_is_where_boundedness_begins, tp.complementary(4))
