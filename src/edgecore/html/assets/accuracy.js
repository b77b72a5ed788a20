// Draw the SQNR (signal to noise ratio) of operators in dB, in the order of execution. A higher SQNR means a smaller
// difference from the reference. The line shows the error since the model's input, each dot the error of one operator.
const HIGHEST = 120;  // dB at the top of the drawing; equal values, and values with a higher SQNR, lie there

function accuracyView(section) {
  const { rows, culprit, own, whole, title, note } = report.accuracy;
  const [width, height, left] = [1000, 260, 56];
  const x = index => left + (index + 0.5) / rows.length * (width - left);
  const y = decibels => height - Math.min(Math.max(decibels === null ? HIGHEST : decibels, 0), HIGHEST) / HIGHEST * (height - 10);
  const text = decibels => decibels === null ? "exact" : decibels < -900 ? "no number" : decibels.toFixed(1) + " dB";
  const grid = [0, 20, 40, 60, 80, 100, 120].flatMap(level => [
    svg("line", { class: "grid", x1: left, x2: width, y1: y(level), y2: y(level) }), svg("text", { x: 2, y: y(level) + 4 }, level + " dB"),
  ]);
  const line = values => svg("polyline", { class: "arc", points: values.map((value, index) => `${x(index)},${y(value)}`).join(" ") });
  const dots = rows.map((row, index) => svg("circle", { cx: x(index), cy: y(row.local), r: row.wrong ? 6 : 3, fill: row.wrong ? COLOURS[6] : COLOURS[0],
    role: "img", "aria-label": `${row.module} ${row.operator}: ${text(row.local)}` }, svg("title", {}, `${row.module} ${row.operator}: ${own} ${text(row.local)}, ${whole} ${text(row.accumulated)}`)));
  const columns = [["place", "number"], ["module", "name"], ["operator", ""], ["backend", "backend"], ["line", ""], [`${own}, SQNR`, "number"], [`${whole}, SQNR`, "number"]];
  const reasons = rows.some(row => row.why);
  const cells = rows.map((row, index) => [index + 1, row.module || "(the model itself)", row.operator, row.backend, row.line, text(row.local), text(row.accumulated), ...(reasons ? [row.why] : [])]);
  const shown = { title, columns: reasons ? [...columns, ["why it is wrong", ""]] : columns, rows: cells, marked: culprit === null ? [] : [culprit] };
  section.append(element("p", { class: "note" }, note),
    plot({ viewBox: `0 0 ${width} ${height + 8}`, role: "group", "aria-label": "SQNR of the operators in dB" }, ...grid, line(rows.map(row => row.accumulated)), ...dots));
  tableSection(section, [shown]);
}
