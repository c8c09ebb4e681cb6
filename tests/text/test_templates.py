"""Templates render what they should, refuse what they must, and end."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.text.templates import (
    MAX_OUTPUT,
    TemplateError,
    fill_template,
    render_template,
    template_fields,
    template_variables,
)

VALUES = {
    "a": "Ada",
    "n": 3,
    "yes": True,
    "nothing": None,
    "names": ["x", "y"],
    "person": {"name": "Bo", "items": 7, "tags": ["t"]},
    "text": "a" * 100_000,
    "big": "a" * 1_000_000,
    "numbers": list(range(100_000)),
}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("plain text\n", "plain text\n"),
        ("Hello {{ a }}!", "Hello Ada!"),
        ("{{ person.name }} {{ person['name'] }} {{ person.items }}", "Bo Bo 7"),
        ("{{ names[0] }}{{ names.1 }}{{ names[-1] }}{{ a[:2] }}", "xyyAd"),
        ("{{4 + n}} {{ n * 2 }} {{ n ** 2 }} {{ 7 % n }} {{ 7 // 2 }} {{ -n }}", "7 6 9 1 3 -3"),
        ("{{ a + '!' }}{{ 'is ' ~ n ~ names }}{{ names + names }}", "Ada!is 3['x', 'y']['x', 'y', 'x', 'y']"),
        ("{% for x in names %}{{ loop.index }}/{{ loop.length }}{{ x }}{% else %}-{% endfor %}", "1/2x2/2y"),
        ("{% for x in [] %}{{ x }}{% else %}none{% endfor %}", "none"),
        ("{% for k, v in {'p': 1, 'q': 2}|items %}{{ k }}={{ v }};{% endfor %}", "p=1;q=2;"),
        ("{% for x in names if x != 'x' %}{{ x }}{% endfor %}", "y"),
        ("{% if missing is defined %}y{% elif yes %}e{% else %}n{% endif %}", "e"),
        ("{{ missing|default('none') }}{{ ''|d('empty', true) }}", "noneempty"),
        ("{% set b = a ~ '?' %}{{ b }}{% with c = 1 %}{{ c }}{% endwith %}", "Ada?1"),
        ("{{ 'y' if n == 3 and n < 4 and 'x' in names else 'n' }}{{ not yes }}", "yFalse"),
        ("{{ nothing }} {{ none }} {{ true }}", "None None True"),
        ("{# gone #}{% raw %}{{ kept }}{% endraw %}", "{{ kept }}"),
        ("{{ a|upper|lower }} {{ ' x '|trim }} {{ names|join(', ') }} {{ a|replace('d', 'D') }}", "ada x x, y ADa"),
        ("{{ names|first }}{{ names|last }}{{ names|length }}{{ 'ab'|list }}{{ 5|string + '!' }}", "xy2['a', 'b']5!"),
        ("{{ '3'|int + 1 }} {{ '2.5'|float }} {{ 1.236|round(2) }} {{ [3, 1, 3]|sort }} {{ [2, 2, 1]|unique }}",
         "4 2.5 1.24 [1, 3, 3] [2, 1]"),
        ("{{ ['b', 'C', 'a']|sort }} {{ ['b', 'C', 'a']|sort(case_sensitive=true) }}",
         "['a', 'b', 'C'] ['C', 'a', 'b']"),
        ("{{ 'red PEN'|title }} {{ 'red PEN'|capitalize }} {{ 'abc'|reverse }} {{ names|reverse }}",
         "Red Pen Red pen cba ['y', 'x']"),
        ("{{ 'can a cat fly'|truncate(12) }}|{{ 'abcdef'|truncate(3, true, '-') }}|{{ 'abcdef'|truncate(3) }}",
         "can a cat...|abc-|abc..."),
        ("{{ 'can a cat?'|wordcount }} {{ 'a b&é'|urlencode }}", "3 a%20b%26%C3%A9"),
        ("{{ 'a\nb\n\nc'|indent(2) }}|{{ 'a'|indent(2, true) }}", "a\n  b\n\n  c|  a"),
        ("{{ {'q': '<\"é\">', 'l': [1, none]}|tojson }}", '{"q": "<\\"é\\">", "l": [1, null]}'),
        ("{{ names|tojson(indent=1) }}", '[\n "x",\n "y"\n]'),
        ("{%- if yes -%}  tight  {%- endif -%}", "tight"),
    ],
)  # fmt: skip
def test_what_a_template_may_do(template: str, expected: str) -> None:
    assert render_template(template, VALUES) == expected


@pytest.mark.parametrize(
    ("template", "sentence"),
    [
        ("a\nb\n{{ foo }}", "line 3 of the template uses {{ foo }}, which has no value; known: a, n"),
        ("{{ a }}\n{{ foo.bar }}", "line 2 of the template uses {{ foo }}"),
        ("{{ foo + 1 }}{{ 1 }}", "uses {{ foo }}"),
        ("{{ person[foo] }}", "uses {{ foo }}"),
        ("{{ foo ~ 'x' }}", "uses {{ foo }}"),
        ("{{ foo|upper }}", "uses {{ foo }}"),
        ("{% if foo %}{% endif %}", "uses {{ foo }}"),
        ("{% for x in foo %}{% endfor %}", "uses {{ foo }}"),
        ("{{ person.nme }}", "asks for 'nme' of a dict without it; it has name, items, tags"),
        ("{{ names[7] }}", "asks for '7' of a list without it"),
        ("one\n{{ a ", "line 2 of the template is not valid"),
        ("{% if a %}", "is not valid: Unexpected end of template"),
        ("{{ a|shout }}", "uses the filter 'shout'; there are only abs, capitalize, d"),
        ("{% if false %}{{ a is shouted }}{% endif %}", "uses the test 'shouted'; there are only boolean"),
        ("\n{{ 1 / 0 }}", "line 2 of the template cannot be computed: division by zero"),
        ("{{ 'many'|int }}", "cannot be computed: invalid literal"),
        ("{{ a * 3 }}", "uses * on str and int"),
        ("{{ 'x' < 3 }}", "cannot be computed"),
        ("{% for loop in names %}{% endfor %}", "is not valid"),
    ],
)
def test_what_goes_wrong_is_said_in_a_sentence(template: str, sentence: str) -> None:
    with pytest.raises(TemplateError) as error:
        render_template(template, VALUES)
    assert sentence in str(error.value)


def test_an_error_knows_its_line() -> None:
    with pytest.raises(TemplateError) as error:
        render_template("{{ a }}\ntext\n\n{{ a }} {{ foo }}", VALUES)
    assert error.value.line == 4


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__ }}",
        "{{ a.__class__.__mro__ }}",
        "{{ a['__class__'] }}",
        "{{ person.keys }}",
        "{{ names.append }}",
        "{{ a.upper() }}",
        "{{ '{0.__class__}'.format(a) }}",
        "{{ cycler }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ lipsum }}",
        "{{ namespace }}",
        "{{ joiner }}",
        "{{ dict }}",
        "{{ range(3) }}",
        "{{ env.HOME }}",
        "{{ self }}",
        "{{ self._TemplateReference__context }}",
        "{% for x in names %}{{ loop }}{% endfor %}",
        "{% for x in names %}{{ loop._iterator }}{% endfor %}",
        "{% for x in names %}{{ loop.cycle('a') }}{% endfor %}",
        "{% for x in names recursive %}{{ loop(names) }}{% endfor %}",
        "{{ a|attr('upper') }}",
        "{{ names|map('upper')|list }}",
        "{{ 'x'|format }}",
        "{{ a|safe }}",
        "{{ (-8) ** 0.5 }}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'x' %}",
        "{% import 'x' as y %}",
        "{% from 'x' import y %}",
        "{% extends 'x' %}",
        "{% call a() %}{% endcall %}",
        "{% block x %}{% endblock %}",
        "{% filter upper %}x{% endfilter %}",
        "{% set x %}body{% endset %}",
        "{% set person.name = 1 %}",
        "{% autoescape true %}{{ a }}{% endautoescape %}",
        "{% do a %}",
        "{% debug %}",
    ],
)
def test_nothing_but_plain_data_can_be_reached(template: str) -> None:
    with pytest.raises(TemplateError):
        render_template(template, VALUES)


def doubled(start: str, step: str, end: str) -> str:
    return f"{{% set x = {start} %}}" + f"{{% set x = {step} %}}" * 60 + end


BOMBS = {
    "repeat": "{{ 'a' * 500000000 }}",
    "ljust": "{{ 'a'.ljust(500000000) }}",
    "format": "{{ '{:>500000000}'.format(1) }}",
    "percent": "{{ '%500000000d' % 1 }}",
    "ranges": "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "loops without output": "{% for a in text %}{% for b in text %}{% endfor %}{% endfor %}",
    "loops with output": "{% for a in numbers %}{% for b in numbers %}{{ b }}{% endfor %}{% endfor %}",
    "sixteen short loops": "{% for x in names %}" * 16 + "{% endfor %}" * 16,
    "loop over a long body": "{% for x in numbers %}" + "z" * 50_000 + "{% endfor %}",
    "search in a loop": "{% for c in text %}{% if 'b' in big %}{% endif %}{% endfor %}",
    "long list in a loop": "{% for c in text %}{% set y = [" + "1," * 7000 + "] %}{% endfor %}",
    "power": "{{ 9 ** 64 ** 64 }}",
    "powers": "{% set x = 2 %}" + "{% set x = x ** 64 %}" * 10,
    "doubled text with ~": doubled("text", "x ~ x", ""),
    "doubled text with +": doubled("text", "x + x", ""),
    "doubled list": doubled("[1]", "x + x", ""),
    "nested list printed": doubled("[1]", "[x, x]", "{{ x }}"),
    "nested list compared": doubled("[1]", "[x, x]", "{{ x == [x, [x]] }}{{ x < x }}"),
    "nested list as JSON": doubled("[1]", "[x, x]", "{{ x|tojson }}"),
    "nested dict as text": doubled("{}", "{'a': x, 'b': x}", "{{ x|string|length }}"),
    "many copies": "".join(f"{{% set b{i} = big|upper %}}" for i in range(1000)),
    "many slices": "".join(f"{{%set b{i}=big[1:]%}}" for i in range(1000)),
    "one long concatenation": "{{ " + "~".join(["big"] * 3000) + " }}",
    "replace": "{{ text|replace('a', text) }}",
    "replace nothing": "{{ text|replace('', text) }}",
    "join": "{{ numbers|join(text) }}",
    "split": "{% for part in big|split('x') %}{{ big|split }}{% endfor %}",
    "join characters": "{{ big|join(big) }}",
    "centre": "{{ 'a'|center(500000000) }}",
    "digits": "{{ " + "9" * 60_000 + " }}",
    "deep brackets": "{{ " + "(" * 5000,
    "deep lists": "{{ " + "[" * 900 + "]" * 900 + " }}",
    "deep ifs": "{% if yes %}" * 900 + "{% endif %}" * 900,
    "deep loops": "{% for x in names %}" * 40 + "{% endfor %}" * 40,
    "many branches": "{% if n == 1 %}" + "{% elif n == 1 %}" * 1000 + "{% endif %}" * 2,
    "many filters": "{{ a" + "|upper" * 5000 + " }}",
    "many tags": "{{a}}" * 13_000,
    "many openings": "{%" * 30_000,
    "too long": "x" * 70_000,
}


@pytest.mark.nightly
@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_ends_after_little_work(bomb: str) -> None:
    render_template("warm", VALUES)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        with pytest.raises(TemplateError):
            render_template(bomb, VALUES)
    finally:
        sys.setprofile(before)
    assert calls < 10_000_000, "calls and returns, of which the longest takes 4.5 million"


MEASURE = """
import json, resource, sys
from tui_evals.text.templates import TemplateError
from tui_evals.text.templates import render_template
bombs, values = json.load(sys.stdin)
render_template("{{ a }}", values)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for bomb in bombs:
    try:
        render_template(bomb, values)
    except TemplateError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.nightly
