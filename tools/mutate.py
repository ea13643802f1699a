"""Would the tests notice? Random small faults in the code, one at a time, and the tests that execute it.

    python tools/mutate.py --mutants 120 --seed 1 [--minutes 60] [--jobs 2] [--only src/tproper/metrics]

Copies of the tree are made under .mutate/, one for each job. One run of the suite finds which tests reach each chosen
place and pass; then every fault is put in by itself, and those tests run, the quickest first, until one fails. Printed
is the share that was killed, and each survivor as a difference of two lines: somebody has to judge whether it changes
anything. The results are kept in .mutate/results.jsonl, so that a run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import queue
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WORK = ROOT / ".mutate"
COPIED = ("src", "lab", "tests", "docs", "benchmarks", "examples", "tools", "changelog", ".github")
PROBE = '''"""Notes which test reaches which place."""
import os
SEEN = set()
def hit(number):
    test = (os.environ.get("MUTATE_TEST") or os.environ.get("PYTEST_CURRENT_TEST", "")).rpartition(" (")[0]
    if test and (number, test) not in SEEN:
        SEEN.add((number, test))
        with open(os.environ["MUTATE_HITS"], "a") as file:
            file.write(f"{number}\\t{test}\\n")
    return True
'''
ENOUGH = 90.0  # seconds of tests for one fault, the quickest of each file in turn
PASSED = re.compile(r"^\[gw\d+\] \[ *\d+%\] PASSED (.*?)\s*$")
SWAPS: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "argmin": "argmax", "argmax": "argmin"}


def faults(node: ast.AST) -> Iterator[ast.AST]:
    """The faulty copies of a node, by one change at its top."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        yield ast.Compare(node.left, [SWAPS[type(node.ops[0])](), *node.ops[1:]], node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(SWAPS[type(node.op)](), node.values)
    elif (
        isinstance(node, ast.BinOp)
        and type(node.op) in SWAPS
        and not isinstance(node.left, (ast.Constant, ast.JoinedStr))
    ):
        yield ast.BinOp(node.left, SWAPS[type(node.op)](), node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
        yield node.operand
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield ast.Constant(not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        yield ast.Constant(node.value + 1)
    elif isinstance(node, ast.Attribute) and node.attr in NAMES:
        yield ast.Attribute(node.value, NAMES[node.attr], node.ctx)
    elif isinstance(node, ast.Name) and node.id in NAMES:
        yield ast.Name(NAMES[node.id], node.ctx)


def compiled(node: ast.AST) -> bool:
    """Whether a function's source is compiled by Triton, which a probe would break."""
    return isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(d) for d in node.decorator_list)


class Places(ast.NodeVisitor):
    """(statement, node) of everything in a function that can be made faulty; annotations and messages are left out."""

    def __init__(self) -> None:
        self.found: list[tuple[int, int]] = []  # numbers of statement and node, in the order of ast.walk
        self.statements: list[ast.stmt] = []
        self.depth = 0

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.depth += 1
            for child in node.body:
                self.visit(child)
            self.depth -= 1
            return
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)):
            return
        if isinstance(node, ast.AnnAssign):
            if node.value is not None and self.depth:
                self.statements.append(node)
                self.visit(node.value)
                self.statements.pop()
            return
        inside = isinstance(node, ast.stmt)
        if inside:
            self.statements.append(node)  # type: ignore[arg-type]
        if self.depth and self.statements and next(faults(node), None) is not None:
            self.found.append((id(self.statements[-1]), id(node)))
        self.generic_visit(node)
        if inside:
            self.statements.pop()


def places(tree: ast.AST) -> list[tuple[int, int]]:
    """The places of a file as numbers of nodes, which two parses of it share."""
    number = {id(node): n for n, node in enumerate(ast.walk(tree))}
    visitor = Places()
    visitor.visit(tree)
    return [(number[statement], number[node]) for statement, node in visitor.found]


class Replace(ast.NodeTransformer):
    """One node for another, or a statement for several."""

    def __init__(self, old: ast.AST, new: ast.AST | list[ast.stmt]) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> ast.AST | list[ast.stmt]:
        return self.new if node is self.old else self.generic_visit(node)


