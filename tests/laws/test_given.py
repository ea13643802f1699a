"""T that comes with the call, and labels that leave examples out: every kind of label, shape and score they meet."""

import numpy as np
import pandas as pd
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.transitions import per_example_targets

from .registry import random_columns

MAKES = {
    "backward": tp.BackwardLoss,
    "gLS": lambda T, **k: tp.BackwardLoss(T, squeeze=(1, 2), **k),
    "Brier": lambda T, **k: tp.BackwardLoss(T, tp.Brier(), **k),
    "forward": tp.ForwardLoss,
    "forward Brier": lambda T, **k: tp.ForwardLoss(T, score="brier", **k),
    "forward Tsallis": lambda T, **k: tp.ForwardLoss(T, score="tsallis:1.5", **k),
}


def scores(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def columns(M, K, seed=0):
    return torch.as_tensor(random_columns(M, K, seed))


# ignore_index


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.int64, np.uint64])
def test_narrow_labels_are_not_taken_for_the_ignored_one(dtype):
    """To 8 bits without a sign, -100 is 156, and -56 is 200; with one, 255 is -1."""
    K, index = 201, {np.dtype(np.int8): 255 + 2}.get(np.dtype(dtype), -100)
    labels = np.array([156, 200, 3] if index < 0 else [1, 2, 3]).astype(dtype)
    v = scores(3, K)
    plain = tp.ForwardLoss(tp.symmetric_noise(K, 0.2), reduction="none")(v, labels.astype(np.int64))
    loss = tp.ForwardLoss(tp.symmetric_noise(K, 0.2), reduction="none", ignore_index=index)
    for given in (labels, torch.as_tensor(labels), labels.tolist()):
        assert torch.equal(loss(v, given), plain)


@pytest.mark.parametrize(
    "given",
    [
        np.array([0, 2, -1]),
        [0, 2, -1],
        (0, 2, -1),
        np.array([0, 2, -1], dtype=object),
        pd.Series([0, 2, -1], dtype="Int64"),
        torch.tensor([0, 2, -1], dtype=torch.int8),
    ],
    ids=lambda y: type(y).__name__,
)
def test_labels_of_every_kind_can_be_ignored(given):
    v = scores(3, 3)
    loss = tp.ForwardLoss(tp.symmetric_noise(3, 0.2), reduction="none", ignore_index=-1)
    plain = tp.ForwardLoss(tp.symmetric_noise(3, 0.2), reduction="none")(v[:2], [0, 2])
    assert torch.equal(loss(v, given), torch.cat([plain, torch.zeros(1).double()]))


@pytest.mark.parametrize(
    "wrong",
    [
        [0, 1, None],
        ["a", "b", "c"],
        pd.Series([0, 1, None], dtype="Int64"),
        np.ma.masked_array([0, 1, 2], [0, 0, 1]),
        np.array([0, 1, -1.0]),
    ],
    ids=["missing", "text", "NA", "masked", "floating"],
)
def test_wrong_labels_are_refused_with_and_without_an_ignored_one(wrong):
    v = scores(3, 3)
    for options in ({}, {"ignore_index": -1}):
        with refused("labels"):
            tp.ForwardLoss(tp.symmetric_noise(3, 0.2), **options)(v, wrong)


def test_pairs_of_source_and_label_can_be_ignored():
    T = tp.multi_source([tp.complementary(3), tp.symmetric_noise(3, 0.2)])
    v = scores(4, 3)
    want = tp.BackwardLoss(T)(v[:3], [(0, 1), (1, 2), (0, 0)])
    loss = tp.BackwardLoss(T, ignore_index=-100)
    for last in ((-100, -100), (1, -100)):
        assert torch.allclose(loss(v, [(0, 1), (1, 2), (0, 0), last]), want)
    assert torch.allclose(loss(v, [1, 5, 0, -100]), want)


def test_flags_are_never_ignored():
    T = tp.positive_unlabeled(0.4)
    v, flags = scores(3, 2), torch.tensor([True, False, True])
    for index in (0, 1, -100):
        assert torch.equal(tp.ForwardLoss(T, ignore_index=index)(v, flags), tp.ForwardLoss(T)(v, flags))
    masks = torch.tensor([[1, 1, 0], [0, 1, 0]]).bool()
    v, T = scores(2, 3), columns(3, 3)
    for options in ({}, {"weights": torch.tensor([1.0, 3.0])}):
        losses = (tp.ForwardLoss(tp.identity(3), ignore_index=index) for index in (1, None))
        assert torch.equal(*(loss(v, masks, transitions=T, **options) for loss in losses))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_weights_beside_an_ignored_label_are_checked(bad):
    loss = tp.ForwardLoss(tp.identity(3), ignore_index=-100)
    with refused("weights"):
        loss(scores(3, 3), [0, 1, -100], weights=torch.tensor([1.0, bad, 1.0]))
    with refused("weights"):
        loss(scores(3, 3), [0, 1, -100], weights="abc")
    value = loss(scores(3, 3), [0, 1, -100], weights=torch.tensor([1.0, 2.0, bad]))  # that of a row left out
    assert torch.isfinite(value)


def test_the_monitor_counts_what_the_loss_counts():
    loss = tp.ForwardLoss(tp.symmetric_noise(200, 0.2), ignore_index=-100)
    monitor = tp.LossMonitor(loss)
    monitor.update(1.0, torch.tensor([156, 3], dtype=torch.uint8), n=2)  # raises where one is not counted


