"""The examples of other people's training loops run, learn, and stop when the monitor says so."""

import importlib
import sys
from pathlib import Path

import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from tproper.certificates.monitor import UnboundedLossWarning

FOLDER = Path(__file__).parents[2] / "examples" / "training_loops"


@pytest.fixture
def example(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))

    def load(name, needs):
        pytest.importorskip(needs)
        return importlib.import_module(name)

    yield load
    for name in ("plain_pytorch", "lightning_loop", "skorch_loop"):
        sys.modules.pop(name, None)


def clean_test_labels():
    X, z = load_digits(return_X_y=True)
    return train_test_split(X, z, random_state=0)[3]


LOOPS = [("plain_pytorch", "torch"), ("lightning_loop", "lightning"), ("skorch_loop", "skorch")]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("name", "needs"), LOOPS)
def test_forward_learns(example, capsys, name, needs):
    monitor, probabilities = example(name, needs).main(epochs=8)
    accuracy = (probabilities.argmax(1).numpy() == clean_test_labels()).mean()
    assert accuracy > 0.6  # from "not this digit" alone; chance is 0.1
    assert not monitor.alarm
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize(("name", "needs"), LOOPS)
def test_backward_is_stopped(example, name, needs):
    module = example(name, needs)
    with pytest.warns(UnboundedLossWarning):
        monitor, _ = module.main(epochs=15, loss_name="backward")
    assert monitor.alarm
    if name != "plain_pytorch":  # the callbacks end training
        assert len(monitor.history["value"]) < 15 * 22
