"""Keep pytest's doctest collection away from modules that need triton to import."""

collect_ignore_glob = ["*_kernels.py", "gluon_extra.py", "build.py"]
