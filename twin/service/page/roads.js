// The roads under the vehicles: lines that the service tells; in the colour of what the uplink gives at each place where the map is coloured by that.
import { MEANINGS, logarithm, share } from "./meanings.js";
import { STEPS, colour, ramp } from "./theme.js";

const WIDTH = 5; // CSS pixels, at every scale

export class Roads {
  constructor(store) {
    Object.assign(this, { store, features: [], paths: null });
    store.addEventListener("state", () => { if (store.state === "live") this.load(); });
  }

  async load() {
    try {
      const answer = await fetch("/api/roads");
      if (answer.ok) [this.features, this.paths] = [(await answer.json()).features, null];
    } catch { /* the map is whole without */ }
  }

  // In metres of the map's plane, made once: all lines, and beside them one path for each colour of a rate.
  make() {
    const [all, steps] = [new Path2D(), Array.from({ length: STEPS }, () => null)];
    for (const { geometry, properties } of this.features) {
      const rates = properties.coordinateProperties?.uplink_kbps;
      let from = null;
      geometry.coordinates.forEach(([longitude, latitude], k) => {
        const to = this.store.project(latitude, longitude);
        if (from === null) all.moveTo(...to);
        else {
          all.lineTo(...to);
          if (rates) {
            const step = Math.round(share(MEANINGS.link, logarithm(rates[k - 1] * 1000)) * (STEPS - 1));
            const path = (steps[step] ??= new Path2D());
            path.moveTo(...from);
            path.lineTo(...to);
          }
        }
        from = to;
      });
    }
    return [all, steps];
  }

  draw(context, map) {
    if (!this.features.length) return;
    const [all, steps] = (this.paths ??= this.make());
    const scale = 1 / map.metres;
    context.save();
    context.transform(scale, 0, 0, -scale, map.width / 2 - map.centre[0] * scale, map.height / 2 + map.centre[1] * scale);
    Object.assign(context, { lineJoin: "round", lineCap: "round" });
    const stroke = (path, width, style) => {
      Object.assign(context, { lineWidth: width * map.metres, strokeStyle: style });
      context.stroke(path);
    };
    stroke(all, WIDTH + 2, colour("grid"));
    stroke(all, WIDTH, colour("road"));
    // The least on top: of a road that was passed twice it is the hole that shows.
    if (map.meaning === "link")
      for (let k = STEPS - 1; k >= 0; k--) if (steps[k]) stroke(steps[k], WIDTH, ramp(k / (STEPS - 1)));
    context.restore();
  }
}
