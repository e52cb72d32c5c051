"""The LLVM code of matrix products."""
