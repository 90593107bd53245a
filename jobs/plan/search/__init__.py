"""Search for a plan: which job runs where, when and on which devices, with a proof of how good it is."""
