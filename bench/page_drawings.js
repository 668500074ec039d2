// Milliseconds of one drawing of a chart and of a map, the median of many; called by bench_page.py in a page of the service.
async libraries => {
  const found = {};
  const median = (times) => times.sort((a, b) => a - b)[times.length >> 1];
  const timed = async (draw, canvas, turns) => {
    const times = [];
    for (let k = 0; k < turns; k++) {
      const t = performance.now();
      await draw(k);
      canvas().getContext("2d").getImageData(0, 0, 1, 1);
      times.push(performance.now() - t);
    }
    return median(times);
  };
  const place = (width, height) => {
    const node = document.createElement("div");
    node.style.cssText = `position:relative;width:${width}px;height:${height}px`;
    document.body.replaceChildren(node);
    return node;
  };
  const times = Array.from({ length: 400 }, (_, k) => 1e12 + 1000 * k);
  const line = (turn, phase) => times.map((_, k) => 50 + 40 * Math.sin((k + turn) / 17 + phase));
  { const { Chart } = await import("/page/chart.js");
    let lines = [];
    const chart = new Chart("a chart", "ms", [() => [times, lines[0]], () => [times, lines[1]]], { names: ["a", "b"], span: 400_000 });
    place(320, 86).append(chart.node);
    found["chart: own"] = await timed((turn) => { lines = [line(turn, 0), line(turn, 1)]; chart.draw(times.at(-1)); }, () => chart.canvas, 200); }
  const vehicles = (turn) => Array.from({ length: 5000 }, (_, k) => [57 + Math.sin(k * 7.1) / 2 + turn * 1e-4, 12 + Math.cos(k * 3.3) / 2]);
  { const { FleetMap } = await import("/page/map.js");
    const { Store } = await import("/page/store.js");
    const store = new Store();
    Object.assign(store.column, { latitudeDeg: 1, longitudeDeg: 2, speedKmh: 3, headingDeg: 4, sampledAtMs: 5, receivedAtMs: 6 });
    const node = place(900, 500);
    const canvas = document.createElement("canvas");
    node.append(canvas);
    const map = new FleetMap(canvas, document.createElement("div"), store, () => {});
    const at = Date.now();
    const tell = (turn) => store.rows({ nowMs: at, rows: vehicles(turn).map(([lat, lon], k) => [`V${k}`, lat, lon, k % 100, k % 360, at, at]) });
    tell(0);
    await new Promise((done) => setTimeout(done, 300));
    found["map of 5,000: own"] = await timed((turn) => { if (turn % 10 === 0) tell(turn); map.draw(); }, () => canvas, 60); }
  if (!libraries) return found;
  const load = (tag, properties) => new Promise((done) => document.head.append(Object.assign(document.createElement(tag), properties, { onload: done })));
  await load("script", { src: "/library/uPlot.iife.min.js" });
  await load("link", { rel: "stylesheet", href: "/library/uPlot.min.css" });
  await load("script", { src: "/library/leaflet.js" });
  await load("link", { rel: "stylesheet", href: "/library/leaflet.css" });
  { const data = (turn) => [times.map((t) => t / 1000), line(turn, 0), line(turn, 1)];
    const chart = new uPlot({ width: 320, height: 86, series: [{}, { stroke: "#0b6b8a" }, { stroke: "#c2571a" }], legend: { show: false } }, data(0), place(320, 86));
    // It draws in a microtask after setData.
    found["chart: uPlot"] = await timed(async (turn) => { chart.setData(data(turn)); await null; await null; }, () => chart.ctx.canvas, 200); }
  { const map = L.map(place(900, 500), { preferCanvas: true, zoomAnimation: false, fadeAnimation: false }).setView([57, 12], 9);
    const renderer = L.canvas();
    const marks = vehicles(0).map((at) => L.circleMarker(at, { radius: 4, weight: 1, renderer }).addTo(map));
    await new Promise((done) => setTimeout(done, 300));
    // It draws in the next frame; `_redraw` is that, now.
    found["map of 5,000: Leaflet"] = await timed((turn) => { vehicles(turn).forEach((at, k) => marks[k].setLatLng(at)); renderer._redraw(); }, () => renderer._container, 60); }
  return found;
}
