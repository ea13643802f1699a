/* The scores at which a squeezed log-sum-exp takes a given link: the centred v that minimises F(v) - <q, v>.

   Newton's method from the solution for F = max v; where it does not settle (alpha near 1, where scores reach 1e15),
   two nested bracketed roots, one per free coordinate. alpha > 1, k > 0, two or three classes. */
(function (root) {
  "use strict";

  const { dot, sum, centre, softmax, projectSimplex, pull, unpull, backward } = root.TProper;
  const SETTLED = 1e-14; // largest stationarity error, relative to what is added up

  /** The excess of grad F(v) over q, centred: zero at the minimiser; with its size relative to its terms. */
  function excess(q, v, k, alpha) {
    const p = softmax(v);
    const w = v.map((x) => pull(x, k, alpha));
    const g = centre(p.map((x, z) => x + w[z] - q[z]));
    const scale = 1 + Math.max(...q.map(Math.abs), ...w.map(Math.abs));
    return { g, p, error: Math.max(...g.map(Math.abs)) / scale };
  }

  /** The minimiser for F = max v: q's distance to the simplex, w = q + t - p, carried back through the penalty. */
  function asIfMax(q, k, alpha) {
    const p = projectSimplex(q);
    const w = q.map((x, z) => x - p[z]);
    if (Math.max(...w.map(Math.abs)) < 1e-3) return centre(q.map((x) => Math.log(Math.max(x, 1e-3)) / (1 + k)));
    const total = (t) => sum(w.map((x) => unpull(x + t, k, alpha)));
    const t = bracketed(total, -Math.max(...w), -Math.min(...w));
    return centre(w.map((x) => unpull(x + t, k, alpha)));
  }

  /** H d = -g on centred vectors, H = diag(p) - p p^T + diag(c): c and p make it definite. */
  function newtonStep(g, p, c) {
    const K = g.length;
    const A = p.map((x, i) => p.map((y, j) => (i === j ? x + c[i] : 0) - x * y + 1));
    const b = g.map((x) => [-x, 1]);
    for (let i = 0; i < K; i++) {
      for (let j = i + 1; j < K; j++) {
        const f = A[j][i] / A[i][i];
        for (let n = i; n < K; n++) A[j][n] -= f * A[i][n];
        b[j] = [b[j][0] - f * b[i][0], b[j][1] - f * b[i][1]];
      }
    }
    for (let i = K - 1; i >= 0; i--) {
      for (let m = 0; m < 2; m++) {
        for (let j = i + 1; j < K; j++) b[i][m] -= A[i][j] * b[j][m];
        b[i][m] /= A[i][i];
      }
    }
    const shift = sum(b.map((x) => x[0])) / sum(b.map((x) => x[1]));
    return centre(b.map((x) => x[0] - shift * x[1]));
  }

  function newton(q, start, k, alpha, tol) {
    let v = start, at = excess(q, v, k, alpha), value = backward(q, v, k, alpha);
    for (let i = 0; i < 50; i++) {
      if (at.error <= Math.max(SETTLED, tol / 10)) return { v, error: at.error };
      const bend = v.map((x) => Math.min(((k * alpha * (alpha - 1)) / 2) * Math.pow(Math.max(Math.abs(x), 1e-9), alpha - 2), 1e12));
      const d = newtonStep(at.g, at.p, bend);
      const fall = dot(at.g, d);
      let size = 1, next = null;
      for (let halvings = 0; halvings < 30; halvings++, size /= 2) {
        const tried = centre(v.map((x, z) => x + size * d[z]));
        const there = excess(q, tried, k, alpha), cost = backward(q, tried, k, alpha);
        if (cost <= value + 1e-4 * size * fall || there.error < at.error / 2) { next = { tried, there, cost }; break; }
      }
      if (!next) break;
      v = next.tried; at = next.there; value = next.cost;
    }
    return { v, error: at.error };
  }

  /** A root of an increasing f: Brent's method on the asinh scale, to rounding. */
  function bracketed(f, low, high) {
    let a = Math.asinh(low), b = Math.asinh(high);
    let fa = f(Math.sinh(a)), fb = f(Math.sinh(b));
    if (fa >= 0) return low;
    if (fb <= 0) return high;
    let c = a, fc = fa, d = b - a, e = d;
    for (let i = 0; i < 200; i++) {
      if (fb > 0 === fc > 0) { c = a; fc = fa; d = e = b - a; }
      if (Math.abs(fc) < Math.abs(fb)) { [a, b, c] = [b, c, b]; [fa, fb, fc] = [fb, fc, fb]; }
      const tol = 2.3e-16 * Math.abs(b) + 1e-300, half = (c - b) / 2;
      if (Math.abs(half) <= tol || fb === 0) break;
      if (Math.abs(e) >= tol && Math.abs(fa) > Math.abs(fb)) {
        const s = fb / fa;
        let p, r;
        if (a === c) { p = 2 * half * s; r = 1 - s; } else {
          const u = fa / fc, w = fb / fc;
          p = s * (2 * half * u * (u - w) - (b - a) * (w - 1));
          r = (u - 1) * (w - 1) * (s - 1);
        }
        if (p > 0) r = -r; else p = -p;
        if (2 * p < Math.min(3 * half * r - Math.abs(tol * r), Math.abs(e * r))) { e = d; d = p / r; } else { d = e = half; }
      } else { d = e = half; }
      a = b; fa = fb;
      b += Math.abs(d) > tol ? d : Math.sign(half) * tol;
      fb = f(Math.sinh(b));
    }
    return Math.sinh(b);
  }

  /** Two nested roots: score i given score j, then score j; the last score balances them. */
  function nested(q, k, alpha) {
    const K = q.length;
    const reach = 1 + Math.max(...q.map((x) => Math.abs(unpull(2 * (Math.abs(x) + 1) * K, k, alpha))));
    const slope = (v, i) => {
      const p = softmax(v), last = K - 1;
      return p[i] - p[last] + pull(v[i], k, alpha) - pull(v[last], k, alpha) - q[i] + q[last];
    };
    if (K === 2) {
      const x = bracketed((a) => slope([a, -a], 0), -reach, reach);
      return [x, -x];
    }
    const order = q.map((_, z) => z).sort((a, b) => q[a] - q[b]); // the outer score is the middle one
    const arranged = [order[1], order[0], order[2]];
    const outer = q.map((_, z) => q[arranged[z]]);
    const inner = (a) => bracketed((b) => slopeOf(outer, [a, b, -a - b], 1, k, alpha), -2 * reach, 2 * reach);
    const a = bracketed((x) => { const b = inner(x); return slopeOf(outer, [x, b, -x - b], 0, k, alpha); }, -reach, reach);
    const b = inner(a), v = [a, b, -a - b], out = [0, 0, 0];
    arranged.forEach((z, i) => { out[z] = v[i]; });
    return out;
  }

  function slopeOf(q, v, i, k, alpha) {
    const p = softmax(v);
    return p[i] - p[2] + pull(v[i], k, alpha) - pull(v[2], k, alpha) - q[i] + q[2];
  }

  /** The centred v that minimises F(v) - <q, v>, q summing to one; `start` is a guess from nearby, `tol` the error allowed. */
  function minimiser(q, k, alpha, tol = 1e-13, start = null) {
    const first = newton(q, start || asIfMax(q, k, alpha), k, alpha, tol);
    if (first.error <= tol) return first.v;
    const second = nested(q, k, alpha);
    return excess(q, second, k, alpha).error < first.error ? second : first.v;
  }

  root.TProperSolve = { minimiser, excess };
})(typeof window === "undefined" ? globalThis : window);
