"""Finished trials as rows of SQLite, unfinished ones as checkpoints; both survive a kill at any moment.

``records.sqlite`` in the run's folder has one row a finished trial, written once in one transaction
(WAL). ``checkpoints/<trial>.safetensors`` holds an unfinished trial: its tensors, and its progress as
JSON in the header; a file is written under another name, synced and renamed, so there is always a
whole one. ``export_records`` and ``import_records`` move rows as JSON lines or Parquet, so that a run
can go on from records that were committed.
"""

from __future__ import annotations

import json
import math
import os
import platform
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from tproper.lab.models import Tensors
from tproper.lab.protocol import Progress, Trial, TrialConfig

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

Record = dict[str, Any]


class RecordError(ValueError):
    """A file of records that cannot be what it should be."""


class Store:
    """The records and checkpoints of one run's folder."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.checkpoints = self.folder / "checkpoints"
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.path = self.folder / "records.sqlite"
        self.db = sqlite3.connect(self.path, timeout=60)
        self.db.row_factory = sqlite3.Row
        self.db.execute("PRAGMA journal_mode=WAL")
        columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        with self.db:
            self.db.execute(f"CREATE TABLE IF NOT EXISTS trials ({columns})")

    def close(self) -> None:
        """Close the database."""
        self.db.close()

    # --- finished trials ------------------------------------------------------------------------

    def add(self, records: Iterable[Record]) -> int:
        """Write records in one transaction; a trial that is there already stays as it is."""
        before = self.db.total_changes
        marks = ", ".join("?" for _ in COLUMNS)
        with self.db:
            self.db.executemany(
                f"INSERT INTO trials ({', '.join(COLUMNS)}) VALUES ({marks}) ON CONFLICT (id) DO NOTHING",
                [tuple(_encoded(record, name) for name in COLUMNS) for record in records],
            )
        return self.db.total_changes - before

    def done(self) -> set[str]:
        """The ids of all finished trials."""
        return {row["id"] for row in self.db.execute("SELECT id FROM trials")}

    def records(self, **where: Any) -> list[Record]:
        """Rows whose columns have the given values, in order of configuration and seed."""
        unknown = set(where) - set(COLUMNS)
        if unknown:
            raise ValueError(f"expected columns of the store, got {', '.join(sorted(unknown))}")
        condition = " AND ".join(f"{name} = ?" for name in where) or "1"
        query = f"SELECT * FROM trials WHERE {condition} ORDER BY dataset, model, config_key, seed"
        return [_decoded(row) for row in self.db.execute(query, tuple(where.values()))]

    # --- unfinished trials ----------------------------------------------------------------------

    def _checkpoint(self, trial: Trial) -> Path:
        return self.checkpoints / f"{trial.id}.safetensors"

    def save(self, trial: Trial, progress: Progress, state: Tensors) -> None:
        """Replace a trial's checkpoint, atomically."""
        from safetensors.torch import save

        header = {"progress": json.dumps(asdict(progress))}
        content = save({name: t.contiguous() for name, t in state.items()}, metadata=header)
        replace(self._checkpoint(trial), content)

    def restore(self, trial: Trial) -> tuple[Progress, Tensors] | None:
        """A trial's progress and tensors, or None if it has no checkpoint."""
        from safetensors import safe_open

        path = self._checkpoint(trial)
        if not path.exists():
            return None
        with safe_open(path, framework="pt", device="cpu") as file:
            progress = Progress(**json.loads(file.metadata()["progress"]))
            return progress, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118

    def forget(self, trial: Trial) -> None:
        """Remove a trial's checkpoint, if there is one."""
        self._checkpoint(trial).unlink(missing_ok=True)


def replace(path: Path, content: bytes) -> None:
    """Write a file so that its name always holds either the old content or the new, whole."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(draft, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _encoded(record: Record, name: str) -> Any:
    value = record.get(name)
    return json.dumps(value, sort_keys=True) if name in NESTED else value


def _decoded(row: sqlite3.Row) -> Record:
    return {n: json.loads(row[n] or "null") if n in NESTED else row[n] for n in COLUMNS}


# --- records outside a store --------------------------------------------------------------------


def export_records(records: Iterable[Record], path: str | Path) -> None:
    """Write records as JSON lines (``.jsonl``) or Parquet (``.parquet``, needs pandas and pyarrow)."""
    path = Path(path)
    rows = list(records)
    if path.suffix == ".jsonl":
        lines = (json.dumps({name: row[name] for name in COLUMNS}) for row in rows)
        replace(path, "".join(f"{line}\n" for line in lines).encode())
    elif path.suffix == ".parquet":
        import pandas as pd

        flat = [{name: _encoded(row, name) for name in COLUMNS} for row in rows]
        replace(path, pd.DataFrame(flat, columns=list(COLUMNS)).to_parquet(None, index=False))
    else:
        raise RecordError(f"expected a file that ends in .jsonl or .parquet, got {path}")


def read_records(path: str | Path) -> list[Record]:
    """The records of one file, each checked: its id must follow from its configuration and seed."""
    path = Path(path)
    if path.suffix == ".parquet":
        import pandas as pd

        rows = pd.read_parquet(path).astype(object).to_dict("records")
        rows = [{n: json.loads(r[n]) if n in NESTED else r[n] for n in COLUMNS} for r in rows]
    elif path.suffix == ".jsonl":
        try:
            rows = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
        except json.JSONDecodeError as error:
            raise RecordError(f"{path} is not a file of JSON lines ({error})") from error
    else:
        raise RecordError(f"expected a file that ends in .jsonl or .parquet, got {path}")
    for row in rows:
        missing = set(COLUMNS) - set(row)
        if missing:
            raise RecordError(f"{path}: a record lacks {', '.join(sorted(missing))}")
        trial = Trial(TrialConfig.from_dict(row["config"]), int(row["seed"]))
        if trial.id != row["id"]:
            raise RecordError(f"{path}: the record {row['id']} does not match its configuration")
    return rows


def import_records(store: Store, source: str | Path) -> int:
    """Take in a file of records, or every ``.jsonl`` and ``.parquet`` file of a folder."""
    source = Path(source)
    if not source.exists():
        raise RecordError(f"expected a file or folder of records, got {source}, which is not there")
    files = [source]
    if source.is_dir():
        files = sorted([*source.glob("*.jsonl"), *source.glob("*.parquet")])
    return sum(store.add(read_records(file)) for file in files)


def significant(value: float, digits: int = 6) -> float | None:
    """A float with few digits, so that traces stay small; None where training left the numbers."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def machine(device: torch.device) -> str:
    """What a trial ran on: its GPU's name, or its processor's architecture."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU {platform.machine()}"
