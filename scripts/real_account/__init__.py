"""Try claims on a real account, for scripts/acceptance: deploy what they need, try them, and remove all."""
