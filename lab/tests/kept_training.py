"""What trials compute: losses, draws, models, schedules, and whole runs of small stacks."""

from __future__ import annotations

import math
import tempfile
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from blobs import blobs
from tests.figures.keeping import Word

import tproper as tp
from tproper_lab import deciding, engine, models, objectives, randomness, results
from tproper_lab.choosing import WeakRisk, compare
from tproper_lab.methods import Method, find_method, from_function, methods_for, setting_of
from tproper_lab.own import rehearse
from tproper_lab.problems import drawn_problem, given_problem, impossible_share, resolve, transition_text
from tproper_lab.protocol import LOSSES, SEARCH_SEED, Progress, Protocol, Trial, TrialConfig
from tproper_lab.ray_engine import stacks_of
from tproper_lab.runner import Runner, Stop, alike, default_slots
from tproper_lab.stacking import stacked
from tproper_lab.store import Store

Cases = dict[str, Callable[[], Any]]
CPU = torch.device("cpu")
K = 4
NOISY = tp.Transition([[0.7, 0.1, 0.05, 0.2], [0.1, 0.8, 0.05, 0.1], [0.1, 0.05, 0.6, 0.1], [0.1, 0.05, 0.3, 0.6]])
KINDS: dict[str, Callable[[], tp.Transition]] = {
    "complementary": lambda: tp.complementary(K),
    "sets": lambda: tp.partial_labels(K, 0.3),
    "excluded": lambda: tp.multi_complementary(5, 2),
    "noisy": lambda: NOISY,
    "positive": lambda: tp.positive_unlabeled(0.4),
    "answers": lambda: tp.annotators([tp.symmetric_noise(K, 0.2), NOISY, tp.pair_noise(K, 0.3)]),
    "complementary answers": lambda: tp.annotators([tp.complementary(K), tp.complementary(K)]),
}


