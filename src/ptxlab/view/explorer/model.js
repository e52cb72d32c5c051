// From the controls to what is drawn: matrices, their tiles in shared memory, and cells of tensor memory or registers.
const F = formulas;

const DEFAULTS = {
  op: "mma", kind: "f16", group: 1, ws: 0, sparse: 0, m: 128, n: 128, k: 64, a: "f16", b: "f16", d: "f32", asrc: "smem",
  ta: "k", tb: "k", sa: "128B", sb: "128B", scale: "scale_vec::1X", sfa: 0, sfb: 0, sel: 0, da: "", db: "", lane: 0,
  shape: "32x32b", num: 8, pack: 0, split: 16, warp: 0, cp: "128x256b", view: "A", mem: "A", rank: 0, pin: "", step: -1,
};

const WGMMA_TYPES = () => [...new Set(Object.values(TABLES.wgmma_kinds).flatMap((k) => k.ab))].filter((t) => t !== "b1");
const wgmmaKind = (type) => Object.values(TABLES.wgmma_kinds).find((k) => k.ab.includes(type));
const bitsOf = (type) => TABLES.type_bits[type];

// K = 96: packed 4-bit elements only, on sm_103a.
const isK96 = (s) => s.op === "mma" && Number(s.k) === 96 && TABLES.kinds[s.kind].container === 4;

// Container bits in shared memory, padding, and K of one instruction.
function element(s, type) {
  if (s.op === "wgmma") return { bits: bitsOf(type), padded: false, k: wgmmaKind(type).k };
  const kind = TABLES.kinds[s.kind], bits = bitsOf(type);
  return { bits, padded: kind.container === 8 && bits < 8, k: isK96(s) ? 96 : kind.k };
}
const rowBytes = (e, k) => (e.padded ? k : (k * e.bits) / 8);

// What each control may be, given the others. The first value is taken when the present one is not among them.
function choices(s) {
  const steps = (from, to, by) => Array.from({ length: Math.floor((to - from) / by) + 1 }, (_, i) => from + i * by);
  const out = { op: ["mma", "wgmma", "ld", "cp"] };
  if (s.op === "mma") {
    const kind = TABLES.kinds[s.kind];
    out.kind = Object.keys(TABLES.kinds);
    out.group = [1, 2].filter((g) => TABLES.shapes[[s.kind, 0, g, 0].join()]);
    out.ws = TABLES.shapes[[s.kind, 1, 1, 0].join()] && +s.group === 1 ? [0, 1] : [0];
    out.sparse = TABLES.shapes[[s.kind, s.ws, s.group, 1].join()] ? [0, 1] : [0];
    const shapes = TABLES.shapes[[s.kind, s.ws, s.group, s.sparse].join()] || { m: [128], n: [64] };
    out.m = shapes.m;
    out.n = shapes.n;
    out.a = out.b = Object.keys(kind.ab);
    out.d = Object.keys(kind.d);
    out.asrc = ["smem", "tmem"];
    const majors = (type) => (kind.transpose && bitsOf(type) >= 8 ? ["k", "mn"] : ["k"]);
    out.ta = s.asrc === "tmem" ? ["k"] : majors(s.a);
    out.tb = majors(s.b);
    out.scale = TABLES.scale_vectors.filter((r) => r.kind === s.kind && (r.k === 96) === isK96(s)).map((r) => r.name);
    const scales = scaleCount(s);
    out.sfa = out.sfb = scales ? TABLES.scale_ids[scales] : [0];
    out.sel = s.sparse && F.halfMetadata(s.kind) ? [0, 1] : [0];
    const path = F.dataPath(+s.m, +s.group, s.ws, s.sparse);
    out.lane = path && path.half ? [0, 16] : [0];
    out.rank = +s.group === 2 ? [0, 1] : [0];
  } else if (s.op === "wgmma") {
    const kind = wgmmaKind(s.a) || wgmmaKind("f16");
    out.a = WGMMA_TYPES();
    out.b = kind.ab.includes(s.a) && kind.mixed ? kind.ab : [s.a];
    out.d = kind.d;
    out.m = [64];
    out.n = kind.n;
    out.asrc = ["smem", "registers"];
    out.ta = kind.transpose && s.asrc === "smem" ? ["k", "mn"] : ["k"];
    out.tb = kind.transpose ? ["k", "mn"] : ["k"];
  } else if (s.op === "ld") {
    out.shape = Object.keys(TABLES.loads);
    out.num = TABLES.loads[s.shape].nums;
    out.pack = [0, 1];
    out.split = steps(0, 256, 1);
    out.warp = [0, 1, 2, 3];
    out.lane = TABLES.loads[s.shape].lanes;
  } else {
    out.cp = Object.keys(TABLES.copies);
    out.sa = Object.keys(TABLES.swizzles);
  }
  if (s.op === "mma" || s.op === "wgmma") {
    const modes = (type, major) => {
      const names = Object.keys(TABLES.swizzles).filter((n) => s.op === "mma" || TABLES.swizzles[n].wgmma !== null);
      if (s.op === "wgmma") return names;
      return names.filter((n) => major === "k" || TABLES.transposed_swizzles[bitsOf(type)].includes(n));
    };
    out.sa = modes(s.a, s.ta);
    out.sb = modes(s.b, s.tb);
    const e = element({ ...s, k: 0 }, s.a), most = s.asrc !== "smem" ? 1 : 8;
    const fits = (k) =>
      [[s.a, s.ta, s.sa, s.asrc === "smem"], [s.b, s.tb, s.sb, true]].every(
        ([type, major, mode, used]) => !used || major !== "k" || mode === "none" || rowBytes(element(s, type), k) <= TABLES.swizzles[mode].width
      );
    out.k = [1, 2, 4, 8].filter((t) => t <= most && (t === 1 || fits(t * e.k))).map((t) => t * e.k);
    if (s.sparse) out.k = out.k.slice(0, 1);
    if (s.op === "mma" && TABLES.kinds[s.kind].container === 4 && !s.sparse && s.sa === "128B" && s.sb === "128B") out.k = [...out.k, 96].sort((x, y) => x - y);
    out.step = steps(-1, s.asrc === "smem" && s.k > e.k && !isK96(s) ? s.k / e.k - 1 : -1, 1);
  }
  return out;
}

