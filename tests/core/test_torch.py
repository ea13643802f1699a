"""Losses and potentials as citizens of PyTorch: transforms, compilation, copies, dtypes, layouts, shapes."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch

import tproper as tp
from tproper.losses import fuse

POTENTIALS = [
    tp.LogSumExp(),
    tp.Tsallis(0.5),
    tp.Tsallis(1.5),
    tp.Sparsemax(),
    tp.Brier(),
    tp.Spherical(domain="simplex"),
    tp.Max(),
    tp.LogSumExp().squeezed(0.5, 1.5),
    tp.Tsallis(1.5).squeezed(0.5, 2),
]
TRANSITIONS = [tp.complementary(4), tp.partial_labels(4, 0.2), tp.multi_complementary(4, 2), tp.pair_noise(4, 0.3)]


def batch(T, n=5, seed=0):
    v = torch.randn(n, T.num_classes, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return v, T.encode(T.sample(np.arange(n) % T.num_classes, seed))


@pytest.mark.parametrize("F", POTENTIALS, ids=lambda F: F.name)
def test_potentials_under_functional_transforms(F):
    v, _ = batch(TRANSITIONS[0])
    assert torch.allclose(torch.func.vmap(F.value)(v), F.value(v))
    link = torch.func.vmap(torch.func.grad(F.value))(v)
    assert torch.allclose(link + (1 - link.sum(-1, keepdim=True)) / 4, F.link(v), atol=1e-9)
    if F.differentiable:
        plain = torch.stack([torch.autograd.functional.hessian(F.value, row) for row in v])
        assert torch.allclose(torch.func.vmap(torch.func.jacrev(torch.func.grad(F.value)))(v), plain, atol=1e-9)


@pytest.mark.parametrize("make", [tp.GradientAscentLoss, tp.NonNegativeLoss, tp.BackwardLoss, tp.ForwardLoss])
@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
def test_losses_of_a_stack_of_models(make, T):
    """vmap over the first dimension: each model's loss is what it is alone."""
    loss = make(T)
    parts = [batch(T, seed=s) for s in range(3)]
    v, y = (torch.stack(x) for x in zip(*parts, strict=True))
    alone = torch.stack([loss(*p) for p in parts])
    assert torch.allclose(torch.func.vmap(loss)(v, y), alone)
    gradients = torch.func.vmap(torch.func.grad(loss))(v, y)
    v.requires_grad_()
    want = torch.autograd.grad(sum(loss(v[i], y[i]) for i in range(3)), v)[0]
    assert torch.allclose(gradients, want, atol=1e-12)


@pytest.mark.parametrize("make", [tp.BackwardLoss, tp.ForwardLoss])
def test_compiled_forward_and_backward(make):
    torch._dynamo.reset()
    cases = [make(T) for T in (tp.complementary(4), tp.partial_labels(4, 0.2), tp.multi_complementary(4, 2))]
    if make is tp.BackwardLoss:
        cases += [make(tp.complementary(4), F) for F in (tp.Tsallis(1.5), tp.Tsallis(3.0), tp.Sparsemax(), tp.Brier())]
    for loss in cases:
        torch._dynamo.reset()
        v, y = batch(loss.transition)
        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        gradients = []
        for f in (compiled, loss):
            x = v.clone().requires_grad_()
            f(x, y).backward()
            gradients.append(x.grad)
        assert torch.allclose(*gradients, atol=1e-12)
    torch._dynamo.reset()


@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
def test_copies_and_pickles(T):
    for loss in (tp.BackwardLoss(T, squeeze=(0.5, 2), class_weights=[1, 2, 3, 4]), tp.ForwardLoss(T)):
        v, y = batch(T)
        for other in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
            assert torch.equal(other(v, y), loss(v, y))
    assert np.array_equal(pickle.loads(pickle.dumps(T)).matrix(), T.matrix())


@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
def test_tables_in_single_precision_and_on_their_way_to_a_device(T):
    v, y = batch(T)
    for loss in (tp.BackwardLoss(T), tp.ForwardLoss(T), tp.GradientAscentLoss(T)):
        exact = loss(v, y)
        assert torch.allclose(loss.float()(v.float(), y).double(), exact, atol=1e-5)
        assert all(b.dtype == torch.float32 for b in loss.buffers())
        assert all(b.is_meta for b in loss.to("meta").buffers())


