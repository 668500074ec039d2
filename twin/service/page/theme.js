// Light or dark: as the system says until someone chooses; canvases ask here for colours.
const key = "ivsim-theme";
const root = document.documentElement;
const system = matchMedia("(prefers-color-scheme: dark)");
const listeners = [];
let cache = {};

function saved() {
  try { return localStorage.getItem(key); } catch { return null; }
}

function apply() {
  root.dataset.theme = saved() ?? (system.matches ? "dark" : "light");
  cache = {};
  for (const listener of listeners) listener();
}

export function start(button) {
  apply();
  system.addEventListener("change", apply);
  button.addEventListener("click", () => {
    const next = root.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem(key, next); } catch { root.dataset.theme = next; }
    apply();
  });
}

// Paper is white, whatever the screen is.
export function print(on) {
  if (!on) return apply();
  root.dataset.theme = "light";
  cache = {};
  for (const listener of listeners) listener();
  return undefined;
}

export const onTheme = (listener) => listeners.push(listener);

export const isDark = () => root.dataset.theme === "dark";

export function colour(name) {
  return (cache[name] ??= getComputedStyle(root).getPropertyValue(`--${name}`).trim());
}

// Ramps that keep their order without colour vision: dark to light on white, light to dark on black.
const LIGHT = [[43, 58, 140], [24, 104, 156], [17, 138, 136], [66, 158, 84], [168, 165, 30], [214, 120, 20]];
const DARK = [[92, 112, 214], [64, 150, 212], [52, 184, 180], [110, 205, 120], [208, 206, 80], [250, 168, 80]];
export const STEPS = 24;

export function ramp(share) {
  const stops = isDark() ? DARK : LIGHT;
  const at = Math.min(0.9999, Math.max(0, share)) * (stops.length - 1);
  const k = Math.floor(at);
  const mix = stops[k].map((from, i) => Math.round(from + (stops[k + 1][i] - from) * (at - k)));
  return `rgb(${mix.join(",")})`;
}
