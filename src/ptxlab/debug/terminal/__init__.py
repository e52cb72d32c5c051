"""The terminal interface of the debugger. `ptxlab.debug.terminal.app` needs the extra ``debug``; nothing of it is imported here."""
