"""Ray Train's workers train as torchrun's do: the weights of one process."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

sys.path.insert(0, str(Path(__file__).parent))
import ddp_worker

LOSSES = ("BC", "gLS", "GA", "forward")


def loop(config):
    """What every worker runs; the process group is Ray's."""
    sys.path.insert(0, config["folder"])
    import ddp_worker

    from tproper.learn.distributed import process_group, rank, world_size

    torch.set_num_threads(1)
    with process_group():
        assert world_size() == 2
        losses = ddp_worker.losses()
        weights = {f"{name}.{k}": v for name in LOSSES for k, v in ddp_worker.trained(losses[name]).items()}
        if rank() == 0:
            save_file(weights, config["out"])


@pytest.mark.slow
def test_two_ray_workers_reach_the_weights_of_one_process(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs tproper[ray]")
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    paths = os.pathsep.join(p for p in sys.path if p)  # workers unpickle `loop` from this file
    ray.init(num_cpus=3, include_dashboard=False, runtime_env={"env_vars": {"PYTHONPATH": paths}})
    try:
        out = tmp_path / "weights.safetensors"
        TorchTrainer(
            loop,
            train_loop_config={"folder": str(Path(__file__).parent), "out": str(out)},
            scaling_config=ScalingConfig(num_workers=2),
            torch_config=TorchConfig(backend="gloo"),
            run_config=RunConfig(storage_path=str(tmp_path / "ray")),
        ).fit()
    finally:
        ray.shutdown()
        for number, handler in handlers.items():  # Ray leaves its own, which the tests of interrupts would meet
            signal.signal(number, handler)
    weights = load_file(out)
    for name in LOSSES:
        for k, weight in ddp_worker.trained(ddp_worker.losses()[name]).items():
            torch.testing.assert_close(weights[f"{name}.{k}"], weight, rtol=0, atol=1e-5)
