// A network of 2 inputs, 12 tanh units, 2 features and 3 logits; full-batch gradient descent with momentum.
const NETWORK = { inputs: 2, hidden: 12, features: 2, classes: 3, perClass: 30, rate: 0.2, momentum: 0.9 };

// A small generator that gives the same numbers everywhere, unlike Math.random.
function makeRandom(seed) {
  let state = seed >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let bits = Math.imul(state ^ (state >>> 15), state | 1);
    bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

function makePoints(normal) {
  return Array.from({ length: NETWORK.classes * NETWORK.perClass }, (_, i) => {
    const label = i % NETWORK.classes;
    const angle = (2 * Math.PI * label) / NETWORK.classes + Math.PI / 2;
    return { label, input: [1.2 * Math.cos(angle) + 0.85 * normal(), 1.2 * Math.sin(angle) + 0.85 * normal()] };
  });
}

function makeMatrix(rows, columns, fill) {
  return Array.from({ length: rows }, () => Array.from({ length: columns }, fill));
}

// Each layer is a matrix of inputs + 1 rows; the last row is the bias.
function makeLayers(normal) {
  const layer = (inputs, outputs, gain) => [
    ...makeMatrix(inputs, outputs, () => (gain * normal()) / Math.sqrt(inputs)),
    Array(outputs).fill(0),
  ];
  const { inputs, hidden, features, classes } = NETWORK;
  return [layer(inputs, hidden, 1.5), layer(hidden, features, 1), layer(features, classes, 1)];
}

function applyLayer(layer, input) {
  return layer[input.length].map((bias, j) => input.reduce((sum, value, i) => sum + value * layer[i][j], bias));
}

function forward(layers, input) {
  const hidden = applyLayer(layers[0], input).map(Math.tanh);
  const features = applyLayer(layers[1], hidden);
  return { hidden, features, logits: applyLayer(layers[2], features) };
}

// Add the layer's gradient to `slopes`, return the gradient of its input.
function backLayer(layer, slopes, input, above) {
  above.forEach((slope, j) => {
    input.forEach((value, i) => (slopes[i][j] += value * slope));
    slopes[input.length][j] += slope;
  });
  return input.map((_, i) => above.reduce((sum, slope, j) => sum + slope * layer[i][j], 0));
}

function makeToy(loss, seed) {
  const normal = makeRandom(seed);
  const points = makePoints(normal);
  const layers = makeLayers(normal);
  const velocity = layers.map((layer) => layer.map((row) => row.map(() => 0)));
  return { loss, points, layers, velocity, steps: 0 };
}

// One step; returns the loss before it.
function trainToy(toy, alpha) {
  const slopes = toy.layers.map((layer) => layer.map((row) => row.map(() => 0)));
  let total = 0;
  for (const { input, label } of toy.points) {
    const { hidden, features, logits } = forward(toy.layers, input);
    const found = evaluateLoss(toy.loss, logits, label, alpha, 0);
    total += found.total / toy.points.length;
    const above = found.gradient.map((slope) => slope / toy.points.length);
    const toFeatures = backLayer(toy.layers[2], slopes[2], features, above);
    const toHidden = backLayer(toy.layers[1], slopes[1], hidden, toFeatures);
    backLayer(toy.layers[0], slopes[0], input, toHidden.map((slope, j) => slope * (1 - hidden[j] ** 2)));
  }
  toy.layers.forEach((layer, l) =>
    layer.forEach((row, i) =>
      row.forEach((_, j) => {
        toy.velocity[l][i][j] = NETWORK.momentum * toy.velocity[l][i][j] + slopes[l][i][j];
        row[j] -= NETWORK.rate * toy.velocity[l][i][j];
      }),
    ),
  );
  toy.steps += 1;
  return total;
}

function squaredDistance(a, b) {
  return a.reduce((sum, value, i) => sum + (value - b[i]) ** 2, 0);
}

function centre(rows) {
  return rows[0].map((_, i) => mean(rows.map((row) => row[i])));
}

function measureToy(toy) {
  const seen = toy.points.map(({ input, label }) => {
    const { features, logits } = forward(toy.layers, input);
    return { features, input, label, isRight: topIndex(logits) === label, confidence: Math.max(...softmax(logits)) };
  });
  const middle = centre(seen.map((point) => point.features));
  const middles = Array.from({ length: NETWORK.classes }, (_, k) =>
    centre(seen.filter((point) => point.label === k).map((point) => point.features)),
  );
  const whole = mean(seen.map((point) => squaredDistance(point.features, middle)));
  const within = mean(seen.map((point) => squaredDistance(point.features, middles[point.label])));
  const confidence = (isRight) => mean(seen.filter((point) => point.isRight === isRight).map((point) => point.confidence));
  return {
    seen,
    middle,
    reach: Math.max(...seen.flatMap((point) => point.features.map((value, i) => Math.abs(value - middle[i])))),
    accuracy: mean(seen.map((point) => Number(point.isRight))),
    spread: within / whole,
    whenRight: confidence(true),
    whenWrong: confidence(false),
  };
}
