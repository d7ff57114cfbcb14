"""Modules that texts of the run import."""

from dataclasses import dataclass
from pathlib import PurePosixPath

from lego_rl.sandbox.ownership.known.test_names import is_test
from lego_rl.sandbox.ownership.run.keeper import RunKeeper
from lego_rl.sandbox.ownership.run.naming import Naming
from lego_rl.sandbox.ownership.texts.python_imports import ImportName


@dataclass(frozen=True)
class Imported:
    """Keeps those that are the run's own: of what is tested, too, only names tell them.

    Attributes:
        keeper: Of what has been found.
        naming: Which of what is named counts.
    """

    keeper: RunKeeper
    naming: Naming

    def keep(self, name: ImportName, places: list[str], above: list[str], by: str) -> None:
        """Keep the files of a module.

        Args:
            name: As what it is imported.
            places: Folders that the text may be run in.
            above: Those in which everything is the run's that is imported.
            by: The file that the text is; empty where it is none.
        """
        found = self.keeper.found
        folders = {*found.module_folders, ".", *places}
        if not name.level:
            found.imports.add(name.dotted)
        elif name.dotted:
            around = [[place, *map(str, PurePosixPath(place).parents)] for place in places]
            folders = {each[name.level - 1] for each in around if name.level <= len(each)}
        for folder in folders if name.dotted else ():
            for file in self.keeper.tree.executed_by(name.dotted, folder):
                counts = self.naming.counts(name.dotted) or any(file.startswith(f"{each}/") for each in above)
                if counts and not (is_test(PurePosixPath(by).name) and self.keeper.is_beside_tests(file)):
                    self.keeper.own(file)
