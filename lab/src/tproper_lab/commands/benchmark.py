"""The work of `tproper bench`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tproper_lab as lab
from tproper.cli import say
from tproper.errors import InputError

from .bench import BenchOptions, BenchRun
from .experiments import report, rules_among
from .running import WHICH_MODELS, Work, check_options, models_among, positive_numbers, resource_errors, run_all


def run(options: BenchOptions, run: BenchRun) -> None:
    """Check what was asked for, train what is not yet in the store, and write the leaderboard."""
    with resource_errors(run.out):
        check_options(run)
        default = ["resnet20" if run.dataset == "cifar10" else "mlp"]
        dataset, models = run.dataset, models_among(options.models, run.dataset, default)
        if not dataset:
            dataset, *others = {lab.paper.usual(model)[0] for model in models}
            if not dataset:
                known = ", ".join(lab.dataset_names())
                raise InputError(f"--dataset: expected one of {known} beside the model {models[0]}, got none")
            if others:
                raise InputError(f"--models: expected models for one data set, got {', '.join(models)}; {WHICH_MODELS}")
        budget = _budget(options, dataset)
        rules = rules_among(options.select)
        own = _own(options.method_file or [])
        asked = lab.named_methods(options.methods)
        if options.transition_is is not None and options.transition is None:
            raise InputError("--transition-is: expected it beside --transition, got it alone")
        data = lab.load(dataset, run.data, run.mirror)
        told, how = options.transition, options.transition_is
        posed = lab.pose(options.problem, data, options.labels, told, how, options.merge)
        soft = None if options.soft is None else _soft(options.soft, data, posed.told.num_classes)
        for method, _ in own.values():
            lab.rehearse(method, posed.told)
        names, left_out = lab.chosen_methods(asked, posed.told)
        codes = {method.name: digest for method, digest in own.values()}
        names += [name for name in codes if name not in names]
        say(posed.about)
        for name, why in left_out.items():
            say(f"{name} is left out: {why}", err=True)

        def body(work: Work) -> bool:
            work.take(data)
            work.given, work.soft, work.own = dict(posed.given), soft, tuple(own)
            stored, note = lab.as_stored(posed, work.store.records(dataset=dataset))
            if note:
                say(note, err=True)
            for model in models:
                configs = [lab.config_of(name, model, dataset, stored, budget, codes.get(name, "")) for name in names]
                if lab.run_bench(configs, budget, work.run) is None:
                    return False
            return True

        run_all(run, body)
    report(run.out, None, rules)


def _own(places: list[str]) -> dict[str, tuple[lab.Method, str]]:
    """The user's own losses by the place they stand in, each with a name of its own."""
    own = {place: lab.register_own(place) for place in places}
    names = [method.name for method, _ in own.values()]
    if len(set(names)) < len(places):
        raise InputError(
            f"--method-file: expected functions of different names, got {', '.join(names)} from {', '.join(places)}"
        )
    return own


def _soft(folder: Path, data: lab.Dataset, classes: int) -> np.ndarray:
    """CIFAR-10H's counts as shares."""
    counts = lab.cifar10h_counts(folder)
    if counts.shape != (len(data.test_labels), classes):
        raise InputError(
            f"--soft: expected counts for the {len(data.test_labels)} test images of {data.name} and the {classes} "
            f"classes of this problem, got shape {counts.shape}"
        )
    return np.asarray(counts / counts.sum(axis=1, keepdims=True))


def _budget(options: BenchOptions, dataset: str) -> lab.Budget:
    rates = positive_numbers(options.lr, "--lr") if options.lr else lab.RATES.get(dataset, lab.RATES["mnist"])
    epochs = options.epochs or lab.EPOCHS.get(dataset, lab.EPOCHS["mnist"])
    for name, value in (("--weight-decay", options.weight_decay), ("--learned-lr", options.learned_lr)):
        if value:
            positive_numbers(str(value), name)
    search = options.search_epochs or lab.search_epochs(epochs)
    return lab.Budget(
        rates, epochs, search, options.trials, options.search_trials, options.weight_decay, options.learned_lr
    )  # fmt: skip
