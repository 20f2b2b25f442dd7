"""A plugin of pytest: which lines of a package each test executes, and how long it takes.

Written to the file --lines, of the package LINES_OF. What is executed outside of
any test, or by a fixture, which tests may share, is all tests'. What a child process executes is
not seen.
"""

import json
import os
import sys
import threading
import time
from collections import defaultdict

import pytest

PACKAGE = os.environ["LINES_OF"] + os.sep
ALL = ""
lines, seconds, whose = defaultdict(set), defaultdict(float), ALL


def entered(frame, event, _):
    file = frame.f_code.co_filename
    if not file.startswith(PACKAGE):
        return None
    name = file.removeprefix(PACKAGE)
    lines[whose].add((name, frame.f_lineno))

    def executed(frame, event, _):
        if event == "line":
            lines[whose].add((name, frame.f_lineno))
        return executed

    return executed


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    global whose
    whose = item.nodeid
    yield
    whose = ALL


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    begun = time.monotonic()
    yield
    seconds[item.nodeid] += time.monotonic() - begun


def pytest_addoption(parser):
    parser.addoption("--lines", required=True)


def pytest_sessionfinish(session, exitstatus):
    if exitstatus:
        return  # of what fails nothing is known
    tests = {test: {"seconds": s, "lines": sorted(lines[test])} for test, s in seconds.items()}
    file = session.config.getoption("--lines")
    with open(f"{file}.part", "w") as out:
        json.dump({"all": sorted(lines[ALL]), "tests": tests}, out)
    os.replace(f"{file}.part", file)


threading.settrace(entered)
sys.settrace(entered)
