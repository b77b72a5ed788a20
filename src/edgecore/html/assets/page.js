// Build the page: a tab for each view for which the report has data, and the facts about the selected operators.
const VIEWS = [
  ["summary", "Summary", report.facts, summaryView],
  ["compare", "Operators", isCompared && operators.length, compareView],
  ["operators", "Operators", report.operatorTable, section => tableSection(section, [report.operatorTable])],
  ["placement", "Placement", report.placement && report.placement.length, placementView],
  ["table", "Table", isTimed, tableView],
  ["flame", "Modules", isTimed, flameView],
  ["timeline", "Timeline", report.timeline && report.timeline.length, timelineView],
  ["network", "Network", nodes.length, networkView],
  ["memory", "Memory", report.memory && report.memory.length, memoryView],
  ["accuracy", "Accuracy", report.accuracy && report.accuracy.rows.length, accuracyView],
  ["tables", "Details", report.tables && report.tables.length, section => tableSection(section, report.tables)],
].filter(view => view[2]);

// Names of the facts about one operator.
const FACTS = { operator: "operator", module: "module", line: "source line", kernel: "kernel", backend: "backend", partition: "partition", shape: "result", why: "not delegated because" };
const tabs = document.getElementById("tabs"), views = document.getElementById("views"), aside = document.getElementById("selection");
const sections = new Map();

function show() {
  if (!VIEWS.some(([id]) => id === state.view)) state.view = VIEWS[0][0];
  for (const [id, , , make] of VIEWS) {
    const { tab, section } = sections.get(id);
    const here = id === state.view;
    if (here && !section.hasChildNodes()) make(section);
    section.hidden = !here;
    tab.setAttribute("aria-selected", here);
    tab.tabIndex = here ? 0 : -1;
    if (here) mark(section);
  }
  describe();
}

function describe() {
  const chosen = [...state.selected].map(index => operators[index]);
  aside.hidden = !chosen.length;
  if (!chosen.length) return;
  const sum = key => chosen.reduce((ns, one) => ns + (one[key] || 0), 0);
  const facts = isTimed ? [["time", `${time(sum("ns"))}, ${percent(sum("ns") / total)} of the run`]]
    : isCompared && report.compare.timed ? [["time A, B", `${time(sum("a"))}, ${time(sum("b"))}`]] : [];
  if (chosen.length === 1) {
    const [one] = chosen;
    if (isTimed) facts.push(["fastest, slowest", `${time(one.min)}, ${time(one.max)}`]);
    if (one.verdict) facts.push(["B is", [one.verdict, differenceOf(one), interval(one)].filter(Boolean).join(", ")]);
    for (const [key, name] of Object.entries(FACTS)) if (one[key]) facts.push([name, one[key]]);
  }
  const title = chosen.length === 1 ? chosen[0].name : `${chosen.length} operators`;
  aside.replaceChildren(element("strong", {}, title),
    element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

for (const [id, name] of VIEWS) {
  const section = element("section", { id: "view-" + id, role: "tabpanel", "aria-labelledby": "tab-" + id, hidden: true });
  const tab = element("button", { type: "button", role: "tab", id: "tab-" + id, "aria-controls": section.id, onclick: () => change({ view: id }) }, name);
  sections.set(id, { tab, section });
  tabs.append(tab);
  views.append(section);
}
tabs.addEventListener("keydown", event => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const place = VIEWS.findIndex(([id]) => id === state.view) + step + VIEWS.length;
  change({ view: VIEWS[place % VIEWS.length][0] });
  sections.get(state.view).tab.focus();
});
document.addEventListener("keydown", event => { if (event.key === "Escape") change({ selected: new Set() }); });
addEventListener("beforeprint", () => { for (const [id, , , make] of VIEWS) { const { section } = sections.get(id); if (!section.hasChildNodes()) make(section); } });
addEventListener("hashchange", () => { read(); show(); for (const listener of listeners) listener(state); });
listeners.push(values => { if ("view" in values || "selected" in values) show(); });
read();
show();
