// Wires the parts of the page together; the parts know the store, not each other.
import { FleetDetail, VehicleDetail, fleetDelivery } from "./detail.js";
import { DASH, age, element, milliseconds, number, pair, rate, ratio } from "./format.js";
import { FleetMap } from "./map.js";
import { MEANINGS } from "./meanings.js";
import { Store } from "./store.js";
import { VehicleTable } from "./table.js";
import { TimelineBar } from "./timeline.js";
import { onTheme, print, ramp, start as startTheme } from "./theme.js";

const $ = (id) => document.getElementById(id);
const store = new Store();
startTheme($("theme"));
const map = new FleetMap($("map"), $("hover"), store, (id) => choose(id));
const table = new VehicleTable(store, { grid: $("grid"), columns: $("columns"), space: $("space"), count: $("count") }, (id) => choose(id));
const timeline = new TimelineBar(store, { bar: $("timeline"), slider: $("when"), play: $("play"), now: $("back"), said: $("said") }, wound);
let detail = new FleetDetail($("detail"), store);
let chosen = null;
let stale = { order: true };

const FIGURES = {
  vehicles: ["Vehicles", "twins in memory"],
  stale: ["Stale", "no reading for longer than the limit"],
  age: ["Age p50 / max", "age of information over the fleet"],
  offered: ["Offered / emitted", "messages due so far, and what of them the vehicles have emitted"],
  lag: ["Emission lag", "the longest of the last half second: how late a message left its vehicle"],
  updates: ["Updates", "changes of twins shown here, a second"],
  delivery: ["Delivery", "received over known to be due"],
  latency: ["End to end p50 / p99", "newest window with figures"],
  up: ["Uplink", "of the fleet, bits on the wire"],
  down: ["Downlink", "of the fleet, bits on the wire"],
};
const shown = Object.fromEntries(Object.entries(FIGURES).map(([name, [label, title]]) => {
  const value = element("dd", { textContent: DASH });
  $("figures").append(element("div", { title }, element("dt", { textContent: label }), value));
  return [name, value];
}));

// Another second is shown than before: everything that shows one is drawn anew.
function wound() {
  table.refresh();
  summarised();
  detail.values?.();
  detail.draw();
}

function choose(id) {
  const vehicle = id ? store.vehicles.get(id) : null;
  if (id && (!vehicle || id === chosen)) return;
  chosen = vehicle ? id : null;
  detail.close();
  detail = chosen ? new VehicleDetail($("detail"), store, id, () => { choose(null); $("grid").querySelector("[tabindex='0']")?.focus(); }) : new FleetDetail($("detail"), store);
  map.choose(vehicle);
  table.choose(chosen);
  $("follow").hidden = !chosen;
  view();
  detail.summary();
  // The address names the vehicle, so that it can be handed on.
  history.replaceState(null, "", chosen ? `#vehicle=${chosen}` : location.pathname);
}

function figures() {
  const { summary } = store;
  // Of the second that is shown: what its summary had; now, the newest of all.
  const [links, windows] = store.frame === null ? [[...store.link.values()], [...store.windows.values()]] : [summary.link, summary.windows];
  const link = links.reduce((newest, row) => (row.second > (newest?.second ?? -1) ? row : newest), null);
  const window = windows.reduce((newest, row) => (row.end_to_end_latency_p50_ms !== null && row.window_start_s > (newest?.window_start_s ?? -1) ? row : newest), null);
  const texts = {
    vehicles: number(summary.vehicles),
    stale: number(summary.staleVehicles),
    age: `${age(summary.ageOfInformationMs?.p50)} / ${age(summary.ageOfInformationMs?.max)}`,
    offered: `${number(summary.sources?.offered)} / ${number(summary.sources?.emitted)}`,
    lag: milliseconds(summary.sources?.emissionLagMaxMs),
    updates: perSecond(),
    delivery: ratio(fleetDelivery(store)),
    latency: window ? pair(window.end_to_end_latency_p50_ms, window.end_to_end_latency_p99_ms) : DASH,
    up: rate(link?.uplink ?? null),
    down: rate(link?.downlink ?? null),
  };
  for (const [name, text] of Object.entries(texts)) if (shown[name].textContent !== text) shown[name].textContent = text;
  shown.stale.className = summary.staleVehicles ? "warn" : "";
  $("title").textContent = summary.title || "";
}

