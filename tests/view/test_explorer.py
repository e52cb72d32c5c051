"""The explorer page in a real browser: its addresses are those of the Python functions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from ptxlab import layout
from ptxlab.descriptors import DescriptorError, InstructionDescriptor, OperandTile, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.descriptors.describe.strides import stride_remarks
from ptxlab.layout import metadata_chunks
from ptxlab.tables import COPY_LAYOUTS, DATA_PATHS, LOAD_REGISTERS, SCALE_IDS, SHAPES, SPARSE_GRANULARITY, SWIZZLES, TYPE_BITS
from tests.sweep_helpers import one_in
from tests.tables.specification_helpers import TENSOR_CELLS

pytestmark = pytest.mark.sweep


def fields(d: SharedMemoryDescriptor | WgmmaDescriptor) -> dict[str, Any]:
    return {"leading_mode": "relative"} | {name: value for name, value in d.fields() if name != "reserved"}


def test_operand_addresses(page: Any) -> None:
    rng = np.random.default_rng(4)
    cases, wanted = [], []
    for bits, swizzle, major in itertools.product((4, 6, 8, 16, 32), SWIZZLES, ("k", "mn")):
        padded = bits == 4 and bool(rng.integers(2))
        for _ in range(3):
            start, leading, stride = (int(x) * 16 for x in rng.integers(0, 1 << 10, 3))
            d = SharedMemoryDescriptor(start, leading, stride, swizzle, base_offset=int(rng.integers(8)))
            rows, k = int(rng.integers(1, 40)), int(rng.integers(1, 40))
            cases.append([fields(d), rows, k, bits, major, padded])
            wanted.append(layout.operand_addresses(d, rows, k, bits, major, padded).ravel().tolist())  # type: ignore[arg-type]
    d = SharedMemoryDescriptor(start=0x460, leading=0x2000, stride=1024, swizzle="128B", leading_mode="absolute")
    cases.append([fields(d), 32, 96, 4, "k", False])
    wanted.append(layout.operand_addresses(d, 32, 96, 4).ravel().tolist())
    got = page().run("return arguments[0].map((c) => ptxlab.formulas.operandAddresses(...c))", cases)
    assert len(cases) == 151
    assert got == wanted


def test_strides_of_tiles_without_gaps(page: Any) -> None:
    cases, wanted = [], []
    shapes = [(rows, k) for rows in (8, 32, 64, 128, 192, 256) for k in (8, 16, 32, 64, 128)]
    for type_, swizzle, major, (rows, k) in itertools.product(("e2m1", "e4m3", "f16", "tf32"), SWIZZLES, ("k", "mn"), shapes):
        try:
            tile = OperandTile(rows, k, type_, major, swizzle)  # type: ignore[arg-type]
        except DescriptorError:  # not a whole number of atoms
            continue
        cases.append([rows, k, TYPE_BITS[type_], major, swizzle, False])
        wanted.append(dict(zip(("leading", "stride"), tile.strides, strict=True)))
    assert page().run("return arguments[0].map((c) => ptxlab.formulas.packedStrides(...c))", cases) == wanted
    assert len(cases) > 800


def test_remarks_on_strides(page: Any) -> None:
    rng = np.random.default_rng(9)
    cases, wanted = [], []
    for swizzle, major, bits in itertools.product(SWIZZLES, ("k", "mn"), (4, 8, 16, 32)):
        for leading, stride in rng.choice([0, 16, 64, 128, 256, 512, 1024, 2048, 8192], (20, 2)).tolist():
            d = SharedMemoryDescriptor(0x400, leading, stride, swizzle)
            cases.append([fields(d), major, bits])
            wanted.append(list(stride_remarks(d, major, bits)))  # type: ignore[arg-type]
    found = page()
    texts = found.run("return arguments[0].map((c) => { const r = ptxlab.formulas.strideRemark(...c); return r ? [r.text] : []; })", cases)
    assert texts == wanted
    kinds = {text.split("bytes ")[1].split()[0] for texts in wanted for text in texts} | {"" for texts in wanted if not texts}
    assert kinds == {"is", "leaves", "leave", ""}
    # Of an edited descriptor, below its fields.
    shown = "return [...document.querySelectorAll('#cards .remark')].map((p) => p.textContent)"
    for stride, remarks in ((1024, 1), (512, 0), (256, 1)):
        d = SharedMemoryDescriptor(start=0x400, stride=stride, swizzle="64B")
        assert page(f"k=32&n=64&sa=64B&sb=64B&da={int(d):#x}").run(shown) == list(stride_remarks(d, "k", 16))
        assert len(stride_remarks(d, "k", 16)) == remarks


@pytest.mark.parametrize("key", one_in(4, [(key,) for key in DATA_PATHS]), ids=str)
def test_tensor_memory(page: Any, key: tuple[int, int, bool, bool]) -> None:
    """D for every N, A for every size of element, and the metadata of every kind."""
    m, group, ws, sparse = key
    script = """
        const [m, group, ws, sparse, lane, ns, bits, kinds] = arguments, f = ptxlab.formulas;
        const p = f.dataPath(m, group, ws, sparse), put = (to, c) => to.push([c.cta, c.row, c.column, c.bit]);
        const cells = (columns, at) => {
          const out = [];
          for (let i = 0; i < m; i++) for (let j = 0; j < columns; j++) for (const c of at(i, j)) put(out, c);
          return out;
        };
        // Large arrays are compared by a weighted sum of 32 bits.
        const sum = (list) => list.flat().reduce((total, x, i) => (total + Math.imul(x + 1, 2 * Math.imul(i, 0x9E3779B1) + 1)) | 0, 0);
        return [ns.map((n) => sum(cells(n, (i, j) => [f.accumulator(p, i, j, n, lane)]))),
          bits.map((b) => cells(256 / b, (i, j) => f.aInTensorMemory(p, i, j, b, lane))),
          kinds.map(([kind, chunks, selector]) => cells(chunks, (i, j) => f.metadata(p, kind, i, j, selector, lane)))];"""
    ns = sorted({n for (_, w, g, s), shapes in SHAPES.items() if (w, g, s) == (ws, group, sparse) and m in shapes.m for n in shapes.n})
    bits = [4, 8, 16, 32]
    kinds = [(k, metadata_chunks(k), s) for k in SPARSE_GRANULARITY for s in ((0, 1) if k in ("f16", "tf32") else (0,))] if sparse else []
    found = page()
    for lane in (0, 16) if DATA_PATHS[key].half else (0,):
        d, a, e = found.run(script, m, group, ws, sparse, lane, ns, bits, kinds)
        for n, got in zip(ns, d, strict=True):
            assert got == weighted_sum(layout.accumulator_location(m, n, group, ws, sparse, lane)), n
        for size, got in zip(bits, a, strict=True):
            assert np.array_equal(got, in_order(layout.a_location(m, 256 // size, size, group, ws, sparse, lane))), size
        for (kind, _, selector), got in zip(kinds, e, strict=True):
            assert np.array_equal(got, in_order(layout.metadata_location(kind, m, group, ws, selector, lane))), (kind, selector)


def in_order(at: Any) -> Any:
    """[row x column x copy, (CTA, lane, column, bit)] of arrays [copy, row, column]."""
    return np.stack(at, -1).transpose(1, 2, 0, 3).reshape(-1, 4)


def weighted_sum(at: Any) -> int:
    """Of (CTA, lane, column, 0) of every element."""
    values = np.stack([*at, np.zeros_like(at[0])], -1).ravel()
    weights = 2 * np.arange(values.size, dtype=np.uint64) * np.uint64(0x9E3779B1) + np.uint64(1)
    return int((((values.astype(np.uint64) + np.uint64(1)) * weights) & np.uint64(0xFFFFFFFF)).sum().astype(np.uint32).astype(np.int32))


def test_fragments(page: Any) -> None:
    """Every register of every thread, for all shapes, repetitions and packings."""
    script = """const [shape, registers, pack, split] = arguments, out = [];
        for (let t = 0; t < 32; t++) for (let r = 0; r < registers; r++) {
          const c = ptxlab.formulas.fragment(shape, t, r, pack, split);
          out.push([c.row, c.column]);
        }
        return out;"""
    found = page()
    for ((shape, num), registers), pack in itertools.product(LOAD_REGISTERS.items(), (False, True)):
        split = 3 * num if shape == "16x32bx2" else 0
        got = np.reshape(found.run(script, shape, registers, pack, split), (32, registers, 2))
        cells = [[TENSOR_CELLS[shape](t, r, 0) for r in range(registers)] for t in range(32)]
        wanted = np.array(cells) * (1, 1 + pack)
        if split:
            wanted[16:, :, 1] += split
        assert np.array_equal(got, wanted), (shape, num, pack)
        assert np.array_equal(got, np.stack(layout.fragment(shape, num, pack, split), -1)), (shape, num, pack)


def test_wgmma_registers(page: Any) -> None:
    """Every element of D for every N, and of A for every size of element."""
    script = """const f = ptxlab.formulas, [columns, bits] = arguments, out = [];
        for (let i = 0; i < 64; i++) for (let j = 0; j < columns; j++) {
          const c = bits ? f.wgmmaA(bits, i, j) : f.wgmmaD(i, j);
          out.push([c.row, c.column * (bits ? 32 / bits : 1) + (bits ? c.bit / bits : 0)]);
        }
        return out;"""
    found = page()
    for columns, bits in (*((n, 0) for n in range(8, 257, 8)), (32, 8), (16, 16), (8, 32)):
        at = layout.wgmma_a_fragment(bits) if bits else layout.wgmma_fragment(columns)
        got = np.reshape(found.run(script, columns, bits), (64, columns, 2))
        thread, value = got[..., 0], got[..., 1]
        i, j = np.indices((64, columns))
        assert np.array_equal(at.row[thread, value], i)
        assert np.array_equal(at.column[thread, value], j)


def test_scale_factors(page: Any) -> None:
    """Every scale factor ID, and all sizes of the matrices."""
    script = """return arguments[0].map(([rows, scales, id, split]) => {
          const out = [];
          for (let i = 0; i < rows; i++) for (let j = 0; j < scales; j++)
            for (const c of ptxlab.formulas.scaleFactor(i, j, rows, id, split)) out.push([c.row, c.column, c.bit / 8]);
          return out;
        });"""
    found = page()
    for scales, ids in SCALE_IDS.items():
        cases = [(rows, scales, id_, split) for id_ in ids for split in (False, True) for rows in (16, 64, 128, 192, 256)]
        for case, got in zip(cases, found.run(script, cases), strict=True):
            at = layout.scale_factor_location(*case)
            expected = np.stack(np.broadcast_arrays(*at), -1).transpose(1, 2, 0, 3).reshape(-1, 3)
            assert np.array_equal(got, expected), case


def test_copies(page: Any) -> None:
    found = page()
    for shape, multicast in COPY_LAYOUTS:
        lanes = layout.copy_destination(shape, multicast).lanes
        script = "return Array.from({length: arguments[1]}, (_, i) => ptxlab.formulas.copyLanes(arguments[0], i))"
        got = found.run(script, ".".join(filter(None, (shape, multicast))), len(lanes))
        assert np.array_equal(got, lanes)


CONFIGURATIONS = [
    f"kind={kind}&group={group}&m={m}&n={n}&a={a}&b={a}&ta={major}&tb={major}&sa={swizzle}&sb={swizzle}"
    for kind, a, major, swizzle in (
        ("f16", "bf16", "k", "128B"),
        ("f16", "f16", "mn", "64B"),
        ("f16", "f16", "k", "none"),
        ("tf32", "tf32", "mn", "128B_32B"),
        ("f8f6f4", "e4m3", "mn", "32B"),
        ("f8f6f4", "e2m1", "k", "128B"),
        ("i8", "s8", "mn", "none"),
        ("mxf4nvf4", "e2m1", "k", "64B"),
    )
    for group, m, n in ((1, 128, 64), (2, 256, 128), (2, 128, 64))
] + ["kind=mxf4nvf4&k=96&scale=block16&m=128&n=64"]


@pytest.mark.parametrize("configuration", one_in(5, CONFIGURATIONS))
def test_page_shows_what_the_library_computes(page: Any, configuration: str) -> None:
    """Controls -> descriptors -> addresses of A and B, and cells of D, through the page's own state."""
    wanted = dict(pair.split("=") for pair in configuration.split("&"))
    found = page(configuration)
    script = """const s = ptxlab.state, m = ptxlab.model, out = {s, idesc: String(instructionValue())};
        for (const which of ["A", "B"]) {
          const {value, rows, k, bits, padded, overlaps, at} = m.shared[which];
          const place = (c) => (bits < 8 ? c.byte * 8 + c.bit : c.byte);
          out[which] = {value: String(value), rows, k, padded, overlaps,
            at: Array.from({length: rows * k}, (_, x) => place(at(Math.floor(x / k), x % k)))};
        }
        out.D = [[0, 0], [63, 33], [s.m - 1, s.n - 1]].map(([i, j]) => {
          const p = ptxlab.place("D", i, j);
          return [i, j, p.cta, p.cells[0].row, p.cells[0].column];
        });
        return out;"""
    got = found.run(script)
    state = got["s"]
    assert {name: str(state[name]) for name in wanted} == wanted
    for which, major in (("A", state["ta"]), ("B", state["tb"])):
        o = got[which]
        d = SharedMemoryDescriptor.decode(int(o["value"]))
        assert not d.findings(major, TYPE_BITS[state[which.lower()]])
        assert o["overlaps"] == 0
        tile = OperandTile(o["rows"], o["k"], state[which.lower()], major, d.swizzle, d.start, o["padded"])
        assert tile.descriptor() == d
        assert np.array_equal(np.reshape(o["at"], (o["rows"], o["k"])), tile.addresses())
    d_at = layout.accumulator_location(state["m"], state["n"], state["group"])
    for i, j, cta, lane, column in got["D"]:
        assert (d_at.cta[i, j], d_at.lane[i, j], d_at.column[i, j]) == (cta, lane, column)
    i = InstructionDescriptor.decode(int(got["idesc"]), state["kind"])
    assert (i.m, i.n, i.a, i.transpose_a) == (state["m"], state["n"], state["a"], state["ta"] == "mn")
    assert not i.findings(cta_group=state["group"])


