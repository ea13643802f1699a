"""
What scikit-learn's tools do to weak labels
===========================================

scikit-learn takes ``y`` for classes. Some of its tools number it before they fit, some compare predictions with it,
some learn from it. Nothing in its interface lets an estimator object. Where T has names the first kind is refused;
of the others you have to know.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import tproper as tp

X, z = make_blobs(1500, centers=3, cluster_std=2.0, random_state=5)
names = np.array(["cat", "dog", "ant"])
T = tp.Transition([[0.9, 0.4, 0.0], [0.1, 0.6, 0.3], [0.0, 0.0, 0.7]]).named(names)
y = names[T.sample(z, seed=0)]
model = tp.WeakLabelClassifier(T, calibrate=False, random_state=0)
print("right:", round((model.fit(X, y).predict(X) == names[z]).mean(), 3), "classes:", model.classes_)

# %%
# Tools that number labels
# ------------------------
# ``VotingClassifier``, ``BaggingClassifier``, ``StackingClassifier`` and ``cross_val_predict(method="predict_proba")``
# give the estimator numbers in place of names, in sorted order: rows of T they are not. A T with names knows that.
try:
    VotingClassifier([("one", model)], voting="soft", n_jobs=2).fit(X, y)
except ValueError as error:
    print(error)

# %%
# A T without names takes numbers for its rows, whoever has numbered them. So give it names: ``T.named([...])``. Where T
# treats all classes alike (symmetric noise, complementary labels, candidate sets) their order does not matter, and
# these tools may be used. Of positive-unlabeled data name the classes too, if labels go through such a tool:
# ``tp.positive_unlabeled(r).named([True, False])``.

# %%
# Tools that compare predictions with labels
# ------------------------------------------
# ``scoring="accuracy"`` or ``"roc_auc"`` asks how often a prediction *is* the weak label. That prefers a model that has
# learned the noise. ``tp.weak_scorer`` estimates the score against the classes, and uses the T of each fit:
found = {}
for scoring in ("accuracy", tp.weak_scorer("accuracy")):
    scores = cross_val_score(model, X, y, scoring=scoring, cv=3)
    of = "weak labels" if scoring == "accuracy" else "classes"
    found[f"against {of}"] = scores.mean()
    print(f"accuracy against {of}:", scores.round(2))
found["in truth"] = np.mean(model.fit(X, y).predict(X) == names[z])

fig, ax = plt.subplots(figsize=(5, 2.2), layout="constrained")
ax.barh(list(found), list(found.values()))
ax.invert_yaxis()
ax.set_xlim(0, 1)
ax.set_xlabel("accuracy of one model")
plt.show()

# %%
# What holds of ``scoring=`` holds of ``RFECV``, ``GridSearchCV(scoring="accuracy")``, ``TunedThresholdClassifierCV`` (a
# threshold tuned on weak labels is one for weak labels) and ``permutation_test_score``.

# %%
# Where labels have gaps, or are rows of several answers, scikit-learn cannot sort them into folds of equal shares: it
# ends in a ``TypeError`` of its own before the estimator is asked. Give a splitter:
# ``GridSearchCV(model, grid, cv=KFold(3))``.

# %%
# Tools that learn from labels
# ----------------------------
# ``CalibratedClassifierCV`` maps scores to the frequency of the *weak* label, ``StackingClassifier`` trains its last
# model on weak labels, ``AdaBoostClassifier``, ``SelfTrainingClassifier``, ``OneVsRestClassifier`` and
# ``OneVsOneClassifier`` take them for classes in every step. ``WeakLabelClassifier`` calibrates itself, and
# ``tp.calibrate`` calibrates any model by weak labels:
plain = LogisticRegression(max_iter=1000).fit(X, y)  # learned the weak labels
print("mean confidence:", plain.predict_proba(X).max(axis=1).mean().round(2), "by weak labels;", end=" ")
print(model.predict_proba(X).max(axis=1).mean().round(2), "of classes")
