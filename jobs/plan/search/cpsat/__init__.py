"""Exact search for few jobs by CP-SAT, the extra `cpsat`: no process can load both ortools and highspy."""
