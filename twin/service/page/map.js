// The fleet on a plane: equirectangular around the first vehicle seen, true to scale there; draws, decides nothing.
import { age, number, splitName } from "./format.js";
import { drawGrid, drawScale } from "./grid.js";
import { MEANINGS, share } from "./meanings.js";
import { Roads } from "./roads.js";
import { STEPS, colour, onTheme, ramp } from "./theme.js";

const FRAME_MS = 33;

export class FleetMap {
  constructor(canvas, tip, store, select) {
    Object.assign(this, { canvas, tip, store, select, meaning: "speed", chosen: null, fitting: true, following: false });
    this.roads = new Roads(store);
    this.centre = [0, 0];
    this.metres = 50; // per CSS pixel
    this.last = 0;
    this.rest = FRAME_MS;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
    this.listen();
    onTheme(() => { this.colours = null; });
    requestAnimationFrame((at) => this.frame(at));
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.canvas.parentElement;
    const scale = devicePixelRatio || 1;
    Object.assign(this, { width, height, scale });
    this.canvas.width = Math.max(1, Math.round(width * scale));
    this.canvas.height = Math.max(1, Math.round(height * scale));
    this.last = 0;
    this.jump = true;
  }

  frame(at) {
    requestAnimationFrame((next) => this.frame(next));
    if (at - this.last < this.rest || !this.width) return;
    this.last = at;
    const began = performance.now();
    this.draw();
    // However large the fleet, drawing takes a quarter of the time at most: changes must still come in.
    this.rest = Math.max(FRAME_MS, 4 * (performance.now() - began));
  }

  toScreen(x, y) { return [this.width / 2 + (x - this.centre[0]) / this.metres, this.height / 2 - (y - this.centre[1]) / this.metres]; }

  draw() {
    const context = this.canvas.getContext("2d");
    const now = performance.now();
    const seen = [];
    for (const vehicle of this.store.vehicles.values()) {
      if (vehicle.x === null) continue;
      const [x, y] = this.calm ? [vehicle.x, vehicle.y] : this.store.shown(vehicle, now);
      seen.push([vehicle, x, y]);
    }
    this.aim(seen);
    // A trail has about the same length on the screen at every scale, and never more points.
    this.store.trailStep = Math.max(10, 3 * this.metres);
    context.setTransform(this.scale, 0, 0, this.scale, 0, 0);
    context.fillStyle = colour("map");
    context.fillRect(0, 0, this.width, this.height);
    if (!this.store.origin) return;
    drawGrid(context, this);
    this.roads.draw(context, this);
    this.drawTrails(context, seen);
    this.drawVehicles(context, seen);
    drawScale(context, this);
    this.places = seen;
  }

  // Move the view towards all vehicles, or the followed one, without a jump.
  aim(seen) {
    if (!seen.length) return;
    let wanted = null;
    if (this.following && this.chosen) {
      const found = seen.find(([vehicle]) => vehicle === this.chosen);
      if (found) wanted = [found[1], found[2], this.metres];
    } else if (this.fitting) {
      let [west, east, south, north] = [Infinity, -Infinity, Infinity, -Infinity];
      for (const [, x, y] of seen) {
        if (x < west) west = x;
        if (x > east) east = x;
        if (y < south) south = y;
        if (y > north) north = y;
      }
      const metres = Math.max((east - west) / Math.max(50, this.width - 70), (north - south) / Math.max(50, this.height - 70), 0.5);
      wanted = [(west + east) / 2, (south + north) / 2, metres];
    }
    if (!wanted) return;
    const step = this.calm || !this.aimed || this.jump ? 1 : 0.12;
    this.aimed = true;
    this.jump = false;
    this.centre = [this.centre[0] + (wanted[0] - this.centre[0]) * step, this.centre[1] + (wanted[1] - this.centre[1]) * step];
    this.metres += (wanted[2] - this.metres) * step;
  }

  drawTrails(context, seen) {
    context.strokeStyle = colour("trail");
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.beginPath();
    for (const [vehicle, x, y] of seen) if (vehicle !== this.chosen) this.trailPath(context, vehicle, x, y, seen.length > 300 ? 12 : Infinity);
    context.stroke();
    const chosen = this.chosen && seen.find(([vehicle]) => vehicle === this.chosen);
    if (!chosen) return;
    context.strokeStyle = colour("accent");
    context.lineWidth = 2.5;
    context.beginPath();
    this.trailPath(context, ...chosen);
    context.stroke();
  }

  trailPath(context, vehicle, x, y, most = Infinity) {
    const { trail } = vehicle;
    if (!trail.length) return;
    const first = Math.max(0, trail.length - 2 * most);
    context.moveTo(...this.toScreen(trail[first], trail[first + 1]));
    for (let k = first + 2; k < trail.length; k += 2) context.lineTo(...this.toScreen(trail[k], trail[k + 1]));
    context.lineTo(...this.toScreen(x, y));
  }

  step(vehicle) {
    const meaning = MEANINGS[this.meaning];
    const value = meaning.value(this.store, vehicle);
    if (value === null) return 0;
    return Math.round(share(meaning, value, meaning.high ?? this.store.staleAfterMs) * (STEPS - 1));
  }

