"""Small data sets of the real formats, and one torch thread so that two cores are enough."""

import numpy as np
import pytest
import torch

from tproper.lab import METHODS
from tproper.lab.datasets import Dataset


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def same_methods():
    """A method that a test registers is gone after it."""
    known = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(known)


def blobs(name="digits", shape=(4, 4, 1), n=600, classes=4, augment=False, seed=0):
    """Images whose class shows in their pixels, so that a few epochs learn something."""
    rng = np.random.default_rng(seed)
    centres = rng.integers(40, 216, (classes, *shape))

    def draw(count):
        labels = rng.integers(0, classes, count)
        images = np.clip(centres[labels] + rng.normal(0, 25, (count, *shape)), 0, 255)
        return images.astype(np.uint8), labels.astype(np.int64)

    train, test = draw(n), draw(200)
    mean, std = ((0.5,) * shape[2], (0.25,) * shape[2]) if augment else ((0.0,), (1.0,))
    return Dataset(name, *train, *test, mean=mean, std=std, augment=augment, num_classes=classes)


@pytest.fixture
def small_data():
    return blobs()


@pytest.fixture(scope="session")
def pictures():
    return blobs(name="cifar10", shape=(8, 8, 3), n=240, augment=True)
