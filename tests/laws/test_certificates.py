"""Laws of the certificates: Table 1, witnesses that fall, bounds that hold, verdicts on functions, `decompose`."""

import json
import re

import numpy as np
import pytest
import torch

import tproper as tp

from .registry import LOSSES, TRANSITIONS, centred, every_label, inside, table

EVERY = pytest.mark.parametrize("name", TRANSITIONS)


def test_table_1_of_the_paper():
    T = tp.complementary(10)
    rows = {
        "BC": tp.BackwardLoss(T),
        "BC + GA": tp.GradientAscentLoss(T),
        "BC + gLS": tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
    }
    verdicts = {name: (loss.certify().proper, loss.certify().lower_bounded) for name, loss in rows.items()}
    assert verdicts == {"BC": (True, False), "BC + GA": (False, True), "BC + gLS": (True, True)}


@EVERY
@pytest.mark.parametrize("loss", LOSSES)
def test_certificates_agree_with_the_theory(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    c = tp.certify(module)
    assert c.reconstructible
    assert c.proper
    assert c.strictly_proper
    rows = module.lower_bounds()
    assert np.array_equal(c.bounds[: len(rows)], rows)
    assert len(c.bounds) == len(rows) + bool(module.transition.separate)  # rows with gaps
    if loss in ("backward Brier", "gLS 1, 2", "gLS 0.3, 1.5", "forward"):
        assert c.lower_bounded
    else:  # simplex potentials: bounded iff every target is a probability vector
        targets = module.reconstruction.targets(every_label(module.transition)).numpy()
        assert c.lower_bounded == bool(targets.min() >= -1e-12)
    assert (c.witness is None) == c.lower_bounded
    assert json.loads(json.dumps(c.to_dict()))["proper"] is True
    assert "T-proper" in str(c)


@EVERY
@pytest.mark.parametrize("potential", [tp.LogSumExp(), tp.Tsallis(1.5), tp.LogSumExp().squeezed(0.05, 1.0)])
def test_a_loss_falls_along_its_witness_or_stays_above_its_bounds(name, potential):
    T = TRANSITIONS[name]()
    loss = tp.BackwardLoss(T, potential=potential, reduction="none")
    certificate, targets = loss.certify(), loss.reconstruction.targets(every_label(T))
    room = potential.k if isinstance(potential, tp.Squeezed) else 0.0  # how far a target may leave the simplex
    bounded = bool((tp.critical_k(T) <= room + 1e-12).all()) if room else bool((targets >= -1e-12).all())
    witness = certificate.witness
    assert (witness is None) == certificate.lower_bounded == bounded
    if witness is None:
        far = centred(200, T.num_classes, scale=1.0) * torch.logspace(0, 3, 200, dtype=torch.float64)[:, None]
        assert (table(loss, far) >= torch.as_tensor(loss.lower_bounds()) - 1e-9).all()
        return
    v = torch.as_tensor(np.array([1e3, 2e3])[:, None] * witness.direction)
    kinds = loss.reconstruction.kinds()
    assert kinds.names[witness.kind] == witness.label
    r = torch.tensor(kinds.all()[witness.kind])
    fall = potential.value(v) - v @ r
    assert witness.slope < 0
    assert float(fall[1] - fall[0]) == pytest.approx(1e3 * witness.slope, rel=1e-6)


def test_the_max_potential_is_proper_and_not_strictly():
    c = tp.certify(tp.BackwardLoss(tp.complementary(3), potential=tp.Max()))
    assert (c.proper, c.strictly_proper) == (True, False)
    by_function = tp.ConvexPotential(lambda v: v.amax(-1), domain="simplex", strictly_proper=False)
    assert not tp.certify(tp.BackwardLoss(tp.identity(3), potential=by_function)).strictly_proper


def test_a_bayes_risk_that_is_flat_on_a_face_is_not_strictly_proper():
    """Strict inside, flat on the edge between classes 0 and 1: only the subsets of Appendix D tell."""
    S = tp.BayesRisk(lambda p: p[..., 2].square())
    c = tp.certify(tp.BackwardLoss(tp.identity(3), potential=S))
    assert c.proper
    assert not c.strictly_proper
    assert c.counterexample is not None


def test_a_function_that_is_not_convex_is_found_out():
    F = tp.ConvexPotential(lambda v: torch.logsumexp(v, -1) + v.sin().sum(-1), domain="simplex")
    c = tp.certify(tp.BackwardLoss(tp.identity(3), potential=F))
    assert not c.proper
    assert c.counterexample["midpoint_above_chord_by"] > 0
    assert c.evidence == "numerical"


def test_a_bayes_risk_that_is_not_convex_is_found_out():
    S = tp.BayesRisk(lambda p: p.square().sum(-1) - 3 * p[..., 0].square() * p[..., 1])
    c = tp.certify(tp.BackwardLoss(tp.identity(3), potential=S))
    assert not c.proper
    p, q = (torch.as_tensor(c.counterexample[name]) for name in "pq")
    bulge = S.function((p + q) / 2) - (S.function(p) + S.function(q)) / 2
    assert float(bulge) > 0
    assert c.counterexample["midpoint_above_chord_by"] == pytest.approx(float(bulge))
    assert "note  S is not convex, so Theorem 4 does not apply" in str(c)


def test_squeezing_below_one_is_improper_and_at_one_not_strict():
    T = tp.complementary(4)
    below = tp.certify(tp.BackwardLoss(T, potential=tp.LogSumExp().squeezed(0.5, 0.5, allow_improper=True)))
    assert not below.proper
    assert not below.lower_bounded
    at = tp.certify(tp.BackwardLoss(T, squeeze=(3.0, 1.0)))
    assert at.proper
    assert not at.strictly_proper
    assert at.lower_bounded
    assert any("v = 0 is optimal for every p" in note for note in at.notes)


def test_forward_correction_without_reconstruction_is_proper_but_not_strict():
    c = tp.certify(tp.ForwardLoss(tp.coarse_labels([[0, 1], [2]])))
    assert (c.reconstructible, c.proper, c.strictly_proper, c.lower_bounded) == (False, True, False, True)
    assert any("{0, 1}" in note for note in c.notes)


def test_batch_losses_with_disjoint_supports_are_proper():
    assert tp.certify(tp.GradientAscentLoss(tp.identity(3))).proper
    assert not tp.certify(tp.NonNegativeLoss(tp.symmetric_noise(3, 0.1))).proper


def as_function(loss):
    """A loss on probabilities, as a stranger might write it: ``F(v) - <R e_y, v>``, or ``-log (T q)_y``."""
    T, F = torch.as_tensor(loss.transition.matrix()), getattr(loss, "potential", None)
    if F is None:
        return lambda q: -(q @ T.T).log()
    R = torch.as_tensor(loss.reconstruction.matrix())

    def function(q):
        v = F.inverse_link(q)
        return (F.value(v)[..., None] - v @ R).detach()

    return function


@pytest.mark.parametrize(
    ("name", "loss"),
    [(name, "backward") for name in TRANSITIONS]
    + [(name, loss) for name in ("complementary", "positive-unlabeled") for loss in ("backward Brier", "forward")],
)
def test_functions_get_the_verdict_of_the_losses_they_are(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    function = as_function(module)
    q = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(module.transition.num_classes), 5))
    v = module.potential.inverse_link(q) if hasattr(module, "potential") else q.log()
    assert torch.allclose(function(q), table(module, v).detach(), rtol=1e-9, atol=1e-9)
    c = tp.certify(function, module.transition)
    assert c.evidence == "numerical"
    assert c.proper
    assert c.strictly_proper
    assert c.lower_bounded == tp.certify(module).lower_bounded


