"""Two processes of torchrun's kind compute what one process computes: weights, losses, gradients."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import forked
import numpy as np
import pytest
import torch
from refusals import refused
from safetensors.torch import load_file

import tproper as tp
from tproper.learn import distributed
from tproper.learn.distributed import GlobalBatches, fit, global_batch

sys.path.insert(0, str(Path(__file__).parent))
import ddp_worker

LOSSES = ("BC", "gLS", "GA", "NN", "forward", "partial")


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What two processes (gloo) wrote, which find each other as torchrun says: one launch for all tests.

    They are forks, since torchrun's would spend seconds on imports; Ray starts its own in lab/tests/test_ray.py.
    """
    out = tmp_path_factory.mktemp("ddp") / "weights.safetensors"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    told = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        forked.start_function(
            lambda: ddp_worker.main(out),
            env={**told, "RANK": str(rank), "LOCAL_RANK": str(rank), "GLOO_SOCKET_IFNAME": "lo"},
            stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    try:
        said = [process.communicate(timeout=120)[1] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    return load_file(out)


@pytest.mark.parametrize("name", LOSSES)
def test_two_processes_reach_the_weights_of_one(two_processes, name):
    alone = ddp_worker.trained(ddp_worker.losses()[name])
    for k, weight in alone.items():
        torch.testing.assert_close(two_processes[f"{name}.{k}"], weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", ["uneven", "empty"])
@pytest.mark.parametrize("name", LOSSES)
def test_parts_of_any_size_give_the_global_value_and_gradient(two_processes, name, case):
    loss = ddp_worker.losses()[name]
    X, labels = ddp_worker.problem(loss)
    v = X[:, : ddp_worker.K].clone().requires_grad_()
    value = loss(v, labels, torch.linspace(0.5, 2.0, ddp_worker.N))
    value.backward()
    torch.testing.assert_close(two_processes[f"{case}.{name}.value"][0], value.detach(), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(two_processes[f"{case}.{name}.grad"], v.grad, rtol=1e-5, atol=1e-7)


def test_a_global_batch_without_weight_is_refused_on_every_process(two_processes):
    assert two_processes["refused"].tolist() == [True, True]


def test_averaging_local_losses_would_differ():
    """The reason for all this: the mean of two halves' GA losses is not the GA loss of the whole."""
    loss = ddp_worker.losses()["GA"]
    X, labels = ddp_worker.problem(loss)
    v = 3 * X[:, : ddp_worker.K]
    halves = (loss(v[:20], labels[:20]) + loss(v[20:40], labels[20:40])) / 2
    assert abs(float(halves - loss(v[:40], labels[:40]))) > 1e-3


def test_without_a_process_group_it_is_the_loss_itself():
    loss = tp.GradientAscentLoss(tp.complementary(3))
    v, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    assert torch.equal(global_batch(loss)(v, y), loss(v, y))
    assert "processes=1" in repr(global_batch(loss))


def test_batches_are_a_partition_of_every_epoch(monkeypatch):
    n, parts = 23, 3
    seen = []
    for r in range(parts):
        monkeypatch.setattr(distributed, "world_size", lambda group=None: parts)
        monkeypatch.setattr(distributed, "rank", lambda group=None, r=r: r)
        batches = GlobalBatches(n, 10, seed=5)
        seen.append([[own for own, _ in batches] for _ in range(2)])
    for epoch in range(2):
        together = [np.concatenate([seen[r][epoch][b] for r in range(parts)]) for b in range(3)]
        assert [len(b) for b in together] == [10, 10, 3]
        assert sorted(np.concatenate(together)) == list(range(n))
    assert not np.array_equal(seen[0][0][0], seen[0][1][0])
    assert len(GlobalBatches(n, 10, seed=5, drop_last=True)) == 2


@pytest.mark.parametrize(("gpus", "backend"), [(0, "gloo"), (2, "gloo"), (4, "nccl")])
@pytest.mark.parametrize("local", [0, 3])
def test_all_processes_of_a_machine_choose_the_same_backend(monkeypatch, gpus, backend, local):
    chosen = []
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setenv("LOCAL_RANK", str(local))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.distributed, "init_process_group", chosen.append)
    monkeypatch.setattr(torch.distributed, "destroy_process_group", lambda: None)
    with distributed.process_group() as device:
        assert chosen == [backend]
        assert device == torch.device("cuda", local) if backend == "nccl" else device == torch.device("cpu")


def test_mistakes_are_named():
    with refused("loss"):
        global_batch(tp.ForwardLoss(tp.identity(3), reduction="none"))
    with refused("loss"):
        global_batch(torch.nn.CrossEntropyLoss())
    with refused("labels"):
        fit(torch.nn.Linear(2, 3), tp.ForwardLoss(tp.identity(3)), torch.zeros(3, 2), [0, 1], epochs=1, batch_size=2,
            optimizer=torch.optim.SGD)  # fmt: skip
