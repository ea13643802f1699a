"""Recovery: what each kind's losses learn is as good as a model fitted by the kind's own published likelihood.

The likelihoods and risks stand here as their papers, or the definition of the kind, write them: no T, no loss of the
library. Three seeds run here; ``python -m tests.laws.test_recovery`` runs twenty and prints the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations, product

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import tproper as tp

L2, N, WITHIN = 1e-3, 1500, 0.01
K = 4
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def made(n, seed, shares=SHARES):
    """Classes as Gaussians on a circle."""
    rng = np.random.default_rng(seed)
    z = rng.choice(len(shares), size=n, p=shares)
    angle = 2 * np.pi * z / len(shares)
    return 2.0 * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(size=(n, 2)), z


def fit(X, objective, classes=K, starts=1):
    """Softmax regression by objective(p, log p) -> (value, gradient by log p), with a penalty on its weights."""
    n, d = X.shape
    A = np.concatenate([X, np.ones((n, 1))], 1)
    penalty = np.append(np.full(d, L2), 0.0)

    def value(w):
        W = w.reshape(classes, d + 1)
        v = A @ W.T
        v = v - v.max(1, keepdims=True)
        log_p = v - np.log(np.exp(v).sum(1, keepdims=True))
        p = np.exp(log_p)
        f, g = objective(p, log_p)
        slope = (g - p * g.sum(1, keepdims=True)).T @ A
        return f + 0.5 * (penalty * W**2).sum(), (slope + penalty * W).ravel()

    rng = np.random.default_rng(0)
    firsts = [0.1 * rng.normal(size=classes * (d + 1)) for _ in range(starts)]
    best = min(
        (minimize(value, w, jac=True, method="L-BFGS-B", options={"maxiter": 500}) for w in firsts), key=lambda e: e.fun
    )
    W = best.x.reshape(classes, d + 1)
    return lambda Z: (np.concatenate([Z, np.ones((len(Z), 1))], 1) @ W.T).argmax(1)


def mixture(rows):
    """``-mean log sum_z rows[i, z] p_z``."""

    def objective(p, _):
        joint = rows * p
        total = joint.sum(1, keepdims=True)
        return -np.log(total).mean(), -joint / total / len(p)

    return objective


def cross_entropy(weights):
    """``-sum_i sum_z weights[i, z] log p_z``."""
    return lambda _, log_p: (-(weights * log_p).sum(), -weights)


# Of each kind: (library's transition, P(label | class z) of each row by the kind's definition) from classes and a seed.


def noisy(z, rng):
    y = np.where(rng.random(len(z)) < 0.3, (z + rng.integers(1, K, len(z))) % K, z)
    return tp.symmetric_noise(K, 0.3), y, np.where(y[:, None] == np.arange(K), 0.7, 0.1)


def pair(z, rng):
    y = np.where(rng.random(len(z)) < 0.3, (z + 1) % K, z)
    rows = np.array([[0.7 if z == y else 0.3 if (z + 1) % K == y else 0.0 for z in range(K)] for y in y])
    return tp.pair_noise(K, 0.3), y, rows


def ordinal(z, rng):
    move = rng.random(len(z)) < 0.4
    step = np.where(z == 0, 1, np.where(z == K - 1, -1, rng.choice([-1, 1], len(z))))
    y = np.where(move, z + step, z)

    def chance(y, c):
        if y == c:
            return 0.6
        return 0.0 if abs(y - c) > 1 else 0.4 if c in (0, K - 1) else 0.2

    return tp.ordinal_noise(K, 0.4), y, np.array([[chance(a, c) for c in range(K)] for a in y])


def complementary(z, rng):
    y = (z + rng.integers(1, K, len(z))) % K
    return tp.complementary(K), y, (y[:, None] != np.arange(K)) / (K - 1)


def multi_complementary(z, rng):
    mask = np.ones((len(z), K), dtype=bool)
    for i, c in enumerate(z):
        mask[i, rng.choice([k for k in range(K) if k != c], 2, replace=False)] = False
    return tp.multi_complementary(K, 2), mask, mask / 3


def partial(z, rng):
    mask = rng.random((len(z), K)) < 0.4
    mask[np.arange(len(z)), z] = True
    return tp.partial_labels(K, 0.4), mask, mask.astype(float)


def noisy_partial(z, rng):
    mask = np.zeros((len(z), K), dtype=bool)
    for i, c in enumerate(z):
        while not mask[i].any():
            mask[i] = rng.random(K) < 0.3
            mask[i, c] = rng.random() >= 0.2
    chance = np.ones((len(z), K))
    for c in range(K):
        for k in range(K):
            inside = 0.8 if k == c else 0.3
            chance[:, c] *= np.where(mask[:, k], inside, 1 - inside)
    return tp.noisy_partial_labels(K, 0.3, 0.2), mask, chance


def yes_no(z, rng):
    asked = rng.integers(0, K, len(z))
    yes = rng.random(len(z)) < np.where(asked == z, 0.9, 0.05)
    chance = np.where(asked[:, None] == np.arange(K), 0.9, 0.05)
    y = [int(c) if a else f"not {c}" for c, a in zip(asked, yes, strict=True)]
    return tp.yes_no(K, miss=0.1, false=0.05), y, np.where(yes[:, None], chance, 1 - chance)


def hierarchy(z, rng):
    coarse = rng.random(len(z)) < 0.6
    y = [
        frozenset([c // 2 * 2, c // 2 * 2 + 1]) if up else frozenset([int(c)]) for c, up in zip(z, coarse, strict=True)
    ]
    rows = np.array([[(0.6 if len(s) > 1 else 0.4) * (c in s) for c in range(K)] for s in y])
    return tp.hierarchical_labels([[0, 1], [2, 3]], 0.6), y, rows


def none_of_these(z, rng):
    y = np.where((z == K - 1) | (rng.random(len(z)) < 0.2), K - 1, z)
    rows = np.where(y[:, None] == np.arange(K), 0.8, 0.0)
    rows[y == K - 1] = [0.2] * (K - 1) + [1.0]
    names = [*range(K - 1), "none of these"]
    return tp.none_of_these(K, K - 1, miss=0.2), [names[c] for c in y], rows


def partly_labeled(z, rng):
    rate = np.array([0.2, 0.1, 0.3, 0.4])
    seen = rng.random(len(z)) < rate[z]
    rows = np.where(seen[:, None], (z[:, None] == np.arange(K)) * rate, 1 - rate)
    return tp.partly_labeled(K, rate), [int(c) if s else "unlabeled" for c, s in zip(z, seen, strict=True)], rows


SINGLE: list[Callable] = [
    noisy, pair, ordinal, complementary, multi_complementary, partial, noisy_partial, yes_no, hierarchy, none_of_these,
    partly_labeled,
]  # fmt: skip


def single(kind: Callable) -> Callable[[int], tuple[float, float]]:
    def both(seed):
        X, z = made(N, seed)
        X_new, z_new = made(4000, seed + 10_000)
        T, y, rows = kind(z, np.random.default_rng(seed + 20_000))
        ours = tp.WeakLabelClassifier(T, l2=L2, calibrate=False, classes=list(range(K))).fit(X, y)
        theirs = fit(X, mixture(rows), starts=3)
        return float((ours.predict(X_new) == z_new).mean()), float((theirs(X_new) == z_new).mean())

    return both


# Kinds whose published risk is another than the likelihood of T.


def case_control(seed):
    """The unbiased PU risk, pi E_P[l(1) - l(0)] + E_U[l(0)] (du Plessis et al., 2015), l the logistic loss."""
    shares = np.array([0.4, 0.6])
    P, z = made(6 * N, seed, shares)
    P, U = P[z == 0][:N], made(2 * N, seed + 1, shares)[0]
    X, y = np.concatenate([P, U]), np.repeat([True, False], [N, 2 * N])
    X_new, z_new = made(4000, seed + 10_000, shares)
    ours = tp.WeakLabelClassifier(tp.case_control_pu(0.4, N, 2 * N), l2=L2, calibrate=False).fit(X, y)
    weights = np.zeros((len(X), 2))
    weights[:N] = [0.4 / N, -0.4 / N]
    weights[N:, 1] = 1 / (2 * N)
    theirs = fit(X, cross_entropy(weights), classes=2)
    return float((ours.predict(X_new) == (z_new == 0)).mean()), float((theirs(X_new) == z_new).mean())


def two_bags(seed):
    """The unbiased UU risk (Lu et al., 2019) for bags with shares .8 and .3 of positives, .5 in all."""
    a, b = made(N, seed, np.array([0.8, 0.2]))[0], made(N, seed + 1, np.array([0.3, 0.7]))[0]
    X, X_new, z_new = np.concatenate([a, b]), *made(4000, seed + 10_000, np.array([0.5, 0.5]))
    T = tp.unlabeled_sets([[0.8, 0.2], [0.3, 0.7]], [N, N], prior=[0.5, 0.5])
    ours = tp.WeakLabelClassifier(T, l2=L2, calibrate=False).fit(X, np.repeat([0, 1], N))
    first = np.array([0.5 * 0.7, -0.5 * 0.3]) / 0.5  # E_a: pi (1 - t') l(1) - t' (1 - pi) l(0), over t - t'
    second = np.array([-0.5 * 0.2, 0.5 * 0.8]) / 0.5
    theirs = fit(X, cross_entropy(np.repeat([first, second], N, axis=0) / N), classes=2)
    return float((ours.predict(X_new) == z_new).mean()), float((theirs(X_new) == z_new).mean())


def soft(seed):
    """Soft cross entropy."""
    X, z = made(N, seed)
    s = np.random.default_rng(seed).dirichlet(np.ones(K), N) * 0.8 + 0.2 * (z[:, None] == np.arange(K))
    ours = tp.WeakLabelClassifier(l2=L2, calibrate=False).fit(X, tp.SoftLabels(s))
    theirs, (X_new, z_new) = fit(X, cross_entropy(s / N)), made(4000, seed + 10_000)
    return float((ours.predict(X_new) == z_new).mean()), float((theirs(X_new) == z_new).mean())


def by_torch(X, loss_of, classes):
    """The same model with a loss of several rows, by L-BFGS from three starts."""
    A = torch.as_tensor(X)

    def objective(w):
        model = torch.tensor(w.reshape(classes, X.shape[1] + 1), requires_grad=True)
        v = A @ model[:, :-1].T + model[:, -1]
        value = loss_of(v) + 0.5 * L2 * model[:, :-1].square().sum()
        value.backward()
        return value.item(), model.grad.numpy().ravel()

    rng = np.random.default_rng(0)
    starts = [0.1 * rng.normal(size=classes * (X.shape[1] + 1)) for _ in range(3)]
    ends = [minimize(objective, w, jac=True, method="L-BFGS-B", options={"maxiter": 300}) for w in starts]
    W = min(ends, key=lambda e: e.fun).x.reshape(classes, -1)
    return lambda Z: (np.concatenate([Z, np.ones((len(Z), 1))], 1) @ W.T).argmax(1)


def right(found, z, names):
    """Accuracy, up to the names of the classes where nothing tells them."""
    table = np.zeros((names, names))
    np.add.at(table, (found, z), 1)
    return float(max(table[range(names), list(p)].sum() for p in permutations(range(names))) / len(z))


def similar_dissimilar(seed):
    """Meta classification likelihood (Hsu et al., 2019): -log p.p' and -log(1 - p.p'), three classes."""
    shares = np.array([0.5, 0.3, 0.2])
    X, z = made(2 * N, seed, shares)
    alike = z[:N] == z[N:]
    loss = tp.PairLoss(tp.pairs("similarity", K=3))
    ours = by_torch(X, lambda v: loss(v[:N], v[N:], np.where(alike, 0, 1)), 3)

    def objective(p, _):
        dot = (p[:N] * p[N:]).sum(1).clip(1e-12, 1 - 1e-12)
        by_dot = np.where(alike, -1 / dot, 1 / (1 - dot))[:, None] / N
        value = -np.log(np.where(alike, dot, 1 - dot)).mean()
        return value, np.concatenate([by_dot * p[N:], by_dot * p[:N]]) * p

    theirs, (X_new, z_new) = fit(X, objective, classes=3, starts=3), made(4000, seed + 10_000, shares)
    return right(ours(X_new), z_new, 3), right(theirs(X_new), z_new, 3)


def similar_unlabeled(seed):
    """The unbiased SU risk (Bao, Niu and Sugiyama, 2018, theorem 1) with the logistic loss."""
    pi = 0.75
    shares = np.array([pi, 1 - pi])
    X, z = made(8 * N, seed, shares)
    same = np.flatnonzero(z[: 4 * N] == z[4 * N :])[:N]
    A, B = X[same], X[4 * N + same]
    C, D = made(N, seed + 1, shares)[0], made(N, seed + 2, shares)[0]
    kernel = tp.pairs("su", prior=shares, sizes=[N, N])
    loss, y = tp.PairLoss(kernel), np.repeat([0, 1], N)
    members = np.concatenate([A, C, B, D])
    ours = by_torch(members, lambda v: loss(v[: 2 * N], v[2 * N :], y), 2)
    alike = pi**2 + (1 - pi) ** 2
    # E_S[(l(+) - l(-)) / (2 pi - 1)] pi_S + E_U[-(1 - pi) l(+) + pi l(-)] / (2 pi - 1)
    of_similar = alike / (2 * pi - 1) * np.array([1.0, -1.0]) / (2 * N)
    of_unlabeled = np.array([-(1 - pi), pi]) / (2 * pi - 1) / (2 * N)
    weights = np.concatenate([np.tile(w, (N, 1)) for w in (of_similar, of_unlabeled, of_similar, of_unlabeled)])
    theirs, (X_new, z_new) = fit(members, cross_entropy(weights), classes=2), made(4000, seed + 10_000, shares)
    return right(ours(X_new), z_new, 2), right(theirs(X_new), z_new, 2)


def bags_of_four(seed):
    """The likelihood of the counts by all ways to give four members their classes (GLWS's E step, spelt out)."""
    size, classes = 4, 3
    shares = np.array([0.5, 0.3, 0.2])
    X, z = made(size * 150, seed, shares)
    bags = np.repeat(np.arange(150), size)
    counts = np.stack([np.bincount(z[bags == b], minlength=classes) for b in range(150)])
    loss = tp.BagCountLoss(classes)
    ours = by_torch(X, lambda v: loss(v, bags, counts), classes)
    ways = np.array(list(product(range(classes), repeat=size)))  # (81, 4)
    fits = (np.stack([(ways == c).sum(1) for c in range(classes)], 1)[None] == counts[:, None]).all(2)  # (150, 81)

    def objective(p, log_p):
        log_ways = sum(log_p.reshape(150, size, classes)[:, i, ways[:, i]] for i in range(size))  # (150, 81)
        log_ways = np.where(fits, log_ways, -np.inf)
        top = log_ways.max(1, keepdims=True)
        weight = np.exp(log_ways - top)
        total = weight.sum(1, keepdims=True)
        posterior = weight / total
        g = np.stack(
            [np.stack([(posterior * (ways[:, i] == c)).sum(1) for c in range(classes)], 1) for i in range(size)], 1
        )
        return -(top + np.log(total)).sum() / len(X), -g.reshape(-1, classes) / len(X)

    theirs, (X_new, z_new) = fit(X, objective, classes=classes, starts=3), made(4000, seed + 10_000, shares)
    return float((ours(X_new) == z_new).mean()), float((theirs(X_new) == z_new).mean())


def some_member(seed):
    """Noisy-or (Maron and Lozano-Perez, 1998): bags of five, positive if some member is."""
    size, shares = 5, np.array([0.85, 0.15])
    X, z = made(size * 400, seed, shares)
    bags, positive = np.repeat(np.arange(400), size), z.reshape(400, size).any(1)
    loss = tp.AtLeastOneLoss()
    ours = by_torch(X, lambda v: loss(v, bags, positive), 2)

    def objective(p, log_p):
        none = log_p[:, 0].reshape(400, size).sum(1)
        q = np.exp(none)
        value = np.where(positive, -np.log1p(-np.minimum(q, 1 - 1e-15)), -none).mean()
        slope = np.where(positive, q / np.maximum(1 - q, 1e-15), -1.0) / 400
        return value, np.stack([np.repeat(slope, size), np.zeros(len(X))], 1)

    theirs, (X_new, z_new) = fit(X, objective, classes=2, starts=3), made(4000, seed + 10_000, shares)
    return float((ours(X_new) == z_new).mean()), float((theirs(X_new) == z_new).mean())


PROBLEMS: dict[str, Callable[[int], tuple[float, float]]] = {kind.__name__: single(kind) for kind in SINGLE} | {
    f.__name__: f
    for f in (case_control, two_bags, soft, similar_dissimilar, similar_unlabeled, bags_of_four, some_member)
}


def table(seeds: range) -> dict[str, tuple[float, float, float]]:
    """Mean accuracies of both, and the standard error of their difference."""
    out = {}
    for name, both in PROBLEMS.items():
        pairs = np.array([both(seed) for seed in seeds])
        error = np.std(pairs[:, 0] - pairs[:, 1], ddof=1) / math.sqrt(len(pairs))
        out[name] = (*pairs.mean(axis=0).tolist(), float(error))
    return out


@pytest.mark.parametrize("name", PROBLEMS)
def test_it_is_within_a_point_of_the_published_likelihood(name):
    ours, theirs = np.mean([PROBLEMS[name](seed) for seed in range(3)], axis=0)
    assert ours > theirs - WITHIN
    assert theirs > (0.6 if name != "soft" else 0.5)  # which learns something itself


if __name__ == "__main__":
    for name, (ours, theirs, error) in table(range(100, 120)).items():
        print(f"{name:22s} {ours:.4f} {theirs:.4f} {ours - theirs:+.4f} +- {error:.4f}")
