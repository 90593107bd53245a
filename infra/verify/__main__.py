"""`python -m slipway.infra.verify`: see gates.py."""

import sys

from slipway.infra.verify.gates import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
