"""Forms."""

from ptxlab.isa.legality import _bulk, _bulk_tensor, _tensormap  # noqa: F401
