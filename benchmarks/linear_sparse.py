"""Sparse features: the classifier beside scikit-learn's LogisticRegression on one matrix, in seconds and memory.

    OMP_NUM_THREADS=1 python benchmarks/linear_sparse.py [--rows 20000] [--features 50000] [--rounds 3]

Clean labels of two and of five classes, at one penalty: both solve the same problem. The default (a penalty of its own
and ten more fits to calibrate by) is timed beside them. Memory is the peak of what Python's allocators hand out during
one fit, over the size of the matrix.
"""

from __future__ import annotations

import argparse
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from _protocol import interleaved, median, store
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from tproper.learn import WeakLabelClassifier


def problem(n: int, d: int, density: float, K: int, even: bool, seed: int = 0) -> tuple[csr_matrix, np.ndarray]:
    """Rows of length one, terms evenly spread or half of them Zipf-like, and classes that depend on many of them."""
    rng = np.random.default_rng(seed)
    each = max(1, round(density * d))
    terms = np.minimum((d ** rng.random((n, each))).astype(np.int64) * 3 % d, d - 1)
    spread = rng.integers(0, d, (n, each))
    terms = spread if even else np.where(rng.random((n, each)) < 0.5, terms, spread)
    X = csr_matrix((rng.exponential(size=n * each), (np.repeat(np.arange(n), each), terms.ravel())), shape=(n, d))
    X = normalize(X)
    z = (X @ (6 * rng.normal(size=(d, K))) + rng.gumbel(size=(n, K))).argmax(axis=1)
    return X, z


def peak(fit: Callable[[], Any]) -> int:
    tracemalloc.start()
    fit()
    out = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return out


def objective(X: Any, z: np.ndarray, model: Any, l2: float) -> float:
    coef, intercept = np.asarray(model.coef_), np.asarray(model.intercept_)
    if len(coef) == 1:  # scikit-learn's two classes: the difference, whose penalty is twice as much in two columns
        coef, intercept = np.vstack([-coef / 2, coef / 2]), np.r_[-intercept / 2, intercept / 2]
    V = X @ coef.T + intercept
    top = V.max(axis=1)
    return float((np.log(np.exp(V - top[:, None]).sum(axis=1)) + top - V[np.arange(len(z)), z]).mean()) + (
        l2 / 2 * float((coef**2).sum())
    )


def compare(n: int, d: int, density: float, K: int, even: bool, rounds: int) -> dict[str, Any]:
    X, z = problem(n, d, density, K, even)
    size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    l2 = 1.0 / n
    C = 1 / (l2 * n) * (2 if K == 2 else 1)  # one column of two classes has half the penalty of two
    cases: dict[str, Callable[[], Any]] = {
        "scikit-learn": lambda: LogisticRegression(C=C, max_iter=1000).fit(X, z),
        "tproper": lambda: WeakLabelClassifier(l2=l2, calibrate=False).fit(X, z),
        "tproper, default": lambda: WeakLabelClassifier().fit(X, z),
    }
    seconds = interleaved(cases, rounds, warmup=1)
    middle = {name: median(values) for name, values in seconds.items()}
    memory = {name: peak(fit) / size for name, fit in cases.items()}
    values = {name: objective(X, z, cases[name](), l2) for name in ("scikit-learn", "tproper")}
    base = middle["scikit-learn"]
    print(
        f"\n{n:,} x {d:,}, density {X.nnz / n / d:.4f}, {K} classes, {'even' if even else 'Zipf'}, "
        f"{size / 2**20:.0f} MiB; objectives {values}"
    )
    for name, value in middle.items():
        print(f"  {name:<18}{value:8.3f} s  {value / base:5.2f} x scikit-learn  peak {memory[name]:4.1f} x the matrix")
    return {"classes": K, "even": even, "bytes": size, "seconds": seconds, "memory": memory, "objectives": values}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=50_000)
    parser.add_argument("--density", type=float, default=0.002)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", action="store_true", help="write benchmarks/records/linear_sparse.json")
    args = parser.parse_args()
    shape = args.rows, args.features, args.density
    results = [compare(*shape, K, even, args.rounds) for K in (2, 5) for even in (False, True)]
    if args.store:
        store("linear_sparse", {"rows": args.rows, "features": args.features, "results": results})


if __name__ == "__main__":
    main()
