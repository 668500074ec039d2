// Numbers and names for people; a value that is not there is a dash.
export const DASH = "–";

export const number = (value, digits = 0) =>
  value === null || value === undefined || Number.isNaN(value) ? DASH : value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });

// Two times of one kind, in ms, or in s where ms have more digits than anyone reads.
export function pair(first, second) {
  const most = Math.max(first ?? 0, second ?? 0);
  if (most < 10_000) return `${number(first)} / ${number(second)} ms`;
  const seconds = (ms) => number(ms === null || ms === undefined ? null : ms / 1000, most < 100_000 ? 1 : 0);
  return `${seconds(first)} / ${seconds(second)} s`;
}

export const milliseconds = (ms) => (ms === null || ms === undefined ? DASH : `${number(ms, ms < 10 ? 1 : 0)} ms`);

export function age(ms) {
  if (ms === null || ms === undefined) return DASH;
  if (ms < 995) return `${Math.max(0, Math.round(ms / 10) * 10)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min`;
  return `${Math.floor(ms / 3_600_000)} h`;
}

// The same for an axis, whose lines are so many ms apart.
export const ageTick = (ms, step) =>
  ms + step < 1000 ? `${ms.toFixed(digitsFor(step))} ms` : `${(ms / 1000).toFixed(digitsFor(step / 1000))} s`;

export function rate(bytesPerSecond) {
  if (bytesPerSecond === null || bytesPerSecond === undefined) return DASH;
  const bits = bytesPerSecond * 8;
  if (bits < 1000) return `${bits} bit/s`;
  return bits < 1e6 ? `${(bits / 1000).toFixed(bits < 9950 ? 1 : 0)} kbit/s` : `${(bits / 1e6).toFixed(2)} Mbit/s`;
}

// What a link is asked to give: 0 is an outage, Infinity no limit.
export function givenRate(bps) {
  if (bps === null) return DASH;
  if (bps === 0) return "outage";
  return bps === Infinity ? "unlimited" : rate(bps / 8);
}

// Digits behind the point for numbers so far apart: two of what lies between them, so that none is written like another.
export const digitsFor = (step) => (step > 0 ? Math.min(6, Math.max(0, Math.ceil(1 - Math.log10(step) - 1e-9))) : 0);

// Rounded down: 0.9999 is not everything.
export const ratio = (value) => (value === null || value === undefined ? DASH : (Math.floor(value * 1000) / 1000).toFixed(3));

export function splitName(id) {
  const match = /^(.*?)(\d+)$/.exec(id);
  return match && match[1].length > 3 ? [match[1], match[2]] : ["", id];
}

export function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

export function nameElement(id) {
  const [prefix, rest] = splitName(id);
  return element("span", { className: "name", title: id }, element("i", { textContent: prefix }), element("b", { textContent: rest }));
}

// camelCase paths of signals to words and a unit: motion/yawRateDps -> "yaw rate", "°/s"
const UNITS = [["Kmh", "km/h"], ["Mps2", "m/s²"], ["Dps", "°/s"], ["Deg", "°"], ["Pct", "%"], ["Rpm", "1/min"], ["Kpa", "kPa"],
  ["Lph", "l/h"], ["Ml", "ml"], ["Kw", "kW"], ["Wh", "Wh"], ["Nm", "N m"], ["Dbm", "dBm"], ["Db", "dB"], ["Kg", "kg"],
  ["Ms", "ms"], ["C", "°C"], ["V", "V"], ["A", "A"], ["M", "m"], ["S", "s"]];

export function signalName(path) {
  const parts = path.split("/");
  let last = parts.pop();
  let unit = "";
  for (const [suffix, shown] of UNITS) {
    if (last.endsWith(suffix) && last.length > suffix.length) {
      [last, unit] = [last.slice(0, -suffix.length), shown];
      break;
    }
  }
  const words = last.replace(/([a-z0-9])([A-Z])/g, "$1 $2").toLowerCase();
  const before = parts.slice(1).filter((part) => part !== "wheels").join(".");
  return { words: before ? `${words} (${parts[0] === "trailers" ? "trailer" : "axle"} ${before})` : words, unit };
}
