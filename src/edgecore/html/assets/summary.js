// Show the facts at a glance: warnings, sentences, bars that share a sum among backends, and short lists.
function summaryView(section) {
  const facts = (report.facts || []).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]);
  const parts = (report.warnings || []).map(warning => element("p", { class: "warning" }, warning));
  parts.push(element("dl", {}, ...facts));
  for (const { title, parts: shares } of report.bars || []) {
    const sum = shares.reduce((sofar, [, value]) => sofar + value, 0);
    const word = count => `${count.toLocaleString("en-US")} ${count === 1 ? "operator" : "operators"}`;
    parts.push(...shareBar(title, shares.map(([name, value]) => [name, value, `${name}: ${word(value)}, ${percent(value / sum)}`]), sum));
  }
  if (isTimed) {
    const byBackend = grouped("backend", "").sort((a, b) => a.rest - b.rest || b.ns - a.ns);
    parts.push(...shareBar("Time of a run", byBackend.map(row => [row.rest ? "" : row.label, row.ns, `${row.label}: ${time(row.ns)}, ${percent(row.ns / total)}`]), total));
    const top = grouped("module", "").filter(row => !row.rest).sort((a, b) => b.ns - a.ns).slice(0, 5);
    parts.push(element("h2", {}, "Where the time goes"), element("ol", {}, ...top.map(row =>
      element("li", {}, `${row.label}: ${time(row.ns)}, ${percent(row.ns / total)}`))));
  }
  for (const { title, lines } of report.sections || []) {
    parts.push(element("h2", {}, title), element("ul", {}, ...lines.map(line => element("li", {}, line))));
  }
  if (report.runs && report.runs.length > 1) parts.push(element("h2", {}, "Runs in the order of time"), runs(report.runs));
  section.append(...parts);
}

// Return a title, and a bar whose pieces are as wide as their shares of a sum. A piece is [backend, number, text].
function shareBar(title, pieces, sum) {
  const bar = element("div", { class: "shares" }, ...pieces.map(([name, value, text]) =>
    element("span", { title: text, style: { "--colour": name ? colourOf(name) : "var(--edge)", width: `${100 * value / (sum || 1)}%` } })));
  return [element("h2", {}, title), bar, element("div", { class: "legend" }, ...pieces.map(([name, , text]) =>
    element("span", { style: { "--colour": name ? colourOf(name) : "var(--edge)" } }, text)))];
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
  const text = `${values.length} runs, median ${time(median(values))} (the dashed line), slowest ${time(highest)}`;
  return element("figure", {}, svg("svg", { viewBox: `0 0 ${width} ${height}`, height, preserveAspectRatio: "none", role: "img", "aria-label": text },
    ...boxes, svg("line", { class: "peak", x2: width, y1: middle, y2: middle })), element("figcaption", { class: "note" }, text));
}
