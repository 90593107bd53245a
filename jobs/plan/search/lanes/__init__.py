"""Search for plans made of lanes: a lane is a few devices and the jobs that follow each other on them."""
