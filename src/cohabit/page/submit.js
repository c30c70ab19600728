// Handing in a job from the page: the few things most jobs need, and a dry run that says when it would start.

import { button, el, toast } from "./elements.js";
import { instant, ranges, span } from "./words.js";

/** Words as a shell would cut them: quotes keep spaces; no variables, no wildcards, no pipes. */
export function words(line) {
  const found = [];
  let word = null;
  let quote = "";
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at];
    if (quote) {
      if (letter === quote) quote = "";
      else if (letter === "\\" && quote === "\"" && at + 1 < line.length) { at += 1; word += line[at]; } else word += letter;
    } else if (letter === "'" || letter === "\"") { quote = letter; word ??= ""; } else if (letter === "\\" && at + 1 < line.length) {
      at += 1;
      word = (word ?? "") + line[at];
    } else if (/\s/.test(letter)) { if (word !== null) found.push(word); word = null; } else word = (word ?? "") + letter;
  }
  if (quote) throw new Error(`a quote (${quote}) is not closed`);
  if (word !== null) found.push(word);
  return found;
}

function seconds(text) {
  const match = /^\s*([0-9.]+)\s*(s|sec|m|min|h|d)?\s*$/.exec(text);
  if (!match) throw new Error(`“${text}” is no span: write 90s, 10m, 2h or 1d`);
  return Number(match[1]) * { s: 1, sec: 1, m: 60, min: 60, h: 3600, d: 86400 }[match[2] || "s"];
}

function field(label, input, wide = false) {
  return el("div", { class: wide ? "field full" : "field" }, el("label", { for: input.id, text: label }), input);
}

export function submitDialog(source) {
  const given = {
    command: el("input", { id: "f-command", class: "mono", required: true, placeholder: "./solve input.dat", spellcheck: "false", autocomplete: "off" }),
    name: el("input", { id: "f-name", placeholder: "the next number", autocomplete: "off" }),
    program: el("input", { id: "f-program", placeholder: "the command's name", autocomplete: "off" }),
    processes: el("input", { id: "f-processes", type: "number", min: 1, value: 1 }),
    limit: el("input", { id: "f-limit", value: "1h" }),
    folder: el("input", { id: "f-folder", placeholder: "home, or the server's place", autocomplete: "off" }),
    hold: el("input", { id: "f-hold", type: "checkbox" }),
    exclusive: el("input", { id: "f-exclusive", type: "checkbox" }),
  };
  given.hold.classList.add("check");
  const said = el("p", { role: "alert" });
  const check = (input, text) => el("label", { class: "row full" }, input, text);
  const dialog = el("dialog", { "aria-labelledby": "submit-title" });
  const wish = () => {
    const command = words(given.command.value);
    if (!command.length) throw new Error("there is nothing to execute");
    const body = { command, processes: Number(given.processes.value), limit_s: seconds(given.limit.value) };
    for (const key of ["name", "program", "folder"]) if (given[key].value.trim()) body[key] = given[key].value.trim();
    for (const key of ["hold", "exclusive"]) if (given[key].checked) body[key] = true;
    return body;
  };
  const send = async (dry) => {
    said.className = "";
    said.textContent = "…";
    try {
      const answer = await source.change("POST", `jobs${dry ? "?dry_run=true" : ""}`, wish());
      if (dry) {
        said.textContent = answer.start_at === null ? answer.why
          : `It would start ${answer.start_in_s < 1 ? "at once" : `in ${span(answer.start_in_s)}, at ${instant(answer.start_at)}`} on ${answer.nodes.length === 1 ? "node" : "nodes"} ${ranges(answer.nodes)}.`;
      } else {
        dialog.close();
        toast(`Submitted job ${answer.job}`);
        location.hash = `#/jobs/${encodeURIComponent(answer.job)}`;
      }
    } catch (error) {
      said.className = "bad-word";
      said.textContent = `${error.where ? `${error.where}: ` : ""}${error.message}${error.fix ? ` – ${error.fix}` : ""}`;
    }
  };
  const form = el("form", {},
    el("h2", { id: "submit-title", text: "Submit a job" }),
    el("div", { class: "fields" }, field("Command, without a shell", given.command, true), field("Name", given.name), field("Program, for its profile", given.program),
      field("Processes", given.processes), field("Time limit", given.limit), field("Folder", given.folder, true),
      check(given.hold, "Hold it until it is released"), check(given.exclusive, "No other job on its nodes")),
    said,
    el("div", { class: "row" }, el("button", { class: "main", text: "Submit" }),
      button("When would it start?", () => send(true)),
      button("Close", () => dialog.close(), { class: "quiet" })));
  form.addEventListener("submit", (event) => { event.preventDefault(); send(false); });
  dialog.append(form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  given.command.focus();
}
