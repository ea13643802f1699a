"""Scaling is one function, whether rows come at once or block by block."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tproper.data import Moments, ParquetSource
from tproper.inputs.encoders import Numbers


@pytest.mark.parametrize("seed", range(6))
def test_blocks_give_what_all_rows_together_give(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 4)) * 10.0 ** rng.integers(-3, 4, 4) + 10.0 ** rng.integers(-3, 6, 4)
    X[:, 3] = X[0, 3]
    parts = Moments(4)
    for block in np.split(X, np.sort(rng.integers(1, 1000, 7))):
        if len(block):
            parts.add(block)
    mean, scale = parts.scaling(list("abcd"))
    whole = Numbers.fit(list("abcd"), X, True)
    at_once = whole.centre, whole.scale
    np.testing.assert_allclose(mean, at_once[0], rtol=1e-13)
    np.testing.assert_allclose(scale, at_once[1], rtol=1e-9)
    np.testing.assert_allclose(scale[:3], X[:, :3].std(axis=0), rtol=1e-9)
    assert scale[3] == 1.0


@pytest.mark.parametrize("value", [7.3, 0.1, -1e9 / 3, 0.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_column_is_only_centred_in_a_stream_too(tmp_path: Path, value: float, dtype: type) -> None:
    x = np.arange(1000.0)
    columns = {"c": np.full(1000, value), "x": x, "y": np.arange(1000) % 2}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=37)
    source = ParquetSource(tmp_path / "t.parquet", label="y", block_rows=64, batch_size=8, dtype=dtype)
    mean, scale = source.moments()
    assert scale[0] == 1.0
    np.testing.assert_allclose(mean, [value, x.mean()], rtol=1e-6)
    in_memory = Numbers.fit(["c", "x"], np.stack([columns["c"], x], axis=1), True).scale
    assert in_memory[0] == 1.0
    assert scale[1] == pytest.approx(in_memory[1])
