"""Every argument that a refusal of the library may name is, in a command that passes it, one of its options."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from outcomes import refused

import tproper as tp
from tproper.cli.errors import OPTIONS, option_of
from tproper.cli.main import COMMANDS, load_command

pytest.importorskip("pyarrow")

Run = Callable[..., Any]
PACKAGE = Path(tp.__file__).parent

# What each command calls, and the parameters of these that it does not pass: they keep their defaults.
ESTIMATES = {
    tp.estimate_transition: {"model", "sample_weight"},
    tp.estimate_annotators: {"start", "prior_counts", "progress"},
    tp.estimate_pu: {"scores"},
}
CALLS: dict[str, dict[Callable[..., Any], set[str]]] = {
    "inspect": {tp.parse_transition: {"num_classes"}, tp.inspect: set(), tp.Transition.reconstruction: {"prior"}},
    "estimate": {tp.estimate_table: set(), **ESTIMATES},
    "train": {
        tp.TableModel.fit: {"checkpoint"},
        tp.WeakLabelClassifier: {
            "potential", "reconstruction", "tol", "batch_size", "learning_rate", "hidden", "early_stopping",
            "validation_fraction", "patience", "max_leaves", "device", "warm_start", "verbose",
        },
        tp.WeakLabelClassifier.fit: {"sample_weight"},
        **ESTIMATES,
        tp.estimate_pu: {"scores", "sampling"},
        tp.estimate_transition: {"model", "sample_weight", "structure"},
    },
    "predict": {tp.TableModel.load: set(), tp.TableModel.predict_file: set()},
    "evaluate": {
        tp.TableModel.load: set(),
        tp.TableModel.evaluate: set(),
        tp.evaluate: {"probabilities", "groups"},
        tp.check_transition: {"probabilities", "groups", "tolerance", "random_state"},
    },
    "prevalence": {
        tp.prevalence_table: set(),
        tp.weak_prevalence: {"sample_weight"},
        tp.Prevalence.difference: set(),
    },
    "export": {tp.load: set(), tp.export_onnx: set(), tp.export_trees: set()},
    "simulate": {tp.simulate: set()},
    "demo": {},
    "doctor": {},
}  # fmt: skip


def function_of(command: str) -> Callable[..., Any]:
    callback = load_command(command).callback
    assert callback is not None
    return inspect.unwrap(callback, stop=lambda f: "annotated" in repr(get_type_hints(f, include_extras=True)).lower())


def options_of(command: str) -> set[str]:
    return {o for p in load_command(command).params for o in (*p.opts, *p.secondary_opts) if o.startswith("--")}


def refusals() -> Iterator[tuple[Path, str]]:
    """What stands before the first colon of every sentence that an `InputError` of the package is made with."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            made = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "InputError" and node.args
            if made and isinstance(first := node.args[0], (ast.Constant, ast.JoinedStr)):
                start = first.values[0] if isinstance(first, ast.JoinedStr) else first
                if isinstance(start, ast.Constant) and ":" in start.value:
                    yield path.relative_to(PACKAGE), start.value.partition(":")[0]


def test_every_command_is_looked_at() -> None:
    assert set(CALLS) == set(COMMANDS)


@pytest.mark.parametrize("command", CALLS)
def test_arguments_are_options(command: str) -> None:
    function = function_of(command)
    lost = {}
    for called, left in CALLS[command].items():
        parameters = inspect.signature(called).parameters.values()
        names = [p.name for p in parameters if p.name != "self" and p.kind is not p.VAR_KEYWORD]
        assert left <= set(names), "a parameter that is not there need not be left out"
        lost[called.__qualname__] = [n for n in names if n not in left and option_of(n, function) is None]
    assert lost == {name: [] for name in lost}


def test_options_that_sentences_name_exist() -> None:
    known = set().union(*(options_of(command) for command in COMMANDS))
    named = {(str(path), text) for path, text in refusals() if text.startswith("--")}
    assert len(named) > 20
    assert {(path, text) for path, text in named if text not in known} == set()


def test_the_table_of_names_has_no_entry_in_vain() -> None:
    functions = [function_of(command) for command in COMMANDS]
    every = {text for _, text in refusals()} | {
        name for calls in CALLS.values() for called in calls for name in inspect.signature(called).parameters
    }
    for argument, names in OPTIONS.items():
        assert argument in every
        for name in names:
            assert any(option_of(name, function) for function in functions), (argument, name)


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (
            ["prevalence", "weak.csv", "--label", "weak_label", "--transition", "complementary", "--difference", "x,y"],
            "--difference",
        ),
        (["predict", "nothing", "weak.csv"], "MODEL"),
        (["evaluate", "nothing", "weak.csv", "--label", "weak_label"], "MODEL"),
        (["export", "nothing", "--out", "new.onnx"], "MODEL"),
        (["inspect", "nothing:3"], "SPEC"),
        (["inspect", "nothing.csv"], "SPEC"),
        (["inspect", "symmetric:10,2"], "SPEC"),
        (["inspect", "complementary:3", "--reconstruction", "x"], "--reconstruction"),
        (["train", "weak.csv", "--label", "weak_label", "--transition", "symmetric:3", "--out", "new"], "--transition"),
        (["train", "weak.csv", "--label", "weak_label", "--transition", "nothing.npy", "--out", "new"], "--transition"),
        (
            ["estimate", "features", "weak.csv", "--label", "weak_label", "--classes", "ant", "--out", "new.json"],
            "--classes",
        ),
    ],
)  # fmt: skip
def test_a_refusal_names_the_option(
    arguments: list[str], option: str, workshop: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workshop)
    assert refused(run, *arguments).startswith(f"error: {option}: expected")
