// Signing in at the issuer: the authorization code with PKCE, for this tab and no longer than it.

import { Problem } from "./dom.js";

const TOKEN = "dispatch.token";
const KEPT = "dispatch.sign-in"; // what renews the token and ends the sign-in
const PENDING = "dispatch.pending"; // what the issuer's answer is held to
const EARLY_MS = 30_000;
const SKEW_MS = 60_000;
const HERE = new Set(["127.0.0.1", "localhost"]);
const REDIRECT = new URL("../ui", import.meta.url).href;

/** The issuer, as this deployment names it; null where people bring a token themselves. */
export const issuer = named();
export const issuerHost = issuer ? new URL(issuer.issuer).host : "";

export const token = () => sessionStorage.getItem(TOKEN);
/** Whether a sign-in of this tab has run its time. */
export function hasEnded() {
  const kept = read(KEPT);
  return kept !== null && kept.until !== null && Date.now() >= kept.until - SKEW_MS;
}

let left = null; // how to sign out at the issuer too, after signing out here
let known = null; // the issuer's own description
let renewing = null;

function named() {
  const text = document.querySelector('meta[name="sign-in"]')?.content;
  return text ? JSON.parse(text) : null;
}

function read(name) {
  try {
    return JSON.parse(sessionStorage.getItem(name));
  } catch {
    return null;
  }
}

/** Take a token that a person brought. */
export function bring(text) {
  forget();
  sessionStorage.setItem(TOKEN, text.trim().replace(/^Bearer\s+/i, ""));
}

export function forget() {
  for (const name of [TOKEN, KEPT, PENDING]) sessionStorage.removeItem(name);
}

/** What a token says; nothing where it isn't one that says anything. */
export function claims(text) {
  try {
    const middle = text.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const bytes = Uint8Array.from(atob(middle), (one) => one.charCodeAt(0));
    return JSON.parse(new TextDecoder().decode(bytes)) ?? {};
  } catch {
    return {};
  }
}

// --- there and back ---

/** Go to the issuer; it leads back to this page, and the page to where it was. */
export async function begin() {
  const { authorization_endpoint: where } = await described();
  const pending = { state: random(), nonce: random(), verifier: random(), place: location.hash };
  const challenge = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(pending.verifier));
  sessionStorage.setItem(PENDING, JSON.stringify(pending));
  const url = new URL(where);
  const asked = {
    response_type: "code",
    client_id: issuer.client_id,
    redirect_uri: REDIRECT,
    scope: issuer.scopes,
    audience: issuer.audience,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: packed(challenge),
    code_challenge_method: "S256",
  };
  for (const [name, value] of Object.entries(asked)) if (value) url.searchParams.set(name, value);
  location.assign(url);
}

/** Take the issuer's answer from the address, where there is one, and redeem it. */
export async function returned() {
  const said = new URLSearchParams(location.search);
  if (!["code", "error", "state"].some((name) => said.has(name))) return;
  const pending = read(PENDING);
  sessionStorage.removeItem(PENDING);
  history.replaceState(null, "", `${location.pathname}${pending?.place ?? location.hash}`);
  if (!issuer || (!pending && token())) return; // an answer that was taken already, gone back to
  if (!pending || said.get("state") !== pending.state) {
    throw refused("It doesn't answer what this tab asked. Nothing of it was used.");
  }
  if (said.has("iss") && said.get("iss") !== issuer.issuer) {
    throw refused(`It comes from ${said.get("iss")}.`);
  }
  if (said.has("error")) throw refused(said.get("error_description") ?? said.get("error"));
  const told = await redeem({
    grant_type: "authorization_code",
    code: said.get("code") ?? "",
    redirect_uri: REDIRECT,
    code_verifier: pending.verifier,
  });
  const who = claims(told.id_token ?? "");
  if (who.nonce !== pending.nonce) throw refused("Its nonce isn't the one of this tab.");
  checkWho(who);
  left = null;
  keep(told, { sub: who.sub, id: told.id_token });
}

function checkWho(who) {
  const audiences = [who.aud].flat();
  if (who.iss !== issuer.issuer) throw refused(`Its identity token is of ${who.iss}.`);
  if (!audiences.includes(issuer.client_id) || (who.azp ?? issuer.client_id) !== issuer.client_id) {
    throw refused("Its identity token is meant for another client.");
  }
  if (typeof who.exp !== "number" || who.exp * 1000 < Date.now() - SKEW_MS) {
    throw refused("Its identity token has expired: see that this machine's clock is right.");
  }
}

function keep(told, { sub, id, refresh }) {
  if (!told.access_token || !/^bearer$/i.test(told.token_type ?? "bearer")) {
    throw refused("It has no access token.");
  }
  const ends = told.expires_in ? Date.now() + told.expires_in * 1000 : null;
  const until = ends ?? (claims(told.access_token).exp ?? Infinity) * 1000;
  sessionStorage.setItem(TOKEN, told.access_token);
  const kept = { sub, id, until, refresh: told.refresh_token ?? refresh };
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
}

