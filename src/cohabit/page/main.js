// The frame of the page: who looks, at what, in which colours, and which view is shown.

import { el, empty, toast } from "./elements.js";
import { Session, Source } from "./source.js";
import { nameNodes } from "./words.js";

const VIEWS = [
  ["", "Overview", () => import("./overview.js")],
  ["jobs", "Jobs", () => import("./jobs.js")],
  ["nodes", "Nodes", () => import("./nodes.js")],
  ["gantt", "Gantt", () => import("./gantt.js")],
  ["programs", "Programs", () => import("./programs.js")],
  ["predictions", "Predictions", () => import("./predictions.js")],
  ["domains", "Domains", () => import("./domains.js")],
  ["compare", "Compare", () => import("./compare.js")],
  ["whatif", "What if", () => import("./whatif.js")],
];
const main = document.getElementById("main");
const session = new Session();
const source = new Source(session);
let shown = null; // the view on the screen: {refresh, close}
let turn = 0;

// ---- colours -------------------------------------------------------------------------------------------------------

const THEMES = [["", "as the system has them", "◐"], ["light", "light", "☀"], ["dark", "dark", "☾"]];

function setTheme(name) {
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  const [, words, sign] = THEMES.find(([key]) => key === name) || THEMES[0];
  const button = document.getElementById("theme");
  button.textContent = sign;
  button.setAttribute("aria-label", `Colours: ${words}`);
  button.title = `Colours: ${words}`;
  localStorage.setItem("cohabit-theme", name);
  if (shown && shown.redraw) shown.redraw();
}

document.getElementById("theme").addEventListener("click", () => {
  const now = localStorage.getItem("cohabit-theme") || "";
  setTheme(THEMES[(THEMES.findIndex(([key]) => key === now) + 1) % THEMES.length][0]);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && shown.redraw && shown.redraw());

// ---- views ---------------------------------------------------------------------------------------------------------

function tabs(current) {
  const about = source.about;
  const bare = { domains: about && !about.coupled, compare: about && (source.live || about.runs.length < 2), whatif: about && (source.live || about.coupled),
    programs: about && about.programs === false, predictions: about && about.predictions === false };
  document.getElementById("tabs").replaceChildren(...VIEWS.filter(([name]) => !bare[name] || name === current).map(([name, title]) => el("a", {
    href: `#/${name}`, text: title, "aria-current": name === current ? "page" : null,
  })));
}

async function show() {
  const mine = turn += 1;
  const [name = "", ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decoded);
  const view = VIEWS.find(([key]) => key === name) || VIEWS[0];
  tabs(view[0]);
  if (shown) { shown.stop(); if (shown.close) shown.close(); shown = null; }
  const root = el("div", { class: `view view-${view[0] || "overview"}` });
  try {
    const { open } = await view[2]();
    const opened = await open(root, source, rest);
    if (mine !== turn) { if (opened.close) opened.close(); return; }
    main.replaceChildren(root);
    if (opened.shown) opened.shown();
    shown = { ...opened, stop: opened.refresh ? source.watch((events) => opened.refresh(events)) : () => {} };
    document.title = `${opened.title || view[1]} · Cohabit`;
    performance.mark(`shown-${view[0] || "overview"}`);
  } catch (error) {
    if (mine === turn) failed(error);
  }
}

/** A part of the address; what is no encoding stands for itself. */
function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function failed(error) {
  if (error.status === 401) { signIn("Your session has ended: sign in again."); return; }
  if (error.status === undefined) console.error(error);
  main.replaceChildren(empty(error.message || String(error), error.fix || "Go back, or load the page again."));
}

addEventListener("hashchange", () => { show().then(() => main.focus({ preventScroll: true })); });

// ---- signing in ----------------------------------------------------------------------------------------------------

function signIn(why = "") {
  const field = el("input", { id: "token", name: "token", type: "password", autocomplete: "off", required: true,
    spellcheck: "false" });
  const said = el("p", { class: "bad-word", role: "alert", text: why });
  const form = el("form", { class: "card sign-in" }, el("h1", { text: "Sign in" }),
    el("p", { text: "On the scheduler's machine, this command prints a link that opens the page:" }),
    el("pre", { class: "code", text: "cohabit page" }),
    el("p", { text: "From elsewhere, enter your token:" }),
    el("label", { for: "token", text: "Token" }), field, said, el("button", { class: "main", text: "Sign in" }));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      await session.signIn(field.value.trim());
      await start();
    } catch (error) {
      session.forget();
      said.textContent = error.message;
      field.focus();
    }
  });
  tabs("");
  document.getElementById("tabs").replaceChildren();
  main.replaceChildren(form);
  field.focus();
}

// ---- a finished run has a clock of its own -------------------------------------------------------------------------

async function cursor() {
  const { timeCursor } = await import("./cursor.js");
  const bar = document.getElementById("cursor");
  bar.hidden = false;
  bar.replaceChildren(timeCursor(source, () => source.tell([{ kind: "moved" }]), () => show()));
}

function status(word) {
  const one = document.getElementById("status");
  one.className = `status ${word}`;
  one.textContent = word === "live" ? "live" : word === "finished" ? "finished run" : "reconnecting …";
}

async function start() {
  const about = await source.open();
  nameNodes(about.node_names);
  document.getElementById("leave").hidden = about.source !== "live";
  document.getElementById("leave").title = `Signed in as ${about.user} (${about.role})`;
  if (about.source === "live") {
    source.listen(status);
    setInterval(() => { if (!document.hidden) source.tell([{ kind: "tick" }]); }, 10000); // time passes, too
  } else { status("finished"); await cursor(); }
  await show();
}

document.getElementById("leave").addEventListener("click", () => session.leave());
addEventListener("unhandledrejection", (event) => {
  if (event.reason && event.reason.status) { toast(event.reason.message, true); event.preventDefault(); }
});
setTheme(localStorage.getItem("cohabit-theme") || "");
tabs("");
try {
  if (await session.begin()) await start();
  else signIn();
} catch (error) {
  if (error.status === 401) { session.forget(); signIn(error.message); } else failed(error);
}
