"""A harness that runs a script: it calls the model once, as any harness does, and then does what an agent would."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_rl.harness.base import DEFAULT_PATH, BundleSpec, Conduct, Endpoint, HarnessBundle, Launch, ToolUse
from lego_rl.harness.start import PORT

NAME, VERSION = "script", "1"

# Without a call there was no policy, and the trial would be the harness's fault. Bash alone makes it in milliseconds.
CALL = f"""\
exec 9<>/dev/tcp/127.0.0.1/{PORT} || exit 1
body='{{"model":"policy","messages":[{{"role":"user","content":"Mend it."}}]}}'
printf 'POST %s/v1/chat/completions HTTP/1.1\\r\\nHost: gateway\\r\\n' "$SESSION" >&9
printf 'Content-Type: application/json\\r\\nConnection: close\\r\\n' >&9
printf 'Content-Length: %d\\r\\n\\r\\n%s' ${{#body}} "$body" >&9
read -r answer <&9
exec 9>&-
case $answer in *" 200 "*) exec bash -s;; *) echo "the gateway answered $answer" >&2; exit 1;; esac
"""


@dataclass
class ScriptHarness:
    """See `Harness`.

    Attributes:
        script: Bash.
        known: Its variables.
    """

    script: str
    known: Mapping[str, str] = field(default_factory=dict)
    name: str = NAME
    version: str = VERSION

    @property
    def spec(self) -> BundleSpec:
        """See `Harness.spec`."""
        return BundleSpec(self.name, self.version, "Apache-2.0", build="")

    @property
    def conduct(self) -> Conduct:
        """See `Harness.conduct`."""
        return Conduct(ToolUse("bash", "command"), too_long="stops")

    def install(self, root: Path) -> HarnessBundle:
        """See `Harness.install`; there is nothing to install but an empty folder."""
        folder = root / self.spec.folder
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        return HarnessBundle(self.name, self.version, "0" * 64, folder, 0, self.spec.licence)

    def launch(
        self, instruction: str, endpoint: Endpoint, *, mount: str, home: str, workdir: str, path: str = DEFAULT_PATH
    ) -> Launch:
        """See `Harness.launch`."""
        session = endpoint.base_url.partition(f":{PORT}")[2]
        env = {"HOME": home, "PATH": path, "LANG": "C.UTF-8", "SESSION": session, **self.known}
        return Launch(("bash", "-c", CALL), env, stdin=self.script)
