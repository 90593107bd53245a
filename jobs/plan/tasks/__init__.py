"""Many trainings of the user's own at once: tried, planned and run on the devices of this machine."""
