"""Without CuTe DSL there is nothing to compile, and without a C compiler there is no driver: the tests are left out."""

import importlib.util

from ptxlab.cuda.building import compiler

collect_ignore_glob = [] if importlib.util.find_spec("nvidia_cutlass_dsl") and compiler() is not None else ["*.py"]
