"""Planning in the world: files of jobs, the estimator's modes, the clock and the processes that search."""