def changed(text: str, node: int, probe: str = "", statement: int = 0) -> tuple[str, str]:
    """A file with its fault, and the fault as two lines; with a `probe`, with that before the statement instead."""
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    if probe:
        old = nodes[statement]
        assert isinstance(old, ast.stmt)
        tree = Replace(old, [*ast.parse(probe).body, old]).visit(tree)
        return ast.unparse(ast.fix_missing_locations(tree)), ""
    new = next(faults(nodes[node]))
    told = f"- {ast.unparse(nodes[node])}\n+ {ast.unparse(ast.fix_missing_locations(new))}"
    tree = Replace(nodes[node], ast.copy_location(new, nodes[node])).visit(tree)
    return ast.unparse(ast.fix_missing_locations(tree)), told


def draw(only: list[str], count: int, seed: int) -> list[dict]:
    """Random places, files by their size."""
    rng = random.Random(seed)
    files = sorted({path for folder in only for path in (ROOT / folder).rglob("*.py")})
    found = [(path, *place) for path in files for place in places(ast.parse(path.read_text()))]
    chosen = rng.sample(found, min(count, len(found)))
    return [
        {"number": n, "file": str(path.relative_to(ROOT)), "statement": statement, "node": node, "seed": seed}
        for n, (path, statement, node) in enumerate(chosen)
    ]


def copied(tree: Path) -> Path:
    """A fresh copy of what the tests need, records by a link."""
    shutil.rmtree(tree, ignore_errors=True)
    for name in COPIED:
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "_build", "results"))
    if (ROOT / "lab" / "results").exists():
        (tree / "lab" / "results").symlink_to(ROOT / "lab" / "results")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, tree / path.name)
    return tree


def environment(tree: Path, hits: Path | None = None) -> dict[str, str]:
    """Where the copy is imported from."""
    paths = [str(tree / "src"), str(tree / "lab" / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    extra = {"MUTATE_HITS": str(hits)} if hits else {}
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **extra}


def reached(mutants: list[dict], tests: list[str], jobs: int, tree_path: Path) -> dict[int, list[str]]:
    """Which passing tests reach each place: one run of them with a probe before each chosen statement.

    A test that fails with the probes alone (it looks at sources, or lacks something on this machine) judges no fault.
    """
    hits = WORK / "hits.tsv"
    hits.unlink(missing_ok=True)
    (tree_path / "src" / "tproper" / "_mutation_probe.py").write_text(PROBE)
    by_file: dict[str, list[dict]] = {}
    for mutant in (m for m in mutants if not in_kernel(m)):
        by_file.setdefault(mutant["file"], []).append(mutant)
    for file, group in by_file.items():
        text = (ROOT / file).read_text()
        tree = ast.parse(text)
        nodes = list(ast.walk(tree))
        for mutant in group:
            call = f"__import__('tproper._mutation_probe', fromlist=['hit']).hit({mutant['number']})"
            old = nodes[mutant["statement"]]
            tree = Replace(old, [*ast.parse(call).body, old]).visit(tree)  # type: ignore[list-item]
        (tree_path / file).write_text(ast.unparse(ast.fix_missing_locations(tree)))
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        str(jobs),
        "-p",
        "no:cacheprovider",
        "--durations=0",
        "-vv",
        *tests,
    ]
    print(f"one run of the tests finds which of them reach the {len(mutants)} places ...", flush=True)
    run = subprocess.run(command, cwd=tree_path, env=environment(tree_path, hits), capture_output=True, text=True)
    if run.returncode not in (0, 1):  # 1: some failed; all else is not a run
        said = run.stdout[-2000:] + run.stderr[-2000:]
        raise SystemExit(f"mutate: the run of the tests ended with {run.returncode}\n{said}")
    seconds: dict[str, float] = {}
    passed = {match[1] for match in map(PASSED.match, run.stdout.splitlines()) if match}
    (WORK / "unjudging.txt").write_text("\n".join(re.findall(r"^(?:FAILED|ERROR) .*$", run.stdout, re.MULTILINE)))
    print(run.stdout.splitlines()[-1], flush=True)
    for line in run.stdout.splitlines():
        part = line.split(maxsplit=2)
        if len(part) == 3 and part[1] in ("call", "setup") and part[0].endswith("s"):
            seconds[part[2]] = seconds.get(part[2], 0.0) + float(part[0][:-1])
    out: dict[int, list[str]] = {}
    for line in hits.read_text().splitlines() if hits.exists() else []:
        number, test = line.split("\t")
        if test in passed:
            out.setdefault(int(number), []).append(test)
    for file in by_file:
        shutil.copy(ROOT / file, tree_path / file)
    files = {test.partition("::")[0] for test in passed}
    for mutant in filter(in_kernel, mutants):  # the tests of files that name its module, or Triton's interpreter
        words = (Path(mutant["file"]).stem, "interpret")
        named = {f for f in files if any(word in (tree_path / f).read_text() for word in words)}
        out[mutant["number"]] = [test for test in passed if test.partition("::")[0] in named]
    return {n: chosen(sorted(set(tests), key=lambda t: seconds.get(t, 0.0)), seconds) for n, tests in out.items()}


