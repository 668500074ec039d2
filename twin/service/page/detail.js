// One vehicle over time, or the fleet when none is chosen; asks the service for what it still keeps, then follows the stream.
import { Chart } from "./chart.js";
import { FateBar, fatesOf, fatesOfFleet } from "./fates.js";
import { DASH, age, ageTick, element, givenRate, nameElement, number, pair, rate, ratio, signalName } from "./format.js";

const SPAN_MS = 180_000;
const MAX_CHARTS = 12;
const FIRST = ["position/groundSpeedKmh", "combustion/engineSpeedRpm", "traction/stateOfChargePct", "motion/longitudinalAccelerationMps2",
  "combustion/coolantTemperatureC", "combustion/fuelRateLph", "traction/packPowerKw", "connectivity/sinrDb", "connectivity/rsrpDbm"];
const SHOWN = 6;

function tile(label, title, className = "") {
  const value = element("dd", { textContent: DASH });
  return { node: element("div", { title, className }, element("dt", { textContent: label }), value), value };
}

function put(tiles, name, text, className = "") {
  const { value } = tiles[name];
  if (value.textContent !== text) value.textContent = text;
  if (value.className !== className) value.className = className;
}

function frame(node, heading, extra, tiles, charts, after = []) {
  const list = element("dl", { className: "tiles" }, ...Object.values(tiles).map((t) => t.node));
  const title = element("h2", { id: "detail-name" }, heading);
  const fates = new FateBar();
  node.replaceChildren(element("div", { className: "head" }, title, ...extra), element("div", { className: "body" }, list, fates.node, charts, ...after));
  return fates;
}

// What stands at the right end of a chart's time.
const endWord = (store) => (store.frame === null ? "now" : new Date(store.frame.atMs).toLocaleTimeString("en-GB"));

export class FleetDetail {
  constructor(node, store) {
    this.store = store;
    this.past = { at: [], p50: [], max: [], delivery: [], fresh: [] };
    const link = (way) => () => {
      const rows = [...store.link.values()].sort((a, b) => a.second - b.second);
      // A second's bytes stand at its end, in seconds since 1970.
      return [rows.map((row) => 1000 * (row.second + 1)), rows.map((row) => row[way] * 8)];
    };
    const windows = (name) => () => {
      const rows = [...store.windows.values()].sort((a, b) => a.window_start_s - b.window_start_s);
      return [rows.map((row) => (row.window_start_s + row.window_s) * 1000), rows.map((row) => row[name] ?? null)];
    };
    this.charts = [
      new Chart("Link", "", [link("uplink"), link("downlink")], { names: ["uplink", "downlink"], zero: true, span: SPAN_MS, format: (v) => rate(v / 8) }),
      new Chart("End-to-end latency", "ms", [windows("end_to_end_latency_p50_ms"), windows("end_to_end_latency_p99_ms")], { names: ["p50", "p99"], zero: true, span: SPAN_MS }),
      new Chart("Age of information", "", [() => [this.past.at, this.past.p50], () => [this.past.at, this.past.max]], { names: ["median", "oldest"], zero: true, span: SPAN_MS, format: age, axis: ageTick }),
      new Chart("Delivery and fresh twins", "", [() => [this.past.at, this.past.delivery], () => [this.past.at, this.past.fresh]], { names: ["delivery ratio", "share of fresh twins"], span: SPAN_MS, most: 1, format: ratio }),
    ];
    this.tiles = Object.fromEntries([
      ["overhead", tile("Overhead", "wire bytes over payload bytes delivered once, for each message")],
      ["delivered", tile("Delivery so far", "received over known to be due")],
      ["lost", tile("Gaps", "sequences that never came")],
      ["duplicates", tile("Duplicates", "messages that came more than once")],
      ["givenUp", tile("Given up", "records in epochs of which the other counters know nothing")],
      ["rejected", tile("Rejected", "records that were kept out")],
      ["p50", tile("End to end p50", "from due to contained in the twin, the run so far")],
      ["p99", tile("End to end p99", "from due to contained in the twin, the run so far")],
    ]);
    this.cores = element("p", { className: "dim cores", title: "CPU time over wall time of the last second, of each kind of part of the run" });
    this.fates = frame(node, "Fleet over time", [element("span", { className: "dim", textContent: "Choose a vehicle on the map or in the table." })], this.tiles,
      this.cores, [element("div", { className: "charts wide" }, ...this.charts.map((c) => c.node))]);
  }

