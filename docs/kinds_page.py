"""The page docs/kinds.md: every kind of weak label, and the fifteen settings of a survey with the lines that run them.

``page()`` is made from the library's own list of kinds (`tproper.transitions.KINDS`), from certificates computed here,
and from SETTINGS below, whose lines a test runs.
"""

from __future__ import annotations

from dataclasses import dataclass

PRELUDE = '''
import numpy as np
import torch
import tproper as tp

rng = np.random.default_rng(0)


def rows(n, shares):
    """n rows of two features, and their classes."""
    z = rng.choice(len(shares), size=n, p=shares)
    angle = 2 * np.pi * z / len(shares)
    return 1.5 * np.stack([np.cos(angle), np.sin(angle)], 1) + rng.normal(size=(n, 2)), z


def confidence(X, shares):
    """P(class | x) of these rows."""
    angle = 2 * np.pi * np.arange(len(shares)) / len(shares)
    centres = 1.5 * np.stack([np.cos(angle), np.sin(angle)], 1)
    p = np.exp(-0.5 * ((X[:, None] - centres) ** 2).sum(-1)) * shares
    return p / p.sum(1, keepdims=True)


def train(model, objective):
    """A torch model, by L-BFGS."""
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=200, line_search_fn="strong_wolfe")

    def step():
        optimizer.zero_grad()
        value = objective()
        value.backward()
        return value

    optimizer.step(step)
    return model


tensor = lambda X: torch.as_tensor(X, dtype=torch.float32)  # noqa: E731
'''


@dataclass(frozen=True)
class Setting:
    """One setting of the survey: what is seen, how such data are made here, the lines, and how good they must be."""

    name: str
    seen: str
    data: str  # makes X (and others) for the lines
    lines: str  # end with `predicted`, for rows X_new with classes z_new
    loss: str
    bounded: str
    classes: int = 2
    renamed: bool = False  # whether the classes are found up to their names
    accuracy: float = 0.9


LIKELIHOOD = "log score, proper"
FIT = "predicted = clf.predict(X_new)"
TWO = "shares = np.array([0.7, 0.3])\nX_new, z_new = rows(2000, shares)\n"
THREE = "shares = np.array([0.4, 0.35, 0.25])\nX_new, z_new = rows(2000, shares)\n"
PAIRS = TWO + "X1, z1 = rows(6000, shares)\nX2, z2 = rows(6000, shares)\n"
TRAINED = (
    "torch.manual_seed(0)\n"
    "loss, model = tp.PairLoss(kernel), torch.nn.Linear(2, 2)\n"
    "train(model, lambda: loss(model(tensor(X1)), model(tensor(X2)), labels))\n"
    "predicted = model(tensor(X_new)).argmax(1).numpy()"
)

