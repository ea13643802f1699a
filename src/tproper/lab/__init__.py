"""The laboratory: the paper's experiments, run many trials at once, stored, resumed and reported.

A trial flows through the files in this order::

    paper/sweep -> which trials      protocol -> what a trial is     datasets -> images and labels
    engine      -> a stack of trials runner   -> stacks until done   store    -> one row a trial
    report      -> tables, figures, one HTML page

Only torch, numpy and the core are imported at the top of these modules; pandas, pooch, matplotlib,
typer and rich are imported where they are used, so that the engine runs on a bare GPU machine.

Imports from `plots` and the rooms above it.
"""

from . import paper, sweep
from .datasets import NAMES, folder_of_data, load
from .download import StoppedError, check_mirror
from .engine import Pixels
from .figures import figure1, save_figure
from .models import FLAT_MODELS, KERNELS
from .protocol import Protocol, Trial, TrialConfig
from .ray_engine import LabWork, import_ray, run_trials_on_ray
from .report import write_report
from .runner import Runner, Status, Stop
from .store import (
    Record,
    Store,
    check_suffix,
    damaged,
    export_records,
    gather,
    kernel_group,
    kernels_of,
    not_a_store,
)

__all__ = [
    "FLAT_MODELS",
    "KERNELS",
    "NAMES",
    "LabWork",
    "Pixels",
    "Protocol",
    "Record",
    "Runner",
    "Status",
    "Stop",
    "StoppedError",
    "Store",
    "Trial",
    "TrialConfig",
    "check_mirror",
    "check_suffix",
    "damaged",
    "export_records",
    "figure1",
    "folder_of_data",
    "gather",
    "import_ray",
    "kernel_group",
    "kernels_of",
    "load",
    "not_a_store",
    "paper",
    "run_trials_on_ray",
    "save_figure",
    "sweep",
    "write_report",
]
