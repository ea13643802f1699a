"""Two processes of test_distributed.py: each trains every loss on its share, and rank 0 writes the weights.

torchrun --nproc-per-node=2 ddp_worker.py OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

import tproper as tp
from tproper.learn.distributed import fit, global_batch, process_group, rank, world_size

K, N, BATCH = 4, 101, 25  # neither the set nor a batch splits evenly over two processes


def losses() -> dict[str, tp.losses.WeakLabelLoss]:
    T = tp.complementary(K)
    return {
        "BC": tp.BackwardLoss(T),
        "gLS": tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
        "GA": tp.GradientAscentLoss(T),
        "NN": tp.NonNegativeLoss(T),
        "forward": tp.ForwardLoss(T),
        "partial": tp.BackwardLoss(tp.partial_labels(K, 0.3), squeeze=(0.5, 1.5)),
    }


def problem(loss: tp.losses.WeakLabelLoss) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    X = torch.randn(N, 6, generator=g)
    y = (X @ torch.randn(6, K, generator=g)).argmax(1)
    return X, torch.as_tensor(loss.transition.sample(y, seed=1))


def trained(loss: tp.losses.WeakLabelLoss) -> dict[str, torch.Tensor]:
    X, labels = problem(loss)
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, K))
    fit(
        model, loss, X, labels, epochs=6, batch_size=BATCH, seed=3,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True),
    )  # fmt: skip
    return dict(model.state_dict())


def uneven_values(parts: list[slice]) -> dict[str, torch.Tensor]:
    """Loss and gradient of one fixed global batch, cut into very unequal parts; weighted, and with an empty part."""
    out = {}
    for name, loss in losses().items():
        X, labels = problem(loss)
        own = parts[rank()]
        weights = torch.linspace(0.5, 2.0, N)
        v = X[:, :K].clone().requires_grad_()
        value = global_batch(loss)(v[own], labels[own], weights[own])
        value.backward()
        grad = v.grad / world_size()  # DDP's average ...
        torch.distributed.all_reduce(grad)  # ... over the processes
        out[f"{name}.value"], out[f"{name}.grad"] = value.detach().reshape(1), grad
    return out


def refused() -> list[bool]:
    """Whether a global batch without any weight, or without any example, raises on this process."""
    loss = global_batch(tp.ForwardLoss(tp.complementary(K)))
    out = []
    for rows in (3, 0):
        try:
            loss(torch.zeros(rows, K), torch.zeros(rows, dtype=torch.long), torch.zeros(rows))
            out.append(False)
        except ValueError as error:
            out.append("global batch" in str(error))
    return out


def main(out: Path) -> None:
    torch.set_num_threads(1)
    with process_group("gloo"):
        result = {f"{name}.{k}": v for name, loss in losses().items() for k, v in trained(loss).items()}
        for case, parts in {
            "uneven": [slice(0, 7), slice(7, N)],
            "empty": [slice(0, N), slice(N, N)],
        }.items():
            result |= {f"{case}.{k}": v for k, v in uneven_values(parts).items()}
        result["refused"] = torch.tensor(refused())
        if rank() == 0:
            save_file({k: v.contiguous() for k, v in result.items()}, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
