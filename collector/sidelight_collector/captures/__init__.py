"""Captures on demand: what they are, where they lie, who samples for them, and how they are asked for."""
