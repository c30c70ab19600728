// Bars or cells painted into pixels, in tiles of time that are kept. A frame never waits for a tile: it paints for a few
// milliseconds, and shows a coarse picture of the whole run where one is not ready. Tiles that lie ahead are painted early.

const TILE = 256;
const COARSE = 1024; // pixels of the picture of the whole run
const MOST_TILES = 80;
const AHEAD = 2; // tiles beyond the one in sight, on the side it moves to
const MOVING_MS = 4; // painted in a frame that moves; and in one that does not:
const RESTING_MS = 12;
const SETTLE_MS = 120;
const MOST_BINS = 2048;
const PORTION = 1024; // bars between two looks at the clock
const CELL = 2; // pixels of a cell of the heat map

export class Raster {
  /** `data`: columns of the chart; `lane`, `across`: where jobs lie beside each other; `now`: what begins later is planned. */
  constructor(data, colouring, lane, across, now) {
    Object.assign(this, { data, colouring, lane, across, now, tiles: new Map(), key: "", coarse: null, coarseKey: "", begun: new Map(), heading: 1 });
    this.index();
  }

  /** Which bars are in sight in each stretch of time, so that a tile looks at few. */
  index() {
    const { bar_job: job, bar_count: many, start, end, from, until } = this.data;
    const bars = job.length;
    let total = 0;
    let logs = 0;
    for (let bar = 0; bar < bars; bar += 1) {
      const length = end[job[bar]] - start[job[bar]];
      total += length;
      logs += Math.log(Math.max(length, 1) * many[bar]);
    }
    this.usual = Math.exp(logs / bars); // seconds times nodes of a bar
    this.least = from;
    this.most = Math.max(until, from + 1);
    this.bins = Math.max(1, Math.min(MOST_BINS, Math.round((until - from) / Math.max(total / Math.max(bars, 1), 1e-9))));
    this.perBin = Math.max((until - from) / this.bins, 1e-9);
    const counts = new Int32Array(this.bins + 1);
    const each = (visit) => {
      for (let bar = 0; bar < bars; bar += 1) for (let bin = this.bin(start[job[bar]]), last = this.bin(end[job[bar]]); bin <= last; bin += 1) visit(bin, bar);
    };
    each((bin) => { counts[bin + 1] += 1; });
    for (let bin = 0; bin < this.bins; bin += 1) counts[bin + 1] += counts[bin];
    this.begins = counts.slice();
    this.bars = new Int32Array(counts[this.bins]);
    each((bin, bar) => { this.bars[counts[bin]] = bar; counts[bin] += 1; });
  }

  bin(at) { return Math.max(0, Math.min(this.bins - 1, Math.floor((at - this.least) / this.perBin))); }

  /** Bars of the stretch that holds an instant. */
  near(at) {
    const bin = this.bin(at);
    return this.bars.subarray(this.begins[bin], this.begins[bin + 1]);
  }

  /**
   * Draw what is between two instants and two nodes into a box of `w` by `h` device pixels at `left`; false: some of it
   * is coarse or the old picture, draw again soon.
   */
  draw(context, left, w, h, view, heat) {
    const perSecond = w / (view.until - view.from);
    const moving = this.look(context, left, w, h, view, heat, perSecond);
    const seconds = TILE / perSecond;
    const [first, last] = [view.from, view.until].map((at) => Math.floor((at - this.least) / seconds));
    const settling = this.old && performance.now() - this.changed < SETTLE_MS; // still zooming: the old picture will do
    if (!settling) this.paintFor(moving ? MOVING_MS : RESTING_MS, this.wanted(first, last, seconds), seconds, perSecond, h, view);
    context.save();
    context.beginPath();
    context.rect(left, 0, w, h);
    context.clip();
    let missing = 0;
    for (let number = first; number <= last; number += 1) if (!this.tiles.has(number)) missing += 1;
    if (missing) this.drawBehind(context, left, w, h, view);
    for (let number = first; number <= last; number += 1) {
      const tile = this.tiles.get(number);
      if (tile) context.drawImage(tile, left + Math.round((this.least + number * seconds - view.from) * perSecond), 0);
    }
    context.restore();
    if (!missing) this.old = null;
    if (!this.old) this.last = { ...view, w, h };
    if (this.tiles.size > MOST_TILES) for (const number of this.tiles.keys()) if (Math.abs(number - first) > MOST_TILES / 3) this.tiles.delete(number);
    return !missing;
  }

