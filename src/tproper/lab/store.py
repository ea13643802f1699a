"""Finished trials as rows of SQLite, unfinished ones as checkpoints; both survive a kill at any moment.

``records.sqlite`` in the run's folder has one row a finished trial, written once in one transaction
(WAL). ``checkpoints/<trial>.safetensors`` holds an unfinished trial: its tensors, and its progress as
JSON in the header. ``export_records`` and ``import_records`` move rows as JSON lines or Parquet, so that
a run can go on from records that were committed. Every record is checked by the same rules before it is
written and when it is read, and has a checksum, as checkpoints have, so that damage is seen and named.
Records that were written before there were checksums have none, and are read without.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch

from tproper._core import DamagedError, Mark, json_text, read_sealed, sweep, write_file, write_sealed
from tproper.lab.models import BUILDERS, FLAT_MODELS, Tensors
from tproper.lab.protocol import LATER, Progress, Protocol, Trial, TrialConfig

#: Columns of a record in the order they are stored; the first names the trial.
COLUMNS: dict[str, str] = {
    "id": "TEXT PRIMARY KEY",
    "config_key": "TEXT NOT NULL",
    "seed": "INTEGER NOT NULL",
    "dataset": "TEXT NOT NULL",
    "model": "TEXT NOT NULL",
    "loss": "TEXT NOT NULL",
    "lr": "REAL NOT NULL",
    "weight_decay": "REAL NOT NULL",
    "k": "REAL NOT NULL",
    "alpha": "REAL NOT NULL",
    "epochs": "INTEGER NOT NULL",
    "best_epoch": "INTEGER NOT NULL",
    "valid_accuracy": "REAL NOT NULL",
    "accuracy": "REAL NOT NULL",
    "log_loss": "REAL",
    "brier": "REAL",
    "ece": "REAL",
    "zeros": "INTEGER",
    "softmax_log_loss": "REAL",
    "softmax_brier": "REAL",
    "softmax_ece": "REAL",
    "seconds": "REAL",
    "machine": "TEXT",
    "software": "TEXT",
    "revision": "TEXT",
    "finished_at": "TEXT",
    "config": "TEXT NOT NULL",
    "risk": "TEXT",
    "valid": "TEXT",
}
#: Columns that hold JSON.
NESTED = ("config", "risk", "valid")
#: The least and the largest value of columns that have them.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("valid_accuracy", "accuracy"), (0, 1)),
    **dict.fromkeys(("epochs", "best_epoch"), (1, math.inf)),
    **dict.fromkeys(("seed", "zeros", "seconds"), (0, math.inf)),
}
#: The column, or key, with a record's checksum; not part of the record itself.
SEAL = "sha256"
#: All records in the order of reports.
ALL_TRIALS = "SELECT * FROM trials ORDER BY dataset, model, config_key, seed"
#: Endings of files of records.
SUFFIXES = (".jsonl", ".parquet")

Record = dict[str, Any]


class RecordError(ValueError):
    """A file of records that cannot be what it should be."""


class CheckpointError(ValueError):
    """A checkpoint that a trial cannot go on from."""


def kernel_group(model: str, kernels: str) -> str:
    """What sets the arithmetic of a run's trials apart: "" for the usual kernels, else their name.

    ``auto`` and ``triton`` are the same on a GPU. Linear and MLP have no kernels to choose: there only float32 differs.
    """
    usual = ("auto", "triton", "compile", "plain") if model in FLAT_MODELS else ("auto", "triton")
    return "" if kernels in usual else kernels


def kernels_of(record: Record) -> str:
    """The kernel group of a finished trial, which its ``software`` ends with."""
    name = (record["software"] or "").partition(", kernels ")[2]
    return kernel_group(record["model"], name or "auto")


def damaged(error: sqlite3.Error) -> bool:
    """Whether a file is no database, or a torn one, rather than out of reach."""
    name = getattr(error, "sqlite_errorname", "")  # errors of the module itself have none
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
            there = {row["name"] for row in self.db.execute("PRAGMA table_info(trials)")}
            missing = sorted(set(COLUMNS) - there)
            if there and missing:
                raise not_a_store(self.path, f"its table of trials lacks {', '.join(missing)}")
            self.db.execute("PRAGMA journal_mode=WAL")
            with self.db:
                self.db.execute(f"CREATE TABLE IF NOT EXISTS trials ({columns}, {SEAL} TEXT)")
                if there and SEAL not in there:
                    self.db.execute(f"ALTER TABLE trials ADD COLUMN {SEAL} TEXT")
        except sqlite3.DatabaseError as error:
            self.db.close()
            if damaged(error):
                raise not_a_store(self.path, error) from error
            raise
        except RecordError:
            self.db.close()
            raise
        self.checkpoints.mkdir(exist_ok=True)
        sweep(self.checkpoints)

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    # --- finished trials ------------------------------------------------------------------------

    def add(self, records: Iterable[Record]) -> int:
        """Write records in one transaction; a trial that is there already stays as it is.

        A record that would be refused when it is read is refused here, and then none of them is written.
        """
        names = (*COLUMNS, SEAL)
        rows = []
        for number, given in enumerate(records, start=1):
            record = check_record(given, f"record {number} for {self.path}")
            rows.append((*(_encoded(record, name) for name in COLUMNS), checksum(record)))
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
        """An error that names the store, and the row where it can, if anything in it is damaged."""
        _all_rows(self.db, self.path)

    def refuse_other_kernels(self, config: TrialConfig, kernels: str) -> None:
        """An error if trials like these were made with other kernels: one cell must not hold both."""
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
            raise ValueError(f"expected columns of the store, got {', '.join(sorted(unknown))}")
        condition = " AND ".join(f"{name} = ?" for name in where) or "1"
        query = f"SELECT * FROM trials WHERE {condition} ORDER BY dataset, model, config_key, seed"
        return _checked(self.path, self.db.execute(query, tuple(where.values())).fetchall())

    # --- unfinished trials ----------------------------------------------------------------------

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
        made = header.get("kernels", "auto")
        if kernel_group(trial.config.model, made) != kernel_group(trial.config.model, kernels):
            raise CheckpointError(f"the checkpoint {path} was made with kernels {made}, expected {kernels}")
        return progress, state

    def forget(self, trial: Trial) -> None:
        """Remove a trial's checkpoint, if there is one."""
        self._checkpoint(trial).unlink(missing_ok=True)


