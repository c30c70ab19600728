// Numbers, spans and instants as people read them.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function number(value) {
  return value === null || value === undefined ? "–" : plain.format(value);
}

export function percent(share, digits = 0) {
  return share === null || share === undefined || !Number.isFinite(share) ? "–" : `${(100 * share).toFixed(digits)} %`;
}

const PAIRS = [[3600, 60, "min", 1, "s"], [86400, 3600, "h", 60, "min"], [Infinity, 86400, "d", 3600, "h"]];

/** A span in its two largest units, as `duration` of model/units.py says it: 0.25 s, 4.2 s, 42 s, 2 min 5 s, 3 d 4 h. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds < 0) { const text = span(-seconds); return text === "0 s" ? text : `-${text}`; }
  for (const [most, parts] of [[0.995, 100], [9.95, 10]]) if (seconds < most) return `${Math.floor(seconds * parts + 0.5) / parts} s`;
  if (seconds < 59.5) return `${Math.floor(seconds + 0.5)} s`;
  const [, unit, larger, part, smaller] = PAIRS.find(([most, , , one]) => Math.floor(seconds / one + 0.5) * one < most);
  const count = Math.floor(seconds / part + 0.5);
  const [whole, rest] = [Math.floor(count / (unit / part)), count % (unit / part)];
  return rest ? `${whole} ${larger} ${rest} ${smaller}` : `${whole} ${larger}`;
}

/** How long something has lasted; a clock that is a little ahead makes it no less than nothing. */
export function lasted(from, to) {
  return span(Math.max(to - from, 0));
}

/** An instant: of today the time alone. A finished run counts from its own beginning. */
export function instant(at, clock = "unix") {
  if (at === null || at === undefined) return "–";
  if (clock === "run") return at < 0 ? `T−${span(-at)}` : `T+${span(at)}`;
  const then = new Date(at * 1000);
  const time = then.toLocaleTimeString("en-GB");
  return then.toDateString() === new Date().toDateString() ? time
    : `${then.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${time}`;
}

export function count(value, noun) {
  return `${number(value)} ${noun}${value === 1 ? "" : "s"}`;
}

export function gigabytes(bytes) {
  return bytes ? `${number(bytes / 2 ** 30)} GiB` : "–";
}

let names = null; // of the nodes, as a resource manager calls them; null: they have numbers only

export function nameNodes(all) { names = all || null; }

export function nodeName(node) { return names?.[node] ?? `${node}`; }

/** 0-3, 7, 9-12; with names: n0–n3, n7 */
export function ranges(numbers) {
  const parts = [];
  for (let at = 0; at < numbers.length; at += 1) {
    const from = numbers[at];
    while (numbers[at + 1] === numbers[at] + 1) at += 1;
    parts.push(from === numbers[at] ? nodeName(from) : `${nodeName(from)}–${nodeName(numbers[at])}`);
  }
  return parts.length > 12 ? `${parts.slice(0, 12).join(", ")} … (${numbers.length})` : parts.join(", ");
}
