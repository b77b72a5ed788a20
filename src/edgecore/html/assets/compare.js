// Show the comparison of two files: operators or modules with both times, and operators that changed backend.
function differenceOf(row) {
  if (row.difference === null) return "";
  return (row.difference >= 0 ? "+" : "−") + percent(Math.abs(row.difference));
}

function interval(row) {
  if (!row.interval) return row.difference === null ? "" : "fewer than 10 runs";
  return row.interval.map(one => (one >= 0 ? "+" : "−") + percent(Math.abs(one))).join(" to ");
}

function compareView(section) {
  const timed = report.compare.timed;
  const all = {
    operator: operators.map(one => ({ ...one, members: [one.index] })),
    module: report.compare.modules,
  };
  const columns = [["name", "", ""], ["module", "module", ""], ["backend", "backend", ""], ...(timed ? [["a", "time A", "number"], ["b", "time B", "number"],
    ["by", "B − A", "number"], ["difference", "difference", "number"], ["interval", "95 % interval", "number"]] : []), ["verdict", "B is", ""]];
  const filter = element("input", { type: "search", placeholder: "filter", "aria-label": "Filter", oninput: () => draw() });
  const group = element("select", { "aria-label": "Group by", onchange: () => draw() },
    element("option", { value: "module" }, "by module"), element("option", { value: "operator" }, "by operator"));
  const count = element("span", { class: "note" });
  const head = element("tr"), body = element("tbody");
  let sort = timed ? "by" : "name", descending = timed, limit = SHOWN;

  const by = row => (row.b || 0) - (row.a || 0);
  const value = (row, key) => key === "by" ? Math.abs(by(row)) : key === "interval" ? (row.interval ? row.interval[0] : -Infinity) : row[key] === null ? -Infinity : row[key];
  const cell = (row, key) => key === "a" || key === "b" ? (row[key] === null ? "" : time(row[key])) : key === "difference" ? differenceOf(row) : key === "interval" ? interval(row)
    : key === "by" ? (by(row) < 0 ? "−" : "+") + time(Math.abs(by(row))) : String(row[key]);

  function draw() {
    const shown = columns.filter(([key]) => key !== "module" || group.value === "operator");
    replaceHead(head, shown.map(([key, name, kind]) => element("th",
      { class: kind || null, scope: "col", "aria-sort": sort !== key ? "none" : descending ? "descending" : "ascending" },
      element("button", { type: "button", onclick: () => { descending = sort === key ? !descending : kind === "number"; sort = key; draw(); } },
        key === "name" ? group.value : name))));
    const matches = matcher(filter.value);
    const rows = all[group.value].filter(row => matches([row.name, row.module, row.backend, row.verdict].join("\n")));
    rows.sort((a, b) => { const [x, y] = [value(a, sort), value(b, sort)]; return a.rest - b.rest || (descending ? -1 : 1) * (x < y ? -1 : x > y ? 1 : 0); });
    count.textContent = `${rows.length} rows`;
    body.replaceChildren(...rows.slice(0, limit).map(row => element("tr",
      { class: row.rest ? "rest" : null, "data-members": row.members.join(" "), ...pressed(() => select(row.members)) },
      ...shown.map(([key, , kind]) => element("td", { class: key === "name" ? "name" : kind || null }, cell(row, key))))));
    more.hidden = rows.length <= limit;
    more.textContent = `show all ${rows.length} rows`;
    mark(section);
  }
  const more = element("button", { type: "button", onclick: () => { limit = Infinity; draw(); } });
  const note = timed ? "Medians of the runs. An interval holds the difference with a probability of at least 95 %. \"same\": it differs by at most 3 %; \"cannot tell\": the runs do not show it."
    : "Nobody has measured these files; --trace A.etdp B.etdp adds the times.";
  section.append(element("p", { class: "note" }, note), element("div", { class: "bar" }, group, filter, count),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, head), body)), more);
  draw();
}

function placementView(section) {
  const columns = ["", "operator", "module", "line", "A", "B"];
  const lines = report.placement.map(row => element("tr", { "data-members": row.members.join(" "), ...pressed(() => select(row.members)) },
    ...[row.kind, row.operator, row.module || "(the model itself)", row.line, row.a, row.b].map((cell, place) => element("td", { class: place === 1 ? "name" : null }, cell))));
  section.append(element("p", { class: "note" }, "Operators that run on another backend, with other arguments, or in one file only."),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...columns.map(name => element("th", { scope: "col" }, name)))), element("tbody", {}, ...lines))));
}