def scores_and_labels(T: tp.Transition, S: int = 2, n: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores (S, n, K) of no symmetry, and a weak label for each row."""
    rng = np.random.default_rng(T.num_classes)
    v = torch.as_tensor(2 * rng.normal(size=(S, n, T.num_classes)))
    drawn = T.sample(rng.integers(0, T.num_classes, S * n), seed=1)
    return v, T.encode(drawn).unflatten(0, (S, n))


def by_method() -> Cases:
    """Risk, gradients and probabilities of every method on every kind of label that it takes."""

    def each(method: Method, T: tp.Transition) -> list[Any]:
        v, y = scores_and_labels(T)
        loss = method.build(T)
        start = loss.start(2, CPU)
        if start is not None:
            start = start.double() + torch.linspace(-0.4, 0.5, start.numel(), dtype=torch.float64).reshape(start.shape)
        risk, slope, learned = objectives.differentiated(loss, v, y, start)
        with torch.no_grad():
            p = loss.probabilities(v, start)
        return [risk, slope, learned, p[0, :2], Word(setting_of(T))]

    left = torch.tensor(
        [[[0, 1, 2, 3], [0, 0, 1, -1], [-1] * 4, [3, 2, 1, 0]], [[1, 1, 1, 2], [3, 2, 0, 1], [0] * 4, [2, -1, 3, 0]]]
    )
    out: Cases = {}
    for kind, make in KINDS.items():
        for name in [m.name for m in methods_for(make())]:
            out[f"{kind}, {name}"] = lambda name=name, make=make: each(find_method(name), make())
    for name in ("gls:0.3,1.5", "gls:2,1", "forward:brier", "ls:0.2", "sce:0.4,1.5", "gce:0.3"):
        out[f"noisy, {name}"] = lambda name=name: each(find_method(name), NOISY)
    return out | {
        "methods of a kind": lambda: [[Word(m.name) for m in methods_for(make())] for make in KINDS.values()],
        "nothing is left": lambda: [
            find_method(name).build(KINDS["complementary answers"]())(
                torch.linspace(-1, 2, 32).reshape(2, 4, 4), left, None
            )
            for name in ("mcl_log", "mcl_mae", "mcl_exp")
        ],
        "a function": lambda: each(from_function(lambda v, y: (v.logsumexp(-1) - v[..., 0]) * (1 + y)), NOISY),
        "a function of batches": lambda: each(from_function(lambda v, y: v.square().sum((1, 2))), NOISY),
    }


def cards() -> Cases:
    """What is proven of methods where that is quick."""

    def told(method: str, T: tp.Transition) -> list[Any]:
        card = find_method(method).card(T)
        bounds = [] if card.certificate is None else card.certificate.bounds
        return [card.proper, card.bounded, Word(card.evidence), Word(card.verdict), bounds]

    def found(each: Any, T: tp.Transition) -> list[Any]:
        example = deciding.counterexample(each, T)
        few = deciding.with_few_classes(T)
        losses = deciding.table(each, T, "one")(torch.full((2, T.num_classes), 1.0 / T.num_classes).double())
        small = None if few is None else [few.num_classes, few.matrix()]
        return [example, small, losses]

    each = {
        "entropy": lambda v, y: -torch.log_softmax(v, -1).gather(-1, y[..., None])[..., 0],
        "exclusion": lambda v, y: torch.softmax(v, -1).gather(-1, y[..., None])[..., 0].exp(),
    }
    big = {
        "noise": tp.symmetric_noise(6, 0.25),
        "complementary": tp.complementary(7),
        "a little noise": tp.complementary(6, noise=0.1),
        "unlike": tp.pair_noise(5, 0.2),
    }
    out: Cases = {
        f"{method}, {kind}": lambda method=method, kind=kind: told(method, KINDS[kind]())
        for method, kind in [
            ("forward", "noisy"),
            ("bc", "complementary"),
            ("gls", "complementary"),
            ("ga", "noisy"),
            ("rc", "sets"),
            ("volminnet", "noisy"),
            ("upu", "positive"),
            ("nnpu_ascent", "positive"),
        ]
    }
    for loss, function in each.items():
        for kind, T in big.items():
            out[f"searched: {loss}, {kind}"] = lambda function=function, T=T: found(function, T)
    return out | {
        "few classes": lambda: [
            None if (few := deciding.with_few_classes(T)) is None else [Word(few.name), few.matrix()]
            for T in (tp.partial_labels(6, 0.2), tp.multi_complementary(6, 4), tp.multi_complementary(6, 1), NOISY)
        ]
    }


def draws() -> Cases:
    """Numbers that depend on seed, epoch and place alone."""
    seeds, epochs = torch.tensor([0, 7, 2**40]), torch.tensor([0, 1, 9])
    index = torch.tensor([[0, 1, 2], [5, 6, 7], [2, 2, 0]])
    data = blobs(n=90, shape=(5, 5, 3), augment=True)

    def inputs(augment: bool) -> list[Any]:
        pixels = engine.Pixels(replace(data, augment=augment), CPU)
        return [
            pixels.batch(index, seeds, epochs, None)[:, :, 1::2, ::2].double().mean(-1),
            pixels.plain(index)[0, 0],
            pixels.scaled(pixels.test[:1])[0, 0],
        ]

    def split(validation: float) -> list[Any]:
        task = resolve(drawn_problem("symmetric:0.3", data), data)
        train, valid, weak = engine.split_and_labels(task, 3, validation)
        return [len(train), valid, weak]

    return {
        "order": lambda: randomness.permutations(seeds, epochs, 11),
        "bits": lambda: [Word(int(b)) for b in randomness.bits(seeds, epochs, index[0], randomness.ORDER)],
        "crops": lambda: list(randomness.crops(seeds, epochs, index, 4)),
        "crops of another purpose": lambda: list(randomness.crops(seeds, epochs, index, 2, randomness.VALIDATION)),
        "inputs": lambda: inputs(False),
        "inputs, augmented": lambda: inputs(True),
        "split": lambda: split(0.25),
        "split, few": lambda: split(0.02),
    }


def nets() -> Cases:
    """First weights and scores of every model."""

    def net(name: str, shape: tuple[int, int, int], kernels: str = "auto") -> list[Any]:
        model = stacked(name, shape, K, CPU, kernels)
        states = [model.initial(seed) for seed in (3, 4)]
        weights, buffers = ({n: torch.stack([s[i][n] for s in states]) for n in states[0][i]} for i in (0, 1))
        x = torch.randn(2, 3, *shape, generator=torch.Generator().manual_seed(0))
        out: list[Any] = [model.scores(weights, buffers, x, train=True), model.scores(weights, buffers, x, train=False)]
        out += [[t.shape, t.double().std(), t.double().mean()] for t in (*weights.values(), *buffers.values())]
        return [*out, model.eval_images, model.exact, model.inputs is None, Word(type(model).__name__)]

    return {
        "linear": lambda: net("linear", (3, 2, 1)),
        "mlp": lambda: net("mlp", (2, 2, 1)),
        "resnet20": lambda: net("resnet20", (8, 8, 3)),
        "float32": lambda: net("mlp", (2, 2, 1), "float32"),
        "names": lambda: [Word(n) for n in (*models.model_names(), *models.FLAT_MODELS, *models.KERNELS)],
        "wrn28_2": lambda: [
            [list(p.shape), p.requires_grad] for p in models.builder_of("wrn28_2")((8, 8, 3), 10).parameters()
        ],
    }


def stacks() -> Cases:
    """The risks of slots that have different methods, what they learn, and how slots move."""

    def mixed() -> list[Any]:
        problem = drawn_problem("symmetric:0.2", blobs())
        config = TrialConfig("digits", "linear", "forward", 0.1, problem=problem, learned_lr=0.05)
        names = ["forward", "volminnet", "gls:0.3,1.5", "ce", "volminnet", "bc"]
        T = tp.symmetric_noise(K, 0.2)
        stack = objectives.StackObjective(T, len(names), CPU)
        changed = [stack.assign(i, replace(config, loss=name)) for i, name in enumerate(names)]
        again = stack.assign(0, config)
        v, y = scores_and_labels(T, S=6)
        out: list[Any] = [changed, again, stack.kind, stack.k, stack.alpha]
        for _ in range(2):
            risk, slope, learned = stack.with_gradient(v.float(), y)
            stack.descend(learned, torch.tensor([0.1, 0.2, 0.1, 0.1, 0.3, 0.0]), 0.9)
            out += [risk, slope[:, 0], stack.learned["volminnet"], stack.velocity["volminnet"]]
        other = objectives.StackObjective(T, 2, CPU)
        other.copy_from(stack, [4, 2])
        risk, slope, _ = other.with_gradient(v[[4, 2]].float(), y[[4, 2]])
        state = stack.state(4)
        stack.restore(1, state)
        shapes = stack.state_shapes(replace(config, loss="volminnet"))
        return [
            *out,
            risk,
            slope[:, 0],
            [sorted(map(Word, stack.state(0)))],
            stack.learned["volminnet"][1],
            [list(s) for s in shapes.values()],
            stack.probabilities(4, "volminnet", v[4].float())[:2],
            len(stack.moved()),
            [None if m is None else Word(m) for m in other.methods],
        ]

    def kernel() -> list[Any]:
        T = tp.complementary(K)
        v, y = scores_and_labels(T, S=5)
        objective = objectives.Objective(T.matrix(), T.reconstruction().matrix(), CPU)
        kind = torch.tensor([LOSSES.index(name) for name in ("bc", "ga", "gls", "forward", "gls")])
        k, alpha = torch.tensor([0.0, 0.0, 0.7, 0.0, 0.4]), torch.tensor([2.0, 2.0, 2.0, 2.0, 1.3])
        return list(objective.with_gradient(v.float(), y, kind, k, alpha))

    def settings() -> list[Any]:
        T = tp.complementary(K)
        losses = ("bc", "ga", "gls", "gls:0.3,1.5", "forward", "forward:brier", "nn", "backward_brier", "scl_nl")
        return [objectives.kernel_settings(find_method(name).build(T)) for name in losses]

    def warm_up(by_epoch: bool) -> list[Any]:
        data = blobs(n=60)
        protocol = Protocol(batch_size=8, warmup_epochs=2, warmup_by_epoch=by_epoch)
        model = stacked("linear", data.shape, data.num_classes, CPU)
        stack = engine.Stack(data, engine.Pixels(data, CPU), model, protocol, 2)
        stack.epochs = torch.tensor([0, 1])
        factors = []
        for steps in range(0, 20, 3):
            stack.steps = torch.tensor([float(steps), steps / 2])
            factors.append(stack._warm_up())
        return [stack.steps_per_epoch, stack.decays, factors, stack._chunk(3), stack._chunk(10**9)]

    def chosen() -> list[Any]:
        T = tp.symmetric_noise(K, 0.2)
        weak, least = WeakRisk(T, CPU), torch.full((3, 40), torch.inf, dtype=torch.float64)
        rng = np.random.default_rng(8)
        y = torch.as_tensor(rng.integers(0, K, (3, 40)))
        out: list[Any] = []
        for step in range(5):
            sharp = torch.nn.functional.one_hot(y, K) * torch.tensor([0.2, 1.0, 4.0])[:, None, None] * (step - 1)
            v = torch.as_tensor(rng.normal(size=(3, 40, K))) + sharp
            if step == 4:
                v[2, 0, 0] = torch.nan
            risk, keeps, least = compare(weak.calibrated(v, y), least)
            out += [risk, keeps.tolist(), least[:, :3]]
        return out

    def filled() -> list[Any]:
        """Which trials a stack holds as others end, and when it shrinks."""
        data = blobs(n=60)
        config = TrialConfig("digits", "linear", "bc", 0.1, protocol=Protocol(batch_size=8))
        out = []
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            runner = Runner(data, engine.Pixels(data, CPU), store)
            for active, waiting, seconds in (
                (6, 0, 0.1),
                (6, 0, 0.9),
                (5, 0, 0.1),
                (4, 0, 0.0),
                (4, 2, 9.0),
                (8, 0, 9.0),
                (0, 0, 9.0),
            ):
                queue = deque(Trial(config, s) for s in range(8))
                stack = runner._fill(runner._stack(queue[0], 8), queue, 0.0)
                for slot in range(active, 8):
                    stack.assigned[slot] = None
                more = deque(Trial(config, 20 + s) for s in range(waiting))
                found = runner._fill(stack, more, seconds)
                out.append([found.slots, len(found.active), len(more), [a.trial.seed for _, a in found.active]])
            store.close()
        return out

    return {
        "filled": filled,
        "mixed": mixed,
        "kernel": kernel,
        "which kernel": settings,
        "warm-up": lambda: warm_up(False),
        "warm-up by epoch": lambda: warm_up(True),
        "epochs chosen": chosen,
    }


def schedules() -> Cases:
    """Where trials stand after epochs that got better, stayed and got worse."""
    valid = [0.3, 0.5, 0.4, 0.5, 0.6, 0.1, 0.2, 0.3, 0.2, 0.61, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.7]

    def course(**settings: Any) -> list[Any]:
        protocol, at, out = Protocol(**settings), Progress(), []
        for epoch, accuracy in enumerate(valid):
            out.append([at.lr_factor(protocol), at.finished(protocol)])
            out.append([at.record(protocol, 1 / (1 + epoch), accuracy), at.stale, at.reductions, at.best_epoch])
            out.append([at.record_weak(2.0 - epoch % 5, epoch % 4 == 2), at.weak_epoch])
        again = at.replayed(protocol)
        return [*out, again == at, again.epoch, at.best_accuracy]

    def key(config: TrialConfig) -> list[Any]:
        return [
            Word(config.key),
            TrialConfig.from_dict(config.as_dict()) == config,
            sorted(map(Word, config.as_dict())),
        ]

    base = TrialConfig("digits", "linear", "bc", 0.1)
    problem = drawn_problem("complementary", blobs(classes=10))
    return {
        "plateau": lambda: course(patience=3),
        "plateau, two": lambda: course(patience=2, stops_at=2, reduction=0.5, max_epochs=15),
        "cosine": lambda: course(schedule="cosine", max_epochs=15, patience=2),
        "stacks": lambda: [
            [t.seed for t in stack]
            for size in (1, 2, 3, 5)
            for stack in stacks_of([Trial(replace(base, lr=lr), s) for s in range(3) for lr in (0.1, 1.0)], size)
        ],
        "usual": lambda: list(vars(Protocol()).values())[:-1],
        "key": lambda: key(base),
        "key, squeezed": lambda: key(replace(base, loss="gls", k=0.3, alpha=1.5)),
        "key, problem": lambda: key(replace(base, problem=problem, learned_lr=0.1, code="ab")),
        "key, variant": lambda: key(replace(base, protocol=Protocol(augment_validation=True, schedule="cosine"))),
        "batch sizes": lambda: [engine.PAD, *[Protocol.batch_size], default_slots("mlp", "cpu")],
        "slots": lambda: [default_slots(m, d) for m in ("linear", "resnet20") for d in ("cpu", "cuda")],
        "alike": lambda: [
            [t.seed for t in group]
            for group in alike(
                [
                    Trial(replace(base, lr=lr, model=m), s)
                    for s in (1, 2)
                    for lr in (0.1, 1.0)
                    for m in ("linear", "mlp")
                ]
            )
        ],
    }


def problems() -> Cases:
    """Which labels a problem gives, and the T that is told."""
    data = blobs(n=50, classes=10)
    labels = tp.symmetric_noise(10, 0.3).sample(data.train_labels, seed=4)

    def drawn(spec: str, **told: Any) -> list[Any]:
        problem = drawn_problem(spec, data, **told)
        task = resolve(problem, data)
        return [
            *map(Word, (problem.name, problem.source, problem.merged)),
            task.weak_labels(5)[:20],
            task.told.matrix(),
            task.data.train_labels[:9],
            task.data.num_classes,
            impossible_share(task),
            Word(setting_of(task.told)),
        ]

    def given(T: Any, y: Any, merged: str = "") -> list[Any]:
        problem = given_problem("mine", y, T, data, "estimated", merged)
        task = resolve(problem, data, {problem.digest: y})
        return [Word(problem.digest), Word(problem.told), impossible_share(task), task.weak_labels(0)[:9]]

    return {
        "complementary": lambda: drawn("complementary"),
        "sets": lambda: drawn("partial:0.2")[3:4],
        "PU": lambda: drawn("pu:0.5"),
        "told another": lambda: drawn("symmetric:0.2", told="symmetric:0.4"),
        "told an object": lambda: drawn("symmetric:0.2", told=tp.pair_noise(10, 0.3), source="estimated"),
        "merged": lambda: drawn("symmetric:0.2", merged="0+3+4|1+2+9|5+6+7+8"),
        "given": lambda: given("symmetric:0.3", labels),
        "given, impossible": lambda: given("complementary:10", labels),
        "given, merged": lambda: given("symmetric:0.1", labels % 2, "0+2+4+6+8|1+3+5+7+9"),
        "texts": lambda: [Word(transition_text(T)) for T in (tp.complementary(3), tp.symmetric_noise(3, 0.25))],
        "rehearsed": lambda: [rehearse(from_function(lambda v, y: v.square().sum(-1), "mine"), NOISY)],
    }


def finished(loss: str, seed: int, soft: bool) -> results.Finished:
    """A trial that has ended, without training it."""
    data = blobs(n=60)
    problem = None if loss == "gls paper" else drawn_problem("symmetric:0.2", data)
    config = TrialConfig("digits", "linear", loss.partition(" ")[0], 0.1, problem=problem, k=0.5 if not problem else 0)
    rng = np.random.default_rng(11)
    progress = Progress(epoch=3, seconds=1.25, risk=[2.0, 1.5, math.nan], valid=[0.25, 0.75, 0.5], best_accuracy=0.75)
    progress.best_epoch, progress.weak, progress.weak_epoch = 2, [1.3, 1.25, 1.2], 3
    rules = ("clean", "weak") if problem else ("clean",)
    y, held = torch.as_tensor(rng.integers(0, K, 50)), torch.as_tensor(rng.integers(0, K, 40))
    all_labels = torch.cat([held, y])
    v = torch.as_tensor(rng.normal(size=(len(rules), 90, K))) + 2.0 * torch.nn.functional.one_hot(all_labels, K)
    own = torch.softmax(3 * v[:, 40:], -1)
    if not problem:
        own = results.probabilities(config, 5 * v[:, 40:])
    T = tp.symmetric_noise(K, 0.2)
    people = rng.dirichlet(np.ones(K), 50) if soft else None
    weak = T.encode(T.sample(held.numpy(), seed=2))
    return results.Finished(Trial(config, seed), progress, rules, v, own, y, held, weak, T, "here", people)


def records() -> Cases:
    """Every number of a trial's record."""

    def of(record: dict[str, Any]) -> list[Any]:
        apart = ("id", "config_key", "software", "revision", "finished_at", "config", "seconds", "machine")
        out = []
        for name in sorted(set(record) - {*apart, "selections"}):
            value = record[name]
            out.append(Word(value) if isinstance(value, str) else value)
        for part in record.get("selections", {}).values():
            flat = [part[n] for n in sorted(part) if not isinstance(part[n], dict)]
            inner = [v for n in sorted(part) if isinstance(part[n], dict) for _, v in sorted(part[n].items())]
            out += [Word(v) if isinstance(v, str) else v for v in (*flat, *inner)]
        return out

    def trained(
        spec: str, names: list[str], seeds: list[int], paper: bool = False, model: str = "linear", **changes: Any
    ) -> list[Any]:
        data = blobs(n=64, shape=(2, 2, 1), classes=10 if spec.startswith("pu") else 4)
        problem = None if paper else drawn_problem(spec, data)
        protocol = Protocol(batch_size=16, max_epochs=3, warmup_epochs=1, validation=0.25, **changes)
        configs = [
            TrialConfig(
                "digits",
                model,
                n,
                0.3,
                protocol=protocol,
                problem=problem,
                k=0.5 if paper and n == "gls" else 0.0,
                learned_lr=0.05,
            )
            for n in names
        ]
        with tempfile.TemporaryDirectory() as folder:
            store = Store(folder)
            try:
                done = Runner(data, engine.Pixels(data, CPU), store, 2).run(
                    [Trial(c, s) for s in seeds for c in configs], Stop()
                )
                found = store.records()
                return [done, len(found), len(store.done()), *[of(r) for r in found]]
            finally:
                store.close()

    return {
        "made": lambda: of(results.make_record(finished("forward", 3, False), "r", "auto")),
        "made, soft": lambda: of(results.make_record(finished("ce", 3, True), "r", "auto")),
        "made, search": lambda: of(results.make_record(finished("ce", SEARCH_SEED, True), "r", "auto")),
        "made, paper": lambda: of(results.make_record(finished("gls paper", 3, False), "r", "auto")),
        "trained, paper": lambda: trained("", list(LOSSES), [1], paper=True),
        "trained, mlp": lambda: trained("symmetric:0.2", ["ce"], [1, 2, 3], model="mlp", schedule="cosine"),
        "trained, noisy": lambda: trained("symmetric:0.2", ["forward", "volminnet"], [1, 2], schedule="cosine"),
        "trained, sets": lambda: trained("partial:0.3", ["cc", "proden"], [1], schedule="cosine"),
        "trained, PU": lambda: trained("pu:0.4", ["nnpu"], [1000], schedule="cosine"),
        "link": lambda: results.probabilities(
            TrialConfig("digits", "linear", "gls", 0.1, k=0.5, alpha=1.5), torch.tensor([[3.0, 0, 0], [0.1, 0.2, 9]])
        ),
        "scores": lambda: list(
            results.probability_scores(
                torch.tensor([[0.5, 0.5, 0], [1.0, 0, 0], [0.2, 0.2, 0.6]]), torch.tensor([0, 1, 2])
            ).values()
        ),
    }


def cases() -> Cases:
    """Every case by its name."""
    rooms = {
        "method": by_method,
        "card": cards,
        "draw": draws,
        "net": nets,
        "stack": stacks,
        "schedule": schedules,
        "problem": problems,
        "record": records,
    }
    return {f"{head}: {name}": call for head, room in rooms.items() for name, call in room().items()}
