"""The examples run, and do what their first lines say."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

FOLDER = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"examples_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_transition_is_learned_with_the_model() -> None:
    example = load("learned_transition")
    accuracy, T, truth = example.main(epochs=15)
    assert accuracy > 0.85
    near_identity = np.full((10, 10), 1 / (np.e**4 + 9)) + np.eye(10) * (np.e**4 - 1) / (np.e**4 + 9)
    before, after = (np.abs(M - truth).sum(axis=0).mean() for M in (near_identity, T))
    assert after < 0.6 * before
    assert np.allclose(T.sum(axis=0), 1, atol=1e-5)


def test_hugging_face_trainer_takes_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    test, p = load("huggingface_trainer").main()
    assert (p.argmax(1) == test.classes).mean() > 0.75  # from "not this class" alone; chance is .25
    assert "accuracy" in capsys.readouterr().out
