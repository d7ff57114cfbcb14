"""A `Patch` as JSON: contents are bytes of any kind, so they are written in base64."""

import base64
import json

from lego_rl.sandbox.verdict import Change, Patch


def patch_to_json(patch: Patch) -> str:
    """The patch as a JSON text; the inverse of `patch_from_json`."""
    changes = [
        {
            "path": change.path,
            "kind": change.kind,
            "content": base64.b64encode(change.content).decode("ascii"),
            "executable": change.executable,
        }
        for change in patch.changes
    ]
    return json.dumps({"changes": changes, "dropped": patch.dropped}, indent=1)


def patch_from_json(text: str) -> Patch:
    """Read a patch back.

    Raises:
        ValueError: The text is not a patch.
    """
    try:
        raw = json.loads(text)
        changes = tuple(
            Change(
                path=change["path"],
                kind=change["kind"],
                content=base64.b64decode(change["content"], validate=True),
                executable=change["executable"],
            )
            for change in raw["changes"]
        )
        return Patch(changes, dict(raw["dropped"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a patch: {error!r}") from error
