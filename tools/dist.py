"""Wheels and sdists of both packages, made twice: equal bytes, metadata that render, no file that git does not know.

python tools/dist.py [--out dist]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"tproper": ROOT, "tproper_lab": ROOT / "lab"}
EPOCH = "1735689600"  # the date of every file in the archives (1 January 2025), so that equal trees give equal bytes
LARGEST = 2_000_000  # bytes of an archive


def built(folder: Path) -> dict[str, str]:
    """Build both packages into `folder`; name -> SHA-256 of each archive."""
    for source in PACKAGES.values():
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(source)]
        run = subprocess.run(command, env={**os.environ, "SOURCE_DATE_EPOCH": EPOCH}, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"make dist: {source.name} could not be built\n{run.stdout}{run.stderr}")
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def members(archive: Path) -> list[str]:
    """The files of a wheel, or of an sdist without its leading folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return sorted(wheel.namelist())
    with tarfile.open(archive) as sdist:
        return sorted(member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile())


def tracked(source: Path) -> set[str]:
    """The files that git knows below a package's folder, by their paths in it."""
    listed = subprocess.run(["git", "ls-files"], cwd=source, capture_output=True, text=True, check=True).stdout
    return set(listed.splitlines())


def strays(name: str, archive: Path) -> list[str]:
    """What is in an archive and not in the repository, metadata apart."""
    known = tracked(PACKAGES[name])
    prefix = "src/" if archive.suffix == ".whl" else ""
    made = lambda path: ".dist-info/" in path or path in ("PKG-INFO", ".gitignore")  # noqa: E731
    return [path for path in members(archive) if prefix + path not in known and not made(path)]


def main() -> int:
    """Build, compare, check, list."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        hashes, again = built(Path(first)), built(Path(second))
        if hashes != again:
            raise SystemExit(f"make dist: two builds differ: {sorted(n for n in hashes if hashes[n] != again.get(n))}")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(first, out)
    archives = sorted(out.iterdir())
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *map(str, archives)], check=True)
    for archive in archives:
        name = archive.name.partition("-")[0]
        if found := strays(name, archive):
            raise SystemExit(f"make dist: {archive.name} holds files that are not in the repository: {found[:5]}")
        if (size := archive.stat().st_size) > LARGEST:
            raise SystemExit(f"make dist: {archive.name} has {size:,} bytes, more than {LARGEST:,}")
        print(f"{archive.name}: {len(members(archive))} files, {size:,} bytes, sha256 {hashes[archive.name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
