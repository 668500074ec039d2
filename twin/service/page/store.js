// The fleet as the stream of changes tells it; keeps the newest state of each vehicle and a short trail, draws nothing.
import { Timeline } from "./timeline.js";

export const TRAIL = 64;
const MOST_WITH_TRAILS = 300; // of vehicles, when the timeline is wound back
const EARTH_M = 6_371_008.8;
const RAD = Math.PI / 180;

export class Vehicle {
  constructor(id) {
    this.id = id;
    this.row = []; // as shown: of now, or of the second to which the timeline is wound back
    this.figures = null;
    this.live = null; // [row, figures] of now, while something older is shown
    this.x = this.y = null; // metres on the map's plane
    this.fromX = this.fromY = 0;
    this.movedAt = 0;
    this.moveMs = 0;
    this.trail = [];
  }
}

export class Store extends EventTarget {
  constructor() {
    super();
    this.vehicles = new Map();
    this.column = {};
    this.figure = {};
    this.summary = {};
    this.link = new Map();
    this.windows = new Map();
    this.origin = null; // [latitude, longitude] of the plane's zero
    this.clockMs = 0; // server's clock minus ours
    this.updates = 0;
    this.trailStep = 10; // metres between the points of a trail
    this.staleAfterMs = 10_000;
    this.state = "connecting";
    this.timeline = new Timeline();
    this.frame = null; // the second that is shown; null is now
  }

  connect() {
    this.source = new EventSource("/api/events");
    const on = (name, take) => this.source.addEventListener(name, (event) => take(JSON.parse(event.data)));
    on("hello", (body) => this.hello(body));
    on("rows", (body) => this.rows(body));
    on("figures", (body) => this.takeFigures(body));
    on("summary", (body) => this.takeSummary(body));
    on("removed", (names) => { for (const name of names) this.vehicles.delete(name); this.changed("fleet"); });
    this.source.onerror = () => this.lost();
  }

  lost() {
    this.setState("lost");
    if (this.source.readyState === EventSource.CLOSED) {
      this.source.close();
      // A refused stream is not tried again by the browser: see why, then try.
      fetch("/api/fleet").then((answer) => (answer.status === 401 ? this.changed("locked") : this.later()), () => this.later());
    }
  }

  later() { setTimeout(() => this.connect(), 2000); }

  setState(state) {
    if (this.state !== state) { this.state = state; this.changed("state"); }
  }

  changed(name, detail) { this.dispatchEvent(new CustomEvent(name, { detail })); }

  // The service sends its whole fleet after hello; what is not in it is gone.
  hello(body) {
    this.column = Object.fromEntries(body.columns.map((name, k) => [name, k]));
    this.figure = Object.fromEntries(body.figureColumns.map((name, k) => [name, k]));
    if (this.frame !== null) this.wind(null);
    if (this.summary.title !== undefined && this.summary.title !== body.title) this.timeline = new Timeline();
    this.vehicles.clear();
    this.takeSummary(body);
    this.setState("live");
    this.changed("fleet");
  }

  rows({ nowMs, rows }) {
    this.setClock(nowMs);
    const now = performance.now();
    let fresh = 0;
    const touched = [];
    for (const row of rows) {
      let vehicle = this.vehicles.get(row[0]);
      if (!vehicle) {
        this.vehicles.set(row[0], (vehicle = new Vehicle(row[0])));
        fresh++;
      }
      touched.push(vehicle);
      if (this.frame !== null) {
        vehicle.live = [row, vehicle.live?.[1] ?? null];
        continue;
      }
      vehicle.row = row;
      this.move(vehicle, ...this.place(row), now);
    }
    this.updates += rows.length - fresh; // the fleet as it is found when the page opens has not just changed
    this.changed("rows", touched);
    if (fresh) this.changed("fleet");
  }

  setClock(nowMs) {
    // The smallest difference seen is the one with the least delay in it; let it drift slowly.
    const difference = nowMs - Date.now();
    this.clockMs = this.clockMs ? Math.max(difference, this.clockMs - 0.5) : difference;
  }

  project(latitude, longitude) {
    this.origin ??= [latitude, longitude];
    return [EARTH_M * RAD * (longitude - this.origin[1]) * Math.cos(this.origin[0] * RAD), EARTH_M * RAD * (latitude - this.origin[0])];
  }

  unproject(x, y) {
    return [this.origin[0] + y / (EARTH_M * RAD), this.origin[1] + x / (EARTH_M * RAD * Math.cos(this.origin[0] * RAD))];
  }

  move(vehicle, latitude, longitude, now) {
    if (latitude === null || longitude === null) {
      // Where it was is not where it is.
      [vehicle.x, vehicle.y, vehicle.trail, vehicle.moveMs] = [null, null, [], 0];
      return;
    }
    const [x, y] = this.project(latitude, longitude);
    if (vehicle.x === null) {
      [vehicle.fromX, vehicle.fromY] = [x, y];
    } else {
      [vehicle.fromX, vehicle.fromY] = this.shown(vehicle, now);
      vehicle.moveMs = Math.min(1500, Math.max(80, now - vehicle.movedAt));
      const [lastX, lastY] = vehicle.trail.length ? vehicle.trail.slice(-2) : [Infinity, Infinity];
      if (Math.hypot(vehicle.x - lastX, vehicle.y - lastY) > this.trailStep) {
        vehicle.trail.push(vehicle.x, vehicle.y);
        if (vehicle.trail.length > 2 * TRAIL) vehicle.trail.splice(0, 2);
      }
    }
    [vehicle.x, vehicle.y, vehicle.movedAt] = [x, y, now];
  }

