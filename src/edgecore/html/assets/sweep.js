// Build the page of a sweep: a matrix of its cells with filters, a scatter plot with the Pareto front, and regressions.
const data = JSON.parse(document.getElementById("report").textContent);
const cells = data.cells.map(values => Object.fromEntries(data.keys.map((key, index) => [key, values[index]])));
const DIMENSIONS = ["model", "backend", "recipe", "runtime", "threads", "status"];
const FIGURES = {
  median_ms: ["median of a run, ms", 1], cycles: ["estimated cycles", 1], file_bytes: ["file, bytes", 1],
  planned_bytes: ["arenas, bytes", 1], compile_seconds: ["compiling, s", 1], accuracy: ["accuracy", -1],
  sqnr_db: ["SQNR, dB", -1], delegated: ["delegated, 0 to 1", -1],
};
const known = Object.keys(FIGURES).filter(key => cells.some(cell => cell[key] !== null));
const state = { text: "", figure: known[0], x: known[0], y: known.find(key => FIGURES[key][1] < 0) || known[0] };
for (const name of DIMENSIONS) state[name] = "";

const number = value => value === null || value === undefined ? "" : typeof value !== "number" ? String(value)
  : Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(4);
const several = name => new Set(cells.map(cell => cell[name])).size > 1;
const columnKeys = ["backend", "recipe", ...["runtime", "threads"].filter(several)];
const columnOf = cell => columnKeys.map(key => key === "threads" && !cell[key] ? "default" : cell[key]).join(" · ");

const searched = new Map(cells.map(cell => [cell, `${cell.cell} ${cell.reason}`.toLowerCase()]));

function chosen() {
  const text = state.text.toLowerCase();
  return cells.filter(cell => DIMENSIONS.every(name => state[name] === "" || String(cell[name]) === state[name])
    && (!text || searched.get(cell).includes(text)));
}

function show(cell) {
  const aside = document.getElementById("selection");
  const facts = data.keys.filter(key => cell[key] !== null && cell[key] !== "" && key !== "report")
    .flatMap(key => [element("dt", {}, key), element("dd", {}, number(cell[key]))]);
  aside.replaceChildren(
    element("h2", {}, cell.cell), element("dl", {}, ...facts),
    cell.report ? element("p", {}, element("a", { href: cell.report }, "Where each operator runs, and why")) : "",
  );
  aside.hidden = false;
}

// Build the matrix once. A filter only hides rows, columns and cells, and marks the best of the visible cells.
const columns = [...new Set(cells.map(columnOf))], models = [...new Set(cells.map(cell => cell.model))];
const heads = columns.map(name => element("th", { scope: "col" }, name));
const lines = models.map(model => element("tr", {}, element("th", { scope: "row" }, model), ...columns.map(() => element("td"))));
const numberOf = names => new Map(names.map((name, index) => [name, index]));
const columnNumber = numberOf(columns), modelNumber = numberOf(models);
const places = cells.map(cell => {
  const [line, column] = [modelNumber.get(cell.model), columnNumber.get(columnOf(cell))];
  const td = lines[line].children[column + 1];
  fill(td, { tabindex: 0, title: cell.reason || cell.cell }, []);
  return { cell, td, line, column };
});
const cellAt = new Map(places.map(({ cell, td }) => [td, cell]));
const pressedCell = pressed(event => {
  const cell = cellAt.get(event.target.closest("td"));
  if (cell) show(cell);
});
const matrix = element("table", { class: "matrix", onclick: pressedCell.onclick, onkeydown: pressedCell.onkeydown },
  element("thead", {}, element("tr", {}, element("th", {}, "model"), ...heads)), element("tbody", {}, ...lines));

function hide(made, hidden) {
  if (made.hidden !== hidden) made.hidden = hidden;
}

function writeFigures() {
  for (const { cell, td } of places) {
    const hasFigure = cell.status === "ok" || (cell.status === "made" && typeof cell[state.figure] === "number");
    td.textContent = hasFigure ? number(cell[state.figure]) || "–" : cell.status;
  }
}

