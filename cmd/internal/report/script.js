/*<![CDATA[*/
// Pointing at a plot over time shows the values there, in all plots of the route.
"use strict";
for (const card of document.querySelectorAll(".drive")) {
  const plots = [...card.querySelectorAll(".plot")].map(plot => {
    const svg = plot.querySelector("svg");
    const cursor = document.createElement("div");
    cursor.className = "cursor";
    cursor.hidden = true;
    plot.append(cursor);
    return {
      plot, svg, cursor,
      readout: plot.querySelector(".readout"),
      steps: svg.viewBox.baseVal.width,
      top: Number(svg.dataset.top), unit: Number(svg.dataset.unit),
      decimals: (svg.dataset.unit.split(".")[1] || "").length,
      lines: null,
    };
  });

  // read turns a path back into values: "Mx yl" and then differences "1 dy".
  const read = (p) => [...p.svg.querySelectorAll(".line")].map(path => {
    const values = new Map();
    for (const part of path.getAttribute("d").split("M")) {
      const n = (part.match(/-?\d+/g) || []).map(Number);
      let x = n[0], y = n[1];
      for (let i = 2; i <= n.length; i += 2) {
        values.set(x, p.top - y * p.unit);
        x += n[i];
        y += n[i + 1];
      }
    }
    return { name: path.dataset.name, values };
  });

  const show = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    for (const p of plots) {
      const step = Math.max(0, Math.min(p.steps - 1, Math.round(share * p.steps)));
      p.lines = p.lines || read(p);
      const parts = p.lines.filter(line => line.values.has(step)).map(line => line.name + " " + line.values.get(step).toFixed(p.decimals));
      p.readout.textContent = (step / 10).toFixed(1) + " s: " + parts.join(", ");
      p.cursor.style.left = 100 * step / p.steps + "%";
      p.cursor.hidden = false;
    }
  };
  const hide = () => {
    for (const p of plots) {
      p.readout.textContent = "";
      p.cursor.hidden = true;
    }
  };
  for (const p of plots) {
    p.plot.addEventListener("pointermove", show);
    p.plot.addEventListener("pointerdown", show);
    p.plot.addEventListener("pointerleave", hide);
  }
}
/*]]>*/
