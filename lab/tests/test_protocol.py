"""Early stopping, configuration keys, counter-based randomness."""

import pytest
import torch

from tproper_lab import paper, randomness
from tproper_lab.protocol import Progress, Protocol, Trial, TrialConfig


def test_third_plateau_stops_and_the_first_two_lower_the_rate():
    protocol = Protocol()
    progress = Progress()
    assert progress.record(protocol, 1.0, 0.5)
    factors = []
    while not progress.finished(protocol):
        assert not progress.record(protocol, 1.0, 0.5)  # equal is no improvement
        factors.append(progress.lr_factor(protocol))
    assert progress.epoch == 31
    assert factors[8:11] == pytest.approx([1.0, 0.1, 0.1])
    assert factors[19] == pytest.approx(0.01)
    assert (progress.best_epoch, progress.best_accuracy) == (1, 0.5)


def test_improvement_resets_the_count():
    protocol, progress = Protocol(), Progress()
    for epoch in range(25):
        progress.record(protocol, 0.0, epoch // 9)  # better every ninth epoch
    assert progress.reductions == 0
    assert progress.best_epoch == 19


def test_diverged_accuracy_counts_as_no_improvement():
    protocol, progress = Protocol(), Progress()
    progress.record(protocol, 0.0, 0.3)
    assert not progress.record(protocol, float("nan"), float("nan"))


def test_key_follows_from_the_settings_alone():
    config = paper.chosen("gls", "mlp")
    assert TrialConfig.from_dict(config.as_dict()) == config
    assert config.key == paper.chosen("gls", "mlp").key
    assert config.key != paper.chosen("gls", "linear").key
    assert Trial(config, 3).id == f"{config.key}-3"
    assert config.key == "1e8e58a653d79d5d"  # records of old must be found again
    keys = {config.key}
    for variant in (Protocol(augment_validation=True), Protocol(warmup_by_epoch=True)):
        other = paper.chosen("gls", "mlp", None, variant)
        assert other.key not in keys
        assert TrialConfig.from_dict(other.as_dict()) == other
        keys.add(other.key)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ValueError, match="expected loss to be one of bc, ga, gls, forward, got 'ce'"):
        TrialConfig("mnist", "linear", "ce", 0.1)
    with pytest.raises(ValueError, match="expected k > 0"):
        TrialConfig("mnist", "linear", "gls", 0.1)
    with pytest.raises(ValueError, match="belong to the loss 'gls' alone"):
        TrialConfig("mnist", "linear", "bc", 0.1, k=1.0)
    with pytest.raises(ValueError, match="expected patience >= 1"):
        Protocol(patience=0)


def test_permutations_belong_to_their_seed_and_epoch():
    seeds, epochs = torch.tensor([3, 4, 3]), torch.tensor([0, 0, 1])
    orders = randomness.permutations(seeds, epochs, 1000)
    assert all(sorted(order.tolist()) == list(range(1000)) for order in orders)
    alone = randomness.permutations(seeds[1:2], epochs[1:2], 1000)
    assert torch.equal(orders[1], alone[0])
    assert not torch.equal(orders[0], orders[1])
    assert not torch.equal(orders[0], orders[2])


def test_hash_is_splitmix64():
    # the generator's published first outputs for state 1234567 (Vigna's reference implementation)
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    golden = 0x9E3779B97F4A7C15
    states = [(1234567 + i * golden) % 2**64 for i in range(3)]
    signed = torch.tensor([s - 2**64 if s >= 2**63 else s for s in states])
    assert [v % 2**64 for v in randomness.mix(signed).tolist()] == expected


def test_crops_are_uniform_and_in_range():
    index = torch.arange(20_000)[None]
    rows, cols, flips = randomness.crops(torch.tensor([1]), torch.tensor([2]), index, 4)
    for draw, values in ((rows, 9), (cols, 9), (flips, 2)):
        counts = torch.bincount(draw[0], minlength=values)
        assert len(counts) == values
        assert (counts - 20_000 / values).abs().max() < 5 * (20_000 / values) ** 0.5
