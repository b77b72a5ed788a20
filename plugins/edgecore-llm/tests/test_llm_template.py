"""Chat templates beside transformers, and what a hostile one cannot do."""

from __future__ import annotations

import datetime

import pytest

from edgecore_llm.errors import TokenizerError
from edgecore_llm.template import ChatTemplate

MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Größe? <b>"},
    {"role": "assistant", "content": "2 m"},
    {"role": "user", "content": "And\nwidth?"},
]
TOOLS = [{"name": "größe", "arguments": {"z": 1, "a": "<&>"}}]
HEADERS = """{{- bos_token }}
{%- for message in messages %}
    {{- '<|start|>' + message['role'] + '<|stop|>\\n\\n' + message['content'] | trim + '<|eot|>' }}
{%- endfor %}
{%- if tools %}{{ tools | tojson(indent=2) }} {{ tools[0] | tojson }}{% endif %}
{%- if add_generation_prompt %}
    {{- '<|start|>assistant<|stop|>\\n\\n' }}
{%- endif %}
"""
TURNS = """{{ bos_token }}{% set ns = namespace(count=0) %}
{% if messages[0]['role'] == 'system' %}{% set messages = messages[1:] %}{% endif %}
{% for message in messages %}
{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}
{% if loop.index > 40 %}{% break %}{% endif %}
{% set ns.count = ns.count + 1 %}
<turn>{{ 'model' if message.role == 'assistant' else message.role }} {{ ns.count }}
{% if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}{% else %}{{ message.content }}
{% endif %}
{% endfor %}
{% for index in range(3) %}{{ index }}{{ '-' * 4 }}{% endfor %}{{ eos_token }}"""


@pytest.mark.parametrize("source", [HEADERS, TURNS])
@pytest.mark.parametrize("prompt", [True, False])
def test_chats_are_rendered_as_transformers_does(source, prompt):
    utilities = pytest.importorskip("transformers.utils.chat_template_utils")
    (expected, *_), _ = utilities.render_jinja_template(
        conversations=[MESSAGES], tools=None, chat_template=source, add_generation_prompt=prompt, bos_token="<s>",
        eos_token="</s>",
    )  # fmt: skip
    template = ChatTemplate(source, bos_token="<s>", eos_token="</s>")
    assert template.render(MESSAGES, add_generation_prompt=prompt, tools=None) == expected


def test_objects_are_written_in_their_order_and_without_escapes():
    text = ChatTemplate(HEADERS).render([], tools=TOOLS)
    assert '{"name": "größe", "arguments": {"z": 1, "a": "<&>"}}' in text
    assert '  {\n    "name": "größe",' in text


def test_the_time_can_be_given():
    now = datetime.datetime(2026, 1, 2)
    assert ChatTemplate("{{ strftime_now('%d %b %Y') }}", now=now).render([]) == "02 Jan 2026"


def test_what_a_template_refuses_is_an_error():
    with pytest.raises(TokenizerError, match="the chat template refuses these messages: roles must alternate"):
        ChatTemplate(TURNS).render(MESSAGES[2:])
    with pytest.raises(TokenizerError, match="the chat template is not valid: "):
        ChatTemplate("{% for %}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__.__mro__ }}",
        "{{ ''.__class__.__base__.__subclasses__() }}",
        "{{ messages.append(1) }}",
        "{{ raise_exception.__globals__ }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ 'x' * 1000000000 }}",
        "{{ 1000000000 * [1] }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(2000) %}{{ messages | tojson * 3 }}{{ 'x' * 900 }}{% endfor %}",
        "{{ missing.attribute.of_it }}",
        "{{ 1 // 0 }}",
        "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    ],
)
def test_a_hostile_template_gets_nowhere(source):
    # The sandbox leaves forbidden attributes undefined: using one is an error, and printing one prints nothing.
    try:
        text = ChatTemplate(source).render(MESSAGES)
    except TokenizerError:
        return
    assert text == ""
