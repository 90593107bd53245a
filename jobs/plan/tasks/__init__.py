"""Try, plan and run many of the user's own trainings, on this machine's devices or on clusters."""
