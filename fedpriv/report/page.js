"use strict";
// Okabe and Ito's colours: told apart by people who see colours differently, on white and on black.
const PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8f7cc3", "#888888"];
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const charts = [...document.querySelectorAll(".chart")];

function themed(figure) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink").trim();
  const line = style.getPropertyValue("--line").trim();
  const copy = structuredClone(figure);
  for (const trace of copy.data) {
    const colour = PALETTE[(trace.meta ?? 0) % PALETTE.length];
    trace.marker = { ...trace.marker, color: colour };
    if (trace.line) trace.line.color = colour;
    if (trace.error_y) trace.error_y.color = colour;
  }
  const narrow = window.innerWidth < 640;
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: ink, family: "system-ui, sans-serif" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink },
    margin: { l: 60, r: narrow ? 20 : 50, t: 20, b: 50 },
    ...copy.layout,
    legend: { orientation: "h", yanchor: "top", y: narrow ? -0.4 : -0.25 },
  };
  for (const axis of ["xaxis", "yaxis", "yaxis2"]) {
    if (layout[axis]) layout[axis] = { gridcolor: line, zerolinecolor: line, automargin: true, ...layout[axis] };
  }
  return { data: copy.data, layout };
}

function draw(place) {
  const figure = themed(JSON.parse(document.getElementById(place.dataset.figure).textContent));
  Plotly.react(place, figure.data, figure.layout, { displaylogo: false, responsive: true, displayModeBar: window.innerWidth < 640 ? false : "hover" });
  place.dataset.drawn = "";
}

// The text is readable before plotly is read; a chart is drawn when a reader comes near it, or prints.
function start(source) {
  if (window.Plotly) return;
  const script = document.createElement("script");
  script.textContent = source;
  document.head.append(script);
  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) {
      if (isIntersecting) { near.unobserve(target); draw(target); }
    }
  }, { rootMargin: "50%" });
  charts.forEach((place) => near.observe(place));
  dark.addEventListener("change", () => charts.filter((place) => "drawn" in place.dataset).forEach(draw));
}

// On paper every chart is there, as wide as the paper; afterwards it has the width of the screen again.
const PAPER = { width: 680, height: 340 };
function beforePrint(source) {
  start(source);
  charts.filter((place) => !("drawn" in place.dataset)).forEach(draw);
  charts.forEach((place) => Plotly.relayout(place, { ...PAPER, autosize: false }));
}
function afterPrint() {
  charts.forEach((place) => Plotly.relayout(place, { width: null, height: null, autosize: true }));
}


const plotly = document.getElementById("plotly");
if (plotly) {
  document.documentElement.classList.add("scripts");
  requestAnimationFrame(() => setTimeout(start, 0, plotly.textContent));
  window.addEventListener("beforeprint", () => beforePrint(plotly.textContent));
  window.addEventListener("afterprint", afterPrint);
}
const closed = () => document.querySelectorAll("details:not([open])");
window.addEventListener("beforeprint", () => closed().forEach((part) => { part.open = true; part.dataset.shut = ""; }));
window.addEventListener("afterprint", () => document.querySelectorAll("details[data-shut]").forEach((part) => { part.open = false; delete part.dataset.shut; }));
