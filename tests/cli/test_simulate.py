"""`tproper simulate`: weak labels with the transition's own frequencies, the same for the same seed in every format."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pacsv = pytest.importorskip("pyarrow.csv")

from tproper.cli.main import app  # noqa: E402
from tproper.tables import streaming as _streaming  # noqa: E402


def simulate(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["simulate", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    names = np.array(["ant", "bee", "cat"])[rng.integers(3, size=20_000)]
    table = pa.table({"i": np.arange(20_000), "x": rng.normal(size=20_000), "kind": names})
    pacsv.write_csv(table, tmp_path / "clean.csv")
    pq.write_table(table, tmp_path / "clean.parquet", row_group_size=777)
    return tmp_path / "clean.csv"


def read(path: Path) -> dict[str, list[object]]:
    return (pq.read_table(path) if path.suffix == ".parquet" else pacsv.read_csv(path)).to_pydict()


@pytest.mark.parametrize("spec", ["complementary", "symmetric:0.3", "partial:0.4", "pu:0.3"])
def test_frequencies_are_those_of_the_transition(clean: Path, spec: str) -> None:
    out = clean.parent / "weak.csv"
    classes = ["bee", "other"] if spec.startswith("pu") else ["ant", "bee", "cat"]
    if spec.startswith("pu"):
        clean.write_text(clean.read_text().replace("ant", "other").replace("cat", "other"))
    simulate(
        clean, "--label", "kind", "--transition", spec, "--out", out, "--keep-true", "--classes", ",".join(classes)
    )
    table = read(out)
    from tproper.transitions.parsing import parse_transition

    T = parse_transition(spec, len(classes))
    rows = {"pu": ["bee", "unlabeled"]}.get(spec[:2], classes)
    if T.per_class_labels:
        rows = ["|".join(classes[z] for z in sorted(s)) for s in T.weak_labels]
    counts = Counter(zip(table["weak_label"], table["kind"], strict=True))
    for z, name in enumerate(classes):
        n = sum(c for (_, k), c in counts.items() if k == name)
        for y, row in enumerate(rows):
            p = T.matrix()[y, z]
            assert abs(counts[(row, name)] - n * p) <= 5 * np.sqrt(n * p * (1 - p)), (row, name)


def test_csv_and_parquet_get_the_same_labels_whatever_their_blocks(clean: Path) -> None:
    folder = clean.parent
    for source, target in [("clean.csv", "a.csv"), ("clean.parquet", "b.parquet"), ("clean.csv", "c.parquet")]:
        simulate(
            folder / source, "--label", "kind", "--transition", "complementary", "--out", folder / target, "--seed", 3
        )
    a, b, c = (read(folder / n) for n in ("a.csv", "b.parquet", "c.parquet"))
    assert a == b == c
    assert list(a) == ["i", "x", "weak_label"], "the true class must go, or it becomes a feature"
    simulate(clean, "--label", "kind", "--transition", "complementary", "--out", folder / "d.csv", "--seed", 4)
    assert read(folder / "d.csv")["weak_label"] != a["weak_label"]


def test_sources_are_named_in_a_column_of_their_own(clean: Path) -> None:
    out = clean.parent / "weak.csv"
    options = ["--transition", "sure=identity", "--transition", "not=complementary", "--source-column", "who"]
    facts = json.loads(simulate(clean, "--label", "kind", *options, "--out", out, "--keep-true", "--json"))
    assert facts["rows"] == 20_000
    table = read(out)
    for who, weak, true in zip(table["who"], table["weak_label"], table["kind"], strict=True):
        assert (weak == true) == (who == "sure")
    assert abs(Counter(table["who"])["sure"] - 10_000) < 500


def test_an_existing_output_survives_a_failure(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = clean.parent / "weak.csv"
    out.write_text("precious")
    text = clean.read_text().splitlines()
    clean.write_text("\n".join([*text[:15_000], "1,2,", *text[15_000:]]) + "\n")
    result = CliRunner().invoke(
        app, ["simulate", str(clean), "--label", "kind", "--transition", "complementary", "--out", str(out), "--force"]
    )
    assert result.exit_code == 2
    assert "expected a class in every row, got none at row 15000" in result.stderr
    assert out.read_text() == "precious"
    assert not list(clean.parent.glob(".*part*"))


def test_blocks_are_cut_evenly_and_lose_nothing() -> None:
    batches = [pa.record_batch({"i": np.arange(a, b)}) for a, b in [(0, 3), (3, 4), (4, 30), (30, 31)]]
    blocks = list(_streaming.reblocked(iter(batches), 8))
    assert [b.num_rows for b in blocks] == [8, 8, 8, 7]
    assert np.concatenate([b.column("i").to_numpy() for b in blocks]).tolist() == list(range(31))
