"""The same in skorch: the loss as `criterion`, the monitor in a callback, a scikit-learn interface around it.

Run: ``python examples/training_loops/skorch_loop.py`` (needs ``pip install skorch``)
"""

import torch
from plain_pytorch import make_data
from skorch import NeuralNet
from skorch.callbacks import Callback
from torch import nn

import tproper as tp


class WatchLoss(Callback):
    """Feeds the monitor, and stops training when it raises its alarm."""

    def __init__(self, monitor):
        self.monitor = monitor

    def on_batch_end(self, net, batch=None, training=False, loss=None, **kwargs):
        if training:
            self.monitor.update(loss, batch[1])

    def on_epoch_end(self, net, **kwargs):
        if self.monitor.alarm:
            raise KeyboardInterrupt  # how skorch ends `fit` early and keeps the net


class WeakLabelNet(NeuralNet):
    """A net whose probabilities come from the loss's own link."""

    def predict_proba(self, X):
        with torch.no_grad():
            return self.criterion_.probabilities(self.forward(X)).numpy()

    def predict(self, X):
        return self.predict_proba(X).argmax(1)


def main(epochs=30, loss_name="forward", seed=0):
    torch.manual_seed(seed)
    transition = tp.complementary(10)
    train, test = make_data(transition, seed)
    loss = tp.ForwardLoss(transition) if loss_name == "forward" else tp.BackwardLoss(transition)
    monitor = tp.LossMonitor(loss, num_examples=len(train))
    net = WeakLabelNet(
        nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10)),
        criterion=loss,
        optimizer=torch.optim.Adam,
        lr=1e-2,
        batch_size=64,
        max_epochs=epochs,
        iterator_train__shuffle=True,
        train_split=None,
        callbacks=[WatchLoss(monitor)],
        verbose=0,
    )
    net.fit(*train.tensors)
    x, y = test.tensors
    print(monitor)
    scorer = tp.weak_scorer("accuracy", transition)
    print(f"weak accuracy {scorer(net, x, y):.4f}")
    return monitor, torch.as_tensor(net.predict_proba(x))


if __name__ == "__main__":
    main()
