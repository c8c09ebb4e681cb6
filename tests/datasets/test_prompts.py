"""Prompt files of every kind: what is read of them, and the sentence, file and line for what is wrong in them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.datasets.paths import DatasetError, problem_with_place
from tui_evals.datasets.prompts import github_text, is_prompt, load_prompt, prompt_name
from tui_evals.runs.prompting import prompts_from
from tui_evals.text.chats import Section
from tui_evals.text.yamls import load_mapping, load_yaml

GITHUB = """\
name: Joke teller
description: Tells jokes.
model: openai/gpt-4o-mini
modelParameters:
  temperature: 0.5
  maxTokens: 100
messages:
  - role: system
    content: |

      You tell jokes in {{locale}}.
      user:
      is only a word here.
  - role: User
    content: "About {{topic}}"
  - role: assistant
    content: "  "
testData:
  - topic: cats
    expected: "42"
evaluators:
  - name: short
    string: {contains: cat}
responseFormat: text
"""


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text, encoding="utf-8")
    return file


def complaints(folder: Path, name: str, text: str) -> list[str]:
    with pytest.raises(DatasetError) as raised:
        load_prompt(written(folder, name, text))
    return [problem_with_place(name, problem) for problem in raised.value.problems]


@pytest.mark.parametrize("suffix", [".prompt.yml", ".prompt.yaml", ".Prompt.YML"])
def test_a_prompt_of_github_models_reads_as_the_prompty_that_says_the_same(tmp_path, suffix):
    prompt = load_prompt(written(tmp_path, "joke" + suffix, GITHUB))
    assert prompt.front == {
        "name": "Joke teller",
        "description": "Tells jokes.",
        "model": {
            "configuration": {"name": "github:openai/gpt-4o-mini"},
            "parameters": {"temperature": 0.5, "max_tokens": 100},
        },
        "testSamples": [{"topic": "cats", "expected": "42"}],
        "imported": {"evaluators": [{"name": "short", "string": {"contains": "cat"}}], "responseFormat": "text"},
    }
    assert prompt.lines == {"name": 1, "description": 2, "model": 3, "testSamples": 18, "imported": 21}
    text_of_sections = "You tell jokes in {{locale}}.\nuser:\nis only a word here."
    assert prompt.sections == (Section("system", text_of_sections, 11), Section("user", "About {{topic}}", 15))
    assert prompt.body == f"system:\n{text_of_sections}\n\nuser:\nAbout {{{{topic}}}}"


def test_a_line_that_only_looks_like_a_role_starts_no_message_of_a_github_prompt(tmp_path):
    file = written(tmp_path, "joke.prompt.yml", GITHUB)
    chat = prompts_from([file])[0].rendered({"locale": "fr", "topic": "user:\nhi"})
    assert [message["role"] for message in chat] == ["system", "user"]
    assert chat[1]["content"] == "About user:\nhi"


def test_only_messages_are_needed_in_a_github_prompt(tmp_path):
    prompt = load_prompt(written(tmp_path, "p.prompt.yml", "messages: [{role: user, content: hi}]\n"))
    assert (prompt.front, prompt.lines) == ({}, {})
    assert prompt.sections == (Section("user", "hi", 1),)


def test_parameters_without_a_model_are_kept(tmp_path):
    text = "modelParameters: {topP: 1}\nmessages: [{role: user, content: hi}]\n"
    prompt = load_prompt(written(tmp_path, "p.prompt.yml", text))
    assert (prompt.front, prompt.lines) == ({"model": {"parameters": {"top_p": 1}}}, {"model": 1})


MESSAGES = "messages:\n  - role: user\n    content: hi\n"
GITHUB_PROBLEMS = {
    "an unknown role": (
        "name: x\nmessages:\n  - role: user\n    content: a\n  - content: b\n    role: tool\n",
        ["p.prompt.yml:6: messages[1].role: must be 'system', 'user' or 'assistant', not \"tool\""],
    ),
    "content that is a list": (
        "messages:\n  - role: user\n    content: [a]\n",
        ["p.prompt.yml:3: messages[0].content: must be text, not a list"],
    ),
    "content that is missing": (
        "messages:\n  - role: user\n    contents: a\n",
        ["p.prompt.yml:2: messages[0]: content is missing"],
    ),
    "no messages": ("name: x\n\nmessages: []\n", ["p.prompt.yml:3: messages: must hold at least one entry"]),
    "messages that are absent": ("# x\nmodel: m\n", ["p.prompt.yml:2: messages is missing"]),
    "a number for a name": (f"{MESSAGES}name: 2024\n", ["p.prompt.yml:4: name: must be text, not 2024"]),
    "parameters that are text": (
        f"{MESSAGES}modelParameters: hot\n",
        ['p.prompt.yml:4: modelParameters: must be an object, not "hot"'],
    ),
    "samples of the wrong kind": (
        f"{MESSAGES}testData:\n  - a: 1\n  - two\n",
        ['p.prompt.yml:6: testData[1]: must be an object, not "two"'],
    ),
    "two problems": (
        "name: [a]\nmessages:\n  - {role: 1, content: a}\n",
        [
            "p.prompt.yml:1: name: must be text, not a list",
            "p.prompt.yml:3: messages[0].role: must be 'system', 'user' or 'assistant', not 1",
        ],
    ),
    "no YAML": ("name: x\nmessages: [\n", ["p.prompt.yml:3: the prompt cannot be read: not valid YAML"]),
    "a key twice": (
        f"name: x\nname: y\n{MESSAGES}",
        ["p.prompt.yml:2: the prompt cannot be read: the key 'name' appears twice"],
    ),
    "text": ("hello\n", ["p.prompt.yml:1: the prompt cannot be read: a mapping is needed here"]),
    "nothing": ("", ["p.prompt.yml:1: messages is missing"]),
    "a template that is none": (
        "messages:\n  - role: user\n    content: |\n      a\n      {{ b\n",
        ["p.prompt.yml:5: the user section is not valid"],
    ),
}


@pytest.mark.parametrize("case", GITHUB_PROBLEMS)
def test_a_broken_github_prompt_names_the_key_and_the_line(tmp_path, case):
    text, wanted = GITHUB_PROBLEMS[case]
    problems = complaints(tmp_path, "p.prompt.yml", text)
    assert len(problems) == len(wanted)
    assert all(said.startswith(start) for said, start in zip(problems, wanted, strict=True)), problems


FRONT_PROBLEMS = {
    "inputs as a list": ("name: x\n\ninputs:\n  - a\n", [":4: inputs: must be an object, not a list"]),
    "tags as text": ("tags: a, b\n", [':2: tags: must be a list, not "a, b"']),
    "a tag that is a number": ("tags:\n- a\n- 1\n", [":4: tags[1]: must be text, not 1"]),
    "a version": ("version: [1]\n", [":2: version: must be text or a number"]),
    "a truth for a version": ("version: true\n", [":2: version: must be text or a number"]),
    "a sample": ("sample: 3\n", [":2: sample: must be an object, or the name of a file that holds it"]),
    "samples as text": ("name: x\ntestSamples: a.json\n", [':3: testSamples: must be a list, not "a.json"']),
    "a sample of many": (
        "testSamples:\n  - a: 1\n  - b.json\n  - 3\n",
        [":5: testSamples[2]: must be an object, or the name of a file with a list of them"],
    ),
    "a model": ("model: gpt-4o\n", [':2: model: must be an object, not "gpt-4o"']),
    "an unknown key": ("name: x\ninput:\n  a: 1\n", [":3: unknown field 'input' (did you mean 'inputs'?)"]),
    "an old key": ("testExpansions: 1\n", [":2: unknown field 'testExpansions'"]),
    "a scenario without a name": (
        "scenarios:\n  - name: a\n  - instructions: b\n",
        [":4: scenarios[1]: name is missing"],
    ),
    "a scenario's name": (
        "scenarios:\n  - instructions: b\n    name: 3\n",
        [":4: scenarios[0].name: must be text, not 3"],
    ),
    "a scenario's parameters": (
        "scenarios:\n  - name: a\n    parameters: [b]\n",
        [":4: scenarios[0].parameters: must be an object, not a list"],
    ),
    "an unknown key of a scenario": (
        "scenarios:\n  - name: a\n    parameter:\n      b: 1\n",
        [":4: scenarios[0]: unknown field 'parameter' (did you mean 'parameters'?)"],
    ),
    "a scenario that is text": ("scenarios:\n  - English\n", [':3: scenarios[0]: must be an object, not "English"']),
    "instructions": (
        "instructions:\n  intent: a\n  inputspec: b\n",
        [":4: instructions: unknown field 'inputspec' (did you mean 'inputSpec'?)"],
    ),
    "an instruction that is a list": (
        "instructions:\n  intent: [a]\n",
        [":3: instructions.intent: must be text, not a list"],
    ),
    "no YAML": ("name: x\ninputs: {a\n", [":4: the front matter cannot be read: not valid YAML"]),
    "a list": ("- a\n", [":2: the front matter cannot be read: a mapping is needed here"]),
    "two problems": ("tag: a\nname: 1\n", [":2: unknown field 'tag'", ":3: name: must be text, not 1"]),
}


@pytest.mark.parametrize("suffix", [".prompty", ".md", ".txt"])
@pytest.mark.parametrize("case", FRONT_PROBLEMS)
def test_bad_front_matter_names_the_key_and_the_line(tmp_path, case, suffix):
    front, wanted = FRONT_PROBLEMS[case]
    problems = complaints(tmp_path, "p" + suffix, f"---\n{front}---\nhello\n")
    assert len(problems) == len(wanted), problems
    assert all(said.startswith(f"p{suffix}{start}") for said, start in zip(problems, wanted, strict=True)), problems


@pytest.mark.parametrize("name", ["p.prompty", "p.md", "p.txt", "p"])
def test_other_prompt_files_are_text_with_optional_front_matter(tmp_path, name):
    plain = load_prompt(written(tmp_path, name, "Be kind.\n\nuser:\n{{ask}}\n"))
    assert plain.sections == (Section("system", "Be kind.", 1), Section("user", "{{ask}}", 4))
    assert load_prompt(written(tmp_path, name, "---\ntags: [a]\n---\nBe kind.\n")).front == {"tags": ["a"]}


def test_all_that_may_stand_in_front_matter_is_read(tmp_path):
    front = (
        "$schema: s\nname: n\ndescription: d\nversion: 2\nsource: s\nurl: u\nmodel: {api: chat}\ntags: [a]\n"
        "authors: [b]\nsample: f.json\ninputs: {a: {type: string}, b: 3, c: [1]}\noutputs: {}\n"
        "instructions: {intent: i}\nscenarios: [{name: s, instructions: i, parameters: {a: x}}]\n"
        "testSamples: [{a: 1}, f.json]\nimported: {x: y}\n"
    )
    prompt = load_prompt(written(tmp_path, "p.prompty", f"---\n{front}---\n{{{{a}}}}\n"))
    assert len(prompt.front) == 16


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("speech-tag.prompty", "speech-tag"),
        ("a.b.prompt.yml", "a.b"),
        ("a.PROMPT.YAML", "a"),
        ("notes.md", "notes"),
        ("a.prompt.txt", "a.prompt"),
        (".prompty", ".prompty"),
        ("plain", "plain"),
    ],
)
def test_a_prompt_is_called_after_its_file(file, name):
    assert prompt_name(Path("folder", file)) == name
    assert is_prompt(Path(file)) == (file != "plain")


def test_a_run_names_its_prompts_after_their_files(tmp_path):
    files = [written(tmp_path, name, "messages: [{role: user, content: hi}]") for name in ("a.prompt.yml", "b.md")]
    assert [prompt.name for prompt in prompts_from(files)] == ["a", "b"]


def test_a_prompt_that_is_not_utf_8_or_not_there_is_a_sentence(tmp_path):
    file = tmp_path / "p.prompt.yml"
    with pytest.raises(DatasetError, match=r"p\.prompt\.yml: cannot be read: No such file"):
        load_prompt(file)
    file.write_bytes(b"name: caf\xe9\n")
    with pytest.raises(DatasetError, match="is not UTF-8 text"):
        load_prompt(file)
    with pytest.raises(DatasetError, match=r"save the text as one, such as brief\.prompty"):
        load_prompt(Path("Answer in 3.5 words: {{prompt}}"))


def test_an_alias_for_the_messages_is_placed_where_it_stands(tmp_path):
    text = "x: &a\n  - role: user\n    content: '{{ b'\nmessages: *a\n"
    assert complaints(tmp_path, "p.prompt.yml", text)[0].startswith("p.prompt.yml:4: the user section")


HOSTILE = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
    st.text("ab \n\t\r:-#'\"{}[]&*!|>%@`,?\\0.~<=\x85\u2028\ufeff\x07é😀", max_size=30),
    st.sampled_from(
        [
            "a: b",
            "- x",
            " lead",
            "  two\nlines",
            "a\n",
            "a\n\n",
            "\n",
            "a\n  b\n",
            "a\n \nb",
            "a\n  ",
            "1",
            "0x1f",
            "1e3",
            ".5",
            "-1",
            "true",
            "no",
            "on",
            "null",
            "~",
            "{{a}}",
            "{% a %}",
            "---",
            "...",
            "--- a\nb",
            "a # b",
            "a:",
            "'a'",
            '"a"',
            "<<",
            "=",
            "2001-01-01",
            "1_000",
            "12:30:00",
            "a\tb\nc",
            "a\x85b\nc",
            "\ta\nb",
            "a\r\nb",
            "%a\nb",
        ]
    ),
)
VALUES = st.recursive(
    st.one_of(HOSTILE, st.booleans(), st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(HOSTILE, inner, max_size=4)),
    max_leaves=12,
)


@pytest.mark.story
@given(st.dictionaries(HOSTILE, VALUES, max_size=5))
def test_whatever_is_written_as_yaml_is_read_back_the_same(document):
    assert (load_yaml(github_text(document)) or {}) == document


def test_lines_are_written_as_blocks_and_words_without_quotes():
    text = github_text({"a": "one two", "b": {"c": "x: y\n  {{z}}\n"}, "d": "12", "e": ["no", 12]})
    assert text == 'a: one two\nb:\n  c: |\n    x: y\n      {{z}}\nd: "12"\ne:\n- "no"\n- 12\n'


def test_one_line_stays_one_line():
    text = github_text({"a": "word " * 100 + "end", "b": "word: " * 100})
    assert len(text.splitlines()) == 2


def test_half_a_surrogate_pair_becomes_a_question_mark():
    text = github_text({"a": "x\ud800y"})
    assert load_mapping(text.encode("utf-8"))[0] == {"a": "x?y"}
