"""Prove lower bounds, which no plan can beat: see prove.py."""
