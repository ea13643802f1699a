/* From a state (what the reader chose) to a model (every number the page shows), and the fields of losses. */
(function (root) {
  "use strict";

  const t = root.TProper, { build } = root.TProperFamilies;
  const ALPHAS = [1, ...Array.from({ length: 19 }, (_, i) => (12 + i) / 10)]; // 1, then 1.2 to 3
  const HEIGHT = Math.sqrt(3) / 2;
  const PICTURE_TOL = 1e-5; // digits enough for a colour

  /** A vector that sums to one as a point of the plane: corners (0, 0), (1, 0), (1/2, HEIGHT); two entries on a line. */
  const place = (u) => (u.length === 2 ? [u[1], 0] : [u[1] + u[2] / 2, u[2] * HEIGHT]);
  function unplace([x, y], size) {
    if (size === 2) return [1 - x, x];
    const c = y / HEIGHT, b = x - c / 2;
    return [1 - b - c, b, c];
  }

  function compute(state) {
    const shown = build(state);
    const { T } = shown;
    t.check(T);
    const diagnosis = t.diagnose(T), R = t.reconstruct(T);
    const K = T[0].length, M = T.length;
    const { k, alpha } = state;
    const targets = R ? T.map((_, y) => t.column(R, y)) : null;
    const floors = {
      forward: T.map((_, y) => t.forwardFloor(T, y)),
      backward: targets && targets.map((r) => t.backwardFloor(r)),
      squeezed: targets && targets.map((r) => t.backwardFloor(r, k, alpha)),
    };
    const rays = {
      backward: targets && targets.map((r) => t.witness(r)),
      squeezed: targets && targets.map((r) => t.witness(r, k, alpha)),
    };
    return { ...shown, K, M, k, alpha, diagnosis, R, targets, floors, rays, criticalK: targets && targets.map(t.criticalK) };
  }

  /** The point of the segment from the middle to q at which a potential's link still reaches: q itself, where it does. */
  function reached(q, k, alpha) {
    const K = q.length, at = (s) => q.map((x) => 1 / K + s * (x - 1 / K));
    if (k > 0 && alpha > 1) return q;
    if (k === 0) {
      const low = Math.min(...q);
      return low >= 1e-5 ? q : at((1 / K - 1e-5) / (1 / K - low));
    }
    if (t.criticalK(q) < k - 1e-4) return q;
    let low = 0, high = 1;
    for (let i = 0; i < 14; i++) {
      const mid = (low + high) / 2;
      if (t.criticalK(at(mid)) < k - 1e-4) low = mid; else high = mid;
    }
    return at(low);
  }

  const cache = new Map();

  /** Scores whose link are the points of an n x m grid over a window, and F there: the same for every T. */
  function scoreField(window, n, m, size, k, alpha) {
    const key = [window.join(), n, m, size, k, alpha].join("|");
    if (cache.has(key)) return cache.get(key);
    const [x0, x1, y0, y1] = window;
    const points = [], scores = [], F = [];
    for (let j = 0; j < m; j++) {
      for (let i = 0; i < n; i++) {
        const y = m === 1 ? 0 : y0 + ((j + 0.5) / m) * (y1 - y0);
        const q = reached(unplace([x0 + ((i + 0.5) / n) * (x1 - x0), y], size), k, alpha);
        const near = k > 0 && alpha > 1 ? scores[scores.length - 1] : null;
        const v = t.inverseLink(q, k, alpha, PICTURE_TOL, i ? near : null);
        points.push(q);
        scores.push(v || new Array(size).fill(0));
        F.push(v ? t.backward(new Array(size).fill(1 / size), v, k, alpha) : NaN); // <1/K, v> is zero
      }
    }
    if (cache.size > 24) cache.delete(cache.keys().next().value);
    cache.set(key, { points, scores, F });
    return cache.get(key);
  }

  /** One loss of one label over a field: forward needs T's row, backward ones the target. */
  function lossField(model, loss, y, field) {
    if (loss === "forward") return field.points.map((p) => -Math.log(Math.max(t.dot(model.T[y], p), 0)));
    const r = model.targets[y];
    return field.scores.map((v, i) => field.F[i] - t.dot(r, v));
  }

  /** The three losses of every label at p, and how squeezed scores read. */
  function atPoint(model, p) {
    const plain = t.inverseLink(p), squeezed = t.inverseLink(p, model.k, model.alpha);
    return {
      weak: t.weakProbabilities(model.T, p),
      forward: model.T.map((_, y) => t.forward(model.T, plain, y)),
      backward: model.targets && model.targets.map((r) => t.backward(r, plain)),
      squeezed: model.targets && squeezed && model.targets.map((r) => t.backward(r, squeezed, model.k, model.alpha)),
      scores: model.targets && squeezed,
      softmax: squeezed && t.softmax(squeezed),
      link: squeezed && t.link(squeezed, model.k, model.alpha),
    };
  }

  const wordsFor = (groups) => groups.map((g) => g.slice(0, -1).join(", ") + " and " + g[g.length - 1]).join("; ");
  const show = (x, digits = 3) => {
    if (x === Infinity) return "∞";
    if (x === -Infinity) return "−∞";
    if (Math.abs(x) >= 1e5) return x.toExponential(1).replace("e+", "e").replace("-", "−");
    const text = x.toFixed(Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : digits - 1);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
  };

  /** One sentence on what is shown, for the eye and for the screen reader. */
  function sentence(model, name) {
    const d = model.diagnosis;
    if (!d.reconstructible) {
      return `${name}: classes ${wordsFor(d.confused)} cannot be told apart (rank ${d.rank} of ${model.K}), so no R has R T = I. ` +
        "Forward correction is still proper, though not strictly.";
    }
    const condition = `${name}: condition number ${show(d.condition)}, all classes can be told apart. `;
    const out = model.floors.backward.filter((f) => f === -Infinity).length;
    if (!out) return condition + "Every target is a probability vector, so every loss here has a lower bound.";
    const where = out === model.M ? "Every target leaves" : `${out} of ${model.M} targets leave`;
    const lowest = Math.min(...model.floors.squeezed);
    const gls = lowest === -Infinity ? `squeezing with α = 1 needs k of at least ${show(Math.max(...model.criticalK))}` : `squeezed it stays above ${show(lowest)}`;
    return condition + `${where} the simplex, where backward cross entropy falls without end; ${gls}.`;
  }

  root.TProperModel = { ALPHAS, HEIGHT, place, unplace, compute, scoreField, lossField, atPoint, reached, sentence, show, wordsFor };
})(window);
