"""What SageMaker's toolkit starts on each instance: it becomes the launcher, with the recipe's settings.

It lies at the root of a job's code as slipway_start.py. The toolkit puts hyper-parameters on the command line
through a shell without quotes, so that the words are not read; it also gives them as JSON in SM_HPS. There
%XX stands for what a shell would read (jobs/words/sagemaker.py).
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from slipway.containers.runtime.contract import variables
from slipway.containers.runtime.errors import Refusal
from slipway.containers.runtime.launch import launcher
from slipway.containers.runtime.values import shown

_SETTINGS = "SM_HPS"
_PATH = "PYTHONPATH"
# What the toolkit's own libraries read from there: not the recipe's.
_OF_LIBRARIES = frozenset({"mp_parameters"})


def main() -> int:
    """Run the launcher in this process: what stops the toolkit's program stops the ranks."""
    try:
        words = launcher_words(os.environ)
    except Refusal as refusal:
        return launcher.refuse(refusal)
    os.environ[_PATH] = os.pathsep.join(filter(None, (str(Path.cwd()), os.environ.get(_PATH))))
    return launcher.main(words)


def launcher_words(environment: Mapping[str, str]) -> list[str]:
    """Return the launcher's words: the module that every rank runs, and the recipe's settings."""
    words = ["--module", environment.get(variables.MODULE, ""), "--"]
    for name, value in sorted(_settings(environment.get(_SETTINGS, "{}")).items()):
        words += ["--set", f"{name}={unquote(value)}"]
    return words


def _settings(text: str) -> dict[str, str]:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        given = None
    if not isinstance(given, dict):
        raise Refusal(f"{_SETTINGS} is {shown(text)}, and must be a JSON object")
    # As --set takes them; an SDK sends numbers and truths, too.
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
        if name not in _OF_LIBRARIES
    }


if __name__ == "__main__":
    sys.exit(main())
