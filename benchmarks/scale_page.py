"""Writes docs/scale.md from stored records: what is fast, what fits, and what sweeps cost.

    python benchmarks/scale_page.py

Nothing is measured here. The costs come from the records of finished trials in lab/results/ (seconds and epochs of each)
and from the number of trials in the paper's own search; the other tables from benchmarks/records/.
"""
# ruff: noqa: E501  the page's sentences hold placeholders that are longer than what they become

from __future__ import annotations

import heapq
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tproper_lab import paper, sweep
from tproper_lab.runner import SLOTS

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "benchmarks" / "records"
START = 60.0  # seconds until a worker trains: processes, data, and up to 45 s of compilation as seen for WRN-28-2
GPUS = (1, 8, 1000)
DENSE = ("linear", "mlp")


def record(name: str) -> Any:
    path = RECORDS / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


@dataclass(frozen=True)
class Cost:
    """What a trial of one model costs, from finished trials."""

    model: str
    seconds: float  # a trial-epoch, on one GPU, its share of the stack
    epochs: float  # a trial
    trials: int  # that these are means of

    @property
    def trial(self) -> float:
        return self.seconds * self.epochs


def starting() -> float:
    """Seconds until ResNet-20 trained on a machine that had never seen its kernels, the latest such run."""
    lines = (ROOT / "benchmarks" / "lab_raw.jsonl").read_text().splitlines()
    runs = [row for row in map(json.loads, lines) if "never seen the kernels" in row.get("run", "")]
    return float(runs[-1]["start_s"])


def costs() -> dict[str, Cost]:
    seconds: dict[str, list[tuple[float, int]]] = defaultdict(list)
    for name in ("mnist", "cifar10"):
        for line in (ROOT / "lab" / "results" / f"{name}.jsonl").read_text().splitlines():
            row = json.loads(line)
            if "H200" in row["machine"]:
                seconds[row["model"]].append((row["seconds"], row["epochs"]))
    out = {}
    for model in paper.MODELS:
        own = seconds[model]
        if not own:
            raise SystemExit(f"scale_page.py: expected finished trials of {model} in lab/results/, found none")
        total, epochs = (sum(x[i] for x in own) for i in range(2))
        out[model] = Cost(model, total / epochs, epochs / len(own), len(own))
    return out


def paper_trials() -> dict[str, int]:
    """Trials of each model: the grids of the five methods once, then 16 trials of each method's choice."""
    methods = [m for m in paper.METHODS if m not in ("forward", "gls_released")]
    grid = sum(math.prod(len(v) for v in sweep.AXES[m].values()) for m in methods)
    return {model: grid + paper.TRIALS * len(methods) for model in paper.MODELS}


def wall(trials: dict[str, int], cost: dict[str, Cost], gpus: int) -> float:
    """Seconds until the last of the stacks is done: longest first, each to the GPU that is free soonest."""
    tasks: list[float] = []
    for model, n in trials.items():
        size = SLOTS["cuda"][0 if model in DENSE else 1]
        tasks += [cost[model].trial * min(size, n - i) for i in range(0, n, size)]
    free = [START] * gpus
    heapq.heapify(free)
    for task in sorted(tasks, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + task)
    return max(free)


def clock(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(r) + " |" for r in rows])


