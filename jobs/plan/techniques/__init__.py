"""Ways to spread one model over devices: registry.py lists them, one file each."""
