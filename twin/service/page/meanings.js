// What a colour of the map can stand for: a vehicle's value, the ends of the ramp, and how to say them.
export const MEANINGS = {
  speed: { value: (s, v) => s.get(v, "speedKmh"), low: 0, high: 100, words: ["0", "100 km/h"] },
  age: { value: (s, v) => s.age(v), low: 0, high: null, words: ["0 s", null] },
  delivery: { value: (s, v) => s.delivery(v), low: 0.9, high: 1, words: ["≤ 0.9", "1"] },
  radio: { value: (s, v) => s.get(v, "sinrDb"), low: -10, high: 30, words: ["−10", "30 dB"] },
  // Logarithmic: 10 kbit/s and less, to 10 Mbit/s and more; an outage is the least.
  link: { value: (s, v) => logarithm(s.givenBps(v, "uplink")), low: 4, high: 7, words: ["0.01", "10 Mbit/s"] },
};

// Of a rate in bit/s; null where nobody says it.
export function logarithm(bps) { return bps === null ? null : Math.log10(Math.max(bps, 1)); }

// Where a value is on the ramp, 0 to 1; `high` is the end of a ramp that has none of its own.
export function share(meaning, value, high = meaning.high) {
  return Math.min(1, Math.max(0, (value - meaning.low) / (high - meaning.low)));
}
