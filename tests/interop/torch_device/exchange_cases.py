"""What the device cuda exchanges with files, the host and other libraries."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

from tests.interop.torch_device.case_table import case, raises

torch: Any = None
"""The module, once the device is there."""


@case
def saved_and_loaded() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)).to("cuda")
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    for where, device in ((None, "cuda"), ("cpu", "cpu"), ("cuda:0", "cuda"), (torch.device("cuda"), "cuda")):
        file.seek(0)
        state = torch.load(file, map_location=where)
        assert state["0.weight"].device.type == device
        assert torch.equal(state["0.weight"].cpu(), model[0].weight.cpu())
    model.load_state_dict(state)
    assert torch.equal(copy.deepcopy(model)[0].weight, model[0].weight)
    x = pickle.loads(pickle.dumps(torch.arange(3, device="cuda")))
    assert (x.device.type, x.tolist()) == ("cuda", [0, 1, 2])
    assert torch.UntypedStorage(8, device="cuda").device.type == "cuda"
    assert torch.UntypedStorage(8).device.type == "cpu"


@case
def pinned_memory() -> None:
    x = torch.ones(5).pin_memory()
    assert x.is_pinned()
    assert not torch.ones(5).is_pinned()
    assert torch.empty(4, pin_memory=True).is_pinned()
    assert x.to("cuda", non_blocking=True).sum().item() == 5
    assert torch.ones(3, device="cuda").to("cpu", non_blocking=True).is_pinned()
    raises(RuntimeError, "cannot pin", lambda: torch.ones(2, device="cuda").pin_memory())
    loader = torch.utils.data.DataLoader(torch.arange(8.0).reshape(4, 2), batch_size=2, pin_memory=True)
    batches = [batch for batch in loader if batch.is_pinned()]
    assert torch.cat([batch.cuda() for batch in batches]).flatten().tolist() == list(range(8))


@case
def exchange_with_other_libraries() -> None:
    x = torch.arange(6.0, device="cuda").view(2, 3)
    assert int(x.__dlpack_device__()[0]) == 2
    again = torch.from_dlpack(x)
    assert (again.data_ptr(), again.device) == (x.data_ptr(), x.device)
    interface = x.t().__cuda_array_interface__
    assert (interface["shape"], interface["strides"], interface["data"][0]) == ((3, 2), (4, 12), x.data_ptr())
    seen = torch.as_tensor(type("Array", (), {"__cuda_array_interface__": interface})(), device="cuda")
    assert torch.equal(seen, x.t())
    assert seen.data_ptr() == x.data_ptr()
    from ptxlab.formats import array_of

    array = array_of(x)
    assert array is not None
    array[0, 0] = 7
    assert x[0, 0].item() == 7