  // One path for each colour: a thousand arrows cost two dozen fills.
  drawVehicles(context, seen) {
    this.colours ??= Array.from({ length: STEPS }, (_, k) => ramp(k / (STEPS - 1)));
    const paths = this.colours.map(() => null);
    const old = new Path2D();
    const size = seen.length > 400 ? 4.5 : seen.length > 120 ? 5.5 : 7;
    for (const [vehicle, x, y] of seen) {
      const [left, top] = this.toScreen(x, y);
      if (left < -20 || top < -20 || left > this.width + 20 || top > this.height + 20) continue;
      if (this.store.stale(vehicle)) {
        old.moveTo(left + size * 0.7, top);
        old.arc(left, top, size * 0.7, 0, 7);
        continue;
      }
      const k = this.step(vehicle);
      arrow((paths[k] ??= new Path2D()), left, top, this.store.get(vehicle, "headingDeg") ?? 0, size);
    }
    context.lineWidth = 1;
    context.strokeStyle = colour("map");
    paths.forEach((path, k) => {
      if (!path) return;
      context.fillStyle = this.colours[k];
      context.fill(path);
      context.stroke(path);
    });
    context.strokeStyle = colour("dim");
    context.lineWidth = 1.5;
    context.stroke(old);
    this.drawNames(context, seen);
  }

  drawNames(context, seen) {
    context.font = "600 11.5px system-ui, sans-serif";
    context.fillStyle = colour("text");
    context.strokeStyle = colour("map");
    context.lineWidth = 3;
    for (const [vehicle, x, y] of seen) {
      const [left, top] = this.toScreen(x, y);
      const chosen = vehicle === this.chosen;
      if (chosen) {
        context.save();
        context.strokeStyle = colour("accent");
        context.lineWidth = 2;
        context.beginPath();
        context.arc(left, top, 13, 0, 7);
        context.stroke();
        context.restore();
      }
      if (!chosen && seen.length > 30) continue;
      const name = splitName(vehicle.id)[1].replace(/^0+(?=\d)/, "");
      context.strokeText(name, left + (chosen ? 17 : 10), top + 4);
      context.fillText(name, left + (chosen ? 17 : 10), top + 4);
    }
  }

  choose(vehicle) {
    this.chosen = vehicle;
    if (!vehicle) this.following = false;
  }

  at(left, top) {
    let [best, nearest] = [null, 16];
    for (const [vehicle, x, y] of this.places ?? []) {
      const [sx, sy] = this.toScreen(x, y);
      const far = Math.hypot(sx - left, sy - top);
      if (far < nearest) [best, nearest] = [vehicle, far];
    }
    return best;
  }

  moveBy(right, down) {
    this.release();
    this.centre = [this.centre[0] - right * this.metres, this.centre[1] + down * this.metres];
  }

  zoom(factor, left = this.width / 2, top = this.height / 2) {
    const metres = Math.min(20_000, Math.max(0.05, this.metres * factor));
    const change = this.metres - metres;
    if (!this.following) this.centre = [this.centre[0] + (left - this.width / 2) * change, this.centre[1] - (top - this.height / 2) * change];
    this.metres = metres;
    if (this.fitting) { this.fitting = false; this.onview?.(); }
  }

  release() {
    this.fitting = this.following = false;
    this.onview?.();
  }

  fit() {
    [this.fitting, this.following] = [true, false];
    this.onview?.();
  }

  follow() {
    this.following = !this.following;
    this.fitting = false;
    if (this.following) this.metres = Math.min(this.metres, 25);
    this.onview?.();
  }

  listen() {
    const { canvas } = this;
    let from = null;
    canvas.addEventListener("pointerdown", (event) => {
      from = [event.offsetX, event.offsetY, false];
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (!from) return this.hover(event);
      const [right, down] = [event.offsetX - from[0], event.offsetY - from[1]];
      if (!from[2] && Math.hypot(right, down) < 4) return undefined;
      this.moveBy(right, down);
      from = [event.offsetX, event.offsetY, true];
      return undefined;
    });
    canvas.addEventListener("pointerup", (event) => {
      if (from && !from[2]) {
        const vehicle = this.at(event.offsetX, event.offsetY);
        if (vehicle) this.select(vehicle.id);
      }
      from = null;
    });
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(Math.exp(event.deltaY * 0.0015), event.offsetX, event.offsetY);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const moves = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (moves[event.key]) this.moveBy(...moves[event.key]);
    else if (event.key === "+" || event.key === "=") this.zoom(0.7);
    else if (event.key === "-") this.zoom(1.4);
    else return;
    event.preventDefault();
  }

  hover(event) {
    const vehicle = this.at(event.offsetX, event.offsetY);
    this.tip.hidden = !vehicle;
    this.canvas.style.cursor = vehicle ? "pointer" : "grab";
    if (!vehicle) return;
    const { store } = this;
    this.tip.textContent = `${vehicle.id} · ${number(store.get(vehicle, "speedKmh"))} km/h · ${age(store.age(vehicle))} old`;
    this.tip.style.left = `${Math.min(event.offsetX + 14, this.width - this.tip.offsetWidth - 6)}px`;
    this.tip.style.top = `${Math.max(4, event.offsetY - 30)}px`;
  }
}

function arrow(path, x, y, heading, size) {
  const angle = (heading * Math.PI) / 180;
  const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
  const place = (right, ahead) => [x + right * cos + ahead * sin, y + right * sin - ahead * cos];
  path.moveTo(...place(0, size * 1.25));
  path.lineTo(...place(size * 0.8, -size));
  path.lineTo(...place(0, -size * 0.5));
  path.lineTo(...place(-size * 0.8, -size));
  path.closePath();
}
