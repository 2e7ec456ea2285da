// Elements, numbers and line charts that the panels share.
const byId = (id) => document.getElementById(id);
const numberOf = (id) => Number(byId(id).value);
const fixed = (value, digits = 3) => {
  const text = value.toFixed(digits).replace("-", "−");
  return Number(text.replace("−", "-")) === 0 ? text.replace("−", "") : text;
};
const signed = (value, digits = 3) => (fixed(value, digits).startsWith("−") ? "" : "+") + fixed(value, digits);
const percent = (share) => (Number.isNaN(share) ? "-" : `${(100 * share).toFixed(1)}\u00a0%`);

function element(tag, attributes = {}, ...children) {
  const isDrawn = ["svg", "line", "polyline", "polygon", "circle", "rect", "text", "path"].includes(tag);
  const made = isDrawn ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// A cell that shows a number and keeps all its digits.
function numberCell(value, text) {
  return element("td", { class: "number", "data-value": value }, text);
}

function fillTable(id, rows) {
  byId(id).tBodies[0].replaceChildren(...rows.map((cells) => element("tr", {}, ...cells)));
}

function lossHead(name) {
  return element("th", { scope: "row", class: name }, LOSSES[name].title);
}

function niceStep(span) {
  const rough = span / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

function ticks([low, high]) {
  const step = niceStep(high - low);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => (first + k) * step);
}

const MARKS = {
  ce: (x, y) => element("circle", { cx: x, cy: y, r: 6 }),
  ls: (x, y) => element("rect", { x: x - 5.5, y: y - 5.5, width: 11, height: 11 }),
  maxsup: (x, y) => element("path", { d: `M${x} ${y - 7}l7 12h-14z` }),
  mbls: (x, y) => element("path", { d: `M${x} ${y - 7.5}l7.5 7.5l-7.5 7.5l-7.5 -7.5z` }),
};

let chartWidths = {};

// lines: { loss: [[x, y], ...] }; marks: { loss: [x, y] }; guide: two points of a dashed line.
function drawChart(id, { title, lines, xRange, yRange, xLabel, yLabel, marks = {}, guide = null }) {
  const place = byId(id);
  // As wide as the page allows, so that text keeps its size on a phone. Cached, because asking lays out the whole page.
  chartWidths[id] ??= Math.max(place.clientWidth, 240);
  const width = chartWidths[id];
  const height = place.classList.contains("wide") ? 220 : Math.min(width, 380);
  const [left, right, top, bottom] = [46, 12, 24, 40];
  const x = (value) => left + ((value - xRange[0]) / (xRange[1] - xRange[0])) * (width - left - right);
  const y = (value) => height - bottom - ((value - yRange[0]) / (yRange[1] - yRange[0])) * (height - top - bottom);
  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  const line = (x1, y1, x2, y2, kind) => svg.append(element("line", { x1, y1, x2, y2, class: kind }));
  const short = (value) => String(Number(value.toFixed(6))).replace("-", "−");
  for (const value of ticks(xRange)) {
    line(x(value), top, x(value), height - bottom, "grid");
    svg.append(element("text", { x: x(value), y: height - bottom + 16, "text-anchor": "middle" }, short(value)));
  }
  for (const value of ticks(yRange)) {
    line(left, y(value), width - right, y(value), "grid");
    svg.append(element("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  svg.append(element("text", { x: width - right, y: height - 6, "text-anchor": "end" }, xLabel));
  svg.append(element("text", { x: 4, y: 14 }, yLabel));
  if (guide) line(x(guide[0][0]), y(guide[0][1]), x(guide[1][0]), y(guide[1][1]), "guide");
  for (const [name, points] of Object.entries(lines)) {
    const path = points.map((point) => `${x(point[0]).toFixed(2)},${y(point[1]).toFixed(2)}`).join(" ");
    svg.append(element("polyline", { points: path, class: name }));
  }
  for (const [name, point] of Object.entries(marks)) {
    const mark = MARKS[name](x(point[0]), y(point[1]));
    mark.setAttribute("class", `mark ${name}`);
    svg.append(mark);
  }
  place.replaceChildren(svg);
}

function watchSlider(id, digits, react) {
  const label = () => (byId(`${id}-value`).textContent = numberOf(id).toFixed(digits));
  byId(id).addEventListener("input", () => {
    label();
    react();
  });
  label();
}
