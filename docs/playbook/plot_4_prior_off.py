"""
The prior is off
================

From positives and unlabeled rows alone the class prior is part of T: ``r = labeled / (n prior)``. Guess it wrong, and
every probability is wrong by about the same factor, while the *ranking* of the rows, and so the AUC, hardly moves.
That is why nobody notices.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import scale

import tproper as tp

X, z = load_breast_cancer(return_X_y=True)
X = scale(X)
z = 1 - z  # class 0: benign, the positive class
rng = np.random.default_rng(0)
order = rng.permutation(len(z))
X, z = X[order], z[order]
labeled = (z == 0) & (rng.random(len(z)) < 0.4)
weak = np.where(labeled, 0, 1)  # 0: labeled positive, 1: unlabeled

# %%
# How it looks
# ------------
# We believe that a third is positive. The prevalence that the model predicts is what we told it, whatever the data
# say:
guess = tp.positive_unlabeled(prior=1 / 3, labeled=int(labeled.sum()), n=len(labeled))
model = tp.WeakLabelClassifier(guess, random_state=0).fit(X, weak)
p = model.predict_proba(X)[:, 0]
print(f"AUC {roc_auc_score(z == 0, p):.3f}; mean probability {p.mean():.3f}; true share {np.mean(z == 0):.3f}")

# %%
# The mending
# -----------
# Estimate prior and rate from the features, with intervals, and hand the transition on.
estimate = tp.estimate_pu(labeled, X)
print(estimate)
mended = tp.WeakLabelClassifier(estimate.transition, random_state=0).fit(X, weak)
q = mended.predict_proba(X)[:, 0]
print(f"AUC {roc_auc_score(z == 0, q):.3f}; mean probability {q.mean():.3f}; true share {np.mean(z == 0):.3f}")

# %%
# Would another guess matter? Look at it before you rely on it.
guesses = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
means = []
for prior in guesses:
    T = tp.positive_unlabeled(prior=prior, labeled=int(labeled.sum()), n=len(labeled))
    means.append(tp.WeakLabelClassifier(T, random_state=0).fit(X, weak).predict_proba(X)[:, 0].mean())

fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
ax.plot(guesses, means, "o-", color="#c65102", label="predicted share, by the guess")
ax.axhline(np.mean(z == 0), color="0.4", ls=":", label="true share")
low, high = estimate.prior.interval
ax.axvspan(low, high, color="#0072b2", alpha=0.2, label="estimated prior, 95% interval")
ax.set(xlabel="prior you believe in", ylabel="mean predicted probability", title="Positives and the rest")
ax.legend(frameon=False, fontsize=8)
