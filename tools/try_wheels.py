"""What a stranger does first: a fresh environment, the wheels alone, the README's code, commands, then the extras.

    python tools/try_wheels.py dist/ [--python python3.12] [--bare] [--pinned | --borrow]

`--bare` leaves the extras and the lab out. The environment is thrown away. With `--pinned` versions are those of
constraints.txt, else the newest that the wheels' own metadata allow. With `--borrow` the environment sees the packages
of the Python that runs this instead of fetching any, and of tproper the wheels alone: that takes seconds.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

TABLE = """
import numpy as np, pandas as pd
rng = np.random.default_rng(0)
x = rng.normal(size=(400, 2))
label = np.where((x[:, 0] > 0) ^ (rng.random(400) < 0.2), "yes", "no")
pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "label": label}).to_csv("t.csv", index=False)
"""
TRAIN = "tproper train t.csv --label label --transition symmetric:2,0.2 --classes no,yes --out model"
# What each extra is for, in this order, all in one environment.
EXTRAS: dict[str, list[list[str]]] = {
    "plots": [["tproper", "inspect", "partial:3,0.1", "--plot", "simplex.png"]],
    "tables": [
        ["python", "-c", TABLE],
        TRAIN.split(),
        ["tproper", "predict", "model", "t.csv", "--out", "p.csv"],
        ["tproper", "evaluate", "model", "t.csv", "--label", "label"],
    ],
}
ALWAYS = [
    ["tproper", "--version"],
    ["tproper", "--help"],
    ["tproper", "inspect", "complementary:10"],
    ["tproper", "doctor"],
]
LAB = [["tproper", "reproduce", "--help"], ["tproper", "bench", "--help"], ["tproper", "report", "--help"]]


def first_python(readme: str) -> str:
    """The README's first block of Python: what a stranger copies."""
    return re.findall(r"^```python\n(.*?)^```", readme, flags=re.M | re.S)[0]


class Environment:
    """A virtual environment, and a folder to work in."""

    def __init__(self, folder: Path, python: str, pins: list[str], borrow: bool) -> None:
        self.bin, self.work, self.pins = folder / "env" / "bin", folder / "work", pins
        self.work.mkdir()
        subprocess.run([python, "-m", "venv", str(folder / "env")], check=True)
        if (
            borrow
        ):  # a .pth file names one more folder of packages; the .pth files in that one (tproper's own) are not read
            self.pins = ["--no-deps", "--force-reinstall"]
            (own,) = (folder / "env" / "lib").glob("python*/site-packages")
            (own / "borrowed.pth").write_text(sysconfig.get_path("purelib"))

    def install(self, *what: str) -> None:
        """pip install, quietly."""
        command = [
            str(self.bin / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *self.pins,
            *what,
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"try_wheels: pip install {' '.join(what)} failed\n{done.stderr[-3000:]}")

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment in the working folder."""
        return subprocess.run([str(self.bin / command[0]), *command[1:]], cwd=self.work, capture_output=True, text=True)

    def must(self, command: list[str]) -> None:
        """The same, which has to succeed; says how long it took."""
        start = time.monotonic()
        done = self.run(command)
        if done.returncode:
            said = done.stdout[-2000:] + done.stderr[-3000:]
            raise SystemExit(f"try_wheels: {' '.join(command)[:200]}: exit code {done.returncode}\n{said}")
        print(f"  {time.monotonic() - start:5.1f} s  {' '.join(command)[:100]}", flush=True)


def main() -> int:
    """Install, try, and say how long each step took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--borrow", action="store_true")
    options = parser.parse_args()
    wheels = {path.name.partition("-")[0]: path.resolve() for path in options.dist.glob("*.whl")}
    pins = ["-c", str(ROOT / "constraints.txt")] if options.pinned else []
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        env = Environment(Path(folder), options.python, pins, options.borrow)
        env.install(str(wheels["tproper"]))
        print(f"installed in {time.monotonic() - start:.0f} s: pip install {wheels['tproper'].name}")
        for command in ALWAYS:
            env.must(command)
        env.must(["python", "-c", first_python((ROOT / "README.md").read_text(encoding="utf-8"))])
        # (borrowed packages may bring the entry points of a lab that is installed there)
        missing = env.run(["tproper", "report", "x"])
        if not options.borrow and (missing.returncode != 2 or "pip install" not in missing.stderr):
            raise SystemExit(
                f"try_wheels: a command of the lab without the lab must say what to install, got\n{missing.stderr}"
            )
        if options.bare:
            return 0
        for extra, commands in EXTRAS.items():
            env.install(f"{wheels['tproper']}[{extra}]")
            print(f"with the extra {extra}:")
            for command in commands:
                env.must(command)
        env.install(str(wheels["tproper_lab"]))
        print("with the lab:")
        for command in LAB:
            env.must(command)
    print(f"all in {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
