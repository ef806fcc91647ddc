"""Figures: one pure table each (`tables`), then thin renderers for pages and for papers."""
