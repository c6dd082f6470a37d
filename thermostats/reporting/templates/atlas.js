(() => {
  "use strict";
  const form = document.getElementById("controls");
  const place = document.getElementById("atlas");
  const tip = document.getElementById("tip");
  const lines = [...place.querySelectorAll(".line")];
  const models = [...document.querySelectorAll("#key li")];
  const { search, model, few, whole } = form.elements;
  const fields = [...form.elements].filter((field) => field.name);
  const labs = fields.filter((field) => field.name.startsWith("lab_"));
  const origins = fields.filter((field) => field.name.startsWith("origin_"));
  const KEYED = 12; // models up to which the key names those that are shown
  const REACH = 16; // distance from a point at which it is pointed at
  const values = (boxes, ticked) => boxes.filter((box) => box.checked === ticked).map((box) => box.value);

  function draw() {
    const [of, from, words] = [new Set(values(labs, true)), new Set(values(origins, true)), search.value.trim().toLowerCase()];
    const chosen = model.value;
    const shown = new Set();
    lines.forEach((line) => {
      const it = line.dataset;
      const meant = words
        ? `${it.model} ${it.lab} ${it.family}`.toLowerCase().includes(words)
        : !few.checked || "first" in it || it.model === chosen;
      const seen = of.has(it.lab) && from.has(it.source) && meant;
      line.toggleAttribute("hidden", !seen);
      line.classList.toggle("faded", chosen !== "" && it.model !== chosen);
      if (seen) shown.add(it.model);
    });
    models.forEach((item) => { item.hidden = shown.size > KEYED || !shown.has(item.dataset.model); });
    place.querySelectorAll("[data-span]").forEach((panel) => { panel.hidden = (panel.dataset.span === "whole") !== whole.checked; });
    say(words, shown.size);
    keep();
  }

  function say(words, count) {
    const [of, without] = [values(labs, true), values(origins, false)];
    const which = words ? "Only what is searched for is shown"
      : few.checked ? "Only models of different labs are shown"
      : of.length === labs.length ? "All labs are shown" : `Labs shown: ${of.join(", ") || "none"}`;
    const parts = [`${which}: ${count} model${count === 1 ? "" : "s"}.`];
    if (without.length) parts.push(`Sources not shown: ${without.join(", ")}.`);
    if (model.value) parts.push(`Chosen model: ${model.value}.`);
    document.getElementById("status").textContent = parts.join(" ");
  }

  const state = (field) => (field.type === "checkbox" ? String(field.checked) : field.value);
  const set = (field, value) => { if (field.type === "checkbox") field.checked = value === "true"; else field.value = value; };
  const first = new Map(fields.map((field) => [field.name, state(field)]));
  function keep() {
    const changed = fields.filter((field) => state(field) !== first.get(field.name)).map((field) => [field.name, state(field)]);
    const query = new URLSearchParams(changed).toString();
    if (location.protocol !== "about:") history.replaceState(null, "", query ? `#${query}` : location.pathname + location.search);
  }
  function recall() {
    for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
      const field = fields.find((candidate) => candidate.name === name);
      if (field) set(field, value);
    }
  }

  function choose(name) {
    model.value = name;
    draw();
  }
  function tick(boxes, value) {
    few.checked = false;
    boxes.forEach((box) => { box.checked = value; });
    draw();
  }

  const ways = new Map();
  function points(line) {
    if (!ways.has(line)) ways.set(line, line.firstElementChild.getAttribute("d").slice(1).split("L").map((pair) => pair.split(",").map(Number)));
    return ways.get(line);
  }
  function nearest(plot, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(plot.getScreenCTM().inverse());
    let [found, least] = [null, REACH ** 2];
    for (const line of plot.children) {
      if (line.hasAttribute("hidden") || line.classList.contains("faded")) continue;
      points(line).forEach(([x, y], i) => {
        const far = (x - at.x) ** 2 + (Math.min(Math.max(y, 0), Number(plot.dataset.height)) - at.y) ** 2;
        if (far < least) [found, least] = [{ line, i }, far];
      });
    }
    return found;
  }

  function point(name) {
    lines.forEach((line) => line.classList.toggle("pointed", line.dataset.model === name));
  }
  function rows({ line, i }, quantity) {
    const [it, part] = [line.dataset, (text) => text.split(" ")[i]];
    const told = [["lab", it.lab], ["block", `${part(it.layers)} of ${it.of}`], [quantity, part(it.values)]];
    if (it.norms && part(it.norms) !== "–") told.push(["norm", part(it.norms)]);
    return [...told, ["what", it.what], ["source", it.source]];
  }
  function tell(found, panel, event) {
    point(found && found.line.dataset.model);
    tip.hidden = !found;
    if (!found) return;
    const [name, list] = [document.createElement("strong"), document.createElement("dl")];
    name.textContent = found.line.dataset.model;
    rows(found, panel.querySelector("figcaption").textContent).forEach((pair) => {
      pair.forEach((words, i) => { list.append(Object.assign(document.createElement(i ? "dd" : "dt"), { textContent: words })); });
    });
    tip.replaceChildren(name, list);
    const [width, height] = [document.documentElement.clientWidth, document.documentElement.clientHeight];
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${event.clientY + 18 + tip.offsetHeight < height ? event.clientY + 18 : Math.max(4, event.clientY - tip.offsetHeight - 12)}px`;
  }

  place.querySelectorAll("figure").forEach((panel) => {
    const plot = panel.querySelector(".lines");
    panel.addEventListener("pointermove", (event) => tell(nearest(plot, event), panel, event));
    panel.addEventListener("pointerleave", (event) => tell(null, panel, event));
    panel.addEventListener("click", (event) => {
      const found = nearest(plot, event);
      choose(found && found.line.dataset.model !== model.value ? found.line.dataset.model : "");
      tell(found, panel, event);
    });
  });
  models.forEach((item) => {
    item.addEventListener("pointerenter", () => point(item.dataset.model));
    item.addEventListener("pointerleave", () => point(null));
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    tip.hidden = true;
    point(null);
    if (model.value) choose("");
  });
  labs.forEach((box) => box.addEventListener("change", () => { few.checked = false; }));
  form.addEventListener("input", draw);
  form.addEventListener("change", draw);
  form.addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("all").addEventListener("click", () => tick(labs, true));
  document.getElementById("none").addEventListener("click", () => tick(labs, false));
  form.hidden = false;
  recall();
  draw();
  place.dataset.ready = "yes";
})();