def cost_section() -> str:
    cost, size = costs(), paper_trials()
    rows = []
    for model, c in cost.items():
        name, authors = paper.MODELS[model][1], paper.AUTHORS_SECONDS[model]
        rows.append(
            [name, f"{c.seconds:.4f}", f"{c.epochs:.0f}", str(c.trials), f"{authors:g}", str(size[model]),
             clock(c.trial * size[model])]
        )  # fmt: skip
    per_model = table(
        ["", "s a trial-epoch", "epochs a trial", "finished trials", "authors' code, s", "trials of the sweep",
         "one GPU"], rows,
    )  # fmt: skip
    total = sum(c.trial * size[m] for m, c in cost.items())
    theirs = sum(paper.AUTHORS_SECONDS[m] * c.epochs * size[m] for m, c in cost.items())
    sweeps = []
    for name, factor in (("the paper's", 1), ("a thousand of them", 1000)):
        trials = {m: n * factor for m, n in size.items()}
        sweeps.append(
            [name, f"{sum(trials.values()):,}", f"{total * factor / 3600:,.1f}", f"{theirs * factor / 3600:,.0f}"]
            + [clock(wall(trials, cost, g)) for g in GPUS]
        )
    all_sweeps = table(
        ["sweep", "trials", "GPU hours", "with the authors' code", *(f"{g:,} GPU{'s' if g > 1 else ''}" for g in GPUS)],
        sweeps,
    )
    longest = max(c.trial * SLOTS["cuda"][0 if m in DENSE else 1] for m, c in cost.items())
    return f"""## What a sweep costs

Seconds and epochs are means over the finished trials in `lab/results/` (one H200). The paper's sweep is, for each of four
models, the grids of its five methods with one trial a point, then {paper.TRIALS} trials of each choice.

{per_model}

{all_sweeps}

Wall-clock times put stacks of trials ({SLOTS["cuda"][0]} of the small models, {SLOTS["cuda"][1]} of the residual nets) on
GPUs, longest first, after {START:.0f} s for a worker to start (an assumption; on a machine new to them ResNet-20's kernels were
ready after {starting():.0f} s). A stack is not split, so a sweep takes at least the {clock(longest)} of its longest one: a thousand GPUs are wasted on
one paper, and are worth their money from about {math.ceil(1000 * longest / total):,} of them on. Prices differ: multiply the
GPU hours by yours.

`tproper reproduce ... --engine ray --address HOST:6379` runs a sweep on a Ray cluster (`pip install 'tproper-lab[ray]'`):
records go to the same store as those of a local run, a lost node's trials run again, and no trial is counted twice.
"""


def gpu_section() -> str:
    gpu = record("scale_losses_gpu")
    wanted = ["cross entropy, compiled", "symmetric BC", "complementary BC", "complementary gLS2", "complementary forward",
              "partial BC", "partial forward", "complementary gLS1.5"]  # fmt: skip
    rows = []
    for name in wanted:
        for r in gpu["rows"]:
            if r["case"] == name and r.get("backend", "triton") == "triton":
                share = "" if "floor_bytes" not in r else (
                    f"{r['floor_bytes'] / (r['device'] / 1e3) / gpu['copy_bytes_per_s']:.2f}"
                )  # fmt: skip
                ratio = [f"{r[k]:.2f}" if k in r and "floor_bytes" in r else "" for k in
                         ("device_ratio", "eager_ratio", "peak_mb_ratio")]  # fmt: skip
                rows.append([name, f"{r['K']:,}", r["dtype"], f"{1e3 * r['device']:.0f}", ratio[0], ratio[1],
                             f"{r['peak_mb']:,.1f}", ratio[2], share])  # fmt: skip
    worst = {
        limit: max(
            max(r["device_ratio"], r["peak_mb_ratio"])
            for r in gpu["rows"]
            if r.get("limit") == limit and r["backend"] == "triton"
        )
        for limit in (1.15, 1.5)
    }
    host = max(r["eager_ratio"] for r in gpu["rows"] if r.get("limit") == 1.15 and r["backend"] == "triton")
    where = next(r for r in gpu["rows"] if r.get("eager_ratio") == host)
    bad = [c for c in gpu["checks"] if not c["ok"]]
    at: dict[str, set[int]] = defaultdict(set)
    for r in gpu["rows"]:
        at[r.get("commit", gpu["machine"]["commit"])].add(r["K"])
    revisions = "; ".join(f"commit {c} (K = {', '.join(f'{K:,}' for K in sorted(ks))})" for c, ks in at.items())
    return f"""## Losses at the price of cross entropy

On a CUDA device backward and forward losses of structured transitions run in one Triton kernel: scores are read once, the
gradient is written once, and no (n, K) target is kept. `tp.fuse(loss).backend_for(scores)` says whether a call
gets it, and if not, why. Forward + backward of (8192, K) scores on one {gpu["machine"]["device"]}, beside
`torch.compile(F.cross_entropy)` on the same scores in the same run; {len(gpu["checks"])} comparisons with float64,
{len(bad)} beyond tolerance. `x` is the ratio to cross entropy; `of copy` sets the bytes that must move (scores and labels
in, gradient out) over the device time against a device-to-device copy ({gpu["copy_bytes_per_s"] / 1e12:.2f} TB/s).

{table(["loss", "K", "", "device, µs", "x", "host loop, x", "peak MB", "x", "of copy"], rows)}

Labels are checked by the kernel, without a synchronisation (a loss's first call reads them on the host). Measured at
{revisions}.

Largest ratio of device time or memory: {worst[1.15]:.2f} for symmetric noise and complementary labels, {worst[1.5]:.2f} for
candidate sets (whose masks are one more byte a score to read and to hold). The host loop is what a plain Python training
loop sees: with few classes it is all launches. Its largest ratio for symmetric noise and complementary labels is {host:.2f}
({where["case"]}, K = {where["K"]:,}, {where["dtype"]}). Squeezing with other exponents than 2 takes logarithms and exponentials of every score twice more.
Source: `benchmarks/scale_losses_gpu.py`.
"""


