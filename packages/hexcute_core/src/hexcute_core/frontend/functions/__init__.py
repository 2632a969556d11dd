"""Python functions before they are traced: their source, signature and names."""
