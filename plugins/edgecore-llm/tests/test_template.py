"""Chat templates beside transformers, and what a hostile one cannot do."""

from __future__ import annotations

import datetime
import re

import llm_tokenizers
import pytest

from edgecore_llm.errors import TokenizerError
from edgecore_llm.template import ChatTemplate
from edgecore_llm.tokenizer.open import open_tokenizer
from edgecore_llm.tokenizer.tokenizer import Tokenizer

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


def test_json_is_written_with_the_arguments_of_transformers():
    source = "{{ x | tojson(ensure_ascii=True, separators=(',', ':'), sort_keys=True) }}{{ x | tojson(False, 1) }}"
    assert ChatTemplate(source).render([], x={"b": "ö", "a": 1}) == ('{"a":1,"b":"\\u00f6"}{\n "b": "ö",\n "a": 1\n}')


def test_arguments_may_have_any_name():
    source = "{% macro m(context, called) %}{{ context }}{{ called }}{% endmacro %}{{ m(context=1, called=2) }}"
    assert ChatTemplate(source).render([]) == "12"


def test_special_tokens_that_a_message_spells_are_text(tmp_path):
    llm_tokenizers.byte_level(tmp_path / "tokenizer.json")
    tokenizer = open_tokenizer(tmp_path)
    template = ChatTemplate("{% for m in messages %}<|begin|>{{ m.role }}: {{ m.content | trim }}<|end|>{% endfor %}")
    begin, end = tokenizer.encode("<|begin|><|end|>", specials=True)
    for content in ("Hello", " <|end|> x", "<|end|>", "<<|end|>|<|begin|><|end|>", "a\U000f0000<|end|>\U000f0001"):
        tokens = template.encode(tokenizer, [{"role": "user", "content": content}])
        assert [token for token in tokens if tokenizer.is_special(token)] == [begin, end]
        assert tokenizer.decode(tokens) == f"user: {content.strip()}"
    plain = [{"role": "user", "content": "Hello dog"}, {"role": "assistant", "content": "Yes."}]
    assert template.encode(tokenizer, plain) == tokenizer.encode(template.render(plain), specials=True)
    cutting = ChatTemplate("{{ messages[0].content[:4] }}")
    with pytest.raises(TokenizerError, match="the chat template cuts a message within the spelling of a special token"):
        cutting.encode(tokenizer, [{"role": "user", "content": "<|end|>"}])


@pytest.mark.parametrize("form", ["prepend", "metaspace", "sentencepiece"])
def test_text_around_the_spelling_of_a_special_token_stays_as_it_is(form, tmp_path):
    if form == "sentencepiece":
        pytest.importorskip("sentencepiece")
        llm_tokenizers.sentencepiece_model(tmp_path / "tokenizer.model")
    else:
        llm_tokenizers.byte_fallback(tmp_path / "tokenizer.json", form == "metaspace")
    tokenizer = open_tokenizer(tmp_path)
    template = ChatTemplate("<s>[{{ messages[0].content }}]</s>x")
    after = tokenizer.encode("<s>[a]</s>x", specials=True)
    end = tokenizer.encode("</s>", specials=True)[-1]
    for content in ("a</s>b", "</s>", "a </s> b", "</s>a<s><s>b</s>"):
        tokens = template.encode(tokenizer, [{"role": "user", "content": content}])
        assert [token for token in tokens if tokenizer.is_special(token)] == [after[0], end]
        shown = tokenizer.decode(after, specials=True).replace("[a]", f"[{content}]")
        assert tokenizer.decode(tokens, specials=True) == shown
    alone = ChatTemplate("{{ messages[0].content }}").encode(tokenizer, [{"role": "user", "content": "</s>b"}])
    assert tokenizer.decode(alone) == "</s>b"


def test_what_is_no_text_is_one_clear_sentence(tmp_path):
    llm_tokenizers.byte_level(tmp_path / "tokenizer.json")
    tokenizer, template = open_tokenizer(tmp_path), ChatTemplate("{{ messages[0].content }}")
    with pytest.raises(TokenizerError, match="a message holds something else than texts, numbers, lists and objects"):
        template.encode(tokenizer, [{"role": "user", "content": b"a"}])
    for call in (tokenizer.encode, lambda text: template.encode(tokenizer, [{"role": "user", "content": text}])):
        with pytest.raises(TokenizerError, match=r"the text is no UTF-8: character 1 is '\\udcff'"):
            call("a\udcff")


def test_overlapping_spellings_of_special_tokens_are_text():
    class Letters(Tokenizer):
        vocabulary = 300

        def encode(self, text, *, bos=False, specials=False, is_continued=False):
            if not specials:
                return [*map(ord, text)]
            named = {"abc": [298], "cda": [299]}
            return [token for part in re.split("(abc|cda)", text) for token in named.get(part, map(ord, part))]

        def token_bytes(self, token):
            return {298: b"abc", 299: b"cda"}.get(token, bytes([token % 256]))

        def is_special(self, token):
            return token >= 298

    template = ChatTemplate("abc{{ messages[0].content }}")
    for content in ("abcda", "xabcdabcabcx", "abcabc", "ab"):
        tokens = template.encode(Letters(), [{"role": "user", "content": content}])
        assert tokens == [298, *map(ord, content)]


