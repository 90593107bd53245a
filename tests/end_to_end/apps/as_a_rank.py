"""A module of somebody else's, run unmodified as a rank: `torchrun as_a_rank.py MODULE`.

Python's own end may meet a thread of gloo that lives on, and abort, so it does not come to that.
"""

import os
import runpy
import sys

runpy.run_module(sys.argv[1], run_name="__main__")
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
