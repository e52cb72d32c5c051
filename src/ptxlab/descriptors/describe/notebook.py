"""Descriptors in notebooks."""

from __future__ import annotations

__all__ = ["html_of"]


def html_of(descriptor: object) -> str:
    """The HTML of a descriptor's explanation."""
    # `explain` reads every kind of descriptor, so that none of them can import it.
    from ptxlab.descriptors.describe.explain import explain

    return explain(descriptor)._repr_html_()
