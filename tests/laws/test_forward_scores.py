"""Forward correction with any proper score and link: proper, bounded as certified, and the plain score at T = I."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.losses import loss_from_dict, loss_to_dict, make_loss
from tproper.losses.kernels import dispatch

from . import laws
from .registry import TRANSITIONS, centred, dense, every_label, inside, random_columns, table

SCORES = ["log", "brier", "spherical", "tsallis:1.5", "tsallis:1.2", "tsallis:3", "tsallis:0.5"]
LINKS = {"softmax": None, "Tsallis 1.5": tp.Tsallis(1.5), "Brier": tp.Brier(), "gLS": tp.LogSumExp().squeezed(1.0, 2.0)}
KINDS = [n for n in TRANSITIONS if "annotator" not in n]
EXACT = ["log", "brier", "spherical", "tsallis:1.5"]


def forward(T: tp.Transition, score: object = "log", **options: object) -> tp.ForwardLoss:
    return tp.ForwardLoss(T, reduction="none", score=score, **options)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", KINDS)
def test_proper(name, score):
    laws.minimiser_recovers_the_truth(forward(TRANSITIONS[name](), score))


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("score", ["log", "brier"])
@pytest.mark.parametrize("name", ["complementary", "partial", "pair"])
def test_proper_with_any_link(name, score, link):
    """The truth is a stationary point, and no other probabilities have a smaller mean loss."""
    loss = forward(TRANSITIONS[name](), score, link=LINKS[link])
    T = loss.transition
    F = tp.LogSumExp() if LINKS[link] is None else LINKS[link]
    p = inside(1, T.num_classes, seed=3)
    weak = torch.as_tensor(T.matrix()) @ p[0]
    v = F.inverse_link(p).requires_grad_()
    mean = (weak * table(loss, v)[0]).sum()
    (slope,) = torch.autograd.grad(mean, v)
    assert slope.abs().max() < 1e-8
    others = table(loss, F.inverse_link(inside(200, T.num_classes, seed=4))) @ weak
    assert (others > float(mean.detach()) - 1e-12).all()


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", KINDS)
def test_bounded_by_the_certificate(name, score):
    loss = forward(TRANSITIONS[name](), score)
    certificate = loss.certify()
    bounds = torch.as_tensor(certificate.bounds)
    assert certificate.proper
    assert certificate.lower_bounded
    assert (certificate.evidence == "exact") == (score in EXACT or score == "tsallis:1.2")
    scores = torch.cat(
        [6 * centred(150, loss.transition.num_classes, scale=2.0), 40 * torch.eye(loss.transition.num_classes).double()]
    )
    values = table(loss, scores)
    tol = 1e-9 if score in EXACT else 1e-6
    assert (values >= bounds - tol).all()
    assert (bounds >= -1e-12).all()


@pytest.mark.parametrize("score", EXACT)
@pytest.mark.parametrize(
    "name", ["complementary", "partial", "multi-complementary", "pair", "more labels than classes"]
)
def test_descent_comes_close_to_the_bound(name, score):
    laws.descent_respects_bounds(forward(TRANSITIONS[name](), score))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ["complementary", "symmetric", "partial", "multi-complementary"])
def test_structured_is_dense(name, score):
    T = TRANSITIONS[name]()
    ours, theirs = forward(T, score), forward(dense(T), score)
    v = centred(5, T.num_classes, scale=2.0).requires_grad_()
    a, b = table(ours, v), table(theirs, v)
    assert torch.allclose(a, b, atol=1e-10)
    gradients = [torch.autograd.grad(x.sum(), v)[0] for x in (a, b)]
    assert torch.allclose(*gradients, atol=1e-9)
    assert np.allclose(ours.lower_bounds(), theirs.lower_bounds(), atol=1e-6)


def test_what_a_confident_model_leaves_to_a_label_keeps_its_digits():
    """q_y = (1 - p_y)/(K - 1), where p_y is 1 to rounding: the sum of the others knows it."""
    T, v = tp.complementary(5), torch.tensor([[20.0, 0.0, 1.0, -1.0, 0.5]])
    a, b = v.clone().requires_grad_(), v.double().requires_grad_()
    ours, exact = forward(T, "tsallis:0.5")(a, [1]), forward(dense(T), "tsallis:0.5")(b, [1])
    assert float(ours.detach()) == pytest.approx(float(exact.detach()), rel=1e-6)
    torch.testing.assert_close(*(torch.autograd.grad(x.sum(), y)[0].double() for x, y in ((ours, a), (exact, b))))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("a", [0.5, 1.01, 1.1, 1.5, 2.0, 3.0])
def test_tsallis_of_a_label_of_probability_zero(a, dtype):
    """Infinite for a < 1; else 0^(a-1) is 0, and no power of the smallest number. The gradient stays finite."""
    loss = tp.ForwardLoss(tp.identity(3), score=f"tsallis:{a}", link=tp.Sparsemax(), reduction="none")
    v = torch.tensor([[4.0, 3.5, 0.0]], dtype=dtype, requires_grad=True)  # p = (.75, .25, 0)
    got = loss(v, torch.tensor([2]))
    want = (0.75**a + 0.25**a) / a + 1 / (a * (a - 1)) if a > 1 else np.inf
    assert float(got.detach()) == pytest.approx(want, rel=1e-6)
    got.sum().backward()
    assert torch.isfinite(v.grad).all()


@pytest.mark.parametrize(
    ("T", "score"),
    [
        (tp.identity(4), "log"),
        (tp.complementary(5), "log"),
        (tp.complementary(5), tp.LogSumExp()),
        (tp.complementary(5), tp.Tsallis(0.5)),
        (tp.partial_labels(3, 0.0), "log"),
        (tp.annotators([tp.identity(3), tp.symmetric_noise(3, 0.2)]), "log"),
    ],
    ids=str,
)
def test_a_label_that_a_sparse_link_excludes(T, score):
    """It costs infinity, as one that cannot occur does, and leaves the other rows' gradients alone."""
    y = every_label(T)
    p = torch.eye(T.num_classes, dtype=torch.float64)
    loss = forward(T, score, link=tp.Sparsemax())
    v = (3 * p).repeat_interleave(len(y), 0).requires_grad_()
    got = loss(v, y.repeat(T.num_classes, *[1] * (y.ndim - 1)))
    excluded = torch.as_tensor(T.matrix().T.reshape(-1) == 0)
    assert excluded.any()
    assert torch.equal(got.detach() == np.inf, excluded)
    got.sum().backward()
    assert torch.isfinite(v.grad).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("link", [None, tp.Tsallis(1.5), tp.Sparsemax(), tp.Brier()], ids=str)
