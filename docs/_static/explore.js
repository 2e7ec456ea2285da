// A frame with the page to play with has colours of its own and cannot see the site's switch; a file may only send messages.
for (const frame of document.querySelectorAll("iframe.explore")) {
  const tell = () => frame.contentWindow.postMessage({ theme: document.body.dataset.theme }, "*");
  frame.addEventListener("load", tell);
  tell();
  new MutationObserver(tell).observe(document.body, { attributeFilter: ["data-theme"] });
}
