// While a bundle is sent the page stays: a moment after it was asked for, its state is looked at, and looks again by itself
// for as long as it is being made.

const BEGUN_MS = 400;
const AGAIN_MS = 3000;

for (const form of document.querySelectorAll("form[data-look]")) {
  form.addEventListener("submit", () => {
    // The second look is for a bundle whose first piece took longer.
    for (const wait of [BEGUN_MS, AGAIN_MS]) {
      setTimeout(() => window.htmx?.trigger(form.dataset.look, "look"), wait);
    }
  });
}
