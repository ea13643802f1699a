"""
What a label becomes: targets outside the simplex
=================================================

A weak label :math:`y` becomes a target :math:`r = R e_y`. Targets average to the true class, so with noisy labels
they have to overshoot: some of their entries are negative. That is why backward cross entropy has no lower bound.
"""

import matplotlib.pyplot as plt
import numpy as np

import tproper as tp

T = tp.symmetric_noise(3, 0.3)
targets = T.reconstruction().targets([0, 1, 2]).numpy()
print(np.round(targets, 3))

# %%
# Barycentric coordinates draw three classes as a triangle. The mean of the targets, weighted by a column of T, is a
# corner.
corners = np.array([[0, 0], [1, 0], [0.5, 0.866]])
means = T.matrix().T @ targets
print("mean target of each class:\n", np.round(means, 12))

fig, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
ax.fill(*corners.T, color="#0072b2", alpha=0.12, label="probabilities")
ax.fill(*(targets @ corners).T, fill=False, edgecolor="#7a3e9d", ls="--")
ax.scatter(*(targets @ corners).T, marker="D", color="#7a3e9d", zorder=3, label="targets of the three labels")
ax.scatter(*(means @ corners).T, color="#0072b2", zorder=3, label="their mean, class by class")
ax.set_aspect("equal")
ax.axis("off")
ax.set_title("Labels wrong with probability 0.3")
ax.legend(frameon=False, loc="upper left", fontsize=8)
