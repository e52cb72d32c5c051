"""Collections of programs of others, run as they are under ``ptxlab exec``."""
