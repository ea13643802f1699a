"""Imports point one way, and `import tproper` brings the core alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "tproper"

# A file of the core imports only from files above it.
CORE = [
    "_checks",
    "_numerics",
    "_passes",
    "transitions",
    "structured",
    "families",
    "reconstructions",
    "_newton",
    "_solvers",
    "potentials",
    "custom",
    "losses",
    "_probing",
    "certificates",
]
# Outside the core, packages by depth: nothing above may import from below.
LAYERS = [["metrics", "monitor", "saving"], ["estimators"], ["selection"], ["plots"], ["tabular"], ["cli"]]
LIGHT = {"torch", "numpy", "scipy", "__future__"}


def local_imports(path: Path) -> set[str]:
    """Names of the package's own modules that a file imports, at the top or inside functions."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {a.name for a in node.names} if node.module is None else {node.module.split(".")[0]}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("tproper"):
            found.add((node.module or "").removeprefix("tproper").lstrip(".").split(".")[0] or "tproper")
    return found


def foreign_imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {a.name.split(".")[0] for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add((node.module or "").split(".")[0])
    return {n for n in names if n not in sys.stdlib_module_names}


@pytest.mark.parametrize("name", CORE)
def test_the_core_imports_upwards_only(name):
    above = set(CORE[: CORE.index(name)])
    assert local_imports(PACKAGE / f"{name}.py") <= above


@pytest.mark.parametrize("name", CORE)
def test_the_core_needs_torch_numpy_and_scipy_alone(name):
    assert foreign_imports(PACKAGE / f"{name}.py") <= LIGHT


def test_upper_layers_do_not_import_lower_ones():
    for i, layer in enumerate(LAYERS):
        below = {n for later in LAYERS[i + 1 :] for n in later}
        for name in layer:
            path = PACKAGE / f"{name}.py"
            if path.exists():
                assert not local_imports(path) & below, name


def test_nothing_imports_the_command_line():
    for path in PACKAGE.glob("*.py"):
        if path.stem not in ("cli", "__main__"):
            assert "cli" not in local_imports(path), path.name


@pytest.mark.parametrize("name", CORE)
def test_files_stay_small(name):
    assert len((PACKAGE / f"{name}.py").read_text().splitlines()) <= 500


def test_import_brings_nothing_heavy():
    heavy = "sklearn pandas matplotlib typer rich pooch pyarrow ray scipy safetensors"
    code = f"import sys, tproper; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


def test_every_public_name_exists():
    import tproper as tp

    for name in tp.__all__:
        assert getattr(tp, name) is not None
