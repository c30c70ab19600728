// Colours drawn on canvases, read from the style sheet so that both themes are right.

/** Ten colours that people with any kind of colour vision tell apart well, each readable on both grounds. */
export const SERIES = ["#2f7f86", "#d08a2e", "#7a6bb5", "#b5524a", "#5b8c3e", "#c46b9c", "#4a79b8", "#8a6d4b", "#3fa37c",
  "#8b8f3a"];

export function seriesColour(index) {
  return SERIES[index % SERIES.length];
}

/** The same name has the same colour everywhere. */
export function colourOf(name) {
  let hash = 7;
  for (const letter of name || "") hash = (hash * 31 + letter.codePointAt(0)) >>> 0;
  return SERIES[hash % SERIES.length];
}

export function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A function from 0..1 to a colour between the two ends of the heat ramp. */
export function ramp() {
  const [low, high] = ["--heat-0", "--heat-1"].map(style);
  return (share) => `color-mix(in srgb, ${high} ${Math.min(100 * share, 100)}%, ${low})`;
}

/** A colour as one number, as ImageData stores it (little-endian). */
export function packedColour(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** A packed colour, so much of it over a ground. */
export function mixed(colour, ground, share) {
  const channel = (shift) => Math.round(((colour >>> shift) & 255) * share + ((ground >>> shift) & 255) * (1 - share)) << shift;
  return (channel(0) | channel(8) | channel(16) | (255 << 24)) >>> 0;
}

/** A canvas made sharp for this screen; returns its context in CSS pixels. */
export function sharp(canvas, width, height) {
  const ratio = Math.min(devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}
