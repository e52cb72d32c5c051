"""`torch.compile` of a small network on cuda: values and gradients are those of the network as it is."""

import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)).to("cuda")
x = torch.randn(6, 16, device="cuda", requires_grad=True)
gradients = []
for network in (model, torch.compile(model)):
    y = network(x)
    gradients.append([y.detach(), *torch.autograd.grad(y.square().mean(), [x, *model.parameters()])])
for plain, compiled in zip(*gradients, strict=True):
    torch.testing.assert_close(plain, compiled, rtol=1e-4, atol=1e-6)
print("equal")
