"use strict";
// Draws the figures stored in the page, in the colours of the reader's theme, and again when the theme changes.
(function () {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const settings = {
    responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: "",
    displayModeBar: window.innerWidth < 640 ? false : "hover",
    // named one by one: plotly's own choice has a button that sends the chart to a server
    modeBarButtons: [["toImage"], ["zoom2d", "pan2d"], ["zoomIn2d", "zoomOut2d", "resetScale2d"]],
  };

  function themed(value, style, key) {
    if (typeof value === "string") {
      const isColour = key !== undefined && /colou?r(scale)?$/.test(key) && value.startsWith("@");
      return isColour ? style.getPropertyValue("--" + value.slice(1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => themed(item, style, key));
    if (value && typeof value === "object") {
      const copy = {};
      for (const name of Object.keys(value)) copy[name] = themed(value[name], style, name);
      return copy;
    }
    return value;
  }

  // A legend above the plot takes its rows from the plot: give them back, by an estimate of how many it needs.
  function legendHeight(figure, width) {
    if (!figure.layout.showlegend) return 0;
    const longest = Math.max(...figure.data.map((trace) => trace.name.length));
    const columns = Math.max(1, Math.floor((width - 90) / (longest * 7.2 + 48)));
    return (Math.ceil(figure.data.length / columns) - 1) * 19;
  }

  // On a phone: smaller titles, less margin, and no colour bar, which the caption explains.
  function narrowed(figure) {
    figure.layout.font.size = 11;
    Object.assign(figure.layout.margin, { l: 44, r: 8 });
    for (const axis of ["xaxis", "yaxis"]) figure.layout[axis].title.font = { size: 11 };
    for (const trace of figure.data) {
      if (trace.type === "heatmap") trace.showscale = false;
      if (!figure.layout.showlegend) continue;
      trace.name = trace.name.replace(/(.{26,}?) /g, "$1<br>");
      figure.layout.height += 15 * (trace.name.split("<br>").length - 1);
    }
  }

  // Cells of a heat map hold levels of one byte; the words of each level are stored once.
  function worded(figure) {
    for (const trace of figure.data) {
      if (!trace.levels) continue;
      const [rows, columns] = trace.z.shape.split(",").map(Number);
      const bytes = atob(trace.z.bdata);
      trace.text = Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => trace.levels[bytes.charCodeAt(row * columns + column)]));
      delete trace.levels;
    }
  }

  function draw(place) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name).trim();
    const figure = themed(figures[place.dataset.figure], style);
    const layout = figure.layout;
    worded(figure);
    layout.height += legendHeight(figure, place.clientWidth);
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: getComputedStyle(document.body).fontFamily, size: 13, color: colour("ink") };
    layout.hoverlabel = { bgcolor: colour("surface"), bordercolor: colour("line"), font: { color: colour("ink") }, align: "left" };
    layout.modebar = { bgcolor: "rgba(0,0,0,0)", color: colour("muted"), activecolor: colour("accent") };
    for (const axis of ["xaxis", "yaxis"]) {
      layout[axis] = Object.assign({ gridcolor: colour("grid"), linecolor: colour("line"), tickcolor: colour("line") }, layout[axis]);
    }
    if (place.clientWidth < 420) narrowed(figure);
    Plotly.react(place, figure.data, layout, settings).then(
      () => { place.dataset.drawn = "yes"; },
      (error) => fail(place, error)
    );
  }

  function fail(place, error) {
    place.dataset.drawn = "failed";
    place.classList.add("broken");
    place.textContent = "This picture could not be drawn: " + error;
  }

  function drawVisible() {
    for (const place of document.querySelectorAll(".plot")) {
      if (place.closest("[hidden]")) continue;
      try { draw(place); } catch (error) { fail(place, error); }
    }
  }

  for (const group of document.querySelectorAll(".choices")) {
    group.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      for (const other of group.querySelectorAll("button")) {
        const chosen = other === button;
        other.setAttribute("aria-pressed", String(chosen));
        document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
      }
      for (const place of document.getElementById(button.getAttribute("aria-controls")).querySelectorAll(".plot")) {
        if (!place.closest("[hidden]")) draw(place);
      }
    });
  }
  dark.addEventListener("change", drawVisible);
  drawVisible();
})();
