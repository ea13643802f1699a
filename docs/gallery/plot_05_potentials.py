"""
One line, five losses
=====================

Every potential F gives a loss :math:`F(v) - \\langle r, v \\rangle`. With clean labels these are cross entropy and
its relatives; the same objects take weak labels.
"""

import matplotlib.pyplot as plt
import torch

import tproper as tp

T = tp.binary_noise(0.2, 0.2)
margin = torch.linspace(-4, 4, 161, dtype=torch.float64)
scores = torch.stack([margin / 2, -margin / 2], dim=1)
labels = torch.zeros(len(margin), dtype=torch.long)
potentials = {
    "log-sum-exp (cross entropy)": tp.LogSumExp(),
    "Tsallis 1.5": tp.Tsallis(1.5),
    "sparsemax": tp.Sparsemax(),
    "Brier": tp.Brier(),
    "log-sum-exp, squeezed": tp.LogSumExp().squeezed(0.3, 2.0),
}

fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained", sharey=True)
for ax, transition, title in ((axes[0], tp.identity(2), "clean label"), (axes[1], T, "label flipped once in five")):
    for name, potential in potentials.items():
        loss = tp.BackwardLoss(transition, potential, reduction="none")
        ax.plot(margin, loss(scores, labels), label=name)
        print(f"{title}, {name}: lower bound {loss.lower_bounds()[0]:.3f}")
    ax.set(title=title, xlabel="score of the label's class minus the other's", ylim=(-3, 5))
axes[0].set_ylabel("loss")
axes[0].legend(frameon=False, fontsize=8)
