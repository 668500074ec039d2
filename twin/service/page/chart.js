// A line over time on a canvas: axis, newest value, the value under the pointer; keeps no data of its own.
import { digitsFor, element, number } from "./format.js";
import { colour } from "./theme.js";

const BOTTOM = 15;
const SHARES = [0, 0.5, 1]; // of the height, where a line has its value

export class Chart {
  // series: functions that return [[atMs], [value or null]]
  constructor(title, unit, series, { names = [], digits = null, zero = false, most = Infinity, span = 120_000, format = null, axis = null } = {}) {
    Object.assign(this, { title, unit, series, digits, zero, most, span, format, label: axis ?? tick, pointer: null });
    this.output = element("output", { textContent: "–" });
    this.canvas = element("canvas");
    this.canvas.setAttribute("role", "img");
    this.node = element("div", { className: "chart" },
      element("div", { className: "top" }, element("h3", { textContent: title, title }), this.output), this.canvas);
    if (names.length > 1) this.node.append(element("div", { className: "key" }, ...names.map((name) => element("span", { textContent: name }))));
    this.names = names;
    this.canvas.addEventListener("pointermove", (event) => { this.pointer = event.offsetX; this.draw(this.end); });
    this.canvas.addEventListener("pointerleave", () => { this.pointer = null; this.draw(this.end); });
  }

  text(value) {
    if (value === null || value === undefined) return "–";
    if (this.format) return this.format(value);
    const digits = this.digits ?? (Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
    return `${number(value, digits)}${this.unit ? ` ${this.unit}` : ""}`;
  }

  draw(endMs, endWord = this.endWord ?? "now") {
    [this.end, this.endWord] = [endMs, endWord];
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !endMs) return;
    const scale = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * scale) || this.canvas.height !== Math.round(height * scale))
      Object.assign(this.canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
    const context = this.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    const lines = this.series.map((series) => series());
    const from = this.start(lines, endMs);
    const [low, high] = this.range(lines, from, endMs);
    context.font = "10px system-ui, sans-serif";
    const labels = SHARES.map((share) => this.label(low + (high - low) * share, (high - low) / 2));
    const left = this.left = Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width))) + 8;
    const x = (at) => left + ((at - from) / (endMs - from)) * (width - left - 6);
    const y = (value) => 6 + (1 - (value - low) / (high - low)) * (height - BOTTOM - 10);
    this.axis(context, width, height, from, endMs, labels, (share) => y(low + (high - low) * share));
    context.save();
    context.beginPath();
    context.rect(left, 0, width - left - 6, height - BOTTOM + 3);
    context.clip();
    lines.forEach((line, k) => this.line(context, line, colour(`series${k + 1}`), x, y, from));
    context.restore();
    this.values(context, lines, x, y, from, endMs, width);
  }

  // The whole span, but no empty half while there is little.
  start(lines, endMs) {
    const first = Math.min(...lines.map(([times]) => times[0] ?? endMs));
    return Math.max(endMs - this.span, Math.min(first, endMs - 20_000));
  }

  range(lines, from, endMs) {
    let [low, high] = this.zero ? [0, 0] : [Infinity, -Infinity];
    for (const [times, values] of lines)
      for (let k = 0; k < times.length; k++) {
        if (times[k] < from || times[k] > endMs || !Number.isFinite(values[k])) continue;
        low = Math.min(low, values[k]);
        high = Math.max(high, values[k]);
      }
    if (low > high) return [0, 1];
    const room = (high - low) * 0.08 || Math.max(Math.abs(high) * 0.02, 0.5);
    return [this.zero ? 0 : low - room, Math.min(this.most, high + room)];
  }

  axis(context, width, height, from, end, labels, y) {
    const { left } = this;
    context.fillStyle = colour("dim");
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    context.textAlign = "right";
    SHARES.forEach((share, k) => {
      const at = Math.round(y(share)) + 0.5;
      context.beginPath();
      context.moveTo(left, at);
      context.lineTo(width - 6, at);
      context.stroke();
      context.fillText(labels[k], left - 4, at + 3);
    });
    context.textAlign = "left";
    context.fillText(`−${Math.round((end - from) / 1000)} s`, left, height - 3);
    context.textAlign = "right";
    context.fillText(this.endWord, width - 6, height - 3);
    context.textAlign = "left";
  }

  line(context, [times, values], stroke, x, y, from) {
    context.strokeStyle = stroke;
    context.lineWidth = 1.75;
    context.lineJoin = "round";
    context.beginPath();
    let open = false;
    let before = 0;
    for (let k = 0; k < times.length; k++) {
      const value = values[k];
      if (!Number.isFinite(value)) { open = false; continue; }
      if (times[k + 1] !== undefined && times[k + 1] < from) continue;
      // A silence is a gap, not a slope.
      if (open && times[k] - before > 12_000) open = false;
      if (open) context.lineTo(x(times[k]), y(value));
      else context.moveTo(x(times[k]), y(value));
      [open, before] = [true, times[k]];
    }
    context.stroke();
  }

  values(context, lines, x, y, from, end, width) {
    const at = this.pointer === null ? end : from + ((this.pointer - this.left) / (width - this.left - 6)) * (end - from);
    const found = lines.map(([times, values]) => {
      let k = times.length - 1;
      while (k >= 0 && (times[k] > at || values[k] === null)) k--;
      return k < 0 ? null : [times[k], values[k]];
    });
    this.output.textContent = found.map((point) => this.text(point?.[1] ?? null)).join(" · ");
    this.canvas.setAttribute("aria-label", `${this.title}: ${this.output.textContent}`);
    if (this.pointer === null) return;
    found.forEach((point, k) => {
      if (!point || point[1] === null || point[0] < from) return;
      context.fillStyle = colour(`series${k + 1}`);
      context.beginPath();
      context.arc(x(point[0]), y(point[1]), 3.5, 0, 7);
      context.fill();
    });
  }
}

// A number at a line of the axis, where lines are so far apart.
export function tick(value, step) {
  const size = Math.abs(value);
  if (size >= 1e6 && step >= 1e3) return `${(value / 1e6).toFixed(digitsFor(step / 1e6))}M`;
  if (size >= 10_000 && step >= 10) return `${(value / 1e3).toFixed(digitsFor(step / 1e3))}k`;
  return value.toFixed(digitsFor(step));
}
