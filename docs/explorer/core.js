/* The numbers of the Explorer: T, its left inverse R, targets, losses, links, floors, for 2 or 3 classes.

   weak label y  ->  target r = R e_y  ->  loss = F(v) - <r, v>  ->  probabilities = gradient of F at v

   A plain script (no modules), so that the page opens from file://. Conventions are the library's: T[y][z] = P(weak
   label y | class z), columns sum to one; R is classes x weak labels; scores are centred before use. F is log-sum-exp,
   squeezed by k/2 sum |v_z|^alpha where k > 0. tests/site/test_explorer_core.py holds every function to the library. */
(function (root) {
  "use strict";

  const RANK_TOL = 1e-10; // singular values below this share of the largest count as zero
  const SIMPLEX_TOL = 1e-12; // how far an entry may fall below zero and still count as a probability
  const SUM_TOL = 1e-6; // how far a column of T may sum away from one

  const sum = (x) => { let s = 0; for (let i = 0; i < x.length; i++) s += x[i]; return s; };
  const dot = (x, y) => { let s = 0; for (let i = 0; i < x.length; i++) s += x[i] * y[i]; return s; };
  const column = (A, j) => A.map((row) => row[j]);
  const centre = (v) => { const m = sum(v) / v.length; return v.map((x) => x - m); };
  const normalised = (q) => { const s = (1 - sum(q)) / q.length; return q.map((x) => x + s); };

  // ---- T ----------------------------------------------------------------------------------------------------------

  /** T unchanged, or an Error that names the rule it breaks. */
  function check(T) {
    if (!Array.isArray(T) || !T.length || !T.every((r) => Array.isArray(r) && r.length === T[0].length)) {
      throw new Error("T: expected a matrix of numbers with rows of equal length");
    }
    const K = T[0].length;
    if (K < 2 || K > 3) throw new Error(`T: expected 2 or 3 columns, one per class, got ${K}`);
    T.forEach((row, y) => row.forEach((x, z) => {
      if (!Number.isFinite(x)) throw new Error(`T: expected finite entries, got ${x} at row ${y}, column ${z}`);
      if (x < 0) throw new Error(`T: expected probabilities >= 0, got ${x} at row ${y}, column ${z}`);
    }));
    const sums = T[0].map((_, z) => sum(column(T, z)));
    const worst = sums.reduce((w, s, z) => (Math.abs(s - 1) > Math.abs(sums[w] - 1) ? z : w), 0);
    if (Math.abs(sums[worst] - 1) > SUM_TOL) {
      const rows = T.every((row) => Math.abs(sum(row) - 1) <= SUM_TOL);
      const hint = rows ? "; its rows sum to one: pass the transpose" : "";
      throw new Error(`T: expected columns that sum to 1, got ${sums[worst]} in column ${worst}${hint}`);
    }
    return T;
  }

  /** Singular values (descending) and right singular vectors of A (M x K), by one-sided Jacobi rotations. */
  function svd(A) {
    const K = A[0].length;
    const U = A[0].map((_, z) => column(A, z)); // columns
    const V = U.map((_, i) => U.map((__, j) => (i === j ? 1 : 0))); // columns
    for (let sweep = 0; sweep < 60; sweep++) {
      let turned = false;
      for (let i = 0; i < K; i++) {
        for (let j = i + 1; j < K; j++) {
          const a = dot(U[i], U[i]), b = dot(U[j], U[j]), c = dot(U[i], U[j]);
          if (c === 0 || Math.abs(c) <= 1e-16 * Math.sqrt(a * b)) continue;
          turned = true;
          const zeta = (b - a) / (2 * c);
          const t = (zeta >= 0 ? 1 : -1) / (Math.abs(zeta) + Math.hypot(1, zeta));
          const cos = 1 / Math.hypot(1, t), sin = cos * t;
          for (const W of [U, V]) {
            W[i].forEach((x, n) => {
              const y = W[j][n];
              W[i][n] = cos * x - sin * y;
              W[j][n] = sin * x + cos * y;
            });
          }
        }
      }
      if (!turned) break;
    }
    const order = U.map((u, z) => ({ s: Math.hypot(...u), v: V[z] })).sort((x, y) => y.s - x.s);
    return { values: order.map((o) => o.s), vectors: order.map((o) => o.v) };
  }

  /** What T lets a learner recover: rank, conditioning, and the classes that no weak label tells apart. */
  function diagnose(T) {
    const M = T.length, K = T[0].length;
    const { values, vectors } = svd(T);
    const rank = Math.min(M, values.filter((s) => s > RANK_TOL * values[0]).length);
    const kernel = vectors.slice(rank);
    return {
      rank,
      reconstructible: rank === K,
      smallest: M < K ? 0 : values[K - 1],
      condition: rank < K ? Infinity : values[0] / values[K - 1],
      disjoint: T.every((row) => row.filter((x) => x > 0).length <= 1),
      confused: rank === K ? [] : confusedClasses(kernel, rank, K),
    };
  }

  /** Groups of classes linked by the kernel of T: probability can move within a group and no weak label notices. */
  function confusedClasses(kernel, rank, K) {
    const group = Array.from({ length: K }, (_, z) => (rank === 1 ? 0 : z));
    for (let a = 0; a < K; a++) {
      for (let b = 0; b < a; b++) {
        const linked = Math.abs(sum(kernel.map((v) => v[a] * v[b]))) > 1e-8;
        if (linked && group[a] !== group[b]) {
          const old = group[a];
          group.forEach((g, z) => { if (g === old) group[z] = group[b]; });
        }
      }
    }
    const groups = [...new Set(group)].map((g) => group.flatMap((h, z) => (h === g ? [z] : [])));
    return groups.filter((g) => g.length > 1).sort((x, y) => x[0] - y[0]);
  }

  /** R (K x M) with R T = I, columns summing to one: the inverse where T is square, else minimum variance.

      Minimum variance for the uniform prior is (T^T D^-1 T)^-1 T^T D^-1, D = diag(T 1/K); with D^-1/2 T = Q U it is
      U^-1 Q^T D^-1/2, which for a square T is the inverse. A label that never occurs has the target 1/K. */
  function reconstruct(T) {
    const K = T[0].length;
    if (!diagnose(T).reconstructible) return null;
    const square = T.length === K;
    const root = T.map((row) => (square ? 1 : Math.sqrt(sum(row) / K)));
    const Q = T[0].map((_, z) => T.map((row, y) => (root[y] > 0 ? row[z] / root[y] : 0)));
    const U = Q.map(() => new Array(K).fill(0));
    for (let j = 0; j < K; j++) {
      for (let twice = 0; twice < 2; twice++) { // Gram-Schmidt, twice is enough
        for (let i = 0; i < j; i++) {
          const c = dot(Q[i], Q[j]);
          U[i][j] += c;
          Q[j].forEach((_, y) => { Q[j][y] -= c * Q[i][y]; });
        }
      }
      U[j][j] = Math.hypot(...Q[j]);
      Q[j] = Q[j].map((x) => x / U[j][j]);
    }
    const columns = T.map((_, y) => {
      if (!square && root[y] === 0) return new Array(K).fill(1 / K);
      const r = Q.map((q) => q[y] / root[y]);
      for (let i = K - 1; i >= 0; i--) {
        for (let j = i + 1; j < K; j++) r[i] -= U[i][j] * r[j];
        r[i] /= U[i][i];
      }
      return normalised(r);
    });
    return T[0].map((_, z) => columns.map((r) => r[z]));
  }

  // ---- F ----------------------------------------------------------------------------------------------------------

  function logSumExp(v) {
    const top = Math.max(...v);
    return top + Math.log(sum(v.map((x) => Math.exp(x - top))));
  }

  function softmax(v) {
    const top = Math.max(...v);
    const e = v.map((x) => Math.exp(x - top));
    const s = sum(e);
    return e.map((x) => x / s);
  }

  /** tau with sum max(q - tau, 0) = 1. */
  function simplexThreshold(q) {
    const top = Math.max(...q);
    const x = q.map((a) => a - top).sort((a, b) => b - a);
    let total = 0, tau = -1;
    x.forEach((a, i) => {
      total += a;
      const candidate = (total - 1) / (i + 1);
      if (a > candidate && a > -1) tau = candidate;
    });
    return tau + top;
  }

  function projectSimplex(q) {
    const tau = simplexThreshold(q);
    return q.map((x) => Math.max(x - tau, 0));
  }

  const inSimplex = (r) => Math.min(...r) >= -SIMPLEX_TOL;
  const entropy = (p) => -sum(p.map((x) => (x > 0 ? x * Math.log(x) : 0)));

  /** k/2 sum |v_z|^alpha at centred scores (Corollary 15). */
  const penalty = (v, k, alpha) => (k === 0 ? 0 : (k / 2) * sum(v.map((x) => Math.pow(Math.abs(x), alpha))));
  /** Its derivative, k alpha/2 |v|^(alpha-1) sgn v. */
  const pull = (x, k, alpha) => (k === 0 || x === 0 ? 0 : ((k * alpha) / 2) * Math.sign(x) * Math.pow(Math.abs(x), alpha - 1));
  const unpull = (w, k, alpha) => Math.sign(w) * Math.pow((2 * Math.abs(w)) / (k * alpha), 1 / (alpha - 1));

  /** F(v) - <r, v>, log-sum-exp squeezed by (k, alpha); k = 0 is backward-corrected cross entropy (Theorem 7). */
  function backward(r, v, k = 0, alpha = 2) {
    const top = Math.max(...v);
    const behind = v.map((x) => top - x); // scores compared with the largest one keep their digits
    return Math.log(sum(behind.map((x) => Math.exp(-x)))) + dot(r, behind) + penalty(centre(v), k, alpha);
  }

  /** -log (T p)_y at p = softmax(v), a log-sum-exp over log T + log p (Example 9). */
  function forward(T, v, y) {
    const terms = T[y].flatMap((t, z) => (t > 0 ? [Math.log(t) + v[z]] : []));
    return terms.length ? logSumExp(v) - logSumExp(terms) : Infinity;
  }

  /** The gradient of F, shifted to sum to one. With squeezing it may leave the simplex. */
  function link(v, k = 0, alpha = 2) {
    const c = centre(v);
    return normalised(softmax(c).map((p, z) => p + pull(c[z], k, alpha)));
  }

  /** The link, projected onto the simplex. */
  const probabilities = (v, k = 0, alpha = 2) => (k === 0 ? softmax(v) : projectSimplex(link(v, k, alpha)));

  /** Centred scores v with link(v) = q; null where there are none. Pictures ask for fewer digits and give a guess. */
  function inverseLink(q, k = 0, alpha = 2, tol = 1e-13, start = null) {
    const p = normalised(q);
    if (k === 0) return Math.min(...p) > 0 ? centre(p.map(Math.log)) : null;
    if (alpha === 1) {
      const u = mostUniform(p, k, tol);
      return u && Math.min(...u) > 0 ? centre(u.map(Math.log)) : null;
    }
    return root.TProperSolve.minimiser(p, k, alpha, tol, start);
  }

  /** F*(q) = sup <q, v> - F(v); Infinity outside of its domain (Proposition 14). */
  function conjugate(q, k = 0, alpha = 2) {
    const p = normalised(q);
    if (k === 0) return inSimplex(p) ? -entropy(p) : Infinity;
    if (alpha === 1) {
      const u = mostUniform(p, k);
      return u ? -entropy(u) : Infinity;
    }
    const v = root.TProperSolve.minimiser(p, k, alpha);
    return -backward(p, v, k, alpha);
  }

  /** alpha = 1: the p nearest to uniform with range(q - p) <= k, null where there is none.

      F'*(q) is then F*(p). For an offset a the best p is clip(mu, q - a - k, q - a); what is left is convex in a. */
  function mostUniform(q, k, tol = 0) {
    let high = Math.min(Math.min(...q), 0);
    let low = simplexThreshold(q) - k;
    if (low > high + 1e-12 * (1 + Math.abs(high))) return null;
    low = Math.min(low, high);
    const box = (a) => {
      const bottom = q.map((x) => Math.max(x - a - k, 0));
      return { bottom, top: q.map((x, z) => Math.max(x - a, bottom[z])) };
    };
    const clip = (mu, { bottom, top }) => bottom.map((b, z) => Math.min(Math.max(mu, b), top[z]));
    const slope = (a) => {
      const b = box(a), mu = level(b), p = clip(mu, b);
      const held = (z) => p[z] !== mu && ((p[z] <= b.bottom[z] && b.bottom[z] > 0) || p[z] >= b.top[z]);
      return sum(p.map((x, z) => (held(z) ? Math.log(mu) - Math.log(x) : 0)));
    };
    for (let i = 0; i < 200; i++) {
      const mid = low + (high - low) / 2;
      if (mid <= low || mid >= high || (tol > 1e-12 && high - low < tol)) break;
      if (slope(mid) <= 0) low = mid; else high = mid;
    }
    // with few digits asked for, the middle of what is left: at its ends an entry of p may be zero
    const b = box(tol > 1e-12 ? low + (high - low) / 2 : slope(low) === 0 || low === high ? low : high);
    return clip(level(b), b);
  }

  /** mu with sum clip(mu, bottom, top) = 1: linear between the ends of the boxes. */
  function level({ bottom, top }) {
    const ends = [...bottom, ...top].sort((x, y) => x - y);
    const at = (mu) => sum(bottom.map((b, z) => Math.min(Math.max(mu, b), top[z]))) - 1;
    let i = 0;
    while (i + 1 < ends.length && at(ends[i + 1]) < 0) i++;
    const here = at(ends[i]), inside = bottom.filter((b, z) => b <= ends[i] && top[z] > ends[i]).length;
    return here >= 0 || inside === 0 ? ends[i] : ends[i] - here / inside;
  }

  // ---- what the page says about a loss ------------------------------------------------------------------------------

  /** Greatest lower bounds: forward, -log max_z T_yz; backward, -F*(R e_y), -Infinity where there is none. */
  const forwardFloor = (T, y) => 0 - Math.log(Math.max(...T[y]));
  const backwardFloor = (r, k = 0, alpha = 2) => 0 - conjugate(r, k, alpha);

  /** The smallest k at which squeezing with alpha = 1 is bounded: tau - min(min r, 0). */
  const criticalK = (r) => (inSimplex(r) ? 0 : Math.max(0, simplexThreshold(r) - Math.min(0, ...r)));

  /** Where the loss has no floor: a direction of scores along which it falls, and its slope; else null. */
  function witness(r, k = 0, alpha = 2) {
    if (Number.isFinite(backwardFloor(r, k, alpha))) return null;
    const tau = simplexThreshold(r);
    const above = r.map((x) => (x > tau ? 1 : 0));
    const direction = above.map((x) => x / sum(above));
    direction[r.indexOf(Math.min(...r))] -= 1;
    return { direction, slope: Math.max(...direction) - dot(direction, r) + (k > 0 && alpha === 1 ? k : 0) };
  }

  const weakProbabilities = (T, p) => T.map((row) => dot(row, p));

  root.TProper = {
    check, diagnose, reconstruct, column, centre, logSumExp, softmax, projectSimplex, inSimplex, backward, forward, link,
    probabilities, inverseLink, conjugate, forwardFloor, backwardFloor, criticalK, witness, weakProbabilities, svd,
    penalty, pull, unpull, dot, sum, normalised,
  };
})(typeof window === "undefined" ? globalThis : window);
