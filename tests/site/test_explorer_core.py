"""The Explorer's JavaScript against the library, in a real Chromium: every number to 1e-9.

A page with the cases inside it loads core.js from disk, computes, and writes what it found into its DOM.
"""

import json
import math
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from chromium import CHROMIUM, NO_CHROMIUM

import tproper as tp
from tproper.transitions import KINDS

EXPLORER = Path(__file__).parents[2] / "docs" / "explorer"
NUM_CASES, SQUEEZINGS = 330, 12
TOLERANCE = 1e-9  # relative to max(1, |value|)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)

PAGE = """<!doctype html><meta charset="utf-8"><title>cases</title>
<script>window.problems = []; window.onerror = (m) => { window.problems.push(String(m)); };</script>
<script src="%(base)s/core.js"></script><script src="%(base)s/solve.js"></script>
<script src="%(base)s/families.js"></script>
<script type="application/json" id="cases">%(cases)s</script><pre id="out"></pre><script>%(script)s</script>"""

SCRIPT = """
const say = (x) => typeof x === "number" && !Number.isFinite(x) ? String(x) : x;
const t = TProper;
const answers = JSON.parse(document.getElementById("cases").textContent).map((c) => {
  const T = c.family ? TProperFamilies.build({family: c.family, parameter: c.parameter}).T : t.check(c.T);
  const { k, alpha, v, p, q } = c;
  const out = { T, ...t.diagnose(T), R: t.reconstruct(T), forward: T.map((_, y) => t.forward(T, v, y)),
    forwardFloor: T.map((_, y) => t.forwardFloor(T, y)), link: t.link(v, k, alpha), softmax: t.softmax(v),
    probabilities: t.probabilities(v, k, alpha), weak: t.weakProbabilities(T, p), conjugate: t.conjugate(q, k, alpha) };
  out.scores = t.inverseLink(p, k, alpha);
  if (alpha > 1) out.scoresAt = t.inverseLink(q, k, alpha);
  if (out.R) {
    const targets = T.map((_, y) => t.column(out.R, y));
    const plain = t.inverseLink(p);
    out.backward = targets.map((r) => t.backward(r, plain));
    out.squeezed = targets.map((r) => t.backward(r, v, k, alpha));
    out.backwardFloor = targets.map((r) => t.backwardFloor(r));
    out.squeezedFloor = targets.map((r) => t.backwardFloor(r, k, alpha));
    out.flatFloor = targets.map((r) => t.backwardFloor(r, k, 1));
    out.criticalK = targets.map(t.criticalK);
    out.witness = targets.map((r) => t.witness(r));
    out.flatWitness = targets.map((r) => t.witness(r, k, 1));
  }
  return out;
});
document.getElementById("out").textContent = JSON.stringify({ problems: window.problems, answers }, (_, x) => say(x));
"""

FAMILIES = {
    "symmetric": lambda x: tp.symmetric_noise(3, x),
    "pair": lambda x: tp.pair_noise(3, x),
    "complementary": lambda x: tp.complementary(3, noise=x),
    "biased": lambda x: tp.complementary(3, weights=[[0, 1 - x, x], [x, 0, 1 - x], [1 - x, x, 0]]),
    "partial": lambda x: tp.partial_labels(3, x),
    "pu": tp.positive_unlabeled,
    "coarse": lambda a: tp.coarse_labels([[z for z in range(3) if z != a], [a]]),
    "identity": lambda _: tp.identity(3),
    "ordinal": lambda x: tp.ordinal_noise(3, x),
    "noisy_partial": lambda x: tp.noisy_partial_labels(3, 0.3, x),
    "yes_no": lambda x: tp.yes_no(3, x),
    "hierarchy": lambda x: tp.hierarchical_labels([[0, 1], [2]], x),
    "none_of_these": lambda x: tp.none_of_these(3, 2, x),
    "partly_labeled": lambda x: tp.partly_labeled(3, x),
}


