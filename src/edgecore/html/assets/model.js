// The data of the page, and functions that compute from this data what views show. This file changes no element.
const report = JSON.parse(document.getElementById("report").textContent);
const rowsOf = packed => packed ? packed.rows.map(row => Object.fromEntries(row.map((value, place) => [packed.keys[place], value]))) : [];
const operators = rowsOf(report.operators).map((row, index) => ({ index, ...row }));
const nodes = rowsOf(report.graph);
const isCompared = Boolean(report.compare);
const isTimed = !isCompared && operators.some(row => row.ns !== undefined);
const total = operators.reduce((sum, row) => sum + (row.ns || 0), 0);

const GROUPS = { event: "event", operator: "operator", module: "module", backend: "backend", line: "source line", kernel: "kernel" };
// The colours of Okabe and Ito, one of them lighter so that black text stands out: people with red-green colour blindness
// can tell them apart. edgecore's own kernels are grey.
const COLOURS = ["#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#8fa8ff", "#d55e00", "#999999"];
const KERNELS = ["edgecore", "kernels"];
const backends = [...new Set([...operators.filter(row => !row.rest), ...nodes].map(row => row.backend).filter(Boolean))];
const delegating = backends.filter(name => !KERNELS.includes(name));

function colourOf(backend) {
  const place = delegating.indexOf(backend);
  return COLOURS[place < 0 ? COLOURS.length - 1 : place % (COLOURS.length - 1)];
}

function time(ns) {
  if (ns >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (ns >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
  return (ns / 1e3).toFixed(ns < 1e4 ? 2 : 1) + " µs";
}

const bytes = count => count.toLocaleString("en-US") + " bytes";
const percent = share => (100 * share).toFixed(1) + " %";
const median = values => [...values].sort((a, b) => a - b)[values.length >> 1];

// Return the rows of the table: one for all operators with one label. A row's `members` are indexes of operators.
function grouped(by, filter) {
  const matches = matcher(filter);
  const rows = new Map();
  for (const one of operators) {
    if (!matches([one.name, one.operator, one.module, one.backend, one.line, one.kernel].join("\n"))) continue;
    const label = one.rest ? one.name : by === "event" ? one.name : one[by] || `(no ${GROUPS[by]})`;
    const key = (one.rest ? "r" : "o") + (by === "event" ? one.index : label);
    if (!rows.has(key)) rows.set(key, { label, backends: new Set(), module: one.module, calls: 0, ns: 0, rest: one.rest, members: [] });
    const row = rows.get(key);
    if (one.backend) row.backends.add(one.backend);
    row.calls += one.calls;
    row.ns += one.ns;
    row.members.push(one.index);
  }
  return [...rows.values()].map(row => ({ ...row, backend: [...row.backends].join(", ") }));
}

// Return the modules as a tree whose leaves are operators. A node has the time of all operators below it.
function moduleTree() {
  const root = { name: "a run", ns: 0, members: [], children: new Map() };
  for (const one of operators) {
    const path = one.rest || !one.module ? [] : one.module.split(".");
    let node = root;
    for (const part of [...path, null]) {
      node.ns += one.ns;
      node.members.push(one.index);
      if (part === null) break;
      if (!node.children.has(part)) node.children.set(part, { name: part, ns: 0, members: [], children: new Map() });
      node = node.children.get(part);
    }
    const name = one.rest ? one.name : one.operator || one.name;
    node.children.set("\n" + one.index, { name, ns: one.ns, members: [one.index], children: new Map(), leaf: one });
  }
  return root;
}
