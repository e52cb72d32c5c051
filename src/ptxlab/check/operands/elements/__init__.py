"""Matrices that instructions take from registers, compared with what has been loaded there."""
