"""Property tests of this room draw the same cases in every run."""

import hypothesis

hypothesis.settings.register_profile("same-every-run", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same-every-run")
