"""
Candidate sets of growing size
==============================

Each label is a set that holds the true class and every other one with probability p. Even with half of all classes in
every set, the classes are learned.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tproper as tp

X, z = load_digits(return_X_y=True)
X = X / 16
rates = [0.1, 0.3, 0.5, 0.7]
accuracy, loss = [], []
for p in rates:
    T = tp.partial_labels(10, p)
    sets = T.sample(z, seed=0)
    model = tp.WeakLabelClassifier(T, random_state=0, calibrate=False).fit(X[:1200], sets[:1200])
    accuracy.append(tp.weak_accuracy(sets[1200:], model.predict(X[1200:]), T))
    print(f"p = {p}: {np.asarray(sets).sum(1).mean():.1f} classes a set; from sets alone: {accuracy[-1]}")
    loss.append((model.predict(X[1200:]) == z[1200:]).mean())

fig, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
low, high = np.array([score.interval for score in accuracy]).T
ax.fill_between(rates, low, high, color="#0072b2", alpha=0.2, label="accuracy from sets alone, 95%")
ax.plot(rates, loss, "o-", color="#c65102", label="by true classes")
ax.set(xlabel="probability p of another class in the set", ylabel="accuracy", ylim=(0.5, 1.02))
ax.legend(frameon=False, loc="lower left")
