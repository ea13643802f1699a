"""Every public name against cases of an independent high-precision oracle (cases.json: mpmath, fractions, LPs)."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import linprog

import tproper as tp

CASES = json.loads((Path(__file__).parent / "cases.json").read_text())["cases"]


def numbers(x):
    """'inf' and 'nan' are strings in JSON."""
    return [numbers(i) for i in x] if isinstance(x, list) else float(x)


def tensor(x):
    return torch.tensor(numbers(x), dtype=torch.float64)


def close(got, want, tol):
    got = got.detach().numpy() if isinstance(got, torch.Tensor) else np.asarray(got, dtype=float)
    want = np.asarray(numbers(want), dtype=float)
    assert got.shape == want.shape
    finite = np.isfinite(want)
    assert np.array_equal(got[~finite], want[~finite])
    error = np.abs(got[finite] - want[finite]) / (1 + np.abs(want[finite]))
    assert error.max(initial=0.0) <= tol, (got, want)


POTENTIALS = {
    "logsumexp": lambda d: tp.LogSumExp(),
    "sparsemax": lambda d: tp.Sparsemax(),
    "tsallis": lambda d: tp.Tsallis(d["a"]),
    "brier_affine": lambda d: tp.Brier(),
    "brier_simplex": lambda d: tp.Brier(domain="simplex"),
    "spherical_affine": lambda d: tp.Spherical(),
    "spherical_simplex": lambda d: tp.Spherical(domain="simplex"),
    "gls": lambda d: tp.LogSumExp().squeezed(d["k"], d["alpha"], allow_improper=d["alpha"] < 1),
    "brier_simplex_gls2": lambda d: tp.Brier(domain="simplex").squeezed(d["k"], 2.0),
}

FAMILIES = {
    "symmetric": lambda i: tp.symmetric_noise(i["K"], i["p"]),
    "class_dependent": lambda i: tp.binary_noise(i["r_plus"], i["r_minus"]),
    "pair_flip": lambda i: tp.pair_noise(i["K"], i["eps"]),
    "complementary": lambda i: tp.complementary(i["K"]),
    "biased_complementary": lambda i: tp.complementary(len(i["weights"]), weights=i["weights"]),
    "noisy_complementary": lambda i: tp.complementary(i["K"], noise=i["rho"]),
    "partial": lambda i: tp.partial_labels(i["K"], i["p"]),
    "pu": lambda i: tp.positive_unlabeled(i["r"]),
    "stack": lambda i: tp.multi_source([tp.Transition(t) for t in i["Ts"]], weights=i["weights"]),
    "coarse": lambda i: tp.coarse_labels(i["groups"]),
    "explicit": lambda i: tp.Transition(i["T"]),
    "multi_complementary": lambda i: tp.multi_complementary(i["K"], i["j"]),
}


def potential(d):
    return POTENTIALS[d["name"]](d)


def transition_for(R):
    """Some T with R T = I, by a linear program: many cases give R alone. None where there is none."""
    R = np.asarray(R, dtype=float)
    K, M = R.shape
    left = [np.append(np.kron(R[w], np.eye(K)[z]), 0.0) for w in range(K) for z in range(K)]
    sums = [np.append(np.kron(np.ones(M), np.eye(K)[z]), 0.0) for z in range(K)]
    found = linprog(
        np.append(np.zeros(M * K), -1.0),  # the rarest label as frequent as can be
        A_ub=np.hstack([-np.kron(np.eye(M), np.ones(K)), np.ones((M, 1))]),
        b_ub=np.zeros(M),
        A_eq=np.array(left + sums),
        b_eq=np.append(np.eye(K).ravel(), np.ones(K)),
        bounds=[(0, 1)] * (M * K) + [(0, None)],
    )
    if not found.success:
        return None
    T = np.clip(found.x[:-1].reshape(M, K), 0, None)
    return tp.Transition(T / T.sum(axis=0))


def loss_for(R, d, T=None):
    transition = transition_for(R) if T is None else tp.Transition(T)
    if transition is None:
        pytest.skip("no transition has this R")
    R = tp.Reconstruction(R, transition)
    return tp.BackwardLoss(transition, potential=potential(d), reconstruction=R, reduction="none")


def every_label(loss, v):
    M = loss.transition.num_weak_labels
    return loss(v.expand(M, -1), torch.arange(M))


def mean_loss(loss, v, T, p):
    return float(tensor(T) @ tensor(p) @ every_label(loss, v))


def sorted_rows(A):
    A = np.asarray(A, dtype=float)
    return A[np.lexsort(np.round(A, 9).T)]


def transition(i, e, tol):
    T = FAMILIES[i["family"]](i)
    got, want = T.matrix(), e["T"]
    if i["family"] == "multi_complementary":  # rows are ordered by candidate set, not by what is excluded
        got, want = sorted_rows(got), sorted_rows(want).tolist()
    close(got, want, tol)
    d = T.diagnose()
    assert (d.rank, d.reconstructible) == (e["rank"], e["reconstructible"])
    if "sigma_min" in e:
        assert d.smallest_singular_value == pytest.approx(e["sigma_min"], abs=1e-9)


def reconstruction(i, e, tol):
    method = {"pinv_normalised": "pinv"}.get(i["method"], i["method"])
    R = tp.Transition(i["T"]).reconstruction(method, prior=i.get("prior")).matrix()
    want = np.array(numbers(e["R"]))
    close(R, (want + (1 - want.sum(axis=0)) / len(want)).tolist(), tol)


def is_reconstruction(i, e, tol):
    if e["is_reconstruction"]:
        tp.Reconstruction(i["R"], tp.Transition(i["T"]))
    else:
        with pytest.raises(ValueError, match="expected a left inverse"):
            tp.Reconstruction(i["R"], tp.Transition(i["T"]))


def non_reconstructible(i, e, tol):
    T = tp.Transition(i["T"])
    d = T.diagnose()
    assert d.rank == e["rank"]
    assert d.kernel_basis.shape[1] == e["kernel_dim"]
    assert np.abs(T.matrix() @ d.kernel_basis).max() < 1e-9
    with pytest.raises(tp.NotReconstructibleError, match="cannot be told apart"):
        T.reconstruction()


def potential_case(i, e, tol):
    F, v = potential(i["potential"]), tensor(i["v"])
    close(F.value(v), e["F"], tol)
    if e["probs"] is not None:
        close(F.link(v), e["probs"], tol)
    if e["loss"] is not None:
        close(F.class_losses(v), e["loss"], tol)


def link(i, e, tol):
    close(potential(i["potential"]).inverse_link(tensor(i["p"])), e["v"], max(tol, 1e-9))


def link_mismatch(i, e, tol):
    v = tensor(e["v"])
    loss = tp.BackwardLoss(tp.identity(len(i["p"])), squeeze=(i["potential"]["k"], i["potential"]["alpha"]))
    close(loss.probabilities(v), i["p"], 1e-9)
    close(tp.LogSumExp().probabilities(v), e["softmax_of_v"], 1e-9)


def link_alpha1(i, e, tol):
    close(-tp.LogSumExp().squeezed(i["k"], 1.0).conjugate(tensor(i["p"])), e["minimum"], 1e-9)


def uncentred_gls_minimiser(i, e, tol):
    close(tp.LogSumExp().squeezed(i["k"], i["alpha"]).inverse_link(tensor(i["p"])), e["v_centred_gls"], 1e-9)


def gls_binary_bayes_act(i, e, tol):
    F, v = tp.LogSumExp().squeezed(i["k"], i["alpha"], allow_improper=True), tensor(e["v"])
    close(F.value(v) - tensor(i["p"]) @ v, e["minimum"], tol)


def code_convention(i, e, tol):
    """The authors' code adds coefficient/exponent * sum |v|^exponent."""
    v = tensor([1.0, 0.5, -1.5])
    theirs = i["coefficient"] / i["exponent"] * v.abs().pow(i["exponent"]).sum()
    ours = tp.LogSumExp().squeezed(e["paper_k"], i["exponent"]).value(v) - tp.LogSumExp().value(v)
    close(ours, float(theirs), tol)


