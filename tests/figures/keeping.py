"""Figures that a file keeps: compared on every run, and written anew on purpose alone."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import tempfile
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tproper as tp

DATED = re.compile(r"\d{4}-\d\d-\d\d|tproper \d[\w.]*")  # of the day and of the release
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
# Other processors add in another order. These settings make this one add as they do.
PROCESSORS = (
    {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Nehalem", "NPY_DISABLE_CPU_FEATURES": "AVX2 FMA3 AVX512F"},
    {"ATEN_CPU_CAPABILITY": "avx2", "OPENBLAS_CORETYPE": "Haswell", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    {"ATEN_CPU_CAPABILITY": "default", "OPENBLAS_CORETYPE": "Sandybridge", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
)
DIGITS, NEAR, ZERO = 9, 2e-3, 1e-6  # kept; relative, since other versions of BLAS end searches elsewhere; absolute


class Word(str):
    """A text that is an outcome itself, such as the name of a choice: it is kept as it is."""

    __slots__ = ()


def numbers(found: Any) -> list[float | str]:
    """The numbers of a result, in order; of a text those that it prints, and a checksum of its words."""
    if found is None or isinstance(found, (bool, np.bool_)):
        return [str(found)]
    if isinstance(found, Word):
        return [str(found)]
    if isinstance(found, str):
        text = DATED.sub("", found)
        words = " ".join(NUMBER.sub("#", text).split())
        return [*map(float, NUMBER.findall(text)), f"words {zlib.crc32(words.encode()):08x}"]
    if isinstance(found, (int, float, np.number)):
        return [float(found)]
    if isinstance(found, torch.Tensor):
        return numbers(found.detach().numpy())
    if isinstance(found, np.ndarray):
        return numbers(found.ravel().tolist())
    if isinstance(found, dict):
        return [x for value in found.values() for x in numbers(value)]
    if isinstance(found, (list, tuple)):
        return [x for value in found for x in numbers(value)]
    if isinstance(found, tp.Score):
        return numbers([found.value, found.stderr, *found.interval, str(found)])
    return numbers(str(found))


def without_folder(text: str) -> str:
    """A message without the name of a temporary folder, which is another one each time."""
    return re.sub(re.escape(tempfile.gettempdir()) + r"/[^/\s'\"]*", "", text)


def computed(call: Callable[[], Any]) -> list[float | str]:
    """The numbers of a case, and the kinds of our warnings; of a refusal, the argument that it names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = numbers(call())
        except tp.InputError as error:
            found = [f"refused: {error.argument}"]
    return found + [w.category.__name__ for w in caught if w.category.__module__.startswith("tproper")]


def rounded(values: list[float | str]) -> list[float | str]:
    """As they are kept: nine digits, and no infinity, which JSON lacks."""
    return [v if isinstance(v, str) else float(f"{v:.{DIGITS}g}") if math.isfinite(v) else str(v) for v in values]


def alike(found: float | str, kept: float | str | None) -> bool:
    """Whether a number is the one that is kept; None is one that rounding decides, such as which of two ties."""
    if kept is None or found == kept:
        return True
    if isinstance(found, str) or isinstance(kept, str):
        return False
    return found == pytest.approx(kept, rel=NEAR, abs=ZERO)


