"""Small data sets of the real formats, and one torch thread so that two cores are enough."""

import pytest
import torch
from blobs import blobs

from tproper_lab import METHODS


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


@pytest.fixture
def small_data():
    return blobs()


@pytest.fixture(scope="session")
def pictures():
    return blobs(name="cifar10", shape=(8, 8, 3), n=240, augment=True)
