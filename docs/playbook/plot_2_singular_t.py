"""
T is singular
=============

Some classes give the same labels. No amount of data tells them apart, and a method that answers anyway has made
something up. Here people answer "vehicle" for cars and for trucks alike.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_blobs

import tproper as tp

classes = ["cat", "dog", "car", "truck"]
X, z = make_blobs(1600, centers=4, cluster_std=2.0, random_state=3)
coarse = tp.coarse_labels([[0], [1], [2, 3]])
weak = coarse.sample(z, seed=0)

# %%
# How it looks
# ------------
# The rank is below the number of classes, and the kernel says which mixtures cannot be seen. Scores that cannot be
# known are refused.
print(coarse.diagnose())
model = tp.WeakLabelClassifier(coarse, random_state=0).fit(X[:800], weak[:800])
try:
    tp.weak_accuracy(weak[800:], model.predict(X[800:]), coarse)
except tp.NotReconstructibleError as error:
    print(error)

# %%
# The forward loss is still proper: the model gets the sum of the two right. How it is split is left to chance, and
# the model may even be sure of the wrong one, as the left table below shows.
p = model.predict_proba(X[800:])
vehicle = z[800:] >= 2
print("P(car) + P(truck) on vehicles:", np.round(p[vehicle, 2:].sum(axis=1).mean(), 3))

# %%
# The mending
# -----------
# A second source that does tell them apart, on a tenth of the rows, makes T whole again.
rng = np.random.default_rng(0)
source = (rng.random(len(z)) < 0.1).astype(int)
both = tp.multi_source([coarse, tp.symmetric_noise(4, 0.2)], weights=[0.9, 0.1])
fine = tp.symmetric_noise(4, 0.2).sample(z, seed=1)
pairs = np.stack([source, np.where(source == 1, fine, weak)], axis=1)
print(both.diagnose())
mended = tp.WeakLabelClassifier(both, random_state=0).fit(X[:800], pairs[:800])
print(tp.weak_accuracy(pairs[800:], mended.predict(X[800:]), both))

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained", sharey=True)
for ax, fitted, title in (
    (axes[0], model, "labels: cat, dog, vehicle"),
    (axes[1], mended, "one row in ten told apart"),
):
    table = np.array([fitted.predict_proba(X[800:])[z[800:] == c].mean(axis=0) for c in range(4)])
    ax.imshow(table, cmap="Blues", vmin=0, vmax=1)
    for (i, j), value in np.ndenumerate(table):
        ax.text(j, i, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black")
    ax.set(xticks=range(4), yticks=range(4), xticklabels=classes, yticklabels=classes, title=title)
    ax.set_xlabel("mean predicted probability")
axes[0].set_ylabel("true class")
