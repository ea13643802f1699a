"""Long work tells how far it has come, and an interrupt leaves nothing half-done."""

from __future__ import annotations

import numpy as np
import pytest

import tproper as tp
from tproper._core import Progress, lines_of


def blobs(n=300, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(3, size=n)
    return rng.normal(size=(n, 2)) + 3 * np.eye(3, 2)[z], tp.symmetric_noise(3, 0.2).sample(z, seed)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"calibrate": False},
        {"model": "mlp", "epochs": 4, "early_stopping": False},
        {"tune": {"l2": [1e-3, 1e-1]}},
    ],
)
def test_a_callable_is_told_from_nothing_to_everything(settings):
    told = []
    X, y = blobs()
    model = tp.WeakLabelClassifier("symmetric:0.2", verbose=told.append, random_state=0, **settings).fit(X, y)
    assert len(told) > 2
    assert told == sorted(told)
    assert 0 < told[0] < told[-1] <= 1
    assert told[-1] == 1 or "tune" in settings
    quiet = tp.WeakLabelClassifier("symmetric:0.2", random_state=0, **settings).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), quiet.predict_proba(X))


def test_calibration_tells_too():
    told = []
    X, y = blobs(400)
    scores = np.c_[X, np.zeros(len(X))]
    tp.calibrate(scores, y, "symmetric:0.2", progress=told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0


def test_lines_estimate_the_time_left(monkeypatch, caplog):
    now = [0.0]
    monkeypatch.setattr("tproper._core.progress.time.monotonic", lambda: now[0])
    said = []
    monkeypatch.setattr("tproper._core.progress.tell", lambda name, line, verbose: said.append(line))
    progress = Progress(1, "here")
    for second, share in enumerate([0.01, 0.02, 0.1, 0.2, 0.3, 0.25, 0.5]):
        now[0] = 2.0 * second
        progress(share)
    assert said == ["fit: 20% done, about 24 s left", "fit: 50% done, about 12 s left"]
    assert lines_of(print) == 0
    assert lines_of(True) == 1


def test_an_interrupt_leaves_the_classifier_as_it_was():
    X, y = blobs()
    model = tp.WeakLabelClassifier("symmetric:0.2").fit(X, y)
    before = model.predict_proba(X)

    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.set_params(verbose=stop).fit(X[:100] * 7, y[:100])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert not hasattr(tp.WeakLabelClassifier("symmetric:0.2"), "module_")


def test_an_interrupted_training_leaves_no_file(tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    from typer.testing import CliRunner

    from tproper.cli.main import app
    from tproper.data import Bar

    X, y = blobs()
    data = tmp_path / "t.csv"
    data.write_text("a,b,y\n" + "\n".join(f"{a},{b},c{k}" for (a, b), k in zip(X, y, strict=True)) + "\n")

    def stop(self, done=None, what=None, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(Bar, "at", stop)
    call = ["train", str(data), "--label", "y", "--transition", "symmetric:0.2", "--out", str(tmp_path / "m")]
    assert CliRunner().invoke(app, call).exit_code == 130
    assert [p.name for p in tmp_path.iterdir()] == ["t.csv"]
