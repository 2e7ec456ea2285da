// Panel 1: logits that can be dragged, and what each loss does to them.
const NAMES = "ABCDEFGHIJ";
const EXAMPLES = {
  wrong: { logits: [0.8, 3.2, 0.5, -1, -0.5, 0, -2, -1.5, 0.2, -0.8], target: 0 },
  right: { logits: [3.2, 0.8, 0.5, -1, -0.5, 0, -2, -1.5, 0.2, -0.8], target: 0 },
  tie: { logits: [2, 2, 0, -1, 2, -2, 0, -1, -2, 0], target: 1 },
};
const ARROW = { middle: 70, reach: 64 };

function makeArrow() {
  const upright = (kind, from, to) => element("line", { class: kind, x1: 70, x2: 70, y1: from, y2: to, "stroke-width": 1.5 });
  const shaft = element("line", { class: "shaft", x1: 70, y1: 10, y2: 10, "stroke-width": 5 });
  const parts = [upright("axis", 0, 20), shaft, element("polygon", { class: "tip" }), upright("base", 2, 18)];
  return element("svg", { viewBox: "0 0 140 20", "aria-hidden": "true" }, ...parts);
}

// No gradient is longer than 1 + alpha.
function setArrow(svg, base, gradient, alpha) {
  const at = (slope) => ARROW.middle - (ARROW.reach * slope) / (1 + alpha);
  const [tip, side] = [at(gradient), gradient > 0 ? 1 : -1];
  // A short arrow is only a tip.
  const neck = ARROW.middle - side * Math.max(side * (ARROW.middle - tip) - 8, 0);
  svg.querySelector(".shaft").setAttribute("x2", neck.toFixed(2));
  svg.querySelector(".tip").setAttribute("points", `${tip.toFixed(2)},10 ${neck.toFixed(2)},4 ${neck.toFixed(2)},16`);
  for (const end of ["x1", "x2"]) svg.querySelector(".base").setAttribute(end, at(base).toFixed(2));
}

function makeRow(k, isTrue) {
  const radio = element("input", { type: "radio", name: "target", value: k, "aria-label": `${NAMES[k]} is the true class` });
  radio.checked = isTrue;
  const slider = element("input", { type: "range", id: `logit-${k}`, min: -6, max: 6, step: 0.1, "aria-label": `Logit of class ${NAMES[k]}` });
  const pushes = Object.keys(LOSSES).map((name) =>
    element(
      "div",
      { class: `push ${name}`, "data-loss": name },
      element("span", { class: "name", "aria-hidden": "true" }, LOSSES[name].title),
      makeArrow(),
      element("span", { class: "hidden" }, `gradient of ${LOSSES[name].title} at ${NAMES[k]}: `),
      element("span", { class: "slope" }),
      element("div", { class: "added" }, ...(name === "ce" ? [] : [element("span", { class: "word" }, "added "), element("span")])),
    ),
  );
  return element(
    "div",
    { class: "row", "data-class": k },
    element("label", {}, radio, NAMES[k]),
    element("div", { class: "logit" }, slider, element("span", { class: "value", "aria-hidden": "true" })),
    element("div", { class: "chance" }, element("div", { class: "bar" }, element("i")), element("span")),
    ...pushes,
  );
}

function readSample() {
  const rows = [...document.querySelectorAll("#classes .row")];
  return {
    logits: rows.map((_, k) => numberOf(`logit-${k}`)),
    target: Number(document.querySelector("input[name=target]:checked").value),
    alpha: numberOf("alpha"),
    margin: numberOf("margin"),
  };
}

function setSample({ logits, target }) {
  const count = numberOf("count");
  byId("classes").replaceChildren(...logits.slice(0, count).map((_, k) => makeRow(k, k === Math.min(target, count - 1))));
  for (let k = 0; k < count; k += 1) byId(`logit-${k}`).value = logits[k];
  showSample();
}

