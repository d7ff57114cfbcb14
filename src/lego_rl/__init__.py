"""Lego-RL: reinforcement learning of coding agents inside the harness they will be deployed in."""

__version__ = "0.1.0"
