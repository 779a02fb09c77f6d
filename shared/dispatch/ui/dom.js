// Elements made of text, never of markup: whatever a record says stays words.

const SVG = "http://www.w3.org/2000/svg";

function put(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "key") node.dataset.key = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...flat(children));
  return node;
}

function flat(children) {
  return children
    .flat(Infinity)
    .filter((one) => one !== undefined && one !== null && one !== false && one !== "")
    .map((one) => (one instanceof Node ? one : String(one)));
}

/** An HTML element; `key` lets focus and open details survive a refresh. */
export function h(tag, attributes, ...children) {
  return put(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return put(document.createElementNS(SVG, tag), attributes, children);
}

/** Put fresh children into an element, and leave focus, caret and open details where they were. */
export function fill(parent, ...children) {
  const held = document.activeElement;
  const key = parent.contains(held) ? held.dataset.key : undefined;
  const caret = key && "selectionStart" in held ? held.selectionStart : null;
  const open = [...parent.querySelectorAll("details[open][data-key]")].map((d) => d.dataset.key);
  parent.replaceChildren(...flat(children));
  for (const one of parent.querySelectorAll("details[data-key]")) {
    if (open.includes(one.dataset.key)) one.open = true;
  }
  if (key === undefined) return;
  const again = [...parent.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
  if (!again) return;
  again.focus({ preventScroll: true });
  if (caret !== null && again.setSelectionRange) again.setSelectionRange(caret, caret);
}

/** Tell a screen reader; nothing is said twice in a row. */
export function say(text) {
  const said = document.getElementById("said");
  if (said.textContent !== text) said.textContent = text;
}

/** What stands where data will be. */
export function loading(what) {
  const bars = Array.from({ length: 5 }, () => h("div", { class: "bar" }));
  return h(
    "div",
    { class: "loading", "aria-busy": "true" },
    h("p", { class: "unseen" }, `Loading ${what}`),
    bars,
  );
}

/** What is said where there is nothing, and what to do about it. */
export function empty(title, ...then) {
  return h("div", { class: "empty" }, h("p", { class: "empty-title" }, title), h("p", {}, then));
}

/** Why a question wasn't answered, in words that say what to do. */
export class Problem extends Error {
  constructor(kind, title, message, then, code) {
    super(message);
    Object.assign(this, { kind, title, then, code });
  }
}

/** Why something can't be shown, and what to do. */
export function failed(error, again) {
  return h(
    "div",
    { class: "note note-bad", role: "alert" },
    h("p", { class: "note-title" }, error.title ?? "It can't be shown"),
    h("p", {}, error.message),
    error.then ? h("p", {}, error.then) : "",
    again
      ? h(
          "p",
          {},
          h(
            "button",
            { type: "button", class: "button", onclick: again, key: "again" },
            "Try again",
          ),
        )
      : "",
  );
}

/** A command's words: it is wrapped between them, and never behind a hyphen of an option. */
function words(text) {
  return text.split(" ").flatMap((one, n) => [n ? " " : "", h("span", { class: "word" }, one)]);
}

/** A command with a button that copies it. */
export function command(text, purpose) {
  const button = h(
    "button",
    {
      type: "button",
      class: "copy",
      "aria-label": `Copy ${text}`,
      key: `copy ${text}`,
      onclick: async () => {
        try {
          await navigator.clipboard.writeText(text);
          button.textContent = "Copied";
          say("Copied");
        } catch {
          button.textContent = "Select it";
          say("The browser doesn't let this page copy; select the text instead");
        }
        setTimeout(() => {
          button.textContent = "Copy";
        }, 2000);
      },
    },
    "Copy",
  );
  return h(
    "li",
    { class: "command" },
    h("div", { class: "command-line" }, h("code", {}, words(text)), button),
    purpose ? h("p", {}, purpose) : "",
  );
}
