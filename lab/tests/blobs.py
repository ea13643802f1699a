"""Images that a few epochs learn something from."""

import numpy as np

from tproper_lab.datasets import Dataset


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
