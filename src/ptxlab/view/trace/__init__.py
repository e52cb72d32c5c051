"""Launches as a timeline, in the Chrome trace-event format, which Perfetto opens."""

from ptxlab.view.trace._file import Trace

__all__ = ["Trace"]
