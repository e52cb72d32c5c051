// Controls, drawing, hovering, descriptor bits, and the URL fragment.
const $ = (id) => document.getElementById(id);
const make = (tag, attributes = {}, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) name in node && name !== "list" ? (node[name] = value) : node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const hex = (v, digits = 4) => "0x" + v.toString(16).padStart(digits, "0");

let state = { ...DEFAULTS }, model = null, chosen = null, views = {};

// ---- the URL fragment ------------------------------------------------------------------------------------------------------------
function readFragment() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  state = settle({ ...DEFAULTS, ...Object.fromEntries(Object.entries(given).filter(([name]) => name in DEFAULTS)) });
  const pinned = state.pin.split(",");
  if (!("rank" in given) && pinned[0] in (model = build(state)).matrices) state.rank = model.matrices[pinned[0]].cta(+pinned[1]);
  if (!("mem" in given) && "AB".includes(state.view)) state.mem = state.view;
}
function writeFragment() {
  const given = new URLSearchParams();
  const relevant = choices(state);
  for (const [name, value] of Object.entries(state)) if (name === "op" || (value !== DEFAULTS[name] && (name in relevant || ["da", "db", "view", "mem", "pin"].includes(name)))) given.set(name, value);
  history.replaceState(null, "", "#" + given.toString());
}

// ---- controls --------------------------------------------------------------------------------------------------------------------
const OPS = { mma: "tcgen05.mma", wgmma: "wgmma.mma_async", ld: "tcgen05.ld / st", cp: "tcgen05.cp" };
const MAJOR = { k: "K", mn: "MN" };
const MODE = (s) => ({ none: "none", "128B_32B": "128B, 32B atoms" })[s] || s;
const CONTROLS = {
  op: ["Instruction", (v) => OPS[v]], kind: ["kind", String], group: ["cta_group", String], ws: [".ws", (v) => (v ? "yes" : "no")], sparse: [".sp", (v) => (v ? "yes" : "no")],
  m: ["M", String], n: ["N", String], k: ["K of the tile", String], a: ["A type", String], b: ["B type", String], d: ["D type", String],
  asrc: ["A in", (v) => ({ smem: "shared memory", tmem: "tensor memory", registers: "registers" })[v]], ta: ["A major", (v) => MAJOR[v]], tb: ["B major", (v) => MAJOR[v]],
  sa: ["A swizzle", MODE], sb: ["B swizzle", MODE], scale: ["Scale vector", String], sfa: ["SFA_ID", String], sfb: ["SFB_ID", String], sel: ["Selector", String],
  lane: ["Base lane", String], shape: ["Shape", (v) => "." + v], num: ["Repeat", (v) => ".x" + v], pack: [".pack::16b", (v) => (v ? "yes" : "no")], split: ["Half split", String], warp: ["Warp", String],
  cp: ["Shape", (v) => "." + v], step: ["Part along K", (v) => (v < 0 ? "whole tile" : `MMA ${v}`)],
};
function controls() {
  const offered = choices(state), bar = $("controls");
  const focus = document.activeElement && document.activeElement.id;
  bar.replaceChildren();
  for (const [name, [label, show]] of Object.entries(CONTROLS)) {
    const values = offered[name];
    if (!values || !values.length || (values.length === 1 && ["ws", "sparse", "group", "lane", "sel", "step"].includes(name))) continue;
    if ((["sfa", "sfb", "scale"].includes(name) && !scaleCount(state)) || (name === "split" && state.shape !== "16x32bx2")) continue;
    if (state.op === "mma" && scaleCount(state) && name === "d") continue;
    if (name === "sa" && state.asrc !== "smem" && state.op !== "cp") continue;
    const select = make("select", { id: "c-" + name }, ...values.map((v) => make("option", { value: v, selected: String(v) === String(state[name]) }, show(v))));
    select.onchange = () => change({ [name]: select.value });
    bar.append(make("label", {}, make("span", {}, label), select));
  }
  if (focus && $(focus)) $(focus).focus();
}
function change(values) {
  const layout = ["op", "kind", "group", "sparse", "m", "n", "k", "a", "b", "asrc", "ta", "tb", "sa", "sb", "cp"];
  if (layout.some((name) => name in values) && !("da" in values || "db" in values)) state.da = state.db = "";
  Object.assign(state, values);
  settle(state);
  update();
}

