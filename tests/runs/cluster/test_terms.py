"""What the word behind --cluster means, and what is refused before anything of Dask is imported."""

import ast
import importlib.util
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui_evals.runs.executors.cluster import terms as module
from tui_evals.runs.executors.cluster.terms import (
    ClusterTerms,
    Host,
    HostsFile,
    LocalWorkers,
    Scheduler,
    check_terms,
    is_encrypted,
    parse_place,
    read_hosts,
)
from tui_evals.targets.base import ConfigurationError


@pytest.fixture(autouse=True)
def everything_is_installed(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: object())


@pytest.fixture
def tls(tmp_path):
    files = {}
    for part in ("ca", "cert", "key"):
        path = tmp_path / f"{part}.pem"
        path.write_text("x")
        files[f"tls_{part}"] = str(path)
    return files


def listed(tmp_path, text):
    path = tmp_path / "hosts.txt"
    path.write_text(text, encoding="utf-8")
    return f"ssh:{path}"


def refused(**given):
    with pytest.raises(ConfigurationError) as caught:
        check_terms(ClusterTerms(**given))
    return str(caught.value)


@pytest.mark.parametrize(
    ("word", "meaning"),
    [
        ("local", LocalWorkers(None)),
        ("local:4", LocalWorkers(4)),
        ("tcp://host:8786", Scheduler("tcp://host:8786", "host", 8786, False)),
        ("tls://host:8786/", Scheduler("tls://host:8786", "host", 8786, True)),
        ("tcp://[::1]:8786", Scheduler("tcp://[::1]:8786", "::1", 8786, False)),
    ],
)
def test_each_form_means_one_thing(word, meaning):
    assert parse_place(word) == meaning


def test_a_file_of_hosts_may_lie_anywhere():
    assert isinstance(parse_place("ssh:a b/hosts.txt"), HostsFile)


@pytest.mark.parametrize(
    "word", ["", "dask", "locale", "http://host:8786", "ssh:", "ssh://host", "tcp:host:8786", "Local"]
)
def test_a_word_that_means_nothing_is_told_the_forms(word):
    assert "local:4, tcp://host:8786, tls://host:8786 or ssh:hosts.txt" in refused(word=word)


@pytest.mark.parametrize("word", ["local:", "local:0", "local:-1", "local:two", "local:1.5", "local:²"])
def test_a_number_of_workers_is_a_number(word):
    assert "as in local:4" in refused(word=word)


@pytest.mark.parametrize(
    "word",
    ["tcp://", "tcp://host", "tls://:8786", "tcp://host:x", "tcp://host:99999", "tcp://me@host:1", "tcp://h:1/p"],
)
def test_an_address_has_a_host_and_a_port_and_no_more(word):
    assert "looks like" in refused(word=word)


@given(st.text(max_size=40))
def test_any_word_is_understood_or_refused(word):
    try:
        parse_place(word)
    except ConfigurationError as error:
        assert str(error)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_plain_tcp_to_this_machine_is_nobodys_business(host):
    assert check_terms(ClusterTerms(word=f"tcp://{host}:8786")) == ()


@pytest.mark.parametrize(
    "host", ["10.0.0.5", "localhost.example.org", "128.0.0.1", "0.0.0.0", "[::2]", "127.0.0.1.nip.io"]
)
def test_plain_tcp_to_elsewhere_wants_to_be_accepted(host):
    word = f"tcp://{host}:8786"
    said = refused(word=word)
    assert host.strip("[]") in said
    assert "--insecure-cluster" in said and "--tls-ca" in said
    (note,) = check_terms(ClusterTerms(word=word, insecure=True))
    assert "run code on the workers" in note


def test_tls_wants_no_acceptance(tls):
    assert check_terms(ClusterTerms(word="tls://10.0.0.5:8786", **tls)) == ()


def test_tls_without_its_files_is_refused(tls):
    assert "--tls-ca and --tls-cert" in refused(word="tls://10.0.0.5:8786")
    assert "--tls-ca and --tls-cert" in refused(word="tls://10.0.0.5:8786", tls_key=tls["tls_key"])


def test_a_tls_file_that_is_not_there_is_named(tls, tmp_path):
    tls["tls_cert"] = str(tmp_path / "none.pem")
    assert "none.pem: there is no such file" in refused(word="tls://10.0.0.5:8786", **tls)


@pytest.mark.parametrize("word", ["local:2", "tcp://127.0.0.1:8786"])
def test_tls_files_that_would_change_nothing_are_refused(word, tls):
    assert "--tls-ca does nothing" in refused(word=word, **tls)


