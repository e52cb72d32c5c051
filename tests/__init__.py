"""Tests; see README.md."""
