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
