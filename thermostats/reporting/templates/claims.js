(() => {
  "use strict";
  const table = document.querySelector("table.claims");
  const form = document.querySelector("form.controls");
  if (!table || !form) return;
  const groups = [...table.tBodies].map((body) => ({ body, rows: [...body.rows].filter((row) => row.dataset.claim) }));
  const rows = groups.flatMap((group) => group.rows);
  const { verdict, words, sort } = form.elements;
  const told = form.querySelector("output");
  const headings = [...table.tHead.rows[0].cells].filter((cell) => cell.dataset.key);
  let key = "claim";
  let direction = 1;

  const value = (row) => (key === "claim" ? row.dataset.claim : row.dataset[key] === "" ? null : Number(row.dataset[key]));
  const compare = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || y === null) return (x === null) - (y === null);
    return direction * (x < y ? -1 : x > y ? 1 : 0) || rows.indexOf(a) - rows.indexOf(b);
  };
  const order = (by, towards) => {
    key = by;
    direction = towards;
    groups.forEach((group) => [...group.rows].sort(compare).forEach((row) => group.body.append(row)));
    headings.forEach((cell) => {
      if (cell.dataset.key === key) cell.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else cell.removeAttribute("aria-sort");
    });
    sort.value = key;
  };
  const filter = () => {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row) => {
      const text = row.textContent.toLowerCase();
      row.hidden = (verdict.value && row.dataset.word !== verdict.value) || !wanted.every((word) => text.includes(word));
      shown += !row.hidden;
    });
    groups.forEach((group) => { group.body.hidden = group.rows.every((row) => row.hidden); });
    told.textContent = `${shown} of ${rows.length} claim${rows.length === 1 ? "" : "s"} shown`;
  };

  headings.forEach((cell) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...cell.childNodes);
    button.addEventListener("click", () => order(cell.dataset.key, cell.dataset.key === key ? -direction : 1));
    cell.append(button);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  verdict.addEventListener("change", filter);
  words.addEventListener("input", filter);
  sort.addEventListener("change", () => order(sort.value, sort.value === "claim" || sort.value === "verdict" || sort.value === "p" ? 1 : -1));
  form.hidden = false;
  order("claim", 1);
  filter();
})();
