// A button on each block of code copies it, without prompts and without what the program printed.
function codeOf(block) {
  const lines = block.textContent.replace(/\n$/, "").split("\n");
  const isSession = lines.some((line) => /^(>>> |\$ )/.test(line));
  return (isSession ? lines.filter((line) => /^(>>> |\.\.\. |\$ )/.test(line)).map((line) => line.replace(/^(>>> |\.\.\. |\$ )/, "")) : lines).join("\n");
}

for (const block of document.querySelectorAll("div.highlight > pre")) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "copy";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(codeOf(block));
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.parentElement.append(button);
}
