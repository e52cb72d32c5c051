// The formulas of ptxlab.layout and ptxlab.descriptors, one element at a time. TABLES comes from ptxlab.tables and ptxlab.descriptors;
// register fragments and copies are evaluated from its layouts.
const formulas = (() => {
  const div = (a, b) => Math.floor(a / b);
  const mod = (a, b) => ((a % b) + b) % b;

  function swizzle(address, mode, baseOffset) {
    const s = TABLES.swizzles[mode];
    if (!s.bits) return address;
    return address ^ (((div(address, 128) - baseOffset) & ((1 << s.bits) - 1)) << s.base);
  }

  // d: start, leading, stride (bytes), swizzle, base_offset, leading_mode. Gives the byte, the bit in it, and the byte before the swizzle.
  function operandAddress(d, row, k, bits, major, padded) {
    const mode = TABLES.swizzles[d.swizzle];
    const perSlot = bits === 6 || padded ? 16 : 128 / bits;
    const [line, across] = major === "k" ? [row, k] : [k, row];
    const byte = div(across, perSlot) * 16, inside = (across % perSlot) * bits;
    const lines = major === "k" ? 8 : mode.lines, width = mode.width;
    const group = div(line, lines) * d.stride, within = (line % lines) * width;
    let linear;
    if (d.leading_mode === "absolute") {
      const spilled = mod(d.start, width) + byte - width;
      linear = group + within + (spilled >= 0 ? d.leading + spilled - d.start : byte);
    } else if (mode.bits) {
      linear = group + within + div(byte, width) * d.leading + (byte % width);
    } else if (major === "k") {
      linear = group + within + (byte / 16) * d.leading;
    } else {
      linear = div(line, 8) * d.leading + (line % 8) * 16 + (byte / 16) * d.stride;
    }
    const straight = d.start + linear;
    return { byte: swizzle(straight, d.swizzle, d.base_offset) + (inside >> 3), bit: inside & 7, linear: straight + (inside >> 3) };
  }

  function operandAddresses(d, rows, k, bits, major, padded) {
    const found = [];
    for (let i = 0; i < rows; i++)
      for (let j = 0; j < k; j++) {
        const at = operandAddress(d, i, j, bits, major, padded);
        found.push(bits < 8 ? at.byte * 8 + at.bit : at.byte);
      }
    return found;
  }

  // Strides of a tile without gaps: atoms of the swizzle one after the other, first along the dimension of the lines.
  function packedStrides(rows, k, bits, major, mode, padded) {
    const s = TABLES.swizzles[mode];
    const perSlot = bits === 6 || padded ? 16 : 128 / bits;
    const slots = (count) => Math.ceil(count / perSlot);
    // Rows that are wider than the swizzle: one width of K after the other.
    const wide = major === "k" && slots(k) * 16 > s.width;
    if (major === "k") return { leading: s.bits && !wide ? 16 : Math.ceil(rows / 8) * 8 * s.width, stride: 8 * s.width };
    if (!s.bits) return { leading: slots(rows) * 128, stride: 128 };
    const atom = s.lines * s.width;
    return { leading: Math.ceil(k / s.lines) * atom, stride: atom };
  }

  // What `ptxlab explain` remarks on strides that leave gaps or overlap, for an operand of known majorness; null for nothing.
  function strideRemark(d, major, bits) {
    const mode = TABLES.swizzles[d.swizzle], lines = major === "k" ? 8 : mode.lines, size = lines * mode.width;
    const name = major === "k" ? "rows" : "steps of K", atom = `${lines} ${name} of ${mode.width} bytes`;
    const along = `the operand has only ${lines} ${name}`, across = `the operand has only ${mode.width} bytes along ${major === "k" ? "K" : "M or N"}`;
    const exchanged = major === "mn" && !mode.bits;
    let strides = [["SBO", d.stride, exchanged ? across : along], ["LBO", d.leading, exchanged ? along : across]];
    if (mode.bits && (major === "k" || d.leading === 0 || d.leading === 16)) strides = strides.slice(0, 1);
    const short = major === "mn" && 256 / bits <= lines;
    for (const [stride, step, unless] of strides)
      if (step < size && !(short && unless === along))
        return { overlap: true, text: `${stride} = ${step} bytes is less than ${atom}: they overlap, unless ${unless}` };
    if (mode.bits && major === "k" && (d.leading === size || d.leading_mode === "absolute")) return null;
    const free = Math.min(...strides.map((item) => item[1])) - size;
    if (free <= 0) return null;
    const names = strides.map(([stride, step]) => `${stride} = ${step}`).join(" and "), leaves = strides.length === 1 ? "leaves" : "leave at least";
    return { overlap: false, text: `${names} bytes ${leaves} ${free} bytes free after each ${atom}: right where these are padding or hold other parts of the tile` };
  }

  const dataPath = (m, group, ws, sparse) => TABLES.data_paths[[m, group, +ws, +sparse].join()];

  function laneOf(path, row, bank) {
    const r = row % path.rows;
    return (path.half ? div(r, 16) * 32 + (r % 16) : r) + bank * (128 / path.banks);
  }

  function accumulator(path, m, n, N, lane = 0) {
    const part = N / path.banks;
    return { cta: div(m, path.rows), row: laneOf(path, m, div(n, part)) + lane, column: n % part, bit: 0 };
  }

  function aInTensorMemory(path, m, k, bits, lane = 0) {
    const place = k * bits, copies = [];
    for (let bank = 0; bank < path.banks; bank++)
      copies.push({ cta: div(m, path.rows), row: laneOf(path, m, bank) + lane, column: div(place, 32), bit: place % 32 });
    return copies;
  }

  // A CuTe layout: for each mode its parts [size, symbol, coefficient], the first fastest and the last one open.
  // Gives the sum of each symbol for one index of each mode.
  function place(layout, ...indices) {
    const at = { L: 0, C: 0, H: 0, R: 0 };
    layout.forEach((parts, mode) => {
      let rest = indices[mode];
      parts.forEach(([size, symbol, coefficient], i) => {
        at[symbol] += (i < parts.length - 1 ? rest % size : rest) * coefficient;
        rest = div(rest, size);
      });
    });
    return at;
  }

  // The index of each mode for a place.
  function indices(layout, at) {
    return layout.map((parts) => {
      let index = 0, weight = 1;
      parts.forEach(([size, symbol, coefficient], i) => {
        const digit = div(at[symbol], coefficient);
        index += (i < parts.length - 1 ? digit % size : digit) * weight;
        weight *= size;
      });
      return index;
    });
  }

  // tcgen05.ld and .st: cell of (thread, register), relative to the address.
  function fragment(shape, t, r, pack, split) {
    const at = place(TABLES.fragments[shape], t, r);
    return { row: at.L, column: at.C * (pack ? 2 : 1) + at.H * split };
  }

  // wgmma: thread of the warpgroup and register value of an element of matrix D; register and bit in it of one of matrix A.
  function wgmmaD(m, n) {
    const [row, column] = indices(TABLES.fragments["wgmma d"], { R: m, C: n });
    return { row, column };
  }
  function wgmmaA(bits, m, k) {
    const per = 32 / bits, [row, column] = indices(TABLES.fragments["wgmma a"], { R: m, C: div(k, per) });
    return { row, column, bit: (k % per) * bits };
  }

  // tcgen05.cp: lanes of a row of the source.
  function copyLanes(shape, row) {
    const layout = TABLES.copies[shape];
    return Array.from({ length: layout[1][0][0] }, (_, copy) => place(layout, row, copy).L);
  }

  function scaleFactor(row, scale, rows, id, split) {
    const part = split ? rows / 2 : rows, inside = row % part, byte = id + scale, copies = [];
    const column = div(byte, 4) * 4 * Math.ceil(part / 128) + div(inside, 32);
    for (let q = 0; q < (split ? 2 : 4); q++)
      copies.push({ cta: 0, row: (inside % 32) + 32 * (q + 2 * div(row, part)), column, bit: 8 * (byte % 4) });
    return copies;
  }

  const halfMetadata = (kind) => kind === "f16" || kind === "tf32";
  function metadata(path, kind, m, chunk, selector, lane = 0) {
    const copies = [];
    for (let bank = 0; bank < path.banks; bank++) {
      const at = laneOf(path, m, bank) + lane, cta = div(m, path.rows);
      if (halfMetadata(kind))
        copies.push({ cta, row: div(at, 32) * 32 + (at % 8) + div(at % 32, 16) * 16 + div(chunk, 4) * 8, column: selector, bit: div(at % 16, 8) * 16 + (chunk % 4) * 4 });
      else copies.push({ cta, row: at, column: div(chunk, 8), bit: (chunk % 8) * 4 });
    }
    return copies;
  }

  // Bit fields. Values are numbers, or names where the field has them; a code without a name reads as "code 3".
  function decode(format, value) {
    const values = {}, f = TABLES.formats[format];
    let named = 0n;
    for (const field of f.fields) {
      const code = Number((value >> BigInt(field.low)) & ((1n << BigInt(field.width)) - 1n));
      const known = field.values && field.values.find((pair) => pair[1] === code);
      values[field.name] = field.values ? (known ? known[0] : "code " + code) : code * 2 ** field.shift;
      named |= ((1n << BigInt(field.width)) - 1n) << BigInt(field.low);
    }
    const all = (1n << BigInt(f.bits)) - 1n;
    values.reserved = (value & all & ~named) ^ BigInt(f.fixed);
    return values;
  }

  function encode(format, values) {
    const f = TABLES.formats[format];
    let word = BigInt(f.fixed) ^ BigInt(values.reserved ?? 0);
    for (const field of f.fields) {
      const given = values[field.name] ?? 0;
      const known = field.values && field.values.find((pair) => pair[0] === given);
      let code = known ? known[1] : field.values ? Number(String(given).replace("code ", "")) || 0 : div(given, 2 ** field.shift);
      word |= (BigInt(code) & ((1n << BigInt(field.width)) - 1n)) << BigInt(field.low);
    }
    return word;
  }

  return {
    div, mod, swizzle, operandAddress, operandAddresses, packedStrides, strideRemark, dataPath, laneOf, accumulator, aInTensorMemory, fragment,
    wgmmaD, wgmmaA, copyLanes, scaleFactor, halfMetadata, metadata, decode, encode,
  };
})();
