"""Policies that ship with Lego-RL: Hugging Face directories, read as package data."""
