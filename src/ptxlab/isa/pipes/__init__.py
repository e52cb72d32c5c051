"""Which part of an SM executes an instruction."""

from ptxlab.isa.pipes.classes import Pipe, pipe_of

__all__ = ["Pipe", "pipe_of"]
