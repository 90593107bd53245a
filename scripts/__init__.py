"""What people run in a checkout: a launcher without suffix readies the environment, then runs its module."""
