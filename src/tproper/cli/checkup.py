"""The work of `tproper doctor`: what is installed, and whether it does what it should."""

from __future__ import annotations

import importlib
import os
import platform
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import metadata
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..certificates import certify
from ..estimation import one_thread
from ..learn import WeakLabelClassifier
from ..losses import BackwardLoss, ForwardLoss
from ..metrics import weak_accuracy
from ..transitions import complementary, symmetric_noise

#: Distribution names whose modules are called otherwise.
MODULES = {"scikit-learn": "sklearn", "markdown-it-py": "markdown_it"}
#: Extras that users choose; those for work on tproper itself are left out.
EXTRAS = ("plots", "tables", "loops")


@dataclass
class Checkup:
    """What is installed, and how it does."""

    versions: dict[str, str]
    problems: list[str]
    extras: dict[str, list[str]]  # what each lacks
    gpu: str
    tests: dict[str, str]  # "ok", or what went wrong
    seconds: float
    notes: list[str]  # what is no problem but may slow things down

    @property
    def healthy(self) -> bool:
        """Whether everything that is installed works; an extra that is not installed is not a problem."""
        return not self.problems and all(outcome == "ok" for outcome in self.tests.values())

    def to_dict(self) -> dict[str, Any]:
        """All of it, for scripts."""
        return asdict(self) | {"healthy": self.healthy}

    @property
    def text(self) -> str:
        """For people."""
        lines = [f"{name:<16} {version}" for name, version in self.versions.items()]
        lines += ["", f"{'GPU':<16} {self.gpu}", ""]
        for extra, lacking in self.extras.items():
            how = f"lacks {', '.join(lacking)}; pip install 'tproper[{extra}]'" if lacking else "installed"
            lines.append(f"{'extra ' + extra:<16} {how}")
        lines += ["", *(f"{'self-test':<16} {name}: {outcome}" for name, outcome in self.tests.items())]
        lines += [f"note: {note}" for note in self.notes]
        lines += [f"PROBLEM: {problem}" for problem in self.problems]
        verdict = "all is well" if self.healthy else "something installed does not work"
        return "\n".join([*lines, "", f"{verdict} (self-test: {self.seconds:.1f} s)"])


def examine() -> Checkup:
    """Look at everything."""
    problems: list[str] = []
    versions = {"tproper": __version__, "Python": f"{platform.python_version()} on {platform.platform(terse=True)}"}
    for name in requirements(None):
        versions[name] = _version(name, problems) or "NOT INSTALLED"
        if versions[name] == "NOT INSTALLED":
            problems.append(f"{name}: expected it to be installed, got nothing; run pip install tproper again")
    extras = {extra: [n for n in requirements(extra) if not _version(n, problems)] for extra in EXTRAS}
    notes, threads = [], torch.get_num_threads()
    if threads > 1 and "OMP_NUM_THREADS" not in os.environ:
        share = f"{threads} of {os.cpu_count() or 1} cores"
        notes.append(f"PyTorch uses {share}; on a busy machine OMP_NUM_THREADS=1 is often faster")
    started = time.perf_counter()
    with one_thread():
        tests = {name: _outcome(test) for name, test in TESTS.items()}
    seconds = time.perf_counter() - started
    return Checkup(versions, problems, extras, gpu(), tests, seconds, notes)


def requirements(extra: str | None) -> list[str]:
    """What tproper itself, or one of its extras, asks for, by its own metadata."""
    names = []
    for line in metadata.requires("tproper") or []:
        name = re.match(r"[\w.-]+", line)
        marked = re.search(r"""extra\s*==\s*['"](\w+)['"]""", line)
        if name and (marked[1] if marked else None) == extra and name[0].lower() != "tproper":
            names.append(name[0])
    return names


def _version(name: str, problems: list[str]) -> str | None:
    """The version of an installed distribution, None without one; one that cannot be imported is a problem."""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
    try:
        importlib.import_module(MODULES.get(name.lower(), name.replace("-", "_")))
    except Exception as error:  # whatever a broken installation throws
        problems.append(f"{name} {version} is installed and cannot be imported: {type(error).__name__}: {error}")
    return version


def gpu() -> str:
    """The GPU in words, and whether it computes."""
    if not torch.cuda.is_available():
        return "none that PyTorch can use: everything runs on the CPU"
    names = ", ".join(torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count()))
    return f"{names} (CUDA {torch.version.cuda})"


def _outcome(test: Callable[[], str | None]) -> str:
    try:
        return test() or "ok"
    except Exception as error:  # a self-test reports, whatever goes wrong
        return f"{type(error).__name__}: {error}"


def _certificates() -> str | None:
    """Known answers: BC of complementary labels is unbounded, forward correction is bounded by log 9."""
    T = complementary(10)
    if certify(BackwardLoss(T)).lower_bounded or not certify(BackwardLoss(T, squeeze=(1.0, 2.0))).lower_bounded:
        return "expected BC to be unbounded and BC+gLS to be bounded, got the opposite of one"
    bound = float(min(ForwardLoss(T).lower_bounds()))
    return None if abs(bound - np.log(9)) < 1e-9 else f"expected the bound log 9 = {np.log(9):.6f}, got {bound:.6f}"


def _gradients(device: str = "cpu") -> str | None:
    """The gradient of a backward loss is ``softmax(v) - r``."""
    T, labels = symmetric_noise(4, 0.3), torch.tensor([0, 1, 2, 3], device=device)
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(device)
    scores.requires_grad_()
    BackwardLoss(T, reduction="sum")(scores, labels).backward()
    target = T.reconstruction().targets(labels.cpu()).to(device)
    assert scores.grad is not None
    gap = float((scores.grad - (torch.softmax(scores.detach(), -1) - target)).abs().max())
    return None if gap < 1e-9 else f"expected the gradient softmax(v) - r, got one that is {gap:.2g} away"


def _learning() -> str | None:
    """Three well separated classes are learned from noisy labels, and the weak score says so."""
    rng = np.random.default_rng(12)
    z = rng.integers(3, size=600)
    X = rng.normal(size=(600, 2)) + np.array([[0, 5], [5, 0], [-4, -4]])[z]
    T = symmetric_noise(3, 0.3)
    weak = T.sample(z, 7)
    model = WeakLabelClassifier(T, random_state=0).fit(X, weak)
    right = float((model.predict(X) == z).mean())
    score = weak_accuracy(weak, model.predict(X), T)
    if right < 0.95:
        return f"expected nearly all of 600 easy rows to be learned, got {right:.0%}"
    inside = score.interval[0] - 0.05 <= right <= score.interval[1] + 0.05
    return None if inside else f"expected the weak accuracy near {right:.3f}, got {score}"


TESTS: dict[str, Callable[[], str | None]] = {
    "certificates": _certificates,
    "gradients": _gradients,
    "learning from noisy labels": _learning,
}
if torch.cuda.is_available():
    TESTS["gradients on the GPU"] = partial(_gradients, "cuda")
