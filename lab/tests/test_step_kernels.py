"""The kernels around the model compute what the plain formulations compute: crops, objective, optimiser.

They need Triton, which exists for GPU installations alone; with ``TRITON_INTERPRET=1`` they also run
on a CPU through Triton's interpreter.
"""

import os

import numpy as np
import pytest
import torch
from blobs import blobs

pytest.importorskip("triton", reason="the kernels need Triton, which GPU installs bring")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("no GPU, and TRITON_INTERPRET is not 1", allow_module_level=True)

import tproper as tp  # noqa: E402
from tproper_lab import engine, randomness, step_kernels  # noqa: E402
from tproper_lab.datasets import Dataset  # noqa: E402
from tproper_lab.objectives import Objective  # noqa: E402
from tproper_lab.protocol import LOSSES, Protocol, Trial, TrialConfig  # noqa: E402
from tproper_lab.stacking import stacked  # noqa: E402

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")


@pytest.mark.parametrize("like", [None, (16, torch.float32)])
def test_a_stack_takes_the_kernels_where_they_run(like, monkeypatch):
    """Inputs and the optimiser of a step: the same with the kernels as without."""
    data = blobs(n=60, shape=(4, 4, 3), augment=True)
    pixels = engine.Pixels(data, DEVICE)
    index, seeds, epochs = torch.tensor([[0, 5, 9]], device=DEVICE), *torch.tensor([[3], [1]], device=DEVICE)
    stack = engine.Stack(data, pixels, stacked("linear", data.shape, 4, DEVICE), Protocol(batch_size=8), 1)
    stack.put(0, Trial(TrialConfig("digits", "linear", "bc", 0.1, weight_decay=0.3), 5))
    results = []
    for kernels in (False, True):
        monkeypatch.setattr(engine, "launches", lambda t, kernels=kernels: kernels)
        x = pixels.batch(index, seeds, epochs, like)
        flat, velocity = stack.flat.clone(), stack.velocity.clone()
        stack._descend(torch.full_like(flat, 0.5), torch.tensor([0.1], device=DEVICE))
        results.append((x[..., :3], stack.flat.clone(), stack.velocity.clone()))
        stack.flat.copy_(flat)
        stack.velocity.copy_(velocity)
    torch.testing.assert_close(*results)
    assert x.shape[-1] == (3 if like is None else 16)


@pytest.mark.parametrize("channels", [3, 16])
@pytest.mark.parametrize("augment", [True, False])
def test_crops_are_the_plain_ones(augment, channels):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (9, 6, 6, 3), dtype=np.uint8)
    labels = np.zeros(9, dtype=np.int64)
    normal = {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.25, 0.3)}
    pixels = engine.Pixels(Dataset("made", images, labels, images, labels, **normal, augment=augment), DEVICE)
    index = torch.tensor(rng.permuted(np.tile(np.arange(9), (4, 1)), axis=1), device=DEVICE)
    seeds, epochs = torch.tensor([0, 1, 2, 2**40], device=DEVICE), torch.tensor([0, 5, 5, 9], device=DEVICE)
    found = step_kernels.crop(
        pixels.train, index, seeds, epochs, pixels.scale, pixels.shift, engine.PAD * augment, channels, torch.float32
    )
    draws = randomness.crops(seeds, epochs, index, engine.PAD)
    expected = pixels.cropped(index, *draws) if augment else pixels.plain(index)
    torch.testing.assert_close(found[..., :3], expected, rtol=1e-6, atol=1e-6)
    assert not found[..., 3:].any()


@pytest.mark.parametrize("n", [1, 40])
@pytest.mark.parametrize("classes", [3, 10])
def test_objective_and_gradient(n, classes):
    trials = [("bc", 0.0, 2.0), ("ga", 0.0, 2.0), ("gls", 0.7, 2.0), ("forward", 0.0, 2.0), ("gls", 0.3, 1.2)]
    transition = tp.complementary(classes)
    objective = Objective(transition.matrix(), transition.reconstruction().matrix(), DEVICE)
    generator = torch.Generator().manual_seed(n)
    scores = (4 * torch.randn(len(trials), n, classes, generator=generator)).to(DEVICE)
    labels = torch.randint(0, classes, (len(trials), n), generator=generator).to(DEVICE)
    kind = torch.tensor([LOSSES.index(loss) for loss, _, _ in trials], device=DEVICE)
    k, alpha = torch.tensor([t[1:] for t in trials], device=DEVICE).T.contiguous()
    tables = (objective.targets, objective.log_transition)
    risk, slope = step_kernels.objective(scores, labels, *tables, kind, k, alpha)
    scores.requires_grad_()
    expected = objective(scores, labels, kind, k, alpha)
    (gradient,) = torch.autograd.grad(expected.sum(), scores)
    torch.testing.assert_close(risk, expected.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(slope, gradient, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("size", [5, 2100])
def test_nesterov_is_torch_sgd(size):
    """Also where the weights fill several blocks, and not the last one."""
    start = torch.randn(2, size, generator=torch.Generator().manual_seed(0))
    decays = (torch.arange(size) % 5 < 3).float()
    lr, decay = torch.tensor([0.1, 0.01]), torch.tensor([0.5, 0.0])
    weights, velocity = start.clone().to(DEVICE), torch.zeros(2, size, device=DEVICE)
    twins = [start[s].clone().requires_grad_() for s in range(2)]
    peers = [torch.optim.SGD([t], lr=float(lr[s]), momentum=0.9, nesterov=True) for s, t in enumerate(twins)]
    for step in range(3):
        gradient = torch.randn(2, size, generator=torch.Generator().manual_seed(10 + step))
        on = [t.to(DEVICE) for t in (gradient, decays, lr, decay)]
        step_kernels.nesterov(weights, velocity, *on, 0.9)
        for s, (twin, peer) in enumerate(zip(twins, peers, strict=True)):
            twin.grad = gradient[s] + decay[s] * decays * twin.detach()
            peer.step()
    torch.testing.assert_close(weights.cpu(), torch.stack([t.detach() for t in twins]))
