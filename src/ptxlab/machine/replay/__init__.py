"""A launch kept to be run again, in memory or as a bundle."""