def test_bombs_stay_small() -> None:
    names = ("repeat", "percent", "doubled text with ~", "many copies", "many slices", "replace", "join", "powers",
             "one long concatenation", "nested list printed")  # fmt: skip
    given = json.dumps([[BOMBS[name] for name in names], VALUES])
    done = subprocess.run([sys.executable, "-c", MEASURE], input=given, capture_output=True, text=True, check=True)
    unit = 1 if sys.platform == "darwin" else 1024
    assert int(done.stdout) * unit < 100_000_000
    assert done.stderr == ""


@pytest.mark.parametrize(
    "template",
    [
        "{{ 5|round(-500000000) }}",
        "{{ numbers[:9]|tojson(indent=500000000) }}",
        "{{ 'a\nb'|indent(500000000) }}",
        "{{ numbers|unique|length }}",
        "{% if yes %}" * 60 + "x" + "{% endif %}" * 60,
    ],
)
def test_absurd_wishes_are_capped(template: str) -> None:
    assert len(render_template(template, VALUES)) < 1000


def test_output_has_a_limit() -> None:
    assert len(render_template("{{ big }}", VALUES)) == MAX_OUTPUT
    with pytest.raises(TemplateError, match="renders to more than 1,000,000 characters"):
        render_template("{{ big }}!", VALUES)


