// Draw the network from top to bottom: a box for each operator, or for the operators of a module that one partition
// computes, in the colour of its backend. dagre places the boxes and the lines between them.
const SEEN = 60;  // largest number of boxes at first; a larger network begins with its modules closed
const FEW = 12;  // if the chosen level has fewer boxes than this, the next level is chosen even with more than SEEN
const MOST = 600;  // largest number of boxes that a choice may draw: dagre takes seconds for more
const [LETTER, LINE] = [7.3, 17];  // size of a letter and height of a line in boxes, in pixels

// Return for each node the indexes of its operators: those with the node's id, or else with one of its debug handles.
function operatorsOfNodes() {
  const add = (map, key, value) => map.set(key, [...(map.get(key) || []), value]);
  const byNode = new Map(), byHandle = new Map();
  for (const one of operators) {
    if (one.node) add(byNode, one.node, one.index);
    for (const handle of one.handles || []) add(byHandle, handle, one.index);
  }
  return nodes.map(node => byNode.get(node.id) || [...new Set((node.handles || []).flatMap(handle => byHandle.get(handle) || []))]);
}

const pathOf = node => node.module ? node.module.split(".") : [];
const placeOf = node => [node.backend, node.partition].join("\n");

// Number the runs of consecutive nodes in one partition, for each node; if there are too many, number SEEN equal parts.
function runsOfNodes() {
  let run = 0;
  const runs = nodes.map((node, index) => index && placeOf(node) !== placeOf(nodes[index - 1]) ? ++run : run);
  return run < SEEN ? runs : nodes.map((_, index) => Math.floor(index * SEEN / nodes.length));
}

// Return the boxes at a level of detail: 0 for partitions, n for modules with n names, Infinity for operators.
// `opened` has keys of boxes that are shown one level deeper.
function boxesAt(level, opened, runs, membersOf) {
  const boxes = new Map(), boxOf = new Map();
  nodes.forEach((node, index) => {
    const path = pathOf(node);
    let depth = level, key;
    do {
      key = depth === 0 ? `run ${runs[index]}` : path.length >= depth ? [path.slice(0, depth).join("."), placeOf(node)].join("\n") : node.id;
      depth += 1;
    } while (key !== node.id && opened.has(key));
    if (!boxes.has(key)) boxes.set(key, { key, name: path.slice(0, depth - 1).join("."), nodes: [], members: [], backends: new Set(), sources: new Set() });
    const box = boxes.get(key);
    box.nodes.push(node);
    box.members.push(...membersOf[index]);
    if (node.backend) box.backends.add(node.backend);
    boxOf.set(node.id, box);
  });
  for (const node of nodes) {
    const box = boxOf.get(node.id);
    for (const id of node.inputs) if (boxOf.has(id) && boxOf.get(id) !== box) box.sources.add(boxOf.get(id).key);
  }
  return [...boxes.values()];
}

// Return the lines of text in a box, and what a tooltip says.
function wordsOf(box) {
  const [first] = box.nodes, where = [...box.backends].join(", ");
  const ns = box.members.reduce((sum, index) => sum + (operators[index].ns || 0), 0);
  const spent = isTimed && ns ? time(ns) : "";
  const cut = text => text.length > 34 ? "…" + text.slice(-33) : text;
  if (box.nodes.length === 1) {
    const lines = [first.operator, first.module || "", isTimed ? spent : first.shape];
    return { lines: lines.filter(Boolean).map(cut), text: [first.operator, first.module, first.line, where, partitionOf(first), first.shape, spent].filter(Boolean).join(", "), ns };
  }
  const count = `${box.nodes.length} operators`;
  return { lines: [box.name || where || "several backends", [count, spent].filter(Boolean).join(", ")].map(cut), text: [box.name, count, where, partitionOf(first), spent].filter(Boolean).join(", "), ns };
}

const partitionOf = node => node.partition === undefined || node.partition === null ? "" : `partition ${node.partition}`;