SETTINGS = [
    Setting(
        "Unlabeled-unlabeled (UU)",
        "two bags of unlabeled rows, with known class shares",
        TWO + "a, b = rows(2000, [0.9, 0.1])[0], rows(3000, [0.3, 0.7])[0]\nX = np.concatenate([a, b])\n"
        "bag = np.repeat([0, 1], [len(a), len(b)])\n",
        "T = tp.unlabeled_sets([[0.9, 0.1], [0.3, 0.7]], sizes=[2000, 3000], prior=[0.7, 0.3])\n"
        f"clf = tp.WeakLabelClassifier(T).fit(X, bag)\n{FIT}",
        "ForwardLoss", "forward yes; backward when squeezed",
    ),
    Setting(
        "Positive-unlabeled (PU)",
        "a sample of positives, a sample of the population",
        TWO + "a, z = rows(6000, shares)\na, b = a[z == 0][:2000], rows(4000, shares)[0]\nX = np.concatenate([a, b])\n"
        "labeled = np.repeat([True, False], [len(a), len(b)])\n",
        "T = tp.case_control_pu(0.7, labeled=2000, unlabeled=4000)\n"
        "clf = tp.WeakLabelClassifier(T).fit(X, labeled)\n"
        "predicted = np.where(clf.predict(X_new), 0, 1)  # class 0 is positive",
        "ForwardLoss", "forward yes; backward when squeezed",
    ),
    Setting(
        "Similar-unlabeled (SU)",
        "similar pairs, and rows of the population (paired at random)",
        PAIRS + "same = np.flatnonzero(z1 == z2)[:2000]\nrest = np.arange(4000, 6000)\n"
        "pick = np.concatenate([same, rest])\n"
        "X1, X2 = X1[pick], X2[pick]\nlabels = np.repeat([\"similar\", \"unlabeled\"], [2000, 2000])\n",
        f'kernel = tp.pairs("su", prior=[0.7, 0.3], sizes=[2000, 2000])\n{TRAINED}',
        f"PairLoss: {LIKELIHOOD}", "yes", renamed=True,
    ),
    Setting(
        "Dissimilar-unlabeled (DU)",
        "dissimilar pairs, and rows of the population",
        PAIRS + "other = np.flatnonzero(z1 != z2)[:2000]\nrest = np.arange(4000, 6000)\n"
        "pick = np.concatenate([other, rest])\n"
        "X1, X2 = X1[pick], X2[pick]\nlabels = np.repeat([\"dissimilar\", \"unlabeled\"], [2000, 2000])\n",
        f'kernel = tp.pairs("du", prior=[0.7, 0.3], sizes=[2000, 2000])\n{TRAINED}',
        f"PairLoss: {LIKELIHOOD}", "yes", renamed=True,
    ),
    Setting(
        "Similar-dissimilar (SD)",
        "pairs that are labeled similar or dissimilar",
        PAIRS + "labels = np.where(z1 == z2, \"similar\", \"dissimilar\")\n",
        f'kernel = tp.pairs("similarity", K=2)\n{TRAINED}',
        f"PairLoss: {LIKELIHOOD}", "yes", renamed=True,
    ),
    Setting(
        "Pairwise comparison (Pcomp)",
        "pairs of which the first is no lower than the second",
        PAIRS + "kept = z1 >= z2\nX1, X2 = X1[kept], X2[kept]\nlabels = np.full(kept.sum(), \"first\")\n",
        'kernel = tp.pairs("comparison", prior=[0.7, 0.3])\n'
        "X = np.concatenate([X1, X2])  # pulled apart: bags of known class shares\n"
        "T, bag = kernel.apart().with_prior([0.7, 0.3]), np.concatenate(kernel.bags(labels))\n"
        f"clf = tp.WeakLabelClassifier(T).fit(X, bag)\n{FIT}",
        "ForwardLoss of the members; PairLoss of the pairs", "yes",
    ),
    Setting(
        "Similarity confidence (Sconf)",
        "pairs with the probability that both are of one class",
        PAIRS + "s = (confidence(X1, shares) * confidence(X2, shares)).sum(1)\n",
        'kernel, labels = tp.pairs("similarity", K=2), tp.SoftLabels(np.stack([s, 1 - s], 1))\n' + TRAINED,
        f"PairLoss: {LIKELIHOOD}", "yes", renamed=True,
    ),
    Setting(
        "Complementary labels (CL)",
        'a class that the row is not of',
        THREE + "X, z = rows(3000, shares)\ny = tp.complementary(3).sample(z, 1)\n",
        f'clf = tp.WeakLabelClassifier("complementary").fit(X, y)\n{FIT}',
        "ForwardLoss", "forward yes; backward when squeezed", 3, accuracy=0.75,
    ),
    Setting(
        "Multi-complementary labels (MCL)",
        "several classes that the row is not of",
        THREE + "X, z = rows(3000, shares)\ny = tp.multi_complementary(3, 1).sample(z, 1)\n",
        f"clf = tp.WeakLabelClassifier(tp.multi_complementary(3, 1)).fit(X, y)\n{FIT}",
        "ForwardLoss", "forward yes; backward when squeezed", 3, accuracy=0.75,
    ),
    Setting(
        "Provably consistent partial labels (PCPL)",
        "a set that holds the class; every other class is in it half of the time",
        THREE + "X, z = rows(3000, shares)\ny = tp.partial_labels(3, 0.5).sample(z, 1)\n",
        f'clf = tp.WeakLabelClassifier("partial:3,0.5").fit(X, y)\n{FIT}',
        "ForwardLoss", "forward yes; backward when squeezed", 3, accuracy=0.75,
    ),
    Setting(
        "Proper partial labels (PPL)",
        "a set that holds the class, with a probability that depends on the set and the features, not on which of its "
        "classes it is",
        THREE + "X, z = rows(3000, shares)\ny = tp.partial_labels(3, 0.2).sample(z, 1)\n",
        "# the loss -log sum of p over the set, up to what no class changes: any p will do\n"
        f'clf = tp.WeakLabelClassifier("partial:3,0.5").fit(X, y)\n{FIT}',
        "ForwardLoss", "yes", 3, accuracy=0.75,
    ),
    Setting(
        "Positive confidence (Pconf)",
        "positives alone, with P(positive | x)",
        TWO + "X, z = rows(6000, shares)\nX = X[z == 0]\ns = confidence(X, shares)[:, 0]\n",
        "# weights 1 and (1 - s) / s of both classes: those of soft labels (s, 1 - s), divided by s\n"
        "soft = tp.SoftLabels(np.stack([s, 1 - s], 1))\n"
        f"clf = tp.WeakLabelClassifier(calibrate=False).fit(X, soft, sample_weight=1 / s)\n{FIT}",
        "cross entropy, importance-weighted", "yes",
    ),
    Setting(
        "Single-class confidence (SC-Conf)",
        "rows of one class alone, with P(class | x) of all classes",
        THREE + "X, z = rows(9000, shares)\nX = X[z == 0]\nr = confidence(X, shares)\n",
        "# weights r_z / r_0\n"
        f"clf = tp.WeakLabelClassifier(calibrate=False).fit(X, tp.SoftLabels(r), sample_weight=1 / r[:, 0])\n{FIT}",
        "cross entropy, importance-weighted", "yes", 3, accuracy=0.75,
    ),
    Setting(
        "Subset confidence (Sub-Conf)",
        "rows of some classes alone, with P(class | x) of all classes",
        THREE + "X, z = rows(6000, shares)\nX = X[z < 2]\nr = confidence(X, shares)\n",
        "# weights r_z / (r_0 + r_1)\n"
        "w = 1 / r[:, :2].sum(1)\n"
        f"clf = tp.WeakLabelClassifier(calibrate=False).fit(X, tp.SoftLabels(r), sample_weight=w)\n{FIT}",
        "cross entropy, importance-weighted", "yes", 3, accuracy=0.75,
    ),
    Setting(
        "Soft labels",
        "P(class | x) of every row",
        THREE + "X, z = rows(2000, shares)\nr = confidence(X, shares)\n",
        f"clf = tp.WeakLabelClassifier().fit(X, tp.SoftLabels(r))\n{FIT}",
        "cross entropy", "yes", 3, accuracy=0.75,
    ),
]  # fmt: skip