def test_a_long_honest_list_renders() -> None:
    items = [{"id": n, "text": "word " * 10} for n in range(2000)]
    text = render_template("{% for item in items %}{{ item.id }}. {{ item.text|trim }}\n{% endfor %}", {"items": items})
    assert text.count("\n") == 2000


@pytest.mark.parametrize("value", ["{{ 7*7 }}", "{% for %}", "{{ env.X }}", "{", "}}", "{#", "<b>&amp;", "user:\n"])
def test_a_value_is_never_a_template(value: str) -> None:
    assert render_template("[{{ v }}|{{ v|upper }}]", {"v": value}) == f"[{value}|{value.upper()}]"
    assert fill_template("[{v}|{{v}}]", {"v": value}) == f"[{value}|{{v}}]"


@given(st.text())
def test_any_text_passes_through_untouched(value: str) -> None:
    assert render_template("{{ v }}", {"v": value}) == value
    assert fill_template("{v}", {"v": value}) == value


@pytest.mark.parametrize("value", [object(), open, {1, 2}, b"x", [object()], {"k": {"k": print}}, 10**2000])
def test_only_plain_data_is_given(value: object) -> None:
    with pytest.raises(TemplateError):
        render_template("no matter", {"v": value})


def test_data_that_holds_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(TemplateError, match="more data"):
        render_template("{{ v }}", {"v": loop})


