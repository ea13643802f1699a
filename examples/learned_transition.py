"""T learned together with the model, in your own loop: gradients flow through the loss into both.

The labels of the digits are wrong at rates that differ from class to class, and nobody has told us how. T is a softmax
of free numbers, given to the loss in its call. Two things keep T from explaining what the model should: it starts
near the identity, and it pays for its volume, ``lambda log det T``: among all T that explain the labels the one whose
columns are closest together is asked for (Li, Liu, Han, Niu and Sugiyama, 2021).
Run: ``python examples/learned_transition.py``. With a linear model and no loop of your own, `tp.estimate_transition`
does the same, with intervals.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import tproper as tp


def make_data(seed=0):
    """Digits with wrong labels: columns of T with errors of .1 to .5. A stand-in for your own data."""
    rng = np.random.default_rng(seed)
    T = np.zeros((10, 10))
    for z, wrong in enumerate(rng.uniform(0.1, 0.5, 10)):
        T[:, z] = np.insert(wrong * rng.dirichlet(np.ones(9)), z, 1 - wrong)
    transition = tp.Transition(T)
    images, digits = load_digits(return_X_y=True)
    x, x_test, z, z_test = train_test_split(images / 16, digits, random_state=seed)
    return torch.tensor(x).float(), torch.tensor(transition.sample(z, seed)), torch.tensor(x_test).float(), z_test, T


def main(epochs=60, volume=1e-2, learn=True, seed=0):
    """Returns the accuracy on clean test labels, the learned T and the true one."""
    torch.manual_seed(seed)
    x, y, x_test, z_test, truth = make_data(seed)
    model = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Dropout(0.3), nn.Linear(200, 10))
    logits = nn.Parameter(4.0 * torch.eye(10))  # T at the start: .86 on the diagonal
    loss = tp.ForwardLoss(tp.identity(10))  # its own T is not used: one comes with every call
    groups = [{"params": model.parameters(), "weight_decay": 1e-4}, {"params": [logits], "lr": 3e-2}]
    optimiser = torch.optim.AdamW(groups, lr=3e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            T = logits.softmax(0) if learn else torch.tensor(truth).float()  # columns sum to one
            value = loss(model(x[rows]), y[rows], transitions=T)
            if learn:
                value = value + volume * torch.linalg.slogdet(T)[1]
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
    model.eval()
    with torch.no_grad():
        right = (model(x_test).argmax(1).numpy() == z_test).mean()
    return float(right), logits.detach().softmax(0).numpy(), truth


if __name__ == "__main__":
    known, _, _ = main(learn=False)
    accuracy, T, truth = main()
    at_start = torch.softmax(4.0 * torch.eye(10), 0).numpy()
    print(f"accuracy with the true T {known:.3f}, with a learned one {accuracy:.3f}")
    for name, matrix in (("at the start", at_start), ("learned", T)):
        print(f"mean column L1 to the true T, {name}: {np.abs(matrix - truth).sum(axis=0).mean():.3f}")
