"""
T is wrong
==========

Labels are wrong four times in ten; we believe one in ten. Everything runs, and nothing looks broken. But the model
takes the noise for doubt about the class, and its probabilities are far too timid; the weak scores, which rest on the
same wrong T, agree with it.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tproper as tp
from tproper.plots import compute_reliability, draw_reliability

X, z = load_digits(return_X_y=True)
X = X / 16
weak = tp.symmetric_noise(10, 0.4).sample(z, seed=0)
train, test = slice(0, 1200), slice(1200, None)

believed = tp.symmetric_noise(10, 0.1)
model = tp.WeakLabelClassifier(believed, random_state=0).fit(X[train], weak[train])
probabilities = model.predict_proba(X[test])

# %%
# How it looks
# ------------
# Ask whether the labels can come from this T at all, given a model's probabilities for rows it has not seen. The
# check brings together several tests; below the first lines of what it prints.
print("mean confidence", np.round(probabilities.max(axis=1).mean(), 3))
print(tp.weak_accuracy(weak[test], probabilities.argmax(axis=1), believed))
check = tp.check_transition(weak[test], believed, probabilities)
print("plausible:", check.plausible, "  model fits:", check.model_fits)
print("\n".join(str(check).splitlines()[:5]))

# %%
# The mending
# -----------
# Estimate T, from features here (from a few clean rows where you have them), and fit again.
estimated = tp.estimate_transition(weak[train], X=X[train], random_state=0)
mended = tp.WeakLabelClassifier(estimated, random_state=0).fit(X[train], weak[train])
print("share of wrong labels, estimated", np.round(1 - np.diag(estimated.matrix()).mean(), 3))
print(tp.weak_accuracy(weak[test], mended.predict(X[test]), estimated))
check = tp.check_transition(weak[test], estimated, mended.predict_proba(X[test]))
print("plausible:", check.plausible, "  model fits:", check.model_fits)

# %%
# True classes, which you do not have, show what the wrong T did.
fig, ax = plt.subplots(figsize=(5, 4.2), layout="constrained")
draw_reliability(
    ax,
    {
        "T believed (wrong)": compute_reliability(probabilities, z[test]),
        "T estimated": compute_reliability(mended.predict_proba(X[test]), z[test]),
    },
)
ax.set_title("Probabilities against true classes")