def make_cases(seed: int = 0):
    """Families at random and extreme parameters, random matrices of 2 to 7 labels, sparse and singular ones."""
    rng = np.random.default_rng(seed)
    cases, transitions = [], []
    # a few squeezings for all, whose conjugates the library then finds in batches: they take the longest
    ks, alphas = np.round(10 ** rng.uniform(-1.5, 1, SQUEEZINGS), 4), np.round(rng.uniform(1.2, 3, SQUEEZINGS), 2)
    alphas[::6] = 1.0
    for i in range(NUM_CASES):
        case: dict = {}
        if i % 3 == 0:
            family = list(FAMILIES)[(i // 3) % len(FAMILIES)]
            end = [0.0, 1.0, None, None, None][(i // (3 * len(FAMILIES))) % 5]
            x = int(rng.integers(3)) if family == "coarse" else round(float(rng.random()), 2) if end is None else end
            case |= {"family": family, "parameter": x}
            transition = FAMILIES[family](x)
        else:
            K = 3 if i % 9 else 2
            T = rng.dirichlet(np.full(int(rng.integers(2, 8)), rng.choice([0.3, 1.0, 3.0])), K).T
            if i % 5 == 0:
                T[:, 0] = T[:, 1]  # two classes that nothing tells apart
            if i % 7 == 0:
                T = np.vstack([T, np.zeros(K)])  # a label that never occurs
            case["T"] = T.tolist()
            transition = tp.Transition(T)
        K = transition.num_classes
        case["k"], case["alpha"] = float(ks[i % SQUEEZINGS]), float(alphas[i % SQUEEZINGS])
        case["v"] = (rng.normal(size=K) * rng.choice([0.1, 1, 20])).tolist()
        case["p"] = rng.dirichlet(np.full(K, rng.choice([0.3, 2.0]))).clip(1e-12).tolist()
        q = rng.normal(size=K - 1) * 1.5
        case["q"] = [*q.tolist(), 1 - float(q.sum())]
        cases.append(case)
        transitions.append(transition)
    return cases, transitions


def labels_of(transition):
    """Every weak label, as the transition's losses take them."""
    if transition.per_class_labels:
        return torch.tensor([[z in s for z in range(transition.num_classes)] for s in transition.weak_labels])
    return torch.arange(transition.num_weak_labels)


def expected(case, transition):
    """The library's word on one case."""
    k, alpha = case["k"], case["alpha"]
    v, p = (torch.tensor([case[name]], dtype=torch.float64) for name in ("v", "p"))
    d = transition.diagnose()
    labels = labels_of(transition)
    forward = tp.ForwardLoss(transition, reduction="none")
    squeezed = tp.LogSumExp().squeezed(k, alpha)
    out = {
        "T": transition.matrix(),
        "rank": d.rank,
        "reconstructible": d.reconstructible,
        "smallest": d.smallest_singular_value,
        "condition": d.condition_number,
        "disjoint": d.disjoint_supports,
        "confused": d.confused_classes(),
        "forward": forward(v.expand(len(labels), -1), labels),
        "forwardFloor": forward.lower_bounds(),
        "link": squeezed.link(v)[0],
        "softmax": torch.softmax(v, -1)[0],
        "probabilities": squeezed.probabilities(v)[0],
        "weak": transition.matrix() @ np.array(case["p"]),
        "R": None,
    }
    if d.reconstructible:
        backward = tp.BackwardLoss(transition, reduction="none")
        gls = tp.BackwardLoss(transition, squeeze=(k, alpha), reduction="none")
        plain = tp.LogSumExp().inverse_link(p / p.sum())
        out |= {
            "R": transition.reconstruction().matrix(),
            "backward": backward(plain.expand(len(labels), -1), labels),
            "squeezed": gls(v.expand(len(labels), -1), labels),
            "backwardFloor": backward.lower_bounds(),
            "criticalK": tp.critical_k(transition),
        }
    return out


def expected_conjugates(cases, transitions):
    """What rests on a squeezed conjugate, case by case; those of one squeezing go through the library together."""
    out = [{} for _ in cases]
    groups: dict = {}
    for i, (case, T) in enumerate(zip(cases, transitions, strict=True)):
        groups.setdefault((case["k"], case["alpha"], T.num_classes), []).append(i)
    for (k, alpha, _), members in groups.items():
        F, flat = tp.LogSumExp().squeezed(k, alpha), tp.LogSumExp().squeezed(k, 1.0)
        p, q = (torch.tensor([cases[i][name] for i in members], dtype=torch.float64) for name in "pq")
        rows = {"scores": F.inverse_link(p), "conjugate": F.conjugate(q)}
        rows |= {"scoresAt": F.inverse_link(q)} if alpha > 1 else {}
        for name, values in rows.items():
            for i, value in zip(members, values, strict=True):
                out[i][name] = value
        known = [i for i in members if transitions[i].diagnose().reconstructible]
        targets = [torch.as_tensor(transitions[i].reconstruction().matrix().T) for i in known]
        if known:
            sizes = [len(t) for t in targets]
            for name, potential in (("squeezedFloor", F), ("flatFloor", flat)):
                for i, floors in zip(known, (-potential.conjugate(torch.cat(targets))).split(sizes), strict=True):
                    out[i][name] = floors
    return out


def open_cases(browser, tmp_path, cases, script=SCRIPT, base=EXPLORER):
    page = tmp_path / "cases.html"
    data = json.dumps(cases).replace("<", "\\u003c")
    page.write_text(PAGE % {"base": base.as_uri(), "cases": data, "script": script}, encoding="utf-8")
    browser.open(page.as_uri())
    answer = json.loads(browser.run("document.getElementById('out').textContent"))
    assert answer["problems"] == []
    return answer["answers"]


def as_array(x):
    words = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
    return np.array([words[e] if isinstance(e, str) else e for e in np.asarray(x, dtype=object).ravel()], dtype=float)


def distance(ours, theirs):
    """The largest error, relative to max(1, |value|); inf where infinities or shapes differ."""
    a, b = as_array(ours), np.asarray(theirs, dtype=float).ravel()
    if a.shape != b.shape or np.isnan(a).any() or (np.isinf(b) & (a != b)).any():
        return math.inf
    rest = np.isfinite(b)
    return float((np.abs(a[rest] - b[rest]) / np.maximum(1, np.abs(b[rest]))).max(initial=0.0))


@pytest.fixture(scope="module")
def solved(tmp_path_factory, browser):
    cases, transitions = make_cases()
    return cases, transitions, open_cases(browser, tmp_path_factory.mktemp("explorer"), cases)


def test_every_number_agrees_with_the_library(solved):
    worst: dict[str, tuple[float, int]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tp.ConditioningWarning)
        conjugates = expected_conjugates(*solved[:2])
        for i, (case, transition, answer) in enumerate(zip(*solved, strict=True)):
            if i % 11 == 0 and "squeezedFloor" in conjugates[i]:  # they are the bounds of the losses
                for name, alpha in (("squeezedFloor", case["alpha"]), ("flatFloor", 1.0)):
                    bounds = tp.BackwardLoss(transition, squeeze=(case["k"], alpha)).lower_bounds()
                    np.testing.assert_allclose(bounds, conjugates[i][name], rtol=1e-11, atol=1e-11)
            for name, value in (expected(case, transition) | conjugates[i]).items():
                if value is None or name == "confused":
                    assert answer[name] == value, (i, name)
                    continue
                error = distance(answer[name], value)
                if name in ("scores", "scoresAt"):  # a vector: relative to its largest entry
                    a, b = as_array(answer[name]), value.numpy()
                    error = float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))
                worst[name] = max(worst.get(name, (0.0, -1)), (error, i))
    print({name: f"{error:.1e} (case {i})" for name, (error, i) in worst.items()})
    assert {name: w for name, w in worst.items() if not w[0] <= TOLERANCE} == {}


def test_cases_reach_every_kind(solved):
    """The comparison above means something only if all verdicts occur in it."""
    cases, _, answers = solved
    assert len(cases) >= 300
    assert {a["reconstructible"] for a in answers} == {True, False}
    assert {1, 2, 3} == {a["rank"] for a in answers}
    kinds = [a for a in answers if a["R"]]
    assert len(kinds) > 200
    for name in ("backwardFloor", "flatFloor"):
        infinite = [f == "-Infinity" for a in kinds for f in a[name]]
        assert 50 < sum(infinite) < len(infinite) - 50
    assert sum(c["alpha"] == 1 for c in cases) > 40


def test_witnesses_are_rays_along_which_the_loss_falls(solved):
    """Slopes measured with the library's losses far out on the ray; the steepest is the library's own witness."""
    checked = 0
    for case, transition, answer in zip(*solved, strict=True):
        if not answer["R"] or answer["condition"] > 1e4:
            continue
        labels = labels_of(transition)
        for name, floor, squeeze in (
            ("witness", "backwardFloor", None),
            ("flatWitness", "flatFloor", (case["k"], 1.0)),
        ):
            loss = tp.BackwardLoss(transition, squeeze=squeeze, reduction="none")
            assert [w is None for w in answer[name]] == [f != "-Infinity" for f in answer[floor]]
            found = [y for y, w in enumerate(answer[name]) if w is not None]
            if found:
                rays = torch.tensor([answer[name][y]["direction"] for y in found], dtype=torch.float64)
                near, far = (loss(t * rays, labels[found]) for t in (1e3, 2e3))
                slopes = np.array([answer[name][y]["slope"] for y in found])
                assert (slopes < 0).all()
                assert ((far - near) / 1e3).numpy() == pytest.approx(slopes, rel=1e-9, abs=1e-9)
                checked += len(found)
            if checked % 3 == 0 and (own := loss.certify().witness) is not None:
                steepest = min(w["slope"] for w in answer[name] if w)
                assert own.slope == pytest.approx(steepest, rel=1e-9)
    assert checked > 300


def test_matrices_that_are_no_transition_are_refused(tmp_path, browser):
    script = """
    const answers = JSON.parse(document.getElementById("cases").textContent).map((T) => {
      try { TProper.check(T); return "accepted"; } catch (error) { return error.message; } });
    document.getElementById("out").textContent = JSON.stringify({ problems: window.problems, answers });"""
    wrong = [
        [[0.9, 0.2], [0.1, 0.7]],
        [[0.9, 0.1], [0.4, 0.6]],
        [[1.1, 0], [-0.1, 1]],
        [[1, 0], [0]],
        [[1, 0, 0, 0], [0, 1, 1, 1]],
        [[1, None], [0, 1]],
    ]
    assert open_cases(browser, tmp_path, wrong, script) == [
        "T: expected columns that sum to 1, got 0.8999999999999999 in column 1",
        "T: expected columns that sum to 1, got 1.3 in column 0; its rows sum to one: pass the transpose",
        "T: expected probabilities >= 0, got -0.1 at row 1, column 0",
        "T: expected a matrix of numbers with rows of equal length",
        "T: expected 2 or 3 columns, one per class, got 4",
        "T: expected finite entries, got null at row 0, column 1",
    ]


FAULTS = {  # what is broken, and the numbers that must show it
    "return -backward(p, v, k, alpha);": ("return backward(p, v, k, alpha);", "squeezedFloor"),
    "dot(r, behind) + penalty": ("dot(r, behind) - penalty", "squeezed"),
    "T[y].flatMap((t, z)": ("T.map((row) => row[y]).flatMap((t, z)", "forward"),
    "if (k === 0) return inSimplex(p)": ("if (k === 0) return true", "backwardFloor"),
}


def test_a_fault_in_the_core_is_noticed(tmp_path, browser):
    """Planted: a sign, a term, a transposed T, a bound that is always there."""
    pool, transitions = make_cases()
    picked = [i for i, c in enumerate(pool) if c["alpha"] > 1.5 and transitions[i].matrix().shape == (3, 3)][:8]
    cases, known = [pool[i] for i in picked], [transitions[i] for i in picked]
    conjugates = expected_conjugates(cases, known)
    truth = [expected(c, T) | more for c, T, more in zip(cases, known, conjugates, strict=True)]
    core = (EXPLORER / "core.js").read_text(encoding="utf-8")
    for right, (wrong, name) in FAULTS.items():
        assert core.count(right) == 1
        broken = tmp_path / name  # a folder each: no script is one that the browser knows
        broken.mkdir()
        for file in ("solve.js", "families.js"):
            (broken / file).write_text((EXPLORER / file).read_text(encoding="utf-8"), encoding="utf-8")
        (broken / "core.js").write_text(core.replace(right, wrong), encoding="utf-8")
        answers = open_cases(browser, tmp_path, cases, base=broken)
        errors = [distance(a[name], t[name]) for a, t in zip(answers, truth, strict=True) if name in t]
        assert max(errors) > TOLERANCE, name


def test_the_explorer_shows_every_single_row_kind():
    """Each kind of the library's list is one of its families, or is told by which one it is shown."""
    text = (EXPLORER / "families.js").read_text()
    shown = set(re.findall(r"^    (\w+): \{$", text, flags=re.M))
    stands_for = {"binary": "own", "multi_complementary": "partial", "case_control_pu": "pu"}
    assert {stands_for.get(kind.name, kind.name) for kind in KINDS} <= shown
    assert set(FAMILIES) | {"own"} == shown