function scaleCount(s) {
  const row = TABLES.scale_vectors.find((r) => r.kind === s.kind && r.name === s.scale && (r.k === 96) === isK96(s));
  return row ? row.scales : 0;
}

// Makes the state legal: a control whose value is not offered takes the nearest one that is.
function settle(s) {
  for (let round = 0; round < 4; round++)
    for (const [name, offered] of Object.entries(choices(s))) {
      if (!offered.length || offered.some((v) => String(v) === String(s[name]))) continue;
      const wanted = Number(s[name]);
      s[name] = typeof offered[0] === "number" && !Number.isNaN(wanted)
        ? offered.reduce((best, v) => (Math.abs(v - wanted) < Math.abs(best - wanted) ? v : best)) : offered[0];
    }
  for (const [name, value] of Object.entries(DEFAULTS)) if (typeof value === "number") s[name] = Number(s[name]);
  return s;
}

// Shared address of the first tile.
const FIRST = 0x400;

const descriptorFormat = (s) => (s.op === "wgmma" ? "wgmma" : "smem");

function automatic(s, which, rows, k, e, start) {
  const [major, mode] = which === "A" ? [s.ta, s.sa] : [s.tb, s.sb];
  const values = { start, ...F.packedStrides(rows, k, e.bits, major, mode, e.padded), base_offset: 0, swizzle: mode, leading_mode: "relative" };
  return F.encode(descriptorFormat(s), values);
}

function operand(s, which, rows, k, e, start, major) {
  const own = which === "A" ? s.da : s.db, dense = automatic(s, which, rows, k, e, start);
  const value = own ? BigInt(own) : dense;
  const described = (word) => ({ leading_mode: "relative", ...F.decode(descriptorFormat(s), word) });
  const addresses = (d) => (i, j) => F.operandAddress(d, i, j, e.bits, major, e.padded);
  const d = described(value), known = d.swizzle in TABLES.swizzles;
  const o = { ...e, which, rows, k, major, value, d, known, edited: Boolean(own), at: addresses(known ? d : { ...d, swizzle: "none" }) };
  // What stands after the tile begins where a swizzle pattern does. An edited descriptor does not move it.
  o.next = () => (F.div(lastByte(addresses(described(dense)), rows, k), 1024) + 1) * 1024;
  return o;
}

function lastByte(at, rows, k) {
  let last = 0;
  for (let i = 0; i < rows; i++) for (let j = 0; j < k; j++) last = Math.max(last, at(i, j).byte);
  return last;
}

function region(name, matrix, title, colours, first, columns, bits, cells) {
  return { name, matrix, title, colours, first, columns, bits, cells };
}

