"""Training steps of a small transformer on cuda, whose activation is a Triton kernel, compared with torch on the CPU; a CUDA graph."""

import copy

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_and_add(x, residual, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    value = 0.5 * value * (1 + tl.erf(value * 0.7071067811865476))
    tl.store(out + at, value + tl.load(residual + at, mask=at < n), mask=at < n)


@triton.jit
def gelu_backward(x, grad, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at, mask=at < n)
    slope = 0.5 * (1 + tl.erf(value * 0.7071067811865476)) + value * tl.exp(-0.5 * value * value) * 0.3989422804014327
    tl.store(out + at, slope * tl.load(grad + at, mask=at < n), mask=at < n)


class GeluAndAdd(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, residual):
        ctx.save_for_backward(x)
        out = torch.empty_like(x)
        gelu_and_add[(triton.cdiv(x.numel(), 256),)](x, residual, out, x.numel(), BLOCK=256)
        return out

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        out = torch.empty_like(x)
        gelu_backward[(triton.cdiv(x.numel(), 256),)](x, grad.contiguous(), out, x.numel(), BLOCK=256)
        return out, grad


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out, self.up = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width), torch.nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        attention = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attention.transpose(1, 2).reshape(batch, length, width))
        y = self.up(self.norms[1](x))
        return GeluAndAdd.apply(y, x) if x.is_cuda else torch.nn.functional.gelu(y) + x


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 32)
        self.blocks = torch.nn.Sequential(Block(32, 2), Block(32, 2))
        self.head = torch.nn.Linear(32, 50)

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)))


torch.manual_seed(0)
tokens, model = torch.randint(0, 50, (2, 13)), Transformer()
results = []
for device in ("cpu", "cuda"):
    net = copy.deepcopy(model).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(2):
        optimizer.zero_grad()
        logits = net(tokens.to(device)[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.to(device)[:, 1:].flatten())
        loss.backward()
        optimizer.step()
    results.append([loss.item(), *(p.detach().cpu() for p in net.parameters())])
assert abs(results[0][0] - results[1][0]) < 1e-4, results
for here, there in zip(results[0][1:], results[1][1:], strict=True):
    torch.testing.assert_close(here, there, rtol=1e-3, atol=1e-4)

x, out = torch.randn(300, device="cuda"), torch.zeros(300, device="cuda")
with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
    gelu_and_add[(2,)](x, x, out, 300, BLOCK=256)
    out.mul_(2)
assert out.sum().item() == 0
graph.replay()
torch.testing.assert_close(out, 2 * (torch.nn.functional.gelu(x) + x))
print("equal")
