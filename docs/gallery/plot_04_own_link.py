"""
The right link: squeezed scores are not logits
==============================================

Softmax is the link of log-sum-exp alone. A squeezed loss has its own; read its scores with softmax, and a class of
true probability 0.9 looks like a guess.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

import tproper as tp

K = 10
truth = np.linspace(0.1, 0.98, 60)
p = np.column_stack([truth, np.repeat((1 - truth)[:, None] / (K - 1), K - 1, axis=1)])

fig, ax = plt.subplots(figsize=(5, 4.3), layout="constrained")
for k, colour in ((0.1, "#d99a00"), (1.0, "#c65102")):
    loss = tp.BackwardLoss(tp.complementary(K), squeeze=(k, 2.0))
    optimum = loss.potential.inverse_link(torch.as_tensor(p))  # the scores that minimise the risk when p is the truth
    ax.plot(truth, torch.softmax(optimum, -1)[:, 0], color=colour, label=f"softmax, k = {k:g}")
    own = loss.probabilities(optimum)[:, 0]
    print(f"k = {k:g}: truth {truth[-6]:.3f}, own link {own[-6]:.3f}, softmax {torch.softmax(optimum, -1)[-6, 0]:.3f}")
ax.plot(truth, own, color="#0072b2", lw=2, label="the loss's own link")
ax.set(
    xlabel="true probability of the class", ylabel="probability read from the scores", title="Read scores by their link"
)
ax.legend(frameon=False)
