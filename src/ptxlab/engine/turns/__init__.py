"""Turns of warps that compiled code ends itself: what it shares with the machine, and the loop that runs the next warp."""
