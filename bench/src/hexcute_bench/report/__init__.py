"""From the CSV files to ratios, tables and text; nothing here measures."""
