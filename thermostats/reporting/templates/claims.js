(() => {
  "use strict";
  const tables = [...document.querySelectorAll("table.claims")];
  if (!tables.length) return;
  const order = ["supported", "not supported", "inconclusive", "needs measurement", "analysis failed", "not built"];
  const heads = [...tables[0].tHead.rows[0].cells].map((cell) => cell.textContent);
  const rows = tables.flatMap((table) => [...table.tBodies[0].rows]);
  const columns = heads.filter((head) => head.startsWith("on "));
  const numbered = { models: -1 };
  const inColumn = (row, head) => row.cells[heads.indexOf(head)].textContent.replace(/^\S+ | \(.*$|,.*$| · .*$/g, "").trim();
  const verdict = (row) => columns.map((head) => inColumn(row, head)).find(Boolean) || "";
  const models = (row) => {
    const found = columns.map((head) => row.cells[heads.indexOf(head)].textContent.match(/ · (\d+) model/)).filter(Boolean);
    return found.length ? Math.max(...found.map((match) => Number(match[1]))) : null;
  };
  const listed = "as listed";
  const value = (row, head) => (head === listed ? rows.indexOf(row) : head === "claim" ? row.id : columns.includes(head) ? order.indexOf(inColumn(row, head)) : models(row));
  const sortable = [listed, "claim", ...columns, "models"];

  const form = document.createElement("form");
  form.className = "controls";
  form.setAttribute("aria-label", "Sort and filter the table of claims");
  const control = (label, element, options = []) => {
    const wrap = document.createElement("div");
    const said = document.createElement("label");
    wrap.className = "control";
    said.textContent = label;
    said.htmlFor = element.id = `claims-${label.toLowerCase().replace(" ", "-")}`;
    options.forEach(([text, val]) => element.append(new Option(text, val)));
    wrap.append(said, element);
    form.append(wrap);
    return element;
  };
  const words = [...new Set(rows.map(verdict))].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  const chosen = control("Verdict", document.createElement("select"), [["all", ""], ...words.map((word) => [word, word])]);
  const search = control("Words", document.createElement("input"));
  search.type = "search";
  const sort = control("Sort by", document.createElement("select"), sortable.map((head) => [head, head]));
  const shownOf = document.createElement("output");
  shownOf.setAttribute("aria-live", "polite");
  form.append(shownOf);
  tables[0].closest(".scroll").before(form);

  // a claim of two questions has a row for each, of which the second's name begins with the claim's
  const countClaims = (some) => new Set(some.map((row) => row.id.split(".")[0])).size;
  let key = listed;
  let direction = 1;
  const arrange = (by, towards) => {
    [key, direction] = [by, towards];
    const compare = (a, b) => {
      const [x, y] = [value(a, key), value(b, key)];
      if (x === null || y === null) return (x === null) - (y === null);
      return direction * (x < y ? -1 : x > y ? 1 : 0) || rows.indexOf(a) - rows.indexOf(b);
    };
    tables.forEach((table) => {
      [...table.tBodies[0].rows].sort(compare).forEach((row) => table.tBodies[0].append(row));
      [...table.tHead.rows[0].cells].forEach((cell, i) => {
        if (heads[i] === key) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
        else cell.removeAttribute("aria-sort");
      });
    });
    sort.value = key;
  };
  const filter = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = (chosen.value && verdict(row) !== chosen.value) || !wanted.every((word) => text.includes(word));
    });
    const shown = countClaims(rows.filter((row) => !row.hidden));
    const all = countClaims(rows);
    shownOf.textContent = `${shown} of ${all} claim${all === 1 ? "" : "s"} shown`;
  };

  tables.forEach((table) => {
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      if (!sortable.includes(heads[i])) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...cell.childNodes);
      button.addEventListener("click", () => arrange(heads[i], heads[i] === key ? -direction : numbered[heads[i]] || 1));
      cell.append(button);
    });
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  chosen.addEventListener("change", filter);
  search.addEventListener("input", filter);
  sort.addEventListener("change", () => arrange(sort.value, numbered[sort.value] || 1));
  arrange(listed, 1);
  filter();
})();