def _progress(text: str | None, protocol: Protocol) -> Progress:
    """The progress in a checkpoint's header, which must follow from its epochs."""
    values = json.loads(text or "null")
    if not isinstance(values, dict):
        raise ValueError("its header says nothing of the trial's progress")
    usual = asdict(Progress())
    for name, value in values.items():
        if name not in usual or not isinstance(value, _KINDS[type(usual[name]).__name__]):
            raise ValueError(f"its progress has {name} = {_short(value)}")
    if not all(_is_number(v) and 0 <= v <= 1 for v in values.get("valid", [])):
        raise ValueError("its progress has accuracies that are not between 0 and 1")
    # a risk that had left the numbers is a text or null in JSON, and in the record null anyway
    risk = [v if _is_number(v) and math.isfinite(v) else math.nan for v in values.get("risk", [])]
    progress = Progress(**values | {"risk": risk})
    if len(risk) != len(progress.valid) or not 0 <= progress.seconds < math.inf:
        raise ValueError(f"its progress has {len(risk)} risks, {len(progress.valid)} accuracies")
    again = progress.replayed(protocol)
    for name in ("epoch", "best_accuracy", "best_epoch", "stale", "reductions"):
        if getattr(again, name) != getattr(progress, name):
            raise ValueError(f"its progress has {name} = {getattr(progress, name)}, expected {getattr(again, name)}")
    if progress.epoch < 1 or progress.finished(protocol):
        raise ValueError(f"its progress is that of no unfinished trial, after {progress.epoch} epochs")
    return progress


