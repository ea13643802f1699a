"""What a record of a finished trial is: its columns, the rules it must obey, its checksum.

Every record is checked by the same rules before it is written and when it is read. Records that were written
before there were checksums have none, and are read without.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import torch

from tproper.errors import InputError
from tproper.extension import json_text

from .datasets import dataset_names
from .models import FLAT_MODELS, model_names
from .problems import Problem, shortened
from .protocol import LATER, LATER_IN_PROTOCOL, RULES, Protocol, Trial, TrialConfig

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
    "weak": "TEXT",
    "selections": "TEXT",
}
#: Columns that hold JSON.
NESTED = ("config", "risk", "valid", "weak", "selections")
#: Columns that trials of a benchmark alone have; older records lack them, and keep their checksums.
LATER_COLUMNS = ("weak", "selections")
#: The least and the largest value of columns that have them.
LIMITS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(("valid_accuracy", "accuracy"), (0, 1)),
    **dict.fromkeys(("epochs", "best_epoch"), (1, math.inf)),
    **dict.fromkeys(("seed", "zeros", "seconds"), (0, math.inf)),
}
#: The parts of a selection: scores as trained, and after calibration by weak or clean labels.
PARTS = ("raw", "by_weak", "by_clean")
#: The column, or key, with a record's checksum; not part of the record itself.
SEAL = "sha256"

Record = dict[str, Any]


class RecordError(InputError):
    """A file of records that cannot be what it should be."""


def kernel_group(model: str, kernels: str) -> str:
    """What tells the arithmetic of a run's trials apart: "" for the usual kernels, else their name.

    ``auto`` and ``triton`` are the same on a GPU. Linear and MLP have no kernels to choose: there only float32 differs.
    """
    usual = ("auto", "triton", "compile", "plain") if model in FLAT_MODELS else ("auto", "triton")
    return "" if kernels in usual else kernels


def kernels_of(record: Record) -> str:
    """The kernel group of a finished trial, which its ``software`` ends with."""
    name = (record["software"] or "").partition(", kernels ")[2]
    return kernel_group(record["model"], name or "auto")


def first_revision(records: Sequence[Record]) -> str | None:
    """The revision of the code that made the oldest of some records."""
    revision: str | None = min(records, key=lambda r: r["finished_at"] or "")["revision"]
    return revision


def least_weak_risk(record: Record) -> float:
    """What learning rates are compared by: infinite where training diverged."""
    return min((risk for risk in record.get("weak") or [] if risk is not None), default=math.inf)


def rate_of_least_risk(risks: Mapping[float, Sequence[float]]) -> float:
    """Of learning rates with the weak risks of their trials, the one with the least mean; ties go to the smaller."""
    return min(risks, key=lambda rate: (sum(risks[rate]) / len(risks[rate]), rate))


def checksum(record: Record) -> str:
    """The SHA-256 of a record's columns: the same before and after SQLite, JSON or Parquet, which keep all digits."""
    values = {n: float(v) if COLUMNS[n].startswith("REAL") and v is not None else v for n, v in record.items()}
    return hashlib.sha256(json_text(values, sort_keys=True).encode()).hexdigest()


def encoded(record: Record, name: str) -> Any:
    """A column's value as SQLite and Parquet hold it."""
    value = record.get(name)
    return json_text(value, sort_keys=True) if name in NESTED else value


def decoded(row: Any) -> Record:
    """The record in a row of SQLite."""
    there = [n for n in COLUMNS if n in row.keys()]  # noqa: SIM118
    return {n: json.loads(row[n] or "null") if n in NESTED else row[n] for n in there}


#: A type's name in a dataclass -> what JSON may hold for it.
KINDS: dict[str, Any] = {"int": int, "float": (int, float), "str": str, "bool": bool, "list": list, "dict": dict}


def short(value: object) -> str:
    """A value in a message."""
    return shortened(json.dumps(value, default=str))


def check_record(row: Any, where: str) -> Record:
    """The record in its columns; an error says where it stands and what is wrong with it.

    All records are held to these rules, when they are written and when they are read, wherever they come from.
    """
    if not isinstance(row, dict):
        raise RecordError(f"{where}: expected a record (a JSON object), got {short(row)}")
    missing = [name for name in COLUMNS if name not in row and name not in LATER_COLUMNS]
    if missing:
        raise RecordError(f"{where}: a record lacks {', '.join(missing)}")
    names = [name for name in COLUMNS if name not in LATER_COLUMNS or row.get(name) is not None]
    record = {name: _value(name, row[name], where) for name in names}
    if record["best_epoch"] > record["epochs"]:
        raise RecordError(f"{where}: expected best_epoch <= epochs = {record['epochs']}, got {record['best_epoch']}")
    trial = Trial(_config(record["config"], where), record["seed"])
    if trial.id != record["id"]:
        raise RecordError(f"{where}: the record {record['id']} does not match its configuration and seed")
    configured = {"config_key": trial.config.key}
    configured |= {n: getattr(trial.config, n) for n in COLUMNS if n != "config" and hasattr(trial.config, n)}
    for name, value in configured.items():
        if record[name] != value:
            raise RecordError(f"{where}: expected {name} {short(value)}, as configured, got {short(record[name])}")
    if trial.config.problem is not None:
        _check_benchmark(record, where)
    if row.get(SEAL) is not None and row[SEAL] != checksum(record):
        raise RecordError(f"{where}: damaged or edited: the checksum of the record {record['id']} does not match")
    return record


