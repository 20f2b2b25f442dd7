// Points at each step of a page's plots, and prints what is then shown. The page is said on standard
// input, as TestScript has it: the script, and the plots of one route.
"use strict";
const page = JSON.parse(require("fs").readFileSync(0));
const listeners = [];
const element = () => ({ style: {}, hidden: false, textContent: "" });
const plots = page.plots.map(plot => {
  const readout = element();
  const lines = plot.lines.map(line => ({ dataset: line, getAttribute: name => line[name] }));
  const svg = {
    dataset: { top: plot.top, unit: plot.unit },
    viewBox: { baseVal: { width: plot.width } },
    querySelectorAll: () => lines,
  };
  return {
    readout,
    append: () => {},
    addEventListener: (kind, listener) => listeners.push({ kind, listener }),
    querySelector: selector => (selector === "svg" ? svg : readout),
  };
});
global.document = {
  createElement: element,
  querySelectorAll: () => [{ querySelectorAll: () => plots }],
};
(0, eval)(page.script);

const shown = [];
const width = 3 * page.steps, left = 7; // three pixels a step
const currentTarget = { getBoundingClientRect: () => ({ left, width }) };
const all = kind => listeners.filter(l => l.kind === kind);
for (let step = 0; step < page.steps; step++) {
  const kind = step % 2 ? "pointermove" : "pointerdown";
  all(kind)[0].listener({ currentTarget, clientX: left + 3 * step });
  shown.push(plots.map(plot => plot.readout.textContent));
}
all("pointerleave")[0].listener({});
shown.push(plots.map(plot => plot.readout.textContent));
console.log(JSON.stringify(shown));
