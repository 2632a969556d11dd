"""Engines that run models, taught to call our operators: one package an engine, imported by nobody
else, because it imports the engine."""