  /** What changed since the last frame; true: it moves. Tiles of another scale or of other nodes are of no use. */
  look(context, left, w, h, view, heat, perSecond) {
    this.heat = heat;
    this.step = heat ? CELL : 1;
    const key = [perSecond.toPrecision(9), view.top, view.bottom, h, heat].join();
    const before = this.seen;
    this.seen = { ...view, key };
    if (key !== this.key) {
      this.keepOld(context, left, w, h, view);
      this.tiles.clear();
      this.begun.clear();
      this.key = key;
      this.changed = performance.now();
      const coarseKey = [view.top, view.bottom, h, heat].join();
      if (coarseKey !== this.coarseKey) { this.coarse = null; this.coarseKey = coarseKey; }
      return true;
    }
    if (before && view.from !== before.from) this.heading = view.from > before.from ? 1 : -1;
    return !before || view.from !== before.from;
  }

  /** Tiles to be painted, the most needed first: those in sight, the picture of the whole, those ahead. */
  wanted(first, last, seconds) {
    const found = [];
    const [low, high] = [0, Math.floor((this.most - this.least) / seconds)]; // beyond there is nothing but ground
    const add = (number) => { if (!this.tiles.has(number)) found.push(number); };
    const order = this.heading > 0 ? [last, -1] : [first, 1];
    for (let number = order[0], many = last - first + 1; many > 0; number += order[1], many -= 1) add(number);
    if (!this.coarse) found.push("coarse");
    for (let step = 1; step <= AHEAD; step += 1) {
      const number = this.heading > 0 ? last + step : first - step;
      if (number >= low && number <= high) add(number);
    }
    return found;
  }

  /** Paint for so long, the first of those wanted; each goes on where an earlier frame left it. */
  paintFor(budget, wanted, seconds, perSecond, h, view) {
    const end = performance.now() + budget;
    for (const name of this.begun.keys()) if (!wanted.includes(name)) this.begun.delete(name); // it has gone out of sight
    while (wanted.length && performance.now() < end) {
      const [name] = wanted;
      if (!this.begun.has(name)) this.begun.set(name, this.begin(name, seconds, perSecond, h, view));
      const work = this.begun.get(name);
      const { image, canvas } = work;
      if (!this.goOn(work, end)) return;
      if (work.sums) this.colouring.paint(work.pixels, work.sums, work.width, this.step, (this.now - work.from) * work.perSecond);
      canvas.getContext("2d").putImageData(image, 0, 0);
      if (name === "coarse") this.coarse = canvas;
      else this.tiles.set(name, canvas);
      this.begun.delete(name);
      wanted.shift();
    }
  }

  /** Whether there is something left to paint ahead, now that all in sight is there; paints for a while. */
  prepare(budget, w, h, view) {
    const perSecond = w / (view.until - view.from);
    const seconds = TILE / perSecond;
    const [first, last] = [view.from, view.until].map((at) => Math.floor((at - this.least) / seconds));
    const wanted = this.wanted(first, last, seconds);
    this.paintFor(budget, wanted, seconds, perSecond, h, view);
    return wanted.length > 0;
  }

  begin(name, seconds, perSecond, h, { top, bottom }) {
    const whole = name === "coarse";
    const width = whole ? COARSE : TILE;
    const image = new ImageData(width, h);
    const pixels = new Uint32Array(image.data.buffer).fill(this.colouring.ground);
    const from = whole ? this.least : this.least + name * seconds;
    const span = whole ? this.most - this.least : seconds;
    return { name, image, pixels, canvas: new OffscreenCanvas(width, h), ...this.part(width / this.step, h / this.step, from, from + span, top, bottom) };
  }

  /** Work on what is between two instants and two nodes, of so many columns and rows. */
  part(width, rows, from, until, top, bottom) {
    const bin = this.bin(from);
    return { width, height: Math.ceil(rows), perNode: rows / (bottom - top), perSecond: width / (until - from), top, bottom, from, first: bin, bin, last: this.bin(until),
      at: this.begins[bin], sums: this.heat ? this.colouring.sums(width * Math.ceil(rows)) : null };
  }

  /** A cell of the heat map in words. */
  words(from, until, top, bottom) {
    const work = this.part(1, 1, from, until, top, bottom);
    this.goOn(work, Infinity);
    return this.colouring.words(work.sums);
  }

