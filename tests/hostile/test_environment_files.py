"""18.2: `.env.local` became a child's environment: PYTHONPATH, LD_PRELOAD, and both gates off."""

import pytest

NAMES = ["PYTHONPATH", "LD_PRELOAD", "TUI_EVALS_ALLOW_CODE", "TUI_EVALS_TRUST", "PATH", "HTTPS_PROXY", "SSL_CERT_FILE"]
FILES = [".env.local", ".env.local.user", ".env.dev", "env/.env.local", "env/.env.dev", "env/.env.prod"]


@pytest.mark.parametrize("file", FILES)
def test_no_name_that_steers_reaches_a_child(clone, shell, file):
    (clone.root / ".env.local").unlink()
    if file.endswith("user"):
        clone.write(".env.local", "")  # without it nobody looks for the one beside it
    clone.write(file, "".join(f"{name}=./hostile\n" for name in NAMES))
    words = ("--env", "prod") if file.endswith("prod") else ()
    done = shell("run", "data.json", "-t", "command:env", *words, "--items", "1", "--evaluators", "Includes")
    assert done.code in (0, 1), done.err
    shown = shell("show", "last", "--item", "A").out
    assert "HOME" in shown
    assert not [line for line in shown.splitlines() if "./hostile" in line]
    assert f"may not set {', '.join(sorted(NAMES))}" in done.err


def test_doctor_says_where_each_variable_comes_from(clone, shell):
    out = shell("doctor").out
    assert "OPENAI_BASE_URL" in out
    assert ".env.local" in out
