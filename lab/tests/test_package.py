"""The lab as a package beside the library: public names alone, one version, commands that start at once."""

import ast
import importlib
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tproper
import tproper_lab
from tproper.cli.main import LAB, load_command
from tproper_lab import Protocol, paper
from tproper_lab.commands import reproduce

PACKAGE = Path(tproper_lab.__file__).parent
ROOT = Path(__file__).parents[2]


def project(folder):
    return tomllib.loads((folder / "pyproject.toml").read_text())["project"]


def test_both_packages_have_one_version():
    declared = {project(folder)["version"] for folder in (ROOT, ROOT / "lab")}
    assert declared == {tproper.__version__} == {tproper_lab.__version__}
    assert f"tproper[plots,tables]=={tproper.__version__}" in project(ROOT / "lab")["dependencies"]


def test_another_version_of_the_library_is_refused_with_the_line_that_installs_the_right_one():
    code = "import tproper; tproper.__version__ = '9.9'; import tproper_lab"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 1
    assert out.stderr.splitlines()[-1].startswith("ImportError: tproper-lab ")
    assert out.stderr.endswith("pip install tproper-lab==9.9\n")


def test_the_lab_is_made_of_public_names_of_the_library():
    """Names of the `__all__` of `tproper`, and of its packages and modules without an underscore."""
    private = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            module = node.module if isinstance(node, ast.ImportFrom) and not node.level else ""
            if (module or "").split(".")[0] != "tproper":
                continue
            parts = module.split(".")
            public = len(parts) < 3 and not any(part.startswith("_") for part in parts)
            names = {alias.name for alias in node.names}
            if module == "tproper":
                known = {*tproper.__all__, *tproper._ROOMS, "__version__"}
            else:
                known = getattr(importlib.import_module(module), "__all__", {"InputError"}) if public else ()
            private += [f"{path.name}: {name} of {module}" for name in sorted(names - set(known))]
    assert private == []


@pytest.mark.parametrize("name", LAB)
def test_the_list_of_commands_tells_what_each_says_itself(name):
    assert load_command(name).help.splitlines()[0] == LAB[name]


def test_defaults_of_the_command_are_the_paper_s():
    assert reproduce.TRIALS == paper.TRIALS
    assert Protocol().max_epochs == reproduce.MAX_EPOCHS


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["reproduce", "table9"], 2, "table9"),
        (["bench", "--help"], 0, "--method-file"),
        (["report"], 2, "run"),
    ],
    ids=str,
)
def test_help_and_mistakes_load_nothing_heavy(arguments, code, says):
    program = """
import sys
from tproper.cli.main import app
try:
    app(sys.argv[1:])
except SystemExit as end:
    print("ended", end.code)
print("loaded", *sorted({name.split(".")[0] for name in sys.modules}))
"""
    out = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    *_, ended, loaded = out.stdout.splitlines()
    assert ended == f"ended {code}"
    assert says in out.stdout + out.stderr
    assert not {"torch", "numpy", "scipy", "sklearn", "pandas", "matplotlib"} & set(loaded.split())


def test_every_public_name_exists():
    for name in tproper_lab.__all__:
        assert getattr(tproper_lab, name) is not None
    with pytest.raises(AttributeError, match="module 'tproper_lab' has no attribute 'nothing'"):
        _ = tproper_lab.nothing
