// A filter on the coverage pages: only the rows that contain every word that is typed stay visible, with the headings of their tables.
document.addEventListener("DOMContentLoaded", () => {
  if (!/\/coverage\/[^/]*$/.test(location.pathname)) return;
  const article = document.querySelector("article");
  const sections = [...article.querySelectorAll("h2")].map((heading) => {
    const parts = [];
    for (let next = heading.nextElementSibling; next && next.tagName !== "H2"; next = next.nextElementSibling) parts.push(next);
    return { heading, parts, rows: parts.flatMap((part) => [...part.querySelectorAll("tbody tr")]) };
  });
  if (!sections.length) return;
  article.classList.add("coverage");

  const box = document.createElement("p");
  box.innerHTML = '<input id="coverage-filter" type="search" placeholder="filter: words of an opcode, a section, a fidelity" aria-label="filter the forms"> <span id="coverage-count" role="status"></span>';
  sections[0].heading.before(box);
  const input = box.querySelector("input");
  const count = box.querySelector("span");

  function filter() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let visible = 0;
    for (const { heading, parts, rows } of sections) {
      const title = heading.textContent.toLowerCase();
      let left = 0;
      for (const row of rows) {
        const text = `${title} ${row.textContent.toLowerCase()}`;
        row.hidden = !words.every((word) => text.includes(word));
        left += row.hidden ? 0 : 1;
      }
      for (const element of [heading, ...parts]) element.hidden = left === 0;
      visible += left;
    }
    count.textContent = `${visible} forms`;
  }
  input.addEventListener("input", filter);
  filter();
});
