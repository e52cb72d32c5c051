"""What compiled code knows of the operands that products take, so that it can repeat a product and compare what it takes."""
