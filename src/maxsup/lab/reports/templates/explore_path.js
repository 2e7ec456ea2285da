// Panel 2: where gradient descent takes the logits of panel 1 under each loss.
const PATH = { steps: 160, size: 0.1 };
let isPathDue = false;

function pathOf(name, sample) {
  const path = [sample.logits];
  for (let step = 0; step < PATH.steps; step += 1) path.push(descend(name, path[step], sample, PATH.size));
  return path;
}

function strongestOther(logits, target) {
  const others = logits.map((logit, k) => (k === target ? -Infinity : logit));
  return topIndex(others);
}

function around(values) {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(0.08 * (high - low), 0.2);
  return [low - room, high + room];
}

function showPath() {
  const sample = readSample();
  const { logits, target } = sample;
  const rival = strongestOther(logits, target);
  const step = numberOf("path-step");
  const paths = Object.fromEntries(Object.keys(LOSSES).map((name) => [name, pathOf(name, sample)]));
  const map = (change) => Object.fromEntries(Object.entries(paths).map(([name, path]) => [name, change(path, name)]));
  const chances = map((path) => path.map((row, t) => [t, softmax(row)[target]]));
  const plane = map((path) => path.map((row) => [row[rival], row[target]]));
  const points = Object.values(plane).flat();
  const [xRange, yRange] = [around(points.map((point) => point[0])), around(points.map((point) => point[1]))];
  const guide = [Math.max(xRange[0], yRange[0]), Math.min(xRange[1], yRange[1])].map((value) => [value, value]);
  drawChart("path-plane", {
    title: `Logit of the true class ${NAMES[target]} against that of ${NAMES[rival]} during descent; the table has the numbers`,
    lines: plane,
    marks: map((path, name) => plane[name][step]),
    xRange,
    yRange,
    xLabel: `logit of ${NAMES[rival]}`,
    yLabel: `logit of ${NAMES[target]} (true)`,
    guide: guide[0][0] < guide[1][0] ? guide : null,
  });
  drawChart("path-chance", {
    title: `Probability of the true class ${NAMES[target]} during descent; the table has the numbers`,
    lines: chances,
    marks: map((path, name) => chances[name][step]),
    xRange: [0, PATH.steps],
    yRange: [0, 1],
    xLabel: "step",
    yLabel: "probability of the true class",
  });
  const rows = Object.entries(paths).map(([name, path]) => {
    const first = path.findIndex((row) => topIndex(row) === target);
    const [now, chance] = [path[step], chances[name][step][1]];
    const other = Math.max(...now.filter((_, k) => k !== target));
    return [
      lossHead(name),
      numberCell(first, first < 0 ? "never" : String(first)),
      numberCell(now[target], fixed(now[target])),
      numberCell(other, fixed(other)),
      numberCell(chance, percent(chance)),
    ];
  });
  fillTable("path-table", rows);
}

// Draw at most once per frame, however many handles moved.
function requestPath() {
  if (isPathDue) return;
  isPathDue = true;
  requestAnimationFrame(() => {
    isPathDue = false;
    showPath();
  });
}

function startPath() {
  for (const name of Object.keys(LOSSES)) {
    const line = element("svg", { viewBox: "0 0 40 10" }, element("line", { x1: 0, x2: 40, y1: 5, y2: 5, class: name }));
    document.querySelector(".legend").append(element("span", {}, line, LOSSES[name].title));
  }
  watchSlider("path-step", 0, showPath);
  byId("path-wrong").addEventListener("click", () => setSample(EXAMPLES.wrong));
}
