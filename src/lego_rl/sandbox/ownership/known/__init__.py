"""Names that are known: of files, programs, runners and modules. Data, and questions about it that no file answers."""
