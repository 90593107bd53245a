"""The planner: which job runs where, when, and split over which devices, with a proof of how good that is."""
