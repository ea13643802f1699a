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


CUTS = {  # images do not fill the last tile, channels come in several chunks, rows in several parts
    "a walk": launches.WalkShape(2, 2, 4, 2, False),
    "a walk, in bulk": launches.WalkShape(2, 4, 4, 2, True),
    "tiles": launches.ConvShape(16, 64),
    "tiles, in bulk": launches.ConvShape(16, 64, bulk=True),
}


@pytest.mark.parametrize("cut", CUTS)
def test_every_way_to_cut_a_convolution(cut):
    """Residuals that are added, sums that are collected, and the gradient through a batch norm and its ReLU."""
    k, n = 32, 16
    g = torch.Generator().manual_seed(1)

    def some(*shape, scale=1.0):
        return (scale * torch.randn(*shape, generator=g)).to(DEVICE)

    x, w, add = some(2, 3, 4, 8, k), some(2, 3, 3, k, n), some(2, 3, 4, 8, n)
    dy, pre, more = some(2, 3, 4, 8, n), some(2, 3, 4, 8, k), some(2, 3, 4, 8, k)
    sums, gamma, beta = torch.ones(2, 2, n, device=DEVICE), 1 + 0.3 * some(2, k), 0.2 * some(2, k)
    count = 3 * 4 * 8
    stats = torch.stack([pre.sum((1, 2, 3)), pre.square().sum((1, 2, 3))], dim=1)
    norm = launches.Norm(stats, float(count), gamma, beta)
    y = launches.conv(x, w, add=add, sums=sums, shape=CUTS[cut])
    dz, by_norm = launches.conv_input(dy, w, 1, pre, norm, add=more, shape=CUTS[cut])
    for s in range(2):
        xs, ds, ps = (t[s].double().permute(0, 3, 1, 2) for t in (x, dy, pre))
        ws = w[s].double().permute(3, 2, 0, 1)
        ys = functional.conv2d(xs, ws, padding=1).permute(0, 2, 3, 1) + add[s].double()
        close(y[s], ys)
        close(sums[s], 1 + torch.stack([ys.sum((0, 1, 2)), ys.square().sum((0, 1, 2))]))
        xhat = functional.batch_norm(ps, None, None, training=True)
        on = (xhat * gamma[s, :, None, None].double() + beta[s, :, None, None].double() > 0).permute(0, 2, 3, 1)
        back = functional.conv_transpose2d(ds, ws, padding=1).permute(0, 2, 3, 1) + more[s].double()
        close(dz[s], on * back)
        close(by_norm[s, 0], (on * back).sum((0, 1, 2)))
        close(by_norm[s, 1], (on * back * xhat.permute(0, 2, 3, 1)).sum((0, 1, 2)))


@pytest.mark.parametrize(
    "cut",
    [
        launches.WeightShape(True, 16, 16, 16, 4, 3, 4),
        launches.WeightShape(False, 16, 16, 16, 4, 3, 50),
    ],
)
def test_every_way_to_cut_a_gradient_of_weights(cut):
    g = torch.Generator().manual_seed(2)
    k, n = (cut.depth, cut.width) if cut.rows else (32, 16)
    x, dy = (torch.randn(2, 3, 6, 5, c, generator=g).to(DEVICE) for c in (k, n))
    dw = launches.conv_weight(x, dy, 3, 1, shape=cut)
    for s in range(2):
        ws = torch.zeros(n, k, 3, 3, dtype=torch.float64, device=DEVICE, requires_grad=True)
        ys = functional.conv2d(x[s].double().permute(0, 3, 1, 2), ws, padding=1)
        ys.backward(dy[s].double().permute(0, 3, 1, 2))
        close(dw[s], ws.grad.permute(2, 3, 1, 0))


@pytest.mark.parametrize("relu", [True, False])
def test_batch_norms_of_many_tiles_and_their_gradients(relu):
    """Pixels that do not fill the last tile, and more tiles than one program sums."""
    g = torch.Generator().manual_seed(3)
    x, dy, add = (torch.randn(2, 5, 13, 9, 64, generator=g).to(DEVICE) for _ in range(3))
    gamma, beta = (torch.randn(2, 64, generator=g).to(DEVICE) for _ in range(2))
    count = 5.0 * 13 * 9
    stats = torch.stack([x.sum((1, 2, 3)), x.square().sum((1, 2, 3))], dim=1)
    norm = launches.Norm(stats, count, gamma, beta)
    y = launches.bn(x, norm, relu)
    dz, sums = launches.bn_sums(dy, x, norm, relu)
    dx, plus = (launches.bn_input(dz, x, sums, norm, more) for more in (None, add))
    for s in range(2):
        xs = x[s].double().permute(0, 3, 1, 2).requires_grad_()
        gs, bs = (t[s].double().requires_grad_() for t in (gamma, beta))
        ys = functional.batch_norm(xs, None, None, gs, bs, training=True)
        ys = functional.relu(ys) if relu else ys
        ys.backward(dy[s].double().permute(0, 3, 1, 2))
        close(y[s], ys.permute(0, 2, 3, 1))
        close(sums[s, 0], bs.grad)
        close(sums[s, 1], gs.grad)
        close(dx[s], xs.grad.permute(0, 2, 3, 1))
        close(plus[s], xs.grad.permute(0, 2, 3, 1) + add[s].double())


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
