"""Rooms: imports point one way, rooms speak through their `__init__`, and `import tproper` brings the core alone."""

import ast
import functools
import importlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "tproper"

# A room imports only from rooms before it.
ROOMS = [
    "_core", "transitions", "potentials", "losses", "certificates", "metrics", "solvers", "estimation", "data",
    "inputs", "learn", "plots", "evaluation", "tables", "cli",
]  # fmt: skip
CORE = ROOMS[: ROOMS.index("metrics") + 1]
LIGHT = {"torch", "numpy", "scipy", "__future__"}
# Loaded only when they are needed, because they are slow to import or come with an extra.
LATE = {
    "scipy", "sklearn", "matplotlib", "mpltern", "pandas", "polars", "pyarrow", "pooch", "ray", "requests", "rich",
    "safetensors", "tensorboard", "triton", "typer", "joblib", "markdown_it", "onnx", "onnxruntime", "lightgbm",
}  # fmt: skip
FILES = sorted(p.relative_to(PACKAGE) for room in ROOMS for p in (PACKAGE / room).rglob("*.py"))


def room_of(path: Path) -> str:
    return path.parts[0]


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse((PACKAGE / path).read_text())


@functools.cache
def imports(path: Path) -> list[tuple[ast.stmt, str, str | None, bool]]:
    """(statement, absolute module, imported name, inside a function) of every import in a file."""
    package = ("tproper", *path.parts[:-1])
    out: list[tuple[ast.stmt, str, str | None, bool]] = []
    open_nodes: list[tuple[ast.AST, bool]] = [(parsed(path), False)]
    while open_nodes:
        parent, inside = open_nodes.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Import):
                out += [(node, a.name, None, inside) for a in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = package[: len(package) - node.level + 1] if node.level else ()
                module = ".".join([*base, *([node.module] if node.module else [])])
                out += [(node, module, a.name, inside) for a in node.names]
            elif not isinstance(node, ast.expr):  # no expression holds an import
                open_nodes.append((node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))))
    return out


def own(path: Path) -> list[tuple[list[str], str | None, bool]]:
    """Imports of tproper's own modules: the path below `tproper`, the name, inside a function."""
    return [
        (module.split(".")[1:], name, inside)
        for _, module, name, inside in imports(path)
        if module.split(".")[0] == "tproper"
    ]


def faults_by_file(faults: Callable[[Path], Iterable[object]], paths: list[Path] = FILES) -> dict[str, list[object]]:
    """What a rule finds in the files, by file; nothing where all obey it."""
    return {str(path): found for path in paths if (found := list(faults(path)))}


def test_rooms_import_from_rooms_above_them_alone():
    def faults(path):
        allowed = [*ROOMS[: ROOMS.index(room_of(path)) + 1], "__version__", "_later", "errors"]
        targets = [parts[0] if parts else name for parts, name, _ in own(path)]
        return [str(target or "tproper itself") for target in targets if target not in allowed]

    assert faults_by_file(faults) == {}


def test_rooms_speak_through_what_they_export():
    """Across rooms only names of the other room's `__all__` are imported, and from the room itself."""

    def faults(path):
        return [
            f"{name} of {'.'.join(parts)}"
            for parts, name, _ in own(path)
            if parts
            and parts[0] not in (room_of(path), "_later", "errors")
            and (len(parts) > 1 or name not in exported(parts[0]))
        ]

    assert faults_by_file(faults) == {}


def test_rooms_that_are_imported_whole_are_asked_for_what_they_export():
    """After ``from .. import plots``, every ``plots.name`` is a name of its `__all__`."""

    def faults(path):
        whole = {name for parts, name, _ in own(path) if not parts and name in ROOMS}
        attributes = (node for node in ast.walk(parsed(path)) if isinstance(node, ast.Attribute))
        asked = {(a.value.id, a.attr) for a in attributes if isinstance(a.value, ast.Name) and a.value.id in whole}
        return sorted(f"{room}.{name}" for room, name in asked if name not in exported(room))

    assert faults_by_file(faults) == {}


@functools.cache
def exported(room: str) -> set[str]:
    for node in parsed(Path(room, "__init__.py")).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return set(ast.literal_eval(node.value))
    return set()


# Questions about the type of a transition that are still asked: to be taken away, never to be added to.
TYPES_STILL_ASKED_FOR: dict[str, int] = {}


def test_no_room_but_its_own_asks_for_the_type_of_a_transition():
    """Structures are asked what they do: one that nobody here has seen must do everything."""
    transitions = importlib.import_module("tproper.transitions")
    bases = (transitions.Transition, transitions.Reconstruction)
    kinds = {
        name
        for name in transitions.__all__
        if isinstance(kind := getattr(transitions, name), type) and issubclass(kind, bases) and kind not in bases
    }
    assert len(kinds) > 10

    def asked(node):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "issubclass"):
            return node.args[1:]
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            of_types = any(isinstance(s, ast.Call) and getattr(s.func, "id", "") == "type" for s in sides)
            return sides if of_types else []
        return [node.cls] if isinstance(node, ast.MatchClass) else []

    def faults(path):
        names = (n for node in ast.walk(parsed(path)) for part in asked(node) for n in ast.walk(part))
        return [n for n in names if (getattr(n, "id", None) or getattr(n, "attr", None)) in kinds]

    found = {str(p): len(faults(p)) for p in FILES if room_of(p) != "transitions" and faults(p)}
    assert found == TYPES_STILL_ASKED_FOR


