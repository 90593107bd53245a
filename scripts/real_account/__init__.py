"""The hour on a real account, behind scripts/acceptance: claims, what is made for them, and its end."""
