"""The figures: one file each, drawn from CSV files alone, the same bytes every time."""
