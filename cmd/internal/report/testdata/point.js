// Points at each step of a page's plots, and prints what is then shown: the text of each plot, and
// where its cursor is, if it is seen. The page is said on standard input, as TestScript has it: the
// script, and the plots of one route.
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
    append(cursor) { this.cursor = cursor; },
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
const show = () => shown.push(plots.map(({ readout, cursor }) =>
  readout.textContent + (cursor.hidden ? "" : " at " + cursor.style.left)));
const width = 3 * page.steps, left = 7; // three pixels a step
const currentTarget = { getBoundingClientRect: () => ({ left, width }) };
const all = kind => listeners.filter(l => l.kind === kind);
for (let step = 0; step < page.steps; step++) {
  const kind = step % 2 ? "pointermove" : "pointerdown";
  // Beside the step, or beyond the plot where that ends.
  const beside = step === 0 ? -50 : step === page.steps - 1 ? 50 : step % 3 - 1;
  all(kind)[0].listener({ currentTarget, clientX: left + 3 * step + beside });
  show();
}
all("pointerleave")[0].listener({});
show();
console.log(JSON.stringify(shown));
