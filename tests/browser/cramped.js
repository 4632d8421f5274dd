// Words that are cut, and texts and controls that lie on each other.
() => {
  const found = [];
  const quoted = (element) => `${element.tagName}.${element.className} “${element.textContent.trim().slice(0, 40)}”`;
  const shown = (selector) =>
    [...document.querySelectorAll(selector)].filter(
      (each) => each.checkVisibility({ visibilityProperty: true }) && !each.closest(".skip, .unheard, svg"),
    );

  for (const element of shown("a, button, h1, h2, h3, th, td, dt, dd, label, summary, p")) {
    const scrolls = ["visible", "auto", "scroll"].includes(getComputedStyle(element).overflowX);
    if (!scrolls && !element.title && element.scrollWidth > element.clientWidth + 1) found.push(`cut: ${quoted(element)}`);
  }

  // On a phone a cell has its label in it, which only makes the cell scroll where it does not fit.
  for (const cell of shown("td[data-label]")) {
    if (cell.scrollHeight > cell.clientHeight + 1) found.push(`label beyond its cell: ${cell.dataset.label}, ${quoted(cell)}`);
  }

  const boxes = shown("a, button, input, select, textarea, h1, h2, h3, summary").flatMap((element) =>
    [...element.getClientRects()].filter((box) => box.width > 2 && box.height > 2).map((box) => [element, box]),
  );
  boxes.forEach(([one, a], at) => {
    for (const [other, b] of boxes.slice(at + 1)) {
      if (one.contains(other) || other.contains(one)) continue;
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (wide > 2 && high > 4) found.push(`on each other: ${quoted(one)}, ${quoted(other)}`);
    }
  });
  return found.slice(0, 10);
}