def test_the_link_is_copied_or_not(page: Any) -> None:
    script = """const [given, done] = arguments, button = document.getElementById("share");
        const clipboard = {writeText: async (text) => { if (!given) throw new Error("not allowed"); window.copied = text; }};
        Object.defineProperty(navigator, "clipboard", {value: clipboard, configurable: true});
        button.click();"""
    for works, said in ((True, "Link copied"), (False, "Copy it from the address bar")):
        found = page("kind=i8&n=32", fresh=True)
        found.run(script, works)
        assert found.run("return document.getElementById('share').textContent") == said
        assert found.run("return window.copied === location.href") is works


def test_k_of_96_that_the_table_does_not_list(page: Any) -> None:
    for fragment, says in (("group=1&m=128", True), ("group=2&m=256", False)):
        note = page(f"kind=mxf4&k=96&n=64&{fragment}").run("return document.getElementById('grid-note').textContent")
        assert ("the table of shapes lists K = 96 for M = 256 with cta_group::2 only" in note) is says


def test_descriptors_are_decoded_and_edited(page: Any) -> None:
    script = """return arguments[0].map(([f, v]) => {
          const d = ptxlab.formulas.decode(f, BigInt(v)), again = ptxlab.formulas.encode(f, d);
          return [d.start, d.leading, d.stride, d.swizzle, d.base_offset, String(d.reserved), String(again)];
        })"""
    rng = np.random.default_rng(7)
    cases = [(form, int(value)) for form in ("smem", "wgmma") for value in rng.integers(0, 1 << 64, 40, dtype=np.uint64)]
    for (form, value), got in zip(cases, page().run(script, [(form, str(value)) for form, value in cases]), strict=True):
        d = (SharedMemoryDescriptor if form == "smem" else WgmmaDescriptor).decode(value)
        assert got == [d.start, d.leading, d.stride, d.swizzle, d.base_offset, str(d.reserved), str(value)]
    found = page("n=64")
    found.run("const e = document.getElementById('Descriptor of A-stride'); e.value = '0x800'; e.onchange()")
    assert found.run("return [location.hash, ptxlab.place('A', 8, 0).byte]") == ["#op=mma&n=64&da=0x4000408000010040", 0xC00]
    found.run("const e = document.querySelector('#cards .word'); e.value = '0x8000404000010080'; e.onchange()")
    assert found.run("return [ptxlab.state.sa, ptxlab.place('A', 0, 8).byte]") == ["64B", 0x810]
    found.run("document.querySelector('#cards .bit.reserved').click()")
    assert found.run("return document.querySelector('#cards .note.bad').textContent") != ""


