"""crowd-kit's Dawid-Skene and majority vote on answers from files, in an interpreter that has crowd-kit.

    PYTHON benchmarks/crowd_kit_peer.py FOLDER [--scale]      # reads *.npz, writes *.out.npz

Called by `annotators.py`; imports neither torch nor tproper. Times are those of `fit` alone, the table being made.
"""

from __future__ import annotations

import resource
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
from crowdkit.aggregation.classification.dawid_skene import DawidSkene
from crowdkit.aggregation.classification.majority_vote import MajorityVote


def solve(source: Path) -> dict[str, np.ndarray]:
    """Posteriors (items x classes, in order), labels and seconds of both methods."""
    given = np.load(source)
    table = pd.DataFrame({"task": given["item"], "worker": given["annotator"], "label": given["answer"]})
    n, K = int(given["n"]), int(given["K"])
    out: dict[str, np.ndarray] = {}
    for name, model in {"DawidSkene": DawidSkene(), "MajorityVote": MajorityVote()}.items():
        if name == "MajorityVote" and "--scale" in sys.argv:
            continue
        if "--scale" in sys.argv:  # warm up
            model.fit(table)
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(table)
        out[f"{name}_seconds"] = np.array(time.perf_counter() - start)
        out[f"{name}_cpu_seconds"] = np.array(time.process_time() - cpu)
        out[name] = model.probas_.reindex(index=range(n), columns=range(K)).fillna(0.0).to_numpy()
        out[f"{name}_labels"] = model.labels_.reindex(range(n)).fillna(-1).to_numpy().astype(int)
    out["peak_gb"] = np.array(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
    return out


def main() -> None:
    """Every .npz of the folder."""
    for source in sorted(Path(sys.argv[1]).glob("*.npz")):
        np.savez(source.with_suffix(".out.npz"), **solve(source))


if __name__ == "__main__":
    main()
