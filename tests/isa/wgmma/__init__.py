"""The warpgroup instructions."""
