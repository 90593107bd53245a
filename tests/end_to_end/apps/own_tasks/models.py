"""A user's models for clusters: the nodes import this file, which imports nothing of Slipway's."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def load_model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def load_broken() -> nn.Module:
    raise ValueError("this model was never meant to be")


def load_dataloader() -> DataLoader[tuple[Tensor, ...]]:
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return DataLoader(TensorDataset(inputs, inputs.sum(1, keepdim=True)), batch_size=8)


def loss_function(outputs: Tensor, targets: Tensor) -> Tensor:
    return nn.functional.mse_loss(outputs, targets)
