"""ptxlab layout: what it prints, the files it writes, and what it refuses."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ptxlab import layout
from ptxlab.cli._main import cli
from ptxlab.descriptors import OperandTile

COMMANDS = {
    "accumulator": "accumulator --m 64 --n 32",
    "matrix-a": "matrix-a --m 64 --k 32 --type e4m3 --ws",
    "operand": "operand --rows 64 --k 32 --type bf16 --major mn --swizzle 64B",
    "banks": "banks --rows 64 --k 64 --type f16 --access column",
    "fragment": "fragment --shape 16x256b --num 2",
    "wgmma": "wgmma --n 16",
    "copy": "copy --shape 32x128b.warpx4",
    "scales": "scales --rows 128 --scales 2 --id 2",
    "metadata": "metadata --kind f16 --m 128 --selector 1",
}


def call(line: str) -> Result:
    return CliRunner().invoke(cli, ["layout", *line.split()])


@pytest.mark.parametrize("name", COMMANDS)
def test_text_svg_html_and_json(name: str, tmp_path: Path) -> None:
    text = call(COMMANDS[name])
    assert text.exit_code == 0
    assert "\x1b" not in text.output
    result = call(f"{COMMANDS[name]} --svg {tmp_path}/p.svg --html {tmp_path}/p.html --json")
    assert result.exit_code == 0
    assert json.loads(result.output)["title"] == text.output.splitlines()[0]
    svg = (tmp_path / "p.svg").read_text()
    ET.fromstring(svg)
    assert svg in (tmp_path / "p.html").read_text()
    quiet = call(f"{COMMANDS[name]} --svg {tmp_path}/p.svg")
    assert (quiet.exit_code, quiet.output) == (0, "")


def test_json_has_the_arrays() -> None:
    found = json.loads(call("accumulator --m 128 --n 64 --cta-group 2 --json").output)
    at = layout.accumulator_location(128, 64, 2)
    assert (found["layout"], found["organization"]) == ("B", "2x2")
    assert np.array_equal(found["cta"], at.cta)
    assert np.array_equal(found["column"], at.column)
    found = json.loads(call("operand --rows 64 --k 128 --type f16 --start 0x400 --json").output)
    tile = OperandTile(64, 128, "f16", start=0x400)
    assert np.array_equal(found["addresses"], tile.addresses())
    assert int(found["descriptor"], 16) == int(tile.descriptor())


def test_a_step_along_k_and_a_descriptor() -> None:
    first = call("operand --rows 64 --k 128 --type f16 --start 0x400 --step 5").output.splitlines()[0]
    assert first == "MMA 5, k 80-95: start address 0x2420, descriptor 0x4000404000010242"
    given = json.loads(call("operand --rows 8 --k 16 --type f16 --descriptor 0x4000404000010042 --json").output)
    assert given["start"] == 0x420
    assert given["swizzle"] == "128B"
    wgmma = json.loads(call("operand --rows 8 --k 16 --type f16 --wgmma --descriptor 0x4000004000010042 --json").output)
    assert wgmma["addresses"] == given["addresses"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("accumulator --m 96 --n 32", "Error: no data path layout for M = 96, cta_group::1"),
        ("accumulator --m 32 --n 24 --ws", "Error: N = 24 with data path layout G; N must be a multiple of 32"),
        ("accumulator --m 128 --n 32 --lane 16", "Error: lane 16 with data path layout D, which begins at lane 0 of a warp's 32"),
        ("fragment --shape 16x256b --num 64", "Error: tcgen05.ld has no .16x256b.x64: it would take more than 128 registers"),
        ("wgmma", "Error: give either --n for matrix D or --bits for matrix A"),
        ("banks --rows 64 --k 64 --type f16 --at 64 0", "Error: element (64, 0) is outside the tile of 64 x 64"),
        ("wgmma --n 12", "Error: N = 12; N must be a multiple of 8"),
        ("scales --rows 128 --scales 4 --id 2", "Error: ID 2 with 4 scale factors of a row; it can be 0"),
        ("operand --rows 8 --k 16 --type f16 --start x", "Error: Invalid value for '--start': 'x' is not an integer"),
        (
            "operand --rows 8 --k 16 --type f16 --descriptor 0xe000000000000000",
            "Error: the descriptor's swizzling mode is the invalid code 7",
        ),
        ("copy --shape 128x256b --svg /nowhere/p.svg", "Error: cannot write /nowhere/p.svg: No such file or directory"),
    ],
)
def test_wrong_use(line: str, message: str) -> None:
    result = call(line)
    assert result.exit_code == 2
    assert result.output.splitlines()[-1] == message


@pytest.mark.parametrize(
    ("options", "title"),
    [
        ("", "ldmatrix, 4 matrices: 4 wavefronts, no conflicts"),
        ("--swizzle none --stride 1024 --leading 16", "ldmatrix, 4 matrices: 4 wavefronts, no conflicts"),
        ("--major mn", "ldmatrix, 4 matrices: 4 wavefronts, no conflicts"),
        ("--access row", "ld or st of 4 bytes by 32 threads along a row: 1 wavefront, no conflicts"),
        ("--access row --size 16", "ld or st of 16 bytes by 8 threads along a row: 1 wavefront, no conflicts"),
        ("--access column", "ld or st of 4 bytes by 32 threads along a column: 4 wavefronts, of which conflicts cost 3"),
        ("--access column --at 40 0", "ld or st of 4 bytes by 24 threads along a column: 3 wavefronts, of which conflicts cost 2"),
    ],
)
def test_bank_conflicts(options: str, title: str) -> None:
    assert call(f"banks --rows 64 --k 64 --type f16 {options}").output.splitlines()[0] == title


def test_refused_tiles_are_diagnostics() -> None:
    result = call("operand --rows 12 --k 64 --type f16")
    assert result.exit_code == 2
    assert result.output.startswith("error[D731]: a tile of 12 x 64 elements of type .f16, K-major")
    result = call("operand --rows 12 --k 64 --type f16 --json")
    assert [d["code"] for d in json.loads(result.output)["diagnostics"]] == ["D731"]
    assert call("operand --rows 64 --k 64 --type f16 --step 4").exit_code == 2


def test_explorer(tmp_path: Path) -> None:
    result = call(f"explorer -o {tmp_path}/page.html")
    assert (result.exit_code, result.output) == (0, f"wrote {tmp_path}/page.html\n")
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
