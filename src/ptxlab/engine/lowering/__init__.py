"""From the syntax tree of a function to a `Program`."""
