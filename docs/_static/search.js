// Ranks PAGES (written by tools/site/search.py) for the words of the address, and shows where they stand.
const WEIGHTS = { guide: 1.5, card: 1.25, api: 1, claim: 0.7, other: 0.6 };
const SKIPPED = new Set(["a", "an", "and", "do", "does", "for", "how", "i", "in", "is", "my", "of", "on", "or", "the", "to", "use", "what", "with"]);
const SHOWN = 30;

const wordsOf = (text) => text.toLowerCase().match(/[\p{L}\p{N}_.]+/gu) ?? [];

function asked(query) {
  const words = wordsOf(query);
  const kept = words.filter((word) => !SKIPPED.has(word));
  return kept.length > 0 ? kept : words;
}

// How well one word fits a text: a whole word counts more than the beginning of one.
function fit(word, text, whole, start) {
  let best = 0;
  for (const found of wordsOf(text)) {
    if (found === word) return whole;
    if (found.startsWith(word) || (word.length > 4 && found.length > 3 && word.startsWith(found))) best = start;
  }
  return best;
}

function score(page, words, phrase) {
  let total = 0;
  let missing = 0;
  for (const word of words) {
    const inTitle = fit(word, page.title, 12, 7) + fit(word, page.terms, 12, 6);
    const inHeadings = fit(word, page.headings.join(" "), 5, 3);
    const times = page.lower.split(word).length - 1;
    const found = inTitle + inHeadings + Math.min(times, 8) / 4;
    if (found === 0) missing += 1;
    total += found;
  }
  if (missing === words.length) return 0;
  if (words.length > 1) {
    if (page.title.toLowerCase().includes(phrase) || page.terms.includes(phrase)) total += 16;
    else if (page.headings.some((heading) => heading.toLowerCase().includes(phrase))) total += 7;
    else if (page.lower.includes(phrase)) total += 2;
  }
  return total * WEIGHTS[page.kind] * 0.25 ** missing;
}

function ranked(query) {
  const words = asked(query);
  const phrase = words.join(" ");
  return PAGES.map((page) => ({ page, points: score(page, words, phrase) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .map(({ page }) => page);
}

function snippet(page, words) {
  const places = words.map((word) => page.lower.indexOf(word)).filter((place) => place >= 0);
  const place = Math.max(0, Math.min(...(places.length > 0 ? places : [0])) - 60);
  const text = page.text.slice(place, place + 220);
  const line = document.createElement("p");
  line.append(place > 0 ? "… " : "");
  const pattern = new RegExp(`(${words.map((word) => word.replace(/[.]/g, "\\.")).join("|")})`, "giu");
  text.split(pattern).forEach((part, index) => {
    const node = index % 2 ? document.createElement("mark") : document.createElement("span");
    node.textContent = part;
    line.append(node);
  });
  line.append(" …");
  return line;
}

function showResults(query) {
  const words = asked(query);
  const pages = words.length > 0 ? ranked(query) : [];
  document.getElementById("search-count").textContent =
    words.length === 0 ? "Type what you look for." : pages.length === 0 ? `Nothing has “${query}”.` : `${pages.length} ${pages.length === 1 ? "page" : "pages"}`;
  const items = pages.slice(0, SHOWN).map((page) => {
    const link = document.createElement("a");
    link.href = page.url;
    link.textContent = page.title;
    const kind = document.createElement("span");
    kind.className = "kind";
    kind.textContent = { guide: "guide", card: "loss", api: "reference", claim: "evidence", other: "" }[page.kind];
    const item = document.createElement("li");
    item.append(link, " ", kind, snippet(page, words));
    return item;
  });
  document.getElementById("search-results").replaceChildren(...items);
}

for (const page of PAGES) page.lower = page.text.toLowerCase();
const query = new URLSearchParams(location.search).get("q") ?? "";
for (const field of document.querySelectorAll("input[name=q]")) field.value = query;
document.querySelector("#search-form input").addEventListener("input", ({ target }) => showResults(target.value));
showResults(query);
