"""The ranks' program in tests of Slurm jobs: no torch, one ending for each `mode=`. Copied next to a job."""

import json
import os
import signal
import sys
import time
from pathlib import Path

settings = dict(word.split("=", 1) for word in sys.argv[2::2])
LONG = 30_000
saved = Path(os.environ["SLIPWAY_CHECKPOINTS"]) / "saved"


def save(number: int, frame: object) -> None:
    saved.parent.mkdir(parents=True, exist_ok=True)
    saved.write_text(os.environ["SLIPWAY_ATTEMPT"])
    sys.exit(85)


def main() -> int:
    mode = settings.get("mode", "echo")
    if mode == "echo":
        told = {name: value for name, value in os.environ.items() if name.startswith("SLIPWAY_")}
        print(json.dumps({"arguments": sys.argv[1:], "environment": told}))
    if mode == "long_lines":
        for number in range(100):
            print(f"{number} " + os.environ["SLIPWAY_NODE"] * LONG, flush=True)
    if mode == "second_fails":
        return 3 if settings["share"].startswith("1/") else 0
    if mode == "resumable":
        print(f"of attempt {os.environ['SLIPWAY_ATTEMPT']}", flush=True)
    if mode in ("fail", "resumable"):
        return {"fail": 3, "resumable": 85}[mode]
    if mode == "resume":
        if saved.exists():
            print(f"resumes from attempt {saved.read_text()}")
            return 0
        signal.signal(signal.SIGTERM, save)
        print("trains", flush=True)
        time.sleep(300)
    return 0


sys.exit(main())
