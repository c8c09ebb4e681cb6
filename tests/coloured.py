"""Runs the command line as on a terminal with colours, wherever its output goes."""

import sys

import click

from tui_evals.cli.main import run

click.utils.should_strip_ansi = lambda *_: False
sys.exit(run(sys.argv[1:]))
