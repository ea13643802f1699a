"""
The loss runs away
==================

Backward correction of cross entropy is unbiased and proper, and has no lower bound. A model that can tell examples
apart finds the hole: training loss falls below anything an honest loss could reach, and the model is ruined.
"""

import warnings

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits

import tproper as tp
from tproper.plots import COLOURS, NAMES, draw_training

X, z = load_digits(return_X_y=True)
X, z = torch.tensor(X / 16, dtype=torch.float32), torch.tensor(z)
T = tp.complementary(10)
weak = torch.as_tensor(T.sample(z, seed=0))


def train(loss, epochs=40):
    """Adam on a small network; the risk after each epoch, and a monitor that watches every batch."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 100), torch.nn.ReLU(), torch.nn.Linear(100, 10))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    monitor, risks = tp.LossMonitor(loss, window=20, num_examples=1200), []
    for _ in range(epochs):
        for batch in torch.randperm(1200).split(100):
            value = loss(model(X[batch]), weak[batch])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            monitor.update(value.detach(), weak[batch])
        with torch.no_grad():
            risks.append(float(loss(model(X[:1200]), weak[:1200])))
    with torch.no_grad():
        right = (model(X[1200:]).argmax(1) == z[1200:]).float().mean()
    return risks, monitor, float(right)


# %%
# How it looks
# ------------
# The certificate says it before you train: no lower bound, and a direction along which the loss falls. During
# training the monitor says when it happens.
backward = tp.BackwardLoss(T)
print(backward.certify())
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    risks, monitor, accuracy = train(backward)
print(caught[-1].message)
print(f"update {monitor.alarm_step}; test accuracy in the end {accuracy:.3f}")

# %%
# The mending
# -----------
# Squeeze it (``squeeze=(k, alpha)``: proper and bounded for every T), take the Brier potential, or use forward
# correction.
losses = {
    "gls": tp.BackwardLoss(T, squeeze=(0.3, 2.0)),
    "brier": tp.BackwardLoss(T, tp.Brier()),
    "forward": tp.ForwardLoss(T),
}
curves, bounds = {"bc": risks}, {}
for name, loss in losses.items():
    curves[name], _, accuracy = train(loss)
    bounds[name] = float(min(loss.lower_bounds()))
    print(
        f"{NAMES[name]:14} bound {bounds[name]:8.2f}, last risk {curves[name][-1]:6.2f}, test accuracy {accuracy:.3f}"
    )

# %%
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
draw_training(ax, curves, bounds)
ax.axvline(monitor.alarm_step / 12, color=COLOURS["bc"], lw=0.8, ls=":")
ax.set_title("Training risk; dotted: the monitor's alarm for BC")
