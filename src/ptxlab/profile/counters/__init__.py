"""Counters: their table, the observer that fills it, and the roles of warps."""
