"""Forms."""

from ptxlab.isa.legality import _bulk, _bulk_tensor, _fence, _mbarrier, _tcgen05, _tcgen05_mma, _tensormap, _wgmma  # noqa: F401
