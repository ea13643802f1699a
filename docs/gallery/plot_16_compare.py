"""
Is model A better than model B?
===============================

From weak labels alone. The paired test looks at the rows on which the two differ, so it decides where two separate
intervals overlap.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tproper as tp

X, z = load_digits(return_X_y=True)
X = X / 16
T = tp.symmetric_noise(10, 0.4)
weak = T.sample(z, seed=0)
good = tp.WeakLabelClassifier(T, random_state=0).fit(X[:900], weak[:900]).predict_proba(X[900:])
poor = tp.WeakLabelClassifier(T, random_state=0).fit(X[:250], weak[:250]).predict_proba(X[900:])
test = tp.paired_test(weak[900:], good, poor, T, score="accuracy")
print(test)

fig, ax = plt.subplots(figsize=(5.6, 3), layout="constrained")
rows = [tp.weak_accuracy(weak[900:], p.argmax(1), T) for p in (good, poor)]
for y, score in enumerate(rows):
    bars = np.abs(np.array(score.interval)[:, None] - score.value)
    ax.errorbar(score.value, y, xerr=bars, fmt="o", capsize=4, color="#0072b2")
truth = [(good.argmax(1) == z[900:]).mean(), (poor.argmax(1) == z[900:]).mean()]
ax.plot(truth, [0, 1], "k|", ms=22, label="by true classes")
ax.set(
    yticks=[0, 1],
    yticklabels=["trained on\n900 rows", "trained on\n250 rows"],
    xlabel="accuracy from noisy labels, 95%",
    ylim=(-0.5, 1.5),
)
ax.set_title(f"paired difference {test.value:.3f}, p = {test.p_value:.2g}")
ax.legend(frameon=False)
