"""scikit-learn's own checks, for the default estimator, other models and losses, and one that chooses its settings."""

from __future__ import annotations

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from tproper.learn.classifier import WeakLabelClassifier

# Minibatch training sees rows in random batches: repeating a row is not the same as doubling its weight there, as in
# scikit-learn's own stochastic estimators.
MINIBATCHES = "rows are drawn in random batches, so weights equal repetitions only in expectation"
EXEMPTIONS: dict[str, dict[str, str]] = {
    "mlp": {
        "check_sample_weight_equivalence_on_dense_data": MINIBATCHES,
        "check_sample_weight_equivalence_on_sparse_data": MINIBATCHES,
    },
}


def exemptions(estimator: Any) -> dict[str, str]:
    model = getattr(estimator, "model", None)
    return EXEMPTIONS.get(model, {}) if isinstance(model, str) else {}


ESTIMATORS = [
    WeakLabelClassifier(),
    # calibrated as the first is, the others would check that part of it again
    WeakLabelClassifier(loss="gls", squeeze=(0.1, 2.0), calibrate=False),
    WeakLabelClassifier(model="mlp", hidden=(16,), epochs=12, learning_rate=3e-2, random_state=0, calibrate=False),
    WeakLabelClassifier(model="boosting", max_iter=10, early_stopping=False, calibrate=False),
    # seeded: one split in a hundred would put all rows of positive weight into one fold, which is an error
    WeakLabelClassifier(tune={"l2": [1e-3]}, random_state=0, calibrate=False),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=exemptions)
def test_scikit_learn_checks(estimator: Any, check: Any, recwarn: pytest.WarningsRecorder) -> None:
    check(estimator)
