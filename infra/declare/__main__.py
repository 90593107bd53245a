"""`python -m slipway.infra.declare`: see declared.py."""

import sys

from slipway.infra.declare.declared import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
