// Draw the SQNR of operators in dB, in the order of execution: the higher, the closer to the reference. The line shows
// the error since the input of the model, the dots show the errors of single operators.
const HIGHEST = 120;  // dB at the top of the drawing; equal values, and values with a higher SQNR, lie there

function accuracyView(section) {
  const { rows, culprit } = report.accuracy;
  const [width, height, left] = [1000, 260, 40];
  const x = index => left + (index + 0.5) / rows.length * (width - left);
  const y = decibels => height - Math.min(Math.max(decibels === null ? HIGHEST : decibels, 0), HIGHEST) / HIGHEST * (height - 10);
  const text = decibels => decibels === null ? "exact" : decibels < -900 ? "no number" : decibels.toFixed(1) + " dB";
  const grid = [0, 20, 40, 60, 80, 100, 120].flatMap(level => [
    svg("line", { class: "grid", x1: left, x2: width, y1: y(level), y2: y(level) }), svg("text", { x: 2, y: y(level) + 4 }, String(level)),
  ]);
  const line = values => svg("polyline", { class: "arc", points: values.map((value, index) => `${x(index)},${y(value)}`).join(" ") });
  const dots = rows.map((row, index) => svg("circle", { cx: x(index), cy: y(row.local), r: row.wrong ? 6 : 3, fill: row.wrong ? COLOURS[6] : COLOURS[0],
    role: "img", "aria-label": `${row.module} ${row.operator}: ${text(row.local)}` }, svg("title", {}, `${row.module} ${row.operator}: alone ${text(row.local)}, since the input ${text(row.accumulated)}`)));
  const columns = [["", ""], ["module", ""], ["operator", ""], ["line", ""], ["backend", ""], ["alone", "number"], ["since the input", "number"], ["why it is wrong", ""]];
  const lines = rows.map((row, index) => element("tr", { class: row.wrong ? "selected" : null }, ...[
    index === culprit ? "first" : "", row.module, row.operator, row.line, row.backend, text(row.local), text(row.accumulated), row.why,
  ].map((cell, place) => element("td", { class: columns[place][1] || null }, cell))));
  section.append(
    element("p", { class: "note" }, "dB of each operator in the order of execution: dots are its error alone, on the inputs that it had on the device; the line is the error since the input of the model."),
    svg("svg", { viewBox: `0 0 ${width} ${height}` }, ...grid, line(rows.map(row => row.accumulated)), ...dots),
    element("div", { class: "wide" }, element("table", {}, element("thead", {}, element("tr", {}, ...columns.map(([name, kind]) => element("th", { class: kind || null, scope: "col" }, name)))), element("tbody", {}, ...lines))));
}
