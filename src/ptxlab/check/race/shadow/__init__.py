"""Shadow memory: the accesses that a later one must follow."""