class Kept:
    """The figures of some cases, in a file of one line a case so that a difference can be read."""

    def __init__(self, file: Path, cases: Mapping[str, Callable[[], Any]]) -> None:
        self.file, self.cases = file, cases
        self.figures: dict[str, list[float | str | None]] = json.loads(file.read_text()) if file.exists() else {}

    def check_names(self) -> None:
        """Every case is kept, and none of them is without numbers, which would hold nothing."""
        assert sorted(self.figures) == sorted(self.cases)
        assert all(any(value is not None for value in values) for values in self.figures.values())

    def check(self, name: str, rewrite: str) -> None:
        """A case computes what is kept; `rewrite` is the command that keeps what it computes now."""
        found, kept = rounded(computed(self.cases[name])), self.figures[name]
        assert len(found) == len(kept)
        apart = [(i, a, b) for i, (a, b) in enumerate(zip(found, kept, strict=True)) if not alike(a, b)]
        assert apart == [], f"number, found, kept: meant? then {rewrite}"

    def computed(self) -> dict[str, list[float | str]]:
        """All figures, as they are now."""
        return {name: rounded(computed(call)) for name, call in sorted(self.cases.items())}

    def write(self) -> None:
        """Keep what is computed now; of a case with as many numbers as before, those that rounding decides stay out."""
        out: dict[str, list[float | str | None]] = {}
        for name, found in self.computed().items():
            before = self.figures.get(name, [])
            if len(before) != len(found):
                before = list(found)
            out[name] = [None if old is None else new for new, old in zip(found, before, strict=True)]
        self.keep(out)

    def keep(self, figures: dict[str, list[float | str | None]]) -> None:
        """Write the file."""
        self.figures = figures
        lines = [f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(figures.items())]
        self.file.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    def settle(self, elsewhere: Mapping[str, list[float | str]]) -> None:
        """Leave out what another processor computes otherwise; a case of another length is told of instead."""
        kept = {name: list(values) for name, values in self.figures.items()}
        for name, found in elsewhere.items():
            if len(found) != len(kept[name]):
                print(f"{name}: {len(found)} numbers for {len(kept[name])}")
                continue
            for i, value in enumerate(found):
                if not alike(value, kept[name][i]):
                    print(f"{name}: number {i}, {kept[name][i]} here, {value} there")
                    kept[name][i] = None
        self.keep(kept)


def main(kept: Mapping[str, Kept], again: list[str], arguments: list[str]) -> None:
    """Keep what is computed now, or leave out what other processors compute otherwise; `again` is this command."""
    chosen = [one for file, one in kept.items() if file in arguments or not set(arguments) & set(kept)]
    if "--print" in arguments:
        print(json.dumps([one.computed() for one in chosen]))
    elif "--processors" in arguments:
        for settings in PROCESSORS:
            command, env = [*again, "--print", *arguments], os.environ | settings
            done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
            for one, found in zip(chosen, json.loads(done.stdout.splitlines()[-1]), strict=True):
                one.settle(found)
    else:
        for one in chosen:
            one.write()


def shapes(figure: Any) -> list[Any]:
    """What a figure draws: lines, points, bars, images, limits, scales, names, sizes and colours."""
    from matplotlib.colors import to_hex

    probes = [[0.5, 0.5], [3.0, 7.0], [20.0, -30.0]]
    out: list[Any] = [*figure.get_size_inches(), len(figure.axes)]
    for axes in figure.axes:
        for line in axes.lines:
            style = (line.get_linestyle(), line.get_marker(), to_hex(line.get_color()))
            out += [line.get_xydata(), line.get_linewidth(), line.get_markersize(), *map(Word, map(str, style))]
        for drawn in axes.collections[:20]:
            out.append(drawn.get_segments() if hasattr(drawn, "get_segments") else drawn.get_offsets())
            out += [drawn.get_sizes() if hasattr(drawn, "get_sizes") else [], drawn.get_linewidths()]
        out += [[*patch.get_extents().bounds] for patch in axes.patches]
        out += [np.array(image.get_array(), dtype=float)[::7, ::7] for image in axes.images]
        out += [*axes.get_xlim(), *axes.get_ylim(), axes.transScale.transform(probes)]
        texts = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts, *axes.get_xticklabels()[:3]]
        legend = axes.get_legend()
        for text in (*texts, *(legend.get_texts() if legend else [])):
            out += [Word(text.get_text()), text.get_fontsize(), text.get_rotation(), Word(to_hex(text.get_color()))]
    return out
