"""Ray gives what one process gives: the weights of its trainer's workers, and the records of trials.

Also when a node dies in the middle.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tproper_lab import ray_engine
from tproper_lab.engine import Pixels
from tproper_lab.protocol import Protocol, Trial, TrialConfig
from tproper_lab.ray_engine import LabWork, import_ray, run_trials_on_ray, stacks_of
from tproper_lab.runner import Runner, Stop
from tproper_lab.store import Store

SCALE = Path(__file__).parents[2] / "tests" / "scale"
sys.path.insert(0, str(SCALE))
import ddp_worker  # noqa: E402

LOSSES = ("BC", "gLS", "GA", "forward")
PROTOCOL = Protocol(batch_size=64, max_epochs=3)
#: What a record says about the machine and the clock, not about the trial.
CIRCUMSTANCES = ("seconds", "machine", "software", "revision", "finished_at")


def trials(losses=("bc", "forward", "ga", "gls"), seeds=(0, 1)):
    return [
        Trial(TrialConfig("digits", "linear", loss, lr=0.01, k=1.0 if loss == "gls" else 0.0, protocol=PROTOCOL), seed)
        for loss in losses
        for seed in seeds
    ]


def results(store):
    return [{k: v for k, v in r.items() if k not in CIRCUMSTANCES} for r in store.records()]


def run_locally(folder, which):
    from tproper_lab.datasets import load

    data = load("digits")
    store = Store(folder)
    Runner(data, Pixels(data, torch.device("cpu")), store, slots=2).run(which, Stop())
    return store


def test_without_ray_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ValueError, match=r"needs the package ray, which is not installed; pip install 'tproper-lab\[ray\]'"
    ):
        import_ray()
    with pytest.raises(ValueError, match="pip install"):
        run_trials_on_ray(trials(), LabWork(), Store(tmp_path))
    work = LabWork(device="cpu")  # everything but Ray itself works without it
    assert {r["id"] for r in work(trials(["bc"]))} == {t.id for t in trials(["bc"])}


def test_stacks_hold_trials_that_train_together():
    mixed = [*trials(["bc"]), Trial(TrialConfig("digits", "mlp", "bc", lr=0.1, protocol=PROTOCOL), 0), *trials(["ga"])]
    stacks = stacks_of(mixed, 3)
    assert [len(s) for s in stacks] == [3, 1, 1]
    assert all(len({t.config.model for t in s}) == 1 for s in stacks)
    assert sorted(t.id for s in stacks for t in s) == sorted(t.id for t in mixed)


def test_records_must_be_those_of_the_task(tmp_path):
    store, (a, b) = Store(tmp_path), trials(["bc"])
    records = LabWork(device="cpu")([a])
    with pytest.raises(RuntimeError, match="work: expected one record for each of"):
        ray_engine._take(store, (a, b), records)
    ray_engine._take(store, (a,), records)
    ray_engine._take(store, (a,), records)
    assert len(store.records()) == 1


@pytest.fixture(scope="module")
def cluster():
    """One node of two CPUs, to which this process is connected: started once for the tests that share it."""
    ray = pytest.importorskip("ray", reason="Ray is an extra: pip install 'tproper-lab[ray]'")
    from ray.cluster_utils import Cluster

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", os.pathsep.join(p for p in sys.path if p))  # workers import this file
        environment.setenv("GLOO_SOCKET_IFNAME", "lo")
        environment.setenv("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.2")  # how soon the end of a training is noticed
        environment.setenv("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # a process more, of no use here
        environment.setenv("RAY_prestart_worker_first_driver", "false")  # workers start when there is work for them
        head = {"num_cpus": 2, "include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
        started = Cluster(initialize_head=True, head_node_args={**head, "object_store_memory": 10**8})
        try:
            ray.init(address=started.address, log_to_driver=False)
            yield started
        finally:
            ray.shutdown()
            started.shutdown()
            for number, handler in before.items():  # Ray leaves its own, which the tests of interrupts would meet
                signal.signal(number, handler)


@pytest.mark.slow
def test_two_ray_workers_reach_the_weights_of_one_process(tmp_path, cluster):
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    def loop(config):
        """What every worker runs, in Ray's process group; since it is a local function, none imports this file."""
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

    out = tmp_path / "weights.safetensors"
    TorchTrainer(
        loop,
        train_loop_config={"folder": str(SCALE), "out": str(out)},
        scaling_config=ScalingConfig(num_workers=2),
        torch_config=TorchConfig(backend="gloo"),
        run_config=RunConfig(storage_path=str(tmp_path / "ray")),
    ).fit()
    weights = load_file(out)
    for name in LOSSES:
        for k, weight in ddp_worker.trained(ddp_worker.losses()[name]).items():
            torch.testing.assert_close(weights[f"{name}.{k}"], weight, rtol=0, atol=1e-5)


