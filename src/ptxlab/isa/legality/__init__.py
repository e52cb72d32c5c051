"""Forms."""

from ptxlab.isa.legality import _bulk, _bulk_tensor, _fence, _mbarrier, _tensormap  # noqa: F401
