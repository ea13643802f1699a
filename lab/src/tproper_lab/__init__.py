"""The laboratory: experiments run many trials at once, stored, resumed and reported; the paper's, and any others.

A trial flows through the files in this order::

    paper/sweep, comparing -> which trials    protocol, problems -> what a trial is, its weak labels
    datasets  -> images and true labels       methods, peers, objectives -> what it minimises
    engine    -> a stack of trials            choosing, results -> which epoch counts, and its scores
    runner    -> stacks until done            store, records -> one row per trial
    report, leaderboard, verdicts -> tables, figures, pages, what is proven

It is made of public names of `tproper`, and adds the commands `reproduce`, `bench` and `report` to its command. Only
torch, numpy and tproper are imported at the top of these modules; pandas, pooch, matplotlib and Triton are imported
where they are used, so that the engine runs on a bare GPU machine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

import tproper

__version__ = "0.1.0"

if tproper.__version__ != __version__:
    raise ImportError(
        f"tproper-lab {__version__} goes with tproper {__version__}, got tproper {tproper.__version__}: "
        f"pip install tproper-lab=={tproper.__version__}"
    )

# A name is imported when it is first asked for, so that `tproper reproduce --help` is answered at once.
_LAZY = {
    "EPOCHS": "comparing",
    "FLAT_MODELS": "models",
    "KERNELS": "models",
    "METHODS": "methods",
    "NAMES": "datasets",
    "RATES": "comparing",
    "RULES": "protocol",
    "Budget": "comparing",
    "Card": "methods",
    "Dataset": "datasets",
    "LabWork": "ray_engine",
    "Method": "methods",
    "Pixels": "engine",
    "Protocol": "protocol",
    "Record": "records",
    "Runner": "runner",
    "StackedLoss": "methods",
    "Status": "runner",
    "Stop": "runner",
    "StoppedError": "download",
    "Store": "store",
    "Trial": "protocol",
    "TrialConfig": "protocol",
    "as_stored": "comparing",
    "batch_size": "protocol",
    "check_mirror": "download",
    "check_suffix": "record_files",
    "chosen_methods": "comparing",
    "cifar10h_counts": "real_labels",
    "dataset_names": "datasets",
    "model_names": "models",
    "config_of": "comparing",
    "damaged": "store",
    "export_records": "record_files",
    "figure1": "figures",
    "find_method": "methods",
    "folder_of_data": "datasets",
    "from_function": "methods",
    "gather": "record_files",
    "import_ray": "ray_engine",
    "kernel_group": "records",
    "kernels_of": "records",
    "load": "datasets",
    "methods_for": "methods",
    "name_of": "runner",
    "named_methods": "comparing",
    "not_a_store": "store",
    "pose": "comparing",
    "register": "methods",
    "register_own": "own",
    "rehearse": "own",
    "run_bench": "comparing",
    "run_trials_on_ray": "ray_engine",
    "save_figure": "figures",
    "search_epochs": "comparing",
    "setting_of": "methods",
    "write_leaderboard_alone": "report",
    "write_report": "report",
}
_MODULES = ("peers", "paper", "sweep")

if TYPE_CHECKING:
    from . import paper, peers, sweep
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
    from .datasets import NAMES, Dataset, dataset_names, folder_of_data, load
    from .download import StoppedError, check_mirror
    from .engine import Pixels
    from .figures import figure1, save_figure
    from .methods import (
        METHODS,
        Card,
        Method,
        StackedLoss,
        find_method,
        from_function,
        methods_for,
        register,
        setting_of,
    )
    from .models import FLAT_MODELS, KERNELS, model_names
    from .own import register_own, rehearse
    from .protocol import RULES, Protocol, Trial, TrialConfig, batch_size
    from .ray_engine import LabWork, import_ray, run_trials_on_ray
    from .real_labels import cifar10h_counts
    from .record_files import check_suffix, export_records, gather
    from .records import Record, kernel_group, kernels_of
    from .report import write_leaderboard_alone, write_report
    from .runner import Runner, Status, Stop, name_of
    from .store import Store, damaged, not_a_store


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value


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
    "dataset_names",
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
    "model_names",
    "name_of",
    "named_methods",
    "not_a_store",
    "paper",
    "peers",
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
