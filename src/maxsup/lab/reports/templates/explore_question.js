// Panel 1: one prediction, one question. Which logit does the penalty push down?
const QUESTION = { size: 0.1, steps: 80, perSecond: 14, reach: 5 };
const ASKED = ["ls", "maxsup"];
const DRAWN = { names: ["cat", "dog", "fox", "car", "boat"], logits: [3.2, 1.4, 0.5, -1, -1.6], target: 1 };
const question = { sample: DRAWN, rows: {}, step: 0, isPlaying: false, answered: new Set() };

function penaltyPush(loss) {
  // Descent goes against the gradient.
  const { gradient } = LOSSES[loss].penalty(question.rows[loss], question.sample.target, 0);
  return gradient.map((slope) => -numberOf("question-alpha") * slope);
}

function wholePush(loss) {
  return evaluateLoss(loss, question.rows[loss], question.sample.target, numberOf("question-alpha"), 0).gradient.map((slope) => -slope);
}

function isWhole() {
  return document.querySelector("input[name=question-arrows]:checked").value === "whole";
}

function makeBar(loss, k) {
  const { names, target } = question.sample;
  const bar = element("button", { type: "button", class: `bar-button${k === target ? " true" : ""}`, "data-class": k });
  bar.append(element("span", { class: "column" }, element("i"), element("b")), element("span", { class: "who" }, names[k]));
  bar.addEventListener("click", () => answer(loss, k));
  return bar;
}

// Height of a logit in percent of the column.
function heightOf(logit) {
  const { logits } = question.sample;
  const [low, high] = [Math.min(...logits, 0) - 1.2, Math.max(...logits) + 1.2];
  return (100 * (Math.min(Math.max(logit, low), high) - low)) / (high - low);
}

function placeBetween(part, one, other) {
  const [low, high] = [Math.min(one, other), Math.max(one, other)];
  part.style.bottom = `${low}%`;
  part.style.height = `${Math.max(high - low, 0.8)}%`;
}

function showBar(bar, logit, push, isShown) {
  const [fill, arrow] = bar.querySelector(".column").children;
  placeBetween(fill, heightOf(0), heightOf(logit));
  placeBetween(arrow, heightOf(logit), heightOf(logit + QUESTION.reach * push));
  arrow.className = push < 0 ? "down" : "up";
  arrow.hidden = !isShown || Math.abs(push) < 1e-3;
  bar.querySelector(".column").style.setProperty("--zero", `${100 - heightOf(0)}%`);
}

function describeBar(loss, k, push) {
  const { names, target } = question.sample;
  const logits = question.rows[loss];
  const words = [names[k], `logit ${fixed(logits[k], 1)}`];
  if (k === target) words.push("the true class");
  if (k === topIndex(logits)) words.push("predicted");
  if (question.answered.has(loss)) words.push(`pushed ${push < 0 ? "down" : "up"} by ${fixed(Math.abs(push), 2)}`);
  return words.join(", ");
}

function showPanel(loss) {
  const panel = byId(`question-${loss}`);
  const pushes = isWhole() ? wholePush(loss) : penaltyPush(loss);
  const isShown = question.answered.has(loss);
  const top = topIndex(question.rows[loss]);
  panel.querySelectorAll(".bar-button").forEach((bar, k) => {
    bar.classList.toggle("top", k === top);
    bar.setAttribute("aria-label", describeBar(loss, k, pushes[k]));
    showBar(bar, question.rows[loss][k], pushes[k], isShown);
  });
  const chance = softmax(question.rows[loss])[question.sample.target];
  const dot = byId(`race-${loss}`);
  dot.style.left = `${100 * chance}%`;
  byId(`race-${loss}-value`).textContent = percent(chance);
}

function asked() {
  return ASKED.find((loss) => !question.answered.has(loss));
}

function pushedClass(loss) {
  return loss === "ls" ? question.sample.target : topIndex(question.sample.logits);
}

function promptOf() {
  const { names, target, logits } = question.sample;
  const loss = asked();
  if (loss === "ls") return "Label smoothing pushes one logit down. Which one? Click a bar on the left.";
  if (loss === "maxsup") return "MaxSup pushes one logit down, too. Which one? Click a bar on the right.";
  if (topIndex(logits) === target) return "On a right prediction both push the same logit: MaxSup is label smoothing here. Press Play.";
  return `Two penalties, two logits: ${names[target]} on the left, ${names[topIndex(logits)]} on the right. Press Play to follow the steps.`;
}

function revealOf(loss, isRight) {
  const { names, target, logits } = question.sample;
  const name = names[pushedClass(loss)];
  const start = isRight ? "Yes: " : "No: ";
  if (topIndex(logits) === target) return `${start}${name}, the true class, which is also the top one. That curbs over-confidence.`;
  if (loss === "ls") return `${start}${name}, the true class, although it is losing already.`;
  return `${start}${name}, the wrong winner. The true class is left alone.`;
}

