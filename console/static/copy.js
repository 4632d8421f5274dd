// Buttons that copy: data-copy holds the text itself, data-copy-from names the element whose text is meant.
// Without a clipboard (no TLS, no permission) the text is selected instead, so that one's own keys copy it.

const SAID_MS = 2000;

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("[data-copy], [data-copy-from]");
  if (!button) return;
  event.preventDefault();
  const source = button.dataset.copyFrom ? document.querySelector(button.dataset.copyFrom) : null;
  const text = button.dataset.copy ?? source?.value ?? source?.textContent ?? "";
  if (await copied(text)) {
    say(button, "Copied");
  } else if (source) {
    getSelection().selectAllChildren(source);
    say(button, "Selected: copy it with your own keys");
  } else {
    say(button, "The browser does not let this page copy");
  }
});

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

// Said beside the button for a moment, and aloud.
function say(button, words) {
  const before = (button.dataset.said ??= button.textContent);
  button.textContent = words;
  document.getElementById("said").textContent = words;
  clearTimeout(Number(button.dataset.until));
  button.dataset.until = String(
    setTimeout(() => {
      button.textContent = before;
      document.getElementById("said").textContent = "";
    }, SAID_MS),
  );
}