@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
@pytest.mark.parametrize("cast", ["half", "bfloat16"])
def test_half_precision_of_a_model_leaves_the_tables_alone(T, cast):
    v, y = batch(T)
    for loss in (tp.BackwardLoss(T, class_weights=[1, 2, 3, 1 / 3]), tp.ForwardLoss(T), tp.GradientAscentLoss(T)):
        exact, state = loss(v, y), {k: x.clone() for k, x in loss.state_dict().items()}
        model = getattr(torch.nn.ModuleDict({"net": torch.nn.Linear(2, 2), "loss": loss}), cast)()
        assert model["net"].weight.dtype.itemsize == 2
        assert torch.equal(loss(v, y), exact)
        assert all(torch.equal(x, state[k]) for k, x in loss.state_dict().items())


def test_class_weights_travel_with_the_state():
    T = tp.complementary(3)
    loss, other = (tp.BackwardLoss(T, class_weights=w) for w in ([1, 2, 3], [3, 2, 1]))
    other.load_state_dict(loss.state_dict())
    v, y = batch(T)
    assert torch.equal(other(v, y), loss(v, y))


OTHERS = {
    "matrix": (tp.pair_noise(4, 0.3), tp.pair_noise(4, 0.31)),
    "sets": (tp.partial_labels(4, 0.2), tp.partial_labels(4, 0.3)),
    "annotators": tuple(tp.annotators([tp.pair_noise(4, p), tp.symmetric_noise(4, 0.1)]) for p in (0.2, 0.21)),
}


@pytest.mark.parametrize("make", [tp.BackwardLoss, tp.ForwardLoss, tp.GradientAscentLoss], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", OTHERS)
def test_tables_load_into_a_loss_of_the_same_transition_alone(name, make):
    """Else the loss would be that of the saved T, and its bounds and certificate those of its own."""
    T, other = OTHERS[name]
    state = make(T).state_dict()
    for cast in (torch.float64, torch.float32):
        loss = make(T).to(cast)
        loss.load_state_dict({k: t.float() for k, t in state.items()})
        loss.load_state_dict(state)
    make(T).to("meta").load_state_dict(state, assign=True)
    make(T).to("meta").to_empty(device="cpu").load_state_dict(state)
    model = torch.nn.ModuleDict({"net": torch.nn.Linear(2, 2), "loss": make(other)})
    saved = torch.nn.ModuleDict({"net": torch.nn.Linear(2, 2), "loss": make(T)}).state_dict()
    with pytest.raises(RuntimeError, match=r"loss\.\w+: expected the table of .* got that of another transition"):
        model.load_state_dict(saved, strict=False)


@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
def test_layouts_shapes_and_label_types(T):
    v, y = batch(T, n=6)
    for loss in (tp.BackwardLoss(T, squeeze=(0.5, 2), reduction="none"), tp.ForwardLoss(T, reduction="none")):
        want = loss(v, y)
        sliced = torch.stack([v, v], -1).transpose(0, 1)[..., 0].T  # not contiguous
        assert not sliced.is_contiguous()
        assert torch.equal(loss(sliced, y), want)
        shaped = loss(v.reshape(2, 3, -1), y.reshape(2, 3, *y.shape[1:]))
        assert torch.equal(shaped, want.reshape(2, 3))
        assert torch.allclose(loss(v[0], y[0]), want[0])
        for dtype in (torch.uint8, torch.int16, torch.int32, torch.int64):
            assert torch.equal(loss(v, y.to(dtype)), want)
        for labels in (y.tolist(), y.numpy(), y.numpy().astype(np.uint16), tuple(y.tolist())):
            assert torch.equal(loss(v, labels), want)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.allclose(loss(v, y), want)
        with torch.inference_mode():
            assert torch.equal(loss(v, y), want)


@pytest.mark.parametrize("squeeze", [None, (0.7, 2)])
def test_candidate_masks_of_any_layout_and_size(squeeze):
    K = 600
    T = tp.partial_labels(K, 0.5)
    g = torch.Generator().manual_seed(0)
    v = torch.randn(4, K, dtype=torch.float64, generator=g)
    masks = torch.rand(4, K, generator=g) < torch.tensor([0.01, 0.4, 0.6, 1.0])[:, None]  # up to sets of all classes
    masks[:, 0] = True
    loss = tp.BackwardLoss(T, squeeze=squeeze, reduction="none")
    c = torch.as_tensor(loss.reconstruction.coefficient)[masks.sum(-1), None]
    targets = 1 / K + c * (masks.double() - masks.double().mean(-1, keepdim=True))
    plain = (targets * loss.potential.class_losses(v)).sum(-1)
    for labels in (masks, masks.T.contiguous().T, torch.stack([masks, masks], -1)[..., 0]):
        assert torch.allclose(loss(v, labels), plain, rtol=1e-10, atol=1e-10)
    assert torch.allclose(loss(v, masks[1].expand(4, -1))[1], plain[1], rtol=1e-10, atol=1e-10)


def test_weights_of_any_kind_and_their_gradient():
    T = tp.complementary(4)
    loss, (v, y) = tp.BackwardLoss(T), batch(T, n=3)
    w = torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64, requires_grad=True)
    want = loss(v, y, weights=w)
    for other in ([1, 2, 0], np.array([1.0, 2.0, 0.0]), torch.tensor([1, 2, 0])):
        assert torch.allclose(loss(v, y, weights=other), want)
    want.backward()
    assert torch.isfinite(w.grad).all()