function buildMma(s) {
  const path = F.dataPath(s.m, s.group, s.ws, s.sparse), group = s.group, ea = element(s, s.a), eb = element(s, s.b);
  const rows = s.m / group, columns = s.n / group;
  const ka = s.k, kb = s.sparse ? 2 * s.k : s.k;
  const a = s.asrc === "smem" ? operand(s, "A", rows, ka, ea, FIRST, s.ta) : null;
  const b = operand(s, "B", columns, kb, eb, a ? a.next() : FIRST, s.tb);
  const lane0 = s.lane, regions = [];
  let next = 0;
  const add = (r) => { regions.push(r); next = r.first + r.columns; };
  const dColumns = s.n / path.banks;
  const accumulator = (i, j) => F.accumulator(path, i, j, s.n, lane0);
  add(region("D", "D", `D ${s.d}`, COLOURS.lanes((i, j) => accumulator(i, j).row), 0, dColumns, 32, (i, j) => [accumulator(i, j)]));
  const matrices = {
    A: { rows: s.m, cols: ka, down: "m", across: "k", title: s.sparse ? "A (stored elements)" : "A", type: s.a, cta: (i) => F.div(i, rows), local: (i) => i % rows },
    B: { rows: s.n, cols: kb, down: "n", across: "k", title: "B (drawn as N × K)", type: s.b, cta: (i) => F.div(i, columns), local: (i) => i % columns },
    D: { rows: s.m, cols: s.n, down: "m", across: "n", title: "D", type: s.d, cta: (i) => F.div(i, path.rows), local: (i) => i % path.rows },
  };
  if (!a) {
    const bits = ea.padded ? 8 : ea.bits;
    add(region("A", "A", `A ${s.a}`, COLOURS.row("m"), next, Math.ceil((ka * bits) / 32), bits, (i, j) => F.aInTensorMemory(path, i, j, bits, lane0)));
  }
  const scales = scaleCount(s);
  if (scales) {
    const own = s.m / group, split = group === 2 && s.m === 128;
    const width = (count, id) => (F.div(id + scales - 1, 4) + 1) * 4 * Math.ceil(count / 128);
    matrices.SFA = { rows: s.m, cols: scales, down: "m", across: "scale", title: "Scales of A", type: "8 bits", cta: (i) => F.div(i, own), local: (i) => i % own };
    matrices.SFB = { rows: s.n, cols: scales, down: "n", across: "scale", title: "Scales of B", type: "8 bits", both: true, cta: () => s.rank, local: (i) => i };
    add(region("SFA", "SFA", "SFA", COLOURS.groups("m", 32, s.m), next, width(own, s.sfa), 8,
      (i, j) => F.scaleFactor(i % own, j, own, s.sfa, false).map((c) => ({ ...c, cta: F.div(i, own) }))));
    add(region("SFB", "SFB", "SFB", COLOURS.groups("n", 32, s.n), next, width(split ? s.n / 2 : s.n, s.sfb), 8,
      (i, j) => F.scaleFactor(i, j, s.n, s.sfb, split).map((c) => ({ ...c, cta: s.rank }))));
  }
  if (s.sparse) {
    const half = F.halfMetadata(s.kind), chunks = half ? 8 : 16;
    matrices.E = { rows: s.m, cols: chunks, down: "m", across: "chunk", title: "Metadata", type: "4 bits", cta: (i) => F.div(i, path.rows), local: (i) => i % path.rows };
    add(region("E", "E", "meta", COLOURS.row("m"), next, half ? 1 + s.sel : 2, 4, (i, j) => F.metadata(path, s.kind, i, j, s.sel, lane0)));
  }
  const listed = TABLES.shapes[[s.kind, 0, s.group, 0].join()].k96;
  const beyond = isK96(s) && !listed.includes(s.m) ? "; the table of shapes lists K = 96 for M = 256 with cta_group::2 only" : "";
  const grid = { title: "Tensor memory", rows: 128, cols: next, down: "lane", across: "column", regions, ranks: group,
    note: `data path layout ${path.letter} (${path.organization})${next > 512 ? ": more than 512 columns" : ""}${beyond}` };
  return { path, matrices, shared: a ? { A: a, B: b } : { B: b }, grid, k: ea.k };
}

function buildWgmma(s) {
  const ea = element(s, s.a), eb = element(s, s.b);
  const a = s.asrc === "smem" ? operand(s, "A", 64, s.k, ea, FIRST, s.ta) : null;
  const b = operand(s, "B", s.n, s.k, eb, a ? a.next() : FIRST, s.tb);
  const whole = { cta: () => 0, local: (i) => i };
  const matrices = {
    A: { rows: 64, cols: s.k, down: "m", across: "k", title: "A", type: s.a, ...whole },
    B: { rows: s.n, cols: s.k, down: "n", across: "k", title: "B (drawn as N × K)", type: s.b, ...whole },
    D: { rows: 64, cols: s.n, down: "m", across: "n", title: "D", type: s.d, ...whole },
  };
  const regions = [region("D", "D", `D ${s.d}, value`, COLOURS.warps(), 0, s.n / 2, 32, (i, j) => [{ cta: 0, bit: 0, ...F.wgmmaD(i, j) }])];
  if (!a) regions.push(region("A", "A", `A ${s.a}`, COLOURS.row("m"), s.n / 2, 4, ea.bits, (i, j) => [{ cta: 0, ...F.wgmmaA(ea.bits, i, j) }]));
  const grid = { title: "Registers of the warpgroup", rows: 128, cols: s.n / 2 + (a ? 0 : 4), down: "thread", across: "value", regions, ranks: 1, note: "m64, 4 warps of 16 rows" };
  return { matrices, shared: a ? { A: a, B: b } : { B: b }, grid, k: ea.k };
}

