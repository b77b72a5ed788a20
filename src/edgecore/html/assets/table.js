const SHOWN = 400;  // number of rows at first, so that the table of a large model sorts fast; a button shows more

function tableView(section) {
  const columns = [["label", "", ""], ["backend", "backend", ""], ["calls", "calls", "number"], ["ns", "time", "number"], ["share", "%", "number"]];
  const filter = element("input", { type: "search", placeholder: "filter (press /)", "aria-label": "Filter", value: state.filter,
    oninput: event => change({ filter: event.target.value }) });
  const by = element("select", { "aria-label": "Group by", onchange: event => change({ by: event.target.value }) },
    ...Object.entries(GROUPS).map(([value, name]) => element("option", { value }, "by " + name)));
  const count = element("span", { class: "note" });
  const head = element("tr"), body = element("tbody");
  let limit = SHOWN;

  function draw() {
    by.value = state.by;
    if (filter.value !== state.filter) filter.value = state.filter;
    replaceHead(head, [...columns.map(([key, name, kind]) => element("th",
      { class: kind, scope: "col", "aria-sort": state.sort !== key ? "none" : state.descending ? "descending" : "ascending" },
      element("button", { type: "button", onclick: () => change({ sort: key, descending: state.sort === key ? !state.descending : kind === "number" }) },
        key === "label" ? GROUPS[state.by] : name))), element("th", {}, "")]);
    const rows = grouped(state.by, state.filter);
    const key = state.sort === "share" ? "ns" : state.sort;
    const sign = state.descending ? -1 : 1;
    rows.sort((a, b) => a.rest - b.rest || sign * (a[key] < b[key] ? -1 : a[key] > b[key] ? 1 : 0));
    count.textContent = `${rows.length} rows, ${time(rows.reduce((sum, row) => sum + row.ns, 0))} of ${time(total)}`;
    body.replaceChildren(...rows.slice(0, limit).map(row => element("tr",
      { class: row.rest ? "rest" : null, "data-members": row.members.join(" "), ...pressed(() => select(row.members)) },
      element("td", { class: "name" }, row.label), element("td", {}, row.backend),
      element("td", { class: "number" }, String(+row.calls.toPrecision(4))), element("td", { class: "number" }, time(row.ns)),
      element("td", { class: "number" }, percent(row.ns / total)),
      element("td", {}, element("meter", { min: 0, max: 1, value: row.ns / total, "aria-hidden": "true" })))));
    more.hidden = rows.length <= limit;
    more.textContent = `show all ${rows.length} rows`;
    mark(section);
  }

  const more = element("button", { type: "button", onclick: () => { limit = Infinity; draw(); } });
  listeners.push(values => { if ("by" in values || "filter" in values || "sort" in values) draw(); });
  section.append(element("div", { class: "bar" }, by, filter, count),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, head), body)), more);
  draw();
  document.addEventListener("keydown", event => {
    if (event.key !== "/" || /INPUT|SELECT/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    change({ view: "table" });
    filter.focus();
  });
}
