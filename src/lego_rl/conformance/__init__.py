"""What a harness is put through before its trials are trusted: situations, and the laws that have to hold in each."""
