"""Global and tensor memory, module variables, deferred copies."""