// ---- drawing ---------------------------------------------------------------------------------------------------------------------
const within = (value, low, high) => Math.max(low, Math.min(high, value));
const roomOf = (id) => Math.max(180, $(id).clientWidth - 16);

function hueOf(matrix, i, j) {
  const o = model.shared[matrix], m = model.matrices[matrix], r = model.grid.regions.find((x) => x.matrix === matrix);
  return o ? operandColours(m, o).of(m.local(i), j) : r.colours.of(i, j);
}

function drawMatrix() {
  const name = state.view, m = model.matrices[name], room = roomOf("matrix") - 36;
  const w = within(room / m.cols, 1, 40), h = within(550 / m.rows, 2.1, 16);
  const view = new View($("matrix-canvas"), { rows: m.rows, cols: m.cols, w, h, left: 34, top: 20 }, (r, c) => ({ matrix: name, i: r, j: Math.floor(c) }));
  for (let i = 0; i < m.rows; i++)
    for (let j = 0; j < m.cols; j++) {
      view.fill(i, j, theme.hues[hueOf(name, i, j)], 1, (m.cta(i) === state.rank || m.both ? 1 : 0.3) * (inStep(state, model, name, j) ? 1 : 0.25));
    }
  view.axes(String, String);
  views.matrix = view;
  const cta = model.grid.ranks === 2 && !m.both ? `, faded rows belong to CTA ${1 - state.rank}` : "";
  $("matrix-title").textContent = `${m.title}, ${m.rows} × ${m.cols}`;
  $("matrix-note").textContent = `${m.type}; ${m.down} down, ${m.across} across${cta}`;
}

function drawShared() {
  const o = model.shared[state.mem] || Object.values(model.shared)[0];
  $("shared").hidden = !o;
  views.shared = null;
  if (!o) return;
  state.mem = o.which;
  const m = model.matrices[o.which], colours = operandColours(m, o), room = roomOf("shared") - 50, w = within(room / 8, 34, 64), h = 15;
  const inverse = (row, c) => {
    const byte = o.lines[row] * 128 + Math.floor(c * 16), bit = Math.floor(c * 128) % 8;
    for (let key = byte * 8 + bit; key > byte * 8 + bit - Math.max(8, o.bits); key--) if (o.back.has(key)) return o.back.get(key);
    return null;
  };
  const cellAt = (row, c) => { const hit = inverse(row, c); return hit && { matrix: o.which, i: global(m, hit[0]), j: hit[1], from: "shared" }; };
  const view = new View($("shared-canvas"), { rows: o.lines.length, cols: 8, w, h, left: 48, top: 20 }, cellAt);
  o.lines.forEach((line, row) => {
    for (let c = 0; c < 8; c++) {
      const hit = o.back.get(line * 1024 + c * 128);
      if (!hit) { view.fill(row, c, theme.empty); continue; }
      const [i, j] = hit;
      let end = line * 1024 + c * 128 + 127;
      while (!o.back.has(end)) end--;
      const last = o.back.get(end);
      const part = inStep(state, model, o.which, j);
      view.fill(row, c, theme.hues[colours.of(i, j)], 1, part ? 1 : 0.25);
      if (!part) continue;
      view.label(row, c, o.major === "k" ? `${global(m, i)}:${range(j, Math.max(j, last[1]))}` : `${range(global(m, i), global(m, Math.max(i, last[0])))}:${j}`);
    }
  });
  view.write();
  view.axes((r) => hex(o.lines[r] * 128), (c) => "b" + 4 * c, 1);
  views.shared = view;
  $("shared-title").textContent = `Shared memory, ${o.which}`;
  const from = state.step < 0 ? "" : `; this MMA's descriptor starts at ${hex(o.at(0, state.step * model.k).linear)}`;
  $("shared-note").textContent = `lines of 128 bytes; ${m.down}:${m.across} in chunks of 16 bytes; b = first bank${from}${o.overlaps ? `. ${o.overlaps} elements overlap others!` : ""}`;
  $("shared-note").className = o.overlaps ? "note bad" : "note";
}

// The row of the whole matrix for a row of the CTA's own tile.
const global = (m, local) => { for (let i = local; i < m.rows; i += 1) if (m.local(i) === local && m.cta(i) === state.rank) return i; return local; };

