"""
A loss over the simplex
=======================

The loss of one candidate set over all predictions of three classes, without and with squeezing. White is where the loss
is 0: beyond it the loss on the left falls for ever, that on the right comes to rest.
"""

import matplotlib.pyplot as plt
import mpltern  # noqa: F401  (registers the ternary projection)

import tproper as tp
from tproper.plots import compute_simplex_loss, draw_simplex_loss

T = tp.partial_labels(3, 0.4)
label = [True, True, False]
fig = plt.figure(figsize=(9, 4.2), layout="constrained")
losses = {"BC": tp.BackwardLoss(T), "BC+gLS, k = 1, alpha = 2": tp.BackwardLoss(T, squeeze=(1.0, 2.0))}
for place, (name, loss) in enumerate(losses.items(), 1):
    ax = fig.add_subplot(1, 2, place, projection="ternary")
    draw_simplex_loss(ax, compute_simplex_loss(loss, label, resolution=60))
    ax.set_title(name, pad=18)
    print(f"{name}: greatest lower bounds {loss.lower_bounds().round(3)}")
