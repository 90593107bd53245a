"""Plans by lanes: some devices for the whole plan, and jobs that follow each other on them."""
