// Compare two cells: by the numbers with which they begin ("-2.5 dB" before "10.1 dB"), else as texts.
const inOrder = (a, b) => parseFloat(a) - parseFloat(b) || String(a).localeCompare(String(b), "en", { numeric: true });

// Show tables, one below another. A click on a head sorts; the filter hides rows of all tables. The rows of a linked
// table are operators of the page: a click, or Enter, selects one.
function tableSection(section, tables) {
  const bodies = [];
  const count = element("span", { class: "note", role: "status" });
  const filter = element("input", { type: "search", placeholder: "filter", "aria-label": "Filter rows", oninput: () => {
    const matches = matcher(filter.value);
    const rows = bodies.flatMap(body => [...body.rows]);
    for (const row of rows) row.hidden = !matches(row.textContent);
    count.textContent = filter.value.trim() ? `${rows.filter(row => !row.hidden).length} of ${rows.length} rows` : "";
  } });
  section.append(element("div", { class: "bar" }, filter, count));
  for (const made of tables) {
    const { body, parts } = sortedTable(made);
    bodies.push(body);
    section.append(...parts);
  }
  mark(section);
}

function sortedTable({ title, note, columns, rows, marked, linked }) {
  const body = element("tbody");
  const lines = rows.map((cells, index) => ({ cells, line: element("tr", {
    class: marked && marked.includes(index) ? "marked" : null, "data-members": linked ? String(index) : null, ...(linked ? pressed(() => select([index])) : {}),
  }, ...cells.map((cell, place) => cellOf(cell, columns[place][1] || (place ? "" : "name")))) }));
  const heads = columns.map(([name, kind], place) => element("th", { class: kind === "number" ? kind : null, scope: "col", "aria-sort": "none" },
    element("button", { type: "button", onclick: () => sort(place) }, name)));
  const sort = place => {
    const up = heads[place].getAttribute("aria-sort") !== "ascending";
    heads.forEach((head, index) => head.setAttribute("aria-sort", index !== place ? "none" : up ? "ascending" : "descending"));
    lines.sort((a, b) => (up ? 1 : -1) * inOrder(a.cells[place], b.cells[place]));
    body.replaceChildren(...lines.map(one => one.line));
  };
  body.append(...lines.map(one => one.line));
  return { body, parts: [element("h2", {}, title), note ? element("p", { class: "note" }, note) : "",
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body))] };
}

function cellOf(cell, kind) {
  const text = typeof cell === "number" ? cell.toLocaleString("en-US") : String(cell);
  if (kind !== "backend" || !backends.includes(text)) return element("td", { class: kind && kind !== "backend" ? kind : null }, text);
  return element("td", {}, element("span", { class: "chip", style: { "--colour": colourOf(text) } }, text));
}
