"""Launches whose clusters run in several processes."""