function drawGrid() {
  const g = model.grid, h = g.rows === 32 ? 15 : 4.2, wide = 46;
  const regionOf = (c) => g.regions.find((x) => c >= x.first && c < x.first + x.columns) || g.regions[0];
  // A region of few columns gets room for its title; the others share what is left.
  const narrow = (r) => g.regions.length > 1 && r.matrix !== "D";
  const taken = g.regions.filter(narrow).length * wide, rest = g.regions.filter((r) => !narrow(r)).reduce((sum, r) => sum + r.columns, 0);
  const w = within((roomOf("grid") - 36 - taken) / rest, 1, 44), widths = (c) => (narrow(regionOf(c)) ? wide / regionOf(c).columns : w);
  const cellAt = (row, c) => {
    const column = Math.floor(c), r = g.regions.find((x) => column >= x.first && column < x.first + x.columns);
    if (!r) return null;
    for (let bit = F.div(Math.min(31, Math.floor((c - column) * 32)), r.bits) * r.bits; bit >= 0; bit -= r.bits) {
      const hit = g.back.get((row * 1024 + column) * 32 + bit);
      if (hit) return { matrix: hit[0].matrix, i: hit[1], j: hit[2], from: "grid" };
    }
    return null;
  };
  const view = new View($("grid-canvas"), { rows: g.rows, cols: g.cols, w, h, left: 34, top: 34, widths }, cellAt);
  for (let row = 0; row < g.rows; row++) for (let c = 0; c < g.cols; c++) view.fill(row, c, theme.empty);
  for (const [key, [r, i, j]] of g.back) {
    const bit = key % 32, column = F.div(key, 32) % 1024, row = F.div(key, 32 * 1024);
    view.fill(row, column + bit / 32, theme.hues[r.colours.of(i, j)], r.bits / 32);
    if (h > 10) view.label(row, column, state.op === "ld" ? `t${i} r${j}` : `${i}:${j}`);
  }
  view.write();
  view.axes((r) => String((g.rowBase || 0) + r), (c) => (narrow(regionOf(c)) ? "" : String(c - regionOf(c).first)));
  view.pen.textAlign = "left";
  view.pen.fillStyle = theme.ink;
  view.pen.font = "600 11px system-ui, sans-serif";
  let free = 0;
  for (const r of g.regions) {
    const x = Math.max(view.x(r.first), free);
    view.pen.fillText(r.title, x, 14);
    free = x + view.pen.measureText(r.title).width + 8;
    view.pen.strokeStyle = theme.faint;
    view.pen.strokeRect(view.x(r.first) - 0.5, view.top - 0.5, view.x(r.first + r.columns) - view.x(r.first) + 1, g.rows * h + 1);
  }
  if (g.rows === 128)
    for (let q = 1; q < 4; q++) { view.pen.fillStyle = theme.line; view.pen.fillRect(view.left - 30, view.top + 32 * q * h - 0.5, view.xs[g.cols] - view.left + 30, 1); }
  views.grid = view;
  $("grid-title").textContent = g.title + (g.ranks === 2 ? `, CTA ${state.rank}` : "");
  $("grid-note").textContent = `${g.note}; ${g.down} down, ${g.across} across`;
}

// ---- hovering --------------------------------------------------------------------------------------------------------------------
function marksOf(c) {
  const out = { matrix: [], shared: [], grid: [] }, at = place(state, model, c.matrix, c.i, c.j), m = model.matrices[c.matrix], g = model.grid;
  const mine = (cta) => g.ranks === 1 || cta === state.rank;
  if (state.view === c.matrix) out.matrix.push({ kind: "exact", row: c.i, column: c.j, width: 1, height: 1 });
  else if (state.view === "D" && "AB".includes(c.matrix)) out.matrix.push(c.matrix === "A" ? { kind: "related", row: c.i, column: 0, width: model.matrices.D.cols, height: 1 } : { kind: "related", row: 0, column: c.i, width: 1, height: model.matrices.D.rows });
  else if (c.matrix === "D" && "AB".includes(state.view)) out.matrix.push({ kind: "related", row: state.view === "A" ? c.i : c.j, column: 0, width: model.matrices[state.view].cols, height: 1 });
  const o = views.shared && model.shared[state.mem];
  const chunk = (o, byte, bits, kind) => ({ kind, row: o.lines.indexOf(F.div(byte, 128)), column: (byte % 128) / 16, width: Math.max(bits, 8) / 128, height: 1 });
  if (o && o.which === c.matrix && mine(at.cta)) out.shared.push(chunk(o, at.byte, o.bits, "exact"));
  if (o && c.matrix === "D" && "AB".includes(o.which)) {
    const other = model.matrices[o.which], row = o.which === "A" ? c.i : c.j;
    if (mine(other.cta(row))) for (let k = 0; k < o.k; k++) out.shared.push(chunk(o, o.at(other.local(row), k).byte, o.bits, "related"));
  }
  for (const cell of at.cells) if (mine(cell.cta)) out.grid.push({ kind: "exact", row: cell.row, column: cell.column + cell.bit / 32, width: cell.bits / 32, height: 1 });
  const d = g.regions.find((r) => r.matrix === "D");
  if (d && (c.matrix === "A" || c.matrix === "B")) {
    const D = model.matrices.D;
    for (let x = 0; x < (c.matrix === "A" ? D.cols : D.rows); x++)
      for (const cell of c.matrix === "A" ? d.cells(c.i, x) : d.cells(x, c.i)) if (mine(cell.cta)) out.grid.push({ kind: "related", row: cell.row, column: cell.column + d.first, width: 1, height: 1 });
  }
  return { at, out, m };
}

