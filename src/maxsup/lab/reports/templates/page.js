"use strict";
// Without this script tables are still readable, in their original order.
const collator = new Intl.Collator("en", { numeric: true });

function keyOf(row, column) {
  const cell = row.cells[column];
  const value = cell.dataset.value;
  return value ? Number(value) : cell.classList.contains("number") ? NaN : cell.textContent.trim();
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") {
    // Missing values come last in both directions.
    return Number.isNaN(a) || Number.isNaN(b) ? Number.isNaN(a) - Number.isNaN(b) : a - b;
  }
  return collator.compare(a, b);
}

function sortBy(head) {
  const table = head.closest("table");
  const body = table.tBodies[0];
  const isDown = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const rows = [...body.rows].map((row) => [keyOf(row, head.cellIndex), row]);
  const isMissing = (key) => typeof key === "number" && Number.isNaN(key);
  rows.sort(([a], [b]) => (isDown && !isMissing(a) && !isMissing(b) ? compare(b, a) : compare(a, b)));
  body.append(...rows.map(([, row]) => row));
}

for (const button of document.querySelectorAll("table.sortable thead button")) {
  button.addEventListener("click", () => sortBy(button.closest("th")));
}

// A long table gets a field that hides the rows without the words typed.
const FILTERED_FROM = 6;
for (const table of document.querySelectorAll("table.sortable")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < FILTERED_FROM) continue;
  const field = document.createElement("input");
  field.type = "search";
  field.className = "filter";
  field.placeholder = "Filter rows";
  field.setAttribute("aria-label", `Filter rows of: ${table.caption.textContent.trim()}`);
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  table.closest(".scroll").before(field);
}

// The picture as a file of its own: black on white, whatever the colours of the page are.
function svgFile(plot) {
  const copy = plot.cloneNode(true);
  copy.setAttribute("color", "black");
  copy.setAttribute("font-family", "sans-serif");
  for (const paint of ["fill", "stroke"]) {
    for (const part of copy.querySelectorAll(`.paper-${paint}`)) part.setAttribute(paint, "white");
  }
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}

for (const plot of document.querySelectorAll("figure svg.plot, figure img.plot")) {
  const data = plot.closest("figure").querySelector("a.download");
  const link = document.createElement("a");
  const isVector = plot.localName === "svg";
  link.className = "download picture";
  link.textContent = isVector ? "Download the picture (SVG)" : "Download the picture (PNG)";
  link.download = data.download.replace(/csv$/, isVector ? "svg" : "png");
  link.href = isVector ? "#" : plot.src;
  if (isVector) {
    link.addEventListener("click", () => {
      link.href = URL.createObjectURL(svgFile(plot));
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }
  data.after(" ", link);
}