function answer(loss, k) {
  if (question.answered.has(loss)) return;
  if (asked() !== loss) return say(promptOf());
  question.answered.add(loss);
  byId(`question-${loss}`).querySelector(".reveal").textContent = revealOf(loss, k === pushedClass(loss));
  showQuestion();
}

function say(text) {
  byId("question-prompt").textContent = text;
}

function showQuestion() {
  for (const loss of ASKED) showPanel(loss);
  say(promptOf());
  byId("question-play").disabled = asked() !== undefined;
  byId("question-show").hidden = asked() === undefined;
  byId("question-step").textContent = question.step;
}

function setQuestion(sample) {
  Object.assign(question, { sample, step: 0, isPlaying: false, answered: new Set(), rightFrom: {} });
  for (const loss of ASKED) {
    question.rows[loss] = [...sample.logits];
    const panel = byId(`question-${loss}`);
    panel.querySelector(".bars").replaceChildren(...sample.names.map((_, k) => makeBar(loss, k)));
    panel.querySelector(".reveal").textContent = "";
  }
  const top = sample.names[topIndex(sample.logits)];
  byId("question-says").textContent = top;
  byId("question-is").textContent = sample.names[sample.target];
  byId("question-play").textContent = "Play";
  showQuestion();
}

function rewind() {
  question.step = 0;
  for (const loss of ASKED) question.rows[loss] = [...question.sample.logits];
  for (const loss of ASKED) byId(`question-${loss}`).querySelector(".reveal").textContent = revealOf(loss, true).replace("Yes: ", "Pushed down: ");
  question.rightFrom = {};
}

function stepQuestion() {
  const { target } = question.sample;
  const alpha = numberOf("question-alpha");
  question.step += 1;
  for (const loss of ASKED) {
    question.rows[loss] = descend(loss, question.rows[loss], { target, alpha, margin: 0 }, QUESTION.size);
    if (question.rightFrom[loss] === undefined && topIndex(question.rows[loss]) === target) {
      question.rightFrom[loss] = question.step;
      if (topIndex(question.sample.logits) !== target) {
        byId(`question-${loss}`).querySelector(".reveal").textContent = `Right after ${question.step} steps.`;
      }
    }
  }
  showQuestion();
}

function play() {
  if (question.step >= QUESTION.steps) rewind();
  question.isPlaying = !question.isPlaying;
  byId("question-play").textContent = question.isPlaying ? "Pause" : "Play";
  const tick = () => {
    if (!question.isPlaying) return;
    stepQuestion();
    if (question.step < QUESTION.steps) return void setTimeout(tick, 1000 / QUESTION.perSecond);
    question.isPlaying = false;
    byId("question-play").textContent = "Play again";
  };
  if (question.isPlaying) tick();
}

// Twelve test images of a run, with its logits; made by tools/predictions.py.
function pictureButton({ pixels, logits, target, size }) {
  const canvas = element("canvas", { width: size, height: size, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  const image = context.createImageData(size, size);
  const bytes = atob(pixels);
  for (let i = 0; i < size * size; i += 1) {
    for (let channel = 0; channel < 3; channel += 1) image.data[4 * i + channel] = bytes.charCodeAt(3 * i + channel);
    image.data[4 * i + 3] = 255;
  }
  context.putImageData(image, 0, 0);
  const top = topIndex(logits);
  const button = element("button", { type: "button", class: "picture-button", "aria-label": `a ${target}, predicted ${top}` }, canvas);
  button.append(element("span", { class: top === target ? "right" : "wrong" }, `${target} → ${top}`));
  button.addEventListener("click", () => setQuestion({ names: PREDICTIONS.names, logits, target }));
  return button;
}

function startQuestion() {
  watchSlider("question-alpha", 2, showQuestion);
  byId("question-paper").addEventListener("click", () => {
    byId("question-alpha").value = 0.1;
    byId("question-alpha").dispatchEvent(new Event("input"));
  });
  for (const radio of document.querySelectorAll("input[name=question-arrows]")) radio.addEventListener("change", showQuestion);
  byId("question-show").addEventListener("click", () => {
    while (asked()) answer(asked(), pushedClass(asked()));
  });
  byId("question-play").addEventListener("click", play);
  byId("question-again").addEventListener("click", () => setQuestion(question.sample));
  byId("question-drawn").addEventListener("click", () => setQuestion(DRAWN));
  byId("question-pictures").append(...PREDICTIONS.images.map((image) => pictureButton({ ...image, size: PREDICTIONS.size })));
  setQuestion(DRAWN);
}
