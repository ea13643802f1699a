"""
T from features alone
=====================

Nobody knows how labels were corrupted, and there is no clean row. Features and noisy labels together still tell T,
with standard errors; a few clean rows make it sharper.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import tproper as tp

X, z = make_blobs(2000, centers=4, cluster_std=1.8, random_state=2)
truth = tp.Transition([[0.8, 0.1, 0.0, 0.2], [0.1, 0.7, 0.1, 0.0], [0.1, 0.1, 0.9, 0.2], [0.0, 0.1, 0.0, 0.6]])
weak = truth.sample(z, seed=0)
known = np.where(np.arange(len(z)) < 100, z, -1)
estimates = {
    "100 clean rows": tp.estimate_transition(weak, true=known),
    "features": tp.estimate_transition(weak, X=X, random_state=0),
    "both": tp.estimate_transition(weak, true=known, X=X, random_state=0),
}
for name, T in estimates.items():
    print(f"{name}: mean error {np.abs(T.matrix() - truth.matrix()).mean():.3f}, mean stderr {T.stderr.mean():.3f}")

fig, ax = plt.subplots(figsize=(6.6, 3.8), layout="constrained")
at = np.arange(16)
for shift, (name, T) in enumerate(estimates.items()):
    low, high = T.interval()
    value = T.matrix().ravel()
    bars = np.clip([value - low.ravel(), high.ravel() - value], 0, None)
    ax.errorbar(at + 0.22 * (shift - 1), value, bars, fmt="o", ms=3.5, capsize=2, label=name)
ax.plot(at, truth.matrix().ravel(), "k_", ms=18, label="truth")
ax.set(
    xticks=at, xticklabels=[f"{y},{c}" for y in range(4) for c in range(4)], xlabel="entry y, z of T", ylabel="T[y, z]"
)
ax.set_ylim(top=1.15)
ax.legend(frameon=False, fontsize=8, ncols=4, loc="upper center")
