"""Two learning rates on clusters, compared with a plain loop: sweep.py FOLDER-OF-MODELS CLUSTER…"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import torch

from slipway import HParams, SlipwayError, Task, orchestrate, search

models: Any = import_module("models")  # the file next to this one, which type checkers do not find
FOLDER, *ON = sys.argv[1:]
EPOCHS = 2
NODES = {"fast": 1, "slow": 2}
RATES = {"fast": 1e-1, "slow": 1e-2}


def task(name: str) -> Task:
    hparams = HParams(RATES[name], epochs=EPOCHS, optimizer_cls=torch.optim.SGD)
    code = (models.load_model, models.load_dataloader, models.loss_function)
    return Task(*code, hparams, name=name, gpu_range=[NODES[name]], save_dir=FOLDER)


def difference(trained: Task) -> float:
    """Return how far the trained weights are from those of a plain loop on this machine."""
    model = trained.get_model(fresh=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=trained.hparams.lr)
    for _ in range(EPOCHS):
        for inputs, targets in models.load_dataloader():
            optimizer.zero_grad()
            models.loss_function(model(inputs), targets).backward()
            optimizer.step()
    pairs = zip(model.state_dict().values(), trained.get_model().state_dict().values(), strict=True)
    return max(float((one - other).abs().max()) for one, other in pairs)


tasks = [task(name) for name in RATES]
search(tasks, ["data"], log=True, on=ON, devices=1)
result = orchestrate(tasks, log=True, on=ON, devices=1)
told: dict[str, object] = {
    "trained": {end.name: end.cluster for end in result.ends},
    "sources": {cluster: tasks[0].strategies_on[cluster][1].source for cluster in ON},
    "devices": {end.name: len(end.devices) for end in result.ends},
    "differences": [difference(each) for each in tasks],
    "again": len(orchestrate(tasks, on=ON, devices=1).ends),
}
broken = Task(
    models.load_broken, models.load_dataloader, models.loss_function, HParams(1e-2, epochs=1), gpu_range=[1]
)
try:
    search([broken], ["data"], on=ON[-1:], devices=1)
except SlipwayError:
    told["not_fitting"] = broken.not_fitting
print(json.dumps(told))
