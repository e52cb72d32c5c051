"""Vector clocks of the warps of a cluster."""