def test_more_annotators_than_a_product_has_room_for(link, dtype):
    """``prod_a T_a[y_a, z]`` over 2000 answers is no number; its logarithm is."""
    T = tp.annotators([tp.symmetric_noise(3, 0.3)] * 2000)
    y = torch.as_tensor(T.sample(np.arange(3), 0))
    v = torch.tensor([[0.2, 0.1, -0.3], [0.4, 0.3, 0.1], [-0.1, 0.1, 0.0]], dtype=dtype, requires_grad=True)
    loss = forward(T, link=link)
    rows = torch.as_tensor(tp.symmetric_noise(3, 0.3).matrix()).log()[y].sum(1)
    x = v.detach().double().requires_grad_()
    got, want = loss(v, y), -torch.logsumexp(rows + loss.probabilities(x).log(), -1)
    assert torch.allclose(got.double(), want, rtol=1e-5)
    for out in (got, want):
        out.sum().backward()
    assert torch.allclose(v.grad.double(), x.grad, atol=1e-4)


def test_many_candidate_classes_need_no_list():
    """Brier and spherical know ||T p||^2 by the Gram matrix; a score that needs all of q says that it cannot."""
    T = tp.partial_labels(40, 0.1)
    v, y = torch.randn(6, 40, dtype=torch.float64), T.encode(T.sample(np.arange(6), 0))
    for score in ("brier", "spherical"):
        loss = forward(T, score)
        assert torch.isfinite(loss(v, y)).all()
        bounds = loss.lower_bounds()
        assert len(bounds) == 40
        assert (loss(v, y) >= torch.as_tensor(bounds)[y.sum(-1) - 1] - 1e-12).all()
    with refused("score"):
        forward(T, "tsallis:1.5")


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("name", ["complementary", "partial", "pair", "two sources"])
def test_gradcheck(name, score):
    loss = forward(TRANSITIONS[name](), score)
    v, y = centred(4, loss.transition.num_classes), every_label(loss.transition)[:4]
    assert torch.autograd.gradcheck(lambda v: loss(v, y), v[: len(y)].requires_grad_(), atol=1e-6)


