function summaryView(section) {
  const facts = (report.facts || []).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  const parts = [element("dl", {}, ...facts)];
  if (report.runs && report.runs.length > 1) parts.push(element("h2", {}, "Runs in the order of time"), runs(report.runs));
  for (const { title, lines } of report.sections || []) {
    parts.push(element("h2", {}, title), element("ul", {}, ...lines.map(line => element("li", {}, line))));
  }
  const top = isCompared ? [] : grouped("module", "").filter(row => !row.rest).sort((a, b) => b.ns - a.ns).slice(0, 5);
  if (top.length) {
    parts.push(element("h2", {}, "Where the time goes"), element("ol", {}, ...top.map(row =>
      element("li", {}, `${row.label}: ${time(row.ns)}, ${percent(row.ns / total)}`))));
  }
  for (const warning of report.warnings || []) parts.push(element("p", {}, warning));
  section.append(...parts);
}

function runs(values) {
  const [width, height, highest] = [1000, 90, Math.max(...values)];
  const step = width / values.length;
  const boxes = values.map((ns, index) => {
    const size = Math.max(ns / highest * height, 1);
    return svg("rect", { x: index * step, y: height - size, width: Math.max(step - 1, 0.5), height: size, fill: COLOURS[0] },
      svg("title", {}, `run ${index + 1}: ${time(ns)}`));
  });
  const middle = height - median(values) / highest * height;
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", role: "img",
    "aria-label": `${values.length} runs, median ${time(median(values))}` },
    ...boxes, svg("line", { class: "peak", x2: width, y1: middle, y2: middle }));
}