OTHERS = [
    ("several answers a row", "cat, dog, -", "`tp.annotators([T1, T2])`, `tp.estimate_annotators(y)`", "annotators"),
    ("one label a row, from one of several sources", "source, label", "`tp.multi_source([T1, T2], weights)`", "groups"),
    ("bags of unlabeled rows with known class shares", "bag", "`tp.unlabeled_sets(proportions, sizes)`", "groups"),
    ("shares of labels", "p_cat, p_dog", "`tp.SoftLabels(shares)`, beside any T", "language-model"),
    ("pairs: similar, dissimilar, unlabeled, compared", "row, row, similar", '`tp.PairLoss(tp.pairs("su", ...))`', ""),
    ("bags with the number of each class", "bag; cat 3, dog 5", "`tp.BagCountLoss(K)(scores, bags, counts)`", ""),
    ("bags of which some member is positive", "bag; yes", "`tp.AtLeastOneLoss()(scores, bags, positive)`", ""),
    ("several yes/no classes at once", "yes, no, no", "`tp.MultiLabelClassifier([T1, T2, T3])`", ""),
    ("a T of every row's own", "any", "`loss(scores, labels, transitions=T)`, T (n, M, K)", ""),
]  # fmt: skip

HEAD = """# Every kind of weak label

A kind of weak label is a matrix T: how likely is each label, given the class. What follows is made from the library's
own list of kinds; each T is that of the example in the column *text*, which `--transition` and every `transition=`
understand.

"""
KINDS_HEAD = """
Forward correction is proper for every T, and bounded. *backward* says whether backward-corrected cross entropy is
bounded from below (squeezed, it always is), by `certify`; "-" where these labels do not tell all classes apart.

Kinds that are made of others, or speak of several rows at once:

"""
SETTINGS_HEAD = """
## The fifteen settings of Chiang and Sugiyama

"Unified risk analysis for weakly supervised learning" (TMLR, 2025) subsumes fifteen settings. Each is a few lines here,
after the data have been made by the [code at the end](#the-data); a test runs all of them and compares the predictions
with the classes. Pairs do not tell which class is which.

"""
OUTSIDE = """
## What is not here

A label that is no function of the class alone, up to chance, has no T: labels whose noise depends on the features in an
unknown way (`tp.check_transition` looks for it; with a known T for each row, `transitions=` takes it), noise in the
features, numbers to be predicted (regression), rankings of many items, and questions that were chosen by looking at the
answers before.

## The data
"""