@pytest.mark.slow
def test_a_killed_node_changes_nothing(tmp_path, cluster):
    """Two local nodes with room for one task each; the second is killed while it runs a task."""
    import ray

    which, starts = trials(seeds=(0,)), tmp_path / "starts"
    starts.mkdir()
    lab = LabWork(device="cpu")
    doomed = cluster.add_node(num_cpus=2, object_store_memory=10**8)
    cluster.wait_for_nodes()
    node_id = doomed.node_id

    def wait_for_the_doomed():
        """Until a task has started there: the other node has room for one, so the second of two tasks must."""
        deadline = time.monotonic() + 200  # a busy machine takes long to start workers
        while time.monotonic() < deadline and not list(starts.glob(f"*.{node_id}.*")):
            time.sleep(0.05)

    def work(task):  # notes which node starts what; the other node leaves the doomed one time to start a task
        node = ray.get_runtime_context().get_node_id()
        (starts / f"{task[0].id}.{node}.{time.monotonic_ns()}").touch()
        if node == node_id:
            time.sleep(200)  # until it is killed
        wait_for_the_doomed()
        return lab(task)

    killed = threading.Event()

    def kill():
        wait_for_the_doomed()
        cluster.remove_node(doomed, allow_graceful=False)
        killed.set()

    thread = threading.Thread(target=kill)
    thread.start()
    store = Store(tmp_path / "ray")
    seen = []
    complete = run_trials_on_ray(which, work, store, stack=2, cpus=2.0, show=lambda s: seen.append((s.done, s.waiting)))
    thread.join()
    assert complete
    assert killed.is_set()
    begun = [p.name for p in starts.iterdir()]
    lost = {name.split(".")[0] for name in begun if node_id in name}
    assert lost, "no task was on the node that was killed"
    assert len(begun) > len(stacks_of(which, 2)), "no task ran again"
    assert seen[-1] == (len(which), 0)
    assert len(store.records()) == len(which)
    # asked again, nothing runs: all is in the store
    assert run_trials_on_ray(which, work, store, stack=2)
    assert len(list(starts.iterdir())) == len(begun)
    with pytest.raises(ValueError, match="gpus, cpus: expected what one node of the cluster has, got 1 GPUs"):
        run_trials_on_ray(trials(seeds=[9]), work, store, gpus=1.0)
    with pytest.raises(RuntimeError, match=r"1 tasks failed; what succeeded is stored.*ZeroDivisionError"):
        run_trials_on_ray(trials(["bc"], seeds=[9]), lambda task: 1 / 0, store)
    with pytest.raises(ValueError, match="address: expected None in a process that is connected"):
        run_trials_on_ray(trials(seeds=[9]), work, store, address="auto")
    assert results(store) == results(run_locally(tmp_path / "local", which))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_termination_stops_cleanly_and_the_next_run_goes_on(tmp_path):
    """SIGTERM means the same as without Ray: exit code 75, what is done is stored, no native stack dump."""
    pytest.importorskip("ray", reason="Ray is an extra: pip install 'tproper-lab[ray]'")
    command = [
        sys.executable, "-m", "tproper", "reproduce", "table2", "--models", "linear", "--dataset", "digits",
        "--methods", "bc", "--trials", "500", "--engine", "ray", "--slots", "2", "--max-epochs", "2",
        "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    own = {**os.environ, "RAY_ADDRESS": "local"}  # a Ray of its own, whatever runs on this machine
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=own) as running:
        try:
            deadline = time.monotonic() + 100
            while time.monotonic() < deadline and not stored(tmp_path / "run"):
                time.sleep(0.2)
            assert running.poll() is None
            running.send_signal(signal.SIGTERM)
            _, errors = running.communicate(timeout=60)
        finally:
            running.kill()
    assert running.returncode == 75, errors
    assert "SIGTERM received" not in errors
    assert "Traceback" not in errors
    assert "run the command again" in errors
    assert stored(tmp_path / "run") % 2 == 0


def stored(folder):
    if not (folder / "records.sqlite").exists():
        return 0
    connection = sqlite3.connect(f"file:{folder / 'records.sqlite'}?mode=ro", uri=True, timeout=10)
    try:
        return connection.execute("SELECT count(*) FROM trials").fetchone()[0]
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()
