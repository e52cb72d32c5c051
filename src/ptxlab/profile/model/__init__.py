"""The time model: parameters of targets, the executed trace of some CTAs, its replay on one SM, and the estimate of a launch."""