def test_improper_functions_get_a_counterexample_that_is_one():
    T = tp.complementary(3)
    squeezed = tp.BackwardLoss(T, squeeze=(1.0, 2.0), reduction="none")
    improper = {
        "squeezed, read through softmax": lambda q: table(squeezed, q.log()).detach(),
        "mean exp p_y": lambda q: q.exp(),
        "backward absolute error": lambda q: (2 * (1 - q)) @ torch.as_tensor(T.reconstruction().matrix()),
    }
    for loss in improper.values():
        c = tp.certify(loss, T)
        assert not c.proper
        p, q = c.counterexample["p"], c.counterexample["q"]
        risks = (loss(torch.as_tensor(np.stack([p, q]))).numpy() @ (T.matrix() @ p)).tolist()
        assert risks[1] < risks[0]
        assert c.counterexample["gain"] == pytest.approx(risks[0] - risks[1], rel=1e-6)


def test_an_unbounded_function_gets_a_witness():
    T = tp.complementary(3)
    c = tp.certify(as_function(tp.BackwardLoss(T, reduction="none")), T)
    assert not c.lower_bounded
    assert c.witness.slope == pytest.approx(-1.0, rel=1e-3)


@pytest.mark.parametrize("name", ["complementary", "partial", "two sources", "positive-unlabeled"])
@pytest.mark.parametrize("loss", ["forward", "backward", "backward Brier"])
def test_decomposition(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    T = module.transition
    q = inside(7, T.num_classes)
    values = as_function(module)(q)
    d = tp.decompose(values, T, points=q)
    rebuilt = d.potential[:, None] - d.scores @ d.reconstruction.matrix() + d.delta
    assert np.abs(rebuilt - values.numpy()).max() < 1e-9
    assert d.residual < 1e-9
    assert d.violation < 1e-9
    assert np.abs(d.scores.sum(axis=1)).max() < 1e-9
    if loss != "forward" or T.num_weak_labels == T.num_classes:
        assert np.abs(d.delta).max() < 1e-8
    else:
        assert np.abs(d.delta).max() > 1e-3


def test_decomposition_sees_an_improper_loss():
    T, q = tp.complementary(3), inside(9, 3)
    assert tp.decompose(lambda q: q.exp(), T, points=q).violation > 1e-4


def test_certificates_of_large_structured_losses():
    c = tp.certify(tp.BackwardLoss(tp.partial_labels(1000, 0.01), squeeze=(1.0, 2.0)))
    assert c.lower_bounded
    assert len(c.bounds) == 1000  # one per size of the candidate set
    assert tp.certify(tp.BackwardLoss(tp.complementary(50_000))).witness.slope < -49_000


def test_a_loss_turned_over_is_refuted():
    T = tp.complementary(3)
    R = torch.as_tensor(T.reconstruction().matrix())
    verdict = tp.certify(lambda q: q.log() @ R, T)
    assert not verdict.proper


def test_the_slope_of_a_witness_counts_every_squeezing():
    loss = tp.BackwardLoss(tp.complementary(4), tp.LogSumExp().squeezed(0.5, 1.0).squeezed(0.1, 1.0), reduction="none")
    witness = loss.certify().witness
    ray = torch.as_tensor(witness.direction)
    labels = torch.arange(4)
    far = [loss((t * ray).expand(4, 4), labels) for t in (1e4, 2e4)]
    assert float((far[1] - far[0]).min()) / 1e4 == pytest.approx(witness.slope, abs=1e-6)


@pytest.mark.parametrize("weights", [[1, 2, 3], [1, 1, 30], [3, 2, 1]])
@pytest.mark.parametrize("potential", [tp.LogSumExp(), tp.Sparsemax(), tp.LogSumExp().squeezed(0.2, 1.0)], ids=repr)
def test_witnesses_of_weighted_losses(potential, weights):
    loss = tp.BackwardLoss(tp.complementary(3), potential, class_weights=weights, reduction="none")
    certificate = loss.certify()
    assert not certificate.lower_bounded
    y = int(certificate.witness.label.removeprefix("label "))
    ray = torch.as_tensor(certificate.witness.direction)
    far = [float(loss(t * ray[None], [y])) for t in (1e4, 2e4)]
    assert (far[1] - far[0]) / 1e4 == pytest.approx(certificate.witness.slope, abs=1e-6)
    assert certificate.witness.slope < 0


@pytest.mark.parametrize("seed", range(6))
def test_the_tightest_r_is_bounded_where_the_supports_say_so(seed):
    """Disjoint supports: some R has all targets in the simplex, whatever the rounding of the one that was computed."""
    rng = np.random.default_rng(seed)
    K, M = 3, 7
    owner = np.concatenate([np.arange(K), rng.integers(0, K, M - K)])
    T = tp.Transition(_owned(rng, owner, K))
    assert T.diagnose().disjoint_supports
    certificate = tp.certify(tp.BackwardLoss(T, reconstruction="tightest"))
    assert certificate.lower_bounded
    assert certificate.witness is None


def _owned(rng, owner, K):
    weights = rng.random((len(owner), K)) * (owner[:, None] == np.arange(K))
    return weights / weights.sum(axis=0)


def test_rounding_of_r_does_not_decide_what_is_bounded():
    T = tp.Transition([[0.5, 0.0], [0.5, 0.0], [0.0, 1.0]])
    R = np.array([[1.0, 1.0, -1e-11], [0.0, 0.0, 1.0 + 1e-11]])
    assert tp.certify(tp.BackwardLoss(T, reconstruction=tp.Reconstruction(R, T))).lower_bounded
    R[0, 2], R[1, 2] = -1e-7, 1 + 1e-7  # this is no rounding
    assert not tp.certify(tp.BackwardLoss(T, reconstruction=tp.Reconstruction(R, T))).lower_bounded


FLAT = {
    "flat along a direction": lambda p: (p[..., 0] - p[..., 1]) ** 2,
    "flat on a face": lambda p: p[..., 2] ** 2 + p[..., 2] * p[..., 0],
}


@pytest.mark.parametrize("name", FLAT)
def test_a_bayes_risk_with_a_flat_direction_is_not_strictly_proper(name):
    certificate = tp.certify(tp.BackwardLoss(tp.identity(3), tp.BayesRisk(FLAT[name])))
    assert not certificate.strictly_proper
    assert certificate.counterexample is not None


def test_a_bayes_risk_whose_curvature_vanishes_at_a_point_is_strictly_proper():
    assert tp.certify(tp.BackwardLoss(tp.identity(3), tp.BayesRisk(lambda p: (p**4).sum(-1)))).strictly_proper


@pytest.mark.parametrize(
    ("F", "domain", "message"),
    [
        (lambda v: torch.logsumexp(v, -1), "affine", "domain: expected 'simplex', got 'affine'"),
        (lambda v: v.pow(4).sum(-1), "simplex", "domain: expected 'affine', got 'simplex'"),
        (lambda v: torch.logsumexp(v, -1) + v.abs().sum(-1), "simplex", "or faster than linear"),
    ],
)
def test_a_domain_that_the_growth_of_f_contradicts_is_refused(F, domain, message):
    loss = tp.BackwardLoss(tp.complementary(3), tp.ConvexPotential(F, domain))
    with pytest.raises(ValueError, match=re.escape(message)):
        tp.certify(loss)


def _brier(q):
    return ((q[:, None, :] - torch.eye(3, dtype=q.dtype)) ** 2).sum(-1)


DIP = torch.tensor([0.2, 0.3, 0.5])
CALLABLES = {  # name -> (losses of all labels, their infimum)
    "a pole inside": (lambda q: _brier(q) + (q[:, :1] - 0.3137).abs().log(), -np.inf),
    "a fall along a curve": (
        lambda q: (q[:, :1].log() * torch.exp(-(q[:, 1:2].log() - 2 * q[:, :1].log()).square())).expand(-1, 3),
        -np.inf,
    ),
    "a narrow dip": (
        lambda q: (
            0.7 - 0.06 * torch.exp(-200 * (q - torch.tensor([0.2, 0.3, 0.5])).square().sum(-1, True)).expand(-1, 3)
        ),
        0.64,
    ),
    "the Brier score": (_brier, 0.0),
    "cross entropy": (lambda q: -q.log(), 0.0),
}


@pytest.mark.parametrize("name", CALLABLES)
def test_the_search_finds_how_deep_a_loss_goes(name):
    loss, infimum = CALLABLES[name]
    certificate = tp.certify(loss, tp.identity(3))
    np.testing.assert_allclose(certificate.bounds, infimum, atol=1e-5)
    if np.isfinite(infimum):
        assert "no fall found; smallest value found" in str(certificate)
        assert any("not proven infima" in note for note in certificate.notes)


@EVERY
@pytest.mark.parametrize("loss", LOSSES)
def test_one_answer_whoever_is_asked(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    certificate = tp.certify(module)
    assert certificate == module.certify()
    assert hash(certificate) == hash(module.certify())
    assert (certificate == tp.certify(module, seed=1)) or certificate.evidence == "numerical"
    assert certificate != tp.certify(tp.GradientAscentLoss(module.transition))
    assert certificate != "a certificate"


@pytest.mark.parametrize("name", [n for n, make in TRANSITIONS.items() if "annotator" in n])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5, 1.5]])
def test_no_row_of_answers_falls_below_its_bound_whatever_is_missing(name, loss, weights):
    T = TRANSITIONS[name]()
    module = LOSSES[loss](T)
    if weights is not None:
        if not isinstance(module, tp.BackwardLoss):
            return
        w = weights[: T.num_classes]
        module = tp.BackwardLoss(T, module.potential, class_weights=w, reduction="none")
    rows = torch.cat([every_label(T), torch.full((1, T.label_shape[0]), -1)])
    for a in range(T.label_shape[0]):
        rows = torch.cat([rows, rows.clone().index_fill_(1, torch.tensor([a]), -1)])
    known, certificate = module.bounds(), tp.certify(module)
    bounds = known.of(rows)
    assert known.least == certificate.bounds.min() <= float(bounds.min()) + 1e-12
    assert f"{certificate.bounds.min():.6g}"[:5] in tp.certificates.comparison({"it": certificate})
    for scale in (0.1, 3.0, 100.0):
        v = scale * centred(len(rows), T.num_classes, seed=1, scale=1.0)
        assert (module(v, rows) >= bounds - 1e-9 * (1 + scale)).all()