def test_values_are_not_changed() -> None:
    values = {"names": ["b", "a"]}
    assert render_template("{{ names|sort }}{{ names + ['c'] }}", values) == "['a', 'b']['b', 'a', 'c']"
    assert values == {"names": ["b", "a"]}


def test_renderings_side_by_side_do_not_mix() -> None:
    template = "{% for x in items %}{{ x }},{% endfor %}"
    with ThreadPoolExecutor(4) as pool:
        texts = list(pool.map(lambda n: render_template(template, {"items": [n] * 50}), range(100)))
    assert texts == [f"{n}," * 50 for n in range(100)]


def test_import_is_cheap() -> None:
    code = "import sys, tui_evals.text.templates; print([m for m in sys.modules if m.split('.')[0] == 'jinja2'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("template", "names"),
    [
        ("none", ()),
        ("the joke: {{ locale }} and {{joke}} {{ locale }}", ("locale", "joke")),
        ("{{ b if a else c }}", ("b", "a", "c")),
        ("{% for x in xs %}{{ x }}{{ loop.index }}{% endfor %}", ("xs",)),
        ("{% set y = z %}{{ y }}", ("z",)),
        ("{{ p.q }} {{ q }} {{ p|length }} {{ length }}", ("p", "q", "length")),
        ("{{ v|default('x') }}{% raw %}{{ w }}{% endraw %}{# {{ u }} #}", ("v",)),
    ],
)
def test_variables(template: str, names: tuple[str, ...]) -> None:
    assert template_variables(template) == names


@pytest.mark.parametrize("template", ["{{ a", "{% macro m() %}{% endmacro %}", "{{ a|nope }}", "{{ " + "(" * 900])
def test_variables_of_a_bad_template(template: str) -> None:
    with pytest.raises(TemplateError):
        template_variables(template)


@pytest.mark.parametrize(
    ("template", "names", "text"),
    [
        ("no fields", (), "no fields"),
        ("{q}: {a-b} {q}", ("q", "a-b"), "<q>: <a-b> <q>"),
        ("{{literal}} {q}", ("q",), "{literal} <q>"),
        ("{{{q}}}", ("q",), "{<q>}"),
        ('{{"a": {q}}}', ("q",), '{"a": <q>}'),
        ('{"a": {"b": 1}} {q}', ("q",), '{"a": {"b": 1}} <q>'),
        ('{"a": {"b": {q}}}', ("q",), '{"a": {"b": <q>}}'),
        ("{} {0} {q.x} {q!r} {q:>9} { q }", (), "{} {0} {q.x} {q!r} {q:>9} { q }"),
        ("open { and } close", (), "open { and } close"),
        ("{größe}", ("größe",), "<größe>"),
    ],
)
def test_fill(template: str, names: tuple[str, ...], text: str) -> None:
    assert template_fields(template) == names
    assert fill_template(template, {name: f"<{name}>" for name in (*names, "extra")}) == text


def test_fill_is_one_pass() -> None:
    assert fill_template("{a}{b}", {"a": "{b}", "b": "{a}{{}}"}) == "{b}{a}{{}}"


def test_fill_says_what_is_missing() -> None:
    with pytest.raises(TemplateError) as error:
        fill_template("{question} {answer} {ideal}", {"question": "?", "input": "x"})
    assert str(error.value) == (
        "the template needs question, answer, ideal; given: question, input; missing: answer, ideal"
    )


@given(st.text(alphabet="{}a ", max_size=30))
def test_fill_agrees_with_format_where_format_can(template: str) -> None:
    try:
        expected = template.format(a="A{", aa="AA", aaa="AAA")
    except (ValueError, LookupError, AttributeError):
        return
    if set(template_fields(template)) <= {"a", "aa", "aaa"} and "{ " not in template:
        assert fill_template(template, {"a": "A{", "aa": "AA", "aaa": "AAA"}) == expected


@pytest.mark.parametrize("template", ["{v}" * 20_000, "x" * 70_000])
def test_fill_has_limits(template: str) -> None:
    with pytest.raises(TemplateError, match="characters"):
        fill_template(template, {"v": "x" * 1_000_000})
