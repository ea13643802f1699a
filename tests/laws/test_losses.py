"""Laws of the losses: properness by optimisation, bounds by descent, structure, gradients, torch citizenship."""

import math

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp

from . import laws
from .registry import (
    LOSSES,
    POTENTIALS,
    STRUCTURED,
    TRANSITIONS,
    centred,
    dense,
    every_label,
    random_columns,
    table,
)

BATCH = {"GA": tp.GradientAscentLoss, "non-negative": tp.NonNegativeLoss}


def some(T, n=9, seed=0):
    """Scores and weak labels of a batch, float64."""
    labels = T.encode(T.sample(np.arange(n) % T.num_classes, seed))
    return centred(n, T.num_classes, seed=seed, scale=2.0), labels


@pytest.mark.parametrize("make", [tp.BackwardLoss, tp.ForwardLoss, tp.GradientAscentLoss, tp.NonNegativeLoss])
def test_identity_is_cross_entropy(make):
    laws.identity_is_cross_entropy(make)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", TRANSITIONS)
def test_the_minimiser_of_the_mean_is_the_truth(name, loss):
    laws.minimiser_recovers_the_truth(LOSSES[loss](TRANSITIONS[name]()))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", TRANSITIONS)
def test_descent_never_crosses_a_bound_and_comes_close(name, loss):
    laws.descent_respects_bounds(LOSSES[loss](TRANSITIONS[name]()))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", STRUCTURED)
