// One job: how it stands, its picture along time, its story, and what can be done.

import { ask } from "./access.js";
import { command, failed, h, Problem } from "./dom.js";
import { picture } from "./timeline.js";
import {
  asksPerson,
  badge,
  clock,
  counted,
  icon,
  offsetMin,
  stateOf,
  when,
  zoneName,
} from "./words.js";

const ID = /^[a-z][a-z0-9]{7,40}$/;
const PIECE = 262_144;
const PIECES = 8;
const LAST = 60_000;

export function jobView(id, params) {
  const path = `jobs/${encodeURIComponent(id)}`;

  async function load(signal) {
    if (!ID.test(id))
      throw new Problem(
        "gone",
        "There is no such job",
        "This is no job's id.",
        "The list shows the jobs there are.",
      );
    const told = { utc_offset_min: offsetMin() };
    const [story, line] = await Promise.all([
      ask(`${path}/why`, told, { signal }),
      ask(`${path}/timeline`, told, { signal }),
    ]);
    // A record that can't be folded has no status; its story says where reading stops.
    const now = story.foldable
      ? await ask(path, {}, { signal })
      : { refusal: story.sections.find((one) => one.title === "Where reading stops").lines[0] };
    delete now.evidence_age_s; // it grows by itself, and is no news
    if (line.settled) delete line.now;
    return { status: now, story, line };
  }

  function render({ status, story, line }) {
    return h(
      "div",
      { class: "job-page" },
      about(id, status, story),
      callout(status, story),
      h(
        "section",
        { class: "card wide", "aria-labelledby": "t-time" },
        h("h2", { id: "t-time" }, "Along time"),
        picture(line, params),
      ),
      h(
        "div",
        { class: "two" },
        h(
          "section",
          { class: "story card", "aria-labelledby": "t-why" },
          h("h2", { id: "t-why" }, "Why it stands so"),
          story.sections.map(section),
        ),
        h(
          "div",
          { class: "aside" },
          h(
            "section",
            { class: "card", "aria-labelledby": "t-do" },
            h("h2", { id: "t-do" }, "What you can do"),
            h(
              "ul",
              { class: "commands" },
              story.advice.map((one) => command(one.command, one.purpose)),
            ),
          ),
          status.refusal ? "" : facts(status),
        ),
      ),
      status.refusal || !status.ref ? "" : output(path),
      entries(line),
    );
  }

  const beside = ({ status }) => {
    const state = status.refusal ? "unreadable" : stateOf(status);
    const open = status.outcome && !status.settled_at ? ", not settled yet" : "";
    return [
      badge(state, `${state}${open}`),
      status.cause ? h("span", { class: "cause" }, status.cause.replaceAll("_", " ")) : "",
    ];
  };

  return {
    title: `Job ${id}`,
    load,
    render,
    beside,
    wait: ({ line }) => (line.settled ? Infinity : 10_000),
    above: () =>
      h("nav", { class: "crumbs", "aria-label": "Back" }, h("a", { href: "#/jobs" }, "← Jobs")),
    name: ({ story }) => story.name ?? id,
    said: ({ status, story }) => `${story.name ?? id}: ${stateOf({ ...status, summary: null })}`,
  };
}

function about(id, status, story) {
  return h(
    "p",
    { class: "job-line quiet" },
    status.refusal
      ? story.headline
      : [
          h("code", {}, id),
          " on ",
          h("a", { href: "#/clusters", key: "its cluster" }, status.cluster),
          ", by ",
          status.created_by ?? "?",
          ", submitted ",
          when(status.created_at),
          status.supersedes
            ? [
                ", in place of ",
                h(
                  "a",
                  { href: `#/jobs/${encodeURIComponent(status.supersedes)}`, key: "old" },
                  status.supersedes,
                ),
              ]
            : "",
        ],
  );
}

function callout(status, story) {
  if (status.refusal) {
    return h(
      "div",
      { class: "note note-bad" },
      h("p", { class: "note-title" }, "This record can't be read to its end"),
      h("p", {}, status.refusal),
      h("p", {}, story.sections.find((one) => one.title === "What still works")?.lines[0] ?? ""),
    );
  }
  const person = asksPerson(status)
    ? status.waiting_for.filter((one) => one.what === "person")
    : [];
  const brakes = (status.waiting_for ?? []).filter((one) => one.what === "brake");
  const told = status.settled_at ? [] : (status.escalations ?? []);
  return [
    person.length && !status.outcome
      ? h(
          "div",
          { class: "note note-ask" },
          h("p", { class: "note-title" }, icon("person"), "It waits for a person"),
          person.map((one) => h("p", {}, one.detail)),
        )
      : "",
    brakes.length
      ? h(
          "div",
          { class: "note note-ask" },
          h("p", { class: "note-title" }, icon("held"), "A brake is on"),
          brakes.map((one) => h("p", {}, one.detail)),
        )
      : "",
    told.length
      ? h(
          "div",
          { class: "note" },
          h("p", { class: "note-title" }, "People were told"),
          h(
            "ul",
            {},
            told.map((one) =>
              h("li", {}, `${clock(one.at)}: ${one.detail} `, h("code", {}, one.code)),
            ),
          ),
        )
      : "",
  ];
}

/** A section of the story; lines with spaces before them belong to the line above. */
function section(one) {
  const items = [];
  for (const line of one.lines) {
    const depth = Math.min(2, Math.floor((line.length - line.trimStart().length) / 2));
    items.push(h("p", { class: `line depth-${depth}` }, line.trim()));
  }
  return h("div", { class: "section" }, h("h3", {}, one.title), items);
}

