"use strict";
// Sliders between target and fit; values under the pointer in charts. Without this script the page is complete, but still.

for (const box of document.querySelectorAll(".compare")) {
  const slider = box.querySelector("input");
  const show = () => {
    box.style.setProperty("--at", slider.value + "%");
    slider.setAttribute("aria-valuetext", slider.value + " % target");
  };
  slider.addEventListener("input", show);
  show();
}

const short = (v) => {
  if (v === null || v === undefined) return "–";
  const size = Math.abs(v);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return v.toExponential(2);
  return String(+v.toPrecision(4));
};

for (const figure of document.querySelectorAll("[data-chart]")) {
  const data = JSON.parse(figure.dataset.chart);
  const area = figure.querySelector(".area"), hair = figure.querySelector(".hair");
  const at = figure.querySelector(".at"), outputs = figure.querySelectorAll("output");
  const [low, high] = data.x;
  const places = [...new Set(data.series.flatMap((s) => s.map((p) => p[0])))].sort((a, b) => a - b);
  let index = -1;
  const nearest = (points, x) =>
    points.reduce((best, p) => (Math.abs(p[0] - x) < Math.abs(best[0] - x) ? p : best), points[0]);
  const show = (k) => {
    index = Math.max(0, Math.min(places.length - 1, k));
    const x = places[index];
    hair.style.display = "block";
    hair.style.left = (100 * (x - low)) / (high - low) + "%";
    const values = data.series.map((points) => {
      const inside = points.length && x >= points[0][0] && x <= points[points.length - 1][0];
      return inside ? short(nearest(points, x)[1]) : "";
    });
    outputs.forEach((output, n) => (output.textContent = values[n]));
    at.textContent = short(x) + (outputs.length ? "" : ": " + values[0]);
  };
  const hide = () => {
    hair.style.display = "none";
    at.textContent = "";
    outputs.forEach((output) => (output.textContent = ""));
  };
  area.addEventListener("pointermove", (event) => {
    const box = area.getBoundingClientRect();
    const x = low + ((event.clientX - box.left) / box.width) * (high - low);
    let best = 0;
    places.forEach((p, k) => { if (Math.abs(p - x) < Math.abs(places[best] - x)) best = k; });
    show(best);
  });
  area.addEventListener("pointerleave", hide);
  area.addEventListener("blur", hide);
  area.addEventListener("keydown", (event) => {
    const stride = Math.max(1, Math.round(places.length / 100));
    if (event.key === "ArrowRight") show(index + stride);
    else if (event.key === "ArrowLeft") show(index < 0 ? places.length - 1 : index - stride);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
}
