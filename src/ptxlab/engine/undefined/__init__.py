"""Undefined bits through the semantics of instructions: the rules of `vocabulary`, for integers and for floats."""
