"""A warp: its registers, special registers, and which of its lanes run together."""
