"""Every wire format, for tests that hold in each."""

import pytest
from anthropic_wire import AnthropicWire
from gateway_kit import START
from openai_wires import OpenAIChatWire, OpenAIResponsesWire
from wire import Streamed, Wire

from lego_rl.messages import Json

WIRES: dict[str, Wire] = {
    "anthropic": AnthropicWire(),
    "openai-chat": OpenAIChatWire(),
    "openai-responses": OpenAIResponsesWire(),
}

FORMS: dict[str, Wire] = WIRES | {f"{name}-streamed": Streamed(wire) for name, wire in WIRES.items()}
"""Every wire format, whole and streamed."""

every_wire = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
every_form = pytest.mark.parametrize("wire", FORMS.values(), ids=FORMS)


def streamed(wire: Wire) -> dict[str, Json]:
    """A streamed request that begins a conversation."""
    return wire.body(START, ()) | {"stream": True}