def test_a_pasted_instruction_descriptor_sets_the_controls(page: Any) -> None:
    value = int(InstructionDescriptor(kind="f16", m=64, n=96, a="bf16", b="bf16", d="f32", transpose_b=True))
    found = page()
    found.run("const e = [...document.querySelectorAll('#cards .word')].at(-1); e.value = arguments[0]; e.onchange()", hex(value))
    assert found.run("const s = ptxlab.state; return [s.m, s.n, s.a, s.tb, String(instructionValue())]") == [
        64,
        96,
        "bf16",
        "mn",
        str(value),
    ]


def test_hovering_finds_the_element_everywhere(page: Any) -> None:
    found = page("n=64", fresh=True)
    spot = """const r = document.getElementById(arguments[0] + '-canvas').getBoundingClientRect();
        const [x, y, w, h] = views[arguments[0]].box(arguments[1], arguments[2]);
        return [r.left + x + w / 4, r.top + y + h / 2].map(Math.round);"""
    found.move(*found.run(spot, "matrix", 5, 17))
    d = SharedMemoryDescriptor(start=0x400, stride=1024, swizzle="128B")
    address = int(layout.operand_addresses(d, 128, 64, 16)[5, 17])
    text = found.run("return document.getElementById('facts').innerText")
    assert "A(m 5, k 17)" in text
    assert f"{address:#06x}" in text
    assert f"\nbank\n{address // 4 % 32}\n" in text
    line = found.run("return ptxlab.model.shared.A.lines.indexOf(arguments[0])", address // 128)
    found.move(*found.run(spot, "shared", line, address % 128 // 16))
    assert found.run("return [ptxlab.chosen.matrix, ptxlab.chosen.i, ptxlab.chosen.j]") == ["A", 5, 18]  # a quarter into the chunk
    found.move(*found.run(spot, "grid", 33, 7), click=True)
    assert found.run("return [ptxlab.chosen.matrix, ptxlab.chosen.i, ptxlab.chosen.j, location.hash]") == [
        "D",
        33,
        7,
        "#op=mma&n=64&pin=D%2C33%2C7",
    ]


def test_the_arrow_keys_move_the_element_and_the_cta_follows(page: Any) -> None:
    found = page("group=2&m=128&n=64&view=D&pin=D,63,10")
    found.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowDown'}))")
    assert found.run("return [ptxlab.chosen.i, ptxlab.chosen.j, ptxlab.chosen.cta, ptxlab.state.rank]") == [64, 10, 1, 1]
    assert "CTA 1" in found.run("return document.getElementById('grid-title').textContent")


@pytest.mark.sweep
def test_no_configuration_breaks_the_page(page: Any) -> None:
    """Walks through all values of all controls, one after the other, from several starting points."""
    script = """const bad = [];
        window.onerror = (m) => bad.push(m);
        for (const name of Object.keys(CONTROLS).filter((n) => n !== "op")) for (const v of (choices(state)[name] || []).slice(0, 6)) {
          try { change({[name]: v}); if (String(state[name]) !== String(v)) bad.push(`${name}=${v} became ${state[name]}`); }
          catch (e) { bad.push(`${name}=${v}: ${e}`); }
        }
        return bad;"""
    for start in ("kind=i8&n=32", "kind=mxf8f6f4&group=2&m=256&n=64", "op=wgmma&n=16", "op=ld", "op=cp"):
        assert page(start + "&view=D").run(script) == []
