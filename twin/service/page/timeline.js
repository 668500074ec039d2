// What the page has seen, second by second, to be wound back while the run goes and after it; keeps its memory bounded.
const MOST_ROWS = 200_000;

export class Timeline {
  constructor(most = MOST_ROWS) {
    this.most = most;
    this.frames = []; // {atMs, summary, rows: vehicle's id -> [row, figures]}
    this.step = 1; // of so many frames one is kept
    this.turn = 0;
    this.kept = 0;
  }

  // Vehicles' rows are never changed, only replaced: a frame holds them as they are.
  add(atMs, summary, vehicles) {
    if (this.frames.length && atMs <= this.frames.at(-1).atMs) return;
    if (this.turn++ % this.step) return;
    const rows = new Map();
    for (const vehicle of vehicles.values()) {
      const [row, figures] = vehicle.live ?? [vehicle.row, vehicle.figures];
      if (row.length) rows.set(vehicle.id, [row, figures]);
    }
    this.frames.push({ atMs, summary, rows });
    this.kept += Math.max(1, rows.size);
    while (this.kept > this.most && this.frames.length > 2) this.thin();
  }

  // Every second frame goes, and from now on twice as many are passed over: what is kept stays spread over the whole run.
  thin() {
    // The next one is two of the old steps behind the last that stays.
    this.turn = this.frames.length % 2 ? 1 : this.step + 1;
    this.frames = this.frames.filter((_, k) => k % 2 === 0);
    this.kept = this.frames.reduce((sum, frame) => sum + Math.max(1, frame.rows.size), 0);
    this.step *= 2;
  }

  // Up to `most` frames that end with this one; null is the end.
  before(frame, most) {
    const end = frame === null ? this.frames.length : this.frames.indexOf(frame) + 1;
    return this.frames.slice(Math.max(0, end - most), end);
  }
}

// The bar under the map: a slider over the frames, play and pause, and the way back to now.
export class TimelineBar {
  constructor(store, parts, onwind) {
    Object.assign(this, { store, onwind, playing: null });
    Object.assign(this, parts); // bar, slider, play, now, said
    this.slider.addEventListener("input", () => { this.pause(); this.wind(Number(this.slider.value)); });
    this.play.addEventListener("click", () => (this.playing ? this.pause() : this.start()));
    this.now.addEventListener("click", () => this.back());
  }

  get frames() { return this.store.timeline.frames; }

  // Called with each new frame; the slider's end is now.
  grow() {
    const last = this.frames.length - 1;
    this.bar.hidden = last < 1;
    this.slider.max = Math.max(0, last);
    if (this.store.frame === null) this.slider.value = last;
    else this.slider.value = Math.max(0, this.frames.indexOf(this.store.frame));
    this.say();
  }

  wind(k) {
    // The end is the last second: now, while the run goes on.
    if (k >= this.frames.length - 1 && this.store.state === "live") return this.back();
    this.store.wind(this.frames[k]);
    this.slider.value = k;
    this.say();
    this.onwind();
    return undefined;
  }

  start() {
    if (this.store.frame === null) this.wind(0);
    this.playing = setInterval(() => {
      const next = Number(this.slider.value) + 1;
      if (next >= this.frames.length) this.pause();
      else this.wind(next);
    }, 250);
    this.say();
  }

  pause() {
    clearInterval(this.playing);
    this.playing = null;
    this.say();
  }

  back() {
    this.pause();
    this.store.wind(null);
    this.slider.value = this.frames.length - 1;
    this.say();
    this.onwind();
  }

  say() {
    const { frame } = this.store;
    const ago = frame === null ? 0 : (this.frames.at(-1).atMs - frame.atMs) / 1000;
    const words = frame === null ? "now" : `${clock(frame.atMs)}, ${span(ago)} before the end`;
    if (this.said.textContent !== words) this.said.textContent = words;
    this.slider.setAttribute("aria-valuetext", words);
    this.now.setAttribute("aria-pressed", frame === null);
    this.play.textContent = this.playing ? "❚❚" : "▶";
    this.play.setAttribute("aria-label", this.playing ? "Pause" : "Play from here");
  }
}

const clock = (atMs) => new Date(atMs).toLocaleTimeString("en-GB");

const span = (seconds) => `${Math.floor(seconds / 60)}:${String(Math.round(seconds % 60)).padStart(2, "0")}`;
