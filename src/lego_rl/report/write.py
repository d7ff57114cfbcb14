"""Makes ``summary.json`` and ``report.html`` of a run directory, each at once or not at all."""

from dataclasses import dataclass
from pathlib import Path

from lego_rl.analysis.behaviour import Behaviour, analyse
from lego_rl.errors import RunError
from lego_rl.report.files import RunFiles
from lego_rl.report.page import render
from lego_rl.report.summary import Summary, summarise


@dataclass(frozen=True)
class Report:
    """What was written."""

    summary: Summary
    behaviour: tuple[Behaviour, ...]
    summary_file: Path
    page: Path


def write_report(path: Path) -> Report:
    """Recompute summary and page of a run from its records.

    Args:
        path: The run directory, finished or not.

    Raises:
        RunError: It is no run directory, a record is damaged, or the files cannot be written.
    """
    run = RunFiles.open(path)
    summary = summarise(run)
    behaviour = tuple(analyse(path)) if run.trials else ()
    page = render(run, summary, behaviour)
    report = Report(summary, behaviour, path / "summary.json", path / "report.html")
    try:
        for file, text in ((report.summary_file, summary.to_json()), (report.page, page)):
            partial = file.with_name(f".{file.name}.partial")
            partial.write_text(text, encoding="utf-8")
            partial.rename(file)
    except OSError as error:
        raise RunError(f"cannot write the report into {path}: {error}", "make the run directory writable") from error
    return report