def checksum(record: Record) -> str:
    """The SHA-256 of a record's columns: the same before and after SQLite, JSON or Parquet, which keep all digits."""
    values = {n: float(v) if COLUMNS[n].startswith("REAL") and v is not None else v for n, v in record.items()}
    return hashlib.sha256(json_text(values, sort_keys=True).encode()).hexdigest()


def _encoded(record: Record, name: str) -> Any:
    value = record.get(name)
    return json_text(value, sort_keys=True) if name in NESTED else value


def _decoded(row: Any) -> Record:
    return {n: json.loads(row[n] or "null") if n in NESTED else row[n] for n in COLUMNS}


def read_store(folder: str | Path) -> list[Record]:
    """The records of a run's folder, which is left as it is: it may belong to someone else, or to a running run."""
    path = Path(folder) / "records.sqlite"
    # a log beside the file is there while a run writes; without one nothing changes, and SQLite needs no lock files
    mode = "mode=ro" if path.with_name(f"{path.name}-wal").exists() else "mode=ro&immutable=1"
    try:
        db = sqlite3.connect(f"file:{quote(str(path.resolve()))}?{mode}", uri=True, timeout=60)
        db.row_factory = sqlite3.Row
        try:
            return _all_rows(db, path)
        finally:
            db.close()
    except sqlite3.Error as error:
        if damaged(error) or "no such" in str(error):
            raise not_a_store(path, error) from error
        raise OSError(f"{path} cannot be read ({error})") from error


