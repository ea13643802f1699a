/* The pictures, with Observable Plot. Each function takes numbers from the model and fills one element. */
(function (root) {
  "use strict";

  const Plot = root.Plot, d3 = root.d3, t = root.TProper;
  const { place, HEIGHT, scoreField, lossField } = root.TProperModel;
  const LIMIT = 5; // losses beyond it have the colour at the end of the scale
  const STEPS = d3.range(-LIMIT, LIMIT + 0.25, 0.5);
  const CORNERS = [[1, 0, 0], [0, 1, 0], [0, 0, 1]];
  const OUT = [[-0.87, -0.5], [0.87, -0.5], [0, 1]]; // directions away from the middle, where corner names go
  const SIMPLEX_BOX = { half: 0.62, middle: [0.5, HEIGHT / 2 - 0.03] }; // a window for what lives on the simplex alone
  const HALVES = [0.78, 1, 1.3, 1.9, 3]; // the zooms
  const labelName = (l) => (/^\d+$/.test(l) ? `label ${l}` : l);

  const dark = () => document.documentElement.dataset.theme === "dark";
  const classColour = (z) => `var(--class-${z})`;
  const ramp = {
    light: d3.piecewise(d3.interpolateLab, ["#08407c", "#6aa5d8", "#f4f4f2", "#eda766", "#963f00"]),
    dark: d3.piecewise(d3.interpolateLab, ["#a5d4ff", "#3577b5", "#24282e", "#a9601f", "#ffcf9e"]),
  };
  const colour = (x) => (dark() ? ramp.dark : ramp.light)(Math.min(Math.max((x + LIMIT) / (2 * LIMIT), 0), 1));

  /** A Plot of fixed size without axes, put into `holder` under the handles that live there. */
  function put(holder, { width, height, x, y, marks, ...rest }) {
    const plot = Plot.plot({
      width, height, margin: rest.margin ?? 0, marginLeft: rest.marginLeft ?? rest.margin ?? 0, marginBottom: rest.marginBottom ?? rest.margin ?? 0,
      axis: null, x: { domain: x }, y: { domain: rest.bands || y },
      style: { background: "none", color: "inherit", fontFamily: "inherit", fontSize: "14px" }, marks,
    });
    plot.setAttribute("role", "img");
    plot.setAttribute("aria-label", rest.label);
    const old = holder.querySelector("svg.chart");
    plot.classList.add("chart");
    if (old) old.replaceWith(plot); else holder.prepend(plot);
    holder.toPixels = ([a, b]) => [plot.scale("x").apply(a), plot.scale("y").apply(b)];
    holder.toData = ([a, b]) => [plot.scale("x").invert(a), plot.scale("y").invert(b)];
    holder.size = [width, height];
    return plot;
  }

  const outline = (points, options) => Plot.line(points, { x: "0", y: "1", curve: "linear-closed", strokeWidth: 1.2, ...options });
  const simplex = (size) => CORNERS.slice(0, size).map((c) => place(c.slice(0, size)));

  /** Names below the lower corners and above the top one. */
  function cornerNames(names, size, colour) {
    return names.map((name, i) => {
      const below = size === 2 || i < 2;
      return Plot.text([simplex(size)[i]], { x: "0", y: "1", text: [name], dy: below ? 22 : -20, fill: colour ? colour(i) : "var(--label)", fontWeight: 600, stroke: "var(--card)", strokeWidth: 4 });
    });
  }

  /** A square window around the simplex, wide enough for `points`, in one of a few sizes so that drags do not zoom. */
  function windowFor(points, size) {
    const middle = size === 3 ? [0.5, HEIGHT / 3] : [0.5, 0];
    const far = Math.max(...points.map((u) => place(u)).map(([x, y]) => Math.max(Math.abs(x - middle[0]), Math.abs(y - middle[1]) * 1.1)));
    const half = HALVES.find((h) => far < h * 0.93) || 3;
    return boxed({ half, middle });
  }

  const boxed = ({ half, middle }) => ({ half, middle, box: [middle[0] - half, middle[0] + half, middle[1] - half, middle[1] + half] });

  /** The columns of T among the weak labels: a triangle for three labels, a line for two, shaded cells for more. */
  function columns(holder, model) {
    const { T, M, K, labels } = model;
    const points = T[0].map((_, z) => t.column(T, z));
    const label = `Columns of T: ${points.map((c, z) => `class ${z} gives ${c.map((x, y) => `${labels[y]} ${x.toFixed(2)}`).join(", ")}`).join("; ")}.`;
    if (M > 3) return cells(holder, model, label);
    const flat = M === 2, at = points.map(place);
    const size = flat ? { width: 420, height: 150, x: [-0.2, 1.2], y: [-0.25, 0.25] }
      : { width: 420, height: 380, x: [-0.2, 1.2], y: [-0.2, -0.2 + 1.4 * (380 / 420)] };
    return put(holder, {
      ...size, label, marks: [
        outline(simplex(M), { stroke: "var(--muted)", fill: "var(--wash)" }),
        outline(at, { stroke: "var(--ink)", fill: "var(--accent)", fillOpacity: 0.12, strokeDasharray: flat ? null : "4 3" }),
        Plot.dot(simplex(M), { x: "0", y: "1", symbol: "diamond", r: 6, fill: "var(--label)" }),
        ...cornerNames(labels.map(labelName), M),
      ],
    });
  }

  function cells(holder, { T, labels }, label) {
    const rows = T.flatMap((row, y) => row.map((x, z) => ({ z, y: labels[y], x })));
    put(holder, {
      width: 420, height: 380, margin: 26, marginLeft: 64, marginBottom: 34, label, bands: labels, marks: [
        Plot.cell(rows, { x: "z", y: "y", fill: "var(--accent)", fillOpacity: "x", inset: 1.5, rx: 4 }),
        Plot.text(rows, { x: "z", y: "y", text: (d) => d.x.toFixed(2), fill: (d) => (d.x > 0.55 ? "var(--card)" : "var(--ink)") }),
        Plot.axisX({ label: null, tickFormat: (z) => `class ${z}`, tickSize: 0, fontSize: 13 }),
        Plot.axisY({ label: null, tickSize: 0, fontSize: 13 }),
      ],
    });
  }

  /** Lines through p along which no weak label changes its probability: the kernel of T. */
  function blindLines(model, p) {
    const kernel = t.svd(model.T).vectors.slice(model.diagnosis.rank);
    return kernel.map((d) => {
      const low = Math.max(...d.map((x, z) => (x > 1e-12 ? -p[z] / x : -Infinity)));
      const high = Math.min(...d.map((x, z) => (x < -1e-12 ? -p[z] / x : Infinity)));
      return [low, high].map((s) => place(p.map((x, z) => x + s * d[z])));
    });
  }

  /** The targets R e_y around the class simplex, and p; without an R, what T cannot see. */
  function targets(holder, model, p, selected) {
    const { K, R, labels } = model;
    const marks = [outline(simplex(K), { stroke: "var(--muted)", fill: "var(--wash)" })];
    const frame = windowFor(R ? [...model.targets, ...CORNERS.map((c) => c.slice(0, K))] : CORNERS.map((c) => c.slice(0, K)), K);
    if (R) {
      const at = model.targets.map(place);
      const hull = K === 3 && at.length > 2 ? d3.polygonHull(at) || at : at;
      marks.push(outline(hull, { stroke: "var(--label)", strokeDasharray: "4 3", fill: "var(--label)", fillOpacity: 0.07 }));
      const middle = frame.middle;
      const diamond = { x: "0", y: "1", symbol: "diamond", fill: "var(--label)", stroke: "var(--card)", strokeWidth: 1.5 };
      marks.push(Plot.dot(at, { ...diamond, r: 6 }), Plot.dot([at[selected]], { ...diamond, r: 9 }));
      at.forEach((a, y) => {
        const away = Math.atan2(a[1] - middle[1], a[0] - middle[0]), inside = Math.hypot(a[0] - middle[0], a[1] - middle[1]) < 0.05;
        const lift = K === 2 ? [0, -20] : inside ? [0, -16] : [12 * Math.cos(away), -18 * Math.sin(away)];
        const textAnchor = K === 2 || Math.abs(Math.cos(away)) < 0.4 || inside ? "middle" : Math.cos(away) > 0 ? "start" : "end";
        marks.push(Plot.text([a], { x: "0", y: "1", text: [labels[y]], textAnchor, dx: lift[0], dy: lift[1], fill: "var(--label)", fontWeight: y === selected ? 700 : 500, stroke: "var(--card)", strokeWidth: 4 }));
      });
    } else if (K === 3 && model.diagnosis.rank === 2) {
      blindLines(model, p).forEach((line) => marks.push(Plot.line(line, { x: "0", y: "1", stroke: "var(--bad)", strokeWidth: 3 })));
    } else {
      marks.push(outline(simplex(K), { stroke: "var(--bad)", fill: "var(--bad)", fillOpacity: 0.12, strokeWidth: 2 }));
    }
    marks.push(Plot.dot(simplex(K), { x: "0", y: "1", r: 5, fill: (_, z) => classColour(z) }));
    marks.push(...cornerNames(model.classes.map((z) => `class ${z}`), K, classColour));
    const tall = K === 2 ? 150 : 380, ratio = tall / 420;
    const up = frame.half * ratio;
    return put(holder, {
      width: 420, height: tall, x: [frame.middle[0] - frame.half, frame.middle[0] + frame.half], y: [frame.middle[1] - up, frame.middle[1] + up], marks,
      label: R ? `Targets: ${model.targets.map((r, y) => `label ${labels[y]} is (${r.map((x) => x.toFixed(2)).join(", ")})`).join("; ")}.` : "No targets: T has no left inverse.",
    });
  }

  /** The plane region that a loss is drawn on: the simplex, widened by the box at alpha = 1, or everything. */
  function region(k, alpha) {
    if (k === 0) return simplex(3);
    if (alpha > 1) return null;
    const cube = d3.range(8).map((b) => [0, 1, 2].map((z) => ((b >> z) & 1 ? k / 2 : -k / 2)));
    return d3.polygonHull(CORNERS.flatMap((c) => cube.map((o) => place(t.normalised(c.map((x, z) => x + o[z]))))));
  }

  /** Points along a side of a picture's grid: fewer while something moves, fewest where scores take longest to find. */
  function gridSize(loss, quick, alpha) {
    if (loss !== "squeezed") return quick ? 32 : 64;
    return quick ? (alpha < 1.5 ? 18 : 24) : 44;
  }

  /** Scores of squeezed pictures at every zoom, worked out when nothing else is to be done: drags then find them ready. */
  function prepare(model, busy) {
    const boxes = model.R && model.K === 3 ? HALVES.map((half) => boxed({ half, middle: [0.5, HEIGHT / 3] }).box) : [];
    const next = () => {
      if (!boxes.length || busy()) return; // never in the way of a hand that moves
      const n = gridSize("squeezed", true, model.alpha);
      scoreField(boxes.shift(), n, n, 3, model.k, model.alpha);
      setTimeout(next);
    };
    next();
  }

  const squeezeOf = (model, loss) => (loss === "squeezed" ? [model.k, model.alpha] : [0, 2]);

  /** Where the loss falls without end: the links along the witness's ray. */
  function fallingPath(model, loss, y) {
    const ray = model.rays[loss] && model.rays[loss][y];
    if (!ray) return null;
    const [k, alpha] = squeezeOf(model, loss);
    return d3.range(0, 7, 0.2).map((s) => place(t.link(ray.direction.map((x) => s * x), k, alpha)));
  }

  /** One loss of one label: bands of colour over the plane of predictions; curves where there are two classes. */
  function lossPicture(holder, model, loss, y, p, quick) {
    if (loss !== "forward" && !model.R) return absent(holder, "No R, so no backward loss.");
    if (model.K === 2) return lossCurves(holder, model, loss, y, p);
    const [k, alpha] = squeezeOf(model, loss);
    const frame = loss === "squeezed" ? windowFor([...model.targets, ...CORNERS], 3) : boxed(SIMPLEX_BOX);
    const n = gridSize(loss, quick, alpha);
    const values = lossField(model, loss, y, scoreField(frame.box, n, n, 3, k, alpha));
    const fill = Plot.contour(values, {
      width: n, height: n, x1: frame.box[0], x2: frame.box[1], y1: frame.box[2], y2: frame.box[3],
      fill: (d) => d, thresholds: [-1e9, ...STEPS], stroke: "currentColor", strokeOpacity: 0.18, strokeWidth: 0.6, className: "bands",
    });
    const marks = [fill, outline(simplex(3), { stroke: "var(--ink)", strokeOpacity: 0.75 })];
    simplex(3).forEach((a, z) => marks.push(Plot.text([a], { x: "0", y: "1", text: [String(z)], dx: 13 * OUT[z][0], dy: -13 * OUT[z][1], fill: classColour(z), fontWeight: 700, stroke: "var(--card)", strokeWidth: 4 })));
    const path = fallingPath(model, loss, y);
    if (path) {
      marks.push(Plot.line(path, { x: "0", y: "1", stroke: "var(--card)", strokeWidth: 6 }), Plot.line(path, { x: "0", y: "1", stroke: "var(--ink)", strokeWidth: 2.5, markerEnd: "arrow" }));
    } else {
      const best = lowest(model, loss, y);
      marks.push(Plot.dot([best], { x: "0", y: "1", symbol: "diamond", r: 7, fill: "var(--label)", stroke: "var(--card)", strokeWidth: 2 }));
    }
    marks.push(Plot.dot([place(p)], { x: "0", y: "1", r: 6, stroke: "var(--card)", strokeWidth: 5 }), Plot.dot([place(p)], { x: "0", y: "1", r: 6, stroke: "var(--ink)", strokeWidth: 2.5 }));
    const plot = put(holder, { width: 340, height: 330, x: [frame.box[0], frame.box[1]], y: [frame.middle[1] - frame.half * 330 / 340, frame.middle[1] + frame.half * 330 / 340], marks, label: `${loss} loss of label ${model.labels[y]} over the simplex` });
    d3.select(plot).selectAll(".bands path").attr("fill", null).style("fill", (_, i) => colour([-LIMIT, ...STEPS][i] + (i ? 0.25 : 0)));
    cutTo(plot, region(k, alpha), holder);
    return plot;
  }

  /** Where a bounded loss is smallest: forward, the classes that make y likeliest; backward, the target itself. */
  function lowest(model, loss, y) {
    if (loss !== "forward") return place(model.targets[y]);
    const top = Math.max(...model.T[y]);
    const best = model.T[y].map((x) => (x >= top - 1e-12 ? 1 : 0));
    return place(best.map((x) => x / t.sum(best)));
  }

  function cutTo(plot, polygon, holder) {
    const bands = d3.select(plot).select(".bands");
    const id = `cut-${holder.id}`;
    const clip = d3.select(plot).append("clipPath").attr("id", id);
    if (polygon) clip.append("polygon").attr("points", polygon.map(holder.toPixels).join(" "));
    else clip.append("rect").attr("width", holder.size[0]).attr("height", holder.size[1]).attr("rx", 8);
    bands.attr("clip-path", `url(#${id})`);
  }

  function absent(holder, text) {
    const old = holder.querySelector("svg.chart");
    if (old) old.remove();
    holder.toPixels = null;
    put(holder, { width: 340, height: 330, x: [0, 1], y: [0, 1], label: text, marks: [Plot.text([[0.5, 0.5]], { text: [text], fill: "var(--muted)" })] });
  }

  function lossCurves(holder, model, loss, y, p) {
    const [k, alpha] = squeezeOf(model, loss);
    const frame = loss === "squeezed" ? windowFor([...model.targets, [1, 0], [0, 1]], 2) : boxed({ half: 0.62, middle: [0.5, 0] });
    const curves = model.labels.map((_, label) => {
      const field = scoreField([frame.box[0], frame.box[1], 0, 0], 240, 1, 2, k, alpha);
      const values = lossField(model, loss, label, field);
      return field.points.map((q, i) => ({ x: q[1], loss: values[i] })).filter((d) => Math.abs(d.loss) < 12);
    });
    const marks = [
      Plot.rect([0], { x1: 0, x2: 1, y1: -LIMIT, y2: LIMIT, fill: "var(--wash)" }),
      Plot.ruleY([0], { stroke: "var(--muted)", strokeOpacity: 0.5 }),
      ...curves.map((c, label) => Plot.line(c, { x: "x", y: "loss", clip: true, stroke: label === y ? "var(--label)" : "var(--muted)", strokeOpacity: label === y ? 1 : 0.45, strokeWidth: label === y ? 3 : 1.5 })),
      Plot.ruleX([p[1]], { stroke: "var(--ink)", strokeDasharray: "3 3" }),
      Plot.axisX({ label: null, ticks: [0, 1], tickFormat: (z) => (loss === "squeezed" ? `${z}` : `class ${z}`), tickSize: 0 }),
      Plot.axisY({ label: null, ticks: 5, tickSize: 0 }),
    ];
    return put(holder, { width: 340, height: 300, margin: 14, marginLeft: 30, marginBottom: 28, x: [frame.box[0], frame.box[1]], y: [-LIMIT, LIMIT], marks, label: `${loss} loss of label ${model.labels[y]} from class 0 to class 1` });
  }

  /** A thumbnail of a loss on a canvas; the style sheet cuts it to a triangle. */
  function thumbnail(canvas, model, loss, y) {
    const [k, alpha] = squeezeOf(model, loss);
    const n = model.K === 3 ? 30 : 60, m = model.K === 3 ? 26 : 1;
    const box = model.K === 3 ? [0, 1, HEIGHT, 0] : [0, 1, 0, 0];
    const field = scoreField(box, n, m, model.K, k, alpha);
    const values = lossField(model, loss, y, field);
    canvas.width = n; canvas.height = m;
    const context = canvas.getContext("2d"), image = context.createImageData(n, m);
    for (let i = 0; i < n * m; i++) {
      const c = shades()[Math.min(255, Math.max(0, Math.round(((values[i] + LIMIT) / (2 * LIMIT)) * 255)))];
      image.data.set([c.r, c.g, c.b, 255], 4 * i);
    }
    context.putImageData(image, 0, 0);
  }

  const tables = {};
  function shades() {
    const key = dark() ? "dark" : "light";
    tables[key] = tables[key] || d3.range(256).map((i) => d3.rgb(ramp[key](i / 255)));
    return tables[key];
  }

  function legend(holder, classes = 3) {
    const scale = Plot.legend({ color: { type: "linear", domain: [-LIMIT, LIMIT], interpolate: dark() ? ramp.dark : ramp.light, ticks: 5, label: null, tickFormat: (x) => String(x).replace("-", "−")}, width: 300, height: 30, marginTop: 2, marginBottom: 18, marginLeft: 6, marginRight: 6, tickSize: 4 });
    const words = document.createElement("p");
    words.textContent = classes === 2 ? "The thick curve is the label chosen, from class 0 to class 1; the shaded band is the simplex, the dashed line p."
      : "Blue is a loss below zero, orange above. The diamond is the lowest point; an arrow shows the way down where there is none. The ring is p.";
    holder.replaceChildren(scale, words);
  }

  root.TProperDraw = { columns, targets, lossPicture, thumbnail, legend, prepare, labelName };
})(window);
