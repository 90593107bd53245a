"""Run a plan over clusters: start each job in its turn, and plan again if something goes differently."""
