// Numbers, spans and instants as people read them.

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export function number(value) {
  return value === null || value === undefined ? "–" : plain.format(value);
}

export function percent(share, digits = 0) {
  return share === null || share === undefined || !Number.isFinite(share) ? "–" : `${(100 * share).toFixed(digits)} %`;
}

/** 2 min 5 s, and 2 min rather than 2 min 0 s. */
function units(large, one, small, other) {
  return small ? `${large} ${one} ${small} ${other}` : `${large} ${one}`;
}

/** A span in its two largest units. */
export function span(seconds) {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (Math.abs(seconds) < 0.05) return "0 s";
  if (seconds < 0) return `-${span(-seconds)}`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return units(Math.floor(whole / 60), "min", whole % 60, "s");
  if (whole < 86400) return units(Math.floor(whole / 3600), "h", Math.floor((whole % 3600) / 60), "min");
  return units(Math.floor(whole / 86400), "d", Math.floor((whole % 86400) / 3600), "h");
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
