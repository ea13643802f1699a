"""The work of `tproper bench`."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ..lab import (
    EPOCHS,
    FLAT_MODELS,
    NAMES,
    RATES,
    SEARCH_SHARE,
    Budget,
    Dataset,
    Method,
    chosen_methods,
    cifar10h_counts,
    config_of,
    load,
    paper,
    pose,
    register_own,
    run_bench,
)
from .bench import Asked
from .errors import say
from .experiments import report, rules_among
from .running import Work, check_options, names_among, resource_errors, run_all


def run(asked: Asked) -> None:
    """Check what was asked for, train what is not yet in the store, and write the leaderboard."""
    with resource_errors(asked.run.out):
        check_options(asked.run)
        dataset, models = _where(asked)
        budget = _budget(asked, dataset)
        rules = rules_among(asked.select)
        own = _own(asked)
        if asked.transition_is is not None and asked.transition is None:
            raise ValueError("--transition-is belongs to --transition, which was not given")
        data = load(dataset, asked.run.data, asked.run.mirror)
        posed = pose(asked.problem, data, asked.labels, asked.transition, asked.transition_is, asked.merge)
        soft = None if asked.soft is None else _soft(asked.soft, data)
        names, left_out = chosen_methods(asked.methods, posed.told)
        codes = {method.name: digest for method, digest in own.values()}
        names += [name for name in codes if name not in names]
        configs = {
            model: [config_of(name, model, dataset, posed, budget, codes.get(name, "")) for name in names]
            for model in models
        }
        say(posed.about)
        for name, why in left_out.items():
            say(f"{name} is left out: {why}", err=True)

        def body(work: Work) -> bool:
            work.take(data)
            work.given, work.soft, work.own = dict(posed.given), soft, tuple(own)
            return all(run_bench(configs[model], budget, work.run) is not None for model in models)

        run_all(asked.run, body)
    report(asked.run.out, None, rules)


def _own(asked: Asked) -> dict[str, tuple[Method, str]]:
    """The user's own losses by the place they stand in, each with a name of its own."""
    own = {place: register_own(place) for place in asked.method_files}
    names = [method.name for method, _ in own.values()]
    if len(set(names)) < len(asked.method_files):
        raise ValueError(
            f"--method-file: expected functions of different names, got {', '.join(names)} from "
            f"{', '.join(asked.method_files)}"
        )
    return own


def _soft(folder: Path, data: Dataset) -> np.ndarray:
    """CIFAR-10H's counts as shares."""
    counts = cifar10h_counts(folder)
    if counts.shape != (len(data.test_labels), data.num_classes):
        raise ValueError(f"--soft: expected counts for the test images of {data.name}, got shape {counts.shape}")
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _where(asked: Asked) -> tuple[str, list[str]]:
    """The data set and the models."""
    if asked.dataset and asked.dataset not in NAMES:
        raise ValueError(f"expected --dataset among {', '.join(NAMES)}, got {asked.dataset}")
    models = names_among(
        asked.models or ("resnet20" if asked.dataset == "cifar10" else "mlp"), tuple(paper.MODELS), "--models"
    )
    own = {"mnist" if model in FLAT_MODELS else "cifar10" for model in models}
    if asked.dataset:
        own = {asked.dataset if (asked.dataset == "cifar10") == (name == "cifar10") else "" for name in own}
    if len(own) > 1 or "" in own:
        raise ValueError(
            f"expected --models for one data set, got {', '.join(models)}: linear and mlp take mnist or digits, "
            "resnet20 and wrn28_2 take cifar10"
        )
    return own.pop(), models


def _budget(asked: Asked, dataset: str) -> Budget:
    rates = RATES[dataset] if not asked.lr else _rates(asked.lr)
    epochs = asked.epochs or EPOCHS[dataset]
    search = asked.search_epochs or max(1, epochs // SEARCH_SHARE)
    return Budget(
        rates, epochs, search, asked.trials, asked.search_trials, asked.weight_decay, asked.learned_lr
    )  # fmt: skip


def _rates(text: str) -> tuple[float, ...]:
    try:
        rates = tuple(dict.fromkeys(float(part) for part in text.split(",")))
    except ValueError:
        rates = ()
    if not rates or not all(0 < rate < math.inf for rate in rates):
        raise ValueError(f"expected --lr to be positive numbers with commas between them, got {text}")
    return rates
