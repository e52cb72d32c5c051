"""Static legality of instructions and modules."""
