/* State in, pictures out. The address after # holds the state, so that a view can be linked to. */
(function (root) {
  "use strict";

  const { FAMILIES, pythonLines, rounded, tidy } = root.TProperFamilies;
  const { ALPHAS, compute, atPoint, sentence, show } = root.TProperModel;
  const draw = root.TProperDraw, tables = root.TProperTables, { handle, settle } = root.TProperHandles;
  const t = root.TProper;
  const $ = (id) => document.getElementById(id);

  const state = { family: "symmetric", parameter: 0.3, own: [[0.8, 0.1, 0.2], [0.15, 0.7, 0.2], [0.05, 0.2, 0.6]], k: 1, alpha: 2, label: 0, p: [0.6, 0.3, 0.1] };
  const timings = []; // milliseconds from an event to the painted redraw
  let model = null, waiting = null, refine = null, columnHandles = [], pointHandle = null;

  // ---- state ------------------------------------------------------------------------------------------------------

  function read() {
    const query = new URLSearchParams(location.hash.slice(1));
    if (FAMILIES[query.get("family")]) setFamily(query.get("family"));
    for (const name of ["parameter", "k", "alpha", "label"]) if (Number.isFinite(parseFloat(query.get(name)))) state[name] = parseFloat(query.get(name));
    const own = query.get("T") && query.get("T").split(";").map((row) => row.split(",").map(Number));
    try { if (own) { t.check(own); state.own = own; } } catch (error) { $("live").textContent = error.message; }
    const range = FAMILIES[state.family].parameter;
    if (range) state.parameter = Math.min(Math.max(state.parameter, range.min), range.max);
    state.alpha = ALPHAS.reduce((best, a) => (Math.abs(a - state.alpha) < Math.abs(best - state.alpha) ? a : best));
    state.k = Math.min(Math.max(state.k, 0.03), 10);
    if (query.get("theme")) document.documentElement.dataset.theme = query.get("theme");
  }

  function write() {
    const query = new URLSearchParams({ family: state.family, k: state.k, alpha: state.alpha, label: state.label });
    if (state.family === "own") query.set("T", state.own.map((row) => row.join(",")).join(";"));
    else query.set("parameter", state.parameter);
    history.replaceState(null, "", `#${query}`);
  }

  function setFamily(family) {
    if (family === "own" && model && state.family !== "own") {
      const columns = model.T[0].map((_, z) => rounded(t.column(model.T, z)));
      state.own = model.T.map((_, y) => columns.map((c) => c[y]));
    }
    state.family = family;
    if (FAMILIES[family].parameter) state.parameter = FAMILIES[family].parameter.start;
  }

  /** Put one column of T; the family becomes "own". */
  function setColumn(z, column) {
    setFamily("own");
    const fine = rounded(t.projectSimplex(column));
    state.own = state.own.map((row, y) => row.map((x, c) => (c === z ? fine[y] : x)));
  }

  function typed(y, z, input) {
    const x = input.value === "" ? NaN : Number(input.value);
    input.dataset.typing = "yes";
    if (!(x >= 0 && x <= 1)) { input.setAttribute("aria-invalid", "true"); return; }
    input.removeAttribute("aria-invalid");
    const column = t.column(model.T, z), rest = t.sum(column) - column[y];
    setColumn(z, column.map((c, i) => (i === y ? x : rest > 1e-9 ? (c * (1 - x)) / rest : (1 - x) / (column.length - 1))));
    schedule();
  }

  // ---- drawing ----------------------------------------------------------------------------------------------------

  function schedule(event) {
    const began = event && event.timeStamp ? event.timeStamp : performance.now();
    if (waiting) return;
    waiting = requestAnimationFrame(() => {
      waiting = null;
      redraw(true);
      setTimeout(() => timings.push(performance.now() - began)); // runs when the frame has been painted
      clearTimeout(refine);
      refine = setTimeout(() => { redraw(false); write(); refine = null; draw.prepare(model, busy); }, 180);
    });
  }

  const busy = () => Boolean(waiting || refine); // something moves, or has just moved

  function redraw(quick) {
    model = compute(state);
    if (state.p.length !== model.K) state.p = model.K === 2 ? [0.6, 0.4] : [0.6, 0.3, 0.1];
    state.label = Math.min(Math.max(0, Math.round(state.label)), model.M - 1);
    const due = quick ? inView : () => true; // what is out of sight can wait until the hand rests
    const shown = ["columns-picture", "targets-picture", "forward-picture", "backward-picture", "squeezed-picture", "overview", "point"].filter(due);
    controls();
    pictures(quick, shown);
    words();
    if (shown.includes("overview")) tables.overview($("overview"), model, state.label, draw.thumbnail, (y) => { state.label = y; schedule(); });
    if (shown.includes("point")) tables.point($("point"), model, state.p, atPoint(model, state.p));
    $("python").textContent = pythonLines(model, state, Boolean(model.R));
  }

  function inView(id) {
    const box = $(id).getBoundingClientRect();
    return box.bottom > 0 && box.top < innerHeight;
  }

  function pictures(quick, shown) {
    if (!quick) draw.legend($("legend"), model.K);
    draw.columns($("columns-picture"), model);
    draw.targets($("targets-picture"), model, state.p, state.label);
    for (const loss of ["forward", "backward", "squeezed"].filter((name) => shown.includes(`${name}-picture`))) draw.lossPicture($(`${loss}-picture`), model, loss, state.label, state.p, quick);
    placeHandles();
  }

  function placeHandles() {
    const holder = $("columns-picture"), wanted = model.M > 3 ? 0 : model.K;
    while (columnHandles.length > wanted) columnHandles.pop().remove();
    while (columnHandles.length < wanted) {
      const z = columnHandles.length;
      columnHandles.push(handle(holder, {
        name: `Column of class ${z}`,
        look: (node, make) => {
          make("circle", { r: 10, fill: `var(--class-${z})`, stroke: "var(--card)", "stroke-width": 2.5 }, node);
          const text = make("text", { "text-anchor": "middle", dy: "0.36em", fill: "var(--card)", "font-size": 12, "font-weight": 700 }, node);
          text.textContent = z;
        },
        move: (column, event) => { setColumn(z, column); schedule(event); },
      }));
    }
    columnHandles.forEach((node, z) => {
      const column = t.column(model.T, z);
      const same = columnHandles.slice(0, z).filter((other) => Math.max(...other.vector.map((x, y) => Math.abs(x - column[y]))) < 0.02).length;
      settle(node, holder, column, column.map((x, y) => `${draw.labelName(model.labels[y])} ${Math.round(100 * x)}%`).join(", "), 22 * same);
    });
    pointHandle = pointHandle || handle($("targets-picture"), {
      name: "Prediction p",
      look: (node, make) => {
        make("circle", { r: 8, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 3 }, node);
      },
      move: (p, event) => { state.p = t.normalised(t.projectSimplex(p).map((x) => Math.max(x, 0.002))); schedule(event); },
    });
    settle(pointHandle, $("targets-picture"), state.p, state.p.map((x, z) => `class ${z} ${Math.round(100 * x)}%`).join(", "));
  }

  function controls() {
    const f = FAMILIES[state.family];
    $("family").value = state.family;
    $("about").textContent = f.about;
    $("parameter-row").hidden = !f.parameter;
    if (f.parameter) {
      const { min, max, step, name, say } = f.parameter;
      Object.assign($("parameter"), { min, max, step });
      $("parameter").value = state.parameter;
      $("parameter").setAttribute("aria-valuetext", `${name} ${state.parameter}: ${say(state.parameter)}`);
      $("parameter-name").textContent = name;
      $("parameter-value").textContent = state.parameter;
      const words = say(state.parameter);
      $("parameter-words").textContent = `${words[0].toUpperCase()}${words.slice(1)}.`;
    }
    tables.matrix($("matrix"), model, typed);
    $("add-label").disabled = model.M >= 7 || model.K !== 3;
    $("remove-label").disabled = model.M <= 2 || model.K !== 3;
    $("k").value = Math.log10(state.k);
    $("k").setAttribute("aria-valuetext", String(state.k));
    $("k-value").textContent = state.k;
    $("alpha").value = ALPHAS.indexOf(state.alpha);
    $("alpha").setAttribute("aria-valuetext", String(state.alpha));
    $("alpha-value").textContent = state.alpha;
    $("squeeze-hint").textContent = state.alpha > 1
      ? "For every α > 1 and k > 0 the squeezed loss is proper and bounded from below, whatever T (Corollary 15)."
      : `At α = 1 there is a lower bound only from a critical k on${model.R ? `: here ${show(Math.max(...model.criticalK))}` : ""}; from k = 1 on, v = 0 is best for every p.`;
  }

  function words() {
    const f = FAMILIES[state.family], d = model.diagnosis, y = state.label;
    const name = f.parameter && state.family !== "coarse" ? `${f.name}, ${f.parameter.name} = ${state.parameter}` : f.name;
    if ($("live").textContent !== sentence(model, name)) $("live").textContent = sentence(model, name);
    tables.facts($("facts"), model);
    $("columns-text").textContent = model.M > 3
      ? "Each column is the distribution of weak labels given one class. More than three labels do not fit a triangle; type into the table to change them."
      : "Each disc is a column of T: the mix of weak labels that one class gives. Drag it. All that labels can say of a prediction lies in the shape the discs span; where it is flat, classes cannot be told apart (Assumption (b)).";
    $("targets-text").textContent = model.R
      ? "R with R T = I carries each label back to a target (diamonds). Targets average to the true class, so unless labels determine the class some must leave the simplex. The ring is a prediction p."
      : d.rank === 2 && model.K === 3 ? "T has no left inverse. Along the line through p no weak label changes its probability: drag p to see which predictions look the same."
        : "T has no left inverse: all columns are equal, and labels say nothing of the class.";
    const floor = (loss, where) => {
      const value = model.floors[loss] ? model.floors[loss][y] : null;
      if (value === null) return "Needs a left inverse R of T.";
      if (value === -Infinity) return `No lower bound: along scores (${model.rays[loss][y].direction.map((x) => show(x)).join(", ")}) it falls by ${show(-model.rays[loss][y].slope)} a unit.`;
      return `Lower bound ${show(value)}, ${where}.`;
    };
    $("forward-floor").textContent = floor("forward", "at the class that makes the label likeliest");
    $("backward-floor").textContent = floor("backward", "at the target, which is a probability vector");
    $("squeezed-floor").textContent = floor("squeezed", "at the target itself");
    radios();
  }

  function radios() {
    const group = $("labels"), shape = model.labels.join("|");
    if (group.dataset.shape !== shape) {
      group.dataset.shape = shape;
      group.replaceChildren(...model.labels.map((label, y) => {
        const input = tables.make("input", { type: "radio", name: "label", value: y });
        input.addEventListener("change", () => { state.label = y; schedule(); });
        return tables.make("label", {}, input, tables.make("span", {}, draw.labelName(label)));
      }));
    }
    group.querySelectorAll("input")[state.label].checked = true;
  }

  // ---- events -----------------------------------------------------------------------------------------------------

  function resizeLabels(add) {
    setFamily("own");
    const columns = state.own[0].map((_, z) => t.column(state.own, z));
    const changed = columns.map((c) => {
      if (add) return [...c.map((x) => 0.8 * x), 0.2];
      const kept = c.slice(0, -1), total = t.sum(kept);
      return kept.map((x) => (total > 0 ? x / total : 1 / kept.length));
    }).map(rounded);
    state.own = changed[0].map((_, y) => changed.map((c) => c[y]));
    schedule();
  }

  function theme(name) {
    document.documentElement.dataset.theme = name;
    $("theme").textContent = name === "dark" ? "Light" : "Dark";
    $("theme").setAttribute("aria-pressed", String(name === "dark"));
    if (model) redraw(false);
  }

  async function copy() {
    const text = $("python").textContent;
    try { await navigator.clipboard.writeText(text); } catch {
      const range = document.createRange();
      range.selectNodeContents($("python"));
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand("copy");
    }
    $("copy").textContent = "Copied";
    setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
  }

  function start() {
    for (const [key, f] of Object.entries(FAMILIES)) $("family").append(tables.make("option", { value: key }, f.name));
    read();
    $("family").addEventListener("change", () => { setFamily($("family").value); schedule(); });
    $("parameter").addEventListener("input", (event) => { state.parameter = Number($("parameter").value); schedule(event); });
    $("k").addEventListener("input", (event) => { state.k = Number((10 ** Number($("k").value)).toPrecision(2)); schedule(event); });
    $("alpha").addEventListener("input", (event) => { state.alpha = ALPHAS[Number($("alpha").value)]; schedule(event); });
    $("add-label").addEventListener("click", () => resizeLabels(true));
    $("remove-label").addEventListener("click", () => resizeLabels(false));
    $("matrix").addEventListener("focusout", (event) => { delete event.target.dataset.typing; if (model) tables.matrix($("matrix"), model, typed); });
    $("copy").addEventListener("click", copy);
    $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", () => theme(system.matches ? "dark" : "light"));
    theme(document.documentElement.dataset.theme || (system.matches ? "dark" : "light"));
    redraw(false);
    setTimeout(() => draw.prepare(model, busy), 50);
    root.addEventListener("hashchange", () => { read(); redraw(false); draw.prepare(model, busy); });
  }

  start();
  root.explorer = { state, timings, redraw, model: () => model, tidy };
})(window);
