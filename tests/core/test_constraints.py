"""constraints.txt pins what pyproject's dependencies and extras need, and nothing else."""

import ast
import importlib.util
import sys
from importlib import metadata
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "constraints.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("constraints", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def as_pinned(tool):
    """Whether this environment was installed from the file: what packages need depends on their versions."""
    for name, line in tool.pinned().items():
        try:
            if metadata.version(name).partition("+")[0] != line.partition("==")[2]:
                return False
        except metadata.PackageNotFoundError:
            return False
    return True


def test_every_pin_is_needed_and_everything_needed_is_pinned(tool):
    if sys.version_info[:2] != (3, 11) or not as_pinned(tool):
        pytest.skip("the pins are those of Python 3.11, and this environment was not installed from them")
    needed, pinned = tool.needed(tool.declared()), set(tool.pinned())
    assert (needed - pinned, pinned - needed) == (set(), set()), "`make constraints` writes the file anew"


def test_needs_are_followed_through_others_and_through_extras(tool):
    names = tool.needed(["rich"])
    assert {"rich", "pygments"} <= names
    assert "numpy" not in names
    with pytest.raises(ValueError, match="got no left-pad"):
        tool.needed(["left-pad"])


#: Modules whose package has another name.
PACKAGES = {"sklearn": "scikit-learn", "markdown_it": "markdown-it-py"}


def test_what_the_package_imports_is_declared(tool):
    """What comes only through another package is gone with that one's next version."""
    from packaging.requirements import Requirement

    imported = set()
    root = TOOL.parents[1]
    for path in [*(root / "src" / "tproper").rglob("*.py"), *(root / "lab" / "src" / "tproper_lab").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(str(node.module).partition(".")[0])
    others = imported - set(sys.stdlib_module_names) - {"tproper", "tproper_lab"}
    declared = {Requirement(line).name for line in tool.declared()}
    assert {PACKAGES.get(name, name) for name in others} - declared == set()
