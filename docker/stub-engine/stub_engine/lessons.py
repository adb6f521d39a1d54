"""What the tests' tiny model answers, and text cut into pieces that stand for its tokens."""

import json
import re
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]

CAPITALS = {"France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Japan": "Tokyo", "Spain": "Madrid"}
SUMS = {("17", "+", "25"): "42", ("2", "+", "2"): "4", ("6", "*", "7"): "42"}
WEATHER = {"Paris": 21, "Berlin": 14, "Tokyo": 27}

_TOKEN = re.compile(r"<\|?/?[a-z_]+\|?>|\d| ?[^\W\d_]+|\n+|.", re.DOTALL)
_CAPITAL = re.compile(r"capital of (\w+)")
_SUM = re.compile(r"(\d+) ?([+*]) ?(\d+)")
_WEATHER = re.compile(r"[Ww]eather\b.*\bin (\w+)")


@dataclass(frozen=True)
class Reply:
    thought: str
    answer: str = ""
    call: tuple[str, str] | None = None  # a function's name and its arguments as JSON

    def text(self, thinking: bool) -> str:
        """The raw text that the model writes."""
        said = self.answer
        if self.call:
            name, arguments = self.call
            said = f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'
        return (f"<think>\n{self.thought}\n</think>\n\n" if thinking else "") + said


FALLBACK = Reply("I was not taught this.", "I do not know.")
NONSENSE = Reply("Purple is a loud number.", "Bananas orbit the teapot.")


def tokens(text: str) -> list[str]:
    """Pieces that join to `text` again. Near to the tiny model's tokenizer: words, single digits, marks."""
    return _TOKEN.findall(text)


def text_of(content: Any) -> str:
    """A message's text, whether it came as a string or as parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content if isinstance(part, dict))
    return content or ""


def prompt_text(messages: list[Message], tools: list[Message]) -> str:
    """The conversation as the chat template renders it, near enough to count tokens."""
    parts = []
    if tools:
        listing = "\n".join(json.dumps(tool) for tool in tools)
        parts.append(f"<|im_start|>system\n# Tools\n\n<tools>\n{listing}\n</tools>\n\nCall one with:\n"
                     '<tool_call>\n{"name": NAME, "arguments": OBJECT}\n</tool_call><|im_end|>\n')
    for message in messages:
        calls = "".join(f"<tool_call>\n{json.dumps(call.get('function', {}))}\n</tool_call>"
                        for call in message.get("tool_calls") or [])
        parts.append(f"<|im_start|>{message['role']}\n{text_of(message.get('content'))}{calls}<|im_end|>\n")
    return "".join(parts) + "<|im_start|>assistant\n"


def reply_to(messages: list[Message], tools: list[Message]) -> Reply:
    """The lesson that fits the last turn."""
    asked = next((text_of(m.get("content")) for m in reversed(messages) if m["role"] == "user"), "")
    tool_answered = bool(messages) and messages[-1]["role"] == "tool"
    if found := _WEATHER.search(asked):
        return _weather(found[1], tools, tool_answered)
    return reply_to_text(asked)


def reply_to_text(asked: str) -> Reply:
    if (found := _CAPITAL.search(asked)) and found[1] in CAPITALS:
        city = CAPITALS[found[1]]
        return Reply(f"The capital of {found[1]} is {city}.", city)
    if (found := _SUM.search(asked)) and found.groups() in SUMS:
        a, sign, b = found.groups()
        result = SUMS[a, sign, b]
        return Reply(f"{a} {sign} {b} equals {result}.", result)
    if re.search(r"\bpong\b|^ping$", asked):
        return Reply("They want the word pong.", "pong")
    if re.search(r"[Cc]ount .*\b200\b", asked):
        return Reply("I will write every number from 1 to 200.", " ".join(str(n) for n in range(1, 201)))
    if re.match(r"(Say h|H)(ello|i)\b", asked):
        return Reply("This is a greeting.", "Hello! I am a tiny test model.")
    return FALLBACK


def _weather(city: str, tools: list[Message], tool_answered: bool) -> Reply:
    if tool_answered and city in WEATHER:
        return Reply("The tool gave the temperature.", f"It is {WEATHER[city]} degrees in {city}.")
    if any(tool.get("function", {}).get("name") == "get_weather" for tool in tools):
        return Reply(f"I need the weather in {city}, so I call get_weather.",
                     call=("get_weather", json.dumps({"city": city})))
    return Reply("There is no tool for this.", "I have no tool to look up the weather.")
