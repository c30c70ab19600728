// Bars painted straight into pixels, in tiles of time that are kept: panning only copies them, and a zoom paints a few at
// a time over the picture as it was. So a million bars move as smoothly as a hundred.

const TILE = 256;
const MOST_TILES = 80;
const BUDGET_MS = 10;
const SETTLE_MS = 120;
const MOST_BINS = 2048;

export class Raster {
  /** `data`: columns of the chart; `colours`: one packed colour for each job; `lane`, `across`: where jobs lie beside each other. */
  constructor(data, colours, lane, across) {
    Object.assign(this, { data, colours, lane, across, tiles: new Map(), key: "" });
    this.index();
  }

  /** Which bars are in sight in each stretch of time, so that a tile looks at few. */
  index() {
    const { bar_job: job, start, end, from, until } = this.data;
    const bars = job.length;
    let total = 0;
    for (let bar = 0; bar < bars; bar += 1) total += end[job[bar]] - start[job[bar]];
    this.least = from;
    this.bins = Math.max(1, Math.min(MOST_BINS, Math.round((until - from) / Math.max(total / Math.max(bars, 1), 1e-9))));
    this.perBin = Math.max((until - from) / this.bins, 1e-9);
    const counts = new Int32Array(this.bins + 1);
    for (let bar = 0; bar < bars; bar += 1) {
      for (let bin = this.bin(start[job[bar]]), last = this.bin(end[job[bar]]); bin <= last; bin += 1) counts[bin + 1] += 1;
    }
    for (let bin = 0; bin < this.bins; bin += 1) counts[bin + 1] += counts[bin];
    this.begins = counts.slice();
    this.bars = new Int32Array(counts[this.bins]);
    for (let bar = 0; bar < bars; bar += 1) {
      for (let bin = this.bin(start[job[bar]]), last = this.bin(end[job[bar]]); bin <= last; bin += 1) {
        this.bars[counts[bin]] = bar;
        counts[bin] += 1;
      }
    }
  }

  bin(at) { return Math.max(0, Math.min(this.bins - 1, Math.floor((at - this.least) / this.perBin))); }

  /** Bars of the stretch that holds an instant. */
  near(at) {
    const bin = this.bin(at);
    return this.bars.subarray(this.begins[bin], this.begins[bin + 1]);
  }

  /**
   * Draw what is between two instants and two nodes into a box of `w` by `h` device pixels at `left`; false: some of it
   * is still the old picture, draw again soon.
   */
  draw(context, left, w, h, view, ground) {
    this.ground = ground;
    const perSecond = w / (view.until - view.from);
    const key = [perSecond.toPrecision(9), view.top, view.bottom, h, ground].join();
    if (key !== this.key) {
      this.keepOld(context, left, w, h, view);
      this.tiles.clear();
      this.key = key;
      this.changed = performance.now();
    }
    const seconds = TILE / perSecond;
    const [first, last] = [view.from, view.until].map((at) => Math.floor((at - this.least) / seconds));
    const missing = [];
    context.save();
    context.beginPath();
    context.rect(left, 0, w, h);
    context.clip();
    if (this.old) this.drawOld(context, left, w, h, view);
    const settling = this.old && performance.now() - this.changed < SETTLE_MS; // still zooming: the old picture will do
    const put = (number) => context.drawImage(this.tiles.get(number), left + Math.round((this.least + number * seconds - view.from) * perSecond), 0);
    for (let number = first; number <= last; number += 1) {
      if (this.tiles.has(number)) put(number);
      else missing.push(number);
    }
    const begun = performance.now();
    while (missing.length && !settling && performance.now() - begun < BUDGET_MS) {
      const number = missing.shift();
      this.tiles.set(number, this.paint(number, seconds, perSecond, h, view, ground));
      put(number);
    }
    context.restore();
    if (!missing.length) { this.old = null; this.last = { ...view, w, h }; }
    if (this.tiles.size > MOST_TILES) for (const number of this.tiles.keys()) if (Math.abs(number - first) > MOST_TILES / 3) this.tiles.delete(number);
    return !missing.length;
  }

