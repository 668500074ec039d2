// The vehicles as a grid that sorts, filters and is walked by keys; only the rows in sight exist.
import { age, element, nameElement, number, rate, ratio } from "./format.js";

const ROW = 28;
const HEAD = 32;
const SPARE = 6;

// label, title, value to sort by, text to show, class of bad values
const COLUMNS = [
  ["Vehicle", "the vehicle", (s, v) => v.id, null],
  ["km/h", "speed over ground", (s, v) => s.get(v, "speedKmh"), (x) => number(x)],
  ["Energy", "charge or fuel level, per cent", (s, v) => s.get(v, "energyPct"), (x) => number(x, 1)],
  ["Age", "age of information: now minus the stamp of the newest reading", (s, v) => s.age(v), age],
  ["Latency", "newest message: from sampling to the twin", (s, v) => s.latency(v), age],
  ["Delivery", "received over known to be due", (s, v) => s.delivery(v), ratio],
  ["Gaps", "sequences that never came", (s, v) => s.get(v, "gaps"), number],
  ["Dup.", "messages that came more than once", (s, v) => s.get(v, "duplicates"), number],
  ["Uplink", "on the wire in the newest full second", (s, v) => s.of(v, "uplinkBytesPerSecond"), rate],
  ["SINR", "signal to noise, dB", (s, v) => s.get(v, "sinrDb"), number],
  ["Lamps", "warning lamps on", (s, v) => s.get(v, "lampsOn"), number],
];

export class VehicleTable {
  constructor(store, parts, select) {
    Object.assign(this, { store, select, sorted: 0, down: false, text: "", which: "all", list: [], chosen: null, at: 0, rows: new Map() });
    Object.assign(this, parts); // grid, columns, space, count
    this.all = false; // printing: every row
    this.head();
    this.grid.setAttribute("aria-colcount", COLUMNS.length);
    this.grid.addEventListener("scroll", () => this.show());
    this.grid.addEventListener("keydown", (event) => this.key(event));
    this.space.addEventListener("click", (event) => {
      const id = event.target.closest(".row")?.dataset.id;
      if (id) this.pick(this.list.findIndex((v) => v.id === id), true);
    });
    new ResizeObserver(() => this.show()).observe(this.grid);
  }

  head() {
    COLUMNS.forEach(([label, title], k) => {
      const button = element("button", { type: "button", textContent: label, title });
      const cell = element("div", {}, button);
      cell.setAttribute("role", "columnheader");
      button.addEventListener("click", () => this.sortBy(k));
      this.columns.append(cell);
    });
    this.markSort();
  }

  sortBy(k) {
    this.down = this.sorted === k ? !this.down : k > 0;
    this.sorted = k;
    this.markSort();
    this.refresh();
  }

  markSort() {
    [...this.columns.children].forEach((cell, k) =>
      cell.setAttribute("aria-sort", k === this.sorted ? (this.down ? "descending" : "ascending") : "none"));
  }

  filter(text, which) {
    [this.text, this.which] = [text.trim().toLowerCase(), which];
    this.at = 0;
    this.refresh();
  }

  fits(vehicle) {
    const { store } = this;
    const tests = {
      fresh: () => !store.stale(vehicle),
      stale: () => store.stale(vehicle),
      gaps: () => store.get(vehicle, "gaps") > 0,
      lamps: () => store.get(vehicle, "lampsOn") > 0,
      unplaced: () => vehicle.x === null,
      problem: () => store.get(vehicle, "problem") !== null,
    };
    if (tests[this.which] && !tests[this.which]()) return false;
    if (!this.text) return true;
    const words = [vehicle.id, ...["powertrain", "format", "protocol", "mode"].map((name) => store.get(vehicle, name) ?? "")];
    return this.text.split(/\s+/).every((part) => words.some((word) => String(word).toLowerCase().includes(part)));
  }

  // New order; the focused vehicle keeps the focus wherever it goes.
  refresh() {
    const focused = this.list[this.at]?.id;
    const value = COLUMNS[this.sorted][2];
    const sign = this.down ? -1 : 1;
    const keyed = [];
    for (const vehicle of this.store.vehicles.values()) if (this.fits(vehicle)) keyed.push([value(this.store, vehicle), vehicle]);
    keyed.sort(([a, v], [b, w]) => {
      if (a === b) return v.id < w.id ? -1 : 1;
      if (a === null) return 1;
      if (b === null) return -1;
      return (a < b ? -1 : 1) * sign;
    });
    this.list = keyed.map(([, vehicle]) => vehicle);
    if (focused && this.space.contains(document.activeElement)) {
      const now = this.list.findIndex((v) => v.id === focused);
      if (now >= 0) this.at = now;
    }
    this.at = Math.min(this.at, Math.max(0, this.list.length - 1));
    this.space.style.height = `${this.list.length * ROW}px`;
    this.grid.setAttribute("aria-rowcount", this.list.length + 1);
    const total = this.store.vehicles.size;
    this.count.textContent = this.list.length === total ? number(total) : `${number(this.list.length)} of ${number(total)}`;
    this.show();
  }

