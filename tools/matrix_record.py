"""Keep what a row of the test matrix did: ``python tools/matrix_record.py ROW LOG``, run by the row's own Python.

The counts are those of pytest's last line in LOG. The record is ``benchmarks/records/matrix.json``; the table in
CONTRIBUTING.md is made from it by ``docs/generate.py``.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from datetime import date
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "benchmarks" / "records" / "matrix.json"
PACKAGES = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "pyarrow", "matplotlib", "typer", "rich", "ray")


def counts(log: str) -> dict[str, float]:
    """Tests by what came of them, and the seconds: ``8954 passed, 30 skipped in 1872.31s (0:31:12)``."""
    ends = re.findall(r"^(?:=+ )?((?:\d+ \w+, )*\d+ \w+) in ([\d.]+)s", log, flags=re.M)
    if not ends:
        raise SystemExit("matrix_record: expected pytest's last line with its counts, got none: it did not end")
    words, seconds = ends[-1]
    found = {word: int(n) for n, word in re.findall(r"(\d+) (\w+)", words) if not word.startswith("warning")}
    return {**found, "seconds": round(float(seconds))}


def main() -> None:
    row, log = sys.argv[1:]
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    record[row] = {
        "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES},
        "tests": counts(Path(log).read_text()),
        "commit": commit,
        "date": date.today().isoformat(),
    }
    RECORD.write_text(json.dumps(dict(sorted(record.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
