"""All diagnostic codes, by area."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from ptxlab._records import dataclass

__all__ = ["CODES", "READING_ORDER", "CodeInfo", "Severity"]

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True)
class CodeInfo:
    """The meaning of a code.

    Attributes
    ----------
    code : the stable name, a letter for the area and three digits (``M401``)
    severity : the severity that diagnostics of this code have unless they say otherwise
    title : one line
    section : the section title of the PTX ISA that gives the rule, or an empty string
    brief : whether the text output shows the message, the places and the number only; the JSON output has all
    """

    code: str
    severity: Severity
    title: str
    section: str = ""
    brief: bool = False


_SET = "Instruction Set"
_OPERANDS = "Instruction Operands"
_TARGET = "PTX Module Directives: .target"
_PARAMETERS = "Kernel Function Parameters"
_ALLOCATION = "Tensor Memory Allocation and Management Instructions"
_COMBINATIONS = "Valid Combinations of Type-Size, Major-ness and Swizzling"
_COMMIT = "TensorCore 5th Generation Async Synchronization Operations"
_LAYOUT = "Canonical Layouts"
_MMA = "TensorCore 5th Generation Matrix Multiply and accumulate Operations"
_MBARRIER = "Parallel Synchronization and Communication Instructions: mbarrier"
_BARRIER = "Parallel Synchronization and Communication Instructions: bar, barrier"
_CLUSTER = "Parallel Synchronization and Communication Instructions: barrier.cluster"
_BULK = "Data Movement and Conversion Instructions: cp.async.bulk"
_REPLACE = "Data Movement and Conversion Instructions: tensormap.replace"
_TENSOR = "Data Movement and Conversion Instructions: cp.async.bulk.tensor"
_WARPGROUP = "Warpgroup"
_WARPGROUPS_MMA = "Asynchronous wgmma Instructions: wgmma.mma_async"
_SCALING = "Block Scaling for mma.sync"
_MODEL = "Memory Consistency Model for 5th generation of TensorCore operations"
_PIPES = "mbarrier based completion mechanism"
_WAIT = "tcgen05.wait instruction based completion mechanism"
_COPIES = "Data Movement and Conversion Instructions: Asynchronous copy"
_GENERAL = "Memory Consistency Model"

_CODES = (
    # The PTX front end (S1xx), and binary files that carry PTX (S2xx).
    CodeInfo("S101", "error", "the text does not follow the grammar"),
    CodeInfo("S102", "error", "a character that PTX does not use"),
    CodeInfo("S103", "error", "a comment, string or section that does not end"),
    CodeInfo("S104", "error", "no .version directive", "PTX Module Directives: .version"),
    CodeInfo("S105", "error", "no .target directive", "PTX Module Directives: .target"),
    CodeInfo("S106", "error", "an unknown or misplaced directive", "Directives"),
    CodeInfo("S107", "error", "a name declared twice in one scope", "Identifiers"),
    CodeInfo("S108", "error", "a malformed number", "Constants"),
    CodeInfo("S109", "error", "a constant expression that has no value", "Constant Expressions"),
    CodeInfo("S110", "error", "nested too deeply"),
    CodeInfo("S111", "error", "an unknown type", "Fundamental Types"),
    CodeInfo("S112", "error", "a subtracted address offset", "Addresses as Operands"),
    CodeInfo("S113", "error", "a module header that contradicts itself", "PTX Module Directives"),
    CodeInfo("S114", "error", "an indexed array element as operand", "Arrays as Operands"),
    CodeInfo("S201", "error", "a binary file that carries no PTX"),
    CodeInfo("S202", "error", "a binary file that is damaged"),
    CodeInfo("S203", "error", "compressed PTX that needs a package which is not installed"),
    # Static legality.
    CodeInfo("L101", "error", "no instruction of this name", _SET),
    CodeInfo("L102", "error", "a modifier that the instruction does not have", _SET),
    CodeInfo("L103", "error", "a modifier is missing", _SET),
    CodeInfo("L104", "error", "a modifier is given twice, or two of which only one can be given", _SET),
    CodeInfo("L105", "error", "modifiers or operands that do not go together", _SET),
    CodeInfo("L106", "error", "the target does not have the instruction or feature", _TARGET),
    CodeInfo("L107", "error", "the PTX ISA version does not have the instruction or feature", "PTX Module Directives: .version"),
    CodeInfo("L108", "error", "the target is unknown, or younger than the PTX ISA version", _TARGET),
    CodeInfo("L109", "error", "there is no such PTX ISA version", "PTX Module Directives: .version"),
    CodeInfo("L110", "error", "the wrong number of operands", _OPERANDS),
    CodeInfo("L111", "error", "an operand of the wrong kind or type", _OPERANDS),
    CodeInfo("L112", "error", "a vector of the wrong length", _OPERANDS),
    CodeInfo("L113", "error", "a constant outside its range", _OPERANDS),
    CodeInfo("L114", "error", "a register stands twice in a destination vector", _OPERANDS),
    CodeInfo("L115", "error", "tcgen05 instructions with different .cta_group in one kernel", "Issue Granularity"),
    CodeInfo("L121", "note", "modifiers in another order than the specification's", _SET),
    CodeInfo("L122", "warning", "a modifier of other instructions, which the assembler ignores", _SET),
    CodeInfo("L123", "warning", "a repeated modifier, which the assembler takes", _SET),
    CodeInfo("L124", "note", "an operand form that the specification does not have but the assembler takes", _OPERANDS),
    CodeInfo("L125", "warning", "operands that the specification does not have but the assembler takes", _OPERANDS),
    CodeInfo("L126", "warning", "a modifier that the specification requires and the assembler does not", _SET),
    CodeInfo("L127", "note", "a target that has been renamed", _TARGET),
    CodeInfo("L128", "note", "a feature that the assembler has and the specification's text does not", _SET),
    CodeInfo("L130", "warning", "a PTX ISA version newer than those that ptxlab knows", "PTX Module Directives: .version"),
    CodeInfo("L141", "note", "code that no path of a kernel reaches", "Control Flow Instructions"),
    CodeInfo("L142", "note", "a value, variable or function that nothing uses", "Identifiers"),
    CodeInfo("L129", "note", "an instruction that ptxlab does not execute and whose legality it does not know", _SET),
    # Lowering, and faults of compiled code.
    CodeInfo("U201", "error", "an instruction that ptxlab knows but does not execute yet", "Instruction Set"),
    CodeInfo("U202", "error", "an unknown instruction or modifier", "Instruction Set"),
    CodeInfo("U203", "error", "an undeclared register", "Identifiers"),
    CodeInfo("U204", "error", "an undeclared label", "Labels and Function Names as Operands"),
    CodeInfo("U205", "error", "an undeclared variable", "Identifiers"),
    CodeInfo("U206", "error", "an operand of the wrong type or width", "Operand Type Information"),
    CodeInfo("U207", "error", "the wrong number of operands", _OPERANDS),
    CodeInfo("U208", "error", "a guard that is not a predicate register", "Predicated Execution"),
    CodeInfo("U210", "error", "a function without a body", "Kernel and Function Directives"),
    CodeInfo("R802", "error", "an undefined register decides an address, a branch or a descriptor", "Register State Space"),
    CodeInfo("R808", "error", "an undefined value goes to memory that others read", "Register State Space"),
    CodeInfo("R803", "error", "a thread that is not in its own membermask", "Data Movement and Conversion Instructions: shfl.sync"),
    CodeInfo("R804", "error", "the index of an indexed branch is too large", "Control Flow Instructions: brx.idx"),
    CodeInfo("M408", "error", "access outside local memory", "Local State Space"),
    CodeInfo("M409", "error", "access outside the kernel parameters", "Parameter State Space"),
    CodeInfo("T621", "error", "access to tensor memory that is not allocated", "Tensor Memory Allocation and Management Instructions"),
    CodeInfo("T622", "error", "access beyond the columns of tensor memory", "Tensor Memory Addressing"),
    CodeInfo("T623", "error", "access to lanes that belong to another warp", "Tensor Memory and Register Load/Store Instructions"),
    CodeInfo("T624", "error", "a tensor-memory address that differs between threads", "Tensor Memory and Register Load/Store Instructions"),
    CodeInfo("T625", "error", "a target without tensor memory", "Tensor Memory"),
    CodeInfo("T626", "error", "a partial warp accesses tensor memory", "Tensor Memory and Register Load/Store Instructions"),
    # Values, formats and layouts (N1xx, L2xx).
    CodeInfo("D741", "error", "an operation on layouts that is not defined", "Canonical Layouts"),
    CodeInfo("D742", "error", "text that is not a layout in CuTe notation", "Canonical Layouts"),
    CodeInfo("N102", "error", "a format, value or mode that does not exist or does not fit"),
    CodeInfo("N101", "error", "an argument that an arithmetic function cannot take"),
    CodeInfo("D731", "error", "a value that a field of the descriptor cannot hold"),
    CodeInfo("D732", "error", "a tensor map that the driver refuses", "Tensor-map"),
    # Launch files.
    CodeInfo("F101", "error", "the launch file or campaign file cannot be read"),
    CodeInfo("F102", "error", "the launch file or campaign file is not TOML"),
    CodeInfo("F103", "error", "a key of the launch file or campaign file is unknown, missing or of the wrong type"),
    CodeInfo("F104", "error", "an array of the launch file cannot be made"),
    CodeInfo("F106", "error", "an output depends on when asynchronous operations perform"),
    CodeInfo("F105", "error", "an output differs from what the launch file expects"),
    # Launches: arguments, memory, progress.
    CodeInfo("A301", "error", "the module has no such kernel"),
    CodeInfo("A302", "error", "the number of arguments differs from the number of parameters", _PARAMETERS),
    CodeInfo("A303", "error", "an argument has the wrong type for its parameter", _PARAMETERS),
    CodeInfo("A304", "error", "a number does not fit its parameter", _PARAMETERS),
    CodeInfo("A305", "error", "an argument has the wrong size for its parameter", _PARAMETERS),
    CodeInfo("A306", "error", "an array cannot be used as an argument"),
    CodeInfo("A307", "error", "a buffer was freed or belongs to another device"),
    CodeInfo("A308", "error", "grid, block or cluster is not possible", "Performance-Tuning Directives"),
    CodeInfo("A309", "error", "the launch needs more shared memory than there is"),
    CodeInfo("A310", "error", "an option of the launch is unknown or has a wrong value"),
    CodeInfo("A311", "error", "the device has too little memory"),
    CodeInfo("A312", "error", "the kernel is for another architecture than the device"),
    CodeInfo("A313", "error", "a file cannot be read"),
    CodeInfo("A314", "error", "the kernel declares more local memory or parameters than there can be", "State Spaces"),
    CodeInfo("A315", "error", "a binary file that carries several PTX texts, or none for the wanted target"),
    CodeInfo("A316", "error", "the inputs of the launch were not kept"),
    CodeInfo("A317", "error", "the launch had no such array, or the array has no such element"),
    CodeInfo("A318", "error", "a trace cannot be written"),
    CodeInfo("A319", "note", "a trace does not hold all events"),
    CodeInfo("F107", "error", "the replay bundle cannot be read"),
    CodeInfo("F108", "error", "the replay bundle holds what no launch can be made of"),
    CodeInfo("F109", "error", "a launch of a campaign could not be run"),
    CodeInfo("F110", "error", "the executor cannot be used"),
    CodeInfo("F111", "error", "the results of a campaign cannot be kept in the file"),
    CodeInfo("M401", "error", "access outside every allocation"),
    CodeInfo("M402", "error", "access past the end of an allocation"),
    CodeInfo("M403", "error", "access to freed memory"),
    CodeInfo("M404", "error", "write to read-only memory"),
    CodeInfo("M405", "error", "misaligned access", "Addresses as Operands"),
    CodeInfo("M406", "error", "access outside shared memory", "Shared State Space"),
    CodeInfo("M407", "error", "access to the shared memory of a CTA that is not there", "Shared State Space"),
    CodeInfo("M413", "note", "numbers of another type than the elements of the array", "Operand Size Exceeding Instruction-Type Size"),
    CodeInfo("M410", "note", "the result of floating-point additions depends on their order", "Parallel Synchronization: atom, red"),
    CodeInfo("H601", "error", "the launch can make no progress"),
    CodeInfo("H602", "error", "the instruction budget is used up"),
    CodeInfo("H603", "error", "the kernel executed trap", "Miscellaneous Instructions: trap"),
    CodeInfo("H604", "error", "the kernel executed brkpt", "Miscellaneous Instructions: brkpt"),
    CodeInfo("H606", "error", "an assertion of the kernel failed", "Control Flow Instructions: call"),
    CodeInfo("H607", "error", "a call through a pointer that names no function it may reach", "Control Flow Instructions: call"),
    CodeInfo("H605", "error", "part of a warp executed an instruction that all its threads must execute together"),
    CodeInfo("R801", "error", "an operand differs between the threads of a warp where it must be the same"),
    # Tensor memory (T6xx) and descriptors used at run time (D70x, D71x).
    CodeInfo("T601", "error", "tcgen05.alloc or dealloc with a number of columns that is not allowed", _ALLOCATION),
    CodeInfo("T602", "error", "tcgen05.alloc after tcgen05.relinquish_alloc_permit", _ALLOCATION),
    CodeInfo("T603", "error", "tcgen05.alloc writes its address outside the CTA's shared memory", _ALLOCATION),
    CodeInfo("T604", "error", "tcgen05.dealloc of something that is not allocated so", _ALLOCATION),
    CodeInfo("T605", "error", "tensor memory is still allocated when the CTA exits", _ALLOCATION),
    CodeInfo("T606", "error", "tcgen05 instructions with different .cta_group in one kernel", "Issue Granularity"),
    CodeInfo("T607", "error", "a tensor memory operand outside the columns that the CTA has allocated", _ALLOCATION),
    CodeInfo("T608", "warning", "a tcgen05.alloc of more columns than the one before", _ALLOCATION),
    CodeInfo("T609", "error", "a .cta_group::2 instruction without an active peer CTA", "CTA Pair"),
    CodeInfo("T610", "error", "the two CTAs of a pair allocate different numbers of columns", _ALLOCATION),
    CodeInfo("T611", "error", "a tensor memory address with a lane that the operation does not allow", "Data Path Layout Organization"),
    CodeInfo("T613", "error", "tcgen05.ld or st with a vector of the wrong length", "Tensor Memory and Register Load/Store Instructions"),
    CodeInfo("T612", "error", "tcgen05.dealloc while tcgen05 operations are in flight", _ALLOCATION),
    CodeInfo("T631", "error", "a collector buffer is used without a valid fill", _MMA),
    CodeInfo("T632", "error", "a collector buffer is used with another matrix than the one that fills it", _MMA),
    CodeInfo("T633", "warning", "a tcgen05.commit that has nothing to track", _COMMIT),
    CodeInfo("D701", "error", "the instruction descriptor is not legal for the instruction", "Instruction descriptor"),
    CodeInfo("D702", "error", "the shared memory descriptor is not legal", "Shared memory descriptor"),
    CodeInfo("D703", "error", "a matrix shape that the kind does not support", "Matrix Shape"),
    CodeInfo("D704", "error", "a matrix operand reaches outside shared memory", "Shared memory descriptor"),
    CodeInfo("D705", "error", "a swizzling mode that the operand does not support", _COMBINATIONS),
    CodeInfo("D707", "error", "sparsity metadata that selects no elements", "Sparsity selector"),
    CodeInfo("D708", "error", "scale factors that differ between the groups of 32 lanes", "Block Scaling"),
    CodeInfo("D706", "error", "an operand of tcgen05.mma outside its range", _MMA),
    # Barriers and mbarriers (B5xx).
    CodeInfo("B501", "error", "the address of an mbarrier object is not a multiple of 8", _MBARRIER),
    CodeInfo("B502", "error", "the address of an mbarrier object is not in the shared memory that it must be in", _MBARRIER),
    CodeInfo("B503", "error", "an mbarrier that was never initialised", f"{_MBARRIER}.init"),
    CodeInfo("B504", "error", "an mbarrier count outside its range", _MBARRIER),
    CodeInfo("B505", "error", "more arrivals on an mbarrier than are pending", f"{_MBARRIER}.arrive"),
    CodeInfo("B506", "error", "the transaction count of an mbarrier leaves its range", f"{_MBARRIER}.expect_tx"),
    CodeInfo("B507", "error", "there is no barrier of this number", _BARRIER),
    CodeInfo("B508", "error", "a thread count that a barrier cannot have", _BARRIER),
    CodeInfo("B509", "error", "threads arrive at one barrier with different thread counts", _BARRIER),
    CodeInfo("B510", "error", "more threads arrive at a barrier than it expects", _BARRIER),
    CodeInfo("B511", "error", "a thread arrives twice at the cluster barrier without waiting in between", _CLUSTER),
    CodeInfo("B512", "error", "a thread waits at the cluster barrier without having arrived", _CLUSTER),
    CodeInfo("B513", "error", "a register count that setmaxnreg cannot set", "Miscellaneous Instructions: setmaxnreg"),
    CodeInfo("B514", "error", "an mbarrier is used after mbarrier.inval", f"{_MBARRIER}.inval"),
    CodeInfo("B515", "error", "the memory of an mbarrier object was overwritten", _MBARRIER),
    CodeInfo("B516", "warning", "mbarrier.init of an mbarrier object that is in use", f"{_MBARRIER}.init"),
    CodeInfo("B517", "error", "the predicate of an instruction with .aligned differs between the threads of a warp", _BARRIER),
    CodeInfo("B521", "warning", "the warps of a warpgroup do not execute setmaxnreg together", "Miscellaneous Instructions: setmaxnreg"),
    CodeInfo(
        "B522",
        "warning",
        "all waits on an mbarrier are for one parity, though its phases go on",
        "Parallel Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait",
    ),
    CodeInfo("B518", "note", "setmaxnreg without a known number of registers", "Miscellaneous Instructions: setmaxnreg"),
    # Bulk copies (C9xx) and tensor maps used at run time (D72x).
    CodeInfo("C901", "error", "a bulk copy with an address that is not aligned", _BULK),
    CodeInfo("C902", "error", "a bulk copy of a size that is not allowed", _BULK),
    CodeInfo("C903", "error", "a bulk copy outside shared memory", _BULK),
    CodeInfo("C904", "error", "a bulk copy whose mbarrier is not where the completion can be signalled", _TENSOR),
    CodeInfo("C905", "error", "a CTA mask that names CTAs which are not in the cluster", _TENSOR),
    CodeInfo("O101", "warning", "a matrix operand that is not an image of what was copied to shared memory", _LAYOUT),
    CodeInfo("O102", "warning", "elements of a matrix operand that are the same bytes", _LAYOUT),
    CodeInfo("O103", "warning", "an element type that is not the tensor map's", "Instruction descriptor"),
    CodeInfo("O104", "warning", "products of different k in A and in B", _LAYOUT),
    CodeInfo("O105", "warning", "a K step that does not lead to the next k", _LAYOUT),
    CodeInfo("O106", "warning", "elements of D that are used as another type", "Instruction descriptor"),
    CodeInfo("O107", "warning", "rows of a tile that no instruction multiplies, though D is read with them", "Instruction descriptor"),
    CodeInfo("O108", "warning", "scale factors or metadata that are those of another k", "Scale Factor A ID"),
    CodeInfo("O109", "warning", "elements of D that are stored as if another shape had loaded them", "Data Movement Shape"),
    CodeInfo("D721", "error", "a tensor map at an address that is not aligned", "Tensor-map"),
    CodeInfo("D722", "error", "the tensor map is not valid", "Tensor-map"),
    CodeInfo("D723", "error", "the tensor map has another rank or mode than the instruction", _TENSOR),
    CodeInfo("D724", "error", "coordinates that the tensor map does not allow", _TENSOR),
    CodeInfo("D726", "error", "a reduction that the tensor map's element type does not support", _TENSOR),
    CodeInfo("D727", "error", "tensormap.replace with a value that the field cannot hold", _REPLACE),
    # Warpgroup instructions (W9xx).
    CodeInfo("W901", "error", "wgmma in a warp that belongs to no whole warpgroup", _WARPGROUP),
    CodeInfo("W902", "error", "the warps of a warpgroup execute different wgmma instructions", _WARPGROUPS_MMA),
    CodeInfo("W903", "error", "wgmma in a warp some of whose threads have exited", _WARPGROUPS_MMA),
    CodeInfo("W904", "error", "an immediate of wgmma.mma_async outside its range", _WARPGROUPS_MMA),
    CodeInfo("R806", "warning", "a register is written while wgmma.mma_async may still read it", _WARPGROUPS_MMA),
    CodeInfo(
        "R807",
        "warning",
        "registers of wgmma.mma_async are written without a wgmma.fence after the write",
        "Asynchronous wgmma Instructions: wgmma.fence",
    ),
    CodeInfo("R805", "warning", "a register is used while wgmma.mma_async may still write to it", _WARPGROUPS_MMA),
    CodeInfo("R809", "warning", "a register of tcgen05.ld is used before tcgen05.wait::ld", _WAIT),
    # Warp-level matrix instructions (W91x).
    CodeInfo("W911", "error", "a selector of mma outside its range", _SCALING),
    CodeInfo("W912", "error", "a form of mma that the target does not have", "Target ISA Notes"),
    # The race sanitizer.
    CodeInfo("X101", "error", "two threads access the same shared memory and nothing orders them", _GENERAL),
    CodeInfo("X102", "error", "the async proxy reads or overwrites what a thread wrote, without a proxy fence", "Shared Memory Accesses"),
    CodeInfo("X103", "error", "what an asynchronous copy writes is used before the copy is complete", _COPIES),
    CodeInfo("X104", "error", "the source of an asynchronous copy is overwritten before it has been read", _COPIES),
    CodeInfo("X105", "error", "what a tcgen05 operation writes is used before the operation is complete", _PIPES),
    CodeInfo("X106", "error", "an operand of a tcgen05 operation is overwritten before the operation is complete", _PIPES),
    CodeInfo("X107", "error", "what tcgen05.st writes is used before tcgen05.wait::st", _WAIT),
    CodeInfo("X108", "error", "columns are overwritten that tcgen05.ld may still read", _WAIT),
    CodeInfo("X109", "note", "columns are overwritten whose tcgen05.ld only its consumed registers order", _WAIT),
    CodeInfo("X110", "error", "shared memory is overwritten that wgmma.mma_async may still read", "Asynchronous wgmma Instructions"),
    CodeInfo("X111", "error", "what cp.async writes is used before it is complete", _COPIES),
    CodeInfo("X112", "error", "an asynchronous operation overwrites what a thread may still read or write", _GENERAL),
    CodeInfo(
        "X113",
        "error",
        "tensor memory is used by a warp that nothing orders with its allocation or release",
        "Tensor Memory Allocation and Management Instructions",
    ),
    CodeInfo("X114", "error", "two threads access the same global memory and nothing orders them", _GENERAL),
    CodeInfo("M411", "error", "shared memory is read that nothing has written", "Shared State Space"),
    CodeInfo("M412", "error", "global memory is read that nothing has written", "Global State Space"),
    CodeInfo("T614", "error", "tensor memory is read that nothing has written", "Tensor Memory"),
    CodeInfo(
        "X117", "error", "a tensor map is used after a change without a proxy fence", "Parallel Synchronization: fence.proxy.tensormap"
    ),
    CodeInfo(
        "X118",
        "error",
        "a tensor map is changed while a copy may still use it",
        "Data Movement and Conversion Instructions: tensormap.replace",
    ),
    CodeInfo("X119", "note", "a CTA exits before its bulk stores are known to have read shared memory", _COPIES),
    CodeInfo("X116", "error", "a CTA exits while an asynchronous copy may still use its shared memory", _COPIES),
    CodeInfo(
        "B519",
        "error",
        "nothing keeps a phase of an mbarrier from being over before a thread has seen the one before",
        "Parallel Synchronization and Communication Instructions: mbarrier.test_wait, mbarrier.try_wait",
    ),
    CodeInfo(
        "B520",
        "error",
        "a warp arrives at a barrier again before its last arrival there is complete",
        "Parallel Synchronization and Communication Instructions: bar, barrier",
    ),
    CodeInfo(
        "X120",
        "error",
        "an mbarrier is used by a thread that nothing orders with its initialisation",
        "Parallel Synchronization and Communication Instructions: mbarrier.init",
    ),
    CodeInfo(
        "X121",
        "error",
        "a dependent grid uses, before griddepcontrol.wait, what the grid before uses",
        "Parallel Synchronization and Communication Instructions: griddepcontrol",
    ),
    CodeInfo(
        "X122",
        "error",
        "two strong accesses of different CTAs, and the scope of one does not include the thread of the other",
        "Memory Consistency Model: Morally strong operations",
    ),
    CodeInfo("X123", "note", "two threads write the same bits to the same memory and nothing orders them", _GENERAL, brief=True),
    CodeInfo("X115", "error", "tcgen05 operations of two threads are ordered only if tcgen05.fence stands between them", _MODEL),
    # Programs around kernels: CuTe DSL (I1xx), CUDA C++ (I2xx), host memory, the Triton driver and ``ptxlab exec`` (I3xx).
    CodeInfo("I101", "error", "CuTe DSL is not installed"),
    CodeInfo("I102", "error", "CuTe DSL does not know the target"),
    CodeInfo("I103", "error", "an array that CuTe DSL cannot take"),
    CodeInfo("I104", "error", "an argument that differs from the one that the host function was compiled for"),
    CodeInfo("I105", "error", "the host function calls a CUDA function that ptxlab does not have"),
    CodeInfo("I106", "error", "the host function ended with an error"),
    CodeInfo("I107", "error", "CuTe DSL has written no PTX"),
    CodeInfo("I201", "error", "nvcc is not installed"),
    CodeInfo("I202", "error", "the CUDA compiler refuses the program"),
    CodeInfo("I203", "error", "the CUDA compiler cannot run"),
    CodeInfo("I211", "error", "host code calls a CUDA function that ptxlab does not have"),
    CodeInfo("I212", "error", "the host code has no such function"),
    CodeInfo("I213", "error", "an argument that a host function cannot take"),
    CodeInfo("I301", "error", "a package that the program needs is not installed"),
    CodeInfo("I302", "error", "an argument that a Triton kernel cannot take"),
    CodeInfo("I303", "error", "no device has the target"),
    CodeInfo("I305", "note", "autotuning took the first valid configuration"),
    CodeInfo("I306", "warning", "a benchmark was asked for; its times mean nothing"),
    CodeInfo("I307", "note", "the program asks for a CUDA device; CPU memory is used"),
    CodeInfo("I308", "error", "torch was imported before its CUDA device was installed"),
    CodeInfo("I309", "error", "a function of torch.cuda that CPU tensors cannot have"),
    CodeInfo("I310", "error", "a kernel calls breakpoint(), and no debugger is there"),
    CodeInfo("I401", "error", "a kernel of which there is only machine code"),
    CodeInfo("I402", "error", "an image of a module that cannot be read"),
    CodeInfo("I403", "error", "an image that holds nothing for the device"),
    # The virtual CUDA driver.
    CodeInfo("I501", "error", "there is no compiler for a library of the package"),
    CodeInfo("I502", "error", "a library of the package cannot be compiled"),
    CodeInfo("I503", "warning", "a function that the virtual driver does not have"),
    CodeInfo("I504", "error", "memory is freed that is not allocated"),
    CodeInfo("I505", "warning", "a launch that the driver refuses"),
    CodeInfo("I506", "error", "a device that the virtual driver does not have"),
    CodeInfo("I507", "error", "other devices are in use already"),
    CodeInfo("I508", "error", "two operations use the same memory, and nothing orders their streams"),
    CodeInfo("I509", "error", "the program changes memory that an operation uses"),
    CodeInfo("I510", "error", "a copy or a fill uses memory that was freed"),
    CodeInfo("I511", "error", "a program that carries NVIDIA's own runtime library"),
    CodeInfo("I512", "note", "memory of the driver that the program does not free"),
    CodeInfo("I513", "error", "another CUDA driver is loaded"),
    # The debugger.
    CodeInfo("G101", "error", "a command that the debugger does not know"),
    CodeInfo("G102", "error", "an expression or a breakpoint that the debugger cannot understand"),
    CodeInfo("G103", "error", "a thread, register, memory or line that is not there"),
    CodeInfo("G104", "error", "a position that the launch does not reach, or a choice that it does not have"),
    CodeInfo("G105", "error", "an expectation of a script of the debugger that does not hold"),
    # Results of record kits.
    CodeInfo("K101", "error", "a file of results that is damaged"),
    CodeInfo("K102", "error", "results of another record kit"),
)

CODES: Mapping[str, CodeInfo] = MappingProxyType({info.code: info for info in _CODES})
"""Every code with its meaning."""

READING_ORDER: Mapping[str, int] = MappingProxyType(
    {
        "M40": 0,
        "H601": 2,
        "H602": 2,
        "B519": 3,
        "T612": 3,
        "R809": 3,
        "X108": 4,
        "X": 3,
        "M411": 4,
        "T614": 4,
        "R802": 4,
        "R808": 4,
        "F": 5,
        "": 1,
    }
)
"""The rank of findings by how their code begins, causes before consequences; the first that fits counts.

Memory faults, misuse of an instruction, hangs, races, undefined values, wrong results.
"""
