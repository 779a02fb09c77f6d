// What waits for a person: jobs that ask, jobs that people were told of, and clusters in trouble.

import { ask } from "./access.js";
import { command, empty, h } from "./dom.js";
import { badge, counted, icon, offsetMin, stateOf, when } from "./words.js";

const LOOKS = 20;

export function peopleView() {
  async function load(signal) {
    const query = { summary: "true", limit: 100, settled: "false" };
    const jobs = [];
    let looked = 0;
    let cursor = null;
    for (let look = 0; look < LOOKS; look += 1) {
      const page = await ask("jobs", query, { signal });
      looked += page.jobs.length;
      jobs.push(...page.jobs.filter(concerns));
      cursor = page.cursor ?? null;
      if (cursor === null) break;
      query.cursor = cursor;
    }
    const { clusters, refused } = await ask("clusters", {}, { signal });
    return {
      jobs,
      looked,
      more: cursor !== null,
      refused,
      clusters: clusters.filter(
        (one) => Object.keys(one.health?.escalations ?? {}).length || one.health?.troubles?.length,
      ),
    };
  }

  function render(data) {
    const asks = data.jobs.filter((one) => asking(one).length || one.summary?.refusal);
    const told = data.jobs.filter((one) => !asks.includes(one));
    if (!data.jobs.length && !data.clusters.length && !data.refused) {
      return empty(
        "Nothing waits for a person",
        `${counted(data.looked, "open job")} looked at; no cluster is in trouble. `,
        "What is held, escalated or unreadable would stand here.",
      );
    }
    return [
      data.refused
        ? h(
            "div",
            { class: "note note-bad" },
            h("p", { class: "note-title" }, "The clusters' document is refused"),
            h("p", {}, data.refused),
            h("p", {}, "The last good one is in force; correct the document."),
          )
        : "",
      data.clusters.length ? section("Clusters in trouble", data.clusters.map(cluster)) : "",
      asks.length ? section("Jobs that ask for a decision", asks.map(job)) : "",
      told.length ? section("People were told, and the job is still open", told.map(job)) : "",
      data.more
        ? h(
            "p",
            { class: "quiet" },
            `Only the ${data.looked.toLocaleString("en")} oldest open jobs were looked at.`,
          )
        : "",
    ];
  }

  return {
    title: "Needs a person",
    load,
    render,
    wait: ({ looked }) => Math.max(10_000, (looked / 100) * 3000),
    frame: () =>
      h(
        "p",
        { class: "lead" },
        "Oldest first. Nothing here goes on by itself, or people asked to be told of it.",
      ),
    said: (data) =>
      `${counted(data.jobs.length, "job")} and ${counted(data.clusters.length, "cluster")} need a person`,
  };
}

const asking = (line) =>
  line.summary?.outcome
    ? []
    : (line.summary?.waiting_for ?? []).filter((one) => one.what === "person");
const concerns = (line) =>
  asking(line).length > 0 || line.summary?.refusal || (line.summary?.escalations ?? []).length > 0;
const section = (title, items) =>
  h("section", { class: "group" }, h("h2", {}, title), h("ul", { class: "cards" }, items));

function job(line) {
  const told = line.summary ?? {};
  const escalations = told.escalations ?? [];
  return h(
    "li",
    { class: "card" },
    h(
      "div",
      { class: "card-top" },
      h(
        "h3",
        {},
        h(
          "a",
          { href: `#/jobs/${encodeURIComponent(line.job_id)}`, key: `job ${line.job_id}` },
          told.name ?? "(its name can't be read)",
        ),
      ),
      badge(stateOf(line)),
    ),
    h(
      "p",
      { class: "quiet" },
      `${line.job_id} on ${line.cluster}, by ${told.created_by ?? "?"}, submitted `,
      when(line.created_at),
    ),
    told.refusal
      ? h(
          "p",
          { class: "ask" },
          icon("unreadable"),
          h(
            "span",
            {},
            `Its record can't be read beyond entry ${told.refusal.entry}: ${told.refusal.detail}. ` +
              "Nothing is done for it until a build that can read it runs.",
          ),
        )
      : "",
    asking(line).map((one) => h("p", { class: "ask" }, icon("person"), h("span", {}, one.detail))),
    escalations.length
      ? h(
          "ul",
          { class: "told" },
          escalations.map((one) =>
            h(
              "li",
              {},
              h("span", { class: "quiet" }, "Told ", when(one.at), ": "),
              one.detail,
              " ",
              h("code", {}, one.code),
            ),
          ),
        )
      : "",
    advice(line.job_id),
  );
}

/** What can be done, asked for when somebody wants to know. */
function advice(id) {
  const body = h("div", {}, h("p", { class: "quiet" }, "Asking…"));
  let asked = false;
  return h(
    "details",
    {
      key: `advice ${id}`,
      ontoggle: async (event) => {
        if (!event.target.open || asked) return;
        asked = true;
        try {
          const story = await ask(`jobs/${encodeURIComponent(id)}/why`, {
            utc_offset_min: offsetMin(),
          });
          body.replaceChildren(
            h(
              "ul",
              { class: "commands" },
              story.advice.map((one) => command(one.command, one.purpose)),
            ),
          );
        } catch (error) {
          asked = false;
          body.replaceChildren(h("p", {}, error.message));
        }
      },
    },
    h("summary", {}, "What you can do"),
    body,
  );
}

function cluster(one) {
  const health = one.health;
  return h(
    "li",
    { class: "card" },
    h(
      "div",
      { class: "card-top" },
      h("h3", {}, h("a", { href: "#/clusters", key: `cluster ${one.name}` }, one.name)),
      badge("trouble"),
    ),
    (health.troubles ?? []).map((it) =>
      h(
        "p",
        { class: "ask" },
        icon("trouble"),
        h("span", {}, `${it.kind.replaceAll("_", " ")}, since `, when(it.since), `: ${it.detail}`),
      ),
    ),
    Object.entries(health.escalations ?? {}).map(([key, text]) =>
      h("p", { class: "ask" }, icon("trouble"), h("span", {}, text, " ", h("code", {}, key))),
    ),
    health.last_error
      ? h("p", { class: "quiet" }, `The last look failed: ${health.last_error}`)
      : "",
  );
}