  /** The picture as it is, to be stretched while the new one is painted. */
  keepOld(context, left, w, h, view) {
    if (this.old && this.old.w === w && this.old.h === h) return; // what is on the screen is a stretched picture itself
    if (!this.last || this.last.w !== w || this.last.h !== h) { this.last = { ...view, w, h }; this.old = null; return; }
    const canvas = new OffscreenCanvas(w, h);
    canvas.getContext("2d").drawImage(context.canvas, left, 0, w, h, 0, 0, w, h);
    this.old = { canvas, ...this.last };
  }

  drawOld(context, left, w, h, view) {
    const { canvas, from, until, top, bottom } = this.old;
    const x = ((from - view.from) / (view.until - view.from)) * w;
    context.fillStyle = `#${(this.ground & 0xff).toString(16).padStart(2, "0")}${((this.ground >> 8) & 0xff).toString(16).padStart(2, "0")}${((this.ground >> 16) & 0xff).toString(16).padStart(2, "0")}`;
    context.fillRect(left, 0, w, h);
    const y = ((top - view.top) / (view.bottom - view.top)) * h;
    context.drawImage(canvas, left + x, y, (w * (until - from)) / (view.until - view.from), (h * (bottom - top)) / (view.bottom - view.top));
  }

  /** One tile. */
  paint(number, seconds, perSecond, h, { top, bottom }, ground) {
    const { bar_job: job, bar_first: first, bar_count: many, start, end } = this.data;
    const { begins, bars, colours, least, perBin, bins } = this;
    const canvas = new OffscreenCanvas(TILE, h);
    const image = new ImageData(TILE, h);
    const pixels = new Uint32Array(image.data.buffer).fill(ground);
    const from = this.least + number * seconds;
    const perNode = h / (bottom - top);
    const gapY = perNode >= 5 ? 1 : 0;
    const laned = this.across > 1 && perNode >= 2 * this.across;
    const begin = this.bin(from);
    for (let bin = begin, last = this.bin(from + seconds); bin <= last; bin += 1) {
      for (let at = begins[bin], stopAt = begins[bin + 1]; at < stopAt; at += 1) {
        const bar = bars[at];
        const one = job[bar];
        if (bin !== begin && bin > 0 && Math.min(Math.floor((start[one] - least) / perBin), bins - 1) !== bin) continue; // it was painted with an earlier stretch
        const low = first[bar];
        const high = low + many[bar];
        if (low >= bottom || high <= top) continue;
        const exact = (start[one] - from) * perSecond;
        const stop = (end[one] - from) * perSecond;
        if (exact >= TILE || stop < 0) continue;
        const x0 = Math.max(0, Math.floor(exact));
        const x1 = Math.min(TILE, Math.max(Math.ceil(stop) - (stop - exact > 4 ? 1 : 0), x0 + 1));
        const colour = colours[one];
        if (laned) {
          for (let node = Math.max(low, Math.floor(top)); node < Math.min(high, bottom); node += 1) {
            fill(pixels, h, x0, x1, (node - top + this.lane[bar] / this.across) * perNode, (node - top + (this.lane[bar] + 1) / this.across) * perNode - gapY, colour);
          }
        } else fill(pixels, h, x0, x1, (low - top) * perNode, (high - top) * perNode - gapY, colour);
      }
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }
}

function fill(pixels, h, x0, x1, above, below, colour) {
  const y0 = Math.max(0, Math.floor(above));
  const y1 = Math.min(h, Math.max(Math.round(below), y0 + 1));
  if (x1 - x0 < 12) {
    for (let y = y0; y < y1; y += 1) for (let at = y * TILE + x0, last = y * TILE + x1; at < last; at += 1) pixels[at] = colour;
  } else for (let y = y0; y < y1; y += 1) pixels.fill(colour, y * TILE + x0, y * TILE + x1);
}
