"""The laboratory: experiments run many trials at once, stored, resumed and reported; the paper's, and any others.

A trial flows through the files in this order::

    paper/sweep, comparing -> which trials    protocol, problems -> what a trial is, its weak labels
    datasets  -> images and true labels       methods, neighbours, objectives -> what it minimises
    engine    -> a stack of trials            choosing, results -> which epoch counts, and its scores
    runner    -> stacks until done            store, records -> one row per trial
    report, leaderboard, verdicts -> tables, figures, pages, what is proven

Only torch, numpy and the rooms above are imported at the top of these modules; pandas, pooch, matplotlib, markdown-it
and Triton are imported where they are used, so that the engine runs on a bare GPU machine.

Imports from `plots` and the rooms above it.
"""

from . import neighbours, paper, sweep
from .comparing import (
    EPOCHS,
    RATES,
    Budget,
    as_stored,
    chosen_methods,
    config_of,
    named_methods,
    pose,
    run_bench,
    search_epochs,
)
from .datasets import NAMES, Dataset, folder_of_data, load
from .download import StoppedError, check_mirror
from .engine import Pixels
from .figures import figure1, save_figure
from .methods import METHODS, Card, Method, StackedLoss, find_method, from_function, methods_for, register, setting_of
from .models import FLAT_MODELS, KERNELS
from .own import register_own, rehearse
from .protocol import RULES, Protocol, Trial, TrialConfig, batch_size
from .ray_engine import LabWork, import_ray, run_trials_on_ray
from .real_labels import cifar10h_counts
from .record_files import check_suffix, export_records, gather
from .records import Record, kernel_group, kernels_of
from .report import write_leaderboard_alone, write_report
from .runner import Runner, Status, Stop, name_of
from .store import Store, damaged, not_a_store

__all__ = [
    "EPOCHS",
    "FLAT_MODELS",
    "KERNELS",
    "METHODS",
    "NAMES",
    "RATES",
    "RULES",
    "Budget",
    "Card",
    "Dataset",
    "LabWork",
    "Method",
    "Pixels",
    "Protocol",
    "Record",
    "Runner",
    "StackedLoss",
    "Status",
    "Stop",
    "StoppedError",
    "Store",
    "Trial",
    "TrialConfig",
    "as_stored",
    "batch_size",
    "check_mirror",
    "check_suffix",
    "chosen_methods",
    "cifar10h_counts",
    "config_of",
    "damaged",
    "export_records",
    "figure1",
    "find_method",
    "folder_of_data",
    "from_function",
    "gather",
    "import_ray",
    "kernel_group",
    "kernels_of",
    "load",
    "methods_for",
    "name_of",
    "named_methods",
    "neighbours",
    "not_a_store",
    "paper",
    "pose",
    "register",
    "register_own",
    "rehearse",
    "run_bench",
    "run_trials_on_ray",
    "save_figure",
    "search_epochs",
    "setting_of",
    "sweep",
    "write_leaderboard_alone",
    "write_report",
]
