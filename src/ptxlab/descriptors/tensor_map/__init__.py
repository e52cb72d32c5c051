"""Tensor maps: the 128 bytes, the encoder, the object."""
