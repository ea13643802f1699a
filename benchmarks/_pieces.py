"""Long benchmarks in pieces: several processes, one line of a record a piece, so that a run that was cut short goes on.

A piece is known by its key, a dictionary of plain values. `run_pieces` computes those that are asked for, appends each
to the record as it ends, and returns nothing; `read_pieces` reads the record, the last line of a key winning. So a
second machine's pieces are merged by putting two records one after the other.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from _protocol import machine

Key = dict[str, Any]


def read_pieces(path: Path) -> list[dict[str, Any]]:
    """All pieces of a record, in the order in which their keys first appeared; a line that was cut off is left out."""
    pieces: dict[str, dict[str, Any]] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        try:
            piece = json.loads(line)
        except json.JSONDecodeError:
            continue  # the run ended while it was written: that piece is computed again
        pieces[name_of(piece["key"])] = piece
    return list(pieces.values())


def name_of(key: Key) -> str:
    """One text a key."""
    return json.dumps(key, sort_keys=True)


def totals(pieces: Sequence[dict[str, Any]], names: Sequence[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Results of pieces that agree in `names` of their keys, added up, entry by entry; "sets" is added up as well."""
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    for piece in pieces:
        cell = tuple(piece["key"][name] for name in names)
        out[cell] = _added(out.get(cell, {}), piece["result"] | {"sets": piece["key"]["sets"]})
    return out


def _added(total: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _added(total.get(name, {}), value) if isinstance(value, dict) else total.get(name, 0) + value
        for name, value in more.items()
    }


def run_pieces(
    work: Callable[..., Any],
    keys: Sequence[Key],
    path: Path,
    jobs: int = 1,
    resume: bool = False,
    together: Sequence[str] = (),
) -> None:
    """``work(**key)`` of every key, in `jobs` processes of one thread each; `resume` skips keys that the record has.

    Without it what is asked for is measured afresh: pieces of these keys go, or all that agree with one of them in the
    entries named in `together` (blocks of one cell, of whatever size). Other pieces stay.
    """
    known = {name_of(p["key"]) for p in read_pieces(path)} if resume else set()
    todo = [key for key in keys if name_of(key) not in known]
    if not resume and path.exists():

        def place(key: Key) -> str:
            return name_of({name: key.get(name) for name in together} if together else key)

        asked = {place(key) for key in keys}
        kept = [p for p in read_pieces(path) if place(p["key"]) not in asked]
        path.write_text("".join(json.dumps(p) + "\n" for p in kept))
    path.parent.mkdir(parents=True, exist_ok=True)
    said = machine()
    start = time.perf_counter()
    with path.open("a") as record:

        def keep(key: Key, seconds: float, result: Any) -> None:
            record.write(json.dumps({"key": key, "seconds": round(seconds, 2), "machine": said, "result": result}))
            record.write("\n")
            record.flush()
            os.fsync(record.fileno())
            print(f"{time.perf_counter() - start:7.1f} s  {name_of(key)}  ({seconds:.1f} s)", flush=True)

        if jobs == 1:
            for key in todo:
                keep(key, *timed(work, key))
            return
        os.environ["OMP_NUM_THREADS"] = "1"
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            waiting = {pool.submit(timed, work, key): key for key in todo}
            for future in as_completed(waiting):
                keep(waiting[future], *future.result())


def timed(work: Callable[..., Any], key: Key) -> tuple[float, Any]:
    """Seconds, and the result."""
    start = time.perf_counter()
    result = work(**key)
    return time.perf_counter() - start, result
