"""
How many of each class? Counting through noise
==============================================

Shares of labels are not shares of classes. With T they are, with intervals that know how well T is known.
"""

import matplotlib.pyplot as plt
import numpy as np

import tproper as tp

rng = np.random.default_rng(5)
truth = np.array([0.7, 0.2, 0.1])
T = tp.Transition([[0.85, 0.25, 0.1], [0.1, 0.7, 0.2], [0.05, 0.05, 0.7]])
labels = T.sample(rng.choice(3, 4000, p=truth), seed=0)
counts = np.array([rng.multinomial(80, column) for column in T.matrix().T]).T  # 80 checked rows of each class
estimated = tp.Transition.from_counts(counts)
results = {"T known": tp.weak_prevalence(labels, T), "T from 240 checked rows": tp.weak_prevalence(labels, estimated)}
for name, share in results.items():
    print(name, share.value.round(3), "stderr", share.stderr.round(3))
print("check next:", results["T from 240 checked rows"].next_clean_rows)

fig, ax = plt.subplots(figsize=(5.6, 4), layout="constrained")
at = np.arange(3)
ax.bar(at, np.bincount(labels, minlength=3) / len(labels), color="0.85", width=0.8, label="shares of labels")
for shift, (name, share) in zip((-0.15, 0.15), results.items(), strict=True):
    bars = np.abs(share.interval.T - share.value)
    ax.errorbar(at + shift, share.value, bars, fmt="o", capsize=4, label=name)
ax.plot(at, truth, "k_", ms=40, label="truth")
ax.set(xticks=at, xticklabels=["class 0", "class 1", "class 2"], ylabel="share")
ax.legend(frameon=False)
