// What stands beyond the sides of the window, unless it is in something that scrolls by itself, or is meant for ears only.
() => {
  const root = document.documentElement, found = [];
  if (root.scrollWidth > root.clientWidth) found.push(`the page scrolls: ${root.scrollWidth} > ${root.clientWidth}`);
  const contained = (element) => {
    for (let at = element.parentElement; at && at !== document.body; at = at.parentElement) {
      if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX)) return true;
    }
    return false;
  };
  for (const element of document.body.querySelectorAll("*")) {
    if (!element.checkVisibility({ visibilityProperty: true })) continue;
    const box = element.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1 || element.closest(".skip, .unheard")) continue;
    if ((box.right > root.clientWidth + 1 || box.left < -1) && !contained(element)) {
      found.push(`beyond: ${element.tagName}.${element.className} ${Math.round(box.left)}…${Math.round(box.right)}`);
    }
  }
  return found.slice(0, 10);
}
