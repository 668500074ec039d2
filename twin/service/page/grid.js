// The map's own marks: lines of latitude and longitude with their names, and a bar that says the scale.
import { colour } from "./theme.js";

const NICE = [1, 2, 5];

function nice(metres) {
  const power = 10 ** Math.floor(Math.log10(metres));
  return power * (NICE.findLast((step) => step * power <= metres) ?? 1);
}

export function drawGrid(context, map) {
  const degrees = (metres) => metres / 111_195;
  const steps = [degrees(150 * map.metres) / Math.cos((map.store.origin[0] * Math.PI) / 180), degrees(90 * map.metres)];
  const [across, step] = steps.map((size) => nice(size));
  const [digitsAcross, digits] = [across, step].map((size) => Math.max(0, -Math.floor(Math.log10(size))));
  const [south, west] = map.store.unproject(map.centre[0] - (map.width / 2) * map.metres, map.centre[1] - (map.height / 2) * map.metres);
  const [north, east] = map.store.unproject(map.centre[0] + (map.width / 2) * map.metres, map.centre[1] + (map.height / 2) * map.metres);
  context.strokeStyle = colour("grid");
  context.fillStyle = colour("dim");
  context.font = "10.5px system-ui, sans-serif";
  context.lineWidth = 1;
  context.beginPath();
  for (let k = Math.ceil(west / across); k * across <= east; k++) {
    const x = Math.round(map.toScreen(map.store.project(south, k * across)[0], 0)[0]) + 0.5;
    context.moveTo(x, 0);
    context.lineTo(x, map.height);
    const name = `${Math.abs(k * across).toFixed(digitsAcross)}°${k < 0 ? "W" : "E"}`;
    // A name that the map's edge would cut is left out.
    if (x + 3 + context.measureText(name).width < map.width) context.fillText(name, x + 3, map.height - 5);
  }
  for (let k = Math.ceil(south / step); k * step <= north; k++) {
    const y = Math.round(map.toScreen(0, map.store.project(k * step, west)[1])[1]) + 0.5;
    context.moveTo(0, y);
    context.lineTo(map.width, y);
    if (y < map.height - 40) context.fillText(`${Math.abs(k * step).toFixed(digits)}°${k < 0 ? "S" : "N"}`, 4, y - 3);
  }
  context.stroke();
}

export function drawScale(context, map) {
  const metres = nice(130 * map.metres);
  const width = metres / map.metres;
  const [left, top] = [map.width - 16 - width, map.height - 22];
  context.strokeStyle = colour("text");
  context.lineWidth = 1.5;
  context.beginPath();
  context.moveTo(left, top - 5);
  context.lineTo(left, top);
  context.lineTo(left + width, top);
  context.lineTo(left + width, top - 5);
  context.stroke();
  context.font = "11.5px system-ui, sans-serif";
  context.fillStyle = colour("text");
  context.textAlign = "right";
  context.fillText(metres >= 1000 ? `${metres / 1000} km` : `${metres} m`, left + width, top - 8);
  context.textAlign = "left";
}