def test_a_variable_is_forwarded_over_tls_only(tls):
    forward = ("OPENAI_API_KEY",)
    assert check_terms(ClusterTerms(word="local:2", forward=forward)) == ()
    assert check_terms(ClusterTerms(word="tls://10.0.0.5:8786", forward=forward, **tls)) == ()
    assert "OPENAI_API_KEY" in refused(word="tcp://127.0.0.1:8786", forward=forward)
    assert "OPENAI_API_KEY" in refused(word="tcp://10.0.0.5:8786", forward=forward, insecure=True)


def test_hosts_elsewhere_want_tls_or_acceptance(tmp_path, tls):
    word = listed(tmp_path, "localhost\nme@far:2222\n")
    assert "plain TCP to far" in refused(word=word)
    assert len(check_terms(ClusterTerms(word=word, insecure=True))) == 1
    assert check_terms(ClusterTerms(word=word, **tls)) == ()
    assert is_encrypted(ClusterTerms(word=word, **tls)) and not is_encrypted(ClusterTerms(word=word))


def test_hosts_that_are_all_this_machine_want_nothing(tmp_path):
    assert check_terms(ClusterTerms(word=listed(tmp_path, "127.0.0.1:2222\n[::1]\nlocalhost\n"))) == ()


def test_tls_files_of_hosts_have_one_path_everywhere(tmp_path, tls, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tls["tls_ca"] = "ca.pem"
    assert "the same on every host" in refused(word=listed(tmp_path, "far\n"), **tls)


def test_a_file_lists_hosts_in_its_order_and_twice_when_it_says_so(tmp_path):
    listed(tmp_path, "\ufeff# ours\n\nme@one.example:2222  # big\r\ntwo\n[fe80::1]:22\n two \n")
    hosts = read_hosts(tmp_path / "hosts.txt")
    assert hosts == [Host("one.example", "me", 2222), Host("two"), Host("fe80::1", None, 22), Host("two")]
    assert [str(host) for host in hosts] == ["me@one.example:2222", "two", "[fe80::1]:22", "two"]


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_a_file_without_hosts_is_refused(tmp_path, text):
    assert "names no host" in refused(word=listed(tmp_path, text))


def test_a_file_that_is_not_there_or_not_a_file_is_refused(tmp_path):
    assert "there is no such file" in refused(word=f"ssh:{tmp_path}/none.txt")
    assert "cannot be read" in refused(word=f"ssh:{tmp_path}")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in refused(word=f"ssh:{tmp_path}/binary")


@pytest.mark.parametrize(
    "line",
    ["-oProxyCommand=sh", "two words", "a;b", "host:0", "host:65536", "host:ssh", "@host", "::1", "$(id)", "a\x1b[2J"],
)
def test_a_line_that_is_no_host_is_named_and_shown_harmlessly(tmp_path, line):
    said = refused(word=listed(tmp_path, f"good\n{line}\n"))
    assert "line 2" in said
    assert "\x1b" not in said


@given(st.text(max_size=200))
def test_any_file_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("hosts") / "hosts.txt"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        assert all(not host.name.startswith("-") for host in read_hosts(path))
    except ConfigurationError as error:
        assert str(error)


@pytest.mark.parametrize(("word", "lacking"), [("local", "distributed"), ("ssh:hosts.txt", "asyncssh")])
def test_without_the_extra_a_sentence_says_how_to_install_it(monkeypatch, tmp_path, word, lacking):
    monkeypatch.chdir(tmp_path)
    listed(tmp_path, "localhost\n")
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == lacking else importlib.util.find_spec("json"))
    assert refused(word=word).endswith("pip install 'tui-evals[cluster]'")


def test_checking_imports_nothing_of_dask():
    code = (
        "import sys; from tui_evals.runs.executors.cluster.terms import ClusterTerms, check_terms, ConfigurationError\n"
        "try: check_terms(ClusterTerms(word='local:2'))\n"
        "except ConfigurationError: pass\n"
        "import tui_evals.runs.executors.cluster.connection\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert not {"dask", "distributed", "asyncssh", "cryptography"} & set(ast.literal_eval(loaded))


def test_a_driver_cannot_hand_on_what_a_worker_trusts():
    with pytest.raises(ConfigurationError, match="TUI_EVALS_TRUST: what a worker trusts is set where it is started"):
        check_terms(ClusterTerms(word="local:2", forward=("TUI_EVALS_TRUST",)))
