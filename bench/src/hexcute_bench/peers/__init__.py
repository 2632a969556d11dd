"""The systems under measurement, each behind the same small interface."""
