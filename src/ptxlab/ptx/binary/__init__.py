"""Binary files that carry PTX: ELF, fat binaries, LZ4."""
