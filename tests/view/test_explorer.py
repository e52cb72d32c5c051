"""The explorer page in a real browser: its addresses are those of the Python functions."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ptxlab import layout
from ptxlab.descriptors import InstructionDescriptor, OperandTile, SharedMemoryDescriptor, WgmmaDescriptor
from ptxlab.tables import DATA_PATHS, FRAGMENT_REGISTERS, SWIZZLES, TYPE_BITS

pytestmark = pytest.mark.xdist_group("browser")


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
    for type_, swizzle, major in itertools.product(("e2m1", "e4m3", "f16", "tf32"), SWIZZLES, ("k", "mn")):
        tile = OperandTile(128, 64, type_, major, swizzle)  # type: ignore[arg-type]
        cases.append([128, 64, TYPE_BITS[type_], major, swizzle, False])
        wanted.append(dict(zip(("leading", "stride"), tile.strides, strict=True)))
    assert page().run("return arguments[0].map((c) => ptxlab.formulas.packedStrides(...c))", cases) == wanted


@pytest.mark.parametrize("key", list(DATA_PATHS), ids=str)
def test_tensor_memory(page: Any, key: tuple[int, int, bool, bool]) -> None:
    m, group, ws, sparse = key
    n, lane = 64, 16 if DATA_PATHS[key].half else 0
    script = """
        const [m, n, group, ws, sparse, lane, kind] = arguments, f = ptxlab.formulas;
        const p = f.dataPath(m, group, ws, sparse), d = [], a = [], e = [], put = (to, c) => to.push([c.cta, c.row, c.column, c.bit]);
        for (let i = 0; i < m; i++) {
          for (let j = 0; j < n; j++) put(d, f.accumulator(p, i, j, n, lane));
          for (let j = 0; j < 16; j++) for (const c of f.aInTensorMemory(p, i, j, 16, lane)) put(a, c);
          for (let j = 0; j < (kind === "f16" ? 8 : 16); j++) for (const c of f.metadata(p, kind, i, j, 0, lane)) put(e, c);
        }
        return [d, a, e];"""
    kind = "f16" if ws else "i8"
    d, a, e = page().run(script, m, n, group, ws, sparse, lane, kind)
    assert np.array_equal(np.reshape(d, (m, n, 4))[..., :3], np.stack(layout.accumulator_location(m, n, group, ws, sparse, lane), -1))
    expected = np.stack(layout.a_location(m, 16, 16, group, ws, sparse, lane), -1)
    assert np.array_equal(np.reshape(a, (m, 16, -1, 4)).transpose(2, 0, 1, 3), expected)
    if sparse:
        expected = np.stack(layout.metadata_location(kind, m, group, ws, 0, lane), -1)
        assert np.array_equal(np.reshape(e, (m, -1, len(expected), 4)).transpose(2, 0, 1, 3), expected)


@pytest.mark.parametrize("shape", list(FRAGMENT_REGISTERS))
@pytest.mark.parametrize("pack", [False, True])
def test_fragments(page: Any, shape: str, pack: bool) -> None:
    expected = layout.fragment(shape, 4, pack, 16)
    script = """const [shape, registers, pack] = arguments, out = [];
        for (let t = 0; t < 32; t++) for (let r = 0; r < registers; r++) {
          const c = ptxlab.formulas.fragment(shape, t, r, pack, 16);
          out.push([c.row, c.column]);
        }
        return out;"""
    got = page().run(script, shape, expected.lane.shape[1], pack)
    assert np.array_equal(np.reshape(got, (*expected.lane.shape, 2)), np.stack(expected, -1))


def test_wgmma_registers(page: Any) -> None:
    script = """const f = ptxlab.formulas, [columns, bits] = arguments, out = [];
        for (let i = 0; i < 64; i++) for (let j = 0; j < columns; j++) {
          const c = bits ? f.wgmmaAInverse(bits, i, j) : f.wgmmaDInverse(i, j);
          out.push([c.row, c.column * (bits ? 32 / bits : 1) + (bits ? c.bit / bits : 0)]);
        }
        return out;"""
    for columns, bits in ((48, 0), (32, 8), (16, 16), (8, 32)):
        at = layout.wgmma_a_fragment(bits) if bits else layout.wgmma_fragment(columns)
        got = np.reshape(page().run(script, columns, bits), (64, columns, 2))
        thread, value = got[..., 0], got[..., 1]
        i, j = np.indices((64, columns))
        assert np.array_equal(at.row[thread, value], i)
        assert np.array_equal(at.column[thread, value], j)


def test_scale_factors_and_copies(page: Any) -> None:
    script = """const [rows, scales, id, split] = arguments, out = [];
        for (let i = 0; i < rows; i++) for (let j = 0; j < scales; j++)
          for (const c of ptxlab.formulas.scaleFactor(i, j, rows, id, split)) out.push([c.row, c.column, c.bit / 8]);
        return out;"""
    for rows, scales, id_, split in (
        (128, 1, 3, False),
        (256, 2, 2, False),
        (192, 4, 0, False),
        (64, 3, 2, False),
        (128, 6, 2, True),
        (64, 1, 1, True),
    ):
        at = layout.scale_factor_location(rows, scales, id_, split)
        expected = np.stack(np.broadcast_arrays(*at), -1).transpose(1, 2, 0, 3).reshape(-1, 3)
        assert np.array_equal(page().run(script, rows, scales, id_, split), expected)
    for shape in ("128x256b", "4x256b", "32x128b.warpx4", "64x128b.warpx2::02_13", "64x128b.warpx2::01_23"):
        lanes = layout.copy_destination(*shape.partition(".")[::2]).lanes
        got = page().run(
            "return Array.from({length: arguments[1]}, (_, i) => ptxlab.formulas.copyLanes(arguments[0], i))", shape, len(lanes)
        )
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


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
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
        found = page("kind=i8&n=32")
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
    found = page("n=64")
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


@pytest.mark.parametrize(
    "fragment",
    [
        "",
        "op=wgmma&asrc=registers&a=e4m3&n=32",
        "op=ld&shape=16x32bx2&num=4&pack=1",
        "op=cp&cp=4x256b",
        "kind=mxf4&group=2&m=128",
        "m=32&ws=1&n=64&sparse=1",
    ],
)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_page_draws_without_scrolling_sideways(page: Any, fragment: str, theme: str, tmp_path: Path) -> None:
    found = page(fragment)
    found.run("setTheme(arguments[0])", theme)
    assert found.run("return document.documentElement.scrollWidth <= innerWidth")
    colors = found.run("""const c = document.getElementById('grid-canvas'), s = new Set();
        const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 0; i < d.length; i += 4) s.add((d[i] << 16) | (d[i + 1] << 8) | d[i + 2]);
        return s.size""")
    assert colors > 8
    found.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


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