function facts(at) {
  const g = model.grid, rows = [["element", at.name], ["type", at.type]];
  if (g.ranks === 2) rows.push(["kept by", `CTA ${at.cta}`]);
  if (at.byte !== undefined) {
    rows.push(["shared address", hex(at.byte) + (at.bit ? ` bit ${at.bit}` : "")], ["bank", String(at.bank)]);
    rows.push(["before the swizzle", hex(at.linear) + (at.linear === at.byte ? " (unchanged)" : `, chunk ${F.div(at.linear, 16) % 8} → ${F.div(at.byte, 16) % 8}`)]);
  }
  const registers = state.op === "wgmma", base = g.rowBase || 0;
  // Copies that differ in nothing but the lane are one row.
  const groups = new Map();
  for (const c of at.cells) groups.set(`${c.column},${c.bit}`, [...(groups.get(`${c.column},${c.bit}`) || []), c]);
  [...groups.values()].forEach((copies, n) => {
    const c = copies[0], lanes = copies.map((x) => base + x.row).join(", ");
    const where = registers ? `thread ${c.row} (warp ${F.div(c.row, 32)}, lane ${c.row % 32}), ${c.bits < 32 ? `register ${c.relative}, bits ${c.bit}-${c.bit + c.bits - 1}` : `value ${c.relative}`}`
      : `lane${copies.length > 1 ? "s" : ""} ${lanes}, column ${c.relative}${c.bits < 32 ? `, bits ${c.bit}-${c.bit + c.bits - 1}` : ""}`;
    rows.push([n ? "copy" : registers ? "registers" : "tensor memory", where]);
    if (!registers && n === 0) rows.push(["taddr offset", hex(((base + c.row) << 16) | c.column, 8)]);
  });
  return rows;
}