def test_matrices_of_any_kind():
    rows = [[0.75, 0.25], [0.25, 0.75]]
    for matrix in (rows, np.array(rows, np.float32), torch.tensor(rows), np.asfortranarray(rows), torch.tensor(rows).T):
        assert np.array_equal(tp.Transition(matrix).matrix(), rows)
    mine = np.array(rows)
    T = tp.Transition(mine)
    mine[:] = 0  # a copy was taken
    T.matrix()[:] = 0  # and is given
    assert np.array_equal(T.matrix(), rows)


def test_learnable_transitions_get_gradients():
    """Instance-dependent T from a network: the loss is differentiable in it."""
    logits = torch.randn(3, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).requires_grad_()
    v, y = torch.randn(3, 3, dtype=torch.float64), torch.tensor([0, 3, 1])
    for make in (tp.BackwardLoss, tp.ForwardLoss):
        loss = make(tp.identity(3))
        assert torch.autograd.gradcheck(lambda x, loss=loss: loss(v, y, transitions=x.softmax(1)), logits, atol=1e-6)


def test_weight_zero_leaves_an_example_out():
    T = tp.Transition([[1.0, 1.0], [0.0, 0.0]])  # label 1 cannot occur
    loss = tp.ForwardLoss(T)
    v = torch.zeros(2, 2, requires_grad=True)
    value = loss(v, [0, 1], weights=torch.tensor([1.0, 0.0]))
    value.backward()
    assert float(value) == pytest.approx(0.0, abs=1e-7)
    assert bool(v.grad.isfinite().all())
    q = [[1, 0, 0], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1]]
    found = tp.weak_log_loss([1, 2, 1], q, tp.identity(3), sample_weight=[0, 1, 1])
    assert found.value == pytest.approx((-math.log(0.5) - math.log(0.8)) / 2)


@pytest.mark.parametrize("label", [1, np.int64(1), np.array(1), torch.tensor(1)])
def test_one_label_for_one_row_of_scores(label):
    assert float(tp.BackwardLoss(tp.complementary(3))(torch.zeros(3), label)) == pytest.approx(math.log(3))


@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
def test_copies_with_another_backend_share_nothing_that_changes(T):
    for loss in (tp.BackwardLoss(T, squeeze=(0.5, 2), class_weights=[1, 2, 3, 4]), tp.ForwardLoss(T)):
        v, y = batch(T)
        before, copied = loss(v, y), fuse(loss, "torch")
        copied.to("meta")
        assert not any(b.is_meta for b in loss.buffers())
        other = fuse(loss)
        for b in other.buffers():
            b.zero_()
        if isinstance(other, tp.BackwardLoss):
            other.potential.k = 3.0
        other.reduction = "sum"
        assert torch.equal(loss(v, y), before)


@pytest.mark.parametrize("T", TRANSITIONS, ids=lambda T: T.name)
def test_the_torch_backend_runs_the_definition(T, monkeypatch):
    from tproper.losses.kernels import cpu

    for make in (tp.BackwardLoss, tp.ForwardLoss):
        loss, (v, y) = make(T), batch(T)
        plain = fuse(loss, "torch")
        value, both = loss(v, y), loss.bind(y)(v)
        for name in ("cross_entropy", "forward_cross_entropy"):
            monkeypatch.setattr(cpu, name, None)  # whoever asks for a kernel fails
        torch.testing.assert_close(plain(v, y), value)
        torch.testing.assert_close(plain.bind(y)(v), both)
        monkeypatch.undo()