  close() {}

  summary() {
    const { summary } = this.store;
    const run = summary.run ?? {};
    put(this.tiles, "overhead", this.overhead());
    put(this.tiles, "lost", number(summary.gaps), summary.gaps ? "warn" : "");
    put(this.tiles, "duplicates", number(summary.duplicates));
    put(this.tiles, "givenUp", number(summary.givenUp), summary.givenUp ? "warn" : "");
    const rejected = this.store.rejected();
    const all = rejected.reduce((sum, [, count]) => sum + count, 0);
    put(this.tiles, "rejected", number(all), all ? "warn" : "");
    const reasons = rejected.map(([reason, count]) => `${reason}: ${count}`).join("\n");
    this.tiles.rejected.node.title = reasons || "records that were kept out";
    put(this.tiles, "p50", age(run.end_to_end_latency_p50_ms));
    put(this.tiles, "p99", age(run.end_to_end_latency_p99_ms));
    this.fates.show(fatesOfFleet(this.store));
    const cores = Object.entries(summary.sources?.cores ?? {});
    this.cores.textContent = cores.length ? `CPU in cores: ${cores.map(([part, used]) => `${part} ${number(used, 2)}`).join(" · ")}` : "";
    const share = fleetDelivery(this.store);
    put(this.tiles, "delivered", ratio(share), share !== null && share < 0.98 ? "bad" : "");
    if (this.store.frame !== null) return; // what is wound back was noted when it was now
    const now = { at: this.store.now(), p50: summary.ageOfInformationMs?.p50 ?? null, max: summary.ageOfInformationMs?.max ?? null,
      delivery: share, fresh: summary.vehicles ? 1 - summary.staleVehicles / summary.vehicles : null };
    for (const [name, list] of Object.entries(this.past)) {
      list.push(now[name]);
      if (list.length > 400) list.shift();
    }
  }

  overhead() {
    let [wire, payload, messages] = [0, 0, 0];
    const { store } = this;
    for (const vehicle of store.vehicles.values()) {
      const up = store.of(vehicle, "uplinkBytes");
      if (up === null || !up) continue;
      if (store.get(vehicle, "givenUp")) return DASH;
      const received = store.get(vehicle, "messages") - store.get(vehicle, "duplicates");
      wire += up + store.of(vehicle, "downlinkBytes");
      payload += received * store.get(vehicle, "payloadBytes");
      messages += received;
    }
    return messages && wire > payload ? `≈ ${number((wire - payload) / messages)} B` : DASH;
  }

  draw() { for (const chart of this.charts) chart.draw(this.store.now(), endWord(this.store)); }
}

// Of a part of the messages it would be no ratio of what was due.
export function fleetDelivery(store) {
  let [received, due] = [0, 0];
  for (const vehicle of store.vehicles.values()) {
    if (store.get(vehicle, "givenUp")) return null;
    const have = store.get(vehicle, "messages") - store.get(vehicle, "duplicates");
    received += have;
    due += Math.max(have + store.get(vehicle, "gaps"), store.of(vehicle, "emitted") ?? 0);
  }
  return due ? received / due : null;
}

