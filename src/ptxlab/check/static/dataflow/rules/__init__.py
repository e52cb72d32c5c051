"""The rules: each module has functions from a kernel to the mistakes that are in it."""