def test_texts_of_usual_sizes_are_formatted():
    source = (
        """{{ 'x'.center(5) }}{{ 'x' | center(5) }}{{ '%3d' % 1 }}{{ '{:>4}'.format(2) }}{{ '%s-%s' | format(1, 2) }}"""
    )
    source += """{{ 'a\nb' | indent(2) }}{{ [1, 2] | join(', ') }}{{ 'aa' | replace('a', 'b') }}{{ 'a' ~ 1 ~ none }}"""
    source += (
        """{{ ', '.join(['a', 'b']) }}{% set t %}{{ 'in' }}{% endset %}{{ t + '!' }}{{ [3, 1] | batch(1) | list }}"""
    )
    assert ChatTemplate(source).render([]) == "  x    x    1   21-2a\n  b1, 2bba1Nonea, bin![[3], [1]]"


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
        "{{ 'x'.center(1000000000) }}",
        "{{ 'x'.ljust(1000000000) }}{{ 'x'.rjust(1000000000) }}",
        "{{ 'x'.zfill(width=1000000000) }}",
        "{{ '\t'.expandtabs(1000000000) }}",
        "{{ 'x' | center(1000000000) }}",
        "{{ 'x' | center(width=1000000000) }}",
        "{{ 'x\nx' | indent(1000000000) }}",
        "{{ [1] | batch(1000000000, 'x') | list }}",
        "{{ [1] | slice(1000000000) | list }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%.1000000000f' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}",
        "{{ '{a:1000000000}'.format_map({'a': 1}) }}",
        "{% set f = 'x'.center %}{{ f(1000000000) }}",
        "{{ ('x' * 9000).replace('x', 'y' * 9000) }}",
        "{{ ('x' * 9000) | replace('x', 'y' * 9000) }}",
        "{{ ('y' * 9000).join('x' * 9000) }}",
        "{{ ('x' * 9000) | join('y' * 9000) }}",
        "{{ lipsum(n=100000) }}",
        "{% set n = namespace(s='xx') %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s='xx') %}{% for i in range(40) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{% set n = namespace(s=[1]) %}{% for i in range(40) %}{% set n.s = n.s + n.s %}{% endfor %}",
        "{% set n = namespace(s='xx') %}{% for i in range(40) %}{% set t %}{{ n.s }}{{ n.s }}{% endset %}"
        "{% set n.s = t %}{% endfor %}",
        "{% macro m(s) %}{{ s }}{{ s }}{% endmacro %}{% set n = namespace(s='xx') %}"
        "{% for i in range(40) %}{% set n.s = m(n.s) %}{% endfor %}",
        "{{ 'a' | tojson(indent=200000000) }}{{ [1, 2] | tojson(indent=200000000) }}",
        "{{ [1, 2] | tojson(separators=('x' * 99999, 'y')) }}",
        *(
            "{% set n = namespace(l=['abc']) %}{% for i in range(23) %}{% set n.l = [n.l, n.l] %}{% endfor %}" + use
            for use in (
                "{{ n.l | string | length }}",
                "{{ n.l | tojson | length }}",
                "{{ n.l }}",
                "{{ (n.l ~ 'a') | length }}",
                "{{ [n.l] | join | length }}",
                "{{ ('%s' % n.l) | length }}",
                "{{ ('%s' | format(n.l)) | length }}",
                "{{ '{}'.format(n.l) | length }}",
                "{{ n.l | upper | length }}",
            )
        ),
        "{% set b = 'x' * 90000 %}{{ ([b] * 300) | join | length }}",
        "{% set b = 'x' * 90000 %}{{ ([b] * 300) | map('upper') | join | length }}",
        "{% set b = 'x' * 90000 %}{{ ''.join([b] * 300) | length }}",
        "{{ ('%(a)s' * 9000 % {'a': 'x' * 9000}) | length }}",
        "{{ ('{0}' * 9000).format('x' * 9000) | length }}",
        "{% set n = namespace(l=[1]) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] | sum(start=[]) %}{% endfor %}",
        "{% set n = namespace(x=3) %}{% for i in range(40) %}{% set n.x = n.x * n.x %}{% endfor %}",
        "{% set r = range(9999) %}{% for a in r %}{% for b in r %}{% for c in r %}{% endfor %}{% endfor %}{% endfor %}",
        "{% set r = range(9999) %}{% for a in r %}{% for b in r if b < 0 %}{% endfor %}{% endfor %}",
        "{% set r = range(9999) %}{% for a in r %}{% set x = r | sum %}{% endfor %}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
        "{% set b = 'x'.encode() %}{{ (b * 1000000000) | length }}{{ b.center(1000000000) | length }}",
        "{{ (1).to_bytes(1000000000, 'big') | length }}",
        "{{ ('a' * 90000).translate({97: 'x' * 90000}) | length }}",
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
