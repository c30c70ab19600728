// Making elements. Text only ever becomes a text node: nothing a user wrote can become markup.

import { lasted, nodeName, number } from "./words.js";

/** An element. `given`: class, text, data, on (listeners), style (custom properties), or any attribute. */
export function el(tag, given = {}, ...children) {
  const one = document.createElement(tag);
  dress(one, given);
  one.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return one;
}

/** The same for pictures. */
export function svg(tag, given = {}, ...children) {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  dress(one, given);
  one.append(...children.flat(Infinity).filter(Boolean));
  return one;
}

function dress(one, given) {
  for (const [name, value] of Object.entries(given)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") one.setAttribute("class", value);
    else if (name === "text") one.textContent = value;
    else if (name === "on") for (const [kind, listener] of Object.entries(value)) one.addEventListener(kind, listener);
    else if (name === "style") for (const [key, text] of Object.entries(value)) one.style.setProperty(key, text);
    else if (name === "data") Object.assign(one.dataset, value);
    else one.setAttribute(name, value === true ? "" : value);
  }
}

/** A card with a heading. */
export function card(title, { aside = null, note = "", wide = false, id = null } = {}, ...children) {
  const name = id || `card-${title.toLowerCase().replace(/[^a-z]+/g, "-")}`;
  return el("section", { class: wide ? "card wide" : "card", "aria-labelledby": name },
    el("div", { class: "card-head" }, el("h2", { id: name, text: title }), aside),
    note ? el("p", { class: "note", text: note }) : null, ...children);
}

/** The head of a view. */
export function head(title, ...more) { return el("div", { class: "page-head" }, el("h1", { text: title }), ...more); }

export function button(text, click, more = {}) { return el("button", { type: "button", text, on: { click }, ...more }); }

/** A little square of a colour and what it stands for. */
export function swatch(colour, ...words) { return el("span", {}, el("span", { class: "swatch", style: { "--colour": colour } }), ...words); }

/** What part of so many rows is shown; `turn(by)` shows another. */
export function pager(first, here, total, most, turn, all = number(total)) {
  return [el("span", { text: `${number(first + 1)}–${number(first + here)} of ${all}` }), button("Back", () => turn(-most), { disabled: first === 0 }),
    button("Next", () => turn(most), { disabled: first + here >= total })];
}

/** What is said where there is nothing to show, and what to do about it. */
export function empty(what, hint = "", code = "") {
  return el("div", { class: "empty" }, el("p", { class: "empty-what", text: what }),
    hint ? el("p", { class: "empty-hint", text: hint }) : null, code ? el("pre", { class: "code", text: code }) : null);
}

/** A table: columns {key, title, number, cell(row)}; rows may be links. */
export function table(columns, rows, { caption, sort = null, onSort = null, rowKey = null } = {}) {
  const head = columns.map((column) => {
    const cell = el("th", { scope: "col", class: column.number ? "number" : "" });
    if (onSort && column.sort) {
      const active = sort && sort.key === column.sort;
      cell.setAttribute("aria-sort", active ? (sort.down ? "descending" : "ascending") : "none");
      cell.append(el("button", { class: "sort", type: "button", on: { click: () => onSort(column.sort) } },
        column.title, el("span", { "aria-hidden": "true", text: active ? (sort.down ? " ↓" : " ↑") : "" })));
    } else cell.textContent = column.title;
    return cell;
  });
  const body = rows.map((row) => el("tr", rowKey ? { data: { key: rowKey(row) } } : {}, columns.map((column) => {
    const content = column.cell(row);
    return el("td", { class: [column.number ? "number" : "", column.class || ""].join(" ").trim(),
      data: { title: column.title } }, content instanceof Node ? content : String(content ?? ""));
  })));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption || "Table" },
    el("table", {}, caption ? el("caption", { class: "hidden", text: caption }) : null,
      el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

/** One choice out of a few, as buttons. */
export function choice(label, options, chosen, onChoose) {
  const buttons = options.map(([value, text]) => el("button", {
    type: "button", "aria-pressed": String(value === chosen), text,
    on: { click: () => { mark(value); onChoose(value); } }, data: { value },
  }));
  const mark = (value) => buttons.forEach((one) => one.setAttribute("aria-pressed", String(one.dataset.value === value)));
  return el("div", { class: "choice", role: "group", "aria-label": label }, buttons);
}

/** How a job stands, as a small label; colour is never the only sign. */
export function badge(state) {
  return el("span", { class: `badge state-${/^[a-z]+$/.test(state) ? state : "other"}`, text: state });
}

export function jobLink(job) {
  return el("a", { href: `#/jobs/${encodeURIComponent(job)}`, class: "name", text: job });
}

/** A job by its link; plain users see no names of others' jobs. */
export function jobOf(one) { return one.job ? jobLink(one.job) : el("span", { class: "soft", text: "a job of another user" }); }

export function nodeLink(node) {
  return el("a", { href: `#/nodes/${node}`, text: `node ${nodeName(node)}` });
}

/** What a side said of its job, in words. */
const PHASES = { unsubmitted: "not submitted", idle: "waits in its queue", ready: "could start", reserving: "looks for nodes", voted: "has nodes reserved",
  committed: "start is agreed", running: "runs, bound to its mates", free: "runs on its own", ended: "has ended", gone: "will never run" };

export function phase(name, words = "") {
  return el("span", { class: "badge", text: words || PHASES[name] || name, title: `phase ${name}` });
}

/** Mates in other domains: where each stood when it was last heard of. */
export function mateList(mates) {
  return el("span", {}, mates.map((mate) => el("div", {}, `${mate.domain}: ${mate.job} `, phase(mate.phase),
    mate.heard_s === null ? " never heard of" : ` heard ${lasted(0, mate.heard_s)} ago`)));
}

/** A short word about something that happened. */
export function toast(text, bad = false) {
  const one = el("div", { class: bad ? "toast bad" : "toast", text });
  document.getElementById("toasts").append(one);
  setTimeout(() => one.remove(), bad ? 9000 : 4000);
}

/** Names and values, one below the other. */
export function facts(pairs) {
  return el("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .map(([name, value]) => el("div", {}, el("dt", { text: name }),
      el("dd", {}, value instanceof Node ? value : String(value)))));
}
