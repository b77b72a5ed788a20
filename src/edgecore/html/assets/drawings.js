const ROW = 20;  // height of a box in drawings, in pixels

// Draw a flame graph: a box for each module, as wide as its time, below its parent. A double click widens a module.
function flameView(section) {
  const root = moduleTree();
  const path = element("div", { class: "bar" });
  const drawing = element("div");
  let shown = [root];

  function draw() {
    const top = shown[shown.length - 1], width = 1000, boxes = [];
    let depth = 0;
    (function place(node, x, level) {
      const wide = node.ns / (top.ns || 1) * width;
      if (wide < 0.5) return;
      depth = Math.max(depth, level + 1);
      const colour = node.leaf ? node.leaf.rest ? "var(--line)" : colourOf(node.leaf.backend) : `hsl(210 20% ${node === top ? 80 : 70}% / .55)`;
      const tooltip = `${node.name}: ${time(node.ns)}, ${percent(node.ns / total)} of the run`;
      const open = { ondblclick: () => { if (node !== top && !node.leaf) { shown = [...shown, node]; draw(); } } };
      boxes.push(...box(x, level * ROW, wide, ROW - 1, colour, node.name, tooltip, node.members, open));
      let from = x;
      for (const child of node.children.values()) {
        place(child, from, level + 1);
        from += child.ns / (top.ns || 1) * width;
      }
    })(top, 0, 0);
    path.replaceChildren(...shown.map((node, index) => element("button",
      { type: "button", onclick: () => { shown = shown.slice(0, index + 1); draw(); } }, node.name)),
      element("span", { class: "note" }, "click: select; double click: open a module"));
    drawing.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${depth * ROW}` }, ...boxes));
    mark(section);
  }
  section.append(path, legend(), drawing);
  draw();
}

// Draw the events of one run from left to right. Nested events lie below the event around them, threads below all.
function timelineView(section) {
  const end = Math.max(...report.timeline.map(([, start, length]) => start + length), 1);
  const levels = Math.max(...report.timeline.map(event => event[3])) + 1;
  const drawing = element("div", { class: "wide" });
  let zoom = 1;

  function draw() {
    const width = 1000 * zoom;
    const boxes = report.timeline.flatMap(([index, start, length, level, text]) => {
      const one = index < 0 ? null : operators[index];
      const name = text || (one ? one.operator || one.name : "");
      const colour = one && !one.rest ? colourOf(one.backend) : "var(--line)";
      return box(start / end * width, (level + 1) * ROW, length / end * width, ROW - 1, colour, name,
        `${name}: ${time(length)}, from ${time(start)}`, one ? [index] : []);
    });
    const ticks = axis(width, 5 * zoom, part => time(part * end), ROW, (levels + 1) * ROW);
    drawing.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${(levels + 1) * ROW}`, style: { width: 100 * zoom + "%" } }, ...ticks, ...boxes));
    mark(section);
  }
  const button = (text, factor) => element("button", { type: "button", onclick: () => { zoom = Math.min(Math.max(zoom * factor, 1), 64); draw(); } }, text);
  section.append(element("div", { class: "bar" }, button("+", 2), button("−", 0.5), element("span", { class: "note" }, `the run of median length, ${time(end)}`)),
    legend(), drawing);
  draw();
}

// Return `count` + 1 vertical lines at equal distances, each with the label `text(part)` above; part is from 0 to 1.
function axis(width, count, text, top, bottom) {
  return Array.from({ length: count + 1 }, (_, index) => index / count).flatMap(part => [
    svg("line", { class: "grid", x1: part * width, x2: part * width, y1: top - 4, y2: bottom }),
    svg("text", { class: "axis", x: part * width, y: top - 6, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, text(part)),
  ]);
}

// Draw each arena with its tensors as boxes: instructions from left to right, addresses from bottom to top.
function memoryView(section) {
  const [width, height] = [1000, 300];
  for (const arena of report.memory) {
    const boxes = arena.tensors.flatMap(([name, module, line, offset, size, first, last]) => {
      const members = operators.filter(one => isCompared ? module && one.module === module : !one.rest && one.instruction === first).map(one => one.index);
      const tooltip = `${name}${module ? " of " + module : ""}${line ? " at " + line : ""}: ${bytes(size)} at ${offset.toLocaleString("en-US")}, ${arena.unit}s ${first} to ${last}`;
      const high = size / arena.bytes * height;
      return box(first / arena.steps * width, height - (offset + size) / arena.bytes * height, (last - first + 1) / arena.steps * width,
        high, COLOURS[(first * 3 + offset % 5) % (COLOURS.length - 1)], high > 12 ? name : "", tooltip, members);
    });
    const x = (arena.peak + 0.5) / arena.steps * width;
    const last = Math.max(arena.steps - 1, 1), unit = arena.unit;
    const ticks = axis(width, Math.min(5, last), part => `${unit} ${Math.round(part * last)}`, 0, height);
    section.append(element("h2", {}, arena.name), element("p", { class: "note" },
      `${bytes(arena.bytes)}, the height of the drawing; most is needed at ${unit} ${arena.peak} (the dashed line): ${bytes(arena.needed)}, of which`),
      element("ul", {}, ...arena.owners.map(([names, size]) => element("li", {}, `${names}: ${bytes(size)}`))),
      plot({ viewBox: `0 -20 ${width} ${height + 20}` }, svg("rect", { class: "area", width, height }), ...ticks, ...boxes,
        svg("line", { class: "peak", x1: x, x2: x, y2: height })));
  }
}

function legend() {
  return element("div", { class: "legend" }, ...backends.map(name => element("span", { style: { "--colour": colourOf(name) } }, name)));
}
