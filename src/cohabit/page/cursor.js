// The clock of a finished run: any instant of it can be looked at, or it is played.

import { choice, el } from "./elements.js";
import { instant } from "./words.js";

export function timeCursor(source, moved, changedRun) {
  const { about } = source;
  const slider = el("input", { type: "range", min: 0, max: 1000, value: 1000, "aria-label": "Instant of the run" });
  const shown = el("output", { class: "mono" });
  const play = el("button", { type: "button", text: "Play" });
  const set = (at) => {
    source.at = at;
    shown.textContent = instant(at, "run");
    slider.value = String((1000 * (at - about.from)) / (about.until - about.from || 1));
    slider.setAttribute("aria-valuetext", shown.textContent);
    moved();
  };
  slider.addEventListener("input", () => set(about.from + ((about.until - about.from) * Number(slider.value)) / 1000));
  let timer = null;
  play.addEventListener("click", () => {
    if (timer) { clearInterval(timer); timer = null; play.textContent = "Play"; return; }
    play.textContent = "Pause";
    if (source.at >= about.until) set(about.from);
    timer = setInterval(() => {
      const next = source.at + (about.until - about.from) / 200;
      set(Math.min(next, about.until));
      if (next >= about.until) play.click();
    }, 400);
  });
  set(source.at);
  const runs = about.runs.length > 1 ? choice("Which run", about.runs.map((run, place) => [String(place), run.name]), String(source.run),
    async (place) => { source.run = Number(place); await source.open(); changedRun(); }) : null;
  return el("div", { class: "row" }, runs, play, slider, shown);
}