class Absolute(tp.BackwardLoss):
    def pointwise(self, scores, labels):
        return super().pointwise(scores, labels).abs()


class Half(tp.ForwardLoss):
    def pointwise(self, scores, labels):
        return super().pointwise(scores, labels) / 2


class Renamed(tp.ForwardLoss):
    def extra_repr(self):
        return "mine"


def test_a_subclass_is_certified_by_what_it_computes():
    T = tp.complementary(3)
    absolute, half = tp.certify(Absolute(T)), tp.certify(Half(T))
    assert (absolute.proper, absolute.lower_bounded, absolute.evidence) == (False, True, "numerical")
    assert half.proper
    np.testing.assert_allclose(half.bounds, tp.ForwardLoss(T).lower_bounds() / 2, atol=1e-5)
    assert np.isnan(Half(T).lower_bounds()).all()
    assert tp.certify(Renamed(T)).evidence == "exact"
    assert np.array_equal(Renamed(T).lower_bounds(), tp.ForwardLoss(T).lower_bounds())

    class Other(tp.GradientAscentLoss):
        def risk(self, class_risks):
            return class_risks.sum()

    with pytest.raises(tp.InputError) as error:
        tp.certify(Other(T))
    assert error.value.argument == "loss"


def test_a_loss_of_another_kind_is_certified_by_what_was_registered():
    from tproper.losses import certificate_of

    class Elsewhere(torch.nn.Module):
        pass

    with pytest.raises(tp.InputError):
        certificate_of(object())
    certificate_of.register(Elsewhere, lambda loss: "mine")
    assert tp.certify(Elsewhere()) == "mine"
    certificate_of.register(Renamed, lambda loss: "mine too")
    try:
        assert tp.certify(Renamed(tp.identity(3))) == Renamed(tp.identity(3)).certify() == "mine too"
    finally:
        certificate_of.register(Renamed, certificate_of.dispatch(tp.ForwardLoss))


