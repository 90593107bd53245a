"""Make a release: `scripts/release` prints and does each step, and docs/releasing.md describes it."""
