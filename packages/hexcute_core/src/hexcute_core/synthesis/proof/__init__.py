"""The proof of a Solution. It imports `solution` alone and shares nothing with the solver."""