  // Where a vehicle is drawn now: on its way from where it was drawn to where it was last seen.
  shown(vehicle, now) {
    const share = vehicle.moveMs ? Math.min(1, (now - vehicle.movedAt) / vehicle.moveMs) : 1;
    return [vehicle.fromX + (vehicle.x - vehicle.fromX) * share, vehicle.fromY + (vehicle.y - vehicle.fromY) * share];
  }

  takeFigures(rows) {
    for (const row of rows) {
      const vehicle = this.vehicles.get(row[0]);
      if (!vehicle) continue;
      if (this.frame !== null) vehicle.live = [vehicle.live?.[0] ?? [], row];
      else vehicle.figures = row;
    }
  }

  takeSummary(body) {
    this.setClock(body.nowMs);
    if (this.frame === null) this.summary = body;
    else this.liveSummary = body;
    this.staleAfterMs = body.staleAfterS * 1000;
    for (const row of body.link) this.link.set(row.second, row);
    for (const row of body.windows) this.windows.set(row.window_start_s, row);
    for (const [map, most] of [[this.link, 300], [this.windows, 60]]) {
      const keys = [...map.keys()].sort((a, b) => a - b);
      for (const key of keys.slice(0, Math.max(0, keys.length - most))) map.delete(key);
    }
    this.changed("summary");
  }

  // Show a second of the timeline, or now (null). What comes in meanwhile is kept aside.
  wind(frame) {
    if (frame === this.frame) return;
    if (this.frame === null) {
      this.liveSummary = this.summary;
      for (const vehicle of this.vehicles.values()) vehicle.live = [vehicle.row, vehicle.figures];
    }
    this.frame = frame;
    this.summary = frame?.summary ?? this.liveSummary;
    const now = performance.now();
    const before = this.vehicles.size > MOST_WITH_TRAILS ? [] : this.timeline.before(frame, TRAIL / 2);
    for (const vehicle of this.vehicles.values()) {
      const [row, figures] = (frame === null ? vehicle.live : frame.rows.get(vehicle.id)) ?? [[], null];
      [vehicle.row, vehicle.figures] = [row, figures];
      if (frame === null) vehicle.live = null;
      this.move(vehicle, ...this.place(row), now);
      vehicle.moveMs = Math.min(vehicle.moveMs, 250);
      vehicle.trail = before.flatMap(({ rows }) => {
        const [latitude, longitude] = this.place(rows.get(vehicle.id)?.[0] ?? []);
        return latitude === null ? [] : this.project(latitude, longitude);
      });
    }
  }

  place(row) { return [row[this.column.latitudeDeg] ?? null, row[this.column.longitudeDeg] ?? null]; }

  // The second that is over, as it is known now: the end of the timeline, whatever is shown.
  note() {
    if (!this.vehicles.size) return;
    const summary = this.frame === null ? this.summary : this.liveSummary;
    this.timeline.add(summary.nowMs, summary, this.vehicles);
  }

  now() { return this.frame === null ? Date.now() + this.clockMs : this.frame.atMs; }

  get(vehicle, name) { return vehicle.row[this.column[name]] ?? null; }

  of(vehicle, name) { return vehicle.figures ? vehicle.figures[this.figure[name]] ?? null : null; }

  // What the vehicle's link gives now, bit/s: 0 in an outage, Infinity where the trace does not limit it, null where nobody says.
  givenBps(vehicle, way) { return this.of(vehicle, "linkSecond") === null ? null : this.of(vehicle, `${way}RateBps`) ?? Infinity; }

  age(vehicle) {
    const at = this.get(vehicle, "sampledAtMs") ?? this.get(vehicle, "receivedAtMs");
    return at === null ? null : Math.max(0, this.now() - at);
  }

  stale(vehicle) { return this.age(vehicle) > this.staleAfterMs; }

  latency(vehicle) {
    const from = this.get(vehicle, "sampledAtMs") ?? this.get(vehicle, "receivedAtMs");
    return from === null ? null : this.get(vehicle, "appliedAtMs") - from;
  }

  // How many vehicles no map can show: no position sent, or one that is nowhere on Earth.
  unplaced() {
    let count = 0;
    for (const vehicle of this.vehicles.values()) if (vehicle.x === null) count++;
    return count;
  }

  // What was kept out, by reason: of the fleet, and before it by the twin and the gateways.
  rejected() {
    return [...Object.entries(this.summary.badRecords ?? {}), ...Object.entries(this.summary.deadLetters ?? {})];
  }

  // Received over what is known to be due, as the service defines it; unknown once records were given up.
  delivery(vehicle) {
    if (this.get(vehicle, "givenUp")) return null;
    const received = this.get(vehicle, "messages") - this.get(vehicle, "duplicates");
    const due = Math.max(received + this.get(vehicle, "gaps"), this.of(vehicle, "emitted") ?? 0);
    return due ? received / due : null;
  }
}