def gls_term(i, e, tol):
    """Beyond float32's range the term is inf there and exact in float64, never NaN."""
    v = tensor(i["logits"])[0]
    F = tp.LogSumExp().squeezed(i["k"], i["alpha"])
    close(F.value(v) - tp.LogSumExp().value(v), e["value"], tol)
    assert math.isinf(float(F.value(v.float()))) == e["float32_overflows"]


def t_proper(i, e, tol):
    T, name = i["T"], i["loss"]
    fixed = {"backward_ce": "logsumexp", "backward_brier": "brier_affine", "backward_spherical": "spherical_affine"}
    if name == "forward_ce":
        loss = tp.ForwardLoss(tp.Transition(T), reduction="none")
    else:
        d = {"name": fixed[name]} if name in fixed else i["potential"]
        loss = loss_for(i["R"], d, T)

    def scores(q):
        by_log = name in ("forward_ce", "backward_ce", "lambda_softmax_link")
        return tensor(q).log() if by_log else loss.potential.inverse_link(tensor(q))

    at_q, at_p = (mean_loss(loss, scores(x), T, i["p"]) for x in (i["q"], i["p"]))
    close([at_q, at_p, at_q - at_p], [e["expected_at_q"], e["expected_at_p"], e["gap"]], max(tol, 1e-9))


