"""
Positives and the rest: the prior from data
===========================================

Some positives are labeled, everything else is not. The share of positives, and the share of them that is labeled,
come with intervals.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tproper as tp

X, digit = load_digits(return_X_y=True)
positive = digit % 2 == 0
rng = np.random.default_rng(0)
labeled = positive & (rng.random(len(digit)) < 0.3)
estimate = tp.estimate_pu(labeled, X / 16)
print(estimate)

# %%
# Probabilities of "even" for rows that nobody labeled:
model = tp.WeakLabelClassifier(estimate.transition, random_state=0).fit(X / 16, np.where(labeled, 0, 1))
p = model.predict_proba(X / 16)[:, 0]

fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
bins = np.linspace(0, 1, 26)
ax.hist(p[~labeled & positive], bins, alpha=0.75, color="#0072b2", label="unlabeled, in truth even")
ax.hist(p[~labeled & ~positive], bins, alpha=0.75, color="#c65102", label="unlabeled, in truth odd")
ax.set(xlabel="probability of being even", ylabel="unlabeled rows")
ax.legend(frameon=False)