def test_the_identity_gives_the_plain_score():
    K = 5
    p, y = inside(8, K), torch.arange(8) % K
    v, own = p.log(), p[torch.arange(8), y]
    one_hot = torch.eye(K, dtype=torch.float64)[y]
    plain = {
        "log": -own.log(),
        "brier": (p - one_hot).square().sum(-1),
        "spherical": 1 - own / p.norm(dim=-1),
    }
    for name, want in plain.items():
        assert torch.allclose(forward(tp.identity(K), name)(v, y), want)
    for F in (tp.Brier(), tp.Spherical(), tp.Tsallis(1.5), tp.Tsallis(0.5), tp.Sparsemax(), tp.LogSumExp()):
        want = F.class_losses(F.inverse_link(p))[torch.arange(8), y]
        assert torch.allclose(forward(tp.identity(K), F)(v, y), want, atol=1e-9)
    mine = tp.ConvexPotential(lambda v: torch.logsumexp(v, -1) + v.square().sum(-1) / 4, domain="affine")
    want = mine.class_losses(mine.inverse_link(p))[torch.arange(8), y]
    assert torch.allclose(forward(tp.identity(K), mine)(v, y), want, atol=1e-7)


def test_names_files_and_wrong_uses():
    T = tp.complementary(4)
    v, y = centred(4, 4), torch.arange(4)
    for score in SCORES:
        made = make_loss("forward" if score == "log" else f"forward:{score}", T)
        again = loss_from_dict(loss_to_dict(made), T)
        assert torch.equal(again(v, y), tp.ForwardLoss(T, score=score)(v, y))
    linked = tp.ForwardLoss(T, score="brier", link=tp.Tsallis(1.5))
    assert torch.equal(loss_from_dict(loss_to_dict(linked), T)(v, y), linked(v, y))
    with refused("score"):
        tp.ForwardLoss(T, score="hinge")
    with refused("score"):
        tp.ForwardLoss(T, score="tsallis:x")
    with refused("link"):
        tp.ForwardLoss(T, link=tp.Max())
    with refused("score"):
        tp.ForwardLoss(tp.annotators([tp.symmetric_noise(3, 0.1)] * 2), score="brier")


# Transitions that come with the call.


@pytest.mark.parametrize("score", SCORES)
def test_one_t_for_all_or_one_for_each(score):
    T = tp.Transition(random_columns(5, 3, 0))
    v, y = centred(6, 3), torch.arange(6) % 5
    loss, matrix = forward(tp.identity(3), score), torch.as_tensor(T.matrix())
    want = forward(T, score)(v, y)
    for given in (matrix, matrix[None], matrix.expand(6, 5, 3)):
        logits = given.log().clone().requires_grad_()
        out = loss(v, y, transitions=logits.softmax(-2))
        assert torch.allclose(out, want, atol=1e-9)
        out.sum().backward()
        assert torch.isfinite(logits.grad).all()
        assert logits.grad.abs().max() > 0


@pytest.mark.parametrize("make", [tp.ForwardLoss, tp.BackwardLoss])
def test_shared_learned_transitions_have_the_right_gradient(make):
    logits = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    v, y = centred(5, 3), torch.tensor([0, 3, 1, 2, 2])
    loss = make(tp.identity(3))
    assert torch.autograd.gradcheck(lambda x: loss(v, y, transitions=x.softmax(0)), logits, atol=1e-6)


