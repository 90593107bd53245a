"""Proofs that no plan can be better than so much: one module for each way to prove it."""
