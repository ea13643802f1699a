"""Checks that draw a case from a seed, and how a command is run in this process.

A check is a function of a random generator and an empty folder; it raises where something is wrong. The same name and
seed give the same case.
"""

from __future__ import annotations

import json
import os
import re
import traceback
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from typer.testing import CliRunner

Check = Callable[[np.random.Generator, Path], None]
CHECKS: dict[str, Check] = {}
#: Values that programs, disks and attackers put where something else is expected.
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 10**6, 10**12, -(10**12), 10**400, 0.5, -0.5, 1e-300, 1e308, "", "x", "1", "nan",
    "inf", "-inf", "\x1b[31m", "\u0000", "é", [], [1], [[1]], [[0.5, 0.5], [0.5, 0.5]], [None], ["x"], {}, {"a": 1},
    "a" * 5000, [0] * 2000, float("nan"), float("inf"),
]  # fmt: skip


def check(function: Check) -> Check:
    """Register a check under its own name."""
    CHECKS[function.__name__] = function
    return function


def generator(name: str, seed: int) -> np.random.Generator:
    """The random numbers of one case."""
    return np.random.default_rng([zlib.crc32(name.encode()), seed])


def run_case(name: str, seed: int, folder: Path) -> str | None:
    """One case; what is wrong with it, or None."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CHECKS[name](generator(name, seed), folder)
    except Exception:
        return traceback.format_exc(limit=-6)
    finally:
        os.chdir(before)
    return None


def command(*arguments: object) -> Any:
    """`tproper` with these arguments: it may refuse, in a sentence, and never breaks."""
    from tproper.cli.main import app, load_command

    words = [str(a) for a in arguments]
    done = CliRunner().invoke(app, words)
    said = done.output
    own = {option for parameter in load_command(words[0]).params for option in parameter.opts} | {"--help"}
    advice = re.sub(r"`[^`]*`", "", " ".join(done.stderr.split()))  # `train --transition` is another's
    lacking = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", advice)) - own
    assert not lacking, f"tproper {' '.join(words)} advises {sorted(lacking)}, which it does not have: {done.stderr}"
    error = done.exception
    if error is not None and not isinstance(error, SystemExit):
        raise AssertionError(f"tproper {' '.join(words)} broke: {type(error).__name__}: {error}") from error
    assert done.exit_code in (0, 1, 2), f"tproper {' '.join(words)}: exit code {done.exit_code}: {said}"
    assert "\x1b" not in said or "\x1b[" not in words, f"tproper {' '.join(words)} wrote an escape"
    if done.exit_code:
        assert said.strip(), f"tproper {' '.join(words)} failed without a word"
    return done


def refused(function: Callable[[], Any], *kinds: type[BaseException]) -> Any:
    """What a function gives, or None where it refuses: with a ValueError, or one of these, and a sentence."""
    try:
        return function()
    except (ValueError, *kinds) as error:
        if not str(error).strip():
            raise AssertionError(f"{type(error).__name__} without a word") from error
        return None


def pick(rng: np.random.Generator, values: Any) -> Any:
    """One of them, as it is."""
    values = list(values)
    return values[int(rng.integers(len(values)))]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where values stand inside plain data, from the outside in."""
    out = [path]
    if isinstance(value, Mapping):
        for key, inner in value.items():
            out += places(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value[:20]):
            out += places(inner, (*path, i))
    return out


def mutated(value: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """Plain data with one place changed, taken away, doubled or exchanged; and in words what was done."""
    out = json.loads(json.dumps(value))
    path = pick(rng, places(out)[1:])
    holder = out
    for step in path[:-1]:
        holder = holder[step]
    key = path[-1]
    kind = pick(rng, ["odd", "odd", "odd", "drop", "near", "swap"])
    if kind == "drop":
        del holder[key]
    elif kind == "near":
        holder[key] = _near(holder[key], rng)
    elif kind == "swap":
        keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        other = pick(rng, keys)
        holder[key], holder[other] = holder[other], holder[key]
    else:
        holder[key] = pick(rng, ODD)
    return out, f"{kind} at {'.'.join(map(str, path))}"


def _near(value: Any, rng: np.random.Generator) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + int(pick(rng, [-2, -1, 1, 2, 1000]))
    if isinstance(value, float):
        return value * float(pick(rng, [-1, 0.5, 2, 1e6, 1 + 1e-9]))
    if isinstance(value, str):
        return value[:-1] if value and rng.random() < 0.5 else value + "x"
    if isinstance(value, list) and value:
        return pick(rng, [value[::-1], value[:-1], [*value, value[0]], value * 2])
    return [value]


def scrambled(content: bytes, rng: np.random.Generator) -> bytes:
    """Bytes flipped, cut, doubled or inserted."""
    data = bytearray(content)
    for _ in range(int(pick(rng, [1, 1, 2, 8]))):
        at = int(rng.integers(len(data) + 1)) if data else 0
        kind = pick(rng, ["flip", "cut", "insert", "remove", "repeat"])
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == "cut":
            del data[at:]
        elif kind == "insert":
            data[at:at] = pick(rng, [b"\x00", b"\xff\xfe", b'"', b",", b"\n", b"\r", b"\x1b[31m", b"nan", b"9" * 400])
        elif kind == "remove":
            del data[at : at + int(rng.integers(1, 20))]
        else:
            data[at:at] = data[at : at + int(rng.integers(1, 200))]
    return bytes(data)