# transitions=


@pytest.mark.parametrize("name", MAKES)
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_more_dimensions_are_rows(name, reduction):
    """Pixels or tokens (..., K) with one T, or with one for each of them."""
    loss = MAKES[name](tp.identity(3), reduction=reduction)
    v, y, w = scores(2, 4, 5, 3), torch.arange(40).reshape(2, 4, 5) % 4, scores(2, 4, 5, seed=1).exp()
    shared, each = columns(4, 3), (3 * scores(2, 4, 5, 4, 3, seed=2)).softmax(-2)
    for T, flat in ((shared, shared), (shared[None], shared), (each, each.reshape(40, 4, 3))):
        for weights in (None, w):
            want = loss(v.reshape(40, 3), y.reshape(40), None if weights is None else weights.reshape(40), flat)
            out = loss(v, y, weights, T)
            assert out.shape == (y.shape if reduction == "none" else ())
            assert torch.equal(out.reshape(want.shape), want)
    if reduction == "none":
        assert torch.allclose(loss(v[0, 0, 0], y[0, 0, 0], transitions=shared), loss(v, y, transitions=shared)[0, 0, 0])


def test_masks_of_every_kind_and_shape():
    loss, T, v = tp.ForwardLoss(tp.identity(3), reduction="none"), columns(5, 3), scores(2, 2, 3)
    masks = np.random.default_rng(0).random((2, 2, 5)) < 0.5
    masks[..., 0] = True
    want = -(torch.as_tensor(masks).double() * (v.softmax(-1) @ T.T)).sum(-1).log()
    for given in (masks, masks.tolist(), torch.as_tensor(masks)):
        assert torch.allclose(loss(v, given, transitions=T), want)


def test_shapes_and_numbers_that_are_no_transition():
    loss, y = tp.ForwardLoss(tp.identity(3)), torch.zeros(2, 4).long()
    with pytest.raises(ValueError, match=r"expected shape \(2, 4, weak labels, 3\) or \(weak labels, 3\) for scores "):
        loss(scores(2, 4, 3), y, transitions=columns(3, 3).expand(2, 3, 3))
    with refused("transitions"):
        loss(scores(2, 4, 3), y, transitions=torch.eye(3, dtype=torch.complex64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_learned_t_with_zeros_and_scores_far_apart(dtype):
    """A class that is far likelier than all that the label allows: 0 times what overflows is 0."""
    T = torch.tensor([[0.7, 0.2, 0.0], [0.3, 0.8, 0.0], [0.0, 0.0, 1.0]], dtype=dtype)
    v = torch.tensor([[-1e4, 1e4, 0.0], [1e4, -1e4, 0.0], [0.0, -torch.inf, 200.0], [1e3, 0.0, -1e3]], dtype=dtype)
    y, loss = torch.tensor([2, 0, 0, 2]), tp.ForwardLoss(tp.identity(3), reduction="none")
    x, fixed, learned = v.clone().requires_grad_(), v.clone().requires_grad_(), T.clone().requires_grad_()
    out, want = loss(x, y, transitions=learned), loss(fixed, y, transitions=T)
    out.sum().backward()
    want.sum().backward()
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(x.grad, fixed.grad)
    assert torch.isfinite(learned.grad).all()
    assert float(learned.grad[2, 1]) < -1e18  # the label is as good as impossible: any share would help it


@pytest.mark.parametrize("name", MAKES)
def test_a_learned_t_with_a_label_that_never_occurs(name):
    """It ruins no gradient, neither where nobody has it nor where its row is left out, by weight or by index."""
    start = torch.tensor([[0.0, 0.0, 0.0], [0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]]).double()
    loss, v = MAKES[name](tp.identity(3), ignore_index=-1), scores(4, 3)

    def gradients(v, labels, weights=None):
        x, T = v.clone().requires_grad_(), start.clone().requires_grad_()
        value = loss(x, labels, weights, T)
        value.backward()
        return value.detach(), x.grad[:3], T.grad

    alone = gradients(v[:3], [1, 2, 3])
    assert all(torch.isfinite(t).all() for t in alone)
    for other in (gradients(v, [1, 2, 3, 0], torch.tensor([1.0, 1.0, 1.0, 0.0])), gradients(v, [1, 2, 3, -1])):
        for a, b in zip(alone, other, strict=True):
            torch.testing.assert_close(a, b)
    value, slope, T = gradients(v, [1, 2, 3, 0])
    assert not torch.isnan(value)
    assert torch.isfinite(slope).all()
    assert torch.isfinite(T).all()


@pytest.mark.parametrize(("M", "K"), [(3, 3), (6, 4)])
def test_one_t_for_all_is_decomposed_once(M, K, monkeypatch):
    T, y = columns(M, K).requires_grad_(), torch.arange(50) % M
    each = per_example_targets(T.expand(50, M, K), y)
    sizes, qr = [], torch.linalg.qr
    monkeypatch.setattr(torch.linalg, "qr", lambda A: sizes.append(len(A)) or qr(A))
    shared = per_example_targets(T[None], y)
    assert sizes == [1]
    torch.testing.assert_close(shared, each)
    direction = scores(50, K)
    slopes = [torch.autograd.grad((r * direction).sum(), T)[0] for r in (shared, each)]
    torch.testing.assert_close(*slopes)
