"""The same in Lightning: the loss in `training_step`, the monitor in a callback.

Run: ``python examples/training_loops/lightning_loop.py`` (needs ``pip install lightning``)
"""

import lightning
import torch
from plain_pytorch import make_data
from torch import nn
from torch.utils.data import DataLoader

import tproper as tp


class Classifier(lightning.LightningModule):
    """Any network, trained from weak labels."""

    def __init__(self, loss):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 10))
        self.loss = loss  # an nn.Module: its tables move to the device with the model

    def training_step(self, batch, _):
        x, y = batch
        return self.loss(self.network(x), y)

    def predict_step(self, batch, _):
        return self.loss.probabilities(self.network(batch[0]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


class WatchLoss(lightning.Callback):
    """Feeds the monitor, and stops training when it raises its alarm."""

    def __init__(self, monitor):
        self.monitor = monitor

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.monitor.update(outputs["loss"], batch[1])
        if self.monitor.alarm:
            trainer.should_stop = True


def main(epochs=30, loss_name="forward", seed=0):
    lightning.seed_everything(seed, verbose=False)
    transition = tp.complementary(10)
    train, test = make_data(transition, seed)
    loss = tp.ForwardLoss(transition) if loss_name == "forward" else tp.BackwardLoss(transition)
    monitor = tp.LossMonitor(loss, num_examples=len(train))
    model = Classifier(loss)
    trainer = lightning.Trainer(
        max_epochs=epochs,
        callbacks=[WatchLoss(monitor)],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, DataLoader(train, batch_size=64, shuffle=True))
    probabilities = torch.cat(trainer.predict(model, DataLoader(test, batch_size=256)))
    print(monitor)
    print(tp.weak_accuracy(test.tensors[1], probabilities.argmax(1), transition))
    return monitor, probabilities


if __name__ == "__main__":
    main()
