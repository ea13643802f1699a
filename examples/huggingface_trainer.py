"""Hugging Face `Trainer` with a weak-label loss: the model stays as it is, the loss comes in by `compute_loss_func`.

A very small BERT with random weights reads sentences of made-up words; each has one complementary label, a class that
it does *not* belong to. Your own model and tokenised data go in the same way. Nothing is downloaded.
Run: ``python examples/huggingface_trainer.py`` (needs transformers and accelerate)
"""

import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

import tproper as tp

K, WORDS, LENGTH = 4, 60, 12


class Sentences(Dataset):
    """Each class likes words of its own; the label is weak."""

    def __init__(self, n, transition, seed):
        rng = np.random.default_rng(seed)
        self.classes = rng.integers(0, K, n)
        own = rng.integers(0, WORDS // K, (n, LENGTH)) * K + self.classes[:, None]
        self.ids = np.where(rng.random((n, LENGTH)) < 0.5, own, rng.integers(0, WORDS, (n, LENGTH)))
        self.labels = transition.sample(self.classes, seed)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return {"input_ids": torch.tensor(self.ids[i]), "labels": int(self.labels[i])}


def weak_loss(transition):
    """What `Trainer` calls: outputs of the model, labels, and how many examples the whole step has."""
    loss = tp.ForwardLoss(transition, reduction="sum")

    def compute(outputs, labels, num_items_in_batch=None):
        total = loss.to(outputs.logits.device)(outputs.logits, labels)  # `Trainer` moves the model alone
        # with gradient accumulation a step has several batches: the mean is over all of them
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)

    return compute


def main(epochs=12, n=1500, seed=0):
    """Returns the test sentences and the model's class probabilities for them."""
    transition = tp.complementary(K)
    train, test = Sentences(n, transition, seed), Sentences(400, transition, seed + 1)
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64,
        max_position_embeddings=LENGTH, num_labels=K,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder, num_train_epochs=epochs, per_device_train_batch_size=32, learning_rate=3e-3, report_to=[],
            save_strategy="no", logging_strategy="no", disable_tqdm=True, seed=seed, use_cpu=True,
        )  # fmt: skip
        model = BertForSequenceClassification(config)
        trainer = Trainer(model, settings, train_dataset=train, compute_loss_func=weak_loss(transition))
        trainer.train()
        scores = trainer.predict(test).predictions
    # the forward loss's link is softmax; other losses have their own: loss.probabilities(scores)
    p = torch.softmax(torch.as_tensor(scores), -1).numpy()
    print(tp.weak_accuracy(test.labels, p.argmax(1), transition))
    print(tp.weak_log_loss(test.labels, p, transition))
    return test, p


if __name__ == "__main__":
    sentences, probabilities = main()
    print(f"on classes that nobody trained on: accuracy {(probabilities.argmax(1) == sentences.classes).mean():.3f}")
