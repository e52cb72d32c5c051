"""Settings of all tests."""

from __future__ import annotations

from hypothesis import settings

# Examples take longer while other processes use the machine: time is limited for whole tests, by pytest-timeout.
settings.register_profile("no deadline", settings(), deadline=None)
settings.load_profile("no deadline")
