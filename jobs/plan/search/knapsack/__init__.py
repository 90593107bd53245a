"""Fill tables of knapsacks, for lanes and for proofs by device patterns."""
