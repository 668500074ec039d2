// A line over time on a canvas: axis, newest value, the value under the pointer; keeps no data of its own.
import { element, number } from "./format.js";
import { colour } from "./theme.js";

const LEFT = 38;
const BOTTOM = 15;

export class Chart {
  // series: functions that return [[atMs], [value or null]]
  constructor(title, unit, series, { names = [], digits = null, zero = false, span = 120_000, format = null, axis = null } = {}) {
    Object.assign(this, { title, unit, series, digits, zero, span, format, label: axis ?? short, pointer: null });
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

  draw(endMs) {
    this.end = endMs;
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
    const [low, high] = this.range(lines, from);
    const x = (at) => LEFT + ((at - from) / (endMs - from)) * (width - LEFT - 6);
    const y = (value) => 6 + (1 - (value - low) / (high - low)) * (height - BOTTOM - 10);
    this.axis(context, width, height, from, endMs, low, high, y);
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, height - BOTTOM + 3);
    context.clip();
    lines.forEach((line, k) => this.line(context, line, colour(k ? "series2" : "series1"), x, y, from));
    context.restore();
    this.values(context, lines, x, y, from, endMs, width);
  }

  // The whole span, but no empty half while there is little.
  start(lines, endMs) {
    const first = Math.min(...lines.map(([times]) => times[0] ?? endMs));
    return Math.max(endMs - this.span, Math.min(first, endMs - 20_000));
  }

  range(lines, from) {
    let [low, high] = this.zero ? [0, 0] : [Infinity, -Infinity];
    for (const [times, values] of lines)
      for (let k = 0; k < times.length; k++) {
        if (times[k] < from || values[k] === null || values[k] === undefined) continue;
        low = Math.min(low, values[k]);
        high = Math.max(high, values[k]);
      }
    if (low > high) return [0, 1];
    const room = (high - low) * 0.08 || Math.max(Math.abs(high) * 0.02, 0.5);
    return [this.zero ? 0 : low - room, high + room];
  }

  axis(context, width, height, from, end, low, high, y) {
    context.font = "10px system-ui, sans-serif";
    context.fillStyle = colour("dim");
    context.strokeStyle = colour("line");
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const share of [0, 0.5, 1]) {
      const value = low + (high - low) * share;
      const at = Math.round(y(value)) + 0.5;
      context.beginPath();
      context.moveTo(LEFT, at);
      context.lineTo(width - 6, at);
      context.stroke();
      context.fillText(this.label(value, high - low), LEFT - 4, at + 3);
    }
    context.textAlign = "left";
    context.fillText(`−${Math.round((end - from) / 1000)} s`, LEFT, height - 3);
    context.textAlign = "right";
    context.fillText("now", width - 6, height - 3);
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
      if (value === null || value === undefined) { open = false; continue; }
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
    const at = this.pointer === null ? end : from + ((this.pointer - LEFT) / (width - LEFT - 6)) * (end - from);
    const found = lines.map(([times, values]) => {
      let k = times.length - 1;
      while (k > 0 && (times[k] > at || values[k] === null)) k--;
      return k < 0 ? null : [times[k], values[k]];
    });
    this.output.textContent = found.map((point) => this.text(point?.[1] ?? null)).join(" · ");
    this.canvas.setAttribute("aria-label", `${this.title}: ${this.output.textContent}`);
    if (this.pointer === null) return;
    found.forEach((point, k) => {
      if (!point || point[1] === null || point[0] < from) return;
      context.fillStyle = colour(k ? "series2" : "series1");
      context.beginPath();
      context.arc(x(point[0]), y(point[1]), 3.5, 0, 7);
      context.fill();
    });
  }
}

function short(value, span) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${(value / 1e6).toFixed(size >= 1e7 ? 0 : 1)}M`;
  if (size >= 10_000) return `${(value / 1e3).toFixed(0)}k`;
  return value.toFixed(span < 0.05 ? 3 : span < 0.5 ? 2 : span < 5 ? 1 : 0);
}
