"""Connect the planner to the world: files of jobs, estimated modes, the clock and search processes."""
