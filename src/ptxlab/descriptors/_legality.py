"""Is an instruction legal with these descriptors and addresses? The rules that need more than one of them."""

from __future__ import annotations

from collections.abc import Iterator

from ptxlab.descriptors._bitfields import Finding
from ptxlab.descriptors._instruction import InstructionDescriptor
from ptxlab.descriptors._register_operands import TensorMemoryAddress, ZeroColumnMask
from ptxlab.descriptors._shared_memory import SharedMemoryDescriptor
from ptxlab.layout import Major, fragment
from ptxlab.tables import DATA_PATHS, FRAGMENT_LANES, K96_TARGETS, LOAD_REGISTERS, MMA_KINDS, TENSOR_MEMORY_COLUMNS, TYPE_BITS

__all__ = ["check_fragment", "check_mma"]

_PATHS = "Data Path Layout Organization"
_ABSOLUTE = "Absolute address mode for K dimension being 48B"
_LOAD = 'tcgen05.ld, table "Various-combinations of .num and .shape"'


def check_mma(
    i: InstructionDescriptor,
    cta_group: int = 1,
    ws: bool = False,
    sparse: bool | None = None,
    scale_vector: str | None = None,
    a: SharedMemoryDescriptor | TensorMemoryAddress | None = None,
    b: SharedMemoryDescriptor | None = None,
    d: TensorMemoryAddress | None = None,
    metadata: TensorMemoryAddress | None = None,
    zero_columns: ZeroColumnMask | None = None,
    target: str | None = None,
) -> list[Finding]:
    """Every rule of the tables that a tcgen05.mma breaks.

    Parameters
    ----------
    i : the instruction descriptor
    cta_group, ws, sparse, scale_vector : qualifiers, as of `InstructionDescriptor.findings`
    a, b, d, metadata, zero_columns : operands; what is None is not checked
    target : ``sm_100a``, ``sm_103a``, ...; None: not checked

    Examples
    --------
    >>> i = InstructionDescriptor(kind="f16", m=64, n=64, a="f16", b="f16")
    >>> [str(f) for f in check_mma(i, d=TensorMemoryAddress(lane=8))]
    ['matrix D begins at lane 8; with layout F it must be 0 or 16 (Data Path Layout Organization)']
    """
    found = i.findings(cta_group, ws, sparse, scale_vector)
    is_sparse = i.sparse if sparse is None else sparse
    for name, operand in (("a", a), ("b", b)):
        if isinstance(operand, SharedMemoryDescriptor):
            found += _check_operand(i, name, operand, target)
    if isinstance(a, TensorMemoryAddress) and i.transpose_a:
        message = "matrix A in tensor memory is K-major; it cannot be transposed"
        found.append(Finding("D701", "transpose_a", message, "Matrix Layout Organization", "clear bit 15"))
    if i.k96 and target is not None and target not in K96_TARGETS:
        found.append(Finding("D703", "k96", f"K = 96 needs {' or '.join(K96_TARGETS)}, not {target}", "Matrix Shape"))
    found += _check_lanes(i, cta_group, ws, is_sparse, (("D", d), ("A", a), ("the sparsity metadata", metadata)))
    if zero_columns is not None:
        found += zero_columns.findings(i.m, i.max_shift)
    return found


def _check_operand(i: InstructionDescriptor, name: str, d: SharedMemoryDescriptor, target: str | None) -> list[Finding]:
    major: Major = "mn" if getattr(i, f"transpose_{name}") else "k"
    found = d.findings(major, TYPE_BITS.get(getattr(i, name), MMA_KINDS[i.kind].container))
    if d.leading_mode == "absolute":
        if not i.k96:
            found.append(Finding("D702", "leading_mode", "the absolute leading dimension is for K = 96 only", _ABSOLUTE, "clear bit 52"))
        if target is not None and target not in K96_TARGETS:
            message = f"the absolute leading dimension needs {' or '.join(K96_TARGETS)}, not {target}"
            found.append(Finding("D702", "leading_mode", message, "Shared memory descriptor, Target ISA Note"))
    return found


def _check_lanes(
    i: InstructionDescriptor,
    cta_group: int,
    ws: bool,
    sparse: bool,
    operands: tuple[tuple[str, SharedMemoryDescriptor | TensorMemoryAddress | None], ...],
) -> Iterator[Finding]:
    path = DATA_PATHS.get((i.m, cta_group, ws, sparse))
    if path is None:
        return
    lanes = {}
    for name, address in operands:
        if not isinstance(address, TensorMemoryAddress):
            continue
        what = f"matrix {name}" if len(name) == 1 else name
        yield from address.findings()
        if address.lane not in path.alignment:
            allowed = " or ".join(map(str, path.alignment))
            message = f"{what} begins at lane {address.lane}; with layout {path.letter} it must be {allowed}"
            yield Finding("T611", "lane", message, _PATHS, "correct bits 16-31 of the address")
        lanes[what] = address.lane
        end = address.column + i.n // path.banks
        if name == "D" and end > TENSOR_MEMORY_COLUMNS:
            message = f"matrix D takes columns {address.column} to {end - 1}; there are {TENSOR_MEMORY_COLUMNS}"
            yield Finding("T607", "column", message, _PATHS)
    if len(set(lanes.values())) > 1:
        listed = ", ".join(f"{what} at {lane}" for what, lane in lanes.items())
        message = f"operands in tensor memory begin at different lanes: {listed}"
        yield Finding("T611", "lane", message, f"{_PATHS}, Alignment restriction", "use one lane for all of them")


def check_fragment(
    shape: str, num: int = 1, address: TensorMemoryAddress | None = None, warp: int | None = None, pack: bool = False, split: int = 0
) -> list[Finding]:
    """Every rule of the specification that a tcgen05.ld or st breaks.

    Parameters
    ----------
    shape, num, pack, split : as of `ptxlab.layout.fragment`
    address : the tensor memory address
    warp : index of the warp in the warpgroup, which reaches lanes 32 * warp to 32 * warp + 31

    Examples
    --------
    >>> [str(f) for f in check_fragment("32x32b", 4, TensorMemoryAddress(lane=32), warp=0)]
    ['lane 32 is out of reach of warp 0, which has lanes 0 to 31 (Access restrictions)']
    """
    if (shape, num) not in LOAD_REGISTERS:
        known = [str(n) for s, n in LOAD_REGISTERS if s == shape]
        message = (
            f".x{num} does not exist for .{shape}; it can be .x{known[0]} to .x{known[-1]}" if known else f"there is no shape .{shape}"
        )
        return [Finding("T613", "num", message, _LOAD)]
    if address is None:
        return []
    found = address.findings()
    allowed = FRAGMENT_LANES[shape]
    if address.lane % 32 not in allowed:
        message = f"lane {address.lane} for .{shape}: lane % 32 must be {' or '.join(map(str, allowed))}"
        found.append(Finding("T611", "lane", message, "Access restrictions"))
    if warp is not None and address.lane // 32 != warp % 4:
        first = warp % 4 * 32
        message = f"lane {address.lane} is out of reach of warp {warp}, which has lanes {first} to {first + 31}"
        fix = f"add {first} << 16 to the address of the warp's first lane"
        found.append(Finding("T611", "lane", message, "Access restrictions", fix))
    last = address.column + int(fragment(shape, num, pack, split).column.max()) + pack
    if last >= TENSOR_MEMORY_COLUMNS:
        found.append(Finding("T607", "column", f"columns {address.column} to {last}; there are {TENSOR_MEMORY_COLUMNS}", "Tensor Memory"))
    return found
