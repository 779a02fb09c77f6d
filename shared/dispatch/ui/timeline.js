// A record as a picture along time: lanes, what lasted, what happened. One stop of the Tab key; the
// arrow keys walk along it, and the entries below say the same in a table.

import { h, s } from "./dom.js";
import { clusters, scaleOf, ticksOf } from "./scale.js";
import { walk } from "./walk.js";
import { clock, counted, lasting, zoneName } from "./words.js";

const LANE = 30;
const TOP = 30;
const SHAPES = {
  evidence: "circle",
  people: "flag",
  told: "alarm",
  job: "end",
  holds: "alarm",
  asks: "alarm",
  calls: "gate",
  submission: "diamond",
  start: "gate",
  foreign: "circle",
};

/** The picture of a timeline, with its legend and the words of what is pointed at. */
export function picture(line, params) {
  if (!line.lanes.length)
    return h("p", {}, "Nothing of it can be drawn; the entries below are what there is.");
  const steps = params.get("scale") === "steps";
  const detail = h("div", { class: "tl-detail", "aria-hidden": "true" });
  const holder = h("div", { class: "tl" });
  const rest = () => {
    detail.replaceChildren(
      h(
        "span",
        { class: "quiet" },
        "Point at something, or press Tab and the arrow keys, to read what it is.",
      ),
    );
  };
  const tell = (item) => {
    detail.replaceChildren(
      h("strong", {}, item.title),
      h("span", { class: "quiet" }, ` ${item.when}`),
      h("br"),
      item.words,
    );
  };
  rest();
  const draw = (width) => holder.replaceChildren(drawn(line, width, steps, tell, rest));
  const watch = new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width && width !== holder.dataset.width * 1) {
      holder.dataset.width = width;
      draw(width);
    }
  });
  watch.observe(holder);
  const link = (title, value) => {
    const next = new URLSearchParams(params);
    if (value) next.set("scale", value);
    else next.delete("scale");
    const query = next.toString();
    return h(
      "a",
      {
        href: `#/jobs/${encodeURIComponent(line.job_id)}${query ? `?${query}` : ""}`,
        "aria-current": (value === "steps") === steps ? "true" : null,
        key: `scale ${title}`,
      },
      title,
    );
  };
  return [
    h(
      "div",
      { class: "tl-top" },
      h(
        "div",
        { class: "segments small", role: "group", "aria-label": "Scale" },
        link("To scale", ""),
        link("Every step", "steps"),
      ),
      legend(),
    ),
    holder,
    detail,
  ];
}

function legend() {
  const one = (name, text) => h("li", {}, h("span", { class: `swatch tl-${name}` }), text);
  return h(
    "ul",
    { class: "legend", "aria-label": "Legend" },
    one("waiting", "waits"),
    one("running", "runs"),
    one("succeeded", "succeeded"),
    one("failed", "failed or gone"),
    one("sent", "not known yet"),
    one("user", "held"),
  );
}

// --- the drawing ---

function drawn(line, width, steps, tell, rest) {
  const narrow = width < 620;
  const left = narrow ? 8 : 178;
  const right = width - 14;
  const lane = narrow ? LANE + 14 : LANE;
  const words = new Map(line.lines.map((one) => [one.entry, one]));
  const until = Date.parse(line.now ?? line.lines.at(-1).at);
  const ends = [
    ...line.spans.flatMap((one) => [Date.parse(one.start), one.end ? Date.parse(one.end) : until]),
    ...line.marks.map((one) => Date.parse(one.at)),
  ];
  const scale = scaleOf(ends, left, right, steps);
  const height = TOP + line.lanes.length * lane + 6;
  const row = new Map(line.lanes.map((one, n) => [one.id, TOP + n * lane]));
  const items = [];
  const svg = s("svg", {
    class: "tl-svg",
    width,
    height,
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label":
      `Picture of ${counted(line.lanes.length, "lane")} along time; use the arrow keys. ` +
      "The entries below say the same.",
  });
  svg.append(hatch());
  axis(svg, scale, { left, right, height, steps });
  for (const [n, one] of line.lanes.entries())
    svg.append(laneRow(one, n, { lane, left, right, width, narrow }));
  const base = narrow ? 14 : 0;
  for (const one of line.spans)
    items.push(
      span(one, { scale, y: row.get(one.lane) + base, until, lane: laneOf(line, one.lane) }),
    );
  for (const one of clusters(line.marks, scale))
    items.push(mark(one, { y: row.get(one.lane) + base, lane: laneOf(line, one.lane), words }));
  walk(svg, items, tell, rest);
  return svg;
}

const laneOf = (line, id) => line.lanes.find((one) => one.id === id);

function hatch() {
  return s(
    "defs",
    {},
    s(
      "pattern",
      {
        id: "tl-hatch",
        width: 6,
        height: 6,
        patternUnits: "userSpaceOnUse",
        patternTransform: "rotate(45)",
      },
      s("rect", { width: 6, height: 6, class: "hatch-back" }),
      s("rect", { width: 2.2, height: 6, class: "hatch-line" }),
    ),
  );
}

function axis(svg, scale, { left, right, height, steps }) {
  const now = new Date(scale.first);
  for (const one of ticksOf(scale, left, right, steps)) {
    const x = scale.at(one);
    svg.append(s("line", { class: "tl-grid", x1: x, x2: x, y1: 20, y2: height - 4 }));
    const anchor = x > right - 40 ? "end" : x < left + 30 ? "start" : "middle";
    svg.append(
      s(
        "text",
        {
          class: "tl-tick",
          x: Math.min(x, right),
          y: 13,
          "text-anchor": anchor,
          "aria-hidden": "true",
        },
        clock(new Date(one), { now }),
      ),
    );
  }
}

