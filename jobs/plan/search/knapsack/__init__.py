"""Tables of knapsacks: what lanes are filled with, and what proofs by device patterns ask."""