export class VehicleDetail {
  constructor(node, store, id, back) {
    Object.assign(this, { store, id, times: [], signals: new Map(), charts: [], chosen: null });
    this.tiles = Object.fromEntries([
      ["speed", tile("Speed", "over ground")],
      ["energy", tile("Energy", "charge of the traction battery, else fuel level")],
      ["age", tile("Age", "age of information: now minus the stamp of the newest reading")],
      ["latency", tile("Latency", "newest message: from sampling to the twin")],
      ["delivery", tile("Delivery", "received over known to be due")],
      ["gaps", tile("Gaps / dup.", "sequences that never came / messages that came again")],
      ["givenUp", tile("Given up", "records in epochs of which the other counters know nothing")],
      ["unsent", tile("Unsent", "due, but the client would not take them")],
      ["quantiles", tile("p50 / p99", "end-to-end latency of the run so far")],
      ["up", tile("Uplink", "bits on the wire in the newest full second")],
      ["down", tile("Downlink", "bits on the wire in the newest full second")],
      ["gives", tile("Link gives", "rate that the link is asked to give in this second: uplink / downlink", "double")],
      ["linkRtt", tile("Link's RTT", "round-trip time that the link is asked to give in this second")],
      ["linkLoss", tile("Link's loss", "share of packets that the link is asked to lose in this second: uplink / downlink")],
      ["radio", tile("RSRP / SINR", "received power, dBm / signal to noise, dB")],
      ["sequence", tile("Epoch / seq.", "of the newest message")],
    ]);
    this.badges = element("span", { className: "badges" });
    const all = element("a", { className: "dim", href: `/api/2/things/ivsim:${encodeURIComponent(id)}`, textContent: "JSON", target: "_blank" });
    const button = element("button", { type: "button", textContent: "Back to the fleet", title: "Escape" });
    button.addEventListener("click", back);
    this.chartList = element("div", { className: "charts" });
    this.list = element("div", { className: "signals" });
    this.more = element("details", {}, element("summary", { textContent: "Signals" }), this.list);
    this.more.addEventListener("toggle", () => this.listSignals());
    // Of the timeline: a link's past is what this page has seen of it.
    const gave = (way) => () => {
      const { frames } = store.timeline;
      const column = store.figure[`${way}RateBps`];
      return [frames.map((frame) => frame.atMs), frames.map((frame) => frame.rows.get(id)?.[1]?.[column] ?? null)];
    };
    this.gives = new Chart("Link gives", "", [gave("uplink"), gave("downlink")], { names: ["uplink", "downlink"], zero: true, span: SPAN_MS, format: givenRate });
    this.fates = frame(node, nameElement(id), [this.badges, element("span", { className: "buttons" }, all, button)], this.tiles, this.chartList, [this.more]);
    this.load();
  }

  async load() {
    const answer = await fetch(`/api/vehicles/${encodeURIComponent(this.id)}/history?limit=400`).catch(() => null);
    if (this.closed) return;
    if (answer?.ok) {
      const body = await answer.json();
      this.times = body.atMs;
      this.signals = new Map(Object.entries(body.signals));
    }
    this.chosen = FIRST.filter((name) => this.signals.has(name)).slice(0, SHOWN);
    for (const name of this.signals.keys()) if (this.chosen.length < Math.min(SHOWN, this.signals.size) && !this.chosen.includes(name)) this.chosen.push(name);
    this.makeCharts();
    this.listSignals();
    this.follow();
  }

  // Ditto's stream of one thing; the same paths as the history's.
  follow() {
    if (this.closed) return;
    this.source = new EventSource(`/api/2/things/ivsim:${encodeURIComponent(this.id)}`);
    this.source.onmessage = ({ data }) => this.take(JSON.parse(data));
  }

  take({ features }) {
    const fresh = features.freshness.properties;
    const at = Date.parse(fresh.sampledAt ?? fresh.receivedAt);
    if (this.times.length && at <= this.times.at(-1)) return;
    const found = new Map();
    for (const [name, { properties }] of Object.entries(features))
      if (!["header", "lamps", "crew", "freshness", "delivery", "link", "problem"].includes(name)) collect(name, properties, found);
    for (const name of found.keys()) if (!this.signals.has(name)) this.signals.set(name, new Array(this.times.length).fill(null));
    this.times.push(at);
    for (const [name, values] of this.signals) values.push(found.get(name) ?? null);
    while (this.times[0] < at - 2 * SPAN_MS) {
      this.times.shift();
      for (const values of this.signals.values()) values.shift();
    }
    if (this.more.open) this.newest();
  }

  makeCharts() {
    this.charts = this.chosen.map((name) => {
      const { words, unit } = signalName(name);
      return new Chart(words, unit, [() => [this.times, this.signals.get(name) ?? []]], { span: SPAN_MS });
    });
    this.chartList.replaceChildren(...(this.known ? [this.gives.node] : []), ...this.charts.map((chart) => chart.node));
    this.draw();
  }

  listSignals() {
    const { textContent } = this.more.firstChild;
    const words = `Signals: ${this.chosen?.length ?? 0} of ${this.signals.size} drawn, choose others`;
    if (textContent !== words) this.more.firstChild.textContent = words;
    if (!this.more.open || this.list.childElementCount) return;
    this.outputs = new Map();
    const boxes = [...this.signals.keys()].sort().map((name) => {
      const box = element("input", { type: "checkbox", checked: this.chosen.includes(name) });
      box.addEventListener("change", () => this.toggle(name, box));
      const output = element("output");
      this.outputs.set(name, output);
      return element("label", { title: name }, box, signalName(name).words, output);
    });
    this.list.replaceChildren(...boxes);
    this.newest();
  }

