"""Global memory, tensor memory, module variables."""