def _all_rows(db: sqlite3.Connection, path: Path) -> list[Record]:
    """Every record of a store, checked, after SQLite's own check of the file."""
    try:
        rows = db.execute(ALL_TRIALS).fetchall()
        (verdict,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    except (sqlite3.OperationalError, UnicodeDecodeError) as error:
        if isinstance(error, sqlite3.OperationalError) and "decode to UTF-8" not in str(error):
            raise
        raise not_a_store(path, f"damaged: {error}") from error
    records = _checked(path, rows)  # first, since it names the row
    if verdict != "ok":
        raise not_a_store(path, f"damaged: {verdict}")
    return records


def _checked(path: Path, found: Sequence[Any]) -> list[Record]:
    """The records in a store's rows, every one checked."""
    rows = []
    for number, row in enumerate(found, start=1):
        where = f"{path}, row {number}"
        missing = [name for name in COLUMNS if name not in row.keys()]  # noqa: SIM118
        if missing:
            raise not_a_store(path, f"its table of trials lacks {', '.join(missing)}")
        try:
            seal = row[SEAL] if SEAL in row.keys() else None  # noqa: SIM118
            rows.append(check_record(_decoded(row) | {SEAL: seal}, where))
        except (json.JSONDecodeError, TypeError, RecursionError) as error:
            raise RecordError(f"{where}: expected JSON in {', '.join(NESTED)}, got something else") from error
    return rows


# --- what a record must be ------------------------------------------------------------------------

#: A type's name in a dataclass -> what JSON may hold for it.
_KINDS: dict[str, Any] = {"int": int, "float": (int, float), "str": str, "bool": bool, "list": list, "dict": dict}


def _short(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


def check_record(row: Any, where: str) -> Record:
    """The record in its columns; an error says where it stands and what is wrong with it.

    The only rules there are: for records that are written, and for records that are read, wherever they come from.
    """
    if not isinstance(row, dict):
        raise RecordError(f"{where}: expected a record (a JSON object), got {_short(row)}")
    missing = [name for name in COLUMNS if name not in row]
    if missing:
        raise RecordError(f"{where}: a record lacks {', '.join(missing)}")
    record = {name: _value(name, row[name], where) for name in COLUMNS}
    if record["best_epoch"] > record["epochs"]:
        raise RecordError(f"{where}: expected best_epoch <= epochs = {record['epochs']}, got {record['best_epoch']}")
    trial = Trial(_config(record["config"], where), record["seed"])
    if trial.id != record["id"]:
        raise RecordError(f"{where}: the record {record['id']} does not match its configuration and seed")
    told = {"config_key": trial.config.key}
    told |= {n: getattr(trial.config, n) for n in COLUMNS if n != "config" and hasattr(trial.config, n)}
    for name, value in told.items():
        if record[name] != value:
            raise RecordError(f"{where}: expected {name} {_short(value)}, as configured, got {_short(record[name])}")
    if row.get(SEAL) is not None and row[SEAL] != checksum(record):
        raise RecordError(f"{where}: damaged or edited: the checksum of the record {record['id']} does not match")
    return record


def _value(name: str, value: Any, where: str) -> Any:
    """A column's value, of its type and within its limits; a number that is missing is None."""

    def wrong(expected: str) -> RecordError:
        return RecordError(f"{where}: expected {name} to be {expected}, got {_short(value)}")

    kind, *rest = COLUMNS[name].split()
    if name in NESTED:
        trace = value is None or (isinstance(value, list) and all(v is None or _is_number(v) for v in value))
        if name != "config" and not trace:
            raise wrong("a list of numbers")
        return value
    missing = value is None or (isinstance(value, float) and math.isnan(value))  # Parquet's null comes as either
    if missing and not rest:
        return None
    if kind == "TEXT":
        if not isinstance(value, str):
            raise wrong("text")
        return value
    low, high = LIMITS.get(name, (-math.inf, math.inf))
    expected = "a whole number" if kind == "INTEGER" else "a number"
    if name in LIMITS:
        expected += f" from {low:g} to {high:g}" if math.isfinite(high) else f" >= {low:g}"
    if not _is_number(value, whole=kind == "INTEGER") or not math.isfinite(value) or not low <= value <= high:
        raise wrong(expected)
    return value


def _is_number(value: object, whole: bool = False) -> bool:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:  # JSON has larger ones; the store does not
        return False
    return isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)


def _config(values: Any, where: str) -> TrialConfig:
    """A record's configuration: every field there, none besides, each of its type."""
    for cls, name, part in (
        (TrialConfig, "config", values),
        (Protocol, "protocol", values.get("protocol") if isinstance(values, dict) else None),
    ):
        if not isinstance(part, dict):
            raise RecordError(f"{where}: expected {name} to be a JSON object, got {_short(part)}")
        kinds = {field.name: str(field.type) for field in fields(cls)}
        unknown, missing = set(part) - set(kinds), set(kinds) - set(part) - set(LATER)
        if unknown or missing:
            wrong = [f"{n} besides" for n in sorted(unknown)] + [f"no {n}" for n in sorted(missing)]
            raise RecordError(f"{where}: expected the fields {', '.join(kinds)} in {name}, got {', '.join(wrong)}")
        for field, kind in kinds.items():
            if field in part and kind in _KINDS and not isinstance(part[field], _KINDS[kind]):
                raise RecordError(f"{where}: expected {field} in {name} of type {kind}, got {_short(part[field])}")
    if values["model"] not in BUILDERS:
        raise RecordError(f"{where}: expected a model among {', '.join(BUILDERS)}, got {_short(values['model'])}")
    try:
        return TrialConfig.from_dict(values)
    except ValueError as error:
        raise RecordError(f"{where}: {error}") from error


# --- records outside a store --------------------------------------------------------------------


def check_suffix(path: Path) -> None:
    """Refuse a file that is neither JSON lines nor Parquet."""
    if path.suffix not in SUFFIXES:
        raise RecordError(f"expected a file that ends in .jsonl or .parquet, got {path}")


def export_records(records: Iterable[Record], path: str | Path, since: Mark | str = "now") -> None:
    """Write records as JSON lines (``.jsonl``) or Parquet (``.parquet``, needs pandas and pyarrow), with checksums."""
    path = Path(path)
    check_suffix(path)
    rows = [check_record(row, f"record {number} for {path}") for number, row in enumerate(records, start=1)]
    if path.suffix == ".jsonl":
        lines = (json_text(row | {SEAL: checksum(row)}) for row in rows)
        write_file(path, "".join(f"{line}\n" for line in lines).encode(), since=since)
        return
    import pandas as pd

    flat = [{name: _encoded(row, name) for name in COLUMNS} | {SEAL: checksum(row)} for row in rows]
    table = pd.DataFrame(flat, columns=[*COLUMNS, SEAL])
    write_file(path, table.to_parquet(None, index=False), since=since)


def read_records(path: str | Path) -> list[Record]:
    """The records of one file, each checked; its id must follow from its configuration and seed."""
    path = Path(path)
    check_suffix(path)
    return _parquet_records(path) if path.suffix == ".parquet" else _json_records(path)


def _json_records(path: Path) -> list[Record]:
    rows = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            rows.append(check_record(json.loads(line), where))
        except json.JSONDecodeError as error:
            raise RecordError(
                f"{where}: expected JSON, got something else ({error.msg}, column {error.colno})"
            ) from error
        except UnicodeDecodeError as error:
            raise RecordError(f"{where}: expected JSON in UTF-8, got other bytes") from error
        except RecursionError as error:
            raise RecordError(f"{where}: expected a record, got JSON that is nested too deeply") from error
    return rows


def _parquet_records(path: Path) -> list[Record]:
    import pyarrow
    import pyarrow.parquet

    try:
        flat = pyarrow.parquet.ParquetFile(path).read().to_pylist()
    except (pyarrow.ArrowException, OSError) as error:
        raise RecordError(f"{path}: expected a Parquet file, got something else ({error})") from error
    rows = []
    for number, row in enumerate(flat, start=1):
        where = f"{path}, row {number}"
        for name in set(COLUMNS) & set(row):
            if name in NESTED:
                try:
                    row[name] = json.loads(row[name] or "null")
                except (TypeError, ValueError, RecursionError) as error:
                    raise RecordError(f"{where}: expected JSON in {name}, got {_short(row[name])}") from error
            elif COLUMNS[name].startswith("INTEGER") and isinstance(row[name], float) and row[name].is_integer():
                row[name] = int(row[name])  # a column of whole numbers with a null is written as floats
        rows.append(check_record(row, where))
    return rows


def gather(source: str | Path) -> list[Record]:
    """The records of one file, or of every ``.jsonl`` and ``.parquet`` file of a folder; each trial once.

    Copies of a record count once. Two records of a trial that differ cannot both be right, unless their kernels differ.
    """
    source = Path(source)
    if not source.exists():
        raise RecordError(f"expected a file or folder of records, got {source}, which is not there")
    files = [source]
    if source.is_dir():
        files = sorted(path for path in source.iterdir() if path.suffix in SUFFIXES)
    found: dict[tuple[str, str], Record] = {}
    differing: dict[str, None] = {}
    for file in files:
        for row in read_records(file):
            if found.setdefault((row["id"], kernels_of(row)), row) != row:
                differing[row["id"]] = None
    if differing:
        raise RecordError(f"{source}: expected one record a trial, got records that differ of {', '.join(differing)}")
    return list(found.values())


def import_records(store: Store, source: str | Path) -> int:
    """Take in a file or folder of records: all of it, or nothing if anything is wrong with it."""
    return store.add(gather(source))


def significant(value: float, digits: int = 6) -> float | None:
    """A float with few digits, so that traces stay small; None where training left the numbers."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def machine(device: torch.device) -> str:
    """What a trial ran on: its GPU's name, or its processor's architecture."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU {platform.machine()}"