  show() {
    const first = this.all ? 0 : Math.max(0, Math.floor(this.grid.scrollTop / ROW) - SPARE);
    const last = this.all ? this.list.length : Math.min(this.list.length, first + Math.ceil(this.grid.clientHeight / ROW) + 2 * SPARE);
    const wanted = new Map(this.list.slice(first, last).map((vehicle, k) => [vehicle.id, first + k]));
    // The focused row stays, or the focus would be lost when it is scrolled out of sight.
    if (this.space.contains(document.activeElement) && this.list[this.at]) wanted.set(this.list[this.at].id, this.at);
    for (const [id, row] of this.rows) if (!wanted.has(id)) { row.remove(); this.rows.delete(id); }
    for (const [id, k] of wanted) this.place(id, k);
  }

  place(id, k) {
    let row = this.rows.get(id);
    if (!row) {
      row = element("div", { className: "row" });
      row.dataset.id = id;
      row.setAttribute("role", "row");
      COLUMNS.forEach((_, c) => {
        const cell = c ? element("span") : element("span", {}, nameElement(id));
        cell.setAttribute("role", c ? "gridcell" : "rowheader");
        row.append(cell);
      });
      this.rows.set(id, row);
      this.space.append(row);
    }
    if (row.dataset.k !== String(k)) {
      row.dataset.k = k;
      row.style.top = `${k * ROW}px`;
      row.setAttribute("aria-rowindex", k + 2);
    }
    row.tabIndex = k === this.at ? 0 : -1;
    row.setAttribute("aria-selected", id === this.chosen);
    this.fill(row, this.list[k]);
  }

  fill(row, vehicle) {
    const { store } = this;
    const stale = store.stale(vehicle);
    row.classList.toggle("stale", stale);
    COLUMNS.forEach(([label, , value, text], k) => {
      if (!text) return;
      const cell = row.children[k];
      const shown = value(store, vehicle);
      const words = text(shown);
      if (cell.textContent !== words) cell.textContent = words;
      cell.className = badness(label, shown, stale);
    });
  }

  // Values in sight only: called several times a second.
  values() { for (const [id, row] of this.rows) { const v = this.store.vehicles.get(id); if (v && v.row.length) this.fill(row, v); } }

  key(event) {
    if (!this.list.length || event.target.closest(".columns")) return;
    const page = Math.max(1, Math.floor((this.grid.clientHeight - HEAD) / ROW) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) this.focus(Math.min(this.list.length - 1, Math.max(0, this.at + steps[event.key])));
    else if (event.key === "Enter" || event.key === " ") this.pick(this.at, true);
    else return;
    event.preventDefault();
  }

  focus(k) {
    this.at = k;
    const top = k * ROW;
    const { grid } = this;
    if (top < grid.scrollTop) grid.scrollTop = top;
    if (top + ROW + HEAD > grid.scrollTop + grid.clientHeight) grid.scrollTop = top + ROW + HEAD - grid.clientHeight;
    this.place(this.list[k].id, k);
    this.rows.get(this.list[k].id).focus({ preventScroll: true });
    this.show();
  }

  pick(k, focus) {
    const vehicle = this.list[k];
    if (!vehicle) return;
    if (focus) this.focus(k);
    this.select(vehicle.id);
  }

  choose(id) {
    this.chosen = id;
    const k = this.list.findIndex((v) => v.id === id);
    if (k >= 0) {
      this.at = k;
      const top = k * ROW;
      if (top < this.grid.scrollTop || top + ROW + HEAD > this.grid.scrollTop + this.grid.clientHeight)
        this.grid.scrollTop = Math.max(0, top - this.grid.clientHeight / 2);
    }
    this.show();
  }
}

function badness(label, value, stale) {
  if (label === "Age") return stale ? "bad" : "";
  if (label === "Delivery") return value === null || value >= 0.999 ? "" : value >= 0.98 ? "warn" : "bad";
  if (label === "Lamps") return value > 0 ? "warn" : "";
  return "";
}
