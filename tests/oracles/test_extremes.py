"""Against 60 digits: squeezing near alpha = 1, k over six decades, Tsallis near a = 1 and far from it, forward losses.

`make_extremes.py` writes the numbers, without the library.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import tproper as tp

CASES = json.loads((Path(__file__).parent / "extremes.json").read_text())


def tensor(x):
    return torch.tensor(x, dtype=torch.float64)


def label(case):
    return " ".join(f"{k}={v}" for k, v in case.items() if k not in ("value", "v", "p"))


@pytest.mark.parametrize("case", CASES["one_against_the_rest"], ids=label)
def test_squeezed_conjugates(case):
    K, r = case["K"], case["r"]
    q = tensor([[r] + [(1 - r) / (K - 1)] * (K - 1)])
    value = tp.LogSumExp().squeezed(case["k"], case["alpha"]).conjugate(q)
    assert value.item() == pytest.approx(case["value"], rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("case", CASES["three_classes"], ids=label)
def test_squeezed_conjugates_and_inverse_links(case):
    F, q = tp.LogSumExp().squeezed(case["k"], case["alpha"]), tensor([case["q"]])
    assert F.conjugate(q).item() == pytest.approx(case["value"], rel=1e-12)
    assert F.inverse_link(q)[0].tolist() == pytest.approx(case["v"], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("case", CASES["tsallis"], ids=label)
def test_tsallis(case):
    F, v = tp.Tsallis(case["a"]), tensor([case["v"]])
    assert F.value(v).item() == pytest.approx(case["value"], rel=1e-9, abs=1e-9)
    assert F.link(v)[0].tolist() == pytest.approx(case["p"], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("case", CASES["forward"], ids=label)
def test_forward_losses(case):
    row = np.array(case["row"])
    T = tp.Transition(np.stack([row, 1 - row]))
    loss = tp.ForwardLoss(T)(tensor([case["v"]]), [0])
    assert loss.item() == pytest.approx(case["value"], rel=1e-13, abs=1e-13)
