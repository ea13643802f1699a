"""The command answers at once: nothing heavy is imported before a command works."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

import tproper as tp
from tproper.cli import main
from tproper.cli.main import COMMANDS, LAB, app, load_command

HEAVY = {"torch", "numpy", "scipy", "sklearn", "pandas", "pyarrow", "matplotlib"}
CODE = """
import sys
from tproper.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    print("ended", end.code)
print("loaded", *sorted(set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--help"], 0, "simulate"),
        (["--version"], 0, tp.__version__),
        (["nonsense"], 2, "nonsense"),
        (["train", "--help"], 0, "--transition"),
        (["train", "data.csv", "--bogus"], 2, "--bogus"),
        (["train", "data.csv", "--label", "y"], 2, "--transition"),
        (["train", "d.csv", "--label", "y", "--transition", "pu:.5", "--out", "m", "--loss", "best"], 2, "--loss"),
    ],
    ids=str,
)
def test_help_and_mistakes_load_nothing_heavy(arguments: list[str], code: int, says: str) -> None:
    out = subprocess.run([sys.executable, "-c", CODE, *arguments], capture_output=True, text=True, check=True)
    *_, ended, loaded = out.stdout.splitlines()
    assert ended == f"ended {code}"
    assert says.lower() in (out.stdout + out.stderr).lower()
    assert not HEAVY & {name.split(".")[0] for name in loaded.split()}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_tells_what_each_says_itself(name: str) -> None:
    assert load_command(name).help.splitlines()[0] == COMMANDS[name][1]


@pytest.mark.parametrize("name", LAB)
@pytest.mark.parametrize("rest", [[], ["--help"], ["fig1", "--out", "x"]], ids=str)
def test_without_the_lab_its_commands_say_what_to_install(
    name: str, rest: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main_file = importlib.import_module("tproper.cli.main")
    others = {k: v for k, v in main_file._others().items() if k not in LAB}
    monkeypatch.setattr(main_file, "_others", lambda: others)
    told = CliRunner().invoke(app, [name, *rest])
    assert told.exit_code == 2
    assert told.stderr.startswith(f"error: {name} is a command of tproper-lab, which is not installed: pip install ")
    assert "(pip install tproper-lab)" in " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())


def test_a_command_that_cannot_be_imported_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that of a lab of another version is."""
    point = EntryPoint("bench", "no_such_module:bench", "tproper.commands")
    monkeypatch.setattr(importlib.import_module("tproper.cli.main"), "_others", lambda: {"bench": point})
    told = CliRunner().invoke(app, ["bench", "--help"])
    assert told.exit_code == 2
    assert told.stderr == "error: bench: No module named 'no_such_module'\n"


def test_a_package_of_rooms_is_reached_without_imports_of_its_own() -> None:
    code = (
        "import tproper as tp, sys; assert 'torch' not in sys.modules; print(tp.identity(2), tp.transitions.__name__)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split()[-1] == "tproper.transitions"
    assert set(tp.__all__) <= set(dir(tp))
    with pytest.raises(AttributeError, match="module 'tproper' has no attribute 'nothing'"):
        _ = tp.nothing
    assert callable(main)


def test_tables_and_simulated_labels_do_without_scikit_learn() -> None:
    code = (
        "import sys, tproper.data, tproper.tables.streaming\nprint({'sklearn', 'scipy', 'pyarrow'} & set(sys.modules))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["set()"]


def test_a_loss_can_be_certified_whatever_was_imported_before() -> None:
    imports = "from tproper.losses import ForwardLoss; from tproper.transitions import identity"
    code = f"{imports}; print(ForwardLoss(identity(2)).certify().proper)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True"]


def test_help_needs_no_letters_beyond_ascii() -> None:
    """Rich cuts cells with an ellipsis where the terminal is narrow. One process, whose streams know ASCII alone."""
    code = (
        "import sys\nfrom tproper.cli import main\n"
        "for name in sys.argv[1:]:\n"
        "    sys.argv = ['tproper', *filter(None, [name]), '--help']\n"
        "    try:\n        main()\n"
        "    except SystemExit as end:\n        print('ended', name, end.code)"
    )
    plain = os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C", "COLUMNS": "40"}
    names = [*COMMANDS, ""]
    out = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, env=plain, check=False)
    assert (out.returncode, out.stderr) == (0, "")
    assert out.stdout.isascii()
    assert [line for line in out.stdout.splitlines() if line.startswith("ended ")] == [f"ended {n} 0" for n in names]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_waits_until_a_module_is_loaded(number, tmp_path):
    """An extension module that starts would abort the process, or take the exception for a failed import."""
    (tmp_path / "slow.py").write_text(
        f"import os, time\ntry:\n    os.kill(os.getpid(), {int(number)})\n    time.sleep(0.2)\n"
        "except BaseException:\n    print('met while loading')\nprint('loaded')\n"
    )
    code = (
        "import importlib, time\nmain = importlib.import_module('tproper.cli.main')\n"
        "def app():\n    import slow\n    time.sleep(30)\nmain.app = app\nmain.main()"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=25)
    assert run.stdout.split() == ["loaded"]
    assert "KeyboardInterrupt" in run.stderr if number == signal.SIGINT else run.returncode == 128 + number, run.stderr


def test_a_signal_that_c_code_drops_comes_again():
    """An exception in a callback that cannot raise, such as that of a weak reference, is printed and forgotten."""
    code = (
        "import importlib, os, time, weakref\nmain = importlib.import_module('tproper.cli.main')\n"
        "class Thing:\n    pass\n"
        "def dropped(_):\n    os.kill(os.getpid(), 15)\n    time.sleep(0.2)\n"
        "def app():\n    thing = Thing()\n    kept = weakref.ref(thing, dropped)\n    del thing\n    time.sleep(30)\n"
        "main.app = app\nmain.main()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=25)
    assert (run.returncode, run.stderr) == (143, "")
