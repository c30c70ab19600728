// What if a finished run had had other nodes, another promise or another policy: the server simulates it again on demand.

import { beside } from "./compare.js";
import { card, el, empty, head } from "./elements.js";
import { count, number } from "./words.js";

const FIGURES = ["mean_turnaround_s", "mean_wait_s", "p95_wait_s", "mean_slowdown_alone", "run_against_alone", "jobs_below_promise", "utilisation", "makespan_s", "node_hours_occupied", "jobs_ran"];
const SOON_MS = 250; // after the last move of a slider

export async function open(root, source) {
  const may = await source.ask("whatif/choices");
  root.append(head("What if", el("p", { text: "The same jobs, simulated again with other nodes, another promise or another policy." })));
  if (may.why) { root.append(card("Simulated again", {}, empty(may.why))); return { title: "What if" }; }
  const said = el("p", { class: "hover", role: "status" });
  const answer = el("div", { class: "view" });
  const field = (label, input, shown) => el("div", { class: "field" }, el("label", { for: input.id }, label, " ", shown), input);
  const nodes = may.nodes && el("input", { id: "whatif-nodes", type: "range", min: may.nodes[0], max: may.nodes[2], value: may.nodes[1] });
  const alpha = el("input", { id: "whatif-alpha", type: "range", min: 0.5, max: 1, step: 0.01, value: may.alpha ?? 0.9 });
  const policy = el("select", { id: "whatif-policy" }, el("option", { value: "", text: `as it was: ${may.policy}` }),
    Object.entries(may.policies).map(([name, words]) => el("option", { value: name, text: `${name}: ${words}` })));
  const [nodesShown, alphaShown] = [el("output", { class: "mono" }), el("output", { class: "mono" })];
  const alphaMoved = () => Number(alpha.value) !== (may.alpha ?? 0.9);
  let turn = 0;
  const ask = async () => {
    const mine = turn += 1;
    const given = { policy: policy.value, ...(nodes ? { nodes: nodes.value } : {}), ...(alphaMoved() ? { alpha: alpha.value } : {}) };
    said.textContent = "Simulating …";
    try {
      const told = await source.ask("whatif", given);
      if (mine !== turn) return;
      const about = [nodes ? count(Number(nodes.value), "node") : "", told.policy].filter(Boolean).join(", ");
      said.textContent = `${about}: simulated in ${number(told.took_s)} s. ${told.notes.join(" ")}`;
      answer.replaceChildren(...beside(told, ["As it was", "What if"], "One simulation each: a small difference may be chance. cohabit compare --repeat 5 gives intervals.", FIGURES));
    } catch (error) {
      if (mine === turn) { said.textContent = `${error.message}${error.fix ? `: ${error.fix}` : ""}`; answer.replaceChildren(); }
    }
  };
  const show = () => {
    if (nodes) nodesShown.textContent = nodes.value;
    alphaShown.textContent = alphaMoved() ? Number(alpha.value).toFixed(2) : may.alpha === null ? "as it was" : `${may.alpha}, as it was`;
  };
  let timer = 0;
  for (const input of [nodes, alpha, policy].filter(Boolean)) input.addEventListener("input", () => { show(); clearTimeout(timer); timer = setTimeout(ask, SOON_MS); });
  show();
  root.append(card("Simulated again", {}, el("div", { class: "asked" }, nodes ? field("Nodes:", nodes, nodesShown) : null,
    field("Promise (alpha): the share of its speed alone that a job keeps:", alpha, alphaShown), field("Policy", policy, "")), said), answer);
  ask();
  return { title: "What if", close: () => clearTimeout(timer) };
}
