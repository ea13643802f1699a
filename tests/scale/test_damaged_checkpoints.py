"""A streamed run's checkpoint with one flipped bit, or with edited progress, is named; training starts afresh."""

import json
import warnings

import numpy as np
import pytest
import torch
from refusals import refused
from test_checkpoints import classifier_of, learner_of, source_of, weights, write
from typer.testing import CliRunner

from tproper._core.sealed import read_sealed, write_sealed
from tproper.cli.main import app
from tproper.data.stream import fit_stream

MAKERS = [learner_of, classifier_of]


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder / "p.parquet")
    return folder


def edited(file, **changes):
    """Someone who knows the format writes other progress, with a checksum that is right."""
    header, tensors = read_sealed(file)
    progress = json.loads(header["progress"]) | changes
    write_sealed(file, tensors, header | {"progress": json.dumps(progress)})


@pytest.mark.parametrize("make", MAKERS)
def test_wherever_a_bit_flips_nothing_is_taken_from_the_file(data, tmp_path, make):
    file = tmp_path / "c.safetensors"
    whole = weights(fit_stream(make(), source_of(data), epochs=2))
    fit_stream(make(), source_of(data), checkpoint=file)
    good = file.read_bytes()
    rng = np.random.default_rng(0)
    places = [*range(0, 8, 3), *rng.integers(8, len(good), size=12).tolist(), len(good) - 1]
    for place in places:
        bad = bytearray(good)
        bad[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(bytes(bad))
        with pytest.warns(UserWarning, match=r"checkpoint: .*c\.safetensors cannot be used .*training starts afresh"):
            found = fit_stream(make(), source_of(data), epochs=2, checkpoint=file)
        assert torch.equal(weights(found), whole), place
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fit_stream(make(), source_of(data), epochs=2, checkpoint=file)  # a good one is in its place


@pytest.mark.parametrize(
    "changes",
    [
        {"epoch": 10**12},
        {"epoch": 0},
        {"epoch": -1},
        {"batches": 10**9},
        {"batches": True},
        {"rows": 0},
        {"rows": 10**12},
        {"rows": "many"},
        {"seconds": -1.0},
        {"seconds": "inf"},
        {"seconds": 10**400},
        {"other": 1},
    ],
    ids=str,
)
def test_progress_that_cannot_be_is_said(data, tmp_path, changes):
    file = tmp_path / "c.safetensors"
    whole = weights(fit_stream(learner_of(), source_of(data), epochs=3))
    fit_stream(learner_of(), source_of(data), checkpoint=file)
    edited(file, **changes)
    with pytest.warns(UserWarning, match="cannot be used .*training starts afresh"):
        assert torch.equal(weights(fit_stream(learner_of(), source_of(data), epochs=3, checkpoint=file)), whole)


def test_a_checkpoint_without_a_checksum_is_not_taken(data, tmp_path):
    from safetensors.torch import save_file

    file = tmp_path / "c.safetensors"
    fit_stream(learner_of(), source_of(data), checkpoint=file)
    header, tensors = read_sealed(file)
    del header["format"]  # as it was before there were checksums
    save_file(tensors, file, metadata=header)
    with pytest.warns(UserWarning, match="it has no checksum.*training starts afresh"):
        fit_stream(learner_of(), source_of(data), checkpoint=file)


def test_another_file_is_never_replaced(data, tmp_path):
    from safetensors.torch import save_file

    file = tmp_path / "weights.safetensors"
    save_file({"w": torch.ones(3)}, file)
    before = file.read_bytes()
    with refused("checkpoint"):
        fit_stream(learner_of(), source_of(data), checkpoint=file)
    assert file.read_bytes() == before


def test_the_command_says_it_in_one_line(data, tmp_path, monkeypatch):
    import tproper as tp
    from tproper.tables import streamed_training as _streamed_training

    class Interrupted(_streamed_training.Bar):
        def at(self, done, what):
            raise KeyboardInterrupt

    command = [
        "train",
        str(data),
        "--label",
        "label",
        "--transition",
        "complementary:4",
        "--stream",
        "--ignore",
        "other",
    ]
    run = CliRunner()
    assert run.invoke(app, [*command, "--out", str(tmp_path / "whole")]).exit_code == 0
    with monkeypatch.context() as patch:
        patch.setattr(_streamed_training, "Bar", Interrupted)
        assert run.invoke(app, [*command, "--out", str(tmp_path / "m")]).exit_code == 130
    file = tmp_path / ".m.stream.safetensors"
    bad = bytearray(file.read_bytes())
    bad[-1] ^= 64
    file.write_bytes(bytes(bad))
    result = run.invoke(app, [*command, "--out", str(tmp_path / "m")])
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines(keepends=True)
    assert [line for line in lines if "steps of training" not in line] == [  # which so small a table has too few of
        f"warning: checkpoint: {file} cannot be used (it was damaged or edited: its checksum does not match); "
        "training starts afresh\n"
    ]
    one, other = (tp.load(tmp_path / name).coef_ for name in ("whole", "m"))
    assert np.array_equal(one, other)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data", "m", "whole"]