function laneRow(one, n, { lane, left, right, width, narrow }) {
  const y = TOP + n * lane;
  const inner = one.kind === "start" || one.kind === "foreign";
  const most = narrow ? 44 : inner ? 22 : 25;
  const plain = one.kind === "start" && !narrow ? one.title.split(":")[0] : one.title;
  const title = plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
  return s(
    "g",
    { "aria-hidden": "true" },
    n % 2 ? "" : s("rect", { class: "tl-stripe", x: 0, y: y - 2, width, height: lane, rx: 4 }),
    s(
      "text",
      {
        class: `tl-lane${inner ? " tl-inner" : ""}`,
        x: narrow ? 8 : inner ? 22 : 8,
        y: narrow ? y + 10 : y + 17,
      },
      title,
      s("title", {}, one.title),
    ),
    s("line", {
      class: "tl-base",
      x1: left,
      x2: right,
      y1: y + (narrow ? 27 : 13),
      y2: y + (narrow ? 27 : 13),
    }),
  );
}

const COLOURS = {
  gone: "failed",
  submission: "submission",
  sent: "sent",
  unknown: "sent",
  refused: "failed",
  unmatched: "failed",
  abandoned: "ended",
  pending: "waiting",
  waiting: "waiting",
  starting: "starting",
  running: "running",
  ending: "stopping",
  stopping: "stopping",
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  held: "user",
  user: "user",
  recovery: "recovery",
  open: "sent",
  landed: "landed",
  expired: "ended",
  ended: "ended",
};

function span(one, { scale, y, until, lane }) {
  const from = Date.parse(one.start);
  const to = one.end ? Date.parse(one.end) : until;
  const x = scale.at(from);
  const wide = Math.max(3, scale.at(to) - x);
  const thin = lane.kind === "submission";
  const end = one.end ? clock(one.end) : "now";
  const when = `${clock(one.start)} to ${end} ${zoneName()} (${lasting(to - from)})`;
  const colour = COLOURS[one.state] ?? "ended";
  const box = s("rect", {
    x,
    y: y + (thin ? 10 : 4),
    width: wide,
    height: thin ? 6 : 18,
    rx: thin ? 3 : 4,
    class: `tl-span tl-${colour}`,
  });
  const room = Math.floor((wide - 20) / 6.6);
  const words = [one.label, one.label.split(": ").at(-1)].find((it) => it.length <= room);
  const label =
    !thin && words
      ? s(
          "text",
          { class: `tl-label on-${colour}`, x: x + 13, y: y + 17, "aria-hidden": "true" },
          words,
        )
      : "";
  const open = one.end
    ? ""
    : s("path", { class: `tl-open tl-${colour}`, d: `M${x + wide} ${y + 4}l6 9-6 9z` });
  return item([box, open, label], {
    x,
    y: y + 13,
    lane: lane.title,
    at: from,
    title: one.label,
    when,
    words: one.detail,
  });
}

function mark(one, { y, lane, words }) {
  const many = one.marks.length > 1;
  const lines = one.marks.map((it) => words.get(it.entry)).filter(Boolean);
  const end = many ? ` to ${clock(one.marks.at(-1).at)}` : "";
  const when = `${clock(one.marks[0].at)}${end} ${zoneName()}`;
  const say = (it) => `${it.entry}: ${it.by} ${it.what}${it.why ? ` (${it.why})` : ""}.`;
  const first =
    lines.slice(0, 6).map(say).join(" ") +
    (lines.length > 6 ? ` And ${lines.length - 6} more.` : "");
  const cy = y + 13;
  const shape = many
    ? [
        s("circle", { class: "tl-mark tl-many", cx: one.x, cy, r: 8.5 }),
        s(
          "text",
          {
            class: "tl-count",
            x: one.x,
            y: cy + 3.7,
            "text-anchor": "middle",
            "aria-hidden": "true",
          },
          one.marks.length > 99 ? "99" : one.marks.length,
        ),
      ]
    : glyph(SHAPES[lane.kind] ?? "circle", one.x, cy, one.marks[0].kind);
  return item(shape, {
    x: one.x,
    y: cy,
    lane: lane.title,
    at: one.at,
    title: many ? counted(lines.length, "entry", "entries") : `Entry ${one.marks[0].entry}`,
    when,
    words: first,
  });
}

function glyph(kind, x, y, what) {
  const draw = (d) => s("path", { class: `tl-mark mark-${what}`, d });
  switch (kind) {
    case "flag":
      return draw(`M${x - 4} ${y + 7}v-14h10l-3 4 3 4h-8v6z`);
    case "alarm":
      return draw(`M${x} ${y - 7.5}l7.5 13.5h-15z`);
    case "diamond":
      return draw(`M${x} ${y - 6.5}l6.5 6.5-6.5 6.5-6.5-6.5z`);
    case "gate":
      return draw(`M${x - 2} ${y - 10}h4v20h-4z`);
    case "end":
      return draw(`M${x - 6} ${y - 6}h12v12h-12z`);
    default:
      return s("circle", { class: `tl-mark mark-${what}`, cx: x, cy: y, r: 5 });
  }
}

function item(shapes, told) {
  const group = s(
    "g",
    {
      class: "tl-item",
      role: "img",
      tabindex: -1,
      "aria-label": `${told.lane}: ${told.title}, ${told.when}. ${told.words}`,
    },
    shapes,
  );
  return { ...told, group };
}
