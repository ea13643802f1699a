"""A trial in a stack gives what it gives alone; a checkpoint continues as if nothing had happened."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tproper_lab.engine import Pixels, Stack, split_and_labels
from tproper_lab.models import BUILDERS, ResidualNet, StackedNetwork
from tproper_lab.problems import papers_task
from tproper_lab.protocol import Protocol, Trial, TrialConfig
from tproper_lab.stacking import stacked

CPU = torch.device("cpu")
PROTOCOL = Protocol(batch_size=50, max_epochs=5)


def trial(loss, seed, model="mlp", lr=0.05, dataset="digits", **kwargs):
    return Trial(TrialConfig(dataset, model, loss, lr, protocol=PROTOCOL, **kwargs), seed)


MIXED = [
    trial("bc", 0, lr=0.01),
    trial("gls", 1, k=0.5),
    trial("ga", 2, weight_decay=0.01),
    trial("forward", 3, lr=0.1),
    trial("gls", 4, k=0.1, alpha=1.3),
]


def make_stack(data, trials, model="mlp"):
    pixels = Pixels(data, CPU)
    stack = Stack(data, pixels, stacked(model, data.shape, data.num_classes, CPU), PROTOCOL, len(trials))
    for slot, t in enumerate(trials):
        stack.put(slot, t)
    return stack


def advance(stack, epochs):
    trace = []
    for _ in range(epochs):
        risk = stack.train_epoch()
        valid = stack.valid_accuracy()
        for slot, a in stack.active:
            if a.progress.record(stack.protocol, risk[slot].item(), valid[slot].item()):
                stack.keep_scores({"clean": [slot]})
        trace.append((risk, valid))
    return trace


def test_a_trial_in_a_stack_gives_what_it_gives_alone(small_data):
    together = make_stack(small_data, MIXED)
    advance(together, 3)
    for slot, t in enumerate(MIXED):
        alone = make_stack(small_data, [t])
        advance(alone, 3)
        assert torch.equal(together.order[slot], alone.order[0])  # the same batches, exactly
        assert torch.allclose(together.flat[slot], alone.flat[0], rtol=1e-5, atol=1e-6)
        assert torch.allclose(together.best_scores[slot], alone.best_scores[0], rtol=1e-4, atol=1e-5)
        mine, other = together.assigned[slot].progress, alone.assigned[0].progress
        assert mine.risk == pytest.approx(other.risk, rel=1e-5)
        assert mine.valid == pytest.approx(other.valid, abs=1e-9)


def test_it_learns(small_data):
    stack = make_stack(small_data, [trial("forward", 0, lr=0.3), trial("forward", 1, lr=0.3)])
    trace = advance(stack, 12)
    assert trace[-1][1].min() > 0.9
    assert (trace[-1][0] < trace[0][0]).all()


@pytest.mark.parametrize("by_epoch", [False, True])
def test_step_is_torchs_sgd_with_nesterov_and_warm_up(small_data, by_epoch):
    """The update against torch.optim.SGD on a plain module, with the protocol's warm-up by hand."""
    config = trial("forward", 5, model="linear", lr=0.2, weight_decay=0.03)
    stack = make_stack(small_data, [config], "linear")
    stack.protocol = replace(PROTOCOL, warmup_by_epoch=by_epoch)
    torch.manual_seed(5)
    module = BUILDERS["linear"](small_data.shape, small_data.num_classes)
    groups = [
        {"params": [module[0].weight], "weight_decay": 0.03},
        {"params": [module[0].bias], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.SGD(groups, lr=1.0, momentum=0.9, nesterov=True)
    x = torch.from_numpy(small_data.train_images).float().flatten(1) / 255
    for step in range(2 * stack.steps_per_epoch):
        epoch, i = divmod(step, stack.steps_per_epoch)
        if i == 0:
            stack.train_epoch()
        index = stack.order[0, 50 * i : 50 * (i + 1)]
        taken = epoch if by_epoch else step / stack.steps_per_epoch
        for group in optimiser.param_groups:
            group["lr"] = 0.2 * (0.001 + 0.999 * taken / 4)
        scores = module(x[index])
        labels = stack.weak[0, index]
        others = scores.masked_fill(torch.nn.functional.one_hot(labels, 4).bool(), -torch.inf)
        loss = (np.log(3) + scores.logsumexp(1) - others.logsumexp(1)).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert torch.allclose(stack.weights["0.weight"][0], module[0].weight, rtol=1e-4, atol=1e-6)
    assert torch.allclose(stack.weights["0.bias"][0], module[0].bias, rtol=1e-4, atol=1e-6)


def test_checkpoint_continues_in_another_slot_of_another_stack(small_data):
    straight = make_stack(small_data, MIXED[:2])
    advance(straight, 4)
    broken = make_stack(small_data, MIXED[:2])
    advance(broken, 2)
    resumed = make_stack(small_data, [MIXED[3], MIXED[0]])
    resumed.put(1, MIXED[1], broken.assigned[1].progress, broken.state(1))
    advance(resumed, 2)
    assert torch.allclose(resumed.flat[1], straight.flat[1], rtol=1e-6, atol=1e-7)
    assert resumed.assigned[1].progress.valid == straight.assigned[1].progress.valid
    assert torch.allclose(resumed.best_scores[1], straight.best_scores[1], rtol=1e-5, atol=1e-6)


def test_selecting_slots_changes_nothing_for_them(small_data):
    whole = make_stack(small_data, MIXED)
    advance(whole, 1)
    part = whole.select([3, 1])
    assert [a.trial for a in part.assigned] == [MIXED[3], MIXED[1]]
    expected = whole.train_epoch()[[3, 1]]
    assert torch.allclose(part.train_epoch(), expected, rtol=1e-5)


def test_split_and_labels_come_from_the_seed(small_data):
    task = papers_task(small_data)
    train, valid, weak = split_and_labels(task, 7, 0.1)
    assert sorted([*train, *valid]) == list(range(600))
    assert len(valid) == 60
    assert (weak.numpy() != small_data.train_labels).all()  # a complementary label is never the true one
    again = split_and_labels.__wrapped__(task, 7, 0.1)
    assert all(np.array_equal(a, b) for a, b in zip((train, valid, weak), again, strict=True))
    assert not np.array_equal(split_and_labels(task, 8, 0.1)[0], train)


def network(data):
    return StackedNetwork(lambda: ResidualNet(data.num_classes, blocks=1, width=1))


def picture_stack(data, trials):
    stack = Stack(data, Pixels(data, CPU), network(data), PROTOCOL, len(trials))
    for slot, t in enumerate(trials):
        stack.put(slot, t)
    return stack


def test_residual_nets_in_a_stack_and_alone(pictures):
    trials = [
        trial("gls", 1, "resnet20", dataset="cifar10", k=1.0),
        trial("forward", 2, "resnet20", dataset="cifar10"),
    ]
    together = picture_stack(pictures, trials)
    advance(together, 2)
    for slot, t in enumerate(trials):
        alone = picture_stack(pictures, [t])
        advance(alone, 2)
        assert torch.allclose(together.flat[slot], alone.flat[0], rtol=1e-4, atol=1e-5)
        for name in together.buffers:
            mine, other = together.buffers[name][slot], alone.buffers[name][0]
            assert torch.allclose(mine, other, rtol=1e-4, atol=1e-5), name


def test_validation_images_are_augmented_only_if_asked(pictures):
    seen = {}
    for augment in (False, True):
        stack = picture_stack(pictures, [trial("forward", 1, "resnet20", dataset="cifar10")])
        stack.protocol = replace(PROTOCOL, augment_validation=augment)
        batches = []
        stack.model.scores = lambda weights, buffers, x, train, b=batches: b.append(x) or x[..., 0, 0, :]
        stack.valid_accuracy()
        seen[augment] = torch.cat(batches, dim=1)
    assert torch.equal(seen[False], Pixels(pictures, CPU).plain(stack.valid_index))
    assert seen[True].shape == seen[False].shape
    assert not torch.equal(seen[True], seen[False])


def test_crop_moves_pads_and_flips(pictures):
    pixels = Pixels(pictures, CPU)
    index = torch.tensor([[5, 5, 5]])
    rows, cols = torch.tensor([[4, 0, 4]]), torch.tensor([[4, 6, 4]])
    flips = torch.tensor([[0, 0, 1]])
    x = pixels.cropped(index, rows, cols, flips)
    plain = pixels.plain(index[:, :1])[0, 0]
    assert torch.allclose(x[0, 0], plain)
    assert torch.allclose(x[0, 2], plain.flip(1))
    black = (0 - 0.5) / 0.25
    assert torch.allclose(x[0, 1, :4], torch.full((4, 8, 3), black))  # four rows up: padding
    assert torch.allclose(x[0, 1, 4:, :6], plain[:4, 2:])


def test_models_have_the_papers_sizes():
    count = {
        name: sum(p.numel() for p in BUILDERS[name](shape, 10).parameters())
        for name, shape in (
            ("linear", (28, 28, 1)), ("mlp", (28, 28, 1)), ("resnet20", (32, 32, 3)), ("wrn28_2", (32, 32, 3)),
        )
    }  # fmt: skip
    assert count["linear"] == 7850
    assert count["mlp"] == 397_510
    assert 270_000 < count["resnet20"] < 276_000
    assert 1_460_000 < count["wrn28_2"] < 1_490_000


def test_wrong_names_and_too_little_data_are_refused(small_data):
    with pytest.raises(ValueError, match="expected a model among linear, mlp, resnet20, wrn28_2, got 'vgg'"):
        stacked("vgg", (4, 4, 1), 4, CPU)
    with pytest.raises(ValueError, match="expected kernels to be one of auto, triton"):
        stacked("mlp", (4, 4, 1), 4, CPU, kernels="cudnn")
    model = stacked("mlp", small_data.shape, 4, CPU)
    with pytest.raises(ValueError, match="at least one batch of 1000"):
        Stack(small_data, Pixels(small_data, CPU), model, replace(PROTOCOL, batch_size=1000), 1)