def ga_expected(i, e, tol):
    T = tp.Transition(i["T"])
    loss = tp.GradientAscentLoss(T, reconstruction=tp.Reconstruction(i["R"], T))
    weak, n = T.matrix() @ i["p"], i["batch_size"]

    def mean(q):
        v = tensor(q).log().expand(n, -1)
        batches = itertools.product(range(len(weak)), repeat=n)
        return sum(float(np.prod(weak[list(y)])) * float(loss(v, torch.tensor(y))) for y in batches)

    close([mean(e["argmin"]), mean(i["p"])], [e["expected_at_argmin"], e["expected_at_p"]], tol)


def ga_population(i, e, tol):
    """With the whole distribution as the batch, by weights, the absolute values do nothing."""
    T = tp.Transition(i["T"])
    R = tp.Reconstruction(i["R"], T)
    M = T.num_weak_labels
    v = tensor(i["q"]).log().expand(M, -1)
    weak = tensor(i["T"]) @ tensor(i["p"])
    close(tp.GradientAscentLoss(T, reconstruction=R)(v, torch.arange(M), weak), e["ga"], tol)
    close(tp.BackwardLoss(T, reconstruction=R)(v, torch.arange(M), weak), e["bc"], tol)


def lambda_FR(i, e, tol):
    close(every_label(loss_for(i["R"], i["potential"]), tensor(i["v"])), e["values"], tol)


def lower_bound(i, e, tol):
    loss = loss_for(i["R"], i["potential"])
    close(loss.lower_bounds(), e["bounds"], max(tol, 1e-7))
    assert loss.certify().lower_bounded == e["bounded_all"]


def lower_bound_label(i, e, tol):
    close(loss_for(i["R"], i["potential"]).lower_bounds()[i["y"]], e["bound"], max(tol, 1e-7))


def lower_bound_mm(i, e, tol):
    if not np.allclose(np.sum(i["R"], axis=0), 1):
        pytest.skip("log-softmax times R is our loss only where columns sum to one")
    close(loss_for(i["R"], {"name": "logsumexp"}).lower_bounds(), e["bounds"], 1e-7)


def lower_bound_mm_vs_lambda(i, e, tol):
    close(loss_for(i["R"], {"name": "logsumexp"}, i["T"]).lower_bounds()[i["y"]], e["lam"], 1e-7)


def lower_bound_forward(i, e, tol):
    close(tp.ForwardLoss(tp.Transition(i["T"])).lower_bounds(), e["bounds"], tol)


def critical_k(i, e, tol):
    T = transition_for(i["R"])
    if T is None:
        pytest.skip("no transition has this R")
    close(tp.critical_k(T, reconstruction=tp.Reconstruction(i["R"], T)), e["k_star"], max(tol, 1e-9))


def optimal_k_star(i, e, tol):
    close(tp.critical_k(tp.Transition(i["T"]), reconstruction="tightest").max(), e["min_max_k_star"], 1e-7)


