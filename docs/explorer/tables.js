/* The tables and sentences: T as inputs, verdicts, every weak label, and the numbers at p. */
(function (root) {
  "use strict";

  const { show, wordsFor } = root.TProperModel;
  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const className = (z) => make("span", { class: `class-${z}` }, make("span", { class: "dot", "aria-hidden": "true" }), `class ${z}`);

  /** T as inputs. The same inputs stay as long as the shape does, so that typing is not interrupted. */
  function matrix(table, model, change) {
    const shape = [model.M, model.K, ...model.labels].join("|");
    if (table.dataset.shape !== shape) {
      table.dataset.shape = shape;
      const head = make("tr", {}, make("td"), ...model.classes.map((_, z) => make("th", { scope: "col" }, className(z))));
      const body = model.labels.map((label, y) => make("tr", {}, make("th", { scope: "row" }, label), ...model.classes.map((_, z) => {
        const input = make("input", { type: "number", min: 0, max: 1, step: 0.01, inputmode: "decimal", "aria-label": `P(label ${label} given class ${z})`, "data-y": y, "data-z": z });
        input.addEventListener("input", () => change(y, z, input));
        return make("td", {}, input);
      })));
      table.replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
    }
    for (const input of table.querySelectorAll("input")) {
      const value = model.T[input.dataset.y][input.dataset.z];
      input.style.setProperty("--cell", `color-mix(in srgb, var(--class-${input.dataset.z}) ${Math.round(38 * value)}%, var(--bg))`);
      if (document.activeElement !== input || !input.dataset.typing) {
        input.value = String(Number(value.toFixed(3)));
        input.removeAttribute("aria-invalid");
      }
    }
  }

  /** Four facts, each with its verdict. */
  function facts(list, model) {
    const d = model.diagnosis, out = model.targets ? model.floors.backward.filter((f) => f === -Infinity).length : null;
    const squeezed = model.targets && Math.min(...model.floors.squeezed);
    const rows = [
      ["Condition number of T", show(d.condition), d.condition < 20 ? "good" : "bad"],
      ["Classes told apart", d.reconstructible ? `all ${model.K}` : `not ${wordsFor(d.confused)}`, d.reconstructible ? "good" : "bad"],
      ["Backward loss", out === null ? "no R" : out ? `no lower bound for ${out} of ${model.M} labels` : "bounded from below", out === 0 ? "good" : "bad"],
      ["Squeezed (gLS)", out === null ? "no R" : squeezed === -Infinity ? "no lower bound: k is too small" : `bound ${show(squeezed)}`, out !== null && squeezed > -Infinity ? "good" : "bad"],
    ];
    list.replaceChildren(...rows.map(([name, value, verdict]) => make("div", { class: verdict }, make("dt", {}, name), make("dd", {}, value))));
  }

  function vector(r) {
    const parts = r.map((x) => make("span", x < -1e-12 ? { class: "negative" } : {}, show(x)));
    return make("span", {}, "(", ...parts.flatMap((p, i) => (i ? [", ", p] : [p])), ")");
  }

  const floorWords = (floor, ray) => (floor > -Infinity ? show(floor) : ray ? `none, falls ${show(-ray.slope)} a unit` : "none");

  /** One row per weak label: its target, thumbnails of its losses, their floors. */
  function overview(table, model, selected, thumbnail, select) {
    const head = ["Weak label", "Target R eᵧ", "Forward bound", "Backward bound", "gLS bound", "k*"];
    const rows = model.labels.map((label, y) => {
      const cell = (loss) => {
        if (loss !== "forward" && !model.R) return make("td", {}, "–");
        const canvas = make("canvas", { "aria-hidden": "true" });
        thumbnail(canvas, model, loss, y);
        const ray = model.rays[loss] && model.rays[loss][y];
        const floor = model.floors[loss][y];
        const words = make("span", floor > -Infinity ? {} : { class: "bad-text" }, floorWords(floor, ray));
        return make("td", {}, make("span", { class: model.K === 2 ? "thumb strip" : "thumb" }, canvas, words));
      };
      const row = make("tr", y === selected ? { "aria-current": "true" } : {}, make("th", { scope: "row" }, label),
        make("td", {}, model.R ? vector(model.targets[y]) : "–"), cell("forward"), cell("backward"), cell("squeezed"),
        make("td", {}, model.R ? show(model.criticalK[y]) : "–"));
      row.addEventListener("click", () => select(y));
      return row;
    });
    table.replaceChildren(make("thead", {}, make("tr", {}, ...head.map((h) => make("th", { scope: "col" }, h)))), make("tbody", {}, ...rows));
  }

  /** What p gives: weak labels and losses, then scores and how softmax and the link read them. */
  function point(table, model, p, at) {
    const cells = (name, values, digits) => make("tr", {}, make("th", { scope: "row" }, name), ...values.map((x) => make("td", {}, show(x, digits))));
    const wide = Math.max(model.M, model.K);
    const pad = (row) => { while (row.children.length <= wide) row.append(make("td")); return row; };
    const heads = (name, of) => pad(make("tr", {}, make("th", { scope: "col" }, name), ...of.map((x) => make("th", { scope: "col" }, x))));
    const rows = [
      pad(cells("probability, T p", at.weak)),
      pad(cells("forward loss", at.forward)),
      ...(at.backward ? [pad(cells("backward loss", at.backward))] : []),
      ...(at.squeezed ? [pad(cells("gLS loss", at.squeezed))] : []),
    ];
    const classes = [
      pad(cells("p", p)),
      ...(at.scores ? [pad(cells("scores v that gLS needs for p", at.scores)), pad(cells("softmax of these scores", at.softmax)), pad(cells("link of these scores", at.link))] : []),
    ];
    table.replaceChildren(
      make("thead", {}, heads("weak label", model.labels)), make("tbody", {}, ...rows),
      make("thead", {}, heads("class", model.classes.map((z) => `class ${z}`))), make("tbody", {}, ...classes));
  }

  root.TProperTables = { make, matrix, facts, overview, point, floorWords };
})(window);
