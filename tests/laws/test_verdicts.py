"""Two ways to a verdict agree, rows with gaps keep above their bound, and nested sources draw by themselves."""

import numpy as np
import pytest
import torch

import tproper as tp

from .registry import LOSSES, TRANSITIONS

SMALL = [name for name, make in TRANSITIONS.items() if make().num_classes <= 6]


@pytest.mark.parametrize("name", SMALL)
def test_certify_is_one_dispatch(name):
    T = TRANSITIONS[name]()
    for loss_name, make in LOSSES.items():
        try:
            loss = make(T)
        except ValueError:  # a loss that these labels do not allow
            continue
        first, second = tp.certify(loss), loss.certify()
        assert first == second, loss_name
        assert hash(first) == hash(second)


class Half(tp.ForwardLoss):
    """A loss that computes something else than its parent."""

    def pointwise(self, scores, labels):
        return super().pointwise(scores, labels) / 2


def test_a_subclass_is_not_certified_as_its_parent():
    T = tp.complementary(3)
    half = Half(T).certify()
    assert half == tp.certify(Half(T))
    assert half.evidence != "exact"
    assert half.bounds is None or not np.allclose(half.bounds, tp.ForwardLoss(T).certify().bounds)


CROWD = tp.annotators([tp.symmetric_noise(3, 0.2), tp.pair_noise(3, 0.3), tp.symmetric_noise(3, 0.4)])
BOUNDED = [name for name, make in LOSSES.items() if tp.certify(make(CROWD)).lower_bounded]


@pytest.mark.parametrize("name", BOUNDED)
def test_rows_with_gaps_stay_above_the_bound_that_is_printed(name):
    loss = LOSSES[name](CROWD)
    least = float(np.min(tp.certify(loss).bounds))
    rng = torch.Generator().manual_seed(0)
    scores = torch.cat([10.0**s * torch.randn(300, 3, dtype=torch.float64, generator=rng) for s in range(-1, 3)])
    found = [
        float(loss(scores, row.expand(len(scores), 3)).min())
        for row in torch.cartesian_prod(*[torch.arange(-1, 3)] * 3)
    ]
    assert len(BOUNDED) >= 4
    assert least - 1e-9 <= min(found) <= least + max(1.0, 0.5 * abs(least)), "never below, and not far above"


def test_sources_of_sources_draw_by_themselves():
    part = lambda seed: tp.Transition.from_counts(np.random.default_rng(seed).integers(5, 40, (2, 2)))  # noqa: E731
    inner = lambda: tp.multi_source([part(1), part(1)], [0.5, 0.5])  # noqa: E731
    draws = tp.multi_source([inner(), inner()], [0.5, 0.5]).draws_of_posterior(400)
    first = draws[:, ::2, 0]  # label 0 of each of the four sources, which have one T
    each = np.corrcoef(first.T)
    assert first.shape == (400, 4)
    assert np.abs(each - np.eye(4)).max() < 0.25
