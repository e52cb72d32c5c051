"""Faults of compiled code."""

from __future__ import annotations

from enum import IntEnum

__all__ = ["FAULTS", "FIXES", "Fault"]


class Fault(IntEnum):
    """What compiled code puts into ``Word.FAULT``."""

    NONE = 0
    GLOBAL_READ = 1
    GLOBAL_WRITE = 2
    MISALIGNED = 3
    SHARED_RANGE = 4
    SHARED_PEER = 5
    SHARED_GONE = 6
    LOCAL_RANGE = 7
    PARAM_RANGE = 8
    PARAM_WRITE = 9
    TENSOR_UNALLOCATED = 10
    TENSOR_RANGE = 11
    TENSOR_QUADRANT = 12
    TENSOR_UNEQUAL = 13
    TENSOR_NONE = 14
    TENSOR_PARTIAL = 15
    UNDEFINED = 16
    NOT_MEMBER = 17
    TRAP = 18
    BRANCH_RANGE = 19


FAULTS: dict[int, tuple[str, str]] = {
    Fault.GLOBAL_READ: ("M401", "thread reads global memory at {address:#x}, which belongs to no allocation"),
    Fault.GLOBAL_WRITE: ("M401", "thread writes global memory at {address:#x}, which belongs to no writable allocation"),
    Fault.MISALIGNED: ("M405", "the address {address:#x} is not a multiple of the size of the access, {size} bytes"),
    Fault.SHARED_RANGE: ("M406", "the address {address:#x} with {size} bytes lies outside shared memory"),
    Fault.SHARED_PEER: ("M407", "the address {address:#x} names the shared memory of another CTA; .shared::cta reaches only the own one"),
    Fault.SHARED_GONE: ("M407", "the address {address:#x} names the shared memory of a CTA that is not there or has exited"),
    Fault.LOCAL_RANGE: ("M408", "the address {address:#x} with {size} bytes lies outside local memory"),
    Fault.PARAM_RANGE: ("M409", "the address {address:#x} with {size} bytes lies outside the kernel parameters"),
    Fault.PARAM_WRITE: ("M404", "write to the kernel parameters at {address:#x}"),
    Fault.TENSOR_UNALLOCATED: ("T621", "column {address} of tensor memory is not allocated by this CTA"),
    Fault.TENSOR_RANGE: ("T622", "the address {address:#x} with the shape of the access goes beyond column 511"),
    Fault.TENSOR_QUADRANT: (
        "T623",
        "the address {address:#x} names lanes that this warp cannot reach; warp w reaches lanes 32*(w%4) to 32*(w%4)+31",
    ),
    Fault.TENSOR_UNEQUAL: ("T624", "the tensor-memory address differs between the threads of the warp (here {address:#x})"),
    Fault.TENSOR_NONE: ("T625", "the target has no tensor memory"),
    Fault.TENSOR_PARTIAL: ("T626", "some of the warp's 32 threads have exited or do not exist"),
    Fault.UNDEFINED: ("R802", "{register} is used here but has no value in this thread"),
    Fault.NOT_MEMBER: ("R803", "the executing thread is not in the membermask {address:#x}"),
    Fault.TRAP: ("H603", "the kernel executed trap"),
    Fault.BRANCH_RANGE: ("R804", "the index {address} of brx.idx lies outside its list of targets"),
}
"""Fault -> diagnostic code, message with the fields address, size (bytes of the access) and register (the undefined operand)."""

FIXES: dict[int, str] = {
    Fault.TENSOR_UNALLOCATED: "allocate the columns with tcgen05.alloc, and compute addresses from the one that it wrote",
    Fault.TENSOR_RANGE: "correct the column, bits 0-15 of the address, or the offset of the second half",
    Fault.TENSOR_QUADRANT: "add (warp % 4) << 21 to the address that tcgen05.alloc wrote; shapes of 16 lanes may add 16 << 16",
    Fault.TENSOR_UNEQUAL: "compute the address from values that are the same in the whole warp",
    Fault.TENSOR_NONE: "launch the kernel for a target with tensor memory, such as sm_100a",
    Fault.TENSOR_PARTIAL: "execute it in a warp of 32 threads, none of which has exited",
}
"""Fault -> what to do about it."""
