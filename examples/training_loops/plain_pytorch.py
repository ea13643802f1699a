"""Your own PyTorch loop, with a loss for complementary labels and a monitor.

The digits come with one complementary label each ("this is not a 3"). Three lines differ from supervised training:
the transition, the loss, and the monitor. Run: ``python examples/training_loops/plain_pytorch.py``
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import tproper as tp


def make_data(transition, seed=0):
    """Digits, and a weak label for each: a stand-in for your own data."""
    images, digits = load_digits(return_X_y=True)
    labels = transition.sample(digits, seed=seed)
    x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels)
    x_train, x_test, y_train, y_test = train_test_split(x, y, random_state=seed)
    return TensorDataset(x_train, y_train), TensorDataset(x_test, y_test)


def main(epochs=30, loss_name="forward", seed=0):
    torch.manual_seed(seed)
    transition = tp.complementary(10)
    train, test = make_data(transition, seed)
    model = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10))
    loss = {
        "forward": lambda: tp.ForwardLoss(transition),  # proper, bounded, the most accurate
        "squeezed": lambda: tp.BackwardLoss(transition, squeeze=(1.0, 2.0)),  # proper, bounded
        "backward": lambda: tp.BackwardLoss(transition),  # proper, unbounded: watch the monitor
    }[loss_name]()
    monitor = tp.LossMonitor(loss, num_examples=len(train))
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)

    for _ in range(epochs):
        for x, y in DataLoader(train, batch_size=64, shuffle=True):
            value = loss(model(x), y)
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            monitor.update(value, y)

    x, y = test.tensors
    with torch.no_grad():
        probabilities = loss.probabilities(model(x))  # by the loss's own link, not always softmax
    print(monitor)
    print(tp.weak_accuracy(y, probabilities.argmax(1), transition))
    print(tp.weak_brier(y, probabilities, transition))
    return monitor, probabilities


if __name__ == "__main__":
    main()
