"""A checkpoint serves its own run alone, holds whole batches only, and leads to the weights of an unbroken run."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from refusals import refused
from torch import nn

import tproper as tp
from tproper.data.sources import ParquetSource
from tproper.data.stream import Learner, fit_stream
from tproper.learn.classifier import WeakLabelClassifier

pa = pytest.importorskip("pyarrow")
from pyarrow import parquet  # noqa: E402

K, ROWS = 4, 120
NAMES = ["a", "b", "c"]


def write(path, n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    columns = {name: rng.standard_normal(n) for name in NAMES}
    labels = {"label": rng.integers(K, size=n), "other": rng.integers(K, size=n)}
    parquet.write_table(pa.table({**columns, **labels}), path, row_group_size=30)


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "p.parquet")
    return folder


def source_of(data, **options):
    given = {"label": "label", "features": NAMES, "batch_size": 16, "block_rows": 60, "seed": 3} | options
    return ParquetSource(data, **given)


def learner_of(module=None, loss=None, optimizer=None, **options):
    torch.manual_seed(0)
    return Learner(
        nn.Linear(3, K) if module is None else module(),
        loss or tp.ForwardLoss(tp.complementary(K)),
        optimizer or (lambda p: torch.optim.Adam(p, lr=0.02)),
        **options,
    )


def classifier_of(**options):
    given = {"transition": tp.complementary(K), "random_state": 0, "device": "cpu", "batch_size": 8} | options
    return WeakLabelClassifier(**given)


def weights(learner):
    module = learner.module if isinstance(learner, Learner) else learner.module_
    return torch.cat([v.detach().reshape(-1).double() for v in module.state_dict().values()])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"label": "other"}, r"another label \(other instead of label\)"),
        ({"features": ["b", "a", "c"]}, "another features"),
        ({"batch_size": 15}, r"batch_size \(15 instead of 16\)"),
        ({"seed": 4}, r"seed \(4 instead of 3\)"),
        ({"shuffle": False}, "shuffle"),
        ({"num_classes": 7}, "num_classes"),
        ({"dtype": np.float64}, "dtype"),
        ({"encode": np.asarray}, "encode"),
    ],
)
def test_other_batches_are_refused(data, tmp_path, options, says):
    file = tmp_path / "c.safetensors"
    fit_stream(learner_of(), source_of(data), checkpoint=file)
    with pytest.raises(ValueError, match=f"checkpoint: expected the run .* {says}.*; .* delete this one"):
        fit_stream(learner_of(), source_of(data, **options), checkpoint=file)


@pytest.mark.parametrize("change", ["time", "size", "name", "more"])
def test_other_files_are_refused(data, tmp_path, change):
    file = tmp_path / "c.safetensors"
    part = data / "p.parquet"
    fit_stream(learner_of(), source_of(data), checkpoint=file)
    if change == "time":
        os.utime(part, ns=(0, 10**18))
    elif change == "size":
        then = part.stat().st_mtime_ns
        write(part, seed=1)
        part.write_bytes(part.read_bytes())
        os.utime(part, ns=(then + 5, then + 5))
    elif change == "name":
        part.rename(data / "q.parquet")
    else:
        write(data / "q.parquet")
    with pytest.raises(ValueError, match=r"checkpoint: .*got another .*files \([pq]\.parquet"):
        fit_stream(learner_of(), source_of(data), checkpoint=file)


def test_the_folder_may_move(data, tmp_path):
    file = tmp_path / "c.safetensors"
    unbroken = learner_of()
    fit_stream(unbroken, source_of(data), epochs=2)
    fit_stream(learner_of(), source_of(data), checkpoint=file)
    data.rename(tmp_path / "moved")
    learner, seen = learner_of(), []
    source = source_of(tmp_path / "moved")
    fit_stream(learner, source, epochs=2, checkpoint=file, progress=lambda at: seen.append(at.rows))
    assert min(seen) > ROWS  # the first epoch is not done again
    assert torch.equal(weights(learner), weights(unbroken))


class Tied(nn.Module):
    """Two layers that share a weight."""

    def __init__(self):
        super().__init__()
        self.one, self.two, self.out = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, K)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.out(self.two(torch.relu(self.one(x))))


OTHER_LEARNERS = {
    "module": {"module": lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, K))},
    "module ": {"module": lambda: nn.Linear(3, K, bias=False)},
    "optimizer": {"optimizer": lambda p: torch.optim.SGD(p, lr=0.02)},
    "optimizer ": {"optimizer": lambda p: torch.optim.Adam(p, lr=0.03)},
    "loss": {"loss": tp.BackwardLoss(tp.complementary(K))},
    "loss ": {"loss": tp.ForwardLoss(tp.symmetric_noise(K, 0.3))},
    "standardise": {"standardise": (np.zeros(3), np.full(3, 2.0))},
}


@pytest.mark.parametrize("what", OTHER_LEARNERS)
def test_another_learner_is_refused(data, tmp_path, what):
    file = tmp_path / "c.safetensors"
    fit_stream(learner_of(), source_of(data), checkpoint=file)
    with pytest.raises(ValueError, match=f"checkpoint: .*got another learner's {what.strip()}.*delete this one"):
        fit_stream(learner_of(**OTHER_LEARNERS[what]), source_of(data), checkpoint=file)


def test_another_setting_of_a_layer_is_refused(data, tmp_path):
    file = tmp_path / "c.safetensors"

    def dropping(p):
        return learner_of(lambda: nn.Sequential(nn.Linear(3, K), nn.Dropout(p)))

    fit_stream(dropping(0.1), source_of(data), checkpoint=file)
    with pytest.raises(ValueError, match=r"checkpoint: .*got another learner's module \(layers\)"):
        fit_stream(dropping(0.2), source_of(data), checkpoint=file)
    fit_stream(dropping(0.1), source_of(data), epochs=2, checkpoint=file)


class Shouting:
    """A way to encode labels that is an object, with a text of its own."""

    def __init__(self, offset):
        self.offset, self._calls = offset, 0

    def __call__(self, labels):
        return np.asarray(labels) - self.offset

    def __repr__(self):
        raise AssertionError("nobody has to look at this")


def test_objects_are_known_by_their_settings_and_not_by_their_text(data, tmp_path):
    file = tmp_path / "c.safetensors"
    fit_stream(learner_of(), source_of(data, encode=Shouting(0)), checkpoint=file)
    fit_stream(learner_of(), source_of(data, encode=Shouting(0)), epochs=2, checkpoint=file)
    with pytest.raises(ValueError, match=r"checkpoint: .*got another encode \(offset\)"):
        fit_stream(learner_of(), source_of(data, encode=Shouting(1)), epochs=2, checkpoint=file)


@pytest.mark.parametrize(
    "options",
    [
        {"transition": tp.symmetric_noise(K, 0.2)},
        {"loss": "gls"},
        {"potential": tp.Tsallis(1.2)},
        {"model": "mlp"},
        {"l2": 0.1},
        {"learning_rate": 0.1},
        {"batch_size": 4},
        {"random_state": 1},
        {"classes": ["p", "q", "r", "s"]},
    ],
)
def test_another_classifier_is_refused(data, tmp_path, options):
    file = tmp_path / "c.safetensors"
    fit_stream(classifier_of(), source_of(data), checkpoint=file)
    with pytest.raises(ValueError, match=f"checkpoint: .*got another learner's {next(iter(options))}"):
        fit_stream(classifier_of(**options), source_of(data), checkpoint=file)


def test_fewer_features_and_a_foreign_state_are_one_sentence(data, tmp_path):
    file = tmp_path / "c.safetensors"
    fit_stream(classifier_of(), source_of(data), checkpoint=file)
    with pytest.raises(ValueError, match="another features"):
        fit_stream(classifier_of(), source_of(data, features=["a", "b"]), checkpoint=file)

    def batches(d):  # of batches that the caller makes, the width is found out by the weights
        return [(np.ones((4, d)), np.arange(4))]

    file.unlink()
    fit_stream(
        classifier_of(model=lambda d, k: nn.Sequential(nn.Dropout(0.1), nn.Linear(d, k))), batches(3), checkpoint=file
    )
    with pytest.raises(ValueError, match="its module has other layers"):
        fit_stream(
            classifier_of(model=lambda d, k: nn.Sequential(nn.Dropout(0.2), nn.Linear(d, k))),
            batches(3),
            checkpoint=file,
        )
    file.unlink()
    fit_stream(classifier_of(), batches(3), checkpoint=file)
    with pytest.raises(ValueError, match=r"checkpoint: expected the run .* a learner that its state does not fit"):
        fit_stream(classifier_of(), batches(2), checkpoint=file)


@pytest.mark.parametrize("make", [learner_of, classifier_of])
def test_more_epochs_go_on_and_fewer_are_refused(data, tmp_path, make):
    file = tmp_path / "c.safetensors"
    whole = fit_stream(make(), source_of(data), epochs=3)
    fit_stream(make(), source_of(data), epochs=1, checkpoint=file)
    assert torch.equal(weights(fit_stream(make(), source_of(data), epochs=3, checkpoint=file)), weights(whole))
    with pytest.raises(ValueError, match=r"fewer epochs \(2, of which it has begun 3\)"):
        fit_stream(make(), source_of(data), epochs=2, checkpoint=file)


@pytest.mark.parametrize(
    "options",
    [
        {"loss": "gls"},
        {"loss": "ga"},
        {"loss": "backward", "potential": tp.Tsallis(1.2)},
        {"loss": lambda T: tp.BackwardLoss(T, squeeze=(0.5, 2))},
        {"loss": tp.ForwardLoss(tp.complementary(K)), "transition": None},
        {"transition": np.full((K, K), 0.1) + 0.6 * np.eye(K), "loss": "gls", "reconstruction": "min_variance"},
    ],
)
def test_every_kind_of_loss_goes_on(data, tmp_path, options):
    file = tmp_path / "c.safetensors"
    whole = fit_stream(classifier_of(**options), source_of(data), epochs=2)
    fit_stream(classifier_of(**options), source_of(data), epochs=1, checkpoint=file)
    resumed = fit_stream(classifier_of(**options), source_of(data), epochs=2, checkpoint=file)
    assert torch.equal(weights(resumed), weights(whole))


def test_other_classifiers_have_nothing_to_put_aside(data, tmp_path):
    from sklearn.linear_model import SGDClassifier

    classes = np.arange(K)
    fit_stream(SGDClassifier(loss="log_loss"), source_of(data), classes=classes)
    with refused("checkpoint"):
        fit_stream(
            SGDClassifier(loss="log_loss"), source_of(data), classes=classes, checkpoint=tmp_path / "c.safetensors"
        )


class Interrupting(nn.Module):
    """Ctrl-C in the middle of a batch, at a forward pass of a given number."""

    def __init__(self, d, k, signal_at=None, times=1):
        super().__init__()
        self.layer, self.calls, self.signal_at, self.times = nn.Linear(d, k), 0, signal_at, times

    def forward(self, x):
        self.calls += 1
        if self.calls == self.signal_at:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)
        return self.layer(x)


def model(d, k):
    return Interrupting(d, k)


def broken_model(d, k):
    return Interrupting(d, k, signal_at=13)  # there are two steps a batch


model.__qualname__ = broken_model.__qualname__ = "model"  # the same model, but for the interruption


class LateSignal(torch.optim.Adam):
    """Ctrl-C after the weights have changed, and before the batch is counted."""

    steps = 0

    def step(self, closure=None):
        super().step(closure)
        self.steps += 1
        if self.steps == 5:
            signal.raise_signal(signal.SIGINT)


def test_control_c_inside_a_batch_waits_for_its_end(data, tmp_path):
    LateSignal.__qualname__ = "Adam"
    file = tmp_path / "c.safetensors"
    whole = fit_stream(learner_of(), source_of(data), epochs=2)
    before = signal.getsignal(signal.SIGINT)
    seen = []
    with pytest.raises(KeyboardInterrupt):
        fit_stream(
            learner_of(optimizer=lambda p: LateSignal(p, lr=0.02)),
            source_of(data),
            epochs=2,
            checkpoint=file,
            progress=lambda at: seen.append(at.rows),
        )
    assert len(seen) == 4
    assert signal.getsignal(signal.SIGINT) is before
    rows = []
    resumed = fit_stream(
        learner_of(), source_of(data), epochs=2, checkpoint=file, progress=lambda at: rows.append(at.rows)
    )
    assert rows[0] == 6 * 16  # five batches were done and are not done again
    assert torch.equal(weights(resumed), weights(whole))


def test_control_c_inside_a_classifiers_batch(data, tmp_path):
    file = tmp_path / "c.safetensors"
    whole = fit_stream(classifier_of(model=model), source_of(data), epochs=2)
    with pytest.raises(KeyboardInterrupt):
        fit_stream(classifier_of(model=broken_model), source_of(data), epochs=2, checkpoint=file)
    resumed = fit_stream(classifier_of(model=model), source_of(data), epochs=2, checkpoint=file)
    assert torch.equal(weights(resumed), weights(whole))


def test_half_a_batch_is_never_kept(data, tmp_path):
    """The second Ctrl-C stops at once, as any error does; the checkpoint stays that of the last whole batch."""
    file = tmp_path / "c.safetensors"
    whole = fit_stream(classifier_of(model=model), source_of(data), epochs=2)
    twice = classifier_of(model=lambda d, k: Interrupting(d, k, signal_at=13, times=2))
    with pytest.raises(KeyboardInterrupt):
        fit_stream(twice, source_of(data), epochs=2, checkpoint=file)
    assert not file.exists()
    fit_stream(classifier_of(model=model), source_of(data), epochs=1, checkpoint=file)
    kept = file.read_bytes()
    broken = classifier_of(model=model)

    def fail(X, y, classes=None, real=broken.partial_fit):
        real(X, y, classes)
        if broken.n_iter_ > 9:  # the weights have changed, and the batch is not counted
            raise RuntimeError("in the middle")

    broken.partial_fit = fail
    with pytest.raises(RuntimeError, match="in the middle"):
        fit_stream(broken, source_of(data), epochs=2, checkpoint=file)
    assert file.read_bytes() == kept
    resumed = fit_stream(classifier_of(model=model), source_of(data), epochs=2, checkpoint=file)
    assert torch.equal(weights(resumed), weights(whole))


def dropped():
    return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, K))


@pytest.mark.parametrize("module", [dropped, Tied])
def test_dropout_and_tied_weights_resume(data, tmp_path, module):
    file = tmp_path / "c.safetensors"
    whole = fit_stream(learner_of(module), source_of(data), epochs=2)

    class Stop(Exception):
        pass

    def stop(at):
        if at.rows >= 80:
            raise Stop

    with pytest.raises(Stop):
        fit_stream(learner_of(module), source_of(data), epochs=2, checkpoint=file, progress=stop)
    torch.manual_seed(99)
    resumed = fit_stream(learner_of(module), source_of(data), epochs=2, checkpoint=file)
    assert torch.equal(weights(resumed), weights(whole))
    if module is Tied:
        assert resumed.module.one.weight is resumed.module.two.weight


@pytest.mark.parametrize("make", [learner_of, classifier_of])
def test_a_generator_resumes(data, tmp_path, make):
    file = tmp_path / "c.safetensors"
    given = list(source_of(data).batches(0))
    whole = fit_stream(make(), iter(given))

    class Stop(Exception):
        pass

    def stop(at):
        if at.batches == 3:
            raise Stop

    with pytest.raises(Stop):
        fit_stream(make(), (b for b in given), checkpoint=file, progress=stop)
    kept = file.read_bytes()
    resumed = fit_stream(make(), (b for b in given), checkpoint=file)
    assert torch.equal(weights(resumed), weights(whole))
    file.write_bytes(kept)
    with refused("batches"):
        fit_stream(make(), iter(given[:2]), checkpoint=file)


def test_a_header_that_is_nested_too_deeply_is_one_sentence(tmp_path):
    from safetensors.torch import save_file

    from tproper.data.checkpoints import read_checkpoint

    save_file({"w": torch.zeros(1)}, tmp_path / "c.safetensors", metadata={"progress": "[" * 100_000})
    with refused("checkpoint"):
        read_checkpoint(tmp_path / "c.safetensors", {})
