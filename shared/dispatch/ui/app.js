// Which view is shown, when it asks again, and who looks at it.

import { ask, ends, fromAddress, signInView } from "./access.js";
import { clustersView } from "./clusters.js";
import { failed, fill, h, loading, s, say } from "./dom.js";
import { jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { peopleView } from "./people.js";
import { forget, hasEnded, leave, returned, token } from "./signin.js";
import { clock, inUtc, showUtc, tickTimes, zoneName } from "./words.js";

const EVERY_MS = 10_000;

const main = document.getElementById("main");
const tools = document.getElementById("tools");
const foot = document.getElementById("foot");

let paused = false;
let shown = null; // the view, its elements, what it showed last, and when it asks again
let timer = 0;
let actor = null;
let updated = null;

// --- which view ---

function place() {
  const [path, query = ""] = (location.hash.replace(/^#/, "") || "/jobs").split("?");
  const parts = path.split("/").filter(Boolean).map(decodeURIComponent);
  const params = new URLSearchParams(query);
  if (parts[0] === "jobs" && parts[1]) return ["jobs", jobView(parts[1], params)];
  if (parts[0] === "people") return ["people", peopleView(params)];
  if (parts[0] === "clusters") return ["clusters", clustersView(params)];
  return ["jobs", jobsView(params)];
}

function mount({ focus = true } = {}) {
  shown?.asking?.abort();
  const [name, view] = place();
  for (const link of document.querySelectorAll(".nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const body = h("div", { class: "body" }, loading(view.title));
  const title = h("h1", { tabindex: -1 }, view.title);
  const beside = h("div", { class: "beside" });
  const notice = h("div", { class: "notice" });
  shown = { view, body, title, beside, notice, last: null, asking: null, wait: EVERY_MS };
  main.replaceChildren(
    ...(view.above ? [view.above()] : []),
    h("div", { class: "head" }, title, beside),
    ...[view.frame ? view.frame() : []].flat(),
    notice,
    body,
  );
  document.title = `${view.title} · Dispatch`;
  if (focus) title.focus({ preventScroll: true });
  if (focus) window.scrollTo(0, 0);
  refresh();
}

// --- asking again ---

async function refresh() {
  clearTimeout(timer);
  const mine = shown;
  mine.asking?.abort();
  mine.asking = new AbortController();
  try {
    if (actor === null) actor = (await ask("whoami", {}, { signal: mine.asking.signal })).actor;
    const data = await mine.view.load(mine.asking.signal);
    if (mine !== shown) return;
    const text = JSON.stringify(data);
    if (text !== mine.last) {
      mine.last = text;
      fill(mine.body, mine.view.render(data, refresh));
      if (mine.view.name) {
        mine.title.textContent = mine.view.name(data);
        document.title = `${mine.view.name(data)} · Dispatch`;
      }
      if (mine.view.beside) fill(mine.beside, mine.view.beside(data));
      if (mine.view.said) say(mine.view.said(data));
    }
    updated = new Date();
    mine.wait = mine.view.wait ? mine.view.wait(data) : EVERY_MS;
    mine.notice.replaceChildren();
  } catch (error) {
    if (mine !== shown || error.name === "AbortError") return;
    if (error.kind === "sign-in") return askWho(error);
    const passing = ["unreachable", "later", "broken"].includes(error.kind);
    if (passing && mine.last !== null) {
      // What was known stays: it is worth more than the news that there is none.
      fill(
        mine.notice,
        failed(error, refresh),
        h("p", { class: "quiet" }, `Below is what was known at ${clock(updated)}.`),
      );
    } else {
      mine.last = null;
      mine.notice.replaceChildren();
      fill(mine.body, failed(error, refresh));
    }
  }
  tickTimes();
  drawTools();
  later();
}

function later() {
  clearTimeout(timer);
  if (!paused && !document.hidden && shown.wait < Infinity) timer = setTimeout(refresh, shown.wait);
}

function askWho(error) {
  clearTimeout(timer);
  let refused = "";
  if (error.code !== "who") refused = `${error.title}. ${error.message} ${error.then ?? ""}`;
  else if (hasEnded()) refused = "Your sign-in has ended.";
  else if (token()) refused = `The token was refused: ${error.message}`;
  forget();
  actor = null;
  shown = { view: { title: "Sign in" }, body: main, last: null, asking: null };
  main.replaceChildren(signInView(refused, () => mount()));
  document.title = "Sign in · Dispatch";
  main.querySelector("h1").focus({ preventScroll: true });
  drawTools();
}

// --- the tools ---

function drawTools() {
  const signedIn = actor !== null;
  const final = shown?.wait === Infinity;
  const how = final ? "Nothing more will come" : paused ? "Paused" : "Live";
  fill(
    tools,
    signedIn
      ? h(
          "span",
          { class: "updated quiet" },
          h("span", { class: paused || final ? "dot" : "dot live" }),
          `${how}${updated ? `, as of ${clock(updated)}` : ""}`,
        )
      : "",
    signedIn && !final
      ? h(
          "button",
          {
            type: "button",
            class: "button small",
            key: "pause",
            title: paused ? "Ask again every 10 seconds" : "Stop asking again every 10 seconds",
            onclick: () => {
              paused = !paused;
              say(paused ? "Refreshing is paused" : "Refreshing every 10 seconds");
              drawTools();
              if (paused) clearTimeout(timer);
              else refresh();
            },
          },
          glyph(paused ? "M5 3.5v9l7.5-4.5z" : "M5.5 3.5v9M10.5 3.5v9", paused),
          h("span", {}, paused ? "Resume" : "Pause"),
        )
      : "",
    h(
      "button",
      {
        type: "button",
        class: "button small",
        key: "zone",
        title: "Show times in UTC, or by this machine's clock",
        onclick: () => {
          showUtc(!inUtc());
          say(`Times are shown in ${zoneName()}`);
          drawTools();
          mount({ focus: false });
        },
      },
      h("span", { class: "unseen" }, "Times in "),
      zoneName(),
    ),
  );
  const until = token() ? ends(token()) : null;
  fill(
    foot,
    h(
      "p",
      {},
      "Read only: this console changes nothing. ",
      signedIn
        ? h(
            "span",
            {},
            "You are ",
            h("code", {}, actor),
            until ? `, until ${clock(until)}` : "",
            ". ",
          )
        : "",
      token() && signedIn
        ? h(
            "button",
            {
              type: "button",
              class: "link",
              key: "sign-out",
              onclick: () => {
                leave();
                actor = null;
                mount();
              },
            },
            "Sign out",
          )
        : "",
    ),
  );
}

function glyph(path, solid) {
  return s(
    "svg",
    { class: `icon${solid ? " solid" : ""}`, viewBox: "0 0 16 16", "aria-hidden": "true" },
    s("path", { d: path }),
  );
}

// --- begin ---

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  fromAddress();
  mount();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (!paused && shown?.view.load) refresh();
});
setInterval(tickTimes, 5000);
fromAddress();
drawTools();
main.append(h("div", { class: "body" }, loading("who you are")));
returned().then(
  () => mount({ focus: false }),
  (error) => askWho(error),
);
