"""T by groups of rows, from three answers a row."""

import numpy as np
import pytest
from refusals import refused

import tproper as tp
from tproper.estimation import by_group


def answered(rng, n, K, hard, m=3):
    """Answers of which a tenth are wrong in easy rows, and `hard` in the others."""
    z, easy = rng.integers(K, size=n), rng.random(n) < 0.5
    wrong = rng.random((n, m)) < np.where(easy, 0.1, hard)[:, None]
    return z, np.where(easy, "easy", "hard"), np.where(wrong, (z[:, None] + rng.integers(1, K, (n, m))) % K, z[:, None])


@pytest.mark.parametrize("K", [2, 4])
def test_each_group_has_its_own_T(K, monkeypatch):
    monkeypatch.setattr(by_group, "DRAWS", 150)  # enough for ends of intervals, and quick
    inside = tried = 0
    for seed in range(30):
        _, groups, answers = answered(np.random.default_rng([K, seed]), 900, K, 0.35)
        found = tp.transitions_by_group(answers, groups, num_classes=K)
        assert found.p_value < 0.01
        for name, right in (("easy", 0.9), ("hard", 0.65)):
            low, high = (side.diagonal() for side in found.groups[name].interval())
            inside += int(((low <= right) & (right <= high)).sum())
            tried += K
    assert inside >= 0.88 * tried


def test_groups_that_do_not_differ_are_not_said_to():
    said = 0
    for seed in range(60):
        _, groups, answers = answered(np.random.default_rng([9, seed]), 600, 3, 0.1)
        said += tp.transitions_by_group(answers, groups, num_classes=3).p_value < 0.05
    assert said <= 8  # of 60 at .05: more have the probability .005


def test_a_loss_takes_them_and_learns_better_from_hard_rows():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    z, groups, answers = answered(rng, 2000, 3, 0.5)
    found = tp.transitions_by_group(answers, groups)
    own = found.transitions
    assert own.shape == (2000, 3, 3)
    loss = tp.ForwardLoss(found.whole)
    scores = torch.log(torch.full((2000, 3), 0.05).double() + 0.85 * torch.nn.functional.one_hot(torch.tensor(z), 3))
    plain, by_row = loss(scores, answers[:, 0]), loss(scores, answers[:, 0], transitions=own)
    assert by_row < plain - 0.02
    assert "differs between groups" in str(found)


def test_what_cannot_be_told_is_refused_or_said():
    _, groups, answers = answered(np.random.default_rng(2), 400, 3, 0.3)
    with refused("groups"):
        tp.transitions_by_group(answers[:, :2], groups)
    with refused("groups"):
        tp.transitions_by_group(answers, groups[:-1])
    noise = np.random.default_rng(3).integers(3, size=(400, 3))
    with pytest.warns(tp.IdentifiabilityWarning, match="hardly tell the classes apart"):
        tp.transitions_by_group(noise, groups)
