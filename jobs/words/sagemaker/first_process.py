"""The first process of a training job's containers: it starts what AWS's image would, and passes SIGTERM on.

The images' own first process is a shell that keeps SIGTERM to itself, so that nothing is saved before a stop
(ENTRYPOINT and start_with_right_hostname.sh of aws/deep-learning-containers; issue 125 of aws's toolkit).
"""

from __future__ import annotations

# SIGTERM would end the toolkit and what is between it and our launcher, and the ranks' output with them: they
# are started deaf to it. The launcher listens for itself, perhaps not yet, so it is told until all is over.
_LINES = (
    "set -m",  # a process group for each command in the background, by whose number all of it is told
    "(trap '' TERM; exec bash start_with_right_hostname.sh train) & p=$!",
    "trap 'while kill -TERM -- -$p; do sleep 1; done 2>&- &' TERM",
    # A signal ends the wait, not the training.
    "while wait $p; c=$?; kill -0 $p 2>&-; do :; done",
    "exit $c",
)

# SageMaker takes 256 characters in an item and no end of line, so the lines are one.
FIRST_PROCESS = ("/bin/bash", "-c", "; ".join(_LINES))
