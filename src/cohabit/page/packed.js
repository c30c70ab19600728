// Columns of numbers as the server packs them (live/api/page/charts.py): a header in JSON, then plain arrays.

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length + ((8 - ((4 + length) % 8)) % 8);
  const found = { ...header };
  for (const [name, kind, size] of header.arrays) {
    found[name] = kind === "f64" ? new Float64Array(buffer, at, size) : new Int32Array(buffer, at, size);
    const bytes = size * (kind === "f64" ? 8 : 4);
    at += bytes + ((8 - (bytes % 8)) % 8);
  }
  return found;
}
