"""The data of each suite: fresh random inputs in rotation, poisoned outputs, references."""
