/* Handles that can be dragged, and moved with the arrow keys: they stay in the page while pictures are redrawn. */
(function (root) {
  "use strict";

  const SVG = "http://www.w3.org/2000/svg";
  const { place, unplace } = root.TProperModel;
  const make = (name, attributes, parent) => {
    const node = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    parent.append(node);
    return node;
  };

  /** The layer of a picture that holds its handles. */
  function layer(holder) {
    if (!holder.layer) holder.layer = make("svg", { class: "overlay" }, holder);
    return holder.layer;
  }

  /** One handle: `look` draws it, `move(u)` is told the vector (summing to one) it was moved to. */
  function handle(holder, { name, look, move }) {
    const node = make("g", { class: "handle", tabindex: "0", role: "slider", "aria-label": name, "aria-roledescription": "movable point", "aria-valuemin": "0", "aria-valuemax": "1" }, layer(holder));
    make("circle", { class: "hit", r: 22 }, node);
    make("circle", { class: "ring", r: 14 }, node);
    look(node, make);
    const under = (event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(holder.layer.getScreenCTM().inverse());
    node.addEventListener("pointerdown", (event) => {
      node.setPointerCapture(event.pointerId);
      node.focus({ preventScroll: true });
      const at = under(event), own = holder.toPixels(place(node.vector));
      node.held = [at.x - own[0], at.y - own[1]]; // where on the handle it was taken
      event.preventDefault();
    });
    node.addEventListener("pointermove", (event) => {
      if (!node.held) return;
      const at = under(event);
      move(unplace(holder.toData([at.x - node.held[0], at.y - node.held[1]]), node.vector.length), event);
    });
    for (const kind of ["pointerup", "pointercancel"]) node.addEventListener(kind, () => { node.held = null; });
    node.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (!way) return;
      event.preventDefault();
      const step = event.shiftKey ? 0.05 : 0.01;
      const [x, y] = place(node.vector);
      const along = node.vector.length === 2 ? way[0] + way[1] : way[0];
      move(unplace([x + step * along, y + step * way[1]], node.vector.length), event);
    });
    return node;
  }

  /** Put a handle where its vector is (`lift` pixels above, where another one is there already), and say so. */
  function settle(node, holder, vector, words, lift = 0) {
    node.vector = vector;
    holder.layer.setAttribute("viewBox", `0 0 ${holder.size[0]} ${holder.size[1]}`);
    const [x, y] = holder.toPixels(place(vector));
    node.setAttribute("transform", `translate(${x},${y - lift})`);
    node.setAttribute("aria-valuenow", Math.max(...vector).toFixed(3));
    node.setAttribute("aria-valuetext", words);
  }

  root.TProperHandles = { handle, settle };
})(window);