const counts = [];
function perSecond() {
  counts.push([performance.now(), store.updates]);
  while (counts.length > 6) counts.shift();
  const [[from, before], [to, after]] = [counts[0], counts.at(-1)];
  return to > from ? `${number(((after - before) / (to - from)) * 1000)} /s` : DASH;
}

function legend() {
  const meaning = MEANINGS[map.meaning];
  const canvas = element("canvas", { width: 90, height: 9 });
  const context = canvas.getContext("2d");
  for (let x = 0; x < 90; x++) {
    context.fillStyle = ramp(x / 89);
    context.fillRect(x, 0, 1, 9);
  }
  $("legend").replaceChildren(meaning.words[0], canvas, meaning.words[1] ?? age(store.staleAfterMs), " ○ stale");
}

function view() {
  $("fit").setAttribute("aria-pressed", map.fitting);
  $("follow").setAttribute("aria-pressed", map.following);
}

map.onview = view;
onTheme(legend);
$("colour").addEventListener("change", (event) => { map.meaning = event.target.value; legend(); });
$("fit").addEventListener("click", () => map.fit());
$("follow").addEventListener("click", () => map.follow());
$("closer").addEventListener("click", () => map.zoom(0.7));
$("wider").addEventListener("click", () => map.zoom(1.4));
for (const name of ["find", "which"]) $(name).addEventListener("input", () => table.filter($("find").value, $("which").value));
$("find").addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" && table.list.length) { event.preventDefault(); table.focus(table.at); }
});
addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || $("login").open) return;
  const typing = /INPUT|SELECT|TEXTAREA/.test(event.target.tagName);
  if (event.key === "Escape" && chosen) choose(null);
  else if (!typing && event.key.toLowerCase() === "f") map.fit();
  else if (!typing && event.key === "/") { event.preventDefault(); $("find").focus(); }
});
for (const [event, on] of [["beforeprint", true], ["afterprint", false]])
  addEventListener(event, () => {
    table.all = on;
    print(on);
    table.show();
    map.draw();
    detail.draw();
  });

store.addEventListener("fleet", () => {
  stale.order = true;
  $("empty").hidden = store.vehicles.size > 0;
  if (!map.aimed) map.fit();
});
store.addEventListener("summary", () => {
  store.note();
  timeline.grow();
  summarised();
});

function summarised() {
  figures();
  const unplaced = store.unplaced();
  $("unplaced").hidden = !unplaced;
  $("unplaced").textContent = `position unknown: ${unplaced}`;
  detail.summary();
  stale.order = true;
}

store.addEventListener("state", () => {
  const words = { connecting: "connecting", live: "live", lost: "connection lost, trying again" };
  timeline.grow();
  $("connection").textContent = words[store.state];
  $("connection").className = `pill ${store.state}`;
  legend();
});
store.addEventListener("locked", () => login(""));

// A new stream makes new vehicles: the chosen one is found again by its name.
function keepChosen() {
  const named = chosen ?? new URLSearchParams(location.hash.slice(1)).get("vehicle");
  const vehicle = named ? store.vehicles.get(named) : null;
  if (vehicle && chosen === null) choose(named);
  else if (vehicle && map.chosen !== vehicle) map.chosen = vehicle;
}

let turn = 0;
setInterval(() => {
  if (document.hidden) return;
  if (stale.order) {
    stale.order = false;
    keepChosen();
    table.refresh();
  } else table.values();
  detail.values?.();
  if (turn++ % 2 === 0) detail.draw();
}, 250);

function login(reason) {
  $("connection").textContent = "token needed";
  $("login-error").textContent = reason;
  if (!$("login").open) $("login").showModal();
}

$("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  open($("token").value);
});
$("login").addEventListener("cancel", (event) => event.preventDefault());

// The token goes into a header once; the service answers with a cookie that scripts cannot read.
async function open(token) {
  $("token").value = "";
  let answer = null;
  try {
    answer = await fetch("/api/session", { headers: { authorization: `Bearer ${token.trim()}` } });
  } catch { /* said below */ }
  if (!answer?.ok) { login(answer ? "This is not the token." : "The service does not answer."); return; }
  $("login").close();
  store.connect();
}

const handed = new URLSearchParams(location.hash.slice(1)).get("token");
if (handed) {
  // What stands behind # never leaves the browser; it must not stay in its history either.
  history.replaceState(null, "", location.pathname);
  open(handed);
} else store.connect();
