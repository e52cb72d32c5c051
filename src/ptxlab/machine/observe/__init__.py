"""Observers of a launch: the interface, recorded events, provenance, the order of additions."""
