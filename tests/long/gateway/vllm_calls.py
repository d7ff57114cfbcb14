"""What vLLM's tool parsers read in given texts: a program for vLLM's environment, which has no lego_rl.

It keeps to Python 3.11, as vLLM does.

Usage: vllm_calls.py TOKENIZER.json. It answers one line of JSON, its version, and then each line of its input,
``{"parser": NAME, "text": ..., "tools": [...]}``, with one line: what the parser reads in the whole text, and what a
client of a stream puts together that gets the text token by token.
"""

import json
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from transformers import PreTrainedTokenizerFast
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.tool_parsers import ToolParser, ToolParserManager

import vllm

Answer = dict[str, Any]


def whole(parser: ToolParser, text: str, request: ChatCompletionRequest) -> Answer:
    read = parser.extract_tool_calls(text, request)
    calls = [[call.function.name, call.function.arguments] for call in read.tool_calls]
    return {"content": read.content or "", "calls": calls}


def streamed(
    parser: ToolParser, text: str, request: ChatCompletionRequest, tokenizer: PreTrainedTokenizerFast
) -> Answer:
    content = ""
    calls: dict[int, list[str]] = {}
    for delta in deltas(parser, text, request, tokenizer):
        if delta is None:
            continue
        content += delta.content or ""
        for call in delta.tool_calls or []:
            known = calls.setdefault(call.index, ["", ""])
            if call.function is not None:
                known[0] += call.function.name or ""
                known[1] += call.function.arguments or ""
    return {"content": content, "calls": [calls[index] for index in sorted(calls)]}


def deltas(
    parser: ToolParser, text: str, request: ChatCompletionRequest, tokenizer: PreTrainedTokenizerFast
) -> Iterator[Any]:
    """One delta a token; the text of a token that ends inside a character comes with the next one, as in a server."""
    ids = tokenizer.encode(text, add_special_tokens=False)
    before, pending = "", 0
    for end in range(1, len(ids) + 1):
        now = tokenizer.decode(ids[:end], skip_special_tokens=False, clean_up_tokenization_spaces=False)
        if now.endswith("\ufffd") and end < len(ids):
            continue
        yield parser.extract_tool_calls_streaming(
            before, now, now[len(before) :], ids[:pending], ids[:end], ids[pending:end], request
        )
        before, pending = now, end
    if hasattr(parser, "finish_streaming"):
        yield parser.finish_streaming()


def answer(question: Answer, tokenizer: PreTrainedTokenizerFast) -> Answer:
    request = ChatCompletionRequest(
        model="policy", messages=[{"role": "user", "content": "-"}], tools=question["tools"] or None
    )

    def parser() -> ToolParser:
        made = ToolParserManager.get_tool_parser(question["parser"])(tokenizer, request.tools)
        if hasattr(made, "skip_reasoning_parsing"):
            made.skip_reasoning_parsing = True
        return made

    text = question["text"]
    return {"whole": whole(parser(), text, request), "streamed": streamed(parser(), text, request, tokenizer)}


def main(tokenizer_file: str, answers: TextIO) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=tokenizer_file)
    print(json.dumps({"vllm": vllm.__version__}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), tokenizer)), file=answers, flush=True)


if __name__ == "__main__":
    # vLLM and torch may write to standard output: answers have a descriptor of their own.
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main(sys.argv[1], own)
