"""Attention in one kernel, plain and causal, through tensor descriptors made on the device. Runs on sm_90a, sm_100a and sm_103a."""

from __future__ import annotations

import sys

import torch
import triton
import triton.language as tl
from report import differs

DEVICE = triton.runtime.driver.active.get_active_torch_device()


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, scale, heads, S,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr, WARP_SPECIALIZE: tl.constexpr,
):  # fmt: skip
    """BM queries of one head; the softmax is updated for each tile of BN keys, with powers of two."""
    head = tl.program_id(1)
    rows = heads * S
    q_desc = tl.make_tensor_descriptor(q_ptr, [rows, D], [D, 1], [BM, D])
    k_desc = tl.make_tensor_descriptor(k_ptr, [rows, D], [D, 1], [BN, D])
    v_desc = tl.make_tensor_descriptor(v_ptr, [rows, D], [D, 1], [BN, D])
    o_desc = tl.make_tensor_descriptor(o_ptr, [rows, D], [D, 1], [BM, D])
    first = tl.program_id(0) * BM
    query = first + tl.arange(0, BM)
    q = q_desc.load([head * S + first, 0])
    most = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    end = min(first + BM, S) if CAUSAL else S
    for start in tl.range(0, end, BN, warp_specialize=WARP_SPECIALIZE):
        k = k_desc.load([head * S + start, 0])
        scores = tl.dot(q, k.T) * (scale * 1.4426950408889634)
        if CAUSAL:
            scores = tl.where(query[:, None] >= start + tl.arange(0, BN)[None, :], scores, -1.0e6)
        higher = tl.maximum(most, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(most - higher)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None]
        v = v_desc.load([head * S + start, 0])
        acc = tl.dot(p.to(v.dtype), v, acc)
        most = higher
    tl.store(lse_ptr + head * S + query, most + tl.log2(total))
    o_desc.store([head * S + first, 0], (acc / total[:, None]).to(o_ptr.dtype.element_ty))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, warp_specialize: bool) -> tuple[torch.Tensor, torch.Tensor]:
    heads, S, D = q.shape
    o = torch.empty_like(q)
    lse = torch.empty(heads, S, device=q.device, dtype=torch.float32)
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device=DEVICE))
    attention_kernel[(triton.cdiv(S, 128), heads)](
        q, k, v, o, lse, D**-0.5, heads, S,
        D=D, BM=128, BN=64, CAUSAL=causal, WARP_SPECIALIZE=warp_specialize, num_warps=4, num_stages=2,
    )  # fmt: skip
    return o, lse


def exact_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    q, k, v = q.double(), k.double(), v.double()
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), -float("inf"))
    return torch.softmax(scores, -1) @ v, torch.logsumexp(scores, -1) / torch.log(torch.tensor(2.0, dtype=torch.float64))


def main() -> int:
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 256, 64, device=DEVICE, dtype=torch.float16) * 0.5 for _ in range(3))
    blackwell = triton.runtime.driver.active.get_current_target().arch >= 100
    wrong = 0
    for causal, warp_specialize in ((False, blackwell), (True, False)):
        found, expected = attention(q, k, v, causal, warp_specialize), exact_attention(q, k, v, causal)
        name = ("causal " if causal else "") + "attention" + (", warp-specialised" if warp_specialize else "")
        wrong |= differs(name, found[0], expected[0], 2e-3)
        wrong |= differs(f"{name}, log-sum-exp", found[1], expected[1], 1e-3)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
