"""What programs do with the device cuda, as functions: each is one case, and raises if something is not as on a GPU.

``python -m tests.interop.torch_device.device_cases (host | driver) [NAME ...]`` runs them in this process, with memory of the
computer or of the virtual driver, and prints one JSON line for each.
"""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from typing import Any

import ptxlab.cuda
import ptxlab.interop.torch
from tests.interop.torch_device import exchange_cases, graph_cases, number_cases, tensor_cases
from tests.interop.torch_device.case_table import CASES

TOPICS: tuple[Any, ...] = tensor_cases, number_cases, graph_cases, exchange_cases


def main(names: list[str]) -> None:
    warnings.filterwarnings("ignore")
    for name, function in CASES.items():
        if not names or name in names:
            try:
                function()
                wrong = ""
            except Exception:
                wrong = traceback.format_exc()
            print(json.dumps({"case": name, "wrong": wrong}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "driver":
        ptxlab.cuda.install()
    ptxlab.interop.torch.install()
    import torch

    torch.set_num_threads(1)
    for topic in TOPICS:
        topic.torch = torch
    main(sys.argv[2:])
