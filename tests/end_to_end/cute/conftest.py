"""Without CuTe DSL there is nothing to compile: its tests are left out."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("nvidia_cutlass_dsl") else ["*.py"]
