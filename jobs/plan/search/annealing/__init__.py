"""Simulated annealing over the jobs' order and modes, compiled by numba: the extra `fast`."""
