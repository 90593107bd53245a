"""Search few jobs exactly with CP-SAT, the extra `cpsat`: no process can load both ortools and highspy."""
