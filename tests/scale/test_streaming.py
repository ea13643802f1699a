"""Sources give every row once an epoch, the same for the same seed; training can stop and go on anywhere."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from refusals import refused

import tproper as tp
from tproper.data.checkpoints import StreamProgress
from tproper.data.columns import CandidateLists
from tproper.data.sources import IterableSource, ParquetSource, as_source
from tproper.data.stream import Learner, fit_stream
from tproper.data.tables import open_table

pa = pytest.importorskip("pyarrow")
from pyarrow import feather, parquet  # noqa: E402

K, D, ROWS = 4, 3, 530


def table(n=ROWS, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D))
    y = (X @ rng.standard_normal((D, K))).argmax(1)
    weak = tp.complementary(K).sample(y, seed=1)
    columns = {f"x{j}": X[:, j] for j in range(D)}
    return pa.table({"id": np.arange(n), **columns, "label": weak})


@pytest.fixture
def folder(tmp_path):
    """Two Parquet files and one Feather file with row groups of different sizes, one larger than a block."""
    data = table()
    parquet.write_table(data.slice(0, 200), tmp_path / "a.parquet", row_group_size=30)
    parquet.write_table(data.slice(200, 250), tmp_path / "b.parquet", row_group_size=250)
    feather.write_feather(data.slice(450), tmp_path / "c.feather", chunksize=35)
    return tmp_path


def ids(source, epoch=0, skip=0):
    """Row numbers in the order of the stream: they travel as a feature."""
    return np.concatenate([X[:, 0] for X, _ in source.batches(epoch, skip)]).astype(int)


def with_ids(folder, **options):
    options = {"batch_size": 32, "block_rows": 100, "seed": 3} | options
    return ParquetSource(folder, "label", ["id", "x0", "x1", "x2"], **options)


def test_every_row_once_an_epoch_in_an_order_of_its_own(folder):
    source = with_ids(folder)
    first, second = ids(source, 0), ids(source, 1)
    assert source.rows == ROWS
    assert len(source) == 17
    assert sorted(first) == sorted(second) == list(range(ROWS))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, ids(with_ids(folder), 0))
    assert not np.array_equal(first, ids(with_ids(folder, seed=4), 0))
    assert np.abs(np.corrcoef(first, np.arange(ROWS))[0, 1]) < 0.5  # not the order of the file
    sizes = [len(X) for X, _ in source.batches(0)]
    assert sizes == [32] * 16 + [18]


def test_rows_keep_their_labels_and_features(folder):
    data = table()
    X = np.concatenate([b[0] for b in with_ids(folder).batches(2)])
    labels = np.concatenate([b[1] for b in with_ids(folder).batches(2)])
    order = X[:, 0].astype(int)
    assert np.array_equal(labels, data["label"].to_numpy()[order])
    np.testing.assert_allclose(X[:, 2], data["x1"].to_numpy()[order], rtol=1e-6)
    assert X.dtype == np.float32


@pytest.mark.parametrize("skip", [0, 1, 5, 11, 16, 17])
def test_skipping_gives_the_rest_of_the_same_stream(folder, skip):
    whole = [X for X, _ in with_ids(folder).batches(1)]
    rest = [X for X, _ in with_ids(folder).batches(1, skip)]
    assert len(rest) == len(whole) - skip
    for a, b in zip(whole[skip:], rest, strict=True):
        assert np.array_equal(a, b)


def test_unshuffled_is_the_order_of_the_files(folder):
    assert np.array_equal(ids(with_ids(folder, shuffle=False)), np.arange(ROWS))


def test_files_come_in_the_order_of_their_numbers(tmp_path):
    for i in range(12):
        parquet.write_table(pa.table({"id": [i], "label": [0]}), tmp_path / f"part-{i}.parquet")
    assert ids(ParquetSource(tmp_path, "label", ["id"], shuffle=False)).tolist() == list(range(12))
    assert [n for b in open_table(tmp_path).batches() for n in b["id"].to_pylist()] == list(range(12))


@pytest.mark.parametrize("name", [None, "row"])
def test_an_index_of_pandas_is_no_feature_unless_it_is_asked_for(tmp_path, name):
    """A shuffled frame is written with its index as one more column of numbers."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [0.1, 0.2, 0.3], "label": [0, 1, 2]}, index=pd.Index([2, 0, 1], name=name))
    frame.to_parquet(tmp_path / "shuffled.parquet")
    assert ParquetSource(tmp_path / "shuffled.parquet", label="label").features == ["a"]
    column = name or "__index_level_0__"
    assert ParquetSource(tmp_path / "shuffled.parquet", label="label", features=["a", column]).features == ["a", column]


def test_memory_holds_one_block_not_the_file(folder, monkeypatch):
    source, largest = with_ids(folder, block_rows=64), 0
    located = ParquetSource._located

    def spy(self, group, row, batch, labels):
        nonlocal largest
        largest = max(largest, batch.num_rows)
        return located(self, group, row, batch, labels)

    monkeypatch.setattr(ParquetSource, "_located", spy)
    ids(source)
    assert largest <= 64


