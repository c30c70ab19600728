// Small pictures of lines and bars, as SVG: sharp at every size, and with a sentence for those who cannot see them.

import { el, svg, swatch } from "./elements.js";
import { number } from "./words.js";

const LEFT = 44;
const BOTTOM = 22;

/** Nice numbers for an axis from 0 to most; `whole`: of things that are counted. */
function ticks(most, whole, wanted = 4) {
  const rough = Math.max(most / wanted || 1, whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, whole ? 4 : 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough);
  const found = [];
  for (let at = 0; at <= most + step * 0.001; at += step) found.push(at);
  return found;
}

/**
 * Lines over a common axis. `lines`: {name, colour, points: [[x, y]...], fill, dash}; `words`: what a listener hears.
 */
export function lineChart({ lines, width = 560, height = 190, xLabel = (x) => number(x), yLabel = (y) => number(y), most = null,
  words = "", xTicks = 5, step = false, whole = false }) {
  width = Math.min(width, Math.max(innerWidth - 60, 320)); // text stays readable on a phone
  if (width < 400) xTicks = Math.min(xTicks, 3);
  const all = lines.flatMap((line) => line.points);
  const [low, high] = [Math.min(...all.map(([x]) => x)), Math.max(...all.map(([x]) => x))];
  const top = most ?? (Math.max(...all.map(([, y]) => y), 0) || 1) * 1.05;
  const marks = ticks(top, whole, height < 150 ? 3 : 4);
  const x = (at) => LEFT + ((at - low) / (high - low || 1)) * (width - LEFT - 8);
  const y = (at) => height - BOTTOM - (at / top) * (height - BOTTOM - 8);
  const picture = svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
  for (const mark of marks) {
    if (mark > top) continue;
    picture.append(svg("line", { class: "axis", x1: LEFT, x2: width - 8, y1: y(mark), y2: y(mark) }),
      svg("text", { x: LEFT - 6, y: y(mark) + 4, "text-anchor": "end", text: yLabel(mark) }));
  }
  for (let at = 0; at < xTicks; at += 1) {
    const value = low + ((high - low) * at) / (xTicks - 1 || 1);
    const anchor = at === 0 ? "start" : at === xTicks - 1 ? "end" : "middle";
    picture.append(svg("text", { x: x(value), y: height - 5, "text-anchor": anchor, text: xLabel(value) }));
  }
  for (const line of lines) {
    if (!line.points.length) continue;
    let path = "";
    line.points.forEach(([at, value], place) => {
      if (place === 0) path += `M${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      else path += step ? `H${x(at).toFixed(1)}V${y(value).toFixed(1)}` : `L${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    });
    if (line.fill) {
      const [first, last] = [line.points[0][0], line.points.at(-1)[0]];
      picture.append(svg("path", { d: `${path}L${x(last)} ${y(0)}L${x(first)} ${y(0)}Z`, fill: line.colour, "fill-opacity": "0.16" }));
    }
    picture.append(svg("path", { d: path, fill: "none", stroke: line.colour, "stroke-width": 2, "stroke-linejoin": "round",
      "stroke-dasharray": line.dash || null }));
    if (line.dots) for (const [at, value] of line.points) picture.append(svg("circle", { cx: x(at), cy: y(value), r: 3, fill: line.colour }));
  }
  return picture;
}

export function legend(lines) {
  return el("div", { class: "legend" }, lines.map((line) => swatch(line.colour, line.name)));
}
