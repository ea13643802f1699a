"""python -m tests.fuzz [--seconds 600] [--seed N] [--only NAME[,NAME]] [--cases N]

Runs the checks in turn, with ever new seeds, until the time is over. A failure names its check and seed;
``--only NAME --seed N --cases 1`` runs it again. Without --seed the day's number is the first seed.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import torch

from . import commands, files, numeric, structure  # noqa: F401  (they register their checks)
from .harness import CHECKS, run_case

MEMORY = 8 << 30  # bytes of address space: what asks for more is a fault, and shall not take the machine with it


def main() -> int:
    """Exit code 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86400 * 1_000_000)
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", type=int, default=0, help="of each check; 0: until the time is over")
    asked = parser.parse_args()
    names = asked.only.split(",") if asked.only else list(CHECKS)
    unknown = [name for name in names if name not in CHECKS]
    if unknown:
        parser.error(f"--only: expected some of {', '.join(CHECKS)}, got {', '.join(unknown)}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.RLIM_INFINITY))
    torch.set_num_threads(1)
    print(f"first seed {asked.seed}, {asked.seconds:g} s, checks: {', '.join(names)}", flush=True)
    end, cases, failures = time.monotonic() + asked.seconds, dict.fromkeys(names, 0), 0
    seed = asked.seed
    while time.monotonic() < end and (not asked.cases or seed < asked.seed + asked.cases):
        for name in names:
            if time.monotonic() > end:
                break
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="tproper-fuzz-") as folder:
                wrong = run_case(name, seed, Path(folder))
            took = time.monotonic() - began
            cases[name] += 1
            if wrong is not None:
                failures += 1
                print(f"\nFAILED {name} --seed {seed}\n{wrong}", flush=True)
            elif took > 30:
                print(f"slow: {name} --seed {seed}: {took:.0f} s", flush=True)
        seed += 1
    print(f"{sum(cases.values())} cases ({', '.join(f'{n} {c}' for n, c in cases.items())}), {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
