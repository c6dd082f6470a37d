"use strict";
(async function () {
  const spec = JSON.parse(document.getElementById("spec").textContent);
  const place = document.getElementById("atlas");
  document.getElementById("controls").hidden = false;
  const { view } = await vegaEmbed(place, spec, { mode: "vega", renderer: "svg", actions: false });
  const boxes = spec.signals.map((signal) => signal.name).filter((name) => /^lab_\d+$/.test(name));
  const origins = spec.signals.map((signal) => signal.name).filter((name) => /^origin_\d+$/.test(name));
  const named = (name) => spec.signals.find((signal) => signal.name === name).bind.name;
  const labs = boxes.map(named);

  function fit() {
    const room = place.clientWidth;
    const columns = room >= 800 ? 2 : 1;
    view.signal("columns", columns).signal("childWidth", Math.max(200, Math.floor(room / columns) - 66)).resize().runAsync();
  }
  function say() {
    const shown = labs.filter((_, i) => view.signal(boxes[i]));
    const chosen = view.signal("chosen_model");
    const which = shown.length === labs.length ? "All labs are shown." : "Labs shown: " + (shown.join(", ") || "none") + ".";
    const hidden = origins.filter((name) => !view.signal(name)).map(named);
    const without = hidden.length ? " Sources not shown: " + hidden.join(", ") + "." : "";
    document.getElementById("status").textContent = which + without + (chosen ? " Chosen model: " + chosen + "." : "");
  }
  function set(value) {
    boxes.forEach((name) => view.signal(name, value));
    view.runAsync();
  }
  [...boxes, ...origins, "chosen_model"].forEach((name) => view.addSignalListener(name, say));
  document.getElementById("all").addEventListener("click", () => set(true));
  document.getElementById("none").addEventListener("click", () => set(false));
  let waiting;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(fit, 100); });
  fit();
  say();
  place.dataset.ready = "yes";
})();
