"""From tiles to threads: addresses, register indices, predicates and instructions made explicit."""

from hexcute_core.lowering.lower import lower

__all__ = ["lower"]
