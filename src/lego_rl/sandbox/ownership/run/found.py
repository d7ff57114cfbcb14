"""What has been found of a test run so far: what it runs and reads, and where it looks for what."""

from dataclasses import dataclass, field

from lego_rl.sandbox.ownership.known.runners import Runner


@dataclass
class RunFound:
    """Paths are relative to the work tree, which itself is ``.``.

    Attributes:
        files: What is run, or read for what to do.
        patterns: The same as patterns with wildcards.
        module_folders: Folders of the module path.
        programs: Where a program that is named would be found.
        folders: Folders that are named.
        imports: Modules that are run, loaded as plugins or imported.
        searched: Folders in which a runner finds the tests by itself.
        path: Folders in which programs are looked for.
        may_be_path: Those that are named in a file that speaks of it.
        launched: Paths of programs that run tests, there or not.
        runners: Runners of other languages, and their like.
        manifests: Names of files of which a part is the task's.
        entered: Folders in which commands are run.
        lacking: What is started as a program or module, and the task lacks.
        collected: Patterns of the names of files that runners collect as tests.
        arguments: Files of which every word is an argument of some command.
    """

    files: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)
    module_folders: set[str] = field(default_factory=lambda: {"."})
    programs: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)
    path: set[str] = field(default_factory=set)
    may_be_path: set[str] = field(default_factory=set)
    launched: set[str] = field(default_factory=set)
    runners: set[Runner] = field(default_factory=set)
    manifests: set[str] = field(default_factory=set)
    entered: set[str] = field(default_factory=lambda: {"."})
    arguments: set[str] = field(default_factory=set)
    lacking: set[str] = field(default_factory=set)
    collected: set[str] = field(default_factory=set)
