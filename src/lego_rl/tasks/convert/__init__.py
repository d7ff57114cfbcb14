"""From public rows of software-engineering tasks to Harbor task directories, one format a module."""