def memory_section() -> str:
    parquet, partial = record("scale_parquet"), record("scale_partial_cpu")
    rows = [
        [f"`{r['learner']}`", f"{r['rows']:,}", f"{r['seconds']:.0f} s", f"{r['rows_per_s']:,.0f}", f"{r['peak_mb']:,.0f} MB",
         f"{r['accuracy']:.3f}"]
        for r in parquet["runs"]
    ]  # fmt: skip
    text = f"""## Data beyond memory

`ParquetSource` reads Parquet and Arrow files a block at a time: row groups in random order, rows shuffled within a block.
`fit_stream` trains on it, or on any iterable of batches, with progress and a checkpoint from which it goes on with the
very batches, and to the very weights, of an uninterrupted run: Ctrl-C waits for the end of a batch, and random numbers
are kept too. A checkpoint serves its own run alone, and carries a checksum: from one that was damaged nothing is taken, a
warning says so, and training starts afresh. Other files (by name, size and time of change), columns, batches, models, losses
or optimizers are refused, and named; more epochs are welcome.

```python
from tproper.data import ParquetSource, fit_stream

source = ParquetSource("clicks/", label="label", batch_size=4096, seed=0)
fit_stream(tp.WeakLabelClassifier("complementary:10"), source, epochs=3, checkpoint="run/checkpoint.safetensors")
```

{parquet["runs"][0]["rows"]:,} rows x {parquet["features"]} features ({parquet["file_mb"]:,.0f} MB of Parquet), one epoch of
the linear model on one thread, memory of the whole process:

{table(["learner", "rows", "time", "rows/s", "peak memory", "accuracy"], rows)}

Source: `benchmarks/scale_parquet.py`, which makes the files itself.
"""
    if partial is None:
        return text
    rows = [
        [r["method"], f"{r['epoch_cpu_seconds']:.2f} s", f"{r['ratio']:.2f}", f"{r['peak_mb']:,.0f} MB"]
        for r in partial["methods"]
    ]
    return (
        text
        + f"""
Partial labels of {partial["classes"]:,} classes (p = {partial["p"]:g}) on the CPU, {partial["rows"]:,} rows x
{partial["features"]} features, one epoch of the linear model in batches of {partial["batch_size"]}; labels are held as lists
of candidates (`CandidateLists`):

{table(["loss", "CPU time", "x clean labels", "peak memory"], rows)}

Source: `benchmarks/scale_partial_cpu.py`.
"""
    )


