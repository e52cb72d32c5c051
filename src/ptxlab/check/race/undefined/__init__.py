"""The run of a launch that follows undefined bits through memory."""
