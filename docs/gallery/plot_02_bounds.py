"""
Which losses have a lower bound
===============================

One table for a kind of label: which losses are proper, which are bounded from below, and how low each may go.
"""

import matplotlib.pyplot as plt
import numpy as np

import tproper as tp

T = tp.complementary(10)
losses = {
    "BC": tp.BackwardLoss(T),
    "BC+gLS": tp.BackwardLoss(T, squeeze=(1.0, 2.0)),
    "BC with Brier": tp.BackwardLoss(T, tp.Brier()),
    "forward": tp.ForwardLoss(T),
}
print(tp.comparison({name: loss.certify() for name, loss in losses.items()}))

# %%
# Squeezing (Corollary 15) gives every backward loss a lower bound. The harder it squeezes, the higher the bound; close
# to :math:`\alpha = 1` a bound exists and says nothing.
k = np.geomspace(0.05, 10, 25)
fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
for alpha, colour in ((1.2, "#c65102"), (1.5, "#d99a00"), (2.0, "#00795a"), (3.0, "#0072b2")):
    bounds = [tp.BackwardLoss(T, squeeze=(value, alpha)).lower_bounds().min() for value in k]
    ax.plot(k, bounds, color=colour, label=rf"$\alpha$ = {alpha:g}")
ax.set(xscale="log", xlabel="k", ylabel="greatest lower bound", title='"Not this class" of ten: bounds of BC+gLS')
ax.set_yscale("symlog", linthresh=1)
ax.set(ylim=(-1e6, 30), yticks=[-1e6, -1e4, -1e2, -1, 1, 10])
ax.legend(frameon=False)
