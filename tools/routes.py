"""Walk through the package as data: which functions a use of it visits, in which modules, and which room calls which.

    python tools/routes.py            # one line a route
    python tools/routes.py fit        # the functions of a route, in the order of their first visit
    python tools/routes.py --write    # the record that docs/architecture.md is drawn from

Each route runs twice, and the second run is walked: what happens once in a process, such as imports, is left out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

import tproper as tp
from tproper.cli import main as command

PACKAGE = Path(tp.__file__).parent
RECORD = PACKAGE.parents[1] / "benchmarks" / "records" / "routes.json"
ROWS, CLASSES, FEATURES = 300, 4, 6
MOST_MODULES = 4  # of a room that are told


def about(count: int) -> int:
    """A count below a hundred as it is, a larger one to the nearest ten: who adds a function need not write it down."""
    return count if count < 100 else round(count, -1)


@dataclass(frozen=True)
class Walk:
    """What a route visits."""

    functions: list[tuple[str, str]]  # (module below tproper, name), in the order of their first visit
    calls: set[tuple[str, str]]  # (room, another room that it calls)

    @property
    def rooms(self) -> list[str]:
        """The room of each function."""
        return [module.split(".")[0] for module, _ in self.functions]

    def summary(self) -> dict[str, Any]:
        """Counts, large ones to the nearest ten, and by room the modules in which most functions are visited."""
        modules: dict[str, Counter[str]] = {}
        for module, _ in self.functions:
            room, _, file = module.partition(".")
            modules.setdefault(room, Counter())[file] += 1
        rooms = self.rooms
        return {
            "functions": about(len(self.functions)),
            "files": about(len({module for module, _ in self.functions})),
            "changes": about(sum(a != b for a, b in pairwise(rooms))),
            "modules": {
                room: [name for name, _ in count.most_common(MOST_MODULES)] for room, count in sorted(modules.items())
            },
            "calls": {room: sorted(b for a, b in self.calls if a == room) for room in sorted(modules)},
        }


@cache
def module_of(path: str) -> str:
    """The module of a file below tproper; nothing of other files, and of those that stand beside the rooms."""
    if not path.startswith(str(PACKAGE)):
        return ""
    parts = Path(path).relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts) if len(parts) > 1 else ""


def walked(run: Callable[[], object], again: bool = True) -> Walk:
    """The walk of a call's second run; of its first, which may import modules, unless it is to run `again`."""
    seen: dict[tuple[str, str], None] = {}
    calls: set[tuple[str, str]] = set()

    def on(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or not (module := module_of(frame.f_code.co_filename)):
            return
        if frame.f_code.co_name.startswith("<"):
            return
        seen[module, frame.f_code.co_qualname] = None
        caller = frame.f_back
        while caller is not None and not module_of(caller.f_code.co_filename):
            caller = caller.f_back
        if caller is not None:
            calls.add((module_of(caller.f_code.co_filename).split(".")[0], module.split(".")[0]))

    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        if again:
            run()
        before = sys.getprofile()
        sys.setprofile(on)
        try:
            run()
        finally:
            sys.setprofile(before)
    return Walk(list(seen), {(a, b) for a, b in calls if a != b})


def data() -> tuple[np.ndarray, np.ndarray]:
    """Features and classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    return X, (X[:, :CLASSES] + 0.5 * rng.normal(size=(ROWS, CLASSES))).argmax(axis=1)


def call(*losses: torch.nn.Module) -> Callable[[], object]:
    """Losses of a batch, and their gradients."""

    scores = torch.zeros(8, 10, requires_grad=True)
    batches = [(loss, torch.as_tensor(loss.transition.sample(np.arange(8), seed=0))) for loss in losses]

    def run() -> None:
        for loss, labels in batches:
            loss(scores, labels).backward()

    return run


def train(folder: str) -> Callable[[], object]:
    """``tproper train --tune`` on a table of complementary labels."""
    X, z = data()
    labels = np.array(["ash", "birch", "cedar", "date"])[tp.complementary(CLASSES).sample(z, seed=0)]
    table = Path(folder) / "weak.csv"
    lines = [",".join([*(f"{x:.4f}" for x in row), label]) for row, label in zip(X, labels, strict=True)]
    table.write_text("\n".join(["a,b,c,d,e,f,weak", *lines]) + "\n", encoding="utf-8")
    words = ["--label", "weak", "--transition", f"complementary:{CLASSES}", "--tune", "--out", f"{folder}/model"]

    def run() -> None:
        before, sys.argv = sys.argv, ["tproper", "train", str(table), *words, "--force"]
        try:
            command()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"tproper train: expected to end with 0, got {end.code}") from end
        finally:
            sys.argv = before

    return run


def fit() -> object:
    """A linear classifier by its defaults."""
    X, z = data()
    T = tp.complementary(CLASSES)
    return tp.WeakLabelClassifier(T, random_state=0).fit(X, T.sample(z, seed=0))


def routes(folder: str) -> dict[str, Callable[[], object]]:
    """What is walked, by name; files go to a folder."""
    backward, forward = tp.BackwardLoss(tp.complementary(10)), tp.ForwardLoss(tp.partial_labels(10, 0.3))
    return {
        "backward": call(backward),
        "forward": call(forward),
        "call": call(backward, forward, tp.BackwardLoss(tp.complementary(10), tp.Brier())),  # which has no kernel
        "fit": fit,
        "train": train(folder),
    }


def walks() -> dict[str, Walk]:
    """All routes."""
    with tempfile.TemporaryDirectory() as folder:
        return {name: walked(run) for name, run in routes(folder).items()}


def main() -> None:
    """One line a route, or one a function."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the record")
    parser.add_argument("route", nargs="*", help="show the functions of these")
    options = parser.parse_args()
    found = walks()
    for name in options.route:
        for module, function in found[name].functions:
            print(f"{module:<36}{function}")
    summaries = {name: walk.summary() for name, walk in found.items()}
    for name, summary in summaries.items():
        print(f"{name:<10}", *(f"{summary[key]:>5} {key}" for key in ("functions", "files", "changes")))
    if options.write:
        RECORD.write_text(json.dumps(summaries, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
