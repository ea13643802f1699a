"""Finished trials as rows of SQLite, unfinished ones as checkpoints; both survive a kill at any moment.

``records.sqlite`` in the run's folder has one row per finished trial, written once in one transaction
(WAL). ``checkpoints/<trial>.safetensors`` holds an unfinished trial: its tensors, and its progress as
JSON in the header. ``record_files`` moves rows as JSON lines or Parquet, so that a run can go on from records that were
committed. Records and checkpoints have checksums, so that damage is seen and named.
"""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tproper.errors import InputError
from tproper.extension import DamagedError, json_text, read_sealed, remove_drafts, write_sealed

from .models import Tensors
from .protocol import Progress, Protocol, Trial, TrialConfig
from .records import (
    COLUMNS,
    KINDS,
    LATER_COLUMNS,
    NESTED,
    SEAL,
    Record,
    RecordError,
    check_record,
    checksum,
    decoded,
    encoded,
    is_number,
    kernel_group,
    kernels_of,
    short,
)

#: In which reports list records.
ORDER = "ORDER BY dataset, model, config_key, seed"


class CheckpointError(InputError):
    """A checkpoint that a trial cannot go on from."""


def damaged(error: Exception) -> bool:
    """Whether a file is no database, or a torn one, rather than out of reach."""
    name: str = getattr(error, "sqlite_errorname", "")  # errors of the module itself have none
    return name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT"))


def not_a_store(path: Path, reason: object) -> RecordError:
    """What to say of a ``records.sqlite`` that is something else."""
    return RecordError(f"{path} is not a store of records ({reason}); move it away and run the command again")


class Store:
    """The records and checkpoints of one run's folder."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.checkpoints = self.folder / "checkpoints"
        self.path = self.folder / "records.sqlite"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.db = sqlite3.connect(self.path, timeout=60)
        self.db.row_factory = sqlite3.Row
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        try:
            there = _columns(self.db, self.path)
            self.db.execute("PRAGMA journal_mode=WAL")
            with self.db:
                self.db.execute(f"CREATE TABLE IF NOT EXISTS trials ({columns}, {SEAL} TEXT)")
                for name in {*LATER_COLUMNS, SEAL} - there if there else ():
                    self.db.execute(f"ALTER TABLE trials ADD COLUMN {name} TEXT")
        except (sqlite3.DatabaseError, RecordError) as error:
            self.db.close()
            if damaged(error):
                raise not_a_store(self.path, error) from error
            raise
        self.checkpoints.mkdir(exist_ok=True)
        remove_drafts(self.checkpoints)

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    def add(self, records: Iterable[Record]) -> int:
        """Write records in one transaction; a trial that is there already stays as it is.

        A record that would be refused when it is read is refused here, and then none of them is written.
        """
        names = (*COLUMNS, SEAL)
        rows = []
        for number, given in enumerate(records, start=1):
            record = check_record(given, f"record {number} for {self.path}")
            rows.append((*(encoded(record, name) for name in COLUMNS), checksum(record)))
        before = self.db.total_changes
        with self.db:
            self.db.executemany(
                f"INSERT INTO trials ({', '.join(names)}) VALUES ({', '.join('?' for _ in names)}) "
                "ON CONFLICT (id) DO NOTHING",
                rows,
            )
        return self.db.total_changes - before

    def done(self) -> set[str]:
        """The ids of all finished trials."""
        return {row["id"] for row in self.db.execute("SELECT id FROM trials")}

    def check(self) -> None:
        """Raise an error that names the store, and the row if it can, where anything in it is damaged."""
        _all_rows(self.db, self.path)

    def refuse_other_kernels(self, config: TrialConfig, kernels: str) -> None:
        """Raise an error if trials like these were made with other kernels: one cell must not hold both."""
        rows = self.records(model=config.model, dataset=config.dataset)
        mine = kernel_group(config.model, kernels)
        others = sorted({kernels_of(row) or "auto" for row in rows} - {mine or "auto"})
        if others:
            raise RecordError(
                f"{self.path} holds trials of {config.model} made with kernels {', '.join(others)}; expected "
                f"kernels {mine or 'auto'}, as of this run; choose another --out"
            )

    def records(self, **where: Any) -> list[Record]:
        """Rows whose columns have the given values, in order of configuration and seed."""
        unknown = set(where) - set(COLUMNS)
        if unknown:
            raise InputError(f"expected columns of the store, got {', '.join(sorted(unknown))}")
        condition = " AND ".join(f"{name} = ?" for name in where) or "1"
        query = f"SELECT * FROM trials WHERE {condition} {ORDER}"
        return _checked(self.path, self.db.execute(query, tuple(where.values())).fetchall())

    def _checkpoint(self, trial: Trial) -> Path:
        return self.checkpoints / f"{trial.id}.safetensors"

    def save(self, trial: Trial, progress: Progress, state: Tensors, kernels: str = "auto") -> None:
        """Replace a trial's checkpoint, atomically."""
        header = {"trial": trial.id, "progress": json_text(asdict(progress)), "kernels": kernels}
        write_sealed(self._checkpoint(trial), state, header)

    def restore(self, trial: Trial, kernels: str = "auto") -> tuple[Progress, Tensors] | None:
        """A trial's progress and tensors, or None if it has no checkpoint; an error if that cannot be used."""
        path = self._checkpoint(trial)
        if not path.exists():
            return None
        try:
            header, state = read_sealed(path)
            if header.get("trial") != trial.id:
                raise DamagedError(f"it is of the trial {header.get('trial')}")
            progress = _progress(header.get("progress"), trial.config.protocol)
        except (ValueError, RecursionError, OSError) as error:
            raise CheckpointError(f"the checkpoint {path} cannot be used ({error})") from error
        kernels_then = header.get("kernels", "auto")
        if kernel_group(trial.config.model, kernels_then) != kernel_group(trial.config.model, kernels):
            raise CheckpointError(f"the checkpoint {path} was made with kernels {kernels_then}, expected {kernels}")
        return progress, state

    def forget(self, trial: Trial) -> None:
        """Remove a trial's checkpoint, if there is one."""
        self._checkpoint(trial).unlink(missing_ok=True)


