// Asking the API: as whom, and what it means when it doesn't answer.

import { h } from "./dom.js";

const TOKEN = "dispatch.token";
const ROOT = new URL("..", import.meta.url);
const HERE = new Set(["127.0.0.1", "localhost"]);

/** Why a question wasn't answered, in words that say what to do. */
export class Problem extends Error {
  constructor(kind, title, message, then, code) {
    super(message);
    Object.assign(this, { kind, title, then, code });
  }
}

export const origin = ROOT.origin;
export const token = () => sessionStorage.getItem(TOKEN);
export const signOut = () => sessionStorage.removeItem(TOKEN);
export const local = HERE.has(location.hostname);

/** Take the secret of a `dispatch ui` from the address, once; it is taken on this machine only. */
export function fromAddress() {
  const given = /^#secret=([A-Za-z0-9_-]{20,})$/.exec(location.hash);
  if (!given) return;
  if (local) sessionStorage.setItem(TOKEN, given[1]);
  history.replaceState(null, "", "#/jobs");
}

export function signIn(text) {
  sessionStorage.setItem(TOKEN, text.trim().replace(/^Bearer\s+/i, ""));
}

/** When a token ends, where it says so. */
export function ends(text) {
  try {
    const middle = text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const { exp } = JSON.parse(atob(middle));
    return typeof exp === "number" ? new Date(exp * 1000).toISOString() : null;
  } catch {
    return null;
  }
}

/** Return the answer to a question, or throw a `Problem`. */
export async function ask(path, query = {}, { signal } = {}) {
  const url = new URL(path.replace(/^\//, ""), ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  const headers = { Accept: "application/json, application/problem+json" };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  let reply;
  try {
    reply = await fetch(url, {
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
  const text = await reply.text();
  const told = parsed(text);
  if (reply.ok && told !== undefined) return told;
  throw problem(reply, told);
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function problem(reply, told) {
  const detail = told?.detail ?? told?.message ?? `It answered with ${reply.status}.`;
  const code = told?.code;
  if (reply.status === 401 || (reply.status === 403 && !code)) {
    return new Problem("sign-in", "Who is asking?", detail);
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

/** The form in which a person gives a token, and is told what becomes of it. */
export function signInView(refused, done) {
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
  const form = h(
    "form",
    {
      class: "card sign-in",
      onsubmit: (event) => {
        event.preventDefault();
        if (!field.value.trim()) return;
        signIn(field.value);
        field.value = "";
        done();
      },
    },
    h("h1", { tabindex: -1 }, "Sign in"),
    refused ? h("p", { class: "note note-bad", role: "alert" }, refused) : "",
    h(
      "p",
      {},
      "This API wants to know who asks. Paste an access token of its issuer, as you would put it into ",
      h("code", {}, "DISPATCH_TOKEN"),
      ".",
    ),
    h("label", { for: "token" }, "Access token"),
    field,
    h(
      "p",
      { id: "token-kept", class: "quiet" },
      "It is kept in this tab's session storage until you sign out or close the tab, sent to ",
      h("strong", {}, origin),
      " and nowhere else, and never shown again.",
    ),
    h("p", {}, h("button", { class: "button primary", type: "submit" }, "Sign in")),
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
  return form;
}