def in_kernel(mutant: dict) -> bool:
    """Whether a place lies in a function that Triton compiles."""
    tree = ast.parse((ROOT / mutant["file"]).read_text())
    place = list(ast.walk(tree))[mutant["node"]]
    return any(place in ast.walk(node) for node in ast.walk(tree) if compiled(node))


def chosen(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """Of tests in the order of their time: the quickest of each file, then the second of each, until it is enough."""
    files: dict[str, int] = {}
    turn = {}
    for test in tests:
        file = test.partition("::")[0]
        turn[test] = files[file] = files.get(file, -1) + 1
    out, spent = [], 0.0
    for test in sorted(tests, key=lambda t: (turn[t], seconds.get(t, 0.0))):
        spent += seconds.get(test, 0.0)
        if out and spent > ENOUGH:
            break
        out.append(test)
    return out


def tried(mutant: dict, tests: list[str], limit: float, trees: queue.Queue[Path]) -> dict:
    """Whether a test fails with this fault in place, in a copy of the tree that nobody else uses meanwhile."""
    if not tests:
        return {
            **mutant,
            "verdict": "no test reaches it",
            "fault": changed((ROOT / mutant["file"]).read_text(), mutant["node"])[1],
        }
    tree = trees.get()
    path = tree / mutant["file"]
    text = (ROOT / mutant["file"]).read_text()
    faulty, told = changed(text, mutant["node"])
    line = list(ast.walk(ast.parse(text)))[mutant["node"]].lineno  # type: ignore[attr-defined]
    start = time.monotonic()
    path.write_text(faulty)
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
        code = subprocess.run(command, cwd=tree, env=environment(tree), capture_output=True, timeout=limit).returncode
        verdict = "survived" if code == 0 else "killed"  # also where the tests cannot even be collected
    except subprocess.TimeoutExpired:
        verdict = "too slow"  # an endless loop, or a machine that is busy: tried again by the next call
    finally:
        path.write_text(text)
        trees.put(tree)
    seconds = round(time.monotonic() - start, 1)
    return {**mutant, "line": line, "fault": told, "tests": len(tests), "verdict": verdict, "seconds": seconds}


def main() -> int:
    """Draw, find the tests, try each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mutants", type=int, default=120)
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")))
    parser.add_argument("--only", nargs="+", default=["src/tproper", "lab/src/tproper_lab"])
    parser.add_argument("--tests", nargs="+", default=["tests", "lab/tests"])
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--limit", type=float, default=300, help="seconds for the tests of one mutant")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    end = time.monotonic() + 60 * asked.minutes
    WORK.mkdir(exist_ok=True)
    results = WORK / "results.jsonl"
    done = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    done = [row for row in done if row["seed"] == asked.seed and row["verdict"] != "too slow"]
    mutants = draw(asked.only, asked.mutants, asked.seed)
    left = [m for m in mutants if m["number"] not in {row["number"] for row in done}]
    trees: queue.Queue[Path] = queue.Queue()
    for job in range(asked.jobs):
        trees.put(copied(WORK / f"tree{job}"))
    tests = reached(left, asked.tests, asked.jobs, WORK / "tree0") if left else {}
    with ThreadPoolExecutor(asked.jobs) as pool:
        late = threading.Event()

        def one(mutant: dict) -> dict | None:
            if time.monotonic() > end:
                late.set()
                return None
            return tried(mutant, tests.get(mutant["number"], []), asked.limit, trees)

        for future in as_completed([pool.submit(one, mutant) for mutant in left]):
            if (row := future.result()) is None:
                continue
            done.append(row)
            with results.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{len(done):4d} {row['verdict']:10s} {row['file']}:{row.get('line', '?')}", flush=True)
    if late.is_set():
        print("time is up; run it again to go on")
    killed = sum(row["verdict"] == "killed" for row in done)
    print(f"\n{killed} of {len(done)} killed ({killed / max(len(done), 1):.0%}), seed {asked.seed}; the others:")
    for row in done:
        if row["verdict"] != "killed":
            print(f"\n{row['file']}:{row.get('line', '?')}  {row['verdict']}\n{row['fault']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
