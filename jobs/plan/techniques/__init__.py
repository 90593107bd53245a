"""Ways to spread one model over devices (techniques.py), and estimates of what they take."""
