"""Property tests draw the same cases in every run, however slow the machine is."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "same-every-run",
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("same-every-run")
