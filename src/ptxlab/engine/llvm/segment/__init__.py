"""The body of the loop over a run of inline instructions."""
