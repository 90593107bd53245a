"""Every yard that a test starts ends with the process of that test, even where that one is killed."""

from __future__ import annotations

import os

from slipway.yard.lifetime import OWNER_VARIABLE

os.environ[OWNER_VARIABLE] = str(os.getpid())  # before fixtures of a session copy the environment
