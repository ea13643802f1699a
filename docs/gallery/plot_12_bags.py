"""
Bags with known proportions
===========================

No row has a label. Each belongs to a bag (a district, a clinic, a week), and of each bag the class proportions are
known.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import tproper as tp

X, z = make_blobs(3000, centers=[[-2, 0], [2, 0], [0, 3]], cluster_std=1.2, random_state=0)
proportions = np.array([[0.7, 0.2, 0.1], [0.2, 0.6, 0.2], [0.1, 0.3, 0.6]])
rng = np.random.default_rng(0)
likelihood = proportions[:, z] / proportions[:, z].sum(axis=0)  # which bag a row of its class goes to
bag = (likelihood.cumsum(axis=0) < rng.random(len(z))).sum(axis=0)
sizes = np.bincount(bag, minlength=3)
shares = np.array([np.bincount(z[bag == b], minlength=3) / sizes[b] for b in range(3)])  # what the registry tells us
T = tp.unlabeled_sets(shares, sizes)
model = tp.WeakLabelClassifier(T, random_state=0).fit(X, bag)
print("condition number of T:", round(float(T.diagnose().condition_number), 2))
print(f"right by true classes: {(model.predict(X) == z).mean():.3f}")

fig, ax = plt.subplots(figsize=(5.4, 4.2), layout="constrained")
colours = np.array(["#0072b2", "#c65102", "#00795a"])
ax.scatter(*X.T, s=4, c=colours[z], alpha=0.5)
grid = np.stack(np.meshgrid(np.linspace(-6, 6, 150), np.linspace(-4, 7, 150)), axis=-1)
predicted = model.predict(grid.reshape(-1, 2)).reshape(150, 150)
ax.contour(grid[..., 0], grid[..., 1], predicted, levels=[0.5, 1.5], colors="black", linewidths=1)
ax.set(title="Points: true classes. Lines: learned from three bags", xlim=(-6, 6), ylim=(-4, 7))