def test_a_witness_is_found_by_its_place_not_its_text():
    T = tp.Transition([[0.2, 0.3, 0.5], [0.2, 0.5, 0.1], [0.6, 0.2, 0.4]], weak_labels=["1", 1, 2])
    for names in (["1", 1, 2], [1, 2, "1"], [2, "1", 1]):
        T = tp.Transition(T.matrix(), weak_labels=names)
        certificate = tp.certify(tp.BackwardLoss(T))
        assert certificate.witness is not None
        assert not any("no ray was found" in note for note in certificate.notes)


def test_the_ball_outside_of_which_a_potential_is_infinite_is_spoken_of():
    loss = tp.BackwardLoss(tp.complementary(3), tp.Spherical())
    assert any("infinite at centred scores of a norm above 1" in note for note in tp.certify(loss).notes)
    with pytest.warns(UserWarning, match="infinite where centred scores have a norm above 1"):
        loss(torch.tensor([[3.0, 0.0, -3.0]]), [0])
    inside = tp.BackwardLoss(tp.complementary(3), tp.Spherical())
    inside(torch.tensor([[0.3, 0.0, -0.3]]), [0])


@pytest.mark.parametrize("potential", [tp.LogSumExp(), tp.LogSumExp().squeezed(1.0, 2.0), tp.Brier()], ids=repr)
@pytest.mark.parametrize("name", ["symmetric", "complementary", "partial", "multi-complementary", "three annotators"])
def test_bounds_under_class_weights_are_those_of_the_matrix(name, potential):
    T = TRANSITIONS[name]()
    w = np.array([1.0, 2.0, 1.0, 0.5, 2.0])[: T.num_classes]
    loss = tp.BackwardLoss(T, potential, class_weights=w)
    R = tp.Reconstruction(loss.reconstruction.matrix(), tp.Transition(T.matrix()))
    plain = tp.BackwardLoss(R.transition, potential, reconstruction=R, class_weights=w)
    np.testing.assert_allclose(loss.lower_bounds(), plain.lower_bounds(), rtol=1e-9)
    assert tp.certify(loss).lower_bounded == tp.certify(plain).lower_bounded or bool(T.separate)


