// Value and gradient of each loss at one row of logits, as in maxsup.losses.
function topIndex(logits) {
  // Of equal logits the first.
  return logits.indexOf(Math.max(...logits));
}

function mean(values) {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}

function logSumExp(logits) {
  const top = Math.max(...logits);
  return top + Math.log(logits.reduce((sum, logit) => sum + Math.exp(logit - top), 0));
}

function softmax(logits) {
  const total = logSumExp(logits);
  return logits.map((logit) => Math.exp(logit - total));
}

function gapAbove(index, logits) {
  const gradient = logits.map((_, k) => (k === index) - 1 / logits.length);
  return { value: logits[index] - mean(logits), gradient };
}

function marginGap(logits, margin) {
  const top = topIndex(logits);
  if (margin === 0) return gapAbove(top, logits);
  const excess = logits.map((logit) => Math.max(logits[top] - logit - margin, 0));
  const gradient = excess.map((value) => (value > 0 ? -1 / logits.length : 0));
  gradient[top] += excess.filter((value) => value > 0).length / logits.length;
  return { value: mean(excess), gradient };
}

const LOSSES = {
  ce: { title: "CE", term: "none", penalty: (logits) => ({ value: 0, gradient: logits.map(() => 0) }) },
  ls: { title: "LS", term: "true logit − mean", penalty: (logits, target) => gapAbove(target, logits) },
  maxsup: { title: "MaxSup", term: "top logit − mean", penalty: (logits) => gapAbove(topIndex(logits), logits) },
  mbls: {
    title: "MbLS",
    term: "mean of what lies more than the margin below the top",
    penalty: (logits, target, margin) => marginGap(logits, margin),
  },
};

function evaluateLoss(name, logits, target, alpha, margin) {
  const penalty = LOSSES[name].penalty(logits, target, margin);
  const ce = logSumExp(logits) - logits[target];
  const base = softmax(logits).map((chance, k) => chance - (k === target));
  return {
    ce,
    penalty: penalty.value,
    total: ce + alpha * penalty.value,
    base,
    gradient: base.map((slope, k) => slope + alpha * penalty.gradient[k]),
  };
}

function descend(name, logits, { target, alpha, margin }, size) {
  const { gradient } = evaluateLoss(name, logits, target, alpha, margin);
  return logits.map((logit, k) => logit - size * gradient[k]);
}
