"""Columns of a table to numbers: held to scikit-learn's encoders, kept as plain data, and honest about what is new."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

pytest.importorskip("pyarrow")
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import tproper as tp
from tproper.inputs import Columns, Drift, Inputs, inferred, slips


def texts(values):
    distinct = list(dict.fromkeys(v for v in values if v is not None))
    place = {v: i for i, v in enumerate(distinct)}
    return np.array([-1 if v is None else place[v] for v in values], dtype=np.int64), distinct


def columns(numbers=None, **others):
    rows = len(next(iter(others.values()))) if others else len(numbers)
    numbers = np.empty((rows, 0)) if numbers is None else np.asarray(numbers, dtype=float)
    names = [f"x{j}" for j in range(numbers.shape[1])]
    return Columns(numbers, names, {name: texts(v) for name, v in others.items()})


def fitted(X, **kinds):
    return Inputs.fit(X, dict.fromkeys(X.numeric, "number") | kinds)


def dense(Z):
    return Z.toarray() if hasattr(Z, "toarray") else Z


WORDS = "the a cat dog bird runs sleeps sings on under tree house night 2nd café ÉTÉ x".split()  # noqa: SIM905


def sentences(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, rng.integers(0, 9))) + "!?" for _ in range(n)]


def test_numbers_are_imputed_and_scaled_as_scikit_learn_does():
    rng = np.random.default_rng(0)
    train, new = rng.normal(3, 2, (50, 3)), rng.normal(3, 2, (20, 3))
    train[rng.random(train.shape) < 0.2] = np.nan
    new[rng.random(new.shape) < 0.2] = np.nan
    filler = SimpleImputer(strategy="median", add_indicator=True).fit(train)
    scaler = StandardScaler().fit(filler.transform(train)[:, :3])
    expected = filler.transform(new)
    expected[:, :3] = scaler.transform(expected[:, :3])
    np.testing.assert_allclose(fitted(columns(train)).encode(columns(new)), expected, atol=1e-12)


@pytest.mark.parametrize("most", [256, 5])
def test_categories_are_those_of_scikit_learn(most):
    rng = np.random.default_rng(1)
    levels = np.array([f"l{i:02d}" for i in range(20)])
    train, new = rng.choice(levels[:15], 120, p=rng.dirichlet(np.ones(15))), rng.choice(levels, 60)
    theirs = OneHotEncoder(min_frequency=3, max_categories=most, handle_unknown="infrequent_if_exist")
    expected = theirs.fit(train[:, None]).transform(new[:, None]).toarray()
    from tproper.inputs.encoders import Category

    ours = Category.fit("c", texts(list(train)), most=most)
    assert ours.rare
    np.testing.assert_array_equal(ours.encode(texts(list(new))).toarray(), expected)


def test_words_are_weighed_as_scikit_learn_does():
    train, new = sentences(80), [*sentences(30, 1), "", "unheard of words"]
    expected = TfidfVectorizer(max_features=4096, min_df=2).fit(train).transform(new).toarray()
    encoder = fitted(columns(t=train), t="text")
    assert encoder.parts[0].terms == list(TfidfVectorizer(min_df=2).fit(train).get_feature_names_out())
    np.testing.assert_allclose(dense(encoder.encode(columns(t=new))), expected, atol=1e-12)


def test_the_vocabulary_keeps_the_most_frequent_terms():
    from tproper.inputs.encoders import Text

    rows = ["aa " * 5 + "bb"] * 2 + ["bb cc"] * 3 + ["cc dd"] * 2
    theirs = TfidfVectorizer(max_features=2, min_df=2).fit(rows)
    assert Text.fit("t", texts(rows), most=2).terms == list(theirs.get_feature_names_out())


def test_dates_are_days_and_places_on_circles():
    pd = pytest.importorskip("pandas")
    moments = pd.Series(pd.date_range("2019-12-30 06:00", periods=40, freq="37h"))
    encoder = fitted(columns(d=[str(m) for m in moments]), d="date")
    names, Z = encoder.features, dense(encoder.encode(columns(d=[str(m) for m in moments])))
    days = moments.astype("datetime64[ns]").astype("int64").to_numpy()[:, None] / 86_400e9
    np.testing.assert_allclose(Z[:, :1], StandardScaler().fit_transform(days), atol=1e-9)
    np.testing.assert_array_equal(Z[:, 3:10], np.eye(7)[moments.dt.day_of_week])
    hour = 2 * np.pi * moments.dt.hour.to_numpy() / 24
    np.testing.assert_allclose(Z[:, names.index("d: day sin")], np.sin(hour), atol=1e-6)
    year = 2 * np.pi * (moments.dt.day_of_year.to_numpy() - 1 + moments.dt.hour.to_numpy() / 24) / 365.25
    np.testing.assert_allclose(Z[:, names.index("d: year cos")], np.cos(year), atol=1e-6)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["red", "blue", "red", None] * 10, "category"),
        ([f"id-{i}" for i in range(40)], None),
        ([f"a title of number {i}" for i in range(40)], "text"),
        ([f"2024-01-{i % 28 + 1:02d}" for i in range(40)], "date"),
        ([f"{i % 28 + 1:02d}.02.2024" for i in range(40)], "date"),
        ([f"{i % 28 + 1}/2/2024" for i in range(40)], "date"),
    ],
)
def test_what_a_column_is_follows_from_its_values(values, kind):
    kinds, left = inferred(columns(c=values), {})
    assert (kinds.get("c"), left) == (kind, ["c"] if kind is None else [])


def test_dates_that_may_be_read_in_two_ways_are_refused():
    with pytest.raises(tp.InputError, match="day and month"):
        inferred(columns(d=["1/2/2024", "3/4/2024"] * 10), {})


def test_numbers_with_slips_are_no_category():
    assert slips(texts(["1", "2", "x", "4"])) == "x"
    assert slips(texts(["1", "a", "b"])) is None


def everything(n=60, seed=0):
    rng = np.random.default_rng(seed)
    numbers = rng.normal(size=(n, 2))
    numbers[::7, 1] = np.nan
    days = [None if i % 11 == 0 else f"2024-0{1 + i % 9}-1{i % 10}" for i in range(n)]
    return columns(numbers, c=[None if i % 13 == 0 else "uvw"[i % 3] for i in range(n)], t=sentences(n, seed), d=days)


KINDS = {"x0": "number", "x1": "number", "c": "category", "t": "text", "d": "date"}


def test_what_encoders_learned_is_plain_data():
    X = everything()
    encoder = Inputs.fit(X, KINDS)
    again = Inputs.from_dict(json.loads(json.dumps(encoder.to_dict())))
    np.testing.assert_array_equal(dense(again.encode(X)), dense(encoder.encode(X)))
    assert again.features == encoder.features
    assert again.width == len(encoder.features) == encoder.encode(X).shape[1]
    assert (
        str(encoder) == f"text: 1 column, {encoder.parts[1].width} terms; category: 1; date: 1; numbers: 2, gaps in 1"
    )


def test_rows_are_encoded_alone_as_together():
    X = everything()
    encoder = Inputs.fit(X, KINDS)
    apart = np.concatenate([dense(encoder.encode(X[i : i + 1])) for i in range(len(X))])
    np.testing.assert_array_equal(apart, dense(encoder.encode(X)))


def test_the_same_table_does_not_drift_and_another_does():
    X = everything(300)
    encoder = Inputs.fit(X, KINDS)
    same, other = Drift(encoder), Drift(encoder)
    same.add(X[:150])
    assert same.sentences() == []
    moved = everything(300, 1)
    moved.numbers[:, 0] = 1000 * moved.numbers[:, 0]
    moved.others["c"] = texts(["new"] * 300)
    moved.others["t"] = texts(["entirely different vocabulary here"] * 300)
    moved.others["d"] = texts(["2031-05-05"] * 300)
    other.add(moved[:100])
    other.add(moved[100:])
    said = "; ".join(other.sentences())
    assert "x0 is outside of its training range" in said
    assert "c has new or rare categories ('new') in 100% of 300 rows" in said
    assert "x1" not in said
    assert "t (0% of its words" in said
    assert "d (other dates)" in said


def test_small_tables_are_not_called_different_by_chance():
    encoder = Inputs.fit(everything(400), KINDS)
    for seed in range(20):
        drift = Drift(encoder)
        drift.add(everything(25, seed + 1))
        assert not [s for s in drift.sentences() if "drift" in s], seed


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    return {
        "size": np.where(rng.random(n) < 0.1, np.nan, z + rng.normal(size=n)),
        "colour": [["red", "blue"][k] if r < 0.8 else "grey" for k, r in zip(z, rng.random(n), strict=True)],
        "note": [f"{['good', 'bad'][k]} thing {WORDS[i % 9]} and more of it" for i, k in enumerate(z)],
        "day": [f"2024-{1 + 6 * k + i % 6:02d}-03" for i, k in enumerate(z)],
        "id": [f"n{i}" for i in range(n)],
        "weak": ["ab"[k if r < 0.8 else 1 - k] for k, r in zip(z, rng.random(n), strict=True)],
    }, np.array(["a", "b"])[z]


@pytest.fixture(scope="module")
def trained():
    frame, truth = table()
    return tp.TableModel.fit(frame, "symmetric:0.2", label="weak", folds=2, calibrate="none"), frame, truth


def test_a_table_as_it_is_goes_in_and_comes_out(trained, tmp_path):
    model, frame, truth = trained
    assert model.facts["columns"].startswith("text: 1 column, ")
    assert model.facts["columns"].endswith("left out (one value throughout, or another in nearly every row): id")
    assert (model.predict(frame) == truth).mean() > 0.9
    p = model.predict_proba(frame)
    model.save(tmp_path / "model")
    moved = (tmp_path / "model").rename(tmp_path / "elsewhere")
    shuffled = {name: frame[name] for name in reversed(list(frame))}
    loaded = tp.load(moved)
    np.testing.assert_array_equal(loaded.predict_proba(shuffled), p)
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table(frame), tmp_path / "t.parquet")
    tp.TableModel.load(moved).predict_file(tmp_path / "t.parquet", tmp_path / "p.parquet")
    out = pq.read_table(tmp_path / "p.parquet")
    np.testing.assert_array_equal(np.stack([out["p_a"], out["p_b"]], axis=1), p)


def test_a_model_tells_what_it_has_not_seen(trained, tmp_path):
    model, frame, _ = trained
    other = frame | {"size": frame["size"] * 1000, "colour": ["green"] * len(frame["weak"])}
    with pytest.warns(tp.UnseenWarning, match="size is outside") as said:
        model.predict_proba(other)
    assert any("colour has new or rare categories ('green')" in str(w.message) for w in said)
    with pytest.warns(UserWarning, match="other units"):
        model.predict_file(other, tmp_path / "p.csv")
    with pytest.raises(tp.InputError, match=r"strict.*other units"):
        model.predict_file(other, tmp_path / "q.csv", strict=True)
    assert not (tmp_path / "q.csv").exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict_file(frame, tmp_path / "r.csv", strict=True)
    del other["note"]
    with pytest.raises(tp.InputError, match="note"):
        model.predict_proba(other)


def test_a_gap_where_training_had_none_is_told_of_and_filled_with_the_median(tmp_path):
    rng = np.random.default_rng(3)
    z = rng.integers(2, size=300)
    size, day = z + rng.normal(size=300), rng.integers(1, 28, 300)
    weak = np.array(["a", "b"])[tp.symmetric_noise(2, 0.2).sample(z, 0)]
    frame = {"size": size, "day": [f"2024-03-{d:02d}" for d in day], "weak": weak}
    model = tp.TableModel.fit(frame, "symmetric:0.2", label="weak", folds=2, calibrate="none")
    rows = {name: list(column[:50]) for name, column in frame.items()}
    gaps = rows | {"size": [np.nan, np.nan, *rows["size"][2:]], "day": [*rows["day"][:49], None]}
    middle = float(np.median(size))
    with pytest.warns(tp.UnseenWarning) as said:
        p = model.predict_proba(gaps)
    told = sorted(str(w.message) for w in said)
    assert told[0].startswith("day has no value in 1 of 50 rows, which training never saw: the median there, 2024-03-")
    assert told[1].startswith("size has no value in 2 of 50 rows, which training never saw: the median there, ")
    full = rows | {"size": [middle, middle, *rows["size"][2:]]}
    np.testing.assert_allclose(p[:49], model.predict_proba(full)[:49], rtol=1e-12)
    assert np.isfinite(p).all()
    model.save(tmp_path / "model")
    model = tp.TableModel.load(tmp_path / "model")
    with pytest.warns(UserWarning, match="size has no value"):
        model.predict_file(gaps, tmp_path / "p.csv")
    with pytest.warns(UserWarning, match="size has no value in 2 of 50 rows"):
        model.evaluate(gaps, label="weak")
    with pytest.raises(tp.InputError, match=r"strict.*size has no value"):
        model.predict_file(gaps, tmp_path / "q.csv", strict=True)
    unknown = Inputs.of_numbers(["size"], np.zeros(1), np.ones(1))  # nobody kept a median
    with pytest.raises(tp.InputError, match=r"'size'.*no value"):
        unknown.encode({"size": [1.0, np.nan]})


def test_the_penalty_of_many_words_is_chosen_by_weak_risk():
    """Every word says a little of the class, and the labels are wrong often: the default would fit their noise."""
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=900)
    vocabulary = np.array([f"word{i:03d}" for i in range(500)])
    tilt = np.exp(0.5 * rng.normal(size=500))
    shares = np.stack([tilt, 1 / tilt]) / np.stack([tilt, 1 / tilt]).sum(axis=1, keepdims=True)
    text = [" ".join(rng.choice(vocabulary, 15, p=shares[k])) for k in z]
    weak = np.array(["a", "b"])[tp.symmetric_noise(2, 0.3).sample(z, 0)]
    frame, new = {"t": text[:400], "y": weak[:400]}, {"t": text[400:]}
    settings = {"label": "y", "holdout": 0, "calibrate": "none"}
    chosen = tp.TableModel.fit(frame, "symmetric:0.3", **settings)
    first = tp.WeakLabelClassifier("symmetric:0.3", calibrate=False)
    first.fit(chosen.estimator.inputs_.encode(frame), frame["y"])
    assert chosen.facts["tuned"]
    assert chosen.estimator.best_params_["l2"] > first.l2_
    given = tp.TableModel.fit(frame, "symmetric:0.3", l2=first.l2_, **settings)
    assert not given.facts["tuned"]
    right = [(m.predict(new) == np.array(["a", "b"])[z[400:]]).mean() for m in (chosen, given)]
    assert right[0] > right[1]


def test_what_columns_are_can_be_said():
    frame, _ = table(200)
    frame["code"] = [i % 5 for i in range(200)]
    said = {"category": ["code", "id"], "text": "colour"}
    settings = {"holdout": 0, "calibrate": "none", "label": "weak"}
    with pytest.raises(tp.InputError, match="numeric: expected every column in one list"):
        tp.TableModel.fit(frame, "symmetric:0.2", numeric="code", **said, **settings)
    with pytest.raises(tp.InputError, match="'colour': expected numbers, got the text"):
        tp.TableModel.fit(frame, "symmetric:0.2", numeric="colour", **settings)
    model = tp.TableModel.fit(frame, "symmetric:0.2", **said, **settings)
    assert model.estimator.inputs_.kinds["code"] == "category"
    assert model.estimator.inputs_.kinds["colour"] == "text"
    assert model.estimator.inputs_.kinds["id"] == "category"