function buildLoad(s) {
  const registers = s.num * TABLES.loads[s.shape].registers, base = 32 * s.warp + s.lane;
  const halves = s.pack ? 2 : 1;
  const cell = (t, v) => {
    const at = F.fragment(s.shape, t, F.div(v, halves), s.pack, s.split);
    return [{ cta: 0, bit: 0, row: at.row + s.lane, column: at.column + (v % halves) }];
  };
  const cols = registers * halves;
  let last = 0;
  for (let t = 0; t < 32; t++) for (let v = 0; v < cols; v++) last = Math.max(last, cell(t, v)[0].column);
  const matrices = { R: { rows: 32, cols, down: "thread", across: s.pack ? "half register" : "register", title: "Registers of the warp", type: s.pack ? "16 bits" : "32 bits", cta: () => 0, local: (i) => i } };
  const grid = { title: `Tensor memory, lanes ${32 * s.warp} to ${32 * s.warp + 31}`, rows: 32, cols: last + 1, down: "lane", across: "column", rowBase: 32 * s.warp,
    regions: [region("R", "R", "columns from the address", COLOURS.groups("thread", 4, 32), 0, last + 1, 32, cell)], ranks: 1, note: `warp ${s.warp} of its warpgroup; base lane ${base}` };
  return { matrices, shared: {}, grid, k: 1 };
}

function buildCopy(s) {
  const [rows, bits] = s.cp.split(".")[0].replace("b", "").split("x").map(Number);
  const words = bits / 32, e = { bits: 32, padded: false, k: words };
  const a = operand({ ...s, ta: "k" }, "A", rows, words, e, FIRST, "k");
  const matrices = { A: { rows, cols: words, down: "row", across: "word", title: "Source rows", type: "32 bits", cta: () => 0, local: (i) => i } };
  const cells = (i, j) => F.copyLanes(s.cp, i).map((row) => ({ cta: 0, row, column: j, bit: 0 }));
  const grid = { title: "Tensor memory", rows: 128, cols: words, down: "lane", across: "column", ranks: 1, note: `tcgen05.cp.${s.cp}`,
    regions: [region("A", "A", "destination", rows === 4 ? COLOURS.every("row", 4) : COLOURS.groups("row", 8, rows), 0, words, 32, cells)] };
  return { matrices, shared: { A: a }, grid, k: words };
}

// Whether an element of an operand is in the part that the chosen instruction along K reads.
const inStep = (s, model, matrix, j) => s.step < 0 || !(matrix in model.shared) || F.div(j, model.k) === s.step;

// Adds the way back, from bytes and cells to elements.
function build(s) {
  const model = { mma: buildMma, wgmma: buildWgmma, ld: buildLoad, cp: buildCopy }[s.op](s);
  for (const o of Object.values(model.shared)) {
    o.back = new Map();
    o.overlaps = 0;
    for (let i = 0; i < o.rows; i++)
      for (let j = 0; j < o.k; j++) {
        const at = o.at(i, j), key = at.byte * 8 + at.bit;
        if (o.back.has(key)) o.overlaps++;
        else o.back.set(key, [i, j]);
      }
    o.lines = [...new Set([...o.back.keys()].map((key) => F.div(key, 1024)))].sort((x, y) => x - y);
  }
  const g = model.grid;
  g.back = new Map();
  for (const r of g.regions) {
    const m = model.matrices[r.matrix];
    for (let i = 0; i < m.rows; i++)
      for (let j = 0; j < m.cols; j++)
        for (const c of r.cells(i, j)) if (c.cta === s.rank || g.ranks === 1) g.back.set((c.row * 1024 + r.first + c.column) * 32 + c.bit, [r, i, j]);
  }
  return model;
}

// Everything that is known about one element, as rows for the reader.
function place(s, model, matrix, i, j) {
  const m = model.matrices[matrix], out = { matrix, i, j, cta: m.cta(i, j), name: `${matrix}(${m.down} ${i}, ${m.across} ${j})`, type: m.type };
  const o = model.shared[matrix];
  if (o) {
    const at = o.at(m.local(i), j);
    Object.assign(out, { byte: at.byte, bit: at.bit, bank: F.div(at.byte, 4) % 32, linear: at.linear });
  }
  const regions = model.grid.regions.filter((r) => r.matrix === matrix);
  out.cells = regions.flatMap((r) => r.cells(i, j).map((c) => ({ ...c, column: c.column + r.first, relative: c.column, bits: r.bits })));
  return out;
}