def test_structured_is_dense(name, loss):
    T = TRANSITIONS[name]()
    v = centred(5, T.num_classes, scale=2.0).requires_grad_()
    used = torch.as_tensor(T.matrix().sum(axis=1) > 0)
    ours, theirs = (table(LOSSES[loss](t), v)[:, used] for t in (T, dense(T)))
    assert torch.allclose(ours, theirs, atol=1e-8)
    ours, theirs = (torch.autograd.grad(x.sum(), v)[0] for x in (ours, theirs))
    assert torch.allclose(ours, theirs, atol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", TRANSITIONS)
def test_gradcheck(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    v, y = some(module.transition, n=4)
    assert torch.autograd.gradcheck(lambda v: module(v, y), v.requires_grad_(), atol=1e-6)


@pytest.mark.parametrize("loss", ["backward", "gLS 1, 2", "forward"])
@pytest.mark.parametrize("name", TRANSITIONS)
def test_second_derivatives(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    v, y = some(module.transition, n=3)
    assert torch.autograd.gradgradcheck(lambda v: module(v, y), v.requires_grad_(), atol=1e-5)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", TRANSITIONS)
def test_float32_follows_float64_and_half_precision_is_finite(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    v, y = some(module.transition)
    single = module(v.float(), y)
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), module(v, y), atol=1e-4)
    half = module(v.bfloat16(), y)
    assert half.dtype == torch.bfloat16
    assert torch.isfinite(half).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_shift_of_the_scores_changes_nothing(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    v, y = some(module.transition)
    assert torch.allclose(module(v + 1000.0, y), module(v, y), atol=1e-8)


GRID = 8  # scores are multiples of 1/8, which keep all their digits beside a million in float32


# compiling is slow: float32 and two kinds of labels stand for the others there
SHIFTED = [
    (name, loss, dtype, way)
    for name in ("complementary", "partial", "pair")
    for loss in [*LOSSES, *BATCH]
    for dtype in (torch.float32, torch.float64)
    for way in ("eager", "compiled", "vmap", "solver")
    if (loss in BATCH or "spherical" not in loss)
    and (way != "solver" or loss not in BATCH)  # no pointwise loss to solve
    and (way != "compiled" or (dtype == torch.float32 and name != "pair" and loss not in BATCH))
]


@pytest.mark.parametrize(("name", "loss", "dtype", "way"), SHIFTED)
def test_a_common_shift_of_a_million_costs_no_digit(name, loss, dtype, way):
    T = TRANSITIONS[name]()
    module = BATCH[loss](T) if loss in BATCH else LOSSES[loss](T)
    v, y = some(T)
    v = ((v * GRID).round() / GRID).to(dtype)
    if way == "compiled":
        torch._dynamo.reset()

    def gradient(scores):
        if way == "solver":
            return module.bind(y, dtype=scores.dtype)(scores)[1]
        if way == "vmap":
            return torch.func.vmap(torch.func.grad(lambda s, t: module(s, t).sum()))(scores[:, None], y[:, None])[:, 0]
        call = torch.compile(module, backend="eager", fullgraph=True) if way == "compiled" else module
        x = scores.clone().requires_grad_()
        call(x, y).sum().backward()
        return x.grad

    expected = gradient(v)
    found = gradient(v + 1e6)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loss", ["backward", "forward", "gLS 0.3, 1.5"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_a_million(loss, dtype):
    module = LOSSES[loss](tp.complementary(3))
    v = torch.tensor([[1e6, 0.0, -1e6]] * 3, dtype=dtype, requires_grad=True)
    out = module(v, torch.arange(3))
    (gradient,) = torch.autograd.grad(out.sum(), v)
    assert torch.isfinite(out).all()
    assert torch.isfinite(gradient).all()


def test_forward_loss_is_exact_where_probabilities_round_to_zero_and_one():
    """-log(1 - p_y) with p_y = 1 to rounding: log of a sum of probabilities would be infinite."""
    loss = tp.ForwardLoss(tp.complementary(3), reduction="none")
    v = torch.tensor([[1e4, 0.0, -1e4]], dtype=torch.float64)
    assert float(loss(v, [0])) == pytest.approx(1e4 + np.log(2), rel=1e-12)


def test_a_label_that_cannot_occur_costs_infinity_without_poisoning_gradients():
    T = tp.Transition([[0.9, 0.2], [0.0, 0.0], [0.1, 0.8]])
    v = torch.zeros(2, 2, requires_grad=True)
    out = tp.ForwardLoss(T, reduction="none")(v, [0, 1])
    assert torch.isposinf(out[1])
    (gradient,) = torch.autograd.grad(out[0], v)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("loss", [*LOSSES])
@pytest.mark.parametrize("name", ["complementary", "partial"])
def test_reductions_and_weights(name, loss):
    T = TRANSITIONS[name]()
    pointwise = LOSSES[loss](T)
    v, y = some(T)
    each = pointwise(v, y)
    w = torch.rand(len(each), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for reduction, plain, weighted in (
        ("mean", each.mean(), (w * each).sum() / w.sum()),
        ("sum", each.sum(), (w * each).sum()),
        ("none", each, w * each),
    ):
        pointwise.reduction = reduction
        assert torch.allclose(pointwise(v, y), plain)
        assert torch.allclose(pointwise(v, y, w), weighted)


@pytest.mark.parametrize("make", BATCH.values(), ids=BATCH)
def test_batch_losses_by_their_definition(make):
    T = tp.complementary(4)
    v, y = some(T)
    shares = T.reconstruction().targets(y) * -torch.log_softmax(v, -1)
    risks = shares.mean(0)
    want = risks.abs().sum() if make is tp.GradientAscentLoss else risks.clamp_min(0).sum()
    assert torch.allclose(make(T)(v, y), want)
    w = torch.rand(len(v), dtype=torch.float64)
    weighted = (shares * w[:, None]).sum(0) / w.sum()
    want = weighted.abs().sum() if make is tp.GradientAscentLoss else weighted.clamp_min(0).sum()
    assert torch.allclose(make(T)(v, y, w), want)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", [n for n, make in TRANSITIONS.items() if not make().label_shape])
def test_one_transition_per_example(name, loss):
    """The same T for every example gives what the shared T gives."""
    T = TRANSITIONS[name]()
    module = LOSSES[loss](T)
    v, y = some(T)
    stack = torch.as_tensor(T.matrix()).expand(len(v), -1, -1)
    assert torch.allclose(module(v, y, transitions=stack), module(v, y), atol=1e-8)


def test_different_transitions_per_example():
    Ts = [tp.Transition(random_columns(4, 3, seed)) for seed in range(5)]
    v, y = centred(5, 3), torch.tensor([0, 1, 2, 3, 0])
    stack = torch.as_tensor(np.stack([T.matrix() for T in Ts]))
    for make in (tp.BackwardLoss, tp.ForwardLoss):
        got = make(Ts[0], reduction="none")(v, y, transitions=stack)
        each = [make(T, reduction="none")(v[i : i + 1], y[i : i + 1])[0] for i, T in enumerate(Ts)]
        assert torch.allclose(got, torch.stack(each), atol=1e-8)


def test_class_weights_weigh_the_true_classes():
    T, w = tp.complementary(3), torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    loss = tp.BackwardLoss(T, class_weights=w.tolist(), reduction="none")
    v = centred(4, 3)
    mean_given_class = table(loss, v) @ torch.as_tensor(T.matrix())
    assert torch.allclose(mean_given_class, w * tp.LogSumExp().class_losses(v), atol=1e-9)


# the sorting potentials compile too, but slowly: the others stand for the loss's own code
@pytest.mark.parametrize("loss", [n for n in LOSSES if "spherical" not in n and "sparsemax" not in n])
@pytest.mark.parametrize("name", ["complementary", "partial", "pair"])
def test_compiled_without_a_graph_break(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    v, y = some(module.transition)
    torch._dynamo.reset()  # many modules of one class in one process would meet the limit on recompilations
    compiled = torch.compile(module, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(v, y), module(v, y))


@pytest.mark.parametrize("loss", ["backward", "gLS 1, 2", "gLS 0.3, 1.5", "forward"])
@pytest.mark.parametrize("name", TRANSITIONS)
def test_vmap_and_functional_gradients(name, loss):
    module = LOSSES[loss](TRANSITIONS[name]())
    v, y = some(module.transition)
    assert torch.allclose(torch.func.vmap(module)(v, y), module(v, y))
    per_example = torch.func.vmap(torch.func.grad(lambda v, y: module(v, y)))(v, y)
    v.requires_grad_()
    assert torch.allclose(per_example, torch.autograd.grad(module(v, y).sum(), v)[0], atol=1e-9)


def test_buffers_follow_the_module():
    T = TRANSITIONS["pair"]()
    loss = tp.BackwardLoss(T)
    state = loss.state_dict()
    assert state
    other = tp.BackwardLoss(T)
    for buffer in other.buffers():
        buffer.zero_()
    other.load_state_dict(state)
    v, y = some(T)
    assert torch.equal(other(v, y), loss(v, y))
    assert all(b.device.type == "meta" for b in tp.BackwardLoss(T).to("meta").buffers())


def test_leading_dimensions():
    T = tp.complementary(4)
    v, y = centred(6, 4).reshape(2, 3, 4), torch.arange(6).reshape(2, 3) % 4
    for loss in (tp.BackwardLoss(T, reduction="none"), tp.ForwardLoss(T, reduction="none")):
        assert torch.allclose(loss(v, y).reshape(-1), loss(v.reshape(6, 4), y.reshape(-1)))


@pytest.mark.parametrize("kind", [list, np.array, torch.tensor])
@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64"])
def test_labels_of_any_kind(kind, dtype):
    loss, v = tp.BackwardLoss(tp.complementary(3)), centred(3, 3)
    y = np.array([0, 2, 1], dtype=dtype)
    given = y.tolist() if kind is list else kind(y)
    assert torch.equal(loss(v, given), loss(v, torch.tensor([0, 2, 1])))


def test_every_label_of_the_registry_can_be_encoded():
    for make in TRANSITIONS.values():
        T = make()
        assert len(every_label(T)) == T.num_weak_labels


MASKED = {name: make for name, make in POTENTIALS.items() if "affine" not in name and not name.startswith("a ")} | {
    "Brier, affine": tp.Brier
}


@pytest.mark.parametrize("name", MASKED)
def test_a_class_of_score_minus_infinity_has_left(name):
    """A mask: value, link, probabilities and loss are those of the remaining classes, and there is no NaN."""
    F = MASKED[name]()
    few = centred(6, 3)
    for gone, here in ((1, [0, 2, 3]), (0, [1, 2, 3])):
        v = torch.full((6, 4), -torch.inf, dtype=torch.float64)
        v[:, here] = few
        assert torch.allclose(F.value(v), F.value(few), atol=1e-9)
        for ours, theirs in ((F.link(v), F.link(few)), (F.probabilities(v), F.probabilities(few))):
            assert torch.allclose(ours[:, here], theirs, atol=1e-9)
            assert ours[:, gone].abs().max() < 1e-15
        y = torch.arange(6) % 3
        x = v.clone().requires_grad_()
        ours = tp.BackwardLoss(tp.identity(4), F, reduction="none")(x, torch.tensor(here)[y])
        theirs = tp.BackwardLoss(tp.identity(3), F, reduction="none")(few, y)
        assert torch.allclose(ours, theirs, atol=1e-9)
        (gradient,) = torch.autograd.grad(ours.sum(), x)
        assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("T", [tp.identity(4), tp.partial_labels(4, 0.0)], ids=lambda T: T.name)
@pytest.mark.parametrize("squeeze", [None, (1.0, 2.0), (0.3, 1.5)])
def test_masked_classes_with_a_target_of_zero(T, squeeze):
    v = torch.tensor([[1.0, -torch.inf, 0.3, -0.5]], dtype=torch.float64, requires_grad=True)
    label = torch.eye(4, dtype=torch.bool)[[2]] if T.per_class_labels else torch.tensor([2])
    loss = tp.BackwardLoss(T, squeeze=squeeze)
    few = tp.BackwardLoss(tp.identity(3), squeeze=squeeze)(v.detach()[:, [0, 2, 3]], [1])
    value = loss(v, label)
    torch.testing.assert_close(value, few)
    value.backward()
    assert torch.isfinite(v.grad).all()
    impossible = torch.eye(4, dtype=torch.bool)[[1]] if T.per_class_labels else torch.tensor([1])
    assert torch.isposinf(loss(v, impossible))
    torch.testing.assert_close(
        tp.ForwardLoss(T)(v, label), torch.nn.functional.cross_entropy(v, torch.tensor([2])), rtol=1e-12, atol=0
    )


def test_sets_too_unlikely_for_a_double_have_their_own_target():
    K = 1200
    T = tp.partial_labels(K, 0.5)
    mask = torch.zeros(1, K, dtype=torch.bool)
    mask[0, :2] = True  # a set of two: one in 2^1199
    assert T.size_probability[2] == 0
    target = T.reconstruction().targets(mask)[0]
    c = T.reconstruction().coefficient[600] * 600 / 2  # c(j) is proportional to 1/j
    assert float(target[0]) == pytest.approx(1 / K + c * (1 - 2 / K))


@pytest.mark.parametrize("make", [tp.BackwardLoss, tp.ForwardLoss, tp.GradientAscentLoss, tp.NonNegativeLoss])
def test_probabilities_are_those_of_the_classes(make):
    loss = make(tp.symmetric_noise(3, 0.2))
    with refused("scores"):
        loss.probabilities(torch.zeros(2, 4))
    assert loss.probabilities(torch.zeros(0, 3)).shape == (0, 3)


@pytest.mark.parametrize(
    "F", [tp.Brier(), tp.Spherical(), tp.LogSumExp().squeezed(1, 2), tp.Tsallis(1.5).squeezed(0.5, 1.3)], ids=str
)
@pytest.mark.parametrize("dense", [False, True])
def test_a_masked_class_does_not_cross_a_certified_bound(F, dense):
    """With a score of -inf and a negative target, <r, v> is inf, and a bounded loss must not become -inf.

    Nor NaN, where another class of score -inf has a positive target.
    """
    T = tp.Transition(tp.complementary(4).matrix()) if dense else tp.complementary(4)
    loss = tp.BackwardLoss(T, F, reduction="none")
    v = torch.tensor([-math.inf, 0.0, 1.0, 2.0], dtype=torch.float64).expand(4, 4)
    for scores in (v, v.index_fill(1, torch.tensor([1]), -math.inf)):
        for given in (None, torch.as_tensor(T.matrix())):
            values = loss(scores, torch.arange(4), transitions=given)
            assert (values >= torch.as_tensor(loss.lower_bounds())).all()
    assert torch.isneginf(tp.BackwardLoss(T, reduction="none")(v, torch.arange(4))[0])  # this one has no bound


@pytest.mark.parametrize("make", [tp.BackwardLoss, tp.ForwardLoss, tp.GradientAscentLoss], ids=lambda f: f.__name__)
def test_the_state_of_every_transition_into_every_other(make):
    """Refused, unless they are the same T: with tables or without."""
    kinds = {**TRANSITIONS, "complementary, noisier": lambda: tp.complementary(5, noise=0.01)}
    losses = {name: make(of()) for name, of in kinds.items()}
    for name, loss in losses.items():
        for other, another in losses.items():
            if name == other:
                another.load_state_dict(loss.state_dict())
                continue
            with pytest.raises(RuntimeError):
                another.load_state_dict(loss.state_dict())
            ours, theirs = ({k: t.shape for k, t in x.state_dict().items()} for x in (loss, another))
            if ours == theirs:
                with pytest.raises(RuntimeError, match="got that of another transition"):
                    another.load_state_dict(loss.state_dict(), strict=False)
    old = {k: t for k, t in losses["pair"].state_dict().items() if k != "transition"}
    losses["pair"].load_state_dict(old)  # as earlier versions wrote it
