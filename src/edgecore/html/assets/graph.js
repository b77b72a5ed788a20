// Show the graph in the order of execution: a row for each node, under its modules. Arcs at the left lead from a node
// to the nodes that use its result, except to the next row. A module with one node has no row of its own.
const HEIGHT = 22;

function modulesWithSeveral() {
  const counts = new Map();
  for (const { module } of nodes) {
    const path = module ? module.split(".") : [];
    path.forEach((_, depth) => {
      const name = path.slice(0, depth + 1).join(".");
      counts.set(name, (counts.get(name) || 0) + 1);
    });
  }
  return name => counts.get(name) > 1;
}

// Return for each node the operators of the profile that computed it: with its id, else with one of its debug handles.
function operatorsOfNodes() {
  const add = (map, key, value) => map.set(key, [...(map.get(key) || []), value]);
  const byNode = new Map(), byHandle = new Map();
  for (const one of operators) {
    if (one.node) add(byNode, one.node, one.index);
    for (const handle of one.handles) add(byHandle, handle, one.index);
  }
  return nodes.map(node => byNode.get(node.id) || [...new Set(node.handles.flatMap(handle => byHandle.get(handle) || []))]);
}

function graphView(section) {
  const longest = Math.max(...operators.map(one => one.rest ? 0 : one.ns), 1);
  const closed = new Set();
  const drawing = element("div", { class: "graph" });
  const byNode = operatorsOfNodes();

  const several = modulesWithSeveral();

  function draw() {
    const rows = [], placeOf = new Map();
    let before = [];
    nodes.forEach((node, index) => {
      const path = node.module ? node.module.split(".") : [];
      const modules = path.map((_, depth) => path.slice(0, depth + 1).join(".")).filter(several);
      let shared = 0;
      while (shared < modules.length && modules[shared] === before[shared]) shared++;
      let hidden = modules.slice(0, shared).some(name => closed.has(name));
      for (let depth = shared; depth < modules.length && !hidden; depth++) {
        const outer = depth ? modules[depth - 1].length + 1 : 0;
        rows.push({ group: modules[depth], name: modules[depth].slice(outer), depth });
        hidden = closed.has(modules[depth]);
      }
      before = modules;
      const outer = modules.length ? modules[modules.length - 1].length + 1 : 0;
      if (!hidden) rows.push({ node, index, depth: modules.length, prefix: (node.module || "").slice(outer) });
      placeOf.set(node.id, rows.length - 1);
    });
    const order = [];  // number of rows so far that stand for nodes; rows of modules between two nodes do not count
    rows.forEach((row, place) => order.push((place ? order[place - 1] : 0) + (row.node || closed.has(row.group) ? 1 : 0)));
    const arcs = [];
    for (const row of rows) {
      if (!row.node) continue;
      const to = placeOf.get(row.node.id);
      for (const id of row.node.inputs) {
        const from = placeOf.get(id);
        if (from === undefined || order[to] - order[from] < 2) continue;
        const reach = Math.min(8 + 3 * Math.sqrt(to - from), 56);
        const [y1, y2] = [(from + 0.5) * HEIGHT, (to + 0.5) * HEIGHT];
        arcs.push(svg("path", { class: "arc", "data-members": byNode[row.index].join(" "), d: `M60 ${y1} C${60 - reach} ${y1} ${60 - reach} ${y2} 60 ${y2}` }));
      }
    }
    const lines = rows.map(row => {
      const indent = { "padding-left": 64 + 14 * row.depth + "px" };
      if (!row.node) {
        return element("div", { class: "row group", style: indent, "aria-expanded": !closed.has(row.group), role: "button",
          ...pressed(() => { if (!closed.delete(row.group)) closed.add(row.group); draw(); }) }, (closed.has(row.group) ? "▸ " : "▾ ") + row.name);
      }
      const members = byNode[row.index];
      const ns = members.reduce((sum, index) => sum + operators[index].ns, 0);
      return element("div", { class: "row", style: indent, role: "button", "data-members": members.join(" "), ...pressed(() => select(members)) },
        element("span", { class: "chip", style: { background: ns ? `hsl(var(--heat) / ${0.15 + 0.85 * Math.min(ns / longest, 1)})` : "var(--line)" } }),
        row.prefix ? element("span", { class: "figures" }, row.prefix) : null, element("span", {}, row.node.operator), element("span", { class: "figures" }, [row.node.backend, row.node.shape, ns ? time(ns) : ""].filter(Boolean).join("  ")));
    });
    const lanes = svg("svg", { width: 64, height: rows.length * HEIGHT, style: { position: "absolute", left: 0, top: 0, width: "64px" } }, ...arcs);
    drawing.replaceChildren(lanes, ...lines);
    mark(section);
  }
  section.append(element("p", { class: "note" }, "Nodes in the order of execution, under their modules; a darker square has more of the time. Operators that a backend computes at once share their time."),
    element("div", { class: "wide" }, drawing));
  draw();
}
