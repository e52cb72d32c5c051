// The formulas of ptxlab.layout and ptxlab.descriptors, one element at a time. TABLES comes from ptxlab.tables and ptxlab.descriptors.
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

  // tcgen05.ld and .st: cell of (thread, register), relative to the address.
  function fragment(shape, t, r, pack, split) {
    const step = pack ? 2 : 1;
    switch (shape) {
      case "32x32b": return { row: t, column: r * step };
      case "16x64b": return { row: (t >> 2) + 8 * (t & 1), column: (2 * r + ((t >> 1) & 1)) * step };
      case "16x128b": return { row: (t >> 2) + 8 * (r & 1), column: (4 * (r >> 1) + (t & 3)) * step };
      case "16x256b": return { row: (t >> 2) + 8 * ((r >> 1) & 1), column: (8 * (r >> 2) + 2 * (t & 3) + (r & 1)) * step };
      default: return { row: t & 15, column: r * step + (t >> 4) * split };
    }
  }

  // Matrix D of wgmma: element of (thread of the warpgroup, value), and the other way round.
  const wgmmaD = (t, r) => ({ i: 16 * (t >> 5) + ((t >> 2) & 7) + 8 * ((r >> 1) & 1), j: 8 * (r >> 2) + 2 * (t & 3) + (r & 1) });
  const wgmmaDInverse = (m, n) => ({ row: 32 * (m >> 4) + 4 * (m & 7) + ((n >> 1) & 3), column: 4 * (n >> 3) + 2 * ((m >> 3) & 1) + (n & 1) });

  function wgmmaA(bits, t, v) {
    const per = 32 / bits, r = div(v, per);
    return { i: 16 * (t >> 5) + ((t >> 2) & 7) + 8 * (r & 1), j: per * (t & 3) + (v % per) + 4 * per * (r >> 1) };
  }
  function wgmmaAInverse(bits, m, k) {
    const per = 32 / bits;
    return { row: 32 * (m >> 4) + 4 * (m & 7) + (div(k, per) & 3), column: 2 * div(k, 4 * per) + ((m >> 3) & 1), bit: (k % per) * bits };
  }

  // tcgen05.cp: lanes of a row of the source.
  function copyLanes(shape, row) {
    switch (shape) {
      case "4x256b": return [32 * row];
      case "32x128b.warpx4": return [0, 32, 64, 96].map((q) => row + q);
      case "64x128b.warpx2::02_13": return [row, row + 64];
      case "64x128b.warpx2::01_23": return [0, 32].map((q) => 64 * div(row, 32) + (row % 32) + q);
      default: return [row];
    }
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
    div, mod, swizzle, operandAddress, operandAddresses, packedStrides, dataPath, laneOf, accumulator, aInTensorMemory, fragment,
    wgmmaD, wgmmaDInverse, wgmmaA, wgmmaAInverse, copyLanes, scaleFactor, halfMetadata, metadata, decode, encode,
  };
})();
