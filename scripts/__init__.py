"""Hold what people run in a checkout: a launcher without suffix prepares .venv and runs its module."""
