// Keys for those who like them. Everything that they do, links and fields on the page do too.
//
//   j k      next and previous [data-row], whose first link gets the focus, so that Enter opens it
//   n p      the link [data-next] and [data-previous]; where there is none, the next and previous [data-stop] on the page
//   /        the field [data-search]
//   g r      runs
//   ?        the list of keys
//   Esc      leaves a field, closes the list
//
// While somebody types, and with any modifier, keys are the browser's.

const TYPED = "input:not([type=checkbox]):not([type=radio]):not([type=submit]), textarea, select, [contenteditable]";
const SEQUENCE_MS = 1500;

const list = document.getElementById("keys");
let goPressedAt = -Infinity;

// The list is there for whoever does not know the key for it.
for (const button of document.querySelectorAll("[data-keys]")) {
  button.hidden = false;
  button.addEventListener("click", () => list.showModal());
}

const KEYS = {
  j: () => step("[data-row]", 1),
  k: () => step("[data-row]", -1),
  n: () => follow("[data-next]") || step("[data-stop]", 1),
  p: () => follow("[data-previous]") || step("[data-stop]", -1),
  "/": () => search(),
  g: (event) => (goPressedAt = event.timeStamp),
  r: (event) => event.timeStamp - goPressedAt < SEQUENCE_MS && location.assign("/runs"),
  "?": () => list && !list.open && list.showModal(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (event.target.closest?.(TYPED)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (list?.open || !Object.hasOwn(KEYS, event.key)) return;
  if (KEYS[event.key](event)) event.preventDefault();
});

// Return whether there was anything to go to: else the key stays the browser's.
function step(selector, by) {
  const stops = [...document.querySelectorAll(selector)].filter((stop) => stop.checkVisibility());
  if (!stops.length) return false;
  const at = stops.findIndex((stop) => stop.classList.contains("at"));
  const next = stops[at < 0 ? (by > 0 ? 0 : stops.length - 1) : Math.min(Math.max(at + by, 0), stops.length - 1)];
  for (const stop of stops) stop.classList.toggle("at", stop === next);
  (next.querySelector("a[href], button") ?? focusable(next)).focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  return true;
}

function focusable(element) {
  if (!element.hasAttribute("tabindex")) element.tabIndex = -1;
  return element;
}

function follow(selector) {
  const link = document.querySelector(selector);
  link?.click();
  return Boolean(link);
}

function search() {
  const field = document.querySelector("[data-search]");
  field?.focus();
  field?.select?.();
  return Boolean(field);
}
