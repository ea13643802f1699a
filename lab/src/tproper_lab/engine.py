"""A stack of trials: S models trained side by side, each from its own seed.

Everything a step needs lives on the device: images as uint8, every trial's split, weak labels, batch
order, learning rate, weight decay, k, alpha and kind of loss. So one step of the whole stack, data
gathering and augmentation included, is one fixed sequence of kernels: on a GPU it is captured once as
a CUDA graph and replayed. A slot's trial can be exchanged without touching the others.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from tproper.errors import InputError

from . import randomness
from .choosing import WeakRisk, compare
from .datasets import Dataset
from .models import StackedModel, Tensors
from .objectives import StackObjective
from .problems import Task, papers_task
from .protocol import RULES, Progress, Protocol, Trial

try:  # one launch instead of a chain of small ones; exists where Triton does
    from . import compiling, step_kernels
except ImportError:
    compiling = step_kernels = None  # type: ignore[assignment]

PAD = 4  # pixels of zeros around an image before the random crop


def launches(t: torch.Tensor) -> bool:
    """Whether the Triton kernels of a step run where t lies."""
    return t.is_cuda and step_kernels is not None


class Pixels:
    """A data set's images on the device, and how they become inputs."""

    def __init__(self, data: Dataset, device: torch.device):
        self.augment = data.augment
        self.side = data.train_images.shape[1]
        mean, std = torch.tensor(data.mean), torch.tensor(data.std)
        self.scale, self.shift = (1 / (std * data.white)).to(device), (-mean / std).to(device)
        self.centred = bool(mean.any())
        images = torch.tensor(data.train_images)
        if self.augment:
            images = torch.nn.functional.pad(images, (0, 0, PAD, PAD, PAD, PAD))
        self.train = images.to(device)  # (N, H, W, C), padded when augmented
        self.test = torch.tensor(data.test_images).to(device)

    def scaled(self, images: torch.Tensor) -> torch.Tensor:
        """Pixels as inputs, (pixel / white - mean) / std, in as few passes over memory as it takes."""
        x = images * self.scale
        return x.add_(self.shift) if self.centred else x

    def batch(
        self, index: torch.Tensor, seeds: torch.Tensor, epochs: torch.Tensor, like: tuple[int, torch.dtype] | None
    ) -> torch.Tensor:
        """Inputs of a training step, cropped and flipped where that is due.  # (S, n) -> (S, n, H, W, C)

        ``like``: the channels (more of them are zeros) and dtype that the model computes with.
        """
        if launches(index):
            channels, dtype = like or (self.train.shape[-1], torch.float32)
            pad = PAD if self.augment else 0
            return step_kernels.crop(
                self.train, index, seeds, epochs, self.scale, self.shift, pad, channels, dtype
            )  # fmt: skip
        if not self.augment:
            return self.plain(index)
        return self.cropped(index, *randomness.crops(seeds, epochs, index, PAD))

    def cropped(self, index: torch.Tensor, rows: torch.Tensor, cols: torch.Tensor, flips: torch.Tensor) -> torch.Tensor:
        """Training images, so cropped and flipped.  # (S, n) each -> (S, n, H, W, C)"""
        line = torch.arange(self.side, device=index.device)
        across = torch.where(flips[..., None] == 1, self.side - 1 - line, line)
        y, x = rows[..., None] + line, cols[..., None] + across  # (S, n, side)
        return self.scaled(self.train[index[..., None, None], y[..., :, None], x[..., None, :]])

    def plain(self, index: torch.Tensor) -> torch.Tensor:
        """Training images as they are.  # (S, n) -> (S, n, H, W, C)"""
        images = self.train[index]
        if self.augment:
            images = images[..., PAD:-PAD, PAD:-PAD, :]
        return self.scaled(images)


@dataclass
class Assignment:
    """Which trial a slot holds, and where that trial stands."""

    trial: Trial
    progress: Progress


@lru_cache(maxsize=64)  # the methods of a table share their seeds
def split_and_labels(task: Task, seed: int, validation: float) -> tuple[np.ndarray, np.ndarray, torch.Tensor]:
    """A seed's training indices, validation indices, and the weak label of every example.

    All three come from the seed alone (labels of a file from there), on the CPU, so that every machine agrees.
    """
    n = len(task.data.train_labels)
    held_out = round(n * validation)
    order = np.random.default_rng([seed, 0]).permutation(n)
    weak = task.told.encode(task.weak_labels(seed))
    return np.sort(order[held_out:]), np.sort(order[:held_out]), weak


