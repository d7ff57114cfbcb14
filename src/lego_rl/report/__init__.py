"""The run report: figures and pages made from the files of a run directory alone. It changes nothing of a run."""
