"""
Too few labels for the score
============================

An unbiased score from few or very weak labels can be almost all noise. The interval says so; a bare number would not.
Here labels only say what a digit is *not*.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tproper as tp

X, z = load_digits(return_X_y=True)
X = X / 16
T = tp.complementary(10)
weak = T.sample(z, seed=0)
model = tp.WeakLabelClassifier(T, random_state=0).fit(X[:900], weak[:900])
predicted = model.predict(X[900:])
clean = np.mean(predicted == z[900:])

# %%
# How it looks
# ------------
few = tp.weak_accuracy(weak[900:950], predicted[:50], T)
print(few)

# %%
# How many are needed
# -------------------
# The standard error falls with the root of n, and is known before you collect anything: simulate the labels of a
# model about as good as yours.
sizes = np.array([50, 100, 200, 400, 897, 2000, 5000, 20000])
rng = np.random.default_rng(0)
scores = []
for n in sizes:
    rows = rng.integers(0, len(predicted), n)
    scores.append(tp.weak_accuracy(T.sample(z[900:][rows], seed=int(n)), predicted[rows], T))

# %%
# The mending
# -----------
# More labels; or other labels. A few clean rows are worth a great deal: one clean label says as much about accuracy
# as this many complementary ones.
worth = scores[-1].stderr ** 2 * sizes[-1] / (clean * (1 - clean))
print(f"one clean row is worth {worth:.0f} complementary labels")
sample = rng.permutation(len(predicted))[:100]
print(tp.weak_accuracy(z[900:][sample], predicted[sample], tp.identity(10)))

# %%
# To choose between two models use the paired test: what they share drops out.
other = tp.WeakLabelClassifier(T, loss="gls", random_state=0).fit(X[:900], weak[:900])
print(tp.paired_test(weak[900:], predicted, other.predict(X[900:]), T, score="accuracy"))

# %%
fig, ax = plt.subplots(figsize=(5.8, 4), layout="constrained")
low, high = np.array([s.interval for s in scores]).T
ax.fill_between(sizes, low, high, color="#0072b2", alpha=0.2, label="95% interval, complementary labels")
ax.plot(sizes, [s.value for s in scores], "o", color="#0072b2", ms=4, label="value")
ax.axhline(clean, color="0.4", ls=":", label="accuracy by true classes")
ax.set(xscale="log", ylim=(0, 1.05), xlabel="labels to score with", ylabel="accuracy")
ax.legend(frameon=False, fontsize=8, loc="lower right")
