"""
What if T is a little wrong?
============================

Labels cannot always show that T is off. How far would a score move if it were?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

import tproper as tp

X, z = load_digits(return_X_y=True)
T = tp.symmetric_noise(10, 0.3)
weak = T.sample(z, seed=0)
model = tp.WeakLabelClassifier(T, random_state=0).fit(X[:1200] / 16, weak[:1200])
predicted = model.predict(X[1200:] / 16)
moves = (0.01, 0.02, 0.05, 0.1)
result = tp.sensitivity("accuracy", weak[1200:], predicted, T, moves)
print(result)

rates = np.linspace(0.2, 0.38, 19)
scores = [tp.weak_accuracy(weak[1200:], predicted, tp.symmetric_noise(10, p)) for p in rates]
fig, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
low, high = np.array([score.interval for score in scores]).T
ax.fill_between(rates, low, high, color="#0072b2", alpha=0.2, label="95% interval, given T")
ax.plot(rates, [score.value for score in scores], color="#0072b2", label="accuracy from weak labels")
ax.axhline(np.mean(predicted == z[1200:]), color="0.4", ls=":", label="by true classes")
ax.axvline(0.3, color="#c65102", lw=1, label="the true noise rate")
ax.set(xlabel="noise rate that T assumes", ylabel="accuracy")
ax.legend(frameon=False, fontsize=8)
