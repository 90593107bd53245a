"""Run a plan over clusters: each job in its turn, and planned again when something comes otherwise."""
