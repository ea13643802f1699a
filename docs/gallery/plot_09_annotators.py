"""
Three annotators, no truth
==========================

Three people answer, one of them carelessly, one with a habit. Their confusion matrices come from their agreement
alone.
"""

import matplotlib.pyplot as plt
import numpy as np

import tproper as tp

names = ["cat", "dog", "bird"]
habits = [tp.symmetric_noise(3, 0.1), tp.symmetric_noise(3, 0.45), tp.pair_noise(3, 0.3)]
z = np.random.default_rng(11).choice(3, 1500, p=[0.5, 0.3, 0.2])
answers = np.column_stack([T.sample(z, seed=i) for i, T in enumerate(habits)])
estimate = tp.estimate_annotators(answers, num_classes=3, random_state=0)
print("class shares", estimate.prior.round(3), "in truth", (np.bincount(z) / len(z)).round(3))
majority = np.array([np.bincount(row, minlength=3).argmax() for row in answers])
print(f"majority vote right {np.mean(majority == z):.3f}, posteriors {np.mean(estimate.posteriors.argmax(1) == z):.3f}")

fig, axes = plt.subplots(2, 3, figsize=(7.6, 5), layout="constrained", sharex=True, sharey=True)
for who in range(3):
    for row, T, what in ((0, habits[who], "truth"), (1, estimate.transitions[who], "estimated")):
        ax = axes[row, who]
        matrix = T.matrix()
        ax.imshow(matrix, cmap="Blues", vmin=0, vmax=1)
        for (y, c), value in np.ndenumerate(matrix):
            ax.text(
                c, y, f"{value:.2f}", ha="center", va="center", color="white" if value > 0.5 else "black", fontsize=9
            )
        ax.set(
            xticks=range(3), yticks=range(3), xticklabels=names, yticklabels=names, title=f"annotator {who + 1}, {what}"
        )
fig.supxlabel("class")
fig.supylabel("answer")
