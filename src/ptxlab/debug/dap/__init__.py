"""The Debug Adapter Protocol: the debugger for Visual Studio Code, Neovim, Emacs and others."""
