"""Writes extremes.json: values at which double precision is easily lost, computed with 60 digits.

    python tests/oracles/make_extremes.py

Nothing here imports tproper: minima are found by bisection of derivatives, sums by mpmath.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import mpmath as mp

mp.mp.dps = 60


SQUEEZES = ((1e-3, 1.05), (1.0, 1.05), (1e3, 1.05), (1e-3, 1.5), (1.0, 1.5), (1e-3, 2.0), (1e3, 2.0), (1.0, 7.0))


def increasing_root(f: Callable[[mp.mpf], mp.mpf], low: mp.mpf, high: mp.mpf) -> mp.mpf:
    """Bisection on the asinh scale: brackets span hundreds of orders of magnitude."""
    a, b = mp.asinh(low), mp.asinh(high)
    for _ in range(160):
        middle = (a + b) / 2
        a, b = (middle, b) if f(mp.sinh(middle)) < 0 else (a, middle)
    return mp.sinh((a + b) / 2)


def log_sum_exp(v: list[mp.mpf]) -> mp.mpf:
    top = max(v)
    return top + mp.log(sum(mp.exp(x - top) for x in v))


def softmax(v: list[mp.mpf]) -> list[mp.mpf]:
    top = max(v)
    e = [mp.exp(x - top) for x in v]
    return [x / sum(e) for x in e]


def squeezed_value(v: list[mp.mpf], k: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    return log_sum_exp(v) + k / 2 * sum(abs(x) ** alpha for x in v)


def squeezed_gradient(v: list[mp.mpf], k: mp.mpf, alpha: mp.mpf) -> list[mp.mpf]:
    return [p + k * alpha / 2 * mp.sign(x) * abs(x) ** (alpha - 1) for p, x in zip(softmax(v), v, strict=True)]


def one_against_the_rest(K: int, r: mp.mpf, k: mp.mpf, alpha: mp.mpf) -> mp.mpf:
    """F'*(q) of gLS at q = (r, (1-r)/(K-1), ...): by symmetry v = (x, -x/(K-1), ...)."""
    q = [r] + [(1 - r) / (K - 1)] * (K - 1)

    def scores(x: mp.mpf) -> list[mp.mpf]:
        return [x] + [-x / (K - 1)] * (K - 1)

    def slope(x: mp.mpf) -> mp.mpf:
        g = squeezed_gradient(scores(x), k, alpha)
        return (g[0] - q[0]) - (g[1] - q[1])

    big = mp.mpf(10) ** 120
    v = scores(increasing_root(slope, -big, big))
    return sum(a * b for a, b in zip(q, v, strict=True)) - squeezed_value(v, k, alpha)


def three_classes(q: list[mp.mpf], k: mp.mpf, alpha: mp.mpf) -> tuple[mp.mpf, list[mp.mpf]]:
    """F'*(q) of gLS and its maximiser for three different entries: one bisection inside another."""
    big = mp.mpf(10) ** 30

    def slope(v: list[mp.mpf], i: int) -> mp.mpf:
        g = squeezed_gradient(v, k, alpha)
        return (g[i] - q[i]) - (g[2] - q[2])

    def inner(x: mp.mpf) -> list[mp.mpf]:
        y = increasing_root(lambda y: slope([x, y, -x - y], 1), -big, big)
        return [x, y, -x - y]

    v = inner(increasing_root(lambda x: slope(inner(x), 0), -big, big))
    return sum(a * b for a, b in zip(q, v, strict=True)) - squeezed_value(v, k, alpha), v


def tsallis(v: list[mp.mpf], a: mp.mpf) -> tuple[mp.mpf, list[mp.mpf]]:
    """F and link of the Tsallis potential by bisection of the threshold."""
    mean = sum(v) / len(v)
    v = [x - mean for x in v]

    def shares(lam: mp.mpf) -> list[mp.mpf]:
        out = []
        for x in v:
            base = (a - 1) * (x - lam)
            out.append(base ** (1 / (a - 1)) if base > 0 else (mp.mpf(0) if a > 1 else mp.inf))
        return out

    low, high = sorted((max(v) - 1 / (a - 1), max(v) - mp.mpf(len(v)) ** (1 - a) / (a - 1)))
    lam = increasing_root(lambda t: 1 - sum(shares(t)), low, high)
    p = shares(lam)
    conjugate = (sum(x**a for x in p) - 1) / (a * (a - 1))
    return sum(x * y for x, y in zip(p, v, strict=True)) - conjugate, p


def forward(v: list[mp.mpf], row: list[mp.mpf]) -> mp.mpf:
    return -mp.log(sum(t * p for t, p in zip(row, softmax(v), strict=True)))


def numbers(values: list[float]) -> list[mp.mpf]:
    return [mp.mpf(x) for x in values]


def main() -> None:
    cases: dict[str, list[dict[str, object]]] = {
        "one_against_the_rest": [],
        "three_classes": [],
        "tsallis": [],
        "forward": [],
    }
    for K in (2, 3, 10):
        for r in (-(K - 2.0) - 0.5, 1.0, 1.75):
            for k, alpha in SQUEEZES:
                value = one_against_the_rest(K, mp.mpf(r), mp.mpf(k), mp.mpf(alpha))
                cases["one_against_the_rest"].append({"K": K, "r": r, "k": k, "alpha": alpha, "value": float(value)})
    for q in ([2.5, -0.25, -1.25], [0.75, 0.1875, 0.0625]):
        for k, alpha in ((0.0625, 1.25), (1.0, 1.5), (16.0, 1.25), (0.0625, 3.0), (1.0, 5.0)):
            value, v = three_classes(numbers(q), mp.mpf(k), mp.mpf(alpha))
            cases["three_classes"].append(
                {"q": q, "k": k, "alpha": alpha, "value": float(value), "v": [float(x) for x in v]}
            )
    for v in ([0.5, -0.25, 0.125, 0.0], [1e6, 999999.5, -1e6, 0.0], [30.0, -10.0, -10.0, -10.0]):
        for a in (0.0625, 0.5, 0.9375, 0.9990234375, 1.0009765625, 1.0625, 1.5, 3.0, 17.0, 60.0):
            value, p = tsallis(numbers(v), mp.mpf(a))
            cases["tsallis"].append({"v": v, "a": a, "value": float(value), "p": [float(x) for x in p]})
    rows = ([0.0, 0.5, 0.5], [0.25, 0.5, 0.125], [1.0, 0.0, 0.0], [2.0**-40, 0.0, 2.0**-1000])
    for v in ([1e4, 0.0, -1e4], [-1e4, 1e4, 1e4], [1e6, 1e6 + 0.5, 1e6], [40.0, 0.0, -40.0]):
        for row in rows:
            cases["forward"].append({"v": v, "row": row, "value": float(forward(numbers(v), numbers(row)))})
    path = Path(__file__).parent / "extremes.json"
    path.write_text(json.dumps(cases, indent=0) + "\n")
    print(f"{sum(map(len, cases.values()))} cases written to {path}")


if __name__ == "__main__":
    main()
