// Compare two cells: by the numbers with which they begin ("-2.5 dB" before "10.1 dB"), else as texts.
const inOrder = (a, b) => parseFloat(a) - parseFloat(b) || String(a).localeCompare(String(b), "en", { numeric: true });

// Show the tables of a report, one below another. A click on a head sorts; the filter hides rows of all tables.
function tablesView(section) {
  const bodies = [];
  const filter = element("input", { type: "search", placeholder: "filter", "aria-label": "Filter rows", oninput: () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const body of bodies) {
      for (const row of body.rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every(word => text.includes(word));
      }
    }
  } });
  section.append(element("div", { class: "bar" }, filter));
  for (const { title, note, columns, rows, marked } of report.tables) {
    const body = element("tbody");
    const lines = rows.map((cells, index) => ({ cells, line: element("tr", { class: marked && marked.includes(index) ? "selected" : null },
      ...cells.map((cell, place) => element("td", { class: columns[place][1] || (place ? null : "name") },
        typeof cell === "number" ? cell.toLocaleString("en-US") : String(cell)))) }));
    const heads = columns.map(([name, kind], place) => element("th", { class: kind || null, scope: "col", "aria-sort": "none" },
      element("button", { type: "button", onclick: () => sort(place) }, name)));
    const sort = place => {
      const up = heads[place].getAttribute("aria-sort") !== "ascending";
      heads.forEach((head, index) => head.setAttribute("aria-sort", index !== place ? "none" : up ? "ascending" : "descending"));
      lines.sort((a, b) => (up ? 1 : -1) * inOrder(a.cells[place], b.cells[place]));
      body.replaceChildren(...lines.map(one => one.line));
    };
    body.append(...lines.map(one => one.line));
    bodies.push(body);
    section.append(element("h2", {}, title), ...(note ? [element("p", { class: "note" }, note)] : []),
      element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...heads)), body)));
  }
}