function networkView(section) {
  const membersOf = operatorsOfNodes(), runs = runsOfNodes(), opened = new Set();
  const deepest = Math.max(...nodes.map(node => pathOf(node).length));
  const count = level => boxesAt(level, opened, runs, membersOf).length;
  const levels = [[0, "partitions"]];
  for (let level = 1; level <= deepest; level++) levels.push([level, level === 1 ? "outer modules" : `modules, ${level} names deep`]);
  levels.push([Infinity, "operators"]);
  const choices = levels.filter(([level]) => level === 0 || count(level) <= MOST);
  const clear = Math.max(...choices.map((_, place) => place).filter(place => !place || count(choices[place][0]) <= SEEN));
  const few = clear + 1 < choices.length && count(choices[clear][0]) < FEW;
  let level = choices[few ? clear + 1 : clear][0], zoom = 0;

  const detail = element("select", { "aria-label": "Show", onchange: () => { level = choices[detail.selectedIndex][0]; opened.clear(); draw(); } },
    ...choices.map(([one, name]) => element("option", { selected: one === level }, name)));
  const colours = element("select", { "aria-label": "Colour", onchange: () => draw() }, element("option", { value: "backend" }, "coloured by backend"), element("option", { value: "time" }, "coloured by time"));
  const filter = element("input", { type: "search", placeholder: "find", "aria-label": "Find in the network", oninput: () => find() });
  const note = element("span", { class: "note", role: "status" });
  const drawing = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "the network" });
  const button = (text, name, act) => element("button", { type: "button", "aria-label": name, onclick: act }, text);
  let shapes = [], width = 1;

  function resize(next) {
    zoom = Math.min(Math.max(next, 0.1), 3);
    drawing.firstChild.style.setProperty("width", zoom * width + "px");
  }

  function find() {
    const matches = matcher(filter.value), isAsked = filter.value.trim() !== "";
    let found = 0;
    for (const { shape, text } of shapes) {
      const hit = isAsked && matches(text);
      shape.classList.toggle("found", hit);
      found += hit ? 1 : 0;
    }
    note.textContent = isAsked ? `${found} of ${shapes.length} boxes` : "";
  }

  function open(key, wide) {
    if (wide && !opened.has(key)) opened.add(key);
    else if (!wide && opened.size) opened.clear();
    else return;
    draw();
  }

  function draw() {
    const boxes = boxesAt(level, opened, runs, membersOf);
    const graph = new dagre.graphlib.Graph();
    graph.setGraph({ nodesep: 14, ranksep: 26, marginx: 8, marginy: 8 });
    const words = new Map(boxes.map(box => [box.key, wordsOf(box)]));
    for (const box of boxes) {
      const { lines } = words.get(box.key);
      graph.setNode(box.key, { width: Math.max(...lines.map(line => line.length)) * LETTER + 26, height: lines.length * LINE + 10 });
      for (const source of box.sources) graph.setEdge(source, box.key, {});
    }
    dagre.layout(graph);
    const longest = Math.max(...boxes.map(box => words.get(box.key).ns), 1);
    const lines = graph.edges().map(edge => {
      const points = graph.edge(edge).points;
      const inner = points.slice(1, -1).map(({ x, y }, index) => `Q${x} ${y} ${(x + points[index + 2].x) / 2} ${(y + points[index + 2].y) / 2}`);
      const end = points[points.length - 1];
      return svg("path", { class: "arc", "marker-end": "url(#arrow)", d: `M${points[0].x} ${points[0].y} ${inner.join(" ")} L${end.x} ${end.y}` });
    });
    shapes = boxes.map(box => {
      const { x, y, width, height } = graph.node(box.key), { lines, text, ns } = words.get(box.key);
      const colour = colours.value === "time" ? `hsl(var(--heat) / ${ns ? 0.15 + 0.85 * ns / longest : 0})` : box.backends.size === 1 ? colourOf([...box.backends][0]) : box.backends.size ? "var(--edge)" : "transparent";
      const several = box.nodes.length > 1;
      const shape = svg("g", { class: "node", transform: `translate(${x - width / 2} ${y - height / 2})`, role: "button", "aria-label": text, "data-members": box.members.join(" "),
        ...pressed(() => box.members.length && select([...new Set(box.members)])), ondblclick: () => several && open(box.key, true) },
        svg("title", {}, text), svg("rect", { width, height, rx: 4, style: { fill: colour } }),
        svg("rect", { class: "paper", x: 8, width: width - 8, height, rx: 3 }),
        ...lines.map((line, index) => svg("text", { x: 16, y: LINE * (index + 1) - 1, class: index ? "soft" : null }, line)));
      shape.addEventListener("keydown", event => { if (several && event.key === "o") open(box.key, true); if (event.key === "c") open(box.key, false); });
      return { shape, text };
    });
    width = graph.graph().width;
    drawing.replaceChildren(svg("svg", { class: "network", viewBox: `0 0 ${width} ${graph.graph().height}` },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { d: "M0 0L8 4L0 8z", class: "tip" }))),
      ...lines, ...shapes.map(one => one.shape)));
    resize(zoom || Math.min(1, Math.max((section.clientWidth - 20) / width, 0.7)));
    drawing.scrollLeft = (drawing.scrollWidth - drawing.clientWidth) / 2;
    find();
    mark(section);
  }
  section.append(element("div", { class: "bar" }, detail, isTimed ? colours : null, filter, button("+", "larger", () => resize(zoom * 1.25)), button("−", "smaller", () => resize(zoom / 1.25)), note), legend(),
    element("p", { class: "note" }, "A click or Enter selects. A double click or the key o opens a box of several operators, c closes all."), drawing);
  draw();
}