def batch_loss(i, e, tol):
    T = tp.Transition(i["T"])
    R = tp.Reconstruction(i["R"], T) if i["loss"] != "forward_ce" else None
    if R is not None and not np.allclose(np.sum(i["R"], axis=0), 1):
        pytest.skip("the oracle's R is not normalised")
    make = {
        "backward_ce": lambda: tp.BackwardLoss(T, reconstruction=R),
        "algorithm1": lambda: tp.BackwardLoss(T, reconstruction=R),
        "gls": lambda: tp.BackwardLoss(T, squeeze=(i["k"], i["alpha"]), reconstruction=R),
        "forward_ce": lambda: tp.ForwardLoss(T),
        "ga": lambda: tp.GradientAscentLoss(T, reconstruction=R),
        "nn": lambda: tp.NonNegativeLoss(T, reconstruction=R),
    }
    dtype = torch.float32 if i.get("dtype") == "float32" else torch.float64
    v = torch.tensor(numbers(i["logits"]), dtype=dtype, requires_grad=True)
    out = make[i["loss"]]()(v, torch.tensor(i["y"]))
    out.backward()
    assert out.dtype == v.grad.dtype == dtype
    if dtype == torch.float32:
        assert abs(float(out.detach()) - e["value"]) <= tol
        close(v.grad, e["grad_logits"], 1e-5)
    else:
        close(out, e["value"], tol)
        if e.get("grad_logits") is not None:
            close(v.grad, e["grad_logits"], tol)


def loss_on_probs(i, e, tol):
    """0 log 0 is 0: at a corner of the simplex, approached through finite scores."""
    loss = loss_for(i["R"], {"name": "logsumexp"})
    v = tensor([0.0 if q else -750.0 for q in i["q"]])
    close(every_label(loss, v)[i["y"]], e["value"], 1e-9)


def partial_column(i, e, tol):
    T, s = tp.partial_labels(i["K"], i["p"]), torch.tensor([i["s"]], dtype=torch.bool)
    close(T.reconstruction("min_variance").targets(s)[0], e["min_var"], 1e-9)
    close(T.reconstruction("tightest").targets(s)[0], e["min_kstar"], 1e-9)


def partial_column_large(i, e, tol):
    T = tp.partial_labels(i["K"], i["p"])
    s = torch.zeros(1, i["K"], dtype=torch.bool)
    s[0, i["on"]] = True
    r = T.reconstruction("min_variance").targets(s)[0]
    close(r[s[0]], [e["min_var_on"]] * int(s.sum()), 1e-9)
    close(r[~s[0]], [e["min_var_off"]] * int((~s).sum()), 1e-9)


def partial_variance(i, e, tol):
    T = tp.partial_labels(i["K"], i["p"])
    weak = T.matrix().mean(axis=1)
    for name, method in (("min_var", "min_variance"), ("pinv", "pinv"), ("min_kstar", "tightest")):
        if name not in e:
            continue
        R = T.reconstruction(method).matrix()
        spread = (R * weak) @ R.T - np.outer(R @ weak, R @ weak)
        close(np.trace(spread) - spread.sum() / len(spread), e[name]["centred_variance"], 1e-9)
        close(tp.critical_k(T, reconstruction=method).max(), e[name]["k_star_max"], 1e-9)


def multi_complementary_column(i, e, tol):
    s = torch.ones(1, i["K"], dtype=torch.bool)
    s[0, i["complementary"]] = False
    close(tp.multi_complementary(i["K"], i["j"]).reconstruction().targets(s)[0], e["column"], 1e-9)


def complementary_equals_partial(i, e, tol):
    ours = sorted_rows(tp.multi_complementary(i["K"], 1).matrix())
    close(ours, sorted_rows(tp.complementary(i["K"]).matrix()).tolist(), tol)


def ambiguity(i, e, tol):
    T = tp.Transition(i["T"], weak_labels=[frozenset(s) for s in i["sets"]])
    close(T.diagnose().ambiguity_degree, e["ambiguity_degree"], tol)


