"""Untyped storages on the device, which the extension module of a CPU build refuses to make."""

from __future__ import annotations

from typing import Any

__all__ = ["allow_cuda"]


def allow_cuda() -> None:
    """Let ``torch.UntypedStorage(size, device="cuda")`` make a storage, as ``torch.load`` does."""
    import torch

    plain = torch._C.StorageBase.__new__

    def make(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != "cuda":
            return plain(cls, *args, **({} if device is None else {"device": device}), **kwargs)
        if args and not isinstance(args[0], int):
            values = torch.tensor(list(args[0]), dtype=torch.uint8, device=device)
        else:
            values = torch.empty(args[0] if args else 0, dtype=torch.uint8, device=device)
        return values.untyped_storage()

    torch.UntypedStorage.__new__ = make
