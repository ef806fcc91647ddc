// Draws the figures. Colours are CSS variables in the data, so they follow light, dark and print.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const settings = { displayModeBar: false, responsive: true };

  const coloured = (value, css) => {
    if (typeof value === "string") {
      const name = /^var\((--[a-z-]+)\)$/.exec(value);
      return name ? css.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((item) => coloured(item, css));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item, css)]));
    }
    return value;
  };

  const draw = () => {
    const css = getComputedStyle(document.documentElement);
    for (const [id, figure] of Object.entries(figures)) {
      const { data, layout } = coloured(figure, css);
      Plotly.react(document.getElementById(`plot-${id}`), data, layout, settings);
    }
  };

  const inTheme = (theme) => () => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    draw();
  };

  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", inTheme("light"));
  addEventListener("afterprint", inTheme(null));
})();