function verdictOf({ logits, target, alpha }) {
  const top = topIndex(logits);
  const names = `The prediction is ${NAMES[top]}, the true class ${NAMES[target]}`;
  if (alpha === 0) return `${names}. At strength 0 all four losses are cross-entropy.`;
  if (top === target) return `${names}: right. LS and MaxSup are the same loss here, and both hold the true logit back.`;
  if (logits[top] === logits[target]) {
    return `${names}: a tie, which counts for the first. The term of MaxSup pushes down ${NAMES[top]} alone, that of LS ${NAMES[target]}.`;
  }
  return (
    `${names}: wrong. The term of LS pushes the true logit ${NAMES[target]} down, although it is too low already; ` +
    `that of MaxSup pushes down ${NAMES[top]}, the wrong answer, and spares ${NAMES[target]}.`
  );
}

function showRow(row, k, sample, chances, results) {
  const isTop = k === topIndex(sample.logits);
  row.classList.toggle("true", k === sample.target);
  row.classList.toggle("top", isTop);
  row.querySelector(".value").textContent = fixed(sample.logits[k], 1);
  row.querySelector(".bar i").style.width = `${100 * chances[k]}%`;
  row.querySelector(".chance span").textContent = percent(chances[k]);
  const words = [fixed(sample.logits[k], 1), `probability ${percent(chances[k])}`];
  if (k === sample.target) words.push("true class");
  if (isTop) words.push("predicted");
  byId(`logit-${k}`).setAttribute("aria-valuetext", words.join(", "));
  for (const [name, { base, gradient }] of Object.entries(results)) {
    const cell = row.querySelector(`.push.${name}`);
    cell.dataset.value = gradient[k];
    cell.querySelector(".slope").textContent = signed(gradient[k]);
    if (name !== "ce") cell.querySelector(".added").lastChild.textContent = signed(gradient[k] - base[k]);
    setArrow(cell.querySelector("svg"), base[k], gradient[k], sample.alpha);
  }
}

function showTerms(sample, results) {
  const rows = Object.entries(results).map(([name, { ce, penalty, total }]) => {
    const next = softmax(descend(name, sample.logits, sample, 1))[sample.target];
    const numbers = [ce, penalty, sample.alpha * penalty, total].map((value) => numberCell(value, fixed(value)));
    return [lossHead(name), ...numbers, numberCell(next, percent(next)), element("td", {}, LOSSES[name].term)];
  });
  fillTable("terms", rows);
  const gaps = sample.logits.map((logit) => sample.logits[sample.target] - logit);
  const [good, bad] = [mean(gaps.map((gap) => Math.max(gap, 0))), mean(gaps.map((gap) => Math.min(gap, 0)))];
  byId("halves").textContent =
    `The term of LS is a sum: ${fixed(good)} from logits below the true one (regularisation) and ${fixed(bad)} from logits ` +
    "above it (error amplification). The second is below 0 only where the prediction is wrong, and lowering the true logit then pays.";
}

function showSample() {
  const sample = readSample();
  const { logits, target, alpha, margin } = sample;
  const results = {};
  for (const name of Object.keys(LOSSES)) results[name] = evaluateLoss(name, logits, target, alpha, margin);
  const chances = softmax(logits);
  document.querySelectorAll("#classes .row").forEach((row, k) => showRow(row, k, sample, chances, results));
  byId("verdict").textContent = verdictOf(sample);
  showTerms(sample, results);
  requestPath();
}

function speak() {
  // Screen readers hear only the end of a move, not every step of it.
  if (byId("spoken").textContent !== byId("verdict").textContent) byId("spoken").textContent = byId("verdict").textContent;
}

function startLogits() {
  byId("classes").addEventListener("input", showSample);
  document.querySelector("main").addEventListener("change", speak);
  watchSlider("alpha", 2, showSample);
  watchSlider("margin", 1, showSample);
  byId("count").addEventListener("change", () => {
    const { logits, target } = readSample();
    setSample({ logits: [...logits, ...EXAMPLES.wrong.logits.slice(logits.length)], target });
  });
  for (const button of document.querySelectorAll("[data-example]")) {
    button.addEventListener("click", () => {
      setSample(EXAMPLES[button.dataset.example]);
      speak();
    });
  }
  setSample(EXAMPLES.wrong);
}
