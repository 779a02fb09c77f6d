// The jobs there are: filters that stand in the address, and pages.

import { ask } from "./access.js";
import { empty, h } from "./dom.js";
import { asksPerson, badge, counted, icon, stateOf, when } from "./words.js";

const PAGE = 50;
const LOOKS = 20;
const STATES = ["pending", "held", "starting", "running", "stopping", "ended"];
const OUTCOMES = ["succeeded", "failed", "cancelled"];
const SHOWN = { open: "Open", settled: "Settled", all: "All" };

/** The address of a listing with some of its words changed. */
export function jobsAddress(params, changes) {
  const next = new URLSearchParams(params);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  const query = next.toString();
  return `#/jobs${query ? `?${query}` : ""}`;
}

export function jobsView(params) {
  const wanted = Object.fromEntries(params);
  const show = wanted.show in SHOWN ? wanted.show : "open";
  const order = wanted.order ?? (show === "open" ? "oldest" : "newest");
  const filtered = ["state", "owner", "label", "text"].some((name) => wanted[name]);
  const go = (changes) => {
    location.hash = jobsAddress(params, { ...changes, cursor: "" });
  };

  async function load(signal) {
    const query = {
      summary: "true",
      limit: PAGE,
      order,
      cluster: wanted.cluster,
      settled: show === "all" ? "" : String(show === "settled"),
      cursor: wanted.cursor,
    };
    const jobs = [];
    let looked = 0;
    let cursor = null;
    // The API filters by settled and cluster; the rest is read off the summaries, page by page.
    for (let look = 0; look < LOOKS; look += 1) {
      const page = await ask("jobs", query, { signal });
      looked += page.jobs.length;
      jobs.push(...page.jobs.filter((one) => fits(one, wanted)));
      cursor = page.cursor ?? null;
      if (cursor === null || jobs.length >= PAGE) break;
      query.cursor = cursor;
    }
    return { jobs, cursor, looked };
  }

  /** Many pages are asked for less often, so that those who filter don't keep others out. */
  const wait = ({ looked }) => Math.max(10_000, (looked / PAGE) * 3000);

  function render({ jobs, cursor, looked }) {
    if (jobs.length === 0) return nothing(cursor, looked);
    const first = wanted.cursor
      ? h(
          "a",
          { class: "button", key: "first", href: jobsAddress(params, { cursor: "" }) },
          "First page",
        )
      : "";
    const next = cursor
      ? h("a", { class: "button", key: "next", href: jobsAddress(params, { cursor }) }, "Next page")
      : "";
    return [
      h(
        "div",
        {
          class: "table-wrap",
          tabindex: 0,
          role: "region",
          "aria-label": "Jobs, scrolls sideways",
          key: "jobs-table",
        },
        h(
          "table",
          { class: "jobs" },
          h("caption", { class: "unseen" }, `${SHOWN[show]} jobs, ${order} first`),
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              ["State", "Job", "Cluster", "Owner", "Created"].map((title) =>
                h("th", { scope: "col", class: `c-${title.toLowerCase()}` }, title),
              ),
            ),
          ),
          h("tbody", {}, jobs.map(row)),
        ),
      ),
      h(
        "div",
        { class: "pager" },
        h("p", { class: "quiet" }, told({ jobs, cursor, looked })),
        first || next ? h("nav", { "aria-label": "Pages" }, first, next) : "",
      ),
    ];
  }

  const told = ({ jobs, cursor, looked }) => {
    const of = filtered ? ` of ${looked.toLocaleString("en")} looked at` : "";
    return `${counted(jobs.length, "job")}${of}${cursor ? "; there are more" : ""}`;
  };

  function nothing(cursor, looked) {
    if (cursor) {
      return empty(
        `None of ${counted(looked, "job")} fits`,
        "There are more to look at. ",
        h("a", { href: jobsAddress(params, { cursor }) }, "Look further"),
      );
    }
    if (filtered || wanted.cluster) {
      return empty(
        "No job fits these filters",
        h("a", { href: `#/jobs?show=${show}` }, "Take the filters away"),
        show === "open"
          ? [
              ", or look among ",
              h("a", { href: jobsAddress(params, { show: "all" }) }, "all jobs"),
              ".",
            ]
          : ".",
      );
    }
    if (show === "open") {
      return empty(
        "No job is open",
        "Everything that was submitted has ended and is settled. See ",
        h("a", { href: "#/jobs?show=settled" }, "the settled ones"),
        ", or submit one: ",
        h("code", {}, "dispatch submit -- echo hello"),
      );
    }
    return empty(
      "There are no jobs yet",
      "Submit one: ",
      h("code", {}, "dispatch submit -- echo hello"),
    );
  }

  const row = (line) => {
    const summary = line.summary ?? {};
    const state = stateOf(line);
    const open = summary.outcome && !line.settled_at ? "not settled yet" : "";
    return h(
      "tr",
      {},
      h(
        "td",
        { class: "c-state" },
        badge(state),
        asksPerson(summary) && !summary.outcome
          ? h("span", { class: "asks" }, icon("person"), "asks a person")
          : "",
      ),
      h(
        "td",
        { class: "c-job" },
        h(
          "a",
          {
            class: "job-name",
            href: `#/jobs/${encodeURIComponent(line.job_id)}`,
            key: `row ${line.job_id}`,
          },
          summary.name ?? "(its name can't be read)",
        ),
        h("span", { class: "job-id" }, line.job_id),
        h("span", { class: "job-note" }, note(summary) || open),
        chips(summary.labels, params),
        h(
          "span",
          { class: "narrow-only quiet" },
          `${line.cluster}, ${summary.created_by ?? "?"}, `,
          when(line.created_at),
        ),
      ),
      h("td", { class: "c-cluster" }, line.cluster),
      h("td", { class: "c-owner" }, summary.created_by ?? ""),
      h("td", { class: "c-created" }, when(line.created_at)),
    );
  };

  function frame() {
    const field = (name, label, input) =>
      h("div", { class: `field f-${name}` }, h("label", { for: `f-${name}` }, label), input);
    const text = (name, label, hint) =>
      field(
        name,
        label,
        h("input", {
          id: `f-${name}`,
          name,
          value: wanted[name] ?? "",
          placeholder: hint,
          autocomplete: "off",
          spellcheck: "false",
        }),
      );
    const choice = (name, label, options, value) =>
      field(
        name,
        label,
        h(
          "select",
          {
            id: `f-${name}`,
            name,
            onchange: (event) => go({ [name]: event.target.value }),
          },
          options.map(([key, title]) =>
            h("option", { value: key, selected: key === (value ?? "") }, title),
          ),
        ),
      );
    const cluster = choice(
      "cluster",
      "Cluster",
      [["", "Any"], ...(wanted.cluster ? [[wanted.cluster, wanted.cluster]] : [])],
      wanted.cluster,
    );
    fillClusters(cluster.querySelector("select"), wanted.cluster);
    const segments = h(
      "div",
      { class: "segments", role: "group", "aria-label": "Which jobs" },
      Object.entries(SHOWN).map(([key, title]) =>
        h(
          "a",
          {
            href: jobsAddress(params, { show: key === "open" ? "" : key, order: "", cursor: "" }),
            "aria-current": key === show ? "true" : null,
          },
          title,
        ),
      ),
    );
    const form = h(
      "form",
      {
        class: "filters",
        role: "search",
        "aria-label": "Jobs",
        onsubmit: (event) => {
          event.preventDefault();
          go(
            Object.fromEntries(
              ["owner", "label", "text"].map((name) => [
                name,
                event.target.elements[name].value.trim(),
              ]),
            ),
          );
        },
      },
      text("text", "Name or id", "train"),
      choice(
        "state",
        "State",
        [
          ["", "Any"],
          ...[...STATES, ...OUTCOMES].map((one) => [one, one]),
          ["person", "asks a person"],
          ["unreadable", "unreadable"],
        ],
        wanted.state,
      ),
      cluster,
      text("owner", "Owner", "ada"),
      text("label", "Label", "team=vision"),
      choice(
        "order",
        "Order",
        [
          ["oldest", "Oldest first"],
          ["newest", "Newest first"],
        ],
        order,
      ),
      h("button", { class: "button", type: "submit" }, "Filter"),
    );
    const wide = matchMedia("(min-width: 44.01rem)");
    const box = h(
      "details",
      { class: "filter-box", open: wide.matches || filtered || Boolean(wanted.cluster) },
      h("summary", {}, "Filters"),
      form,
    );
    wide.addEventListener("change", () => {
      if (wide.matches) box.open = true;
    });
    return [segments, box];
  }

  return { title: "Jobs", frame, load, render, wait, said: told };
}