def delta(i, e, tol):
    T = tp.Transition(i["T"])
    R = tp.Reconstruction(i["R"], T)
    d = tp.decompose([e["loss"]], T, reconstruction=R)
    close(d.scores[0], e["v"], tol)
    close(d.potential[0], e["F"], tol)
    close(d.delta[0], e["delta"], tol)
    assert d.residual < 1e-12
    own = (
        tp.ForwardLoss(T, reduction="none")
        if i["loss"] == "forward_ce"
        else loss_for(i["R"], {"name": "logsumexp"}, i["T"])
    )
    close(every_label(own, tensor(i["q"]).log()), e["loss"], tol)


def optimal_bound(i, e, tol):
    """The best worst bound over all R: no R of ours beats it."""
    T = tp.Transition(i["T"])
    for method in ("min_variance", "pinv", "tightest"):
        worst = tp.BackwardLoss(T, potential=potential(i["potential"]), reconstruction=method).lower_bounds().min()
        assert worst <= e["best_worst_bound"] + tol


def lower_bound_brier_on_simplex(i, e, tol):
    """Over the simplex alone the bound is no lower than over all scores."""
    loss = loss_for(i["R"], {"name": "brier_affine"})
    want = np.array(numbers(e["bounds"] if "bounds" in e else [e["bound"]]))
    assert (want >= loss.lower_bounds().min() - 1e-9).all()


def bad_input(i, e, tol):
    T3 = tp.symmetric_noise(3, 0.2)

    def labels():
        kind = torch.float32 if any(isinstance(y, float) for y in i["y"]) else torch.long
        y = torch.tensor(i["y"], dtype=kind)
        return tp.BackwardLoss(tp.symmetric_noise(i["M"], 0.2))(torch.zeros(len(i["y"]), i["M"]), y)

    call = {
        "transition": lambda: tp.Transition(numbers(i["T"])),
        "reconstruct": lambda: tp.Transition(i["T"]).reconstruction(),
        "set_R": lambda: tp.Reconstruction(i["R"], tp.Transition(i["T"])),
        "labels": labels,
        "gls": lambda: tp.LogSumExp().squeezed(float(i["k"]), float(i["alpha"])),
        "logits": lambda: tp.BackwardLoss(T3)(tensor(i["logits"]), torch.tensor([0])),
        "stack": lambda: tp.multi_source([T3, T3], weights=i["weights"]),
        "partial": lambda: tp.partial_labels(i["K"], i["p"]).reconstruction(),
        "min_variance": lambda: tp.Transition(i["T"]).reconstruction("min_variance", prior=i["prior"]),
    }[i["target"]]
    if e["behaviour"] == "raise":
        with pytest.raises(ValueError) as caught:
            call()
        if e["code"] == "looks_transposed":
            assert re.search("transpose", str(caught.value))
    elif e["behaviour"] == "raise_or_propagate_nan":
        assert math.isnan(float(call()))
    else:
        made = call()
        if i["target"] == "transition":  # accepted, so it also reconstructs
            R = made.reconstruction("min_variance").matrix()
            assert np.allclose(R @ made.matrix(), np.eye(made.num_classes), atol=1e-6)


CHECKS = {"potential": potential_case} | {
    f.__name__: f
    for f in (
        transition, reconstruction, is_reconstruction, non_reconstructible, link, link_mismatch, link_alpha1,
        uncentred_gls_minimiser, gls_binary_bayes_act, code_convention, gls_term, t_proper, ga_expected, ga_population,
        lambda_FR, lower_bound, lower_bound_label, lower_bound_mm, lower_bound_mm_vs_lambda, lower_bound_forward,
        critical_k, optimal_k_star, batch_loss, loss_on_probs, partial_column, partial_column_large, partial_variance,
        multi_complementary_column, complementary_equals_partial, ambiguity, delta, optimal_bound,
        lower_bound_brier_on_simplex, bad_input,
    )
}  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: c["id"])
def test_case(case):
    CHECKS[case["kind"]](case["inputs"], case["expected"], case["tol"])


def test_every_kind_is_checked():
    assert {c["kind"] for c in CASES} == set(CHECKS)
