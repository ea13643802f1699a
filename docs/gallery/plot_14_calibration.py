"""
Calibration from weak labels alone
==================================

A reliability diagram without one clean label, and the same one with them.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import tproper as tp

X, z = make_blobs(6000, centers=4, cluster_std=3.2, random_state=5)
T = tp.symmetric_noise(4, 0.3)
weak = T.sample(z, seed=0)
raw = tp.WeakLabelClassifier(T, calibrate=False, random_state=0).fit(X[:1000], weak[:1000])
scores = 2.5 * raw.decision_function(X)  # a model that is too sure of itself
calibrator = tp.calibrate(scores[1000:3500], weak[1000:3500], T)
print(calibrator)

fig, axes = plt.subplots(1, 2, figsize=(8.8, 4), layout="constrained", sharey=True)
test = slice(3500, None)
before = np.exp(scores - scores.max(1, keepdims=True))
before /= before.sum(1, keepdims=True)
for ax, p, title in (
    (axes[0], before, "too sure"),
    (axes[1], calibrator.probabilities(scores), "calibrated by weak labels"),
):
    curves = {"weak labels": (weak[test], T, "#0072b2"), "true classes": (z[test], tp.identity(4), "#c65102")}
    for who, (labels, transition, colour) in curves.items():
        curve = tp.weak_calibration(labels, p[test], transition, bins=8)
        bars = 1.96 * curve.accuracy_stderr
        name = f"{who}, error {curve.value:.3f}"
        ax.errorbar(curve.confidence, curve.accuracy, bars, color=colour, marker="o", ms=4, capsize=2, label=name)
    ax.plot([0, 1], [0, 1], color="0.6", ls=":")
    ax.set(title=title, xlabel="confidence", xlim=(0.2, 1), ylim=(0.1, 1.05))
    ax.legend(frameon=False, fontsize=8, loc="upper left")
axes[0].set_ylabel("accuracy")