def tables_section() -> str:
    """The command on large tables, and sparse features."""
    command, sparse = record("command_scale"), record("linear_sparse")
    at = command["machine"]
    both = command["annotators"]
    rows = [
        [
            f"{r['rows']:,}",
            f"{r['file_mb']:,.0f} MB",
            f"{r['wall']:.0f} s",
            f"{r['cpu']:.0f} s",
            f"{r['peak_mb']:,.0f} MB",
        ]
        for r in command["train"]
    ]
    text = f"""## Tables through the command

`tproper train` on CSV files of {command["features"]} numbers and {command["classes"]} classes, three labels in ten wrong, one thread;
with the cross-fits by which it calibrates and scores (as long as they take two minutes at most):

{table(["rows", "file", "seconds of the processor", "peak memory"], rows)}

`tproper estimate annotators` of {both["answers"]:,} answers takes {both["command"]["cpu"]:.0f} s of the processor and
{both["command"]["peak_mb"]:,.0f} MB, the same estimate and report in Python, from the same file, {both["python"]["cpu"]:.0f} s: the command adds its
checks, the file of T and a picture. Seconds are the processor's, in one thread, since others used the machine at the same
time. Source: `benchmarks/command_scale.py` ({at["cpu"]}, {at["date"]}).

## Sparse features
"""
    rows = []
    for r in sparse["results"]:
        base = sorted(r["seconds"]["scikit-learn"])[len(r["seconds"]["scikit-learn"]) // 2]
        row = [f"{r['classes']}, {'evenly spread' if r['even'] else 'half of them Zipf-like'}", f"{base:.2f} s"]
        for name in ("tproper", "tproper, default"):
            seconds = sorted(r["seconds"][name])[len(r["seconds"][name]) // 2]
            row += [f"{seconds:.2f} s", f"{seconds / base:.1f}", f"{r['memory'][name]:.1f}"]
        rows.append([*row, f"{r['memory']['scikit-learn']:.1f}"])
    return (
        text
        + f"""
{sparse["rows"]:,} documents x {sparse["features"]:,} terms, one in five hundred of them in a document, clean labels; scikit-learn's
`LogisticRegression` solves the same problem at the same penalty. The default chooses the penalty and solves as many more as it
calibrates by. Memory is the peak of one fit over the size of the matrix ({min(r["bytes"] for r in sparse["results"]) / 2**20:.0f} MB):

{table(["classes, terms", "scikit-learn", "one fit", "x", "memory", "default", "x", "memory", "scikit-learn's"], rows)}

Source: `benchmarks/linear_sparse.py` ({sparse["machine"]["cpu"]}, one thread).
"""
    )


def curves_section() -> str:
    curves = record("scale_curves")
    rows = []
    for r in curves["rows"]:
        if r["kind"] == "ours":
            other = next(
                o for o in curves["rows"] if (o["axis"], o["size"], o["kind"]) == (r["axis"], r["size"], "naive")
            )
            naive = (
                [f"{other['step_ms']:.1f}", f"{other['memory_mb']:,.0f}"]
                if "step_ms" in other
                else ["not run", f"a table of {other['table_gb']:,.0f} GB"]
            )
            rows.append([r["axis"], f"{r['size']:,}", f"{r['step_ms']:.1f}", f"{r['memory_mb']:,.0f}", *naive])
    return f"""## How it grows

![time and memory against classes, rows and weak labels](scale_curves.svg)

CPU milliseconds and MB of one step (forward + backward), structured and with R as a table; the two give the same loss.
On small batches the table is even faster, since a loss checks its labels on every call and the naive line checks nothing.
What it costs is memory, classes times weak labels, and it ends where that ends.

{table(["axis", "size", "ms", "MB", "naive, ms", "naive, MB"], rows)}

Source: `benchmarks/scale_curves.py` ({curves["machine"]["cpu"]}, one thread).
"""


DISTRIBUTED = """## Several processes

```python
# torchrun --nproc-per-node=8 train.py
from tproper.learn.distributed import global_batch, process_group

with process_group() as device:
    model = DistributedDataParallel(build().to(device))
    loss = global_batch(tp.GradientAscentLoss(tp.complementary(10)))
    loss(model(x), labels).backward()
```

`global_batch` makes any loss one of the global batch: means over all examples of all processes, also where these have
unequally many, and, for the gradient-ascent and non-negative losses, the absolute values and positive parts of the *global*
class risks. Two processes reach the weights of one to 1e-5 (`tests/scale/test_distributed.py`). `distributed.fit` is a
complete loop. Ray Train's workers set up the same process group, so the same code runs inside them
(`tests/scale/test_ray.py`).
"""


def page() -> str:
    """The page, from the records."""
    parts = [
        "# Any scale: many classes, data beyond memory, more than one machine\n",
        "<!-- Written by benchmarks/scale_page.py from stored records; change those, not this page. -->\n",
        gpu_section(),
        curves_section(),
        tables_section(),
        memory_section(),
        DISTRIBUTED,
        cost_section(),
    ]
    return "\n".join(parts)


def main() -> None:
    target = ROOT / "docs" / "scale.md"
    target.write_text(page())
    print(target)


if __name__ == "__main__":
    main()
