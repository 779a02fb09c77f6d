// Asking the API: as whom, and what it means when it doesn't answer.

import { failed, fill, h, Problem } from "./dom.js";
import * as signin from "./signin.js";
import { claims, token } from "./signin.js";

const ROOT = new URL("..", import.meta.url);
const HERE = new Set(["127.0.0.1", "localhost"]);

export const origin = ROOT.origin;
export const local = HERE.has(location.hostname);

/** Take the secret of a `dispatch ui` from the address, once; it is taken on this machine only. */
export function fromAddress() {
  const given = /^#secret=([A-Za-z0-9_-]{20,})$/.exec(location.hash);
  if (!given) return;
  if (local) signin.bring(given[1]);
  history.replaceState(null, "", "#/jobs");
}

/** When a token ends, where it says so. */
export function ends(text) {
  const { exp } = claims(text);
  return typeof exp === "number" ? new Date(exp * 1000).toISOString() : null;
}

/** Return the answer to a question, or throw a `Problem`. */
export async function ask(path, query = {}, { signal } = {}) {
  const url = new URL(path.replace(/^\//, ""), ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  await signin.fresh();
  let reply = await answered(url, signal);
  if (reply.status === 401 && (await signin.renew())) reply = await answered(url, signal);
  const text = await reply.text();
  const told = parsed(text);
  if (reply.ok && told !== undefined) return told;
  throw problem(reply, told);
}

async function answered(url, signal) {
  const headers = { Accept: "application/json, application/problem+json" };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  try {
    return await fetch(url, {
      headers,
      signal,
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(
      "unreachable",
      "No answer from the API",
      `Nothing answers at ${ROOT.origin}.`,
      local
        ? "See that `dispatch up` or `dispatch ui` still runs in its terminal, and that this is its address."
        : "See that you are on the right network. This page asks again by itself.",
    );
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What an authorizer has against a token, by its own header. */
function fault(reply) {
  return /error_description="([^"]+)"/.exec(reply.headers.get("www-authenticate") ?? "")?.[1];
}

function problem(reply, told) {
  const detail = told?.detail ?? fault(reply) ?? told?.message ?? `It answered with ${reply.status}.`;
  const code = told?.code;
  if (reply.status === 401 || (reply.status === 403 && !code)) {
    return new Problem("sign-in", "Who is asking?", detail, "", "who");
  }
  switch (reply.status) {
    case 403:
      return new Problem(
        detail.includes("no identity") ? "sign-in" : "forbidden",
        "You may not see this",
        detail,
        "Somebody who may change the access rules can let you.",
      );
    case 404:
      return code === "job_not_found"
        ? new Problem(
            "gone",
            "There is no such job",
            detail,
            "See that the id is whole; the list shows the jobs there are.",
          )
        : new Problem(
            "older",
            "This API is older than the console",
            detail,
            "Update the deployment; the command line still works.",
          );
    case 410:
      return new Problem(
        "gone",
        "The record was removed",
        detail,
        "Only its idempotency key is kept.",
      );
    case 409:
      return new Problem("unreadable", "The record can't be read to its end", detail, "", code);
    case 429:
    case 503:
      return new Problem(
        "later",
        "The API is busy",
        detail,
        "Nothing is wrong with the jobs. This page asks again by itself.",
      );
    default:
      return reply.status >= 500
        ? new Problem(
            "broken",
            "Something failed at the API",
            detail,
            "Its log says what; questions may be asked again.",
          )
        : new Problem("refused", "The API refused the question", detail);
  }
}

/** How a person signs in: at the issuer where this deployment names one, else with a token. */
export function signInView(refused, done) {
  const told = refused ? h("p", { class: "note note-bad", role: "alert" }, refused) : "";
  if (!signin.issuer) {
    return h(
      "div",
      { class: "card sign-in" },
      h("h1", { tabindex: -1 }, "Sign in"),
      told,
      h(
        "p",
        {},
        "This API wants to know who asks. Paste an access token of its issuer, as you would put it into ",
        h("code", {}, "DISPATCH_TOKEN"),
        ".",
      ),
      tokenForm(done),
      h(
        "details",
        { key: "no-token" },
        h("summary", {}, "No token?"),
        h(
          "p",
          {},
          "Where the API takes AWS signatures, a browser can't sign by itself. Run ",
          h("code", {}, "dispatch ui"),
          " on your machine: it signs for this page with your credentials.",
        ),
      ),
    );
  }
  const trouble = h("div", {});
  const button = h("button", { class: "button primary", type: "button", key: "go" }, goTo());
  const go = async () => {
    button.disabled = true;
    try {
      await signin.begin();
    } catch (error) {
      fill(trouble, failed(error));
      button.disabled = false;
    }
  };
  button.addEventListener("click", go);
  return h(
    "div",
    { class: "card sign-in" },
    h("h1", { tabindex: -1 }, signin.justLeft() ? "Signed out" : "Sign in"),
    told,
    trouble,
    signin.justLeft() ? leaving(trouble) : "",
    h(
      "p",
      {},
      "You sign in at ",
      h("strong", {}, signin.issuerHost),
      ", and come back to what you wanted to look at.",
    ),
    h("p", {}, button),
    h(
      "details",
      { key: "token-instead" },
      h("summary", {}, "Use a token instead"),
      tokenForm(done),
    ),
  );
}

const goTo = () => `Sign in at ${signin.issuerHost}`;

/** Signed out here isn't signed out there: say so, and offer it where the issuer does. */
function leaving(trouble) {
  const there = h("p", {}, `This tab has forgotten you; ${signin.issuerHost} hasn't. `);
  signin.wayOut().then(
    (out) => {
      if (out === null) return;
      there.append(
        h("button", { class: "link", type: "button", onclick: out }, "Sign out there, too"),
      );
    },
    (error) => fill(trouble, failed(error)),
  );
  return there;
}

/** The form in which a person gives a token, and is told what becomes of it. */
function tokenForm(done) {
  const field = h("input", {
    id: "token",
    name: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    key: "token",
    "aria-describedby": "token-kept",
  });
  return h(
    "form",
    {
      class: "token-form",
      onsubmit: (event) => {
        event.preventDefault();
        if (!field.value.trim()) return;
        signin.bring(field.value);
        field.value = "";
        done();
      },
    },
    h("label", { for: "token" }, "Access token"),
    field,
    h(
      "p",
      { id: "token-kept", class: "quiet" },
      "It is kept in this tab's session storage until you sign out or close the tab, sent to ",
      h("strong", {}, origin),
      " and nowhere else, and never shown again.",
    ),
    h(
      "p",
      {},
      h(
        "button",
        { class: signin.issuer ? "button" : "button primary", type: "submit" },
        signin.issuer ? "Use this token" : "Sign in",
      ),
    ),
  );
}
