"""
Noisy labels: trusting them against knowing them
================================================

Two labels in five are wrong. A fit that trusts them is right about as often, but its probabilities are those of the
*label*; with T they are those of the class.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import tproper as tp
from tproper.plots import compute_reliability, draw_reliability

X, z = load_digits(return_X_y=True)
X = X / 16
T = tp.symmetric_noise(10, 0.4)
weak = T.sample(z, seed=0)
models = {
    "labels trusted": tp.WeakLabelClassifier(None, random_state=0).fit(X[:1200], weak[:1200]),
    "T known": tp.WeakLabelClassifier(T, random_state=0).fit(X[:1200], weak[:1200]),
}

fig, ax = plt.subplots(figsize=(5, 4.4), layout="constrained")
draw_reliability(ax, {name: compute_reliability(m.predict_proba(X[1200:]), z[1200:]) for name, m in models.items()})
ax.set_title("Probabilities against true classes")
for name, model in models.items():
    print(f"{name}: accuracy by true classes {(model.predict(X[1200:]) == z[1200:]).mean():.3f}")
