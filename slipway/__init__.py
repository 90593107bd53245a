"""Build and launch training clusters on AWS."""
