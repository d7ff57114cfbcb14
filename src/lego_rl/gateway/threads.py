"""Work that would hold up the event loop, and with it every other trial."""

from concurrent.futures import ThreadPoolExecutor

LARGE_CHARACTERS = 200_000
"""Text from which on reading or rendering it is worth a thread."""

REQUESTS = ThreadPoolExecutor(128, thread_name_prefix="request")
"""Threads for what agents send. They are not those in which trials are graded and policies trained: however many large
requests there are, nobody else waits for a free thread."""