function choose(c, pin) {
  const { at, out } = marksOf(c);
  chosen = at;
  for (const [name, view] of Object.entries(views)) if (view) {
    view.show(out[name]);
    const exact = out[name].find((x) => x.kind === "exact") || out[name][0];
    if (exact && c.from !== name && (pin || name !== state.from)) view.reveal(exact);
  }
  $("facts").replaceChildren(...facts(at).flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  if (!pin) return;
  state.pin = [c.matrix, c.i, c.j].join();
  if (model.grid.ranks === 2 && !model.matrices[c.matrix].both && at.cta !== state.rank) change({ rank: at.cta });
  else writeFragment();
}

function restore() {
  const [matrix, i, j] = state.pin.split(",");
  const m = model.matrices[matrix];
  if (m && +i < m.rows && +j < m.cols) return choose({ matrix, i: +i, j: +j }, false);
  chosen = null;
  for (const view of Object.values(views)) if (view) view.show([]);
  $("facts").replaceChildren(make("dt", {}, "hint"), make("dd", {}, "Point at an element in any panel to see it in all of them. Click or tap to keep it; the arrow keys move it, Escape lets go of it."));
}

// ---- descriptors -----------------------------------------------------------------------------------------------------------------
function instructionValue() {
  const s = state, format = "idesc:" + s.kind;
  return F.encode(format, { sparse: Boolean(s.sparse), selector: s.sel, a: s.a, b: s.b, d: s.d, transpose_a: s.ta === "mn", transpose_b: s.tb === "mn", n: s.n, m: s.m,
    max_shift: 0, scale_a_id: s.sfa, scale_b_id: s.sfb, saturate: false, negate_a: false, negate_b: false, ...scaleType(s), k96: isK96(s) });
}
const scaleType = (s) => { const names = Object.keys(TABLES.kinds[s.kind].scale); return names.length ? { scale: names.includes("ue4m3") && s.scale !== "scale_vec::2X" && s.scale !== "block32" ? "ue4m3" : "ue8m0" } : {}; };

function card(title, format, value, onvalue, fieldsEditable, extra) {
  const f = TABLES.formats[format], values = F.decode(format, value), node = make("article", { className: "card" });
  const digits = f.bits / 4, input = make("input", { className: "word", value: hex(value, digits), spellcheck: false, title: "Paste a value to decode it" });
  input.onchange = () => { try { onvalue(BigInt(input.value.trim().replace(/_|u?ll$/gi, "")) & ((1n << BigInt(f.bits)) - 1n)); } catch { input.classList.add("bad"); } };
  node.append(make("header", {}, make("h3", {}, title), input, ...(extra || [])));
  const bits = make("div", { className: "bits" });
  for (let bit = f.bits - 1; bit >= 0; bit--) {
    const index = f.fields.findIndex((x) => bit >= x.low && bit < x.low + x.width), on = Number((value >> BigInt(bit)) & 1n);
    const cell = make("button", { className: `bit ${on ? "on" : ""} ${index < 0 ? "reserved" : "f" + (index % 8)}`, title: `bit ${bit}: ${index < 0 ? "reserved" : f.fields[index].meaning || f.fields[index].name}` }, String(on));
    cell.onclick = () => onvalue(value ^ (1n << BigInt(bit)));
    bits.append(make("span", {}, cell, make("i", {}, bit % 8 === 0 || bit === f.bits - 1 ? String(bit) : "")));
  }
  const table = make("table", {}, make("thead", {}, make("tr", {}, ...["bits", "field", "value", "stored"].map((t) => make("th", {}, t)))));
  const body = make("tbody");
  f.fields.forEach((field, index) => {
    const code = (value >> BigInt(field.low)) & ((1n << BigInt(field.width)) - 1n), now = values[field.name];
    let entry;
    if (field.values) {
      const names = field.values.map((p) => p[0]);
      entry = make("select", { id: `${title}-${field.name}` }, ...(names.includes(now) ? names : [now, ...names]).map((v) => make("option", { value: String(v), selected: v === now }, String(v))));
    } else entry = make("input", { id: `${title}-${field.name}`, value: field.shift === 4 && f.bits === 64 ? hex(now) : String(now), spellcheck: false });
    entry.disabled = !fieldsEditable;
    entry.onchange = () => {
      const given = field.values ? field.values.map((p) => p[0]).find((v) => String(v) === entry.value) ?? now : Number(entry.value);
      if (Number.isNaN(given) || given < 0 || (!field.values && given % 2 ** field.shift) || (!field.values && given / 2 ** field.shift >= 2 ** field.width)) return entry.classList.add("bad");
      onvalue(F.encode(format, { ...values, [field.name]: given }));
    };
    body.append(make("tr", { title: field.meaning }, make("td", { className: "mono" }, field.width === 1 ? String(field.low) : `${field.low}-${field.low + field.width - 1}`),
      make("td", {}, make("span", { className: "dot f" + (index % 8) }), field.meaning || field.name), make("td", {}, entry), make("td", { className: "mono" }, hex(code, 1))));
  });
  table.append(body);
  node.append(bits, table);
  if (values.reserved) node.append(make("p", { className: "note bad" }, `Reserved bits differ from what they must be: ${hex(values.reserved, 1)}`));
  return node;
}

function adopt(values) {
  const s = state, next = {};
  for (const name of ["m", "n", "a", "b", "d"]) if (values[name] !== undefined) next[name] = values[name];
  if (values.sparse !== undefined) next.sparse = +values.sparse;
  if (values.k96 !== undefined && values.k96 !== isK96(s)) next.k = values.k96 ? 96 : TABLES.kinds[s.kind].k;
  for (const [field, name] of [["transpose_a", "ta"], ["transpose_b", "tb"]]) if (values[field] !== undefined) next[name] = values[field] ? "mn" : "k";
  if (s.sparse && values.selector !== undefined) next.sel = values.selector;
  if (values.scale_a_id !== undefined) Object.assign(next, { sfa: values.scale_a_id, sfb: values.scale_b_id });
  change(next);
}

function cards() {
  const holder = $("cards"), list = [];
  for (const o of Object.values(model.shared)) {
    const key = o.which === "A" ? "da" : "db", auto = make("button", { className: "small", disabled: !o.edited, title: "A tile without gaps" }, "automatic");
    auto.onclick = () => change({ [key]: "" });
    const node = card(`Descriptor of ${state.op === "cp" ? "the source" : o.which}`, descriptorFormat(state), o.value, (v) => {
      const mode = F.decode(descriptorFormat(state), v).swizzle;
      change({ [key]: hex(v, 16), ...(mode in TABLES.swizzles ? { [o.which === "A" ? "sa" : "sb"]: mode } : {}) });
    }, true, [auto]);
    if (!o.known) node.append(make("p", { className: "note bad" }, `The swizzling mode ${o.d.swizzle} does not exist; the picture shows no swizzle.`));
    const layout = TABLES.canonical[o.major + "," + o.d.swizzle];
    if (layout) node.append(make("p", { className: "note mono" }, layout));
    const remark = o.known && F.strideRemark(o.d, o.major, o.padded ? 8 : o.bits);
    if (remark && (o.overlaps || !remark.overlap)) node.append(make("p", { className: "note remark" }, remark.text));
    list.push(node);
  }
  if (state.op === "mma" && TABLES.formats["idesc:" + state.kind])
    list.push(card("Instruction descriptor", "idesc:" + state.kind, instructionValue(), (v) => adopt(F.decode("idesc:" + state.kind, v)), true));
  holder.replaceChildren(...list);
}

// ---- all together ----------------------------------------------------------------------------------------------------------------
function tabs(id, names, current, onpick) {
  $(id).replaceChildren(...names.map((name) => { const b = make("button", { className: name === current ? "tab now" : "tab" }, name); b.onclick = () => onpick(name); return b; }));
}
function update() {
  readTheme();
  model = build(state);
  if (!(state.view in model.matrices)) state.view = Object.keys(model.matrices)[0];
  controls();
  tabs("matrix-tabs", Object.keys(model.matrices), state.view, (v) => change({ view: v, ...(v in model.shared ? { mem: v } : {}) }));
  drawShared();
  drawMatrix();
  drawGrid();
  drawLegend();
  tabs("shared-tabs", Object.keys(model.shared).length > 1 ? Object.keys(model.shared) : [], state.mem, (v) => change({ mem: v }));
  tabs("grid-tabs", model.grid.ranks === 2 ? ["CTA 0", "CTA 1"] : [], `CTA ${state.rank}`, (v) => change({ rank: +v.slice(4) }));
  cards();
  restore();
  writeFragment();
}
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  if (model) update();
}
$("theme").onclick = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
$("share").onclick = async () => {
  let said = "Link copied";
  // A page may have no clipboard, or no right to it.
  try { await navigator.clipboard.writeText(location.href); } catch { said = "Copy it from the address bar"; }
  $("share").textContent = said;
  setTimeout(() => ($("share").textContent = "Copy link"), 1500);
};
document.addEventListener("keydown", (e) => {
  if (/INPUT|SELECT/.test(e.target.tagName)) return;
  if (e.key === "Escape" && state.pin) return change({ pin: "" });
  const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
  if (!step) return;
  // Nothing is chosen: the arrow keys of a panel that has the focus begin at its first element.
  const panel = Object.values(views).find((v) => v && v.canvas === e.target);
  if (!chosen && panel) {
    e.preventDefault();
    const name = panel === views.shared ? state.mem : state.view;
    return choose({ matrix: name, i: 0, j: 0 }, true);
  }
  if (!chosen) return;
  const m = model.matrices[chosen.matrix], i = chosen.i + step[0], j = chosen.j + step[1];
  e.preventDefault();
  if (i >= 0 && j >= 0 && i < m.rows && j < m.cols) choose({ matrix: chosen.matrix, i, j }, true);
});
window.addEventListener("hashchange", () => { readFragment(); update(); });
window.addEventListener("resize", () => model && update());
window.ptxlab = { formulas, place: (matrix, i, j) => place(state, model, matrix, i, j), get state() { return state; }, get chosen() { return chosen; }, get model() { return model; } };
document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
readFragment();
update();
