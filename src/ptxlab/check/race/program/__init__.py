"""What the race sanitizer reads from a program before it runs."""
