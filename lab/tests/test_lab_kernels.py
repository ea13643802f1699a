"""The fused kernels compute what the plain module computes: scores, gradients, running statistics.

They need Triton, which exists for GPU installations alone; with ``TRITON_INTERPRET=1`` they also run
on a CPU, in float32, through Triton's interpreter.
"""

import os

import pytest
import torch
from torch.nn import functional

pytest.importorskip("triton", reason="the fused kernels need Triton, which GPU installs bring")

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not INTERPRETED and not torch.cuda.is_available():
    pytest.skip("no GPU, and TRITON_INTERPRET is not 1", allow_module_level=True)

from tproper_lab import launches  # noqa: E402
from tproper_lab.fused import FusedResidualNet  # noqa: E402
from tproper_lab.models import ResidualNet  # noqa: E402

DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize(
    ("side", "stride", "k", "n", "size"),
    [
        (3, 1, 16, 16, 8),
        (3, 1, 16, 32, 16),  # walked down in two parts
        (3, 1, 64, 64, 8),
        (3, 1, 16, 128, 8),  # too many channels to walk
        (3, 1, 16, 16, 6),  # no power of two
        (3, 2, 16, 32, 8),
        (1, 2, 16, 32, 8),
    ],
)
def test_convolution_and_its_gradients(side, stride, k, n, size):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 3, size, size, k, generator=generator).to(DEVICE)
    w = torch.randn(2, side, side, k, n, generator=generator).to(DEVICE)
    sums = torch.zeros(2, 2, n, device=DEVICE)
    y = launches.conv(x, w, stride, sums=sums)
    dy = torch.randn(y.shape, generator=generator).to(DEVICE)
    dw = launches.conv_weight(x, dy, side, stride)
    dx, _ = launches.conv_input(dy, w, stride, x, None)
    for s in range(2):
        xs = x[s].permute(0, 3, 1, 2).double().requires_grad_()
        ws = w[s].permute(3, 2, 0, 1).double().requires_grad_()
        ys = functional.conv2d(xs, ws, stride=stride, padding=side // 2)
        ys.backward(dy[s].permute(0, 3, 1, 2).double())
        close(y[s], ys.permute(0, 2, 3, 1))
        close(sums[s, 0], ys.sum(dim=(0, 2, 3)))
        close(sums[s, 1], (ys**2).sum(dim=(0, 2, 3)))
        close(dw[s], ws.grad.permute(2, 3, 1, 0))
        close(dx[s], xs.grad.permute(0, 2, 3, 1))


@pytest.mark.skipif(INTERPRETED, reason="the interpreter has no tensor cores to test")
@pytest.mark.parametrize(("channels", "side"), [(16, 32), (32, 32), (64, 16), (128, 8)])
def test_bfloat16_convolutions_at_the_sizes_of_the_paper(channels, side):
    """Bulk copies and tensor cores; five images, so that the last tile of an 8 x 8 image is half empty."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    x, dy = torch.randn(2, 2, 5, side, side, channels, generator=generator, device=DEVICE).bfloat16()
    w = torch.randn(2, 3, 3, channels, channels, generator=generator, device=DEVICE).bfloat16()
    sums = torch.zeros(2, 2, channels, device=DEVICE)
    y, dw = launches.conv(x, w, sums=sums), launches.conv_weight(x, dy, 3, 1)
    dx, _ = launches.conv_input(dy, w, 1, x, None)
    for s in range(2):
        xs, ws = (t[s].double().requires_grad_() for t in (x, w))
        ys = functional.conv2d(xs.permute(0, 3, 1, 2), ws.permute(3, 2, 0, 1), padding=1).permute(0, 2, 3, 1)
        ys.backward(dy[s].double())
        for found, expected in ((y, ys), (dx, xs.grad), (dw, ws.grad), (sums[:, 1], (ys**2).sum((0, 1, 2)))):
            error = (found[s].double() - expected).norm() / expected.norm()
            assert error < 4e-3, float(error)  # bfloat16 rounds what is stored to 2^-9


def close(found, expected):
    expected = expected.detach()
    error = (found.double() - expected).norm()  # some gradients are zero: a shift before a batch norm
    assert error < 1e-5 * expected.norm() + 1e-6, float(error)


def test_network_scores_gradients_and_running_statistics():
    def build():
        return ResidualNet(10, blocks=1, width=1)

    fused = FusedResidualNet(build, dtype=torch.float32)
    states = [fused.initial(seed) for seed in (3, 4)]
    weights = {n: torch.stack([w[n] for w, _ in states]).to(DEVICE) for n in states[0][0]}
    buffers = {n: torch.stack([b[n] for _, b in states]).to(DEVICE) for n in states[0][1]}
    leaves = {n: w.clone().requires_grad_() for n, w in weights.items()}
    x = torch.randn(2, 2, 8, 8, 3, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    scores = fused.scores(leaves, buffers, x, train=True)
    pull = torch.randn(scores.shape, generator=torch.Generator().manual_seed(2)).to(DEVICE)
    grads = dict(zip(leaves, torch.autograd.grad(scores, leaves.values(), pull), strict=True))
    still = fused.scores(leaves, buffers, x, train=False)
    for s, seed in enumerate((3, 4)):
        torch.manual_seed(seed)
        module = build().double().to(DEVICE)
        out = module(x[s].permute(0, 3, 1, 2).double())
        close(scores[s].detach(), out)
        out.backward(pull[s].double())
        for name, p in module.named_parameters():
            expected = p.grad.permute(2, 3, 1, 0) if p.dim() == 4 else p.grad
            found = grads[name][s]
            if name == "stem.weight":
                assert float(found[:, :, 3:].abs().max()) == 0
                found = found[:, :, :3]
            close(found, expected)
        for name, place in fused.places.items():
            part = module.get_submodule(name)
            close(buffers["running_mean"][s, place], part.running_mean)
            close(buffers["running_var"][s, place], part.running_var)
        module.eval()
        close(still[s].detach(), module(x[s].permute(0, 3, 1, 2).double()))