def page() -> str:
    """The whole page."""
    from generate import markdown

    table = markdown(["kind", "a column holds", "T", "text", "call", "backward", "T comes from", "guide"], kinds())
    others = markdown(["kind", "columns hold", "call", "guide"], [
        [kind, f"`{column}`", call, f"[guide](guides/{guide}.md)" if guide else ""]
        for kind, column, call, guide in OTHERS
    ])  # fmt: skip
    parts = []
    for s in SETTINGS:
        named = " Found up to the names of the classes." if s.renamed else ""
        parts.append(
            f"### {s.name}\n\nSeen: {s.seen}. {s.loss}; bounded: {s.bounded}.{named}\n\n```python\n{s.lines}\n```\n"
        )
    data = "\n".join(f"# {s.name}\n{s.data}" for s in SETTINGS)
    body = HEAD + table + "\n" + KINDS_HEAD + others + "\n" + SETTINGS_HEAD + "\n".join(parts) + OUTSIDE
    return f"{body}\n```python\n{PRELUDE.strip()}\n```\n\n```python\n{data.strip()}\n```\n"


def kinds() -> list[list[str]]:
    """The rows of the first table."""
    import tproper as tp
    from tproper.transitions import KINDS

    out = []
    for kind in KINDS:
        T = tp.parse_transition(kind.example)
        backward = "-"
        if T.diagnose().reconstructible:
            backward = "yes" if tp.BackwardLoss(T).certify().lower_bounded else "no"
        assert tp.ForwardLoss(T).certify().lower_bounded
        shown = "; ".join(" ".join(f"{x:.3g}" for x in row) for row in kind.small)
        column = kind.column.replace("|", "\\|")
        text = kind.example.replace("|", "\\|")
        guide = f"[guide](guides/{kind.guide}.md)"
        out.append(
            [kind.help, f"`{column}`", shown, f"`{text}`", f"`{kind.call}`", backward, kind.estimated_from, guide]
        )
    return out


def run(setting: Setting) -> float:
    """The share of new rows whose class the lines find, up to the names of the classes where only these are open."""
    import numpy as np

    space: dict[str, object] = {}
    exec(PRELUDE + setting.data, space)
    exec(setting.lines, space)
    right = float((np.asarray(space["predicted"]) == np.asarray(space["z_new"])).mean())
    return max(right, 1 - right) if setting.renamed else right
