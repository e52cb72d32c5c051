"""The virtual CUDA driver: programs meet ptxlab as they meet a GPU."""
