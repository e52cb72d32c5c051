"""tcgen05.mma, cp, shift and commit: asynchronous operations of the tensor core."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ptxlab.descriptors import InstructionDescriptor, SharedMemoryDescriptor
from tests.check.race.order_table.copies import LAST_WAIT, WAIT
from tests.check.race.order_table.frames import LAST, PAIR_OF_CTAS, PEER
from tests.check.race.order_table.pair import Pair
from tests.check.race.order_table.tensor_memory import (
    ADDRESS,
    ALLOC,
    BLOCK,
    COMMIT,
    DEALLOC,
    END,
    FENCE,
    FILL_SHARED,
    FILL_TENSOR,
    INIT,
    MEET,
    MEET_PAIR,
    PROXY,
    ST,
    START,
    WAIT_LD,
    WAIT_ST,
)
from tests.check.race.order_table.tensor_memory import WAIT as WAITS

INITIALISED = "Parallel Synchronization and Communication Instructions: mbarrier.init"
PIPELINED = "Pipelined tcgen05 Instructions"
DESCRIPTOR = int(SharedMemoryDescriptor(start=0, leading=128, stride=512, swizzle="none"))
"""Of 8 KiB: no swizzling, K-major, four core matrices side by side."""
OPERANDS = (
    f"shr.u32 %t, %smem, 4;\ncvt.u64.u32 %adesc, %t;\nor.b64 %adesc, %adesc, {DESCRIPTOR:#x};\nadd.u64 %bdesc, %adesc, 512;\n"
    "add.u32 %ta, %tmem, 128;\nadd.u32 %sfa, %tmem, 256;\nadd.u32 %sfb, %tmem, 272;\nadd.u32 %meta, %tmem, 288;\n"
    "setp.eq.u32 %enable, %tid, %tid;\n"
)
"""A and B in 8 KiB of shared memory each, D, A, scale factors and metadata in tensor memory."""
ONE = FILL_SHARED + START + OPERANDS
PAIR = (
    FILL_SHARED
    + PEER
    + ALLOC.replace("::1", "::2")
    + INIT
    + "fence.mbarrier_init.release.cluster;\n"
    + MEET_PAIR
    + ADDRESS
    + FILL_TENSOR
    + "mov.b16 %h0, 3;\n"
    + MEET_PAIR
    + OPERANDS
)
END_PAIR = "\n" + MEET_PAIR + DEALLOC.replace("::1", "::2") + LAST
COMMIT_ONE = "@%first tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%mbar];\n"
COMMIT_PAIR = "@%first0 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%mbar], %h0;\n"
ACQUIRED = WAIT + "\ntcgen05.fence::after_thread_sync;"
LD = "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r9}, [%at];\n"


SECOND_WAIT = "BETWEEN: mbarrier.try_wait.parity.shared::cta.b64 %done, [%mbar2], 0;\n@!%done bra BETWEEN;\n"


class Frame(NamedTuple):
    """What stands around the instruction, for a CTA and for a pair; who issues it, and the warp of that thread."""

    start: str
    commit: str
    end: str
    thread: str
    warp: str
    options: dict[str, Any]

    def kernel(self, before: str = "", after: str = "") -> str:
        """With what stands before and behind the instruction."""
        return f"{self.start}{before}@{self.thread} FORM\n{self.commit}{after}{self.end}"


FRAMES = {
    1: Frame(ONE, COMMIT_ONE, LAST_WAIT + END, "%first", "%warp0", BLOCK),
    2: Frame(PAIR, COMMIT_PAIR, LAST_WAIT + END_PAIR, "%first0", "%lead", PAIR_OF_CTAS | BLOCK),
}


def reads_shared(form: str, group: int, what: str, offset: int) -> Iterator[Pair]:
    """An operand in shared memory, read through the async proxy; the last of the pairs is of what comes behind the instruction."""
    f, accesses = FRAMES[group], f"reads {what} in shared memory, async proxy"
    write = f"st.shared.b32 [%smem+{offset}], %smem;\n"
    fence = "fence.proxy.async.shared::cta;"
    yield Pair((form,), accesses, f.kernel(f"@{f.thread} {write}ORDER\n"), fence, PROXY, "X102", options=f.options)
    if group == 2:
        others = f"@%first1 {write}ORDER\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        yield Pair((form,), f"{accesses}, of both CTAs", f.kernel(others), fence, PROXY, "X102", options=f.options)
    yield Pair((form,), accesses, f.kernel(after=f"ORDER\n@{f.thread} {write}"), ACQUIRED, COMMIT, "X106", options=f.options)


def reads_tensor(form: str, group: int, what: str, register: str) -> Iterator[Pair]:
    """An operand in tensor memory."""
    f, accesses = FRAMES[group], f"reads {what} in tensor memory"
    store = f"@{f.warp} tcgen05.st.sync.aligned.32x32b.x1.b32 [{register}], {{%r127}};\n"
    yield Pair((form,), accesses, f.kernel(store + "ORDER\n", WAIT_ST), WAIT_ST, WAITS, "X107", options=f.options)
    yield Pair((form,), accesses, f.kernel(after=f"ORDER\n{store}{WAIT_ST}"), ACQUIRED, COMMIT, "X106 X105", options=f.options)


def writes_tensor(form: str, group: int) -> Iterator[Pair]:
    """The destination in tensor memory."""
    f, accesses = FRAMES[group], "writes tensor memory"
    load = f"@{f.warp} {LD}"
    yield Pair((form,), accesses, f.kernel(load + "ORDER\n", WAIT_LD), WAIT_LD, WAITS, "X108", options=f.options)
    yield Pair((form,), accesses, f.kernel(after=f"ORDER\n{load}{WAIT_LD}"), ACQUIRED, COMMIT, "X105", options=f.options)


class Product(NamedTuple):
    """A form of tcgen05.mma: its name behind ``tcgen05.mma``, the type of A and B, and whether A is in tensor memory.

    ``all``: with all operands, and the accesses of others both before and behind the instruction; the rest have B with A in shared memory
    only, and the two alternate from operand to operand.
    """

    name: str
    a: str
    tensor: bool = False
    all: bool = False

    @property
    def kind(self) -> str:
        return self.name.partition("kind::")[2].partition(".")[0]

    @property
    def sparse(self) -> bool:
        return ".sp." in self.name

    @property
    def scaled(self) -> bool:
        return "block_scale" in self.name

    @property
    def group(self) -> int:
        return 2 if "cta_group::2" in self.name else 1

    def form(self) -> str:
        """The instruction."""
        scale = {"scale": "ue4m3" if "block16" in self.name else "ue8m0"} if self.scaled else {}
        d = "s32" if self.a == "s8" else "f32"
        idesc = InstructionDescriptor(self.kind, 128 * self.group, 64, self.a, self.a, d, sparse=self.sparse, **scale)
        operands = ["[%tmem]", "[%ta]" if self.tensor else "%adesc", "%bdesc", *(["[%meta]"] if self.sparse else []), f"{int(idesc):#x}"]
        operands += ["[%sfa]", "[%sfb]"] if self.scaled else []
        return f"tcgen05.mma{self.name} {', '.join(operands)}, %enable;"

    def pairs(self) -> Iterator[Pair]:
        """What each of its operands needs."""
        form, group = self.form(), self.group
        operands = [reads_tensor(form, group, "A", "%ta") if self.tensor else reads_shared(form, group, "A", 0)]
        operands += [reads_shared(form, group, "B", 8192)] if self.all or not self.tensor else []
        operands += [reads_tensor(form, group, "metadata", "%meta")] if self.sparse else []
        if self.scaled:
            operands += [reads_tensor(form, group, f"scale factors of {name}", f"%sf{name.lower()}") for name in "AB"]
        for number, pairs in enumerate((*operands, writes_tensor(form, group))):
            found = tuple(pairs)
            yield from found if self.all else found[-1:] if number % 2 or number == len(operands) else found[:-1]


PRODUCTS = (
    *(
        product
        for group in ("cta_group::1", "cta_group::2")
        for sparse in ("", ".sp")
        for product in (
            Product(f"{sparse}.{group}.kind::f16", "f16", all=True),
            Product(f"{sparse}.{group}.kind::tf32", "tf32", tensor=True),
            Product(f"{sparse}.{group}.kind::f16.ashift", "bf16", tensor=True),
            Product(f"{sparse}.{group}.kind::i8", "s8"),
            Product(f"{sparse}.{group}.kind::f8f6f4", "e4m3", tensor=True),
            Product(f"{sparse}.{group}.kind::f8f6f4.ashift", "e5m2", tensor=True),
        )
    ),
    *(
        Product(f"{sparse}.{group}.kind::{kind}.block_scale{vector}", a, tensor, all=vector == "")
        for sparse in ("", ".sp")
        for kind, vector, a, group, tensor in (
            ("mxf8f6f4", "", "e4m3", "cta_group::1", False),
            ("mxf8f6f4", ".block32", "e5m2", "cta_group::2", True),
            ("mxf4", ".block32", "e2m1", "cta_group::2", False),
            ("mxf4", "", "e2m1", "cta_group::1", True),
            ("mxf4nvf4", ".block16", "e2m1", "cta_group::1", False),
            ("mxf4nvf4", ".block16", "e2m1", "cta_group::2", True),
        )
    ),
    Product(".ws.cta_group::1.kind::f16", "f16", all=True),
    Product(".ws.cta_group::1.kind::f8f6f4", "e4m3", tensor=True),
    Product(".ws.sp.cta_group::1.kind::tf32", "tf32"),
    Product(".ws.sp.cta_group::1.kind::i8", "s8", tensor=True),
)
COPIES = tuple(
    (f"tcgen05.cp.cta_group::{group}.{shape} [%tmem], %adesc;", group)
    for group, shape in (
        (1, "128x256b"),
        (1, "128x128b"),
        (2, "128x128b.b8x16.b6x16_p32"),
        (1, "4x256b"),
        (1, "32x128b.warpx4"),
        (1, "64x128b.warpx2::02_13"),
        (2, "64x128b.warpx2::01_23"),
    )
)
SHIFTS = (("tcgen05.shift.cta_group::1.down [%tmem];", 1), ("tcgen05.shift.cta_group::2.down [%tmem];", 2))


def moves() -> Iterator[Pair]:
    """tcgen05.cp and tcgen05.shift."""
    for form, group in COPIES:
        yield from reads_shared(form, group, "the source", 0)
        yield from writes_tensor(form, group)
    for form, group in SHIFTS:
        yield from writes_tensor(form, group)


MMA = PRODUCTS[0].form()
MMA_PAIR = next(product for product in PRODUCTS if product.group == 2).form()
SYNCHRONISATION = (
    Pair(
        (
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%mbar];",
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.b64 [%mbar];",
        ),
        "arrives when the operations of the thread are complete",
        ONE + "@%first " + MMA + "\nORDER\n" + ACQUIRED + "\n" + LD + WAIT_LD + END,
        "@%first FORM",
        COMMIT,
        "X105",
        ("T612",),
        without="@%first mbarrier.arrive.shared::cta.b64 _, [%mbar];",
        options=BLOCK,
    ),
    Pair(
        ("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%mbar], %h0;",),
        "arrives in both CTAs when the operations of the thread are complete",
        PAIR + "@%first0 " + MMA_PAIR + "\nORDER\n" + ACQUIRED + "\n" + LD + WAIT_LD + END_PAIR,
        "@%first0 FORM",
        COMMIT,
        "X105",
        ("T612",),
        without="@%first0 mbarrier.arrive.shared::cta.b64 _, [%mbar];\n"
        "@%first0 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%peer_mbar];",
        options=PAIR_OF_CTAS | BLOCK,
    ),
    Pair(
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%mbar2];",),
        "tells an mbarrier object",
        ONE
        + INIT.replace("%mbar", "%mbar2").replace("%first", "%second")
        + "ORDER\n@%first "
        + MMA
        + "\n@%first FORM\nbar.sync 0;\n"
        + SECOND_WAIT
        + END,
        "bar.sync 0;",
        INITIALISED,
        "X120 B503",
        options=BLOCK,
    ),
    Pair(
        (MMA,),
        "uses tensor memory until it is complete",
        ONE + "@%first FORM\n" + COMMIT_ONE + "ORDER\n" + MEET + DEALLOC + LAST_WAIT,
        ACQUIRED,
        COMMIT,
        "T612",
        options=BLOCK,
    ),
    Pair(
        ("tcgen05.fence::after_thread_sync;",),
        "orders what follows behind what others have done",
        ONE + "@%first " + MMA + "\n" + COMMIT_ONE + WAIT + "\nORDER\n" + LD + WAIT_LD + END,
        "FORM",
        FENCE,
        "X115",
        options=BLOCK | {"model": "spec"},
    ),
    Pair(
        ("tcgen05.fence::before_thread_sync;",),
        "orders what stands before it before what others do",
        ONE
        + "@%warp0 "
        + ST
        + "\n"
        + WAIT_ST
        + "\nORDER\nbar.sync 0;\ntcgen05.fence::after_thread_sync;\n@%second "
        + MMA
        + "\n"
        + COMMIT_ONE.replace("%first", "%second")
        + LAST_WAIT
        + "\ntcgen05.fence::after_thread_sync;"
        + END,
        "FORM",
        FENCE,
        "X115",
        options=BLOCK | {"model": "spec"},
    ),
)

# -------------------------------------------------------------------------------------- two operations of one thread, one after the other
CP, CP_4X256B, SHIFT = COPIES[0][0], "tcgen05.cp.cta_group::1.4x256b [%tmem], %adesc;", SHIFTS[0][0]
NARROW = MMA.replace(
    f"{int(InstructionDescriptor('f16', 128, 64, 'f16', 'f16')):#x}", f"{int(InstructionDescriptor('f16', 128, 32, 'f16', 'f16')):#x}"
)
COMPLETED = COMMIT_ONE.replace("%mbar", "%mbar2") + SECOND_WAIT + "tcgen05.fence::after_thread_sync;"
TWO = INIT.replace("%mbar", "%mbar2") + ONE + "@%first EARLIER\nORDER\n@%first FORM\n" + COMMIT_ONE + LAST_WAIT + END
SPEC = BLOCK | {"model": "spec"}


def successors() -> Iterator[Pair]:
    """Section "Pipelined tcgen05 Instructions": five pairs execute in the order of issue, all others need the first to be complete."""
    for earlier, later in ((MMA, MMA), (CP, MMA), (SHIFT, MMA), (SHIFT, CP_4X256B), (MMA, SHIFT)):
        for options in (BLOCK, SPEC):
            yield Pair((later,), "pipelined behind the one before", TWO.replace("EARLIER", earlier), "", PIPELINED, options=options)
    for earlier, later, options in (
        (MMA, NARROW, SPEC),
        (MMA, CP, SPEC),
        (CP, SHIFT, BLOCK),
        (CP, SHIFT, SPEC),
        (SHIFT, CP, BLOCK),
        (SHIFT, CP, SPEC),
        (CP, CP.replace("%adesc", "%bdesc"), SPEC),
        (SHIFT, SHIFT, BLOCK),
        (SHIFT, SHIFT, SPEC),
    ):
        accesses = "writes what the one before reads or writes"
        yield Pair((later,), accesses, TWO.replace("EARLIER", earlier), COMPLETED, PIPELINED, "X105", options=options)
    stores = START + ST + "\nORDER\nFORM\n" + WAIT_ST + "\n" + END
    yield Pair((ST,), "writes what the store before writes", stores, WAIT_ST, WAITS, "X107", options=SPEC)
    consumed = START + LD + "st.global.b32 [%out+64], %r9;\nORDER\nFORM\n" + WAIT_ST + END
    used = "writes what the load before reads, whose register has been used"
    yield Pair((ST,), used, consumed, WAIT_LD, WAITS, "X109", options={**BLOCK, "check": "race"})
    yield Pair((ST,), used, consumed, WAIT_LD, WAITS, "X108", always=("R809",), options=SPEC)


TABLE: tuple[Pair, ...] = (*(pair for product in PRODUCTS for pair in product.pairs()), *moves(), *SYNCHRONISATION, *successors())
