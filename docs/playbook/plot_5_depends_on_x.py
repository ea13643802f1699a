"""
Noise that depends on the example
=================================

One T for all rows says that within a class every example is mislabeled alike. Here half of the pictures are blurred,
and people are wrong about those far more often. The *mean* T is right, and probabilities are still wrong in both
halves: too timid where labels are noisier than T says, too bold where they are cleaner.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.datasets import make_blobs

import tproper as tp
from tproper.plots import compute_reliability, draw_reliability

X, z = make_blobs(12_000, centers=4, cluster_std=2.0, random_state=5)
X = (X - X.mean(axis=0)) / X.std(axis=0)
rng = np.random.default_rng(0)
blurred = rng.random(len(z)) < 0.5
weak = np.where(blurred, tp.symmetric_noise(4, 0.6).sample(z, seed=1), tp.symmetric_noise(4, 0.05).sample(z, seed=2))
features = np.column_stack([X * ~blurred[:, None], X * blurred[:, None], blurred])  # a linear model for each half
train, test = slice(0, 4000), slice(4000, None)

# %%
# How it looks
# ------------
# The mean T is right. A check that looks at groups of like predictions sees that labels do not fit it everywhere.
mean = tp.symmetric_noise(4, 0.325)
model = tp.WeakLabelClassifier(mean, random_state=0).fit(features[train], weak[train])
p = model.predict_proba(features[test])
check = tp.check_transition(weak[test], mean, p, X=features[test])
print("plausible:", check.plausible)
print("\n".join(str(check).splitlines()[:5]))

# %%
# The mending
# -----------
# Where you know what noise depends on, here whether the picture is blurred, give each example its own T: a loss takes
# ``transitions=`` of shape (n, M, K). (Two sources with ``tp.multi_source`` do the same for two groups.) How noisy
# each half is, three answers to the same pictures tell: ``tp.transitions_by_group`` estimates T in each group, and its
# ``.transitions`` are what the loss takes. Groups may come from features, or from how sure a model is.
draws = [[tp.symmetric_noise(4, p).sample(z, seed=10 * s + i) for s in (1, 2, 3)] for i, p in enumerate((0.05, 0.6))]
three = np.where(blurred[:, None], np.column_stack(draws[1]), np.column_stack(draws[0]))
found = tp.transitions_by_group(three[train], np.where(blurred, "blurred", "sharp")[train])
print(found)

# %%
# Here both are known:
stack = np.stack([tp.symmetric_noise(4, 0.05).matrix(), tp.symmetric_noise(4, 0.6).matrix()])
each = torch.as_tensor(stack[blurred.astype(int)])
inputs, labels = torch.as_tensor(features), torch.as_tensor(weak)
torch.manual_seed(0)
linear = torch.nn.Linear(5, 4, dtype=torch.float64)
loss = tp.ForwardLoss(mean)
optimiser = torch.optim.LBFGS(linear.parameters(), max_iter=100, line_search_fn="strong_wolfe")


def closure():
    """One evaluation for L-BFGS."""
    optimiser.zero_grad()
    value = loss(linear(inputs[train]), labels[train], transitions=each[train])
    value.backward()
    return value


optimiser.step(closure)
with torch.no_grad():
    q = loss.probabilities(linear(inputs[test])).numpy()

# %%
fig, axes = plt.subplots(1, 2, figsize=(8.6, 4), layout="constrained", sharey=True)
for ax, rows, title in ((axes[0], ~blurred[test], "sharp pictures"), (axes[1], blurred[test], "blurred pictures")):
    curves = {"one T for all": p, "a T for each": q}
    draw_reliability(ax, {name: compute_reliability(v[rows], z[test][rows], bins=8) for name, v in curves.items()})
    ax.set_title(title)