// --- renewing ---

/** Renew a token that is about to end, where the issuer lets it be renewed. */
export async function fresh() {
  const kept = read(KEPT);
  if (kept?.refresh && kept.until !== null && Date.now() > kept.until - EARLY_MS) await renew();
}

/** Renew the token; false where only signing in again helps. Those who ask at once share one. */
export function renew() {
  renewing ??= renewal().finally(() => {
    renewing = null;
  });
  return renewing;
}

async function renewal() {
  const kept = read(KEPT);
  if (!kept?.refresh) return false;
  let told;
  try {
    told = await redeem({ grant_type: "refresh_token", refresh_token: kept.refresh });
  } catch (error) {
    if (error.kind !== "sign-in") throw error;
    sessionStorage.setItem(KEPT, JSON.stringify({ ...kept, refresh: undefined }));
    return false;
  }
  if (read(KEPT) === null) return false; // signed out meanwhile
  if (told.id_token) {
    const who = claims(told.id_token);
    checkWho(who);
    if (who.sub !== kept.sub) throw refused("It is about somebody else.");
  }
  keep(told, { ...kept, id: told.id_token ?? kept.id });
  return true;
}

// --- leaving ---

/** Forget the sign-in, and take back what could renew it. */
export function leave() {
  const kept = read(KEPT);
  forget();
  if (!kept) return;
  left = { id: kept.id };
  if (kept.refresh) revoke(kept.refresh);
}

async function revoke(refresh) {
  try {
    const { revocation_endpoint: where } = await described();
    if (where && mayAsk(where)) await send(where, { token: refresh, client_id: issuer.client_id });
  } catch {
    // It ends by itself, and this tab has forgotten it.
  }
}

/** Where a person who has just signed out here may sign out at the issuer too; or null. */
export async function wayOut() {
  if (left === null) return null;
  const { end_session_endpoint: where } = await described();
  if (!where) return null;
  const url = new URL(safe(where));
  url.searchParams.set("client_id", issuer.client_id);
  url.searchParams.set("post_logout_redirect_uri", REDIRECT);
  if (left?.id) url.searchParams.set("id_token_hint", left.id);
  return () => location.assign(url);
}

export const justLeft = () => left !== null;

// --- asking the issuer ---

async function described() {
  known ??= send(`${issuer.issuer.replace(/\/$/, "")}/.well-known/openid-configuration`).then(
    ([ok, told]) => {
      if (!ok) throw silent("It doesn't describe itself.");
      if (told.issuer !== issuer.issuer) throw wrong(`It calls itself ${told.issuer}.`, "JwtIssuer");
      safe(told.authorization_endpoint);
      if (!mayAsk(told.token_endpoint)) {
        throw wrong(`It gives tokens at ${told.token_endpoint}.`, "ConsoleTokenOrigin");
      }
      return told;
    },
  );
  known.catch(() => {
    known = null;
  });
  return known;
}

async function redeem(asked) {
  const { token_endpoint: where } = await described();
  const [ok, told, status] = await send(where, { ...asked, client_id: issuer.client_id });
  if (ok) return told;
  if (status >= 500 || status === 429) throw silent(`It answered with ${status}.`);
  throw refused(told.error_description ?? told.error ?? `It answered with ${status}.`);
}

async function send(url, form) {
  const how = form ? { method: "POST", body: new URLSearchParams(form) } : {};
  try {
    const reply = await fetch(url, { ...how, credentials: "omit", redirect: "error" });
    const told = await reply.json().catch(() => ({}));
    return [reply.ok, told ?? {}, reply.status];
  } catch {
    throw silent(`Nothing answers at ${new URL(url).origin}.`);
  }
}

function mayAsk(url) {
  const asked = new URL(safe(url)).origin;
  return [new URL(issuer.issuer).origin, issuer.token_origin].includes(asked);
}

function safe(url) {
  const { protocol, hostname } = new URL(url);
  if (protocol === "https:" || (protocol === "http:" && HERE.has(hostname))) return url;
  throw wrong(`It leads to ${url}, which isn't safe.`, "JwtIssuer");
}

const refused = (why) => new Problem("sign-in", "The issuer's answer can't be taken", why);
const silent = (why) =>
  new Problem("unreachable", `No answer from ${issuerHost}`, why, "This page asks again by itself.");
const wrong = (why, parameter) =>
  new Problem(
    "misconfigured",
    "This console can't sign anybody in",
    `${issuer.issuer}: ${why}`,
    `Whoever deployed it has to look at ${parameter}.`,
  );

function packed(buffer) {
  const text = String.fromCharCode(...new Uint8Array(buffer));
  return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

const random = () => packed(crypto.getRandomValues(new Uint8Array(32)));
