"""Mutations of descriptors and tensor maps: each is legal, and the operands are not what the kernel means."""
