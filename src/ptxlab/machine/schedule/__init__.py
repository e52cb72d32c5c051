"""The scheduler, barriers, and reports about launches that make no progress."""