def test_candidate_lists_become_masks_a_batch_at_a_time(tmp_path):
    masks = tp.partial_labels(K, 0.4).sample(np.arange(90) % K, seed=0)
    lists = [np.flatnonzero(m).tolist() for m in masks]
    columns = {"x": np.arange(90.0), "sets": lists, "flags": masks.tolist()}
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(masks.ravel()), K)
    data = pa.table({**columns, "fixed": fixed})
    parquet.write_table(data, tmp_path / "d.parquet", row_group_size=20)
    for label in ("sets", "flags", "fixed"):
        source = ParquetSource(tmp_path, label, ["x"], batch_size=16, block_rows=40, num_classes=K)
        for X, got in [*source.batches(0), *source.batches(0, 3)]:
            assert got.dtype == bool
            assert np.array_equal(got, masks[X[:, 0].astype(int)])


def test_labels_of_another_kind_are_encoded_by_the_caller(tmp_path):
    names = np.array(["ant", "bee", "cow"])
    parquet.write_table(pa.table({"x": np.arange(9.0), "name": names[np.arange(9) % 3]}), tmp_path / "n.parquet")
    where = {name: i for i, name in enumerate(names)}

    def encode(column):
        return np.array([where[name] for name in column.to_pylist()])

    for X, labels in ParquetSource(tmp_path, "name", batch_size=4, encode=encode).batches(0):
        assert np.array_equal(labels, X[:, 0].astype(int) % 3)
    with refused("encode"):
        next(ParquetSource(tmp_path, "name", encode=lambda column: [0]).batches(0))


def test_candidate_lists_are_masks_in_less_memory():
    T = tp.partial_labels(300, 0.01)
    y = np.random.default_rng(0).integers(300, size=30_000)
    lists = CandidateLists.sample(T, y, seed=5)  # more than one block
    masks = lists.masks()
    assert masks[np.arange(len(y)), y].all()
    assert masks.sum() / masks.size == pytest.approx(1 / 300 + 0.01, rel=0.02)
    assert np.array_equal(masks, CandidateLists.sample(T, y, seed=5).masks())
    assert np.array_equal(CandidateLists.from_masks(masks).masks(), masks)
    rows = np.array([7, 3, 3, 29_999])
    assert np.array_equal(lists[rows], masks[rows])
    assert np.array_equal(lists[5:8], masks[5:8])
    assert lists.members.nbytes + lists.ends.nbytes < masks.nbytes / 10
    assert len(lists) == lists.shape[0] == 30_000


