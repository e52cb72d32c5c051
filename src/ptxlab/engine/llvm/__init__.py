"""The LLVM back end: regions of a program as compiled functions."""
