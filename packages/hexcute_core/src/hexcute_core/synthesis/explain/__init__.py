"""A Solution for readers: as plain values, as text, JSON or a page, and as drawings."""
