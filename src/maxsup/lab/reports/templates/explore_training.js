// Panel 3: three losses train the same network side by side.
const TRAINING = { limit: 600, perFrame: 4, measureEvery: 10 };
const PLANE = { cells: 32, reach: 3.4 };
const TOY_LOSSES = ["ce", "ls", "maxsup"];
let toys = [];
let spreads = {};
let seed = 8;
let isTraining = false;

function drawShape(context, label, x, y, size) {
  context.beginPath();
  if (label === 0) context.arc(x, y, size, 0, 2 * Math.PI);
  else if (label === 1) context.rect(x - size, y - size, 2 * size, 2 * size);
  else {
    context.moveTo(x, y - 1.3 * size);
    context.lineTo(x + 1.2 * size, y + size);
    context.lineTo(x - 1.2 * size, y + size);
    context.closePath();
  }
  context.fill();
}

// An empty picture, as sharp as the screen, with the inks of the classes and of errors.
function cleared(id) {
  const canvas = byId(id);
  const density = window.devicePixelRatio || 1;
  const size = Math.round((canvas.clientWidth || 300) * density);
  if (canvas.width !== size) canvas.width = canvas.height = size;
  const context = canvas.getContext("2d");
  context.clearRect(0, 0, size, size);
  // A real property resolves light-dark(), a variable alone does not.
  const ink = (name) => {
    canvas.style.color = `var(${name})`;
    return getComputedStyle(canvas).color;
  };
  return { context, size, dot: Math.max(size / 75, 2 * density), inks: [0, 1, 2].map((label) => ink(`--class-${label}`)), bad: ink("--bad") };
}

function drawPoints({ context, dot, inks, bad }, seen, place) {
  for (const { features, input, label, isRight } of seen) {
    const [x, y] = place({ features, input });
    context.fillStyle = inks[label];
    context.globalAlpha = 0.8;
    drawShape(context, label, x, y, dot);
    context.globalAlpha = 1;
    if (!isRight) {
      context.strokeStyle = bad;
      context.lineWidth = dot / 2;
      context.beginPath();
      context.arc(x, y, 1.8 * dot, 0, 2 * Math.PI);
      context.stroke();
    }
  }
}

function drawFeatures(toy, { seen, middle, reach }) {
  const picture = cleared(`toy-${toy.loss}`);
  const scale = (0.46 * picture.size) / (reach || 1);
  const at = (value, i) => picture.size / 2 + (i === 0 ? scale : -scale) * (value - middle[i]);
  drawPoints(picture, seen, ({ features }) => features.map(at));
}

// What the network says at each place of the plane: the colour of its answer, strong where it is sure.
function drawPlane(toy, { seen }) {
  const picture = cleared(`toy-${toy.loss}-plane`);
  const { context, size, inks } = picture;
  const cell = size / PLANE.cells;
  const unit = size / (2 * PLANE.reach);
  for (let row = 0; row < PLANE.cells; row += 1) {
    for (let column = 0; column < PLANE.cells; column += 1) {
      const input = [((column + 0.5) * cell) / unit - PLANE.reach, PLANE.reach - ((row + 0.5) * cell) / unit];
      const { logits } = forward(toy.layers, input);
      const top = topIndex(logits);
      context.fillStyle = inks[top];
      context.globalAlpha = 0.55 * (softmax(logits)[top] - 1 / NETWORK.classes) * 1.5;
      context.fillRect(Math.floor(column * cell), Math.floor(row * cell), Math.ceil(cell), Math.ceil(cell));
    }
  }
  drawPoints(picture, seen, ({ input }) => [(input[0] + PLANE.reach) * unit, (PLANE.reach - input[1]) * unit]);
}

function showToy(toy) {
  const measured = measureToy(toy);
  if (toy.steps % TRAINING.measureEvery === 0 && spreads[toy.loss].length <= toy.steps / TRAINING.measureEvery) {
    spreads[toy.loss].push([toy.steps, measured.spread]);
  }
  drawFeatures(toy, measured);
  drawPlane(toy, measured);
  const facts = {
    "classified rightly": percent(measured.accuracy),
    "spread within classes": percent(measured.spread),
    "confidence when right": percent(measured.whenRight),
    "confidence when wrong": percent(measured.whenWrong),
  };
  const rows = Object.entries(facts).map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text)));
  byId(`toy-${toy.loss}-facts`).replaceChildren(...rows);
  const words = Object.entries(facts).map(([name, text]) => `${name} ${text}`);
  byId(`toy-${toy.loss}`).setAttribute("aria-label", `Features under ${LOSSES[toy.loss].title}: ${words.join(", ")}`);
}

function showToys() {
  byId("toy-count").textContent = toys[0].steps;
  toys.forEach(showToy);
  drawChart("toy-spread", {
    title: "Spread within classes over the steps; the numbers under the pictures are those of the last step",
    lines: spreads,
    xRange: [0, Math.max(100, toys[0].steps)],
    yRange: [0, Math.max(...Object.values(spreads).flat().map((point) => point[1])) + 0.05],
    xLabel: "step",
    yLabel: "within / whole",
  });
}

function stepToys(count) {
  const alpha = numberOf("toy-alpha");
  for (let step = 0; step < count; step += 1) for (const toy of toys) trainToy(toy, alpha);
  showToys();
}

function setTraining(wanted, status = "") {
  isTraining = wanted;
  byId("toy-run").textContent = wanted ? "Pause" : "Train";
  byId("toy-status").textContent = wanted ? "Training." : status;
  if (wanted) requestAnimationFrame(trainFrame);
}

function trainFrame() {
  if (!isTraining) return;
  // A frame ends when a measurement is due, so that the chart's points are evenly spaced.
  const { perFrame, measureEvery, limit } = TRAINING;
  stepToys(Math.min(perFrame, measureEvery - (toys[0].steps % measureEvery)));
  if (toys[0].steps >= limit) setTraining(false, "Trained.");
  else requestAnimationFrame(trainFrame);
}

function resetToys() {
  toys = TOY_LOSSES.map((loss) => makeToy(loss, seed));
  spreads = Object.fromEntries(TOY_LOSSES.map((loss) => [loss, []]));
  showToys();
  setTraining(false);
}

function startToys() {
  watchSlider("toy-alpha", 2, () => {});
  byId("toy-run").addEventListener("click", () => {
    if (toys[0].steps >= TRAINING.limit) resetToys();
    setTraining(!isTraining, "Paused.");
  });
  byId("toy-step").addEventListener("click", () => {
    stepToys(1);
    setTraining(false);
  });
  byId("toy-reset").addEventListener("click", resetToys);
  byId("toy-data").addEventListener("click", () => {
    seed += 1;
    resetToys();
  });
  resetToys();
}

// The network trains by itself once it comes into view, unless the reader wants less motion.
function trainWhenSeen() {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  const observer = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    observer.disconnect();
    if (toys[0].steps === 0) setTraining(true);
  }, { threshold: 0.25 });
  observer.observe(document.querySelector(".toys"));
}

function redraw() {
  chartWidths = {};
  showPath();
  showToys();
}

startQuestion();
startPath();
startLogits();
startToys();
trainWhenSeen();
window.addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
// The start page of a site shows the question alone.
document.body.classList.toggle("only-question", location.search === "?question");
// A site that shows this page in a frame says which colours it has: "light", "dark" or "auto".
window.addEventListener("message", ({ data }) => {
  if (!["light", "dark", "auto"].includes(data?.theme)) return;
  document.documentElement.style.colorScheme = data.theme === "auto" ? "light dark" : data.theme;
  redraw();
});
