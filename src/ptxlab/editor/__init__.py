"""The language server: what an editor shows of a PTX text while it is written.

`ptxlab.editor.server` needs the extra ``lsp``; nothing of it is imported here.
"""
