/* The kinds of weak labels on the page: T, what its labels are called, and the Python line that builds it. */
(function (root) {
  "use strict";

  const range = (n) => Array.from({ length: n }, (_, i) => i);
  const square = (entry) => range(3).map((y) => range(3).map((z) => entry(y, z)));
  const uniform = (keep) => square((y, z) => (y === z ? keep : (1 - keep) / 2));
  const SETS = [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]]; // the paper's order: by size, then lexicographic
  const GROUPS = [[[1, 2], [0]], [[0, 2], [1]], [[0, 1], [2]]];
  const braces = (set) => `{${set.join(", ")}}`;
  const python = (A) => `[${A.map((row) => `[${row.map(number).join(", ")}]`).join(", ")}]`;
  const tidy = (x, digits = 3) => Number(x.toFixed(digits));
  const number = (x) => String(tidy(x, 6));

  const percent = { min: 0, max: 1, step: 0.01 };

  /* parameter: the one slider of a family. say: its value in words. */
  const FAMILIES = {
    symmetric: {
      name: "Noisy labels: symmetric",
      about: "With probability p the label is wrong, every wrong label equally likely (Example 1).",
      parameter: { ...percent, name: "p", start: 0.3, say: (p) => `${tidy(100 * p, 0)}% of labels are wrong` },
      matrix: (p) => uniform(1 - p),
      python: (p) => `tp.symmetric_noise(3, ${number(p)})`,
    },
    pair: {
      name: "Noisy labels: pair",
      about: "With probability p class z is labelled z + 1; after the last class comes the first.",
      parameter: { ...percent, name: "p", start: 0.3, say: (p) => `${tidy(100 * p, 0)}% of labels move to the next class` },
      matrix: (p) => square((y, z) => (y === z ? 1 - p : y === (z + 1) % 3 ? p : 0)),
      python: (p) => `tp.pair_noise(3, ${number(p)})`,
    },
    ordinal: {
      name: "Noisy labels: classes in an order",
      about: "With probability p the label is a neighbouring class; at the ends there is one neighbour alone.",
      parameter: { ...percent, name: "p", start: 0.3, say: (p) => `${tidy(100 * p, 0)}% of labels move to a neighbour` },
      matrix: (p) => square((y, z) => (y === z ? 1 - p : Math.abs(y - z) > 1 ? 0 : z === 1 ? p / 2 : p)),
      python: (p) => `tp.ordinal_noise(3, ${number(p)})`,
    },
    complementary: {
      name: "Complementary labels: uniform",
      about: "A label says “not this class”; every wrong class is equally likely to be named.",
      parameter: { ...percent, max: 0.6, name: "noise", start: 0, say: (x) => `${tidy(100 * x, 0)}% of labels name the true class after all` },
      matrix: (noise) => uniform(noise),
      labels: range(3).map((y) => `not ${y}`),
      python: (noise) => `tp.complementary(3${noise ? `, noise=${number(noise)}` : ""})`,
    },
    biased: {
      name: "Complementary labels: biased",
      about: "“Not this class”, and of the two wrong classes the next one is named with probability b.",
      parameter: { ...percent, name: "b", start: 0.8, say: (b) => `the next class is named ${tidy(100 * b, 0)}% of the time` },
      matrix: (b) => square((y, z) => (y === z ? 0 : y === (z + 1) % 3 ? b : 1 - b)),
      labels: range(3).map((y) => `not ${y}`),
      python: (b) => `tp.complementary(3, weights=${python(FAMILIES.biased.matrix(b))})`,
    },
    partial: {
      name: "Partial labels: candidate sets",
      about: "The label is a set that holds the true class, and every other class with probability p (Example 2).",
      parameter: { ...percent, name: "p", start: 0.3, say: (p) => `each wrong class is in the set ${tidy(100 * p, 0)}% of the time` },
      matrix: (p) => SETS.map((S) => range(3).map((z) => (S.includes(z) ? Math.pow(p, S.length - 1) * Math.pow(1 - p, 3 - S.length) : 0))),
      labels: SETS.map(braces),
      sets: SETS,
      python: (p) => `tp.partial_labels(3, ${number(p)})`,
    },
    noisy_partial: {
      name: "Partial labels: sets that may leave the class out",
      about: "Each other class is in the set with probability 0.3, and the true class is not with probability e.",
      parameter: { ...percent, name: "e", start: 0.1, say: (e) => `${tidy(100 * e, 0)}% leave the true class out (empty sets are drawn again)` },
      matrix: (e) => SETS.map((S) => range(3).map((z) => {
        const own = S.includes(z), others = S.length - (own ? 1 : 0);
        return ((own ? 1 - e : e) * Math.pow(0.3, others) * Math.pow(0.7, 2 - others)) / (1 - e * 0.49);
      })),
      labels: SETS.map(braces),
      sets: SETS,
      python: (e) => `tp.noisy_partial_labels(3, 0.3, ${number(e)})`,
    },
    yes_no: {
      name: "Yes/no questions",
      about: "One class is asked for, each as often as the others: \u201cis it 0?\u201d A yes is missed with probability m.",
      parameter: { ...percent, name: "m", start: 0.1, say: (m) => `${tidy(100 * m, 0)}% of the answers that should be yes are no` },
      matrix: (m) => [...square((y, z) => (y === z ? (1 - m) / 3 : 0)), ...square((y, z) => (y === z ? m / 3 : 1 / 3))],
      labels: [...range(3).map((y) => `${y}`), ...range(3).map((y) => `not ${y}`)],
      python: (m) => `tp.yes_no(3, miss=${number(m)})`,
    },
    pu: {
      name: "Positive and unlabeled (two classes)",
      about: "A positive (class 0) is labeled with probability r; everything else is unlabeled.",
      parameter: { ...percent, name: "r", start: 0.4, say: (r) => `${tidy(100 * r, 0)}% of positives are labeled` },
      matrix: (r) => [[r, 0], [1 - r, 1]],
      labels: ["labeled", "unlabeled"],
      python: (r) => `tp.positive_unlabeled(${number(r)})`,
    },
    coarse: {
      name: "Coarse labels: groups of classes",
      about: "The label is a group that holds the class. Within a group nothing can be learned.",
      parameter: { min: 0, max: 2, step: 1, name: "class on its own", start: 2, say: (a) => `groups ${GROUPS[a].map(braces).join(" and ")}` },
      matrix: (a) => GROUPS[a].map((g) => range(3).map((z) => (g.includes(z) ? 1 : 0))),
      labelsOf: (a) => GROUPS[a].map(braces),
      python: (a) => `tp.coarse_labels([${GROUPS[a].map((g) => `[${g.join(", ")}]`).join(", ")}])`,
    },
    hierarchy: {
      name: "A hierarchy: some labels are groups",
      about: "The label is the class, or with probability c the group that holds it: {0, 1} or 2.",
      parameter: { ...percent, name: "c", start: 0.3, say: (c) => `${tidy(100 * c, 0)}% of labels are groups` },
      matrix: (c) => [[1 - c, 0, 0], [0, 1 - c, 0], [0, 0, 1], [c, c, 0]],
      labels: ["{0}", "{1}", "{2}", "{0, 1}"],
      python: (c) => `tp.hierarchical_labels([[0, 1], [2]], ${number(c)})`,
    },
    none_of_these: {
      name: "An open set: none of these",
      about: "Classes 0 and 1 can be chosen, class 2 cannot; with probability m a listed class is missed.",
      parameter: { ...percent, name: "m", start: 0.2, say: (m) => `${tidy(100 * m, 0)}% of listed classes are called none of these` },
      matrix: (m) => [[1 - m, 0, 0], [0, 1 - m, 0], [m, m, 1]],
      labels: ["0", "1", "none of these"],
      python: (m) => `tp.none_of_these(3, 2, miss=${number(m)})`,
    },
    partly_labeled: {
      name: "Some rows have no label",
      about: "A row has its class as its label with probability r, and no label otherwise.",
      parameter: { ...percent, name: "r", start: 0.4, say: (r) => `${tidy(100 * r, 0)}% of rows are labeled` },
      matrix: (r) => [...square((y, z) => (y === z ? r : 0)), [1 - r, 1 - r, 1 - r]],
      labels: ["0", "1", "2", "unlabeled"],
      python: (r) => `tp.partly_labeled(3, ${number(r)})`,
    },
    identity: {
      name: "Clean labels",
      about: "T is the identity: ordinary supervised learning, where every target is a corner.",
      matrix: () => uniform(1),
      python: () => "tp.identity(3)",
    },
    own: {
      name: "My own matrix",
      about: "Drag a column in the picture, or type into the table. Columns always sum to one.",
      python: (_, T) => `tp.Transition(${python(T)})`,
    },
  };

  /** What a state (family, parameter, own matrix) shows: T, label names, the Python expression. */
  function build({ family, parameter, own }) {
    const f = FAMILIES[family];
    const T = family === "own" ? own.map((row) => row.slice()) : f.matrix(parameter);
    const labels = f.labelsOf ? f.labelsOf(parameter) : f.labels || T.map((_, y) => String(y));
    return { T, labels, sets: f.sets || null, expression: f.python(parameter, T), classes: T[0].map((_, z) => String(z)) };
  }

  /** The lines that build what is shown, ready to run. */
  function pythonLines({ expression, T, sets }, { k, alpha }, reconstructible) {
    const scores = T[0].length === 2 ? "[[0.5, -0.5]]" : "[[0.5, 0.0, -0.5]]";
    const label = sets ? "[[True, False, False]]" : "[0]";
    const lines = ["import torch", "import tproper as tp", "", `T = ${expression}`, "print(T.diagnose())", ""];
    lines.push("forward = tp.ForwardLoss(T)", "print(forward.lower_bounds())");
    if (reconstructible) {
      lines.push("", "R = T.reconstruction()", "print(R.matrix())  # column y is the target of weak label y", "");
      lines.push("backward = tp.BackwardLoss(T)", "print(backward.certify())", "");
      lines.push(`gls = tp.BackwardLoss(T, squeeze=(${number(k)}, ${number(alpha)}))`, "print(gls.certify())");
    }
    const loss = reconstructible ? "gls" : "forward";
    lines.push("", `scores, labels = torch.tensor(${scores}), torch.tensor(${label})`);
    lines.push(`print(${loss}(scores, labels), ${loss}.probabilities(scores))`);
    return lines.join("\n");
  }

  /** A column of probabilities on the grid of thousandths that still sums to one in decimals. */
  function rounded(p) {
    const out = p.map((x) => Math.round(1000 * x));
    const largest = out.indexOf(Math.max(...out));
    out[largest] += 1000 - out.reduce((a, b) => a + b, 0);
    return out.map((x) => x / 1000);
  }

  root.TProperFamilies = { FAMILIES, build, pythonLines, rounded, tidy, number };
})(typeof window === "undefined" ? globalThis : window);
