"""Motion through a launch: to positions, forwards, and backwards."""