function facts(status) {
  const fact = (title, ...value) => [h("dt", {}, title), h("dd", {}, value)];
  const run = status.submission
    ? `submission ${status.submission}, start ${status.attempt}${status.run ? `, run ${status.run}` : ""}`
    : "never started";
  const waiting = (status.waiting_for ?? []).filter((one) => one.what !== "brake");
  return h(
    "section",
    { class: "card", "aria-labelledby": "t-facts" },
    h("h2", { id: "t-facts" }, "Now"),
    h(
      "dl",
      { class: "facts" },
      fact("Wanted", status.desired),
      fact("Run", run),
      status.nodes?.length ? fact("Nodes", status.nodes.join(", ")) : "",
      status.ref ? fact("Object", h("code", {}, status.ref)) : "",
      status.exit_code !== undefined ? fact("Exit code", status.exit_code) : "",
      status.signal ? fact("Signal", status.signal) : "",
      status.holds?.length ? fact("Holds", status.holds.join(", ")) : "",
      waiting.length
        ? fact(
            "Waits for",
            waiting.map((one) =>
              h("div", {}, one.detail, one.until ? [", until ", clock(one.until)] : ""),
            ),
          )
        : "",
      status.unsettled?.length
        ? fact(
            "Not settled",
            status.unsettled.map((one) => h("div", {}, one)),
          )
        : "",
      status.progress ? fact("Progress", progress(status.progress)) : "",
      fact("Epoch", h("code", {}, status.epoch)),
      fact("Entries", status.revision),
      status.settled_at
        ? fact("Settled", when(status.settled_at))
        : [
            fact("Newest evidence", when(status.evidence_at)),
            status.stale_since
              ? fact("Cluster looked after", when(status.stale_since.last_tick))
              : "",
          ],
    ),
  );
}

/** Whether a run whose plan asks about it still writes something. */
function progress(told) {
  if (told.error) return `can't be told: ${told.error}`;
  const since = told.since ? ["wrote last ", when(told.since)] : "wrote nothing yet";
  return [
    told.quiet
      ? h("span", { class: "asks" }, icon("late"), "quiet for longer than its plan allows: ")
      : "",
    since,
  ];
}

/** The end of what the latest run wrote, asked for when somebody wants to read it. */
function output(path) {
  const body = h("div", {});
  const read = async () => {
    body.replaceChildren(h("p", { class: "quiet" }, "Asking its cluster…"));
    try {
      let text = "";
      let offset = 0;
      let piece;
      for (let n = 0; n < PIECES; n += 1) {
        piece = await ask(`${path}/logs`, { offset, limit: PIECE });
        text = (text + piece.text).slice(-LAST);
        if (piece.next_offset === offset) break;
        offset = piece.next_offset;
      }
      body.replaceChildren(
        h(
          "p",
          { class: "quiet" },
          `${piece.ref}, ${offset.toLocaleString("en")} bytes${offset > LAST ? "; its last part" : ""}`,
        ),
        text
          ? h("pre", { class: "output", tabindex: 0, role: "region", "aria-label": "Output" }, text)
          : h("p", {}, "It wrote nothing."),
        h(
          "p",
          {},
          h("button", { type: "button", class: "button small", onclick: read }, "Read again"),
        ),
      );
    } catch (error) {
      body.replaceChildren(failed(error, read));
    }
  };
  let asked = false;
  return h(
    "details",
    {
      class: "card",
      key: "output",
      ontoggle: (event) => {
        if (!event.target.open || asked) return;
        asked = true;
        read();
      },
    },
    h("summary", {}, h("h2", {}, "What it wrote")),
    body,
  );
}

/** Every entry in words: the same as the picture, to be read. */
function entries(line) {
  const rows = line.lines.map((one) =>
    h(
      "tr",
      { class: `entry-${one.kind}`, id: `entry-${one.entry}` },
      h("td", { class: "num" }, one.entry),
      h(
        "td",
        { class: "nowrap" },
        one.at ? clock(one.at, { now: new Date(line.lines[0].at ?? one.at) }) : "",
      ),
      h("td", { class: "who" }, one.by ?? ""),
      h(
        "td",
        {},
        h("span", { class: "narrow-only quiet" }, one.by ?? ""),
        h("span", { class: "what" }, one.what),
        one.why ? h("span", { class: "why" }, one.why) : "",
      ),
    ),
  );
  return h(
    "details",
    { class: "card", key: "history", open: true },
    h(
      "summary",
      {},
      h("h2", {}, "Every entry"),
      h("span", { class: "quiet" }, counted(line.revision, "entry", "entries")),
    ),
    line.left_out
      ? h(
          "p",
          { class: "quiet" },
          `The first ${line.left_out.toLocaleString("en")} aren't shown here; `,
          h("code", {}, `dispatch history ${line.job_id}`),
          " shows them all.",
        )
      : "",
    h(
      "div",
      {
        class: "table-wrap",
        tabindex: 0,
        role: "region",
        "aria-label": "Every entry, scrolls sideways",
        key: "entries",
      },
      h(
        "table",
        { class: "entries" },
        h("caption", { class: "unseen" }, "The entries of the record, oldest first"),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col", class: "num" }, "#"),
            h("th", { scope: "col" }, `Time (${zoneName()})`),
            h("th", { scope: "col", class: "who" }, "Who"),
            h("th", { scope: "col" }, "What, and why"),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
  );
}