async function fillClusters(select, chosen) {
  try {
    const { clusters } = await ask("clusters");
    const known = clusters.map((one) => one.name).filter((name) => name !== chosen);
    select.append(...known.map((name) => h("option", { value: name }, name)));
  } catch {
    // The listing itself says what is wrong.
  }
}

/** Whether a line fits what was asked for beyond what the API filters. */
export function fits(line, wanted) {
  const told = line.summary ?? {};
  const has = (text, part) => (text ?? "").toLowerCase().includes(part.toLowerCase());
  if (wanted.state) {
    const state = stateOf(line);
    if (
      wanted.state === "person"
        ? !asksPerson(told) || told.outcome
        : state !== wanted.state && told.state !== wanted.state
    )
      return false;
  }
  if (wanted.owner && !has(told.created_by, wanted.owner)) return false;
  if (wanted.text && !has(told.name, wanted.text) && !has(line.job_id, wanted.text)) return false;
  if (!wanted.label) return true;
  const [name, value] = wanted.label.split(/=(.*)/s);
  const labels = told.labels ?? {};
  return Object.hasOwn(labels, name) && (value === undefined || labels[name] === value);
}

function note(told) {
  if (told.refusal) return `Entry ${told.refusal.entry}: ${told.refusal.detail}`;
  if (told.outcome) return told.cause ? words(told.cause) : "";
  const person = (told.waiting_for ?? []).find((one) => one.what === "person");
  const first = person ?? (told.waiting_for ?? [])[0];
  return first ? first.detail : told.cause ? words(told.cause) : "";
}

const words = (cause) => cause.replaceAll("_", " ");

function chips(labels, params) {
  const all = Object.entries(labels ?? {});
  if (all.length === 0) return "";
  return h(
    "span",
    { class: "chips" },
    all.slice(0, 3).map(([name, value]) =>
      h(
        "a",
        {
          class: "chip",
          title: "Only jobs with this label",
          href: jobsAddress(params, { label: `${name}=${value}`, cursor: "" }),
        },
        `${name}=${value}`,
      ),
    ),
    all.length > 3 ? h("span", { class: "quiet" }, `and ${all.length - 3} more`) : "",
  );
}
