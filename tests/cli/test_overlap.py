"""`evaluate` says when a table holds rows that the model was trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import blobs

pytest.importorskip("pyarrow")

from tproper.tables.overlap import Overlap, kept_digests, repeated_rows

WARNING = "this table holds rows that the model was trained on"


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def test_training_rows_are_told_of(workshop: Path, tmp_path: Path, run: Callable[..., Any]) -> None:
    header, *rows = lines(workshop / "weak.csv")
    label = header.split(",")[-1]
    blobs(tmp_path / "other.csv", rows=100, seed=9)  # clean labels are read as weak ones; nobody looks at the scores
    half = [*rows[::-2], *lines(tmp_path / "other.csv")[1:]]
    (tmp_path / "half.csv").write_text("\n".join([header, *half]) + "\n")
    (tmp_path / "other.csv").write_text("\n".join([header, *lines(tmp_path / "other.csv")[1:]]) + "\n")
    told = []
    for table in (workshop / "weak.csv", tmp_path / "half.csv", tmp_path / "other.csv"):
        result = run("evaluate", workshop / "model", table, "--label", label, "--json")
        assert result.exit_code == 0, result.output
        told.append(json.loads(result.stdout)["overlap"])
        assert (WARNING in result.stderr) == (told[-1] is not None)
    kept = len(json.loads((workshop / "model" / "model.json").read_text())["extra"]["table"]["digests"])
    assert 200 < kept <= 240
    assert told[0].startswith(f"{WARNING} (it has {kept} of the {kept} digests of such rows")
    assert told[1].startswith(WARNING)
    assert told[2] is None


def test_a_small_part_of_the_training_rows_is_told_of_and_a_few_of_them_among_many_are_not() -> None:
    X = np.random.default_rng(0).standard_normal((6000, 3))
    overlap = Overlap(kept_digests(X[:4000]))
    overlap.add(X[100:300])
    assert overlap.warning() is not None  # a twentieth of what was trained on, but all of this table
    overlap = Overlap(kept_digests(X[:4000]))
    overlap.add(X[3900:])
    assert overlap.warning() is None  # a twentieth of this table


def test_digests_are_those_of_the_numbers() -> None:
    X = np.random.default_rng(0).standard_normal((500, 3))
    kept = kept_digests(X)
    assert kept_digests(np.asfortranarray(X)[::-1]) == kept
    for other in (X[:, ::-1], np.nextafter(X, 9)):  # the order of columns counts, and the last bit
        overlap = Overlap(kept)
        overlap.add(other)
        assert overlap.warning() is None
    assert kept_digests(np.arange(20.0)[:, None]) == kept_digests(
        np.where(np.arange(20) == 0, -0.0, np.arange(20.0))[:, None]
    )


@pytest.mark.parametrize(("n", "values"), [(100, 2000), (2000, 30_000), (20_000, 400_000)])
def test_a_list_of_possible_rows_does_not_tell_which_were_trained_on(n: int, values: int) -> None:
    """One feature of few digits, the easiest to guess: of the rows that match, training rows are not the most."""
    every = np.arange(values) / 100
    chosen = np.random.default_rng(1).choice(values, n, replace=False)
    kept = kept_digests(every[chosen, None])
    assert max(map(len, kept)) <= 5  # 20 bits
    length, digests = len(kept[0]), {int(digest, 16) for digest in kept}
    matching = [v for v in range(values) if int(blake2b(every[v], digest_size=8).hexdigest()[:length], 16) in digests]
    assert 0 < np.isin(matching, chosen).mean() < 0.75


def test_other_rows_are_not_suspected() -> None:
    suspected = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, m, repeated = int(rng.integers(20, 3000)), int(rng.integers(1, 20_000)), int(rng.integers(1, 9))
        overlap = Overlap(kept_digests(rng.standard_normal((n, 2))))
        overlap.add(np.repeat(rng.standard_normal((m // repeated + 1, 2)), repeated, axis=0))
        suspected += overlap.warning() is not None
    assert suspected == 0  # one in ten thousand is


def test_rows_that_are_alike_by_chance_are_not_counted() -> None:
    assert kept_digests(np.random.default_rng(0).integers(3, size=(500, 2)).astype(float)) == []
    assert kept_digests(np.ones((5, 2))) == []
    overlap = Overlap(kept_digests(np.arange(100.0)[:, None]))
    overlap.add(np.arange(95.0, 200.0)[:, None])
    assert overlap.warning() is None  # a twentieth
    overlap.add(np.arange(60.0)[:, None])
    assert overlap.warning() is not None


def test_rows_with_the_features_of_others_are_told_of_unless_groups_are_named() -> None:
    rng = np.random.default_rng(3)
    X = rng.standard_normal((300, 3))
    assert repeated_rows(X, X) == ""
    twice = np.vstack([X, X[:40]])
    two = repeated_rows(twice, twice)
    assert "40 of 340 rows have exactly the features of another row" in two
    assert "--group" in two
    few = rng.integers(0, 4, (300, 3)).astype(float)  # so few values that rows are alike by chance
    assert repeated_rows(few, few) == ""


def test_train_says_so(tmp_path: Path, run: Callable[..., Any]) -> None:
    rng = np.random.default_rng(4)
    z = np.repeat(rng.integers(0, 2, 60), 3)
    X = np.repeat(rng.standard_normal((60, 2)), 3, axis=0) + z[:, None]
    y = np.where(rng.random(180) < 0.2, 1 - z, z)
    rows = [f"{a:.6f},{b:.6f},{['no', 'yes'][k]},{i // 3}" for i, ((a, b), k) in enumerate(zip(X, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,label,person", *rows]) + "\n")
    common = ("train", tmp_path / "t.csv", "--label", "label", "--transition", "symmetric:0.2", "--out")
    alone = run(*common, tmp_path / "m", "--ignore", "person")
    assert alone.exit_code == 0, alone.output
    assert "120 of 180 rows have exactly the features of another row" in " ".join((alone.stdout + alone.stderr).split())
    grouped = run(*common, tmp_path / "g", "--group", "person")
    assert grouped.exit_code == 0, grouped.output
    assert "the features of another row" not in grouped.stdout + grouped.stderr
