"""JSON that every reader takes: one way to write numbers that are not finite."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import tproper as tp
from tproper._core.plain import finite_number, json_text, plain
from tproper.cli.main import app


def strict(text):
    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


LEAVES = st.floats() | st.text() | st.integers()
PLAIN = st.recursive(LEAVES, lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=20)


@given(PLAIN)
def test_what_is_written_is_json_and_loses_nothing_but_nan(value):
    def number(x):
        if isinstance(x, list):
            return [number(v) for v in x]
        if isinstance(x, dict):
            return {k: number(v) for k, v in x.items()}
        return None if isinstance(x, float) and math.isnan(x) else str(x) if x in (math.inf, -math.inf) else x

    assert strict(json_text(value)) == number(value)


def test_arrays_tuples_and_numpy_numbers():
    assert plain({"a": np.array([1.0, np.inf]), "b": (np.float64("nan"), np.int64(3)), "c": -np.float32("inf")}) == {
        "a": [1.0, "inf"],
        "b": [None, 3],
        "c": "-inf",
    }
    assert float("-inf") == float(plain(-math.inf))


@pytest.mark.parametrize("spec", ["coarse:0+1|2+3", "complementary:3", "pu:0.5"])
def test_inspect_writes_json_for_every_reader(spec):
    """The condition number of coarse labels is infinite."""
    strict(CliRunner().invoke(app, ["inspect", spec, "--json"]).stdout)


def test_what_calls_itself_plain_is():
    T = tp.coarse_labels([[0, 1], [2]])
    q = np.array([[1.0, 0.0, 0.0], [0.5, 0.3, 0.2]])
    assert T.diagnose().to_dict()["condition_number"] == "inf"
    score = tp.weak_log_loss([1, 1], q, tp.complementary(3))
    assert score.to_dict()["value"] == "inf"
    for part in (T.diagnose(), tp.certify(tp.ForwardLoss(T)), tp.certify(tp.BackwardLoss(tp.complementary(3))), score):
        json.dumps(part.to_dict(), allow_nan=False)


@pytest.mark.parametrize("value", [0, -3, 2**63, 1.5, 10**308, -(10**300)])
def test_numbers_that_a_float_holds(value):
    assert finite_number(value)


@pytest.mark.parametrize("value", [True, False, None, "1", [1], 10**400, -(10**400), math.inf, -math.inf, math.nan])
def test_what_json_holds_and_a_float_does_not(value):
    assert not finite_number(value)
