"""A pipeline of one's own around the classifier: scored by the T of its fit, and saved beside its last step."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import tproper as tp


def notes(n=400, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.integers(2, size=n)
    words = np.array([["good", "fine", "lovely"], ["bad", "poor", "awful"]])
    texts = [" ".join([*rng.choice(words[k], 2), *rng.choice(["film", "book", "show", "plot"], 3)]) for k in z]
    return texts, np.array(["yes", "no"])[np.where(rng.random(n) < 0.2, 1 - z, z)], np.array(["yes", "no"])[z]


@pytest.mark.parametrize("name", ["log_loss", "brier", "accuracy", "balanced_accuracy"])
def test_a_scorer_without_T_uses_that_of_the_fit(name):
    texts, weak, _ = notes()
    model = make_pipeline(TfidfVectorizer(), tp.WeakLabelClassifier("symmetric:0.2", calibrate=False))
    T = tp.symmetric_noise(2, 0.2)
    scorers = tp.weak_scorer(name), tp.weak_scorer(name, T)
    own, given = (cross_val_score(model, texts, weak, scoring=scorer, cv=3) for scorer in scorers)
    np.testing.assert_allclose(own, given)
    assert np.isfinite(own).all()


def test_searches_with_an_estimated_T():
    texts, weak, _ = notes()
    model = make_pipeline(TfidfVectorizer(), tp.WeakLabelClassifier("estimate", calibrate=False))
    search = GridSearchCV(model, {"weaklabelclassifier__l2": [1e-4, 1.0]}, scoring=tp.weak_scorer("log_loss"), cv=2)
    search.fit(texts, weak)
    assert search.best_params_ == {"weaklabelclassifier__l2": 1e-4}
    assert tp.weak_scorer("log_loss")(search, texts, weak) < 0


def test_an_estimator_without_T_is_refused():
    from sklearn.linear_model import LogisticRegression

    texts, weak, _ = notes()
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, weak)
    with pytest.raises(tp.InputError, match="transition: expected one for a Pipeline"):
        tp.weak_scorer("log_loss")(model, texts, weak)


@pytest.mark.parametrize("keeper", ["joblib", "skops"])
def test_steps_are_saved_beside_the_classifier(tmp_path, keeper):
    texts, weak, true = notes()
    model = make_pipeline(TfidfVectorizer(), tp.WeakLabelClassifier("symmetric:0.2")).fit(texts, weak)
    tp.save(model[-1], tmp_path / "classifier")
    if keeper == "joblib":
        joblib = pytest.importorskip("joblib")
        joblib.dump(model[:-1], tmp_path / "steps.joblib")
        steps = joblib.load(tmp_path / "steps.joblib")
    else:
        skops = pytest.importorskip("skops.io")
        skops.dump(model[:-1], tmp_path / "steps.skops")
        steps = skops.load(tmp_path / "steps.skops", trusted=skops.get_untrusted_types(file=tmp_path / "steps.skops"))
    again = make_pipeline(*steps, tp.load(tmp_path / "classifier"))
    np.testing.assert_array_equal(again.predict_proba(texts), model.predict_proba(texts))
    assert (again.predict(texts) == true).mean() > 0.9