class Stack:
    """``slots`` trials of one model on one data set with one kind of weak labels (the paper's, unless `task` says)."""

    #: Tensors with one row per slot (besides the model's buffers).
    PER_SLOT = (
        "flat", "velocity", "train_index", "valid_index", "valid_labels", "order", "weak", "seeds",
        "epochs", "steps", "lr", "learned_lr", "weight_decay", "risk", "best_scores", "valid_scores", "least_rows",
    )  # fmt: skip

    def __init__(
        self,
        data: Dataset,
        pixels: Pixels,
        model: StackedModel,
        protocol: Protocol,
        slots: int,
        task: Task | None = None,
    ):
        self.task = papers_task(data) if task is None else task
        self.rules = RULES[:1] if task is None else RULES
        self.data, self.pixels, self.model, self.protocol = self.task.data, pixels, model, protocol
        self.slots = slots
        self.device = device = pixels.train.device
        if device.type == "cuda":  # TF32 products: 10 bits of mantissa, float32 sums
            torch.set_float32_matmul_precision("highest" if model.exact else "high")
        self.assigned: list[Assignment | None] = [None] * slots
        weights, buffers = model.initial(0)
        self.shapes = {name: t.shape for name, t in weights.items()}
        sizes = [t.numel() for t in weights.values()]
        self.flat = torch.zeros(slots, sum(sizes), device=device)
        self.velocity = torch.zeros_like(self.flat)
        # weight decay acts on matrices and kernels, not on biases or batch norm
        self.decays = torch.cat([torch.full((t.numel(),), float(t.dim() > 1)) for t in weights.values()]).to(device)
        self.weights = self._views(self.flat)
        self.leaves = [t.detach().requires_grad_() for t in self.weights.values()]
        self.buffers = {name: torch.zeros((slots, *t.shape), device=device) for name, t in buffers.items()}
        n = len(data.train_labels)
        held_out = round(n * protocol.validation)
        self.steps_per_epoch = (n - held_out) // protocol.batch_size
        if self.steps_per_epoch == 0:
            raise InputError(
                f"expected at least one batch of {protocol.batch_size} in {data.name}'s "
                f"{n - held_out} training examples"
            )
        self.objective = StackObjective(self.task.told, slots, device)
        self.weak_risk = WeakRisk(self.task.told, device)
        self._allocate(n - held_out, held_out)
        self.cursor = torch.arange(protocol.batch_size, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.recordable = True  # as a CUDA graph

    def _allocate(self, training: int, held_out: int) -> None:
        """The tensors with a row per slot, besides the model's."""
        slots, classes = self.slots, self.data.num_classes

        def whole(*shape: int) -> torch.Tensor:
            return torch.zeros((slots, *shape), dtype=torch.int64, device=self.device)

        def real(*shape: int) -> torch.Tensor:
            return torch.zeros((slots, *shape), device=self.device)

        self.train_index, self.valid_index = whole(training), whole(held_out)
        self.order, self.valid_labels = whole(training), whole(held_out)
        told = self.task.told
        self.weak = whole(training + held_out, *told.label_shape).to(told.label_dtype)
        self.seeds, self.epochs, self.rows = whole(), whole(), torch.arange(slots, device=self.device)[:, None]
        self.steps, self.lr, self.learned_lr, self.weight_decay, self.risk = (real() for _ in range(5))
        # scores of the validation images, then of the test images, at the epoch that each rule has chosen
        self.valid_scores = real(held_out, classes)
        self.best_scores = real(len(self.rules), held_out + len(self.data.test_labels), classes)
        # the held-out rows' weak risks at the epoch where their mean was least
        self.least_rows = torch.full((slots, held_out), torch.inf, dtype=torch.float64, device=self.device)

    def _views(self, flat: torch.Tensor) -> Tensors:
        views, start = {}, 0
        for name, shape in self.shapes.items():
            views[name] = flat[:, start : start + shape.numel()].unflatten(1, shape)
            start += shape.numel()
        return views

    # --- exchanging trials ---------------------------------------------------------------------

    def put(self, slot: int, trial: Trial, progress: Progress | None = None, state: Tensors | None = None) -> None:
        """Load a trial into a slot: fresh from its seed, or from a checkpoint's state."""
        config = trial.config
        train, valid, weak = split_and_labels(self.task, trial.seed, config.protocol.validation)
        self.train_index[slot] = torch.from_numpy(train)
        self.valid_index[slot] = torch.from_numpy(valid)
        self.valid_labels[slot] = torch.from_numpy(self.data.train_labels[valid])
        self.weak[slot] = weak
        if self.objective.assign(slot, config):
            self.graph, self.recordable = None, True  # a step is another sequence of kernels now
        if state is None:
            weights, buffers = self.model.initial(trial.seed)
            for name, t in weights.items():
                self.weights[name][slot] = t
            for name, t in buffers.items():
                self.buffers[name][slot] = t
            self.velocity[slot] = 0
            self.best_scores[slot] = 0
            self.least_rows[slot] = torch.inf
        else:
            for name, t in self._kept().items():
                t[slot] = state[name]
            self.objective.restore(slot, state)
        progress = progress or Progress()
        self.seeds[slot], self.epochs[slot] = trial.seed, progress.epoch
        self.steps[slot] = progress.epoch * self.steps_per_epoch
        self.weight_decay[slot] = config.weight_decay
        self.assigned[slot] = Assignment(trial, progress)

    def accepts(self, state: Tensors, trial: Trial) -> bool:
        """Whether a checkpoint's tensors have the names and shapes of this stack's."""
        mine = {name: t.shape[1:] for name, t in self._kept().items()} | self.objective.state_shapes(trial.config)
        return all(name in state and state[name].shape == shape for name, shape in mine.items())

    def state(self, slot: int) -> Tensors:
        """What a checkpoint needs besides the trial's progress, on the CPU."""
        state = {name: t[slot] for name, t in self._kept().items()} | self.objective.state(slot)
        return {name: t.detach().cpu().clone() for name, t in state.items()}

    def _kept(self) -> Tensors:
        """What checkpoints keep, a row per slot, besides what the objective learns."""
        parts = {"weight": self.weights, "velocity": self._views(self.velocity), "buffer": self.buffers}
        kept = {f"{part}/{name}": t for part, tensors in parts.items() for name, t in tensors.items()}
        return kept | {"best_scores": self.best_scores, "least_rows": self.least_rows}

    def select(self, slots: list[int]) -> Stack:
        """A smaller stack that holds the trials of these slots, where they stand."""
        other = Stack(
            self.data, self.pixels, self.model, self.protocol, len(slots), self.task if self.rules == RULES else None
        )
        pick = torch.tensor(slots, device=self.device)
        for name in self.PER_SLOT:
            getattr(other, name).copy_(getattr(self, name)[pick])
        for name, t in self.buffers.items():
            other.buffers[name].copy_(t[pick])
        other.objective.copy_from(self.objective, slots)
        other.assigned = [self.assigned[slot] for slot in slots]
        return other

    @property
    def active(self) -> list[tuple[int, Assignment]]:
        """The slots in use and what they hold."""
        return [(s, a) for s, a in enumerate(self.assigned) if a is not None]

    # --- one epoch ------------------------------------------------------------------------------

    def _step(self) -> None:
        """One batch of every trial: gather, augment, forward, backward, update. No host involved."""
        index = self.order.index_select(1, self.cursor)  # (S, batch)
        x = self.pixels.batch(index, self.seeds, self.epochs, self.model.inputs)
        labels = self.weak[self.rows, index]  # (S, batch), and more for masks and answers
        weights = dict(zip(self.shapes, self.leaves, strict=True))
        scores = self.model.scores(weights, self.buffers, x, train=True)
        risk, slope, of_learned = self.objective.with_gradient(scores.detach(), labels)
        gradients = torch.autograd.grad(scores, self.leaves, slope)
        warm = self._warm_up()
        self._descend(torch.cat([g.flatten(1) for g in gradients], dim=1), self.lr * warm)
        self.objective.descend(of_learned, self.learned_lr * warm, self.protocol.momentum)
        self.risk += risk
        self.steps += 1
        self.cursor += self.protocol.batch_size

    def _warm_up(self) -> torch.Tensor:
        """The factor of the learning rates (S,): linear in the number of steps taken, or of epochs."""
        p = self.protocol
        taken = self.epochs.float() * self.steps_per_epoch if p.warmup_by_epoch else self.steps
        ramp = taken / max(1, p.warmup_epochs * self.steps_per_epoch)
        return (p.warmup_start + (1 - p.warmup_start) * ramp).clamp(max=1.0)

    def _descend(self, gradient: torch.Tensor, rates: torch.Tensor) -> None:
        """SGD with Nesterov momentum."""
        momentum = self.protocol.momentum
        if launches(gradient):
            step_kernels.nesterov(
                self.flat, self.velocity, gradient, self.decays, rates, self.weight_decay, momentum
            )  # fmt: skip
            return
        gradient += self.flat * (self.weight_decay[:, None] * self.decays)
        self.velocity.mul_(momentum).add_(gradient)
        step = gradient.add_(self.velocity, alpha=momentum)
        self.flat.sub_(rates[:, None] * step)

    def _capture(self) -> None:
        """Record the step as a CUDA graph; the warm-up steps it needs leave no trace.

        A step that waits for the host (a user's own loss may) cannot be recorded: it then runs as it is, and a line on
        stderr says so.
        """
        moved = [self.flat, self.velocity, self.risk, self.steps, *self.buffers.values(), *self.objective.moved()]
        before = [t.clone() for t in moved]
        if compiling is not None:
            with compiling.rehearsal():
                self._rewind()
                self._step()
                self.valid_accuracy()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self._rewind()
                self._step()
            self.recordable = self._needs_no_host()
        torch.cuda.current_stream().wait_stream(stream)
        if self.recordable:
            self._rewind()
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self._step()
        for t, saved in zip(moved, before, strict=True):
            t.copy_(saved)

    def _needs_no_host(self) -> bool:
        """Whether a step runs without waiting for the device."""
        self._rewind()
        mode = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            self._step()
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            names = ", ".join(sorted({m for m in self.objective.methods if m is not None}))
            print(f"a step of {names} waits for the device and runs without a CUDA graph, slower", file=sys.stderr)
            return False
        finally:
            torch.cuda.set_sync_debug_mode(mode)
        return True

    def _rewind(self) -> None:
        torch.arange(self.protocol.batch_size, out=self.cursor)

    def train_epoch(self) -> torch.Tensor:
        """Train every trial for one epoch of its own; the mean batch risk of each.  # (S,)"""
        for slot, a in self.active:
            factor, config = a.progress.lr_factor(self.protocol), a.trial.config
            self.lr[slot], self.learned_lr[slot] = config.lr * factor, config.learned_lr * factor
        shuffle = randomness.permutations(self.seeds, self.epochs, self.train_index.shape[1])
        torch.gather(self.train_index, 1, shuffle, out=self.order)
        if self.device.type == "cuda" and self.graph is None and self.recordable:
            self._capture()
        self._rewind()
        self.risk.zero_()
        for _ in range(self.steps_per_epoch):
            if self.graph is None:
                self._step()
            else:
                self.graph.replay()
        self.epochs += 1
        return self.risk / self.steps_per_epoch

    # --- evaluation -----------------------------------------------------------------------------

    @torch.no_grad()
    def valid_accuracy(self) -> torch.Tensor:
        """Validation accuracy of every trial on its own split, true labels.  # (S,)

        Images are taken as they are, unless the protocol augments them too. The scores are kept for `valid_risk`.
        """
        chunk = self._chunk(self.slots)
        augment = self.protocol.augment_validation and self.pixels.augment
        scores = []
        for index in self.valid_index.split(chunk, 1):
            if augment:
                draws = randomness.crops(self.seeds, self.epochs, index, PAD, randomness.VALIDATION)
                x = self.pixels.cropped(index, *draws)
            else:
                x = self.pixels.plain(index)
            scores.append(self.model.scores(self.weights, self.buffers, x, train=False))
        self.valid_scores = torch.cat(scores, dim=1)
        return (self.valid_scores.argmax(dim=-1) == self.valid_labels).double().mean(dim=-1)

    def valid_risk(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Calibrated risk of held-out weak labels, and whether that keeps the epoch (`choosing`).  # (S,), (S,)

        For the scores of `valid_accuracy`.
        """
        rows = self.weak_risk.calibrated(self.valid_scores, self.weak[self.rows, self.valid_index])
        risk, keeps, self.least_rows = compare(rows, self.least_rows)
        return risk, keeps

    def _chunk(self, slots: int) -> int:
        return max(1, self.model.eval_images // slots)

    @torch.no_grad()
    def keep_scores(self, chosen: dict[str, list[int]]) -> None:
        """Remember validation and test scores, by rule, of the slots whose epoch is the best so far."""
        slots = sorted(set().union(*chosen.values()))
        if not slots:
            return
        pick = torch.tensor(slots, device=self.device)
        weights = {name: t[pick] for name, t in self.weights.items()}
        buffers = {name: t[pick] for name, t in self.buffers.items()}
        parts = [self.valid_scores[pick]]
        for part in self.pixels.test.split(self._chunk(len(slots))):
            x = self.pixels.scaled(part).expand(len(slots), *part.shape)
            parts.append(self.model.scores(weights, buffers, x, train=False))
        scores = torch.cat(parts, dim=1)
        for rule, best in chosen.items():
            for slot in best:
                self.best_scores[slot, self.rules.index(rule)] = scores[slots.index(slot)]
