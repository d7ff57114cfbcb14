"""The plug-in for stock verl: trials through the same rollout code as on one machine, in verl's V1 trainer.

Invariant: only public plug-in points of verl are used (registries, entry points, configuration, subclasses); nothing of
it is changed. What no class of verl is needed for imports neither verl nor Ray, and is tested without them.
"""
