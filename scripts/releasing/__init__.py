"""Makes a release: `scripts/release` says and does each step, and docs/releasing.md tells of it."""