def _value(name: str, value: Any, where: str) -> Any:
    """A column's value, of its type and within its limits; a number that is missing is None."""

    def wrong(expected: str) -> RecordError:
        return RecordError(f"{where}: expected {name} to be {expected}, got {short(value)}")

    kind, *rest = COLUMNS[name].split()
    if name == "selections":
        return _selections(value, where)
    if name in NESTED:
        trace = value is None or (isinstance(value, list) and all(v is None or is_number(v) for v in value))
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
    if not is_number(value, whole=kind == "INTEGER") or not math.isfinite(value) or not low <= value <= high:
        raise wrong(expected)
    return value


def _selections(value: Any, where: str) -> Any:
    """Test scores by rule: finite numbers, and objects of such numbers and the name of a map."""
    if not isinstance(value, dict) or not set(value) <= set(RULES):
        raise RecordError(f"{where}: expected selections by {' or '.join(RULES)}, got {short(value)}")
    for rule, scores in value.items():
        flat = dict(scores) if isinstance(scores, dict) else {"": scores}
        for part in PARTS:
            inner = flat.pop(part, {})
            if not isinstance(inner, dict):
                raise RecordError(f"{where}: expected {part} in the selection {rule} to be scores, got {short(inner)}")
            named = {f"{part} {k}": v for k, v in inner.items() if k != "method" or not isinstance(v, str)}
            accuracy: Any = named.get(f"{part} accuracy")
            if is_number(accuracy) and not 0 <= accuracy <= 1:
                raise RecordError(
                    f"{where}: expected {part} accuracy in the selection {rule} from 0 to 1, got {short(accuracy)}"
                )
            flat |= named
        wrong = [name for name, v in flat.items() if v is not None and not (is_number(v) and math.isfinite(v))]
        if wrong or not is_number(flat.get("epoch"), whole=True):
            what = wrong[0] if wrong else "epoch"
            raise RecordError(f"{where}: expected numbers in the selection {rule}, got {what} {short(flat.get(what))}")
    return value


def _check_benchmark(record: Record, where: str) -> None:
    """What a trial of a benchmark also has: a weak risk for every epoch, and the scores at the epoch of either rule."""
    epochs, traces = record["epochs"], {"weak": record.get("weak"), "selections": record.get("selections")}
    missing = [name for name, value in traces.items() if value is None]
    missing += [f"the selection {rule}" for rule in RULES if rule not in (traces["selections"] or RULES)]
    if missing:
        raise RecordError(f"{where}: a record of a benchmark lacks {', '.join(missing)}")
    if len(record["weak"]) != epochs:
        raise RecordError(f"{where}: expected weak to have {epochs} numbers, one per epoch, got {len(record['weak'])}")
    for rule in RULES:
        epoch = record["selections"][rule]["epoch"]
        if not 1 <= epoch <= epochs:
            raise RecordError(f"{where}: expected the epoch of the selection {rule} in [1, {epochs}], got {epoch}")


def is_number(value: object, whole: bool = False) -> bool:
    """Whether JSON held a number, or a whole one; true and false do not count."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:  # JSON has larger ones; the store does not
        return False
    return isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)


def _config(values: Any, where: str) -> TrialConfig:
    """A record's configuration: every field there, none besides, each of its type."""
    for cls, name, part in (
        (TrialConfig, "config", values),
        (Protocol, "protocol", values.get("protocol") if isinstance(values, dict) else None),
        (Problem, "problem", values.get("problem") if isinstance(values, dict) else None),
    ):
        if cls is Problem and part is None:
            continue  # the paper's
        if not isinstance(part, dict):
            raise RecordError(f"{where}: expected {name} to be a JSON object, got {short(part)}")
        kinds = {field.name: str(field.type) for field in fields(cls)}
        unknown, missing = set(part) - set(kinds), set(kinds) - set(part) - {*LATER, *LATER_IN_PROTOCOL}
        if unknown or missing:
            wrong = [f"{n} besides" for n in sorted(unknown)] + [f"no {n}" for n in sorted(missing)]
            raise RecordError(f"{where}: expected the fields {', '.join(kinds)} in {name}, got {', '.join(wrong)}")
        for field, kind in kinds.items():
            value: Any = part.get(field)
            of_kind = kind not in KINDS or isinstance(value, KINDS[kind])
            if field in part and not (of_kind and (kind != "float" or math.isfinite(value))):
                raise RecordError(f"{where}: expected {field} in {name} of type {kind}, got {short(value)}")
    for name, what, known in (("model", "a model", model_names()), ("dataset", "a data set", dataset_names())):
        if values[name] not in known:
            raise RecordError(f"{where}: expected {what} among {', '.join(known)}, got {short(values[name])}")
    try:
        return TrialConfig.from_dict(values)
    except ValueError as error:
        raise RecordError(f"{where}: {error}") from error


def significant(value: float | None) -> float | None:
    """A float with six digits, so that traces stay small; None where there is none, or it is not finite."""
    return None if value is None or not math.isfinite(value) else float(f"{value:.6g}")


def machine(device: torch.device) -> str:
    """What a trial ran on: its GPU's name, or its processor's architecture."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"CPU {platform.machine()}"
