"use strict";
(async function () {
  const spec = JSON.parse(document.getElementById("spec").textContent);
  const place = document.getElementById("atlas");
  document.getElementById("controls").hidden = false;
  const { view } = await vegaEmbed(place, spec, { mode: "vega", renderer: "svg", actions: false, ast: true });
  const boxes = spec.signals.map((signal) => signal.name).filter((name) => /^lab_\d+$/.test(name));
  const origins = spec.signals.map((signal) => signal.name).filter((name) => /^origin_\d+$/.test(name));
  const named = (name) => spec.signals.find((signal) => signal.name === name).bind.name;
  const labs = boxes.map(named);

  function fit() {
    const room = place.clientWidth;
    const columns = room >= 800 ? 2 : 1;
    view.signal("columns", columns).signal("childWidth", Math.max(150, Math.floor(room / columns) - 180)).resize().runAsync();
  }
  function say() {
    const shown = labs.filter((_, i) => view.signal(boxes[i]));
    const chosen = view.signal("chosen_model");
    const some = view.signal("search") ? "Only what is searched for is shown." : "Only models of different labs are shown.";
    const which = view.signal("search") || view.signal("few") ? some : shown.length === labs.length ? "All labs are shown." : "Labs shown: " + (shown.join(", ") || "none") + ".";
    const hidden = origins.filter((name) => !view.signal(name)).map(named);
    const without = hidden.length ? " Sources not shown: " + hidden.join(", ") + "." : "";
    document.getElementById("status").textContent = which + without + (chosen ? " Chosen model: " + chosen + "." : "");
  }
  function set(value) {
    view.signal("few", false);
    boxes.forEach((name) => view.signal(name, value));
    view.runAsync();
  }
  const kept = [...boxes, ...origins, "few", "whole", "search"];
  const first = Object.fromEntries(kept.map((name) => [name, view.signal(name)]));
  function keep() {
    const changed = kept.filter((name) => view.signal(name) !== first[name]);
    const query = new URLSearchParams(changed.map((name) => [name, String(view.signal(name))])).toString();
    if (location.protocol !== "about:") history.replaceState(null, "", query ? "#" + query : location.pathname + location.search);
  }
  function recall() {
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      if (kept.includes(name)) view.signal(name, typeof first[name] === "boolean" ? value === "true" : value);
    }
    return view.runAsync();
  }
  await recall();
  boxes.forEach((name) => view.addSignalListener(name, () => view.signal("few") && view.signal("few", false).runAsync()));
  [...kept, "chosen_model"].forEach((name) => view.addSignalListener(name, () => { say(); keep(); }));
  document.getElementById("all").addEventListener("click", () => set(true));
  document.getElementById("none").addEventListener("click", () => set(false));
  let waiting;
  window.addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(fit, 100); });
  fit();
  say();
  place.dataset.ready = "yes";
})();
