"""The recorders need a GPU and its tools; they are no tests."""

collect_ignore_glob = ["record_*.py"]