  /** Paint on until the clock says stop; true: it is finished. */
  goOn(work, end) {
    const { begins } = this;
    while (work.bin <= work.last) {
      const stopAt = begins[work.bin + 1];
      while (work.at < stopAt) {
        const until = Math.min(work.at + PORTION, stopAt);
        this.someBars(work, until);
        work.at = until;
        if (performance.now() >= end) return work.at >= stopAt && work.bin === work.last;
      }
      work.bin += 1;
      work.at = begins[work.bin] ?? 0;
    }
    return true;
  }

  /** Some bars of one stretch. */
  someBars(work, until) {
    const { bar_job: job, bar_first: first, bar_count: many, start, end } = this.data;
    const { bars, colouring, least, perBin, bins, lane, across } = this;
    const { pixels, sums, width, height: h, top, bottom, from, perSecond, perNode, bin } = work;
    const gapY = perNode >= 5 ? 1 : 0;
    const laned = across > 1 && perNode >= 2 * across;
    const again = bin !== work.first && bin > 0;
    for (let at = work.at; at < until; at += 1) {
      const bar = bars[at];
      const one = job[bar];
      if (again && Math.min(Math.floor((start[one] - least) / perBin), bins - 1) !== bin) continue; // it was painted with an earlier stretch
      const low = first[bar];
      const high = low + many[bar];
      if (low >= bottom || high <= top) continue;
      const exact = (start[one] - from) * perSecond;
      const stop = (end[one] - from) * perSecond;
      if (exact >= width || stop < 0) continue;
      if (sums) {
        colouring.add(sums, width, one, Math.max(exact, 0), Math.min(stop, width), Math.max((low - top) * perNode, 0), Math.min((high - top) * perNode, h));
        continue;
      }
      const x0 = Math.max(0, Math.floor(exact));
      const x1 = Math.min(width, Math.max(Math.ceil(stop) - (stop - exact > 4 ? 1 : 0), x0 + 1));
      const colour = colouring.colours[one];
      if (laned) {
        for (let node = Math.max(low, Math.floor(top)); node < Math.min(high, bottom); node += 1) {
          fill(pixels, width, h, x0, x1, (node - top + lane[bar] / across) * perNode, (node - top + (lane[bar] + 1) / across) * perNode - gapY, colour);
        }
      } else fill(pixels, width, h, x0, x1, (low - top) * perNode, (high - top) * perNode - gapY, colour);
    }
  }

  /** The picture as it is, to be stretched while the new one is painted. */
  keepOld(context, left, w, h, view) {
    if (this.old && this.old.w === w && this.old.h === h) return; // what is on the screen is a stretched picture itself
    if (!this.last || this.last.w !== w || this.last.h !== h) { this.last = { ...view, w, h }; this.old = null; return; }
    const canvas = new OffscreenCanvas(w, h);
    canvas.getContext("2d").drawImage(context.canvas, left, 0, w, h, 0, 0, w, h);
    this.old = { canvas, ...this.last };
  }

  /** What is seen where tiles are not ready: the whole run, coarse, and above it the picture as it was before a zoom. */
  drawBehind(context, left, w, h, view) {
    context.fillStyle = this.colouring.idle;
    context.fillRect(left, 0, w, h);
    const put = (canvas, { from, until, top, bottom }) => context.drawImage(canvas, left + ((from - view.from) / (view.until - view.from)) * w,
      ((top - view.top) / (view.bottom - view.top)) * h, (w * (until - from)) / (view.until - view.from), (h * (bottom - top)) / (view.bottom - view.top));
    if (this.coarse) put(this.coarse, { from: this.least, until: this.most, top: view.top, bottom: view.bottom });
    if (this.old) put(this.old.canvas, this.old);
  }
}

function fill(pixels, width, h, x0, x1, above, below, colour) {
  const y0 = Math.max(0, Math.floor(above));
  const y1 = Math.min(h, Math.max(Math.round(below), y0 + 1));
  if (x1 - x0 < 12) {
    for (let y = y0; y < y1; y += 1) for (let at = y * width + x0, last = y * width + x1; at < last; at += 1) pixels[at] = colour;
  } else for (let y = y0; y < y1; y += 1) pixels.fill(colour, y * width + x0, y * width + x1);
}
