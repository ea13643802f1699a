"""
"It is not this": three losses
==============================

Digits from labels that only name one digit each image is *not*: what each loss reaches as labels become more.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits

import tproper as tp
from tproper.plots import COLOURS, NAMES

X, z = load_digits(return_X_y=True)
X = X / 16
T = tp.complementary(10)
weak = T.sample(z, seed=0)
settings = {
    "forward": {},
    "gls": {"loss": "gls", "squeeze": (0.3, 2.0)},
    "brier": {"loss": "backward", "potential": "brier"},
}
sizes = [150, 300, 600, 1200]

fig, ax = plt.subplots(figsize=(5.4, 4), layout="constrained")
for name, options in settings.items():
    right = []
    for n in sizes:
        model = tp.WeakLabelClassifier(T, random_state=0, calibrate=False, **options).fit(X[:n], weak[:n])
        right.append((model.predict(X[1200:]) == z[1200:]).mean())
    ax.plot(sizes, right, "o-", color=COLOURS[name], label=NAMES[name])
    print(NAMES[name], [f"{value:.2f}" for value in right])
ax.set(xscale="log", xticks=sizes, xticklabels=sizes, xlabel="complementary labels", ylabel="accuracy by true classes")
ax.minorticks_off()
ax.legend(frameon=False)