def test_moments_in_one_pass(folder):
    data = table()
    mean, deviation = with_ids(folder).moments()
    X = np.stack([data[c].to_numpy() for c in ("id", "x0", "x1", "x2")], 1)
    np.testing.assert_allclose(mean, X.mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(deviation, X.std(0), rtol=1e-5)


def test_large_numbers_keep_their_digits_until_they_are_centred():
    X = 1.7e9 + np.arange(60.0)[:, None]  # seconds: float32 rounds them to multiples of 128
    learner = Learner(
        torch.nn.Linear(1, 2, bias=False),
        tp.ForwardLoss(tp.identity(2)),
        lambda p: torch.optim.SGD(p, lr=1.0),
        standardise=(X.mean(axis=0), X.std(axis=0)),
    )
    assert len(np.unique(learner.predict_proba(X)[:, 0])) == 60


def make_learner():
    torch.manual_seed(0)
    return Learner(torch.nn.Linear(D, K), tp.ForwardLoss(tp.complementary(K)), lambda p: torch.optim.Adam(p, lr=0.02))


def make_classifier():
    from tproper.learn.classifier import WeakLabelClassifier

    return WeakLabelClassifier(
        tp.complementary(K), model="mlp", hidden=(8,), batch_size=16, random_state=0, device="cpu"
    )


def source_of(folder):
    return ParquetSource(folder, "label", ["x0", "x1", "x2"], batch_size=32, block_rows=100, seed=3)


def weights(learner):
    module = learner.module if isinstance(learner, Learner) else learner.module_
    return {k: v.clone() for k, v in module.state_dict().items()}


@pytest.mark.parametrize("make", [make_learner, make_classifier])
def test_an_interrupted_fit_ends_with_the_weights_of_an_uninterrupted_one(folder, tmp_path, make):
    whole = fit_stream(make(), source_of(folder), epochs=2)
    file = tmp_path / "run" / "checkpoint.safetensors"

    class Stop(Exception):
        pass

    def stop_at(rows):
        def progress(at):
            if at.rows >= rows:
                raise Stop

        return progress

    for rows in (100, 700):  # in the first epoch, and after it
        with pytest.raises(Stop):
            fit_stream(make(), source_of(folder), epochs=2, checkpoint=file, progress=stop_at(rows))
    resumed = make()
    seen = []
    out = fit_stream(resumed, source_of(folder), epochs=2, checkpoint=file, progress=lambda at: seen.append(at.rows))
    assert out is resumed
    assert 700 < seen[0] < 800
    assert seen[-1] == 2 * ROWS
    for k, v in weights(whole).items():
        assert torch.equal(weights(resumed)[k], v)
    again = make()
    fit_stream(again, source_of(folder), epochs=2, checkpoint=file, progress=seen.append)  # all is done already
    assert torch.equal(next(iter(weights(again).values())), next(iter(weights(whole).values())))
    assert not isinstance(seen[-1], StreamProgress)


def test_it_learns(folder):
    learner = fit_stream(make_learner(), source_of(folder), epochs=12)
    data = table()
    X = np.stack([data[c].to_numpy() for c in ("x0", "x1", "x2")], 1)
    p = learner.predict_proba(X)
    plain = Learner(learner.module, torch.nn.CrossEntropyLoss(), torch.optim.SGD).predict_proba(X)  # has no link
    np.testing.assert_allclose(plain.sum(axis=1), 1)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    from tproper.metrics.weak import weak_accuracy

    assert weak_accuracy(data["label"].to_numpy(), p.argmax(1), tp.complementary(K)).value > 0.6


def test_iterables_of_batches():
    batches = [(np.zeros((2, D)), [0, 1]), (np.ones((3, D)), [2, 3, 0])]
    rows = []
    fit_stream(make_learner(), batches, epochs=2, progress=lambda at: rows.append(at.rows))
    assert rows == [2, 5, 7, 10]
    rows.clear()
    fit_stream(make_learner(), lambda: iter(batches), epochs=2, progress=lambda at: rows.append(str(at)))
    assert rows[-1].startswith("epoch 2: 10 rows")
    with refused("source"):
        fit_stream(make_learner(), iter(batches), epochs=2)
    with refused("batches"):
        fit_stream(make_learner(), [np.zeros(3)])
    with refused("source"):
        fit_stream(make_learner(), [])
    with refused("checkpoint_seconds"):
        fit_stream(make_learner(), batches, checkpoint_seconds="often")


def test_mistakes_are_named(folder, tmp_path):
    with refused("label"):
        ParquetSource(folder, "lable")
    with refused("features"):
        ParquetSource(folder, "label", ["x9"])
    with refused("features"):
        ParquetSource(folder, "label", ["x0", "label"])
    with pytest.raises(ValueError, match="which does not exist"):
        ParquetSource(tmp_path / "nowhere.parquet", "label")
    (tmp_path / "x.csv").write_text("a")
    with refused("path"):
        ParquetSource(tmp_path / "x.csv", "label")
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "e.parquet").write_bytes(b"not parquet")
    with pytest.raises(ValueError, match="expected a Parquet or Arrow file"):
        ParquetSource(tmp_path / "bad", "label")
    holes = pa.table({"x": [1.0, None], "name": ["a", "b"], "label": [0, 1], "gaps": [0, None], "sets": [[0], [9]]})
    parquet.write_table(holes, tmp_path / "h.parquet")
    for label, features, message in [
        ("label", ["x"], "column 'x': expected numbers without gaps, got 1 missing"),
        ("label", ["name"], "column 'name': expected numbers, got string"),
        ("gaps", ["label"], "column 'gaps': expected a label in every row"),
        ("name", ["label"], "column 'name': expected integers or lists of classes"),
        ("sets", ["label"], "num_classes: expected the number of classes"),
    ]:
        with pytest.raises(ValueError, match=message):
            list(ParquetSource(tmp_path / "h.parquet", label, features).batches(0))
    with pytest.raises(ValueError, match=r"'sets': expected candidate classes in \[0, 4\), got 9, first at row 2 of h"):
        list(ParquetSource(tmp_path / "h.parquet", "sets", ["label"], num_classes=4).batches(0))
    with refused("learner"):
        fit_stream(torch.nn.Linear(2, 2), [])
    assert isinstance(as_source(str(folder / "a.parquet"), label="label"), ParquetSource)
    assert isinstance(as_source([]), IterableSource)


def test_a_checkpoint_of_another_source_is_refused(folder, tmp_path):
    file = tmp_path / "c.safetensors"
    fit_stream(make_learner(), source_of(folder), checkpoint=file)
    other = ParquetSource(folder, "label", ["x0", "x1", "x2"], batch_size=16, block_rows=100, seed=4)
    with pytest.raises(ValueError, match=r"got another batch_size \(16 instead of 32\), seed \(4 instead of 3\); "):
        fit_stream(make_learner(), other, checkpoint=file)
    file.write_bytes(b"nonsense")
    with refused("checkpoint"):
        fit_stream(make_learner(), source_of(folder), checkpoint=file)


def test_a_column_is_a_feature_once(tmp_path):
    parquet.write_table(pa.table({"a": [1.0, 2.0], "b": [1.0, 2.0], "label": [0, 1]}), tmp_path / "t.parquet")
    with refused("features"):
        ParquetSource(tmp_path / "t.parquet", label="label", features=["a", "a", "b"])
