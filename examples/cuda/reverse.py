"""A kernel in CUDA C++ that lacks a barrier: ptxlab reports the race at the lines of the kernel."""

import sys
from pathlib import Path

import numpy as np

from ptxlab.diagnostics import render_text
from ptxlab.interop import nvcc

kernel = nvcc.compile(Path(__file__).with_name("reverse.cu")).kernel()
x = np.arange(256, dtype=np.float32)
result = kernel.launch(grid=1, block=256, args=[x])
print(render_text(result.diagnostics) or "nothing found")
sys.exit(0 if result.ok else 1)