def test_a_set_of_weak_labels_with_a_given_t():
    """The label is one of several: the probability of the set is the sum of its members'."""
    T = torch.as_tensor(random_columns(5, 3, 0))
    v = centred(4, 3)
    masks = torch.tensor([[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 1, 1, 1, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    want = -(masks.double() * (torch.softmax(v, -1) @ T.T)).sum(-1).log()
    loss = forward(tp.identity(3))
    for given in (T, T.expand(4, 5, 3)):
        assert torch.allclose(loss(v, masks, transitions=given), want, atol=1e-12)
    with pytest.raises(ValueError, match="expected indices of weak labels for backward correction"):
        tp.BackwardLoss(tp.identity(3))(v, masks, transitions=T)


def test_what_is_no_transition_is_refused():
    loss, v, y = forward(tp.identity(3)), centred(4, 3), torch.arange(4) % 3
    good = torch.as_tensor(random_columns(3, 3, 0))
    wrong = good.expand(4, 3, 3).clone()
    wrong[2, y[2], 0] = -0.1
    for given in (good.T, good.T.expand(4, 3, 3), wrong, 2 * good):
        with refused("transitions"):
            loss(v, y, transitions=given)
    with refused("transitions"):
        loss(v, y, transitions=good.expand(3, 3, 3))
    with pytest.raises(ValueError, match=r"sum to 1, got the sum 2 in column \d of T\[0\]$"):
        loss(v, y, transitions=torch.eye(3).roll(1, 0) + torch.eye(3))
    with pytest.raises(ValueError, match=r"of T\[0\]; its rows sum to one: pass the transpose"):
        loss(v, y, transitions=good.T)
    with pytest.raises(ValueError, match=r"got -0.1 at row 2, column 0 of T\[2\]"):
        loss(v, y, transitions=wrong)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("make", [tp.ForwardLoss, tp.BackwardLoss])
def test_transitions_in_half_precision_are_rounded_not_wrong(make, dtype):
    """Columns of bfloat16 sum to one within 4e-3; the loss is that of T, as near as its digits allow."""
    loss, v, y = make(tp.identity(5)), centred(6, 5).float(), torch.arange(6) % 5
    T = torch.as_tensor(random_columns(5, 5, 0)).float() / 2 + torch.eye(5) / 2
    assert ((T.to(dtype).float().sum(0) - 1).abs() > 1e-4).any()
    want = loss(v, y, transitions=T)
    for given in (T.to(dtype), T.to(dtype).expand(6, 5, 5)):
        assert abs(float(loss(v, y, transitions=given) - want)) < 8 * torch.finfo(dtype).eps * (1 + abs(float(want)))
    with pytest.raises(ValueError, match=r"columns of probabilities that sum to 1, got the sum 1\.1"):
        loss(v, y, transitions=(1.1 * T).to(dtype))


def test_a_transition_does_not_cut_off_a_gradient_in_silence():
    T = torch.eye(3).requires_grad_()
    with refused("matrix"):
        tp.Transition(T)
    assert tp.Transition(T.detach()).num_classes == 3
    with refused("matrix"):
        tp.Reconstruction(T, tp.identity(3))
    with refused("counts"):
        tp.Transition.from_counts(9 * T)


# Habits of PyTorch.

ALL = {
    "forward": tp.ForwardLoss,
    "forward Brier": lambda T, **o: tp.ForwardLoss(T, score="brier", **o),
    "backward": tp.BackwardLoss,
    "gLS": lambda T, **o: tp.BackwardLoss(T, squeeze=(1.0, 2.0), **o),
    "Brier": lambda T, **o: tp.BackwardLoss(T, tp.Brier(), **o),
    "GA": tp.GradientAscentLoss,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ALL)
def test_float32_under_autocast(name, dtype):
    T = tp.complementary(4)
    loss = ALL[name](T)
    v, y = centred(6, 4).to(dtype), torch.arange(6) % 4
    matrix = torch.as_tensor(tp.symmetric_noise(4, 0.2).matrix()).float()
    with torch.autocast("cpu", dtype=dtype):
        for given in (None, matrix, matrix.expand(6, 4, 4)):
            x = v.clone().requires_grad_()
            out = loss(x, y, transitions=given)
            exact = loss(v.double(), y, transitions=given)
            assert out.dtype == torch.float32  # as torch.nn.functional.cross_entropy
            torch.testing.assert_close(out.double(), exact, rtol=1e-5, atol=1e-5)
            (65536.0 * out).backward()  # what a gradient scaler does
            assert torch.isfinite(x.grad).all()
    assert loss(v, y).dtype == dtype


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_ignore_index(name, reduction):
    T = tp.complementary(4)
    options = {} if name == "GA" else {"reduction": reduction}
    loss, plain = ALL[name](T, ignore_index=-100, **options), ALL[name](T, **options)
    v, y = centred(6, 4).requires_grad_(), torch.tensor([0, -100, 1, 2, -100, 3])
    kept = y >= 0
    out, want = loss(v, y), plain(v[kept], y[kept])
    torch.testing.assert_close(out[kept] if out.ndim else out, want)
    if out.ndim:
        assert not out[~kept].any()
    out.sum().backward()
    assert not v.grad[~kept].any()
    w = torch.linspace(1, 2, 6, dtype=torch.float64)
    out, want = loss(v, y, w), plain(v[kept], y[kept], w[kept])
    torch.testing.assert_close(out[kept] if out.ndim else out, want)
    with pytest.raises(ValueError, match=r"expected integers in \[0, 4\), got -100"):
        plain(v, y)


def test_ignoring_everything_is_what_torch_does(monkeypatch):
    v, y = centred(2, 3), torch.tensor([-100, -100])
    loss = tp.ForwardLoss(tp.identity(3), ignore_index=-100)
    assert torch.isnan(loss(v, y))
    assert torch.isnan(torch.nn.functional.cross_entropy(v, y))
    monkeypatch.setattr(dispatch, "obstacle", lambda *call: None)  # on its way to a GPU's kernel
    monkeypatch.setattr(dispatch, "run", lambda loss, scores, labels, weights, *rest, **more: weights)
    assert not loss(v, y).any()
    with refused("ignore_index"):
        tp.ForwardLoss(tp.partial_labels(3, 0.1), ignore_index=-1)


@pytest.mark.parametrize("score", ["brier", "tsallis:1.5", "tsallis:3"])
@pytest.mark.parametrize("name", ["multi-complementary", "partial", "pair", "complementary"])
def test_compiled_without_a_graph_break(name, score):
    loss = forward(TRANSITIONS[name](), score)
    y = every_label(loss.transition)
    v = centred(len(y), loss.transition.num_classes)
    torch._dynamo.reset()
    assert torch.allclose(torch.compile(loss, backend="eager", fullgraph=True)(v, y), loss(v, y))


@pytest.mark.parametrize("make", [tp.ForwardLoss, tp.BackwardLoss, tp.GradientAscentLoss, tp.NonNegativeLoss])
def test_ignore_index_is_saved(make):
    T = tp.symmetric_noise(3, 0.2)
    again = loss_from_dict(loss_to_dict(make(T, ignore_index=-7)), T)
    assert type(again) is make
    assert again.ignore_index == -7
    assert "ignore_index" not in loss_to_dict(make(T))


@pytest.mark.parametrize("wrong", [True, 1.5, "x", [1]])
def test_ignore_index_is_a_whole_number(wrong):
    with refused("ignore_index"):
        tp.ForwardLoss(tp.identity(3), ignore_index=wrong)
    with refused("ignore_index"):
        loss_from_dict({"kind": "forward", "ignore_index": wrong}, tp.identity(3))


@pytest.mark.parametrize("score", ["log", "brier", "tsallis:1.5"])
def test_a_t_of_fewer_digits_costs_the_loss_none(score):
    """Entries that float32 holds exactly: the loss is that of the same T in float64, to its last digits."""
    T = torch.tensor([[0.75, 0.125, 0.25], [0.125, 0.75, 0.25], [0.125, 0.125, 0.5]])
    loss = forward(tp.identity(3), score)
    v, y = centred(6, 3), torch.arange(6) % 3
    few, many = (loss(v, y, transitions=t.expand(6, 3, 3)) for t in (T, T.double()))
    assert few.dtype == torch.float64
    torch.testing.assert_close(few, many, rtol=1e-14, atol=1e-15)
