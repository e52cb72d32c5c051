"""What a debugger shows of operands, copies and changes: as matrices and values."""
