"""Sandboxes: where the agent works, how its change is taken out, and where that change is graded.

What sandboxes start from has a word for each step on the way:

* `Recipe` (`dockerfile`, `copies`): what a task's ``environment/`` asks for: a work directory, variables, copies.
* `Image` (`image`): the files prepared of it on the host, once for each state: a pristine tree, git layers.
* `Tree` (`sandbox`): what patches and grading need to know of these, in every environment; `PreparedTree` has it.
* `TaskImage` (`provider`): a `Tree` that sandboxes are started from. `BubblewrapImage`, `DockerImage` and
  `KubernetesImage` are such, each in the ``image`` of its environment.
* `Origin` (`docker`), `PodImage` (`kubernetes`): the last two without their `start`, as boxes know them.
* `Root` (`docker.root`): what is below the work tree of a container: the host's programs, or an image of the daemon's.
"""
