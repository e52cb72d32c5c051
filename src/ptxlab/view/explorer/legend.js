// What the colours say: for each scheme the colour of an element, and which colours stand for what.
const eight = (label) => Array.from({ length: 8 }, (_, h) => [[h], label(h)]);
const pairs = (label) => Array.from({ length: 4 }, (_, q) => [[2 * q, 2 * q + 1], label(q)]);
const range = (first, last) => (first === last ? `${first}` : `${first}-${last}`);

const COLOURS = {
  row: (down) => ({ of: (i) => i % 8, caption: `${down} mod 8`, items: eight(String) }),
  column: (across) => ({ of: (i, j) => j % 8, caption: `${across} mod 8`, items: eight(String) }),
  groups: (down, size, count) => ({ of: (i) => F.div(i, size) % 8, caption: count > 8 * size ? `${down} mod ${8 * size}` : down, items: eight((h) => range(size * h, size * h + size - 1)).slice(0, Math.ceil(count / size)) }),
  lanes: (lane) => ({ of: (i, j) => F.div(lane(i, j), 32) * 2 + (F.div(i, 8) % 2), caption: "lane; groups of 8 rows of m alternate", items: pairs((q) => range(32 * q, 32 * q + 31)) }),
  warps: () => ({ of: (i) => F.div(i, 16) * 2 + (F.div(i, 8) % 2), caption: "warp; groups of 8 rows of m alternate", items: pairs(String) }),
  every: (down, count) => ({ of: (i) => 2 * i, caption: down, items: Array.from({ length: count }, (_, i) => [[2 * i], String(i)]) }),
};

const operandColours = (m, o) => (o.major === "k" ? COLOURS.row(m.down) : COLOURS.column(m.across));

function drawLegend() {
  const line = (title, { caption, items }) => make("p", {}, make("b", {}, title), ` colour = ${caption}: `,
    ...items.map(([hues, label]) => make("span", { className: "key" }, ...hues.map((h) => make("i", { className: `dot f${h}` })), label)));
  const lines = Object.values(model.shared).map((o) => line(`${o.which} in shared memory`, operandColours(model.matrices[o.which], o)));
  for (const r of model.grid.regions) lines.push(line(`${model.matrices[r.matrix].title} in ${state.op === "wgmma" ? "registers" : "tensor memory"}`, r.colours));
  const key = (kind, text) => make("span", { className: "key" }, make("i", { className: `dot ${kind}` }), text);
  const common = [key("none", "no element here"), key("exact", "the chosen element"), key("related", "what it is multiplied with, or goes into")];
  if (model.grid.ranks === 2) common.push(key("faded", "kept by the other CTA"));
  if (state.step >= 0) common.push(key("faded", "read by another MMA along K"));
  $("legend").replaceChildren(...lines, make("p", {}, ...common));
}