function filterMatrix(rows) {
  const sign = known.length ? FIGURES[state.figure][1] : 1, left = new Set(rows);
  const best = lines.map(() => Infinity), usedLines = lines.map(() => false), usedColumns = columns.map(() => false);
  for (const { cell, line, column } of places) {
    if (!left.has(cell)) continue;
    usedLines[line] = usedColumns[column] = true;
    if (cell.status === "ok" && typeof cell[state.figure] === "number") {
      best[line] = Math.min(best[line], sign * cell[state.figure]);
    }
  }
  for (const { cell, td, line } of places) {
    const isBest = cell.status === "ok" && sign * cell[state.figure] === best[line];
    const name = !left.has(cell) ? "out" : isBest ? "best" : cell.status;
    if (td.className !== name) td.className = name;
  }
  lines.forEach((line, index) => hide(line, !usedLines[index]));
  heads.forEach((head, index) => {
    if (head.hidden !== usedColumns[index]) return;
    hide(head, !usedColumns[index]);
    for (const line of lines) hide(line.children[index + 1], !usedColumns[index]);
  });
}

// Return the Pareto front: the points that no other point beats in both figures.
function front(points) {
  const found = [];
  for (const point of [...points].sort((a, b) => a.u - b.u || a.v - b.v)) {
    if (!found.length || point.v < found[found.length - 1].v) found.push(point);
  }
  return found;
}

function scatter(rows) {
  const [signX, signY] = [FIGURES[state.x][1], FIGURES[state.y][1]];
  const usable = rows.filter(cell => cell.status === "ok" && cell[state.x] !== null && cell[state.y] !== null);
  const finite = usable.map(cell => cell[state.y]).filter(value => typeof value === "number");
  const top = finite.length ? Math.max(...finite) : 0;
  const value = (cell, key) => typeof cell[key] === "number" ? cell[key] : top;  // an infinite SQNR is drawn at the top
  const points = usable.filter(cell => typeof cell[state.x] === "number")
    .map(cell => ({ cell, x: value(cell, state.x), y: value(cell, state.y) }));
  if (!points.length) return element("p", { class: "note" }, "No cell has both figures.");
  const log = points.every(point => point.x > 0);
  const scaled = x => log ? Math.log10(x) : x;
  for (const point of points) [point.u, point.v] = [signX * point.x, signY * point.y];
  const [xs, ys] = [points.map(point => scaled(point.x)), points.map(point => point.y)];
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const px = point => 70 + 860 * (x1 > x0 ? (scaled(point.x) - x0) / (x1 - x0) : 0.5);
  const py = point => 370 - 330 * (y1 > y0 ? (point.y - y0) / (y1 - y0) : 0.5);
  const best = front(points), isBest = new Set(best);
  const dots = points.map(point => svg("circle", {
    cx: px(point), cy: py(point), r: isBest.has(point) ? 6 : 4, class: isBest.has(point) ? "point front" : "point",
    role: "button", "aria-label": point.cell.cell, ...pressed(() => show(point.cell)),
  }, svg("title", {}, `${point.cell.cell}: ${number(point.x)}, ${number(point.y)}`)));
  const label = (x, y, text, anchor) => svg("text", { x, y, "text-anchor": anchor }, text);
  const end = value => number(log ? 10 ** value : value);
  return plot({ viewBox: "0 0 960 420", role: "group", "aria-label": `${FIGURES[state.y][0]} over ${FIGURES[state.x][0]}` },
    svg("line", { x1: 70, y1: 385, x2: 930, y2: 385, class: "grid" }), svg("line", { x1: 55, y1: 40, x2: 55, y2: 370, class: "grid" }),
    label(70, 402, end(x0), "start"), label(930, 402, end(x1), "end"),
    label(500, 416, FIGURES[state.x][0] + (log ? ", logarithmic" : ""), "middle"),
    label(0, 375, number(y0), "start"), label(0, 45, number(y1), "start"), label(0, 20, FIGURES[state.y][0], "start"),
    svg("polyline", { class: "frontier", points: best.map(point => `${px(point)},${py(point)}`).join(" ") }), ...dots);
}

function choice(name, label, options, render) {
  return element("label", {}, `${label} `, element("select", {
    id: name, onchange: event => { state[name] = event.target.value; render(); },
  }, ...options.map(([value, text]) => element("option", { value, selected: state[name] === value }, text))));
}

const figures = known.map(key => [key, FIGURES[key][0]]);
const count = element("p", { class: "note", id: "count", "aria-live": "polite" });
const drawing = element("div");
let view = "matrix";
function render() {
  const rows = chosen();
  const failed = rows.filter(cell => cell.status !== "ok").length;
  const left = new Set(rows);
  tableRows.forEach((row, index) => hide(row, !left.has(cells[index])));
  count.textContent = `${rows.length} of ${cells.length} cells, ${failed} not ok`;
  if (view === "matrix") filterMatrix(rows);
  if (view === "scatter" && known.length) drawing.replaceChildren(scatter(rows));
}

