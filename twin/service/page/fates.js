// What became of the messages so far, as a bar with its numbers; of one vehicle, or of the fleet.
import { DASH, element, number } from "./format.js";

// Word, what it means, colour. The ledger has the last word: nothing is late or lost before its loss timeout is over.
export const FATES = [
  ["in the twin", "distinct messages that the twin contains", "good"],
  ["on the way", "emitted, and nothing later of the vehicle is in the twin", "accent"],
  ["overtaken", "emitted and not in the twin, though something later of the vehicle is: lost, or late", "bad"],
  ["refused", "emitted, and the peer said that it will not keep them", "series2"],
  ["unsent", "due, but the client would not take them", "warn"],
];

// Counts in the order of FATES, null where the emission log says nothing yet or records were given up.
export function fatesOf(store, vehicle) {
  const emitted = store.of(vehicle, "emitted");
  if (emitted === null || store.get(vehicle, "givenUp")) return null;
  const received = (store.get(vehicle, "messages") ?? 0) - (store.get(vehicle, "duplicates") ?? 0);
  const refused = store.of(vehicle, "refused") ?? 0;
  const unsent = store.of(vehicle, "unsent") ?? 0;
  // What never left leaves a gap in the sequence, too.
  const overtaken = Math.max(0, (store.get(vehicle, "gaps") ?? 0) - unsent - refused);
  return [received, Math.max(0, emitted - refused - received - overtaken), overtaken, refused, unsent];
}

export function fatesOfFleet(store) {
  const sums = FATES.map(() => 0);
  for (const vehicle of store.vehicles.values()) {
    const found = fatesOf(store, vehicle);
    if (found === null) return null;
    found.forEach((count, k) => { sums[k] += count; });
  }
  return store.vehicles.size ? sums : null;
}

export class FateBar {
  constructor() {
    this.parts = FATES.map(([, , tone]) => element("span", { className: `fate ${tone}` }));
    this.bar = element("div", { className: "fatebar" }, ...this.parts);
    this.bar.setAttribute("aria-hidden", "true"); // the list beside it says the same
    this.counts = FATES.map(() => element("dd", { textContent: DASH }));
    const list = element("dl", {}, ...FATES.map(([word, title, tone], k) =>
      element("div", { title }, element("dt", { className: `key ${tone}`, textContent: word }), this.counts[k])));
    this.node = element("div", { className: "fates" }, this.bar, list);
  }

  show(counts) {
    const due = counts?.reduce((sum, count) => sum + count, 0) ?? 0;
    this.parts.forEach((part, k) => { part.style.flexGrow = due ? counts[k] / due : 0; });
    this.counts.forEach((cell, k) => {
      const text = counts === null ? DASH : number(counts[k]);
      if (cell.textContent !== text) cell.textContent = text;
    });
  }
}
