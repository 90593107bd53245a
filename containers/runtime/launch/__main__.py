"""`python -m slipway.containers.runtime.launch`: see launcher.py."""

import sys

from slipway.containers.runtime.launch.launcher import main

if __name__ == "__main__":
    sys.exit(main())
