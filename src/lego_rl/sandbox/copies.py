"""What a task's ``environment/`` asks for: a recipe, and what of the folder goes where in the work tree.

Invariant: a source is something of the task's own folder, whatever links stand in it, and a destination is at or below
the work directory; what Docker would do otherwise than a plain copy is left to a build.
"""

import posixpath
from pathlib import Path, PurePosixPath

from lego_rl.errors import TaskError
from lego_rl.sandbox.dockerfile import NeedsBuildError, Recipe, read_dockerfile
from lego_rl.sandbox.dockerignore import IGNORE_FILE
from lego_rl.sandbox.paths import inside, is_at_or_below, within


def recipe_of(environment: Path, workdir: str, start: str = "/") -> Recipe:
    """What a task's ``environment/`` asks for.

    Args:
        environment: A folder with a Dockerfile, a ``repo/`` folder, or both.
        workdir: The work directory where no Dockerfile names one.
        start: Work directory of what a Dockerfile starts from.

    Raises:
        TaskError: There is neither.
        NeedsBuildError: The Dockerfile needs a build.
    """
    dockerfile = environment / "Dockerfile"
    if dockerfile.exists():
        if (environment / IGNORE_FILE).exists():
            raise NeedsBuildError(
                f"{environment} has a {IGNORE_FILE}, which needs an image build", "ship less instead, or use Docker"
            )
        recipe = read_dockerfile(dockerfile, start)
        if recipe.workdir == "/":
            recipe.workdir = inside("/", workdir)
        return recipe
    if (environment / "repo").is_dir():
        return Recipe(workdir, copies=[("repo", workdir)])
    raise TaskError(f"{environment} has neither a Dockerfile nor repo/", "add the repository as environment/repo/")


def copied(environment: Path, recipe: Recipe) -> list[tuple[Path, str]]:
    """What a recipe copies, and to where below its work directory.

    Raises:
        TaskError: It is not there.
        NeedsBuildError: It goes to a place outside the work directory.
    """
    return [_copied(environment, name, recipe.workdir, target) for name, target in recipe.copies]


def _copied(environment: Path, name: str, workdir: str, target: str) -> tuple[Path, str]:
    """Source and destination of a ``COPY``, the latter relative to the work directory."""
    source = _source(environment, name)
    if target.endswith("/") and source.is_file():
        target += PurePosixPath(name).name
    if not is_at_or_below(target, workdir):
        raise NeedsBuildError(
            f"COPY to {target} lies outside the work directory {workdir}", "copy into the work directory, or use Docker"
        )
    return source, posixpath.relpath(target, workdir)


def _source(environment: Path, name: str) -> Path:
    """What a ``COPY`` names, with no link on the way to it; as for Docker, nothing is above the task's folder."""
    real = within(environment, environment / inside("/", name).lstrip("/"))
    if real is None:
        raise TaskError(f"{environment} has no {name}, which its Dockerfile copies", "add it or mend the Dockerfile")
    return environment / real.relative_to(environment.resolve())
