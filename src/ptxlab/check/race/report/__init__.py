"""Findings of the race sanitizer: codes, messages, fixes."""
