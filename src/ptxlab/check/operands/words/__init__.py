"""Matrices of words in shared and tensor memory, compared with where the words come from."""
