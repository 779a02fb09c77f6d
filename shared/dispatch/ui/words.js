// Times, lengths of time and states as people read them.

import { h, s } from "./dom.js";

const ZONE = "dispatch.zone";

/** Whether times are shown in UTC; else in the zone of this machine, as its clock stands now. */
export const inUtc = () => sessionStorage.getItem(ZONE) === "utc";

export function showUtc(yes) {
  if (yes) sessionStorage.setItem(ZONE, "utc");
  else sessionStorage.removeItem(ZONE);
}

/** Minutes that the shown clock is ahead of UTC: one for the whole page, as in the stories. */
export const offsetMin = () => (inUtc() ? 0 : -new Date().getTimezoneOffset());

export function zoneName() {
  const min = offsetMin();
  if (!min) return "UTC";
  const two = (n) => String(n).padStart(2, "0");
  return `UTC${min < 0 ? "−" : "+"}${two(Math.floor(Math.abs(min) / 60))}:${two(Math.abs(min) % 60)}`;
}

const shown = (at) => new Date(at.getTime() + offsetMin() * 60000).toISOString();
const day = (at) => shown(at).slice(0, 10);

/** The time to the second, without its date today. */
export function clock(text, { now = new Date(), date = false } = {}) {
  const at = new Date(text);
  const time = shown(at).slice(11, 19);
  return date || day(at) !== day(now) ? `${day(at)} ${time}` : time;
}

/** A length of time in its two largest units. */
export function lasting(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${(Math.round(seconds * 10) / 10).toString()} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return two(Math.floor(whole / 60), "min", whole % 60, "s");
  const min = Math.floor(whole / 60);
  if (min < 1440) return two(Math.floor(min / 60), "h", min % 60, "min");
  return two(Math.floor(min / 1440), "d", Math.floor((min % 1440) / 60), "h");
}

function two(large, unit, small, lesser) {
  return small ? `${large} ${unit} ${small} ${lesser}` : `${large} ${unit}`;
}

/** How long ago, coarsely: for lists. */
export function ago(text) {
  const ms = Date.now() - new Date(text).getTime();
  if (ms < -5000) return `in ${lasting(-ms)}`;
  if (ms < 5000) return "just now";
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** A time as an element that says how long ago it was, and goes on saying so. */
export function when(text) {
  if (!text) return h("span", { class: "quiet" }, "never");
  return h(
    "time",
    { datetime: text, "data-ago": true, title: `${clock(text, { date: true })} ${zoneName()}` },
    ago(text),
  );
}

/** Bring every relative time up to date. */
export function tickTimes() {
  for (const one of document.querySelectorAll("time[data-ago]")) {
    one.textContent = ago(one.getAttribute("datetime"));
  }
}

export const counted = (n, word, plural = `${word}s`) =>
  `${n.toLocaleString("en")} ${n === 1 ? word : plural}`;

// --- states: a shape and a word each, never a colour alone ---

const SHAPES = {
  pending: ["M8 4.5V8l2.3 1.6", { ring: true }],
  waiting: ["M8 4.5V8l2.3 1.6", { ring: true }],
  starting: ["M8 12.5v-9M4.5 7 8 3.5 11.5 7", {}],
  running: ["M5.5 3.8v8.4L12 8z", { solid: true }],
  held: ["M5.8 4v8M10.2 4v8", {}],
  stopping: ["M4.5 4.5h7v7h-7z", { solid: true }],
  ended: ["M4.5 4.5h7v7h-7z", {}],
  succeeded: ["M3.5 8.5 6.7 11.5 12.5 4.8", {}],
  failed: ["M4.3 4.3l7.4 7.4M11.7 4.3 4.3 11.7", {}],
  cancelled: ["M4 12 12 4", { ring: true }],
  unreadable: ["M8 4.2v4.6M8 11.6v.2", { ring: true }],
  tombstoned: ["M4 8h8", {}],
  person: [
    "M8 7.4A2.7 2.7 0 1 0 8 2a2.7 2.7 0 0 0 0 5.4ZM2.8 14c.6-2.9 2.6-4.3 5.2-4.3s4.6 1.4 5.2 4.3",
    {},
  ],
  ok: ["M3.5 8.5 6.7 11.5 12.5 4.8", {}],
  late: ["M8 4.5V8l2.3 1.6", { ring: true }],
  trouble: ["M8 4.2v4.6M8 11.6v.2", { ring: true }],
  never: ["M4 8h8", { ring: true }],
};

export function icon(name) {
  const [path, { ring, solid }] = SHAPES[name] ?? SHAPES.ended;
  return s(
    "svg",
    { class: `icon${solid ? " solid" : ""}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    ring ? s("circle", { cx: 8, cy: 8, r: 6.2 }) : "",
    s("path", { d: path }),
  );
}

/** A state as a pill: a shape, a word, and a colour that only helps. */
export function badge(name, text = name) {
  return h("span", { class: `badge is-${name}` }, icon(name), h("span", {}, text));
}

/** The one word for a listed job or a status. */
export function stateOf(line) {
  const told = line.summary ?? line;
  if (line.tombstoned) return "tombstoned";
  if (told.refusal) return "unreadable";
  return told.outcome ?? told.state ?? (line.settled_at ? "ended" : "pending");
}

/** Whether somebody has to decide something. */
export function asksPerson(told) {
  return Boolean(told) && (told.waiting_for ?? []).some((one) => one.what === "person");
}
