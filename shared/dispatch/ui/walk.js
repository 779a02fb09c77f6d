// The keyboard and the pointer on a picture.

/** Let pointer and arrow keys walk along the items of a picture; it is one stop of the Tab key. */
export function walk(svg, items, tell, rest) {
  const order = [...items].sort((a, b) => a.at - b.at || a.y - b.y);
  for (const one of items) {
    svg.append(one.group);
    one.group.addEventListener("pointerenter", () => tell(one));
    one.group.addEventListener("focus", () => tell(one));
    one.group.addEventListener("pointerleave", () => {
      const held = order.find((it) => it.group === document.activeElement);
      if (held) tell(held);
      else rest();
    });
    one.group.addEventListener("click", () => focus(one));
  }
  if (order.length) order[0].group.setAttribute("tabindex", "0");
  const focus = (one) => {
    for (const it of items) it.group.setAttribute("tabindex", it === one ? "0" : "-1");
    one.group.focus();
  };
  svg.addEventListener("keydown", (event) => {
    const at = order.findIndex((it) => it.group === document.activeElement);
    if (at < 0) return;
    const next = target(order, at, event.key);
    if (!next) return;
    event.preventDefault();
    focus(next);
  });
}

function target(order, at, key) {
  const one = order[at];
  switch (key) {
    case "ArrowRight":
      return order[at + 1];
    case "ArrowLeft":
      return order[at - 1];
    case "Home":
      return order[0];
    case "End":
      return order.at(-1);
    case "ArrowDown":
      return nearest(
        order.filter((it) => it.y > one.y),
        one,
        1,
      );
    case "ArrowUp":
      return nearest(
        order.filter((it) => it.y < one.y),
        one,
        -1,
      );
    default:
      return undefined;
  }
}

/** The item in the next lane that has any, nearest in time. */
function nearest(others, one, way) {
  const lanes = others.map((it) => it.y);
  const y = way > 0 ? Math.min(...lanes) : Math.max(...lanes);
  return others
    .filter((it) => Math.abs(it.y - y) < 12)
    .sort((a, b) => Math.abs(a.x - one.x) - Math.abs(b.x - one.x))[0];
}