def _progress(text: str | None, protocol: Protocol) -> Progress:
    """The progress in a checkpoint's header, which must follow from its epochs."""
    values = json.loads(text or "null")
    if not isinstance(values, dict):
        raise InputError("its header says nothing of the trial's progress")
    values.pop("scores", None)  # always empty, in old checkpoints
    usual = asdict(Progress())
    for name, value in values.items():
        if name not in usual or not isinstance(value, KINDS[type(usual[name]).__name__]):
            raise InputError(f"its progress has {name} = {short(value)}")
    if not all(is_number(v) and 0 <= v <= 1 for v in values.get("valid", [])):
        raise InputError("its progress has accuracies that are not between 0 and 1")
    # a risk that was not finite is a text or null in JSON, and null in the record anyway
    traces = {
        name: [v if is_number(v) and math.isfinite(v) else math.nan for v in values.get(name, [])]
        for name in ("risk", "weak")
    }
    risk = traces["risk"]
    progress = Progress(**values | traces)
    if not (is_number(progress.seconds) and math.isfinite(progress.seconds)) or progress.seconds < 0:
        raise InputError(f"its progress has seconds = {short(progress.seconds)}")
    if len(risk) != len(progress.valid):
        raise InputError(f"its progress has {len(risk)} risks, {len(progress.valid)} accuracies")
    if len(progress.weak) not in (0, len(risk)):
        raise InputError(f"its progress has {len(risk)} risks, {len(progress.weak)} weak risks")
    if not min(1, len(progress.weak)) <= progress.weak_epoch <= len(progress.weak):
        raise InputError(f"its progress keeps the epoch {progress.weak_epoch} of {len(progress.weak)} by weak labels")
    again = progress.replayed(protocol)
    for name in ("epoch", "best_accuracy", "best_epoch", "stale", "reductions"):
        if getattr(again, name) != getattr(progress, name):
            raise InputError(f"its progress has {name} = {getattr(progress, name)}, expected {getattr(again, name)}")
    if progress.epoch < 1 or progress.finished(protocol):
        raise InputError(f"its progress is that of no unfinished trial, after {progress.epoch} epochs")
    return progress


def read_store(folder: str | Path) -> list[Record]:
    """The records of a run's folder, which is left as it is: it may belong to someone else, or to a running run."""
    path = Path(folder) / "records.sqlite"
    # a log beside the file is there while a run writes; without one nothing changes, and SQLite needs no lock files
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        name = quote(os.fsencode(path.resolve()))  # as bytes: a name need not be text in this locale
        db = sqlite3.connect(f"file:{name}?{mode}", uri=True, timeout=60)
        db.row_factory = sqlite3.Row
        try:
            return _all_rows(db, path)
        finally:
            db.close()
    except sqlite3.Error as error:
        if damaged(error) or "no such" in str(error):
            raise not_a_store(path, error) from error
        raise OSError(f"{path} cannot be read ({error})") from error


def _columns(db: sqlite3.Connection, path: Path) -> set[str]:
    """The columns of a store's table, none where it has no table yet; one that lacks some is another's."""
    there = {row["name"] for row in db.execute("PRAGMA table_info(trials)")}
    missing = sorted(set(COLUMNS) - there - set(LATER_COLUMNS))
    if there and missing:
        raise not_a_store(path, f"its table of trials lacks {', '.join(missing)}")
    return there


def _all_rows(db: sqlite3.Connection, path: Path) -> list[Record]:
    """Every record of a store, checked, after SQLite's own check of the file."""
    try:
        _columns(db, path)
        rows = db.execute(f"SELECT * FROM trials {ORDER}").fetchall()
        (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" not in str(error):
            raise
        raise not_a_store(path, f"damaged: {error}") from error
    records = _checked(path, rows)  # first, since it names the row
    if verdict != "ok":
        raise not_a_store(path, f"damaged: {verdict}")
    return records


def _checked(path: Path, rows: Sequence[Any]) -> list[Record]:
    """The records in a store's rows, every one checked."""
    records = []
    for number, row in enumerate(rows, start=1):
        where = f"{path}, row {number}"
        try:
            seal = row[SEAL] if SEAL in row.keys() else None  # noqa: SIM118
            records.append(check_record(decoded(row) | {SEAL: seal}, where))
        except (json.JSONDecodeError, TypeError, RecursionError) as error:
            raise RecordError(f"{where}: expected JSON in {', '.join(NESTED)}, got something else") from error
    return records