  newest() {
    for (const [name, output] of this.outputs ?? []) {
      const value = this.signals.get(name).at(-1);
      output.textContent = value === null || value === undefined ? DASH : `${number(value, Number.isInteger(value) ? 0 : 1)} ${signalName(name).unit}`;
    }
  }

  toggle(name, box) {
    if (!box.checked) this.chosen = this.chosen.filter((other) => other !== name);
    else if (this.chosen.length < MAX_CHARTS) this.chosen.push(name);
    else box.checked = false;
    this.makeCharts();
    this.listSignals();
  }

  summary() { this.values(); }

  values() {
    const { store } = this;
    const vehicle = store.vehicles.get(this.id);
    if (!vehicle?.row.length) return;
    const get = (name) => store.get(vehicle, name);
    const stale = store.stale(vehicle);
    const delivery = store.delivery(vehicle);
    put(this.tiles, "speed", `${number(get("speedKmh"), 1)} km/h`);
    put(this.tiles, "energy", `${number(get("energyPct"), 1)} %`);
    put(this.tiles, "age", age(store.age(vehicle)), stale ? "bad" : "");
    put(this.tiles, "latency", age(store.latency(vehicle)));
    put(this.tiles, "delivery", ratio(delivery), delivery !== null && delivery < 0.98 ? "bad" : "");
    put(this.tiles, "gaps", `${number(get("gaps"))} / ${number(get("duplicates"))}`);
    put(this.tiles, "givenUp", number(get("givenUp")), get("givenUp") ? "warn" : "");
    put(this.tiles, "unsent", number(store.of(vehicle, "emitted") === null ? null : store.of(vehicle, "unsent")));
    put(this.tiles, "quantiles", pair(store.of(vehicle, "endToEndP50Ms"), store.of(vehicle, "endToEndP99Ms")));
    put(this.tiles, "up", rate(store.of(vehicle, "uplinkBytesPerSecond")));
    put(this.tiles, "down", rate(store.of(vehicle, "downlinkBytesPerSecond")));
    put(this.tiles, "radio", `${number(get("rsrpDbm"))} / ${number(get("sinrDb"))}`);
    put(this.tiles, "sequence", `${number(get("epoch"))} / ${number(get("sequence"))}`);
    const known = store.of(vehicle, "linkSecond") !== null;
    put(this.tiles, "gives", known ? ["uplink", "downlink"].map((way) => givenRate(store.givenBps(vehicle, way))).join(" / ") : DASH, store.givenBps(vehicle, "uplink") === 0 ? "bad" : "");
    put(this.tiles, "linkRtt", known ? `${number(store.of(vehicle, "linkRttMs"))} ms` : DASH);
    put(this.tiles, "linkLoss", known ? ["uplinkLossRatio", "downlinkLossRatio"].map((name) => number(store.of(vehicle, name), 3)).join(" / ") : DASH);
    if (known && !this.known && this.chosen) {
      this.known = true;
      this.makeCharts();
    }
    this.fates.show(fatesOf(store, vehicle));
    const words = [get("powertrain"), `${get("protocol")} ${get("mode")}`, `${get("format")}, ${number(get("payloadBytes"))} B`].filter(Boolean);
    if (stale) words.push("stale");
    if (get("lampsOn")) words.push(`${get("lampsOn")} lamp${get("lampsOn") > 1 ? "s" : ""} on`);
    if (get("problem")) words.push(/^position/.test(get("problem")) ? get("problem") : "payload not decodable");
    const text = words.join("|");
    if (this.badgeText === text) return;
    this.badgeText = text;
    this.badges.replaceChildren(...words.flatMap((word) => [element("span", { className: /stale|not dec|out of range/.test(word) ? "badge bad" : "badge", textContent: word }), " "]));
  }

  draw() { for (const chart of [...this.charts, this.gives]) chart.draw(this.store.now(), endWord(this.store)); }

  close() {
    this.closed = true;
    this.source?.close();
  }
}

function collect(path, value, found) {
  if (typeof value === "number") found.set(path, value);
  else if (typeof value === "boolean") found.set(path, Number(value));
  else if (Array.isArray(value)) value.forEach((item, k) => collect(`${path}/${k + 1}`, item, found));
  else if (value && typeof value === "object") {
    if ("ageCs" in value) collect(path, value.value ?? value.active, found);
    else for (const [key, item] of Object.entries(value)) collect(key === "items" ? path : `${path}/${key}`, item, found);
  }
}