@pytest.mark.parametrize("squeeze", [None, (1.0, 2.0)])
@pytest.mark.parametrize(
    ("T", "rows"),
    [
        (tp.complementary(50_000), 50_000),
        (tp.partial_labels(13, 0.2), 13),
        (tp.partial_labels(40, 0.1), 40),
        (tp.annotators([tp.symmetric_noise(3, 0.2)] * 20), 60),
    ],
    ids=lambda x: getattr(x, "name", ""),
)
def test_bounds_under_class_weights_of_structures_that_no_list_holds(T, rows, squeeze):
    different = np.linspace(1, 2, T.num_classes)
    for w in (np.where(np.arange(T.num_classes) % 2, 1.0, 1.5), *([different] if T.num_classes < 1000 else [])):
        loss = tp.BackwardLoss(T, squeeze=squeeze, class_weights=w)
        assert loss.lower_bounds().shape == (rows,)
        certificate = tp.certify(loss)
        assert certificate.lower_bounded == (not np.isneginf(loss.lower_bounds()).any())
        y = T.encode(T.sample(np.arange(3) % T.num_classes, 0))
        assert loss.bounds().of(y).shape == (3,)


def test_bounds_of_a_potential_that_prefers_a_class():
    F = tp.ConvexPotential(lambda v: torch.logsumexp(v + torch.arange(3.0), -1) + v.square().sum(-1) / 4, "affine")
    for T in (tp.complementary(3), tp.partial_labels(3, 0.2)):
        plain = tp.BackwardLoss(tp.Transition(T.matrix()), F, reconstruction="auto")
        if T.num_weak_labels == 3:
            np.testing.assert_allclose(tp.BackwardLoss(T, F).lower_bounds(), plain.lower_bounds(), atol=1e-9)
        assert np.ptp(tp.BackwardLoss(T, F).lower_bounds()) > 0.1
    assert not F.squeezed(0.1, 2.0).symmetric
    assert tp.Brier().squeezed(0.1, 2.0).symmetric


def test_a_decomposition_prints_as_sentences():
    T = tp.complementary(3)
    shown = str(tp.decompose(lambda q: -(q @ torch.as_tensor(T.matrix()).T).log(), T, points=inside(5, 3)))
    assert "array(" not in shown
    assert len(shown.splitlines()) == 6
    assert "proper     yes" in shown


@pytest.mark.parametrize("alpha", [1.0005, 1.001, 1.005, 1.02])
@pytest.mark.parametrize("potential", [tp.LogSumExp(), tp.Tsallis(1.5), tp.Brier(), tp.Spherical("simplex")], ids=repr)
def test_bounds_near_alpha_one_are_numbers(potential, alpha):
    """Some are below the least float, and say so."""
    for k in (0.2, 3.0):
        loss = tp.BackwardLoss(tp.complementary(10), potential, squeeze=(k, alpha))
        bounds, certificate = loss.lower_bounds(), tp.certify(loss)
        assert np.isfinite(bounds).all()
        assert certificate.lower_bounded
        below = bool((bounds == -np.finfo(float).max).any())
        assert any("the least number that a float holds" in note for note in certificate.notes) == below
