"""Imports point one way, and `import tproper` brings the core alone."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "tproper"

# A file imports only from files above it.
CORE = [
    "_checks", "_numerics", "_passes", "_sets", "transitions", "structured", "families", "reconstructions",
    "_newton", "_solvers", "potentials", "custom", "losses", "_probing", "certificates",
]  # fmt: skip
ABOVE_THE_CORE = [
    "_triton_kernels", "fused", "_scores", "metrics", "calibration", "monitor", "specs", "_labels", "_loss_specs",
    "_modules", "_fitting", "_search", "estimators", "selection", "saving", "_columns", "_sources", "_checkpoints",
    "streaming", "distributed", "estimation", "plots", "lab", "tabular", "commands", "cli",
]  # fmt: skip
ORDER = CORE + ABOVE_THE_CORE
FILES = sorted(p.stem for p in PACKAGE.glob("*.py") if not p.stem.startswith("__"))
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


@pytest.mark.parametrize("name", FILES)
def test_imports_point_upwards(name):
    assert name in ORDER, "a new file needs a place in the order"
    modules = local_imports(PACKAGE / f"{name}.py") - {"__version__", "tproper"}
    assert modules <= set(ORDER[: ORDER.index(name)])


@pytest.mark.parametrize("name", CORE)
def test_the_core_needs_torch_numpy_and_scipy_alone(name):
    assert foreign_imports(PACKAGE / f"{name}.py") <= LIGHT


@pytest.mark.parametrize("name", FILES)
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