const filters = element("div", { class: "bar" },
  element("input", { id: "text", type: "search", placeholder: "Filter", "aria-label": "Filter",
    oninput: event => { state.text = event.target.value; render(); } }),
  ...DIMENSIONS.filter(several).map(name => choice(name, name,
    [["", "all"], ...[...new Set(cells.map(cell => String(cell[name])))].map(one => [one, one])], render)));
// Return what the sweep says at a glance: how many cells are ok, the best cells of each model, and why others are not ok.
function summary() {
  const good = cells.filter(cell => cell.status === "ok");
  const facts = [["cells", `${good.length} of ${cells.length} are ok`], ["models", models.join(", ")],
    ["backends", [...new Set(cells.map(cell => cell.backend))].join(", ")], ["recipes", [...new Set(cells.map(cell => cell.recipe))].join(", ")]];
  const parts = [element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]))];
  const shown = known.filter(key => ["median_ms", "cycles", "file_bytes", "accuracy", "sqnr_db"].includes(key));
  for (const model of models) {
    const bests = shown.flatMap(key => {
      const measured = good.filter(cell => cell.model === model && typeof cell[key] === "number");
      if (!measured.length) return [];
      const best = measured.reduce((a, b) => FIGURES[key][1] * b[key] < FIGURES[key][1] * a[key] ? b : a);
      const [what, unit] = FIGURES[key][0].split(", ");
      return [element("li", {}, `${FIGURES[key][1] < 0 ? "highest" : "lowest"} ${what}: ${[number(best[key]), unit].filter(Boolean).join(" ")} with ${columnOf(best)}`)];
    });
    if (bests.length) parts.push(element("h2", {}, model), element("ul", {}, ...bests));
  }
  const reasons = new Map();
  for (const cell of cells) if (cell.reason) reasons.set(`${cell.status}: ${cell.reason}`, [...(reasons.get(`${cell.status}: ${cell.reason}`) || []), cell.cell]);
  if (reasons.size) {
    parts.push(element("h2", {}, "Cells that are not ok"), element("ul", {}, ...[...reasons].map(([reason, names]) =>
      element("li", {}, `${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""}: ${reason}`))));
  }
  return element("div", {}, ...parts);
}

// Return all cells as a table that sorts; a figure that is unknown is a dash.
function cellsTable() {
  const names = DIMENSIONS.filter(name => name === "model" || name === "status" || several(name));
  const columns = [...names.map(name => [name, ""]), ...known.map(key => [FIGURES[key][0], "number"]), ["why it is not ok", ""]];
  const rows = cells.map(cell => [...names.map(name => String(cell[name])), ...known.map(key => cell[key] === null ? "–" : cell[key]), cell.reason]);
  const { body, parts } = sortedTable({ title: "All cells", columns, rows });
  tableRows = [...body.rows];
  return element("div", {}, ...parts);
}
let tableRows = [];

const views = {
  summary: ["Summary", summary()],
  table: ["Table", cellsTable()],
  matrix: ["Matrix", element("div", {}, choice("figure", "figure", figures, () => { writeFigures(); render(); }), element("div", { class: "wide" }, matrix))],
  scatter: ["Scatter", element("div", {}, choice("x", "across", figures, render), " ", choice("y", "up", figures, render), drawing)],
};
if (data.changes.length) {
  const rows = data.changes.map(one => element("tr", { class: one.worse ? "selected" : "" },
    element("td", { class: "name" }, one.cell), element("td", {}, one.what)));
  views.changes = ["Changes", element("table", {}, element("thead", {}, element("tr", {},
    element("th", {}, "cell"), element("th", {}, "change, regressions first"))), element("tbody", {}, ...rows))];
}
const main = document.getElementById("views"), tabs = document.getElementById("tabs");
main.append(filters, count);
function open(name) {
  view = name;
  filters.hidden = count.hidden = name === "summary" || name === "changes";
  for (const other of Object.keys(views)) {
    document.getElementById(`view-${other}`).hidden = other !== name;
    document.getElementById(`tab-${other}`).setAttribute("aria-selected", other === name);
  }
  render();
}
for (const [name, [title, content]] of Object.entries(views)) {
  tabs.append(element("button", { type: "button", id: `tab-${name}`, role: "tab", "aria-controls": `view-${name}`, onclick: () => open(name) }, title));
  main.append(element("section", { id: `view-${name}`, role: "tabpanel", "aria-labelledby": `tab-${name}` }, content));
}
writeFigures();
const asked = new URLSearchParams(location.hash.slice(1)).get("view");
open(asked in views ? asked : data.changes.length ? "changes" : "summary");
