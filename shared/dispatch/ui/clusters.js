// The clusters: when they were looked after last, how that goes, and what brakes are on.

import { ask } from "./access.js";
import { empty, h } from "./dom.js";
import { badge, icon, lasting, when } from "./words.js";

const LATE_MS = 180_000;

/** One word for a cluster's supervision, and a sentence. */
export function healthOf(one, now = Date.now()) {
  const health = one.health;
  if (!health)
    return [
      "never",
      "never looked at",
      "No supervisor has looked at it yet. See that supervision runs, and `dispatch clusters check`.",
    ];
  if (health.troubles?.length)
    return ["trouble", "in trouble", health.troubles.map((it) => it.detail).join("; ")];
  if (Object.keys(health.escalations ?? {}).length)
    return ["trouble", "in trouble", Object.values(health.escalations).join("; ")];
  const silent = now - new Date(health.last_tick).getTime();
  if (silent > LATE_MS)
    return [
      "late",
      "not looked after",
      `The last look was ${lasting(silent)} ago. See that the supervisor runs: its ticks, its queue and its log.`,
    ];
  if (health.failing_since || health.last_error)
    return [
      "trouble",
      "looks fail",
      `The last look failed: ${health.last_error ?? "no words"}. Jobs run on; nothing is concluded from silence.`,
    ];
  return ["ok", "healthy", "Looked after in time, without trouble."];
}

export function clustersView() {
  const load = (signal) => ask("clusters", {}, { signal });

  function render({ clusters, refused }) {
    const note = refused
      ? h(
          "div",
          { class: "note note-bad", role: "alert" },
          h(
            "p",
            { class: "note-title" },
            "The clusters' document is refused, so the last good one is in force",
          ),
          h("p", {}, refused),
          h("p", {}, "Correct the document; it is read again every minute."),
        )
      : "";
    if (!clusters.length) {
      return [
        note,
        empty(
          "No cluster is configured",
          "Name one in the clusters' document; the API reference says how.",
        ),
      ];
    }
    return [note, h("ul", { class: "cards clusters" }, clusters.map(card))];
  }

  return {
    title: "Clusters",
    load,
    render,
    frame: () =>
      h(
        "p",
        { class: "lead" },
        "When each was looked after last, and what keeps jobs from running there.",
      ),
    said: ({ clusters }) => clusters.map((one) => `${one.name} ${healthOf(one)[1]}`).join(", "),
  };
}

function card(one) {
  const [state, word, sentence] = healthOf(one);
  const health = one.health ?? {};
  const brakes = Object.entries(one.brakes ?? {});
  const fact = (title, ...value) => [h("dt", {}, title), h("dd", {}, value)];
  return h(
    "li",
    { class: "card" },
    h("div", { class: "card-top" }, h("h2", {}, one.name), badge(state, word)),
    h("p", { class: "quiet" }, sentence),
    brakes.map(([name, reason]) =>
      h(
        "p",
        { class: "ask brake" },
        icon("held"),
        h("span", {}, h("strong", {}, name), `: ${reason}. ${BRAKES[name] ?? ""}`),
      ),
    ),
    h(
      "dl",
      { class: "facts" },
      fact("Adapter", one.adapter),
      fact("Last tick", when(health.last_tick)),
      fact("Last complete look", when(health.last_complete_find)),
      health.failing_since ? fact("Failing since", when(health.failing_since)) : "",
      health.retry_at ? fact("Next try", when(health.retry_at)) : "",
      health.supervisor ? fact("By", h("code", {}, health.supervisor)) : "",
      health.identity ? fact("Identity", h("code", {}, health.identity)) : "",
      health.last_error ? fact("Last error", health.last_error) : "",
    ),
    (health.troubles ?? []).map((it) =>
      h(
        "p",
        { class: "ask" },
        icon("trouble"),
        h("span", {}, `${it.kind.replaceAll("_", " ")}, since `, when(it.since), `: ${it.detail}`),
      ),
    ),
    health.withheld?.length
      ? h(
          "details",
          { key: `withheld ${one.name}` },
          h("summary", {}, `Held back by its brakes (${health.withheld.length})`),
          h(
            "ul",
            {},
            health.withheld.map((it) => h("li", {}, it)),
          ),
        )
      : "",
    h(
      "p",
      {},
      h(
        "a",
        { href: `#/jobs?cluster=${encodeURIComponent(one.name)}`, key: `open ${one.name}` },
        `Open jobs on ${one.name}`,
      ),
    ),
    h(
      "details",
      { key: `declared ${one.name}` },
      h("summary", {}, "What it can do, and its windows"),
      h(
        "dl",
        { class: "facts" },
        fact(
          "Can",
          one.declarations.capabilities.length
            ? one.declarations.capabilities.map((it) => it.replaceAll("_", " ")).join(", ")
            : "nothing beyond the least",
        ),
        Object.entries(one.declarations)
          .filter(([name]) => name.endsWith("_s"))
          .map(([name, value]) =>
            fact(name.slice(0, -2).replaceAll("_", " "), lasting(value * 1000)),
          ),
      ),
    ),
  );
}

const BRAKES = {
  paused: "Nothing begins to run here; stops and evidence go on.",
  drained: "No new job is taken; those that are here go on.",
  observed: "It is only looked at: no call that changes anything, and no fact.",
};