# What a transition or its labels say of their own kind, for people who look: code asks for what it wants to know.
KIND_FLAGS = {
    "per_class_labels", "label_kind", "_label_form", "_label_kind", "_labels_are_sets",
}  # fmt: skip


def test_no_room_but_its_own_reads_the_kind_of_a_label():
    transitions = importlib.import_module("tproper.transitions")
    kinds = {kind.kind for kind in vars(transitions.labels)["KINDS"].values()} | set(vars(transitions.labels)["KINDS"])
    assert set(dir(transitions.DenseTransition)) >= KIND_FLAGS
    assert {"masks", "answers", "positive/unlabeled"} <= kinds

    def faults(path):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and node.attr in KIND_FLAGS:
                yield node.attr
            if isinstance(node, ast.Compare):  # space.kind == "masks"
                sides = [node.left, *node.comparators]
                asked = any(isinstance(s, ast.Attribute) and s.attr == "kind" for s in sides)
                if asked and any(isinstance(s, ast.Constant) and s.value in kinds for s in sides):
                    yield ast.unparse(node)

    assert faults_by_file(faults, [p for p in FILES if room_of(p) != "transitions"]) == {}


def test_a_score_is_made_in_one_place():
    """Labels, weights and groups are read by `read_sample`, and rows become a mean in `mean_of`: so that whatever is
    known of rows reaches every score. A `Sample` and an `Estimate` are finished when they are made."""
    metrics = importlib.import_module("tproper.metrics")
    homes = {"Sample": Path("metrics", "sample.py"), "Estimate": Path("metrics", "statistics.py")}
    for name in homes:
        assert getattr(metrics, name).__dataclass_params__.frozen

    def faults(path):
        tree = parsed(path)
        own = (
            {node.name for node in tree.body if isinstance(node, ast.ClassDef)} if path not in homes.values() else set()
        )
        for node in ast.walk(tree):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if name in homes and name not in own and path != homes[name]:
                yield f"{name}(...) at line {node.lineno}"

    assert faults_by_file(faults) == {}


def test_an_estimator_is_changed_by_itself_alone():
    """What other files of `learn` fit or load, they hand back; the estimator makes it its attributes."""

    def targets(node):
        if isinstance(node, ast.Assign):
            return node.targets
        return [node.target] if isinstance(node, (ast.AugAssign, ast.AnnAssign)) else []

    def faults(path):
        nodes = list(ast.walk(parsed(path)))
        parts = [n for node in nodes for target in targets(node) for n in ast.walk(target)]
        own = [n for n in parts if isinstance(n, ast.Attribute) and "_" in (n.attr[0], n.attr[-1])]
        calls = [n for n in nodes if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "setattr"]
        owners = [(n, n.value) for n in own] + [(n, n.args[0]) for n in calls]
        return [ast.unparse(n) for n, owner in owners if getattr(owner, "id", "") != "self"]

    assert faults_by_file(faults, [p for p in FILES if room_of(p) == "learn"]) == {}


def test_imports_stand_at_the_top():
    def faults(path):
        return [module for _, module, _, inside in imports(path) if inside and module.split(".")[0] not in LATE]

    assert faults_by_file(faults) == {}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is(room):
    text = ast.get_docstring(parsed(Path(room, "__init__.py")))
    assert text is not None
    assert "mports" in text, "what it may import"


def test_the_core_needs_torch_numpy_and_scipy_alone():
    def faults(path):
        foreign = {module.split(".")[0] for _, module, _, _ in imports(path)} - {"tproper"}
        allowed = LIGHT | ({"triton"} if path.parts[:2] == ("losses", "kernels") else set())
        allowed |= {"safetensors"} if path == Path("_core/sealed.py") else set()  # the format of the files it seals
        return {n for n in foreign if n not in sys.stdlib_module_names} - allowed

    assert faults_by_file(faults, [p for p in FILES if room_of(p) in CORE]) == {}


def test_import_brings_nothing_heavy():
    heavy = "sklearn pandas matplotlib typer rich pooch pyarrow ray scipy safetensors"
    code = f"import sys, tproper; print(*[m for m in '{heavy}'.split() if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == []


def test_every_public_name_exists():
    import tproper as tp

    for name in tp.__all__:
        assert getattr(tp, name) is not None


def test_no_two_test_files_share_a_name():
    """pytest imports a test file by its name alone, unless its folder is a package."""
    root = PACKAGE.parents[1]
    files = [p for tests in ("tests", "lab/tests") for p in (root / tests).rglob("test_*.py")]
    names = [p.name for p in files if not (p.parent / "__init__.py").exists()]
    assert {n for n in names if names.count(n) > 1} == set()
