"""A launch: options, arguments, resident CTAs, findings, result."""
