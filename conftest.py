"""One thread, and property tests that are the same on every run."""

import gc
import os
import signal
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import HealthCheck, settings

# Dozens of tests start the command: the package is compiled once for all of them, whatever the environment asks for.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# A runner in the background starts its children with Ctrl-C ignored; the tests of interrupts need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "tproper", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("tproper")


def pytest_configure(config):
    """One thread, and no ill-conditioned T by accident; the process that shares tests out needs no torch."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    import torch

    torch.set_num_threads(1)
    config.addinivalue_line("filterwarnings", "error::tproper.ConditioningWarning")


def pytest_collection_modifyitems(items):
    """The pages, whose tests take longest, come first: workers that share the tests then end together."""
    items.sort(key=lambda item: item.path.name != "test_readme.py")


def pytest_collection_finish(session):
    """What torch and thousands of collected tests hold stays to the end: the garbage collector need not walk it.

    Nor need it look so often at what a test holds: most of that is gone by then.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
