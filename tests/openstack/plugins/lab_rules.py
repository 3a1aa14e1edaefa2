"""Rules by which a test makes a service misbehave, in a file that the service's processes share.

A rule is {"kind": ..., "match": {fact: regular expression}, "skip": n, "times": n or null, "act": {...}}. It applies to the
first things that it matches, after it has let `skip` of them pass. /lab/rules (lab_wsgi.py) lists, adds and removes rules.

kind "call"     an HTTP call; facts: method, path, query, user_agent
  answer        {"status": 429, "headers": {...}, "body": text}: the service never sees the call
  before        seconds that the call waits before the service sees it
  after         seconds that the answer waits after the service has committed
  lose          true: the service has committed, and the connection is closed without an answer
  cut           true: the connection is closed in the middle of the answer
kind "driver"   a call of the provider driver, within Octavia's transaction; facts: op, project, name, populated, protocol,
                allowed_cidrs
  refuse        "unsupported" (501) or "fails" (500)
  hold          seconds that the transaction stays open
kind "settle"   a load balancer that has become PENDING_*; facts: op (create, update or delete), project, name
  stall         true: it stays PENDING until the rule is removed
  delay         seconds that it stays PENDING
  status        the provisioning status that it ends in
"""

import contextlib
import fcntl
import json
import os
import re

FILE = os.environ["LAB_RULES"]


@contextlib.contextmanager
def _file():
    """The open file and its rules, for one process at a time."""
    with open(FILE, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        yield file, json.loads(text) if text else {"next": 1, "rules": []}


def _write(file, state):
    file.seek(0)
    file.truncate()
    file.write(json.dumps(state))
    file.flush()


def rules():
    with _file() as (_, state):
        return state["rules"]


def add(rule):
    """Returns the rule with its ID, and with `applied`, which counts how often it was applied."""
    for pattern in rule.get("match", {}).values():
        re.compile(pattern)
    with _file() as (file, state):
        rule = {"skip": 0, "times": None, "match": {}, **rule, "id": state["next"], "applied": 0}
        state["next"] += 1
        state["rules"].append(rule)
        _write(file, state)
    return rule


def remove(rule_id=None):
    """Removes one rule, or all."""
    with _file() as (file, state):
        state["rules"] = [rule for rule in state["rules"] if rule_id not in (None, rule["id"])]
        _write(file, state)


def is_there(rule_id):
    return any(rule["id"] == rule_id for rule in rules())


def take(kind, **facts):
    """Returns the rule that applies to these facts, and counts it; None if there is none."""
    # Nearly always there is none, and then no call waits for the lock.
    if os.path.getsize(FILE) == 0:
        return None
    with _file() as (file, state):
        for rule in state["rules"]:
            if rule["kind"] != kind or rule["times"] == 0:
                continue
            if not all(re.search(pattern, facts.get(fact, "")) for fact, pattern in rule["match"].items()):
                continue
            if rule["skip"] > 0:
                rule["skip"] -= 1
                _write(file, state)
                continue
            rule["applied"] += 1
            if rule["times"] is not None:
                rule["times"] -= 1
            _write(file, state)
            return rule
    return None


# The file is there as soon as the service is.
with open(FILE, "a", encoding="utf-8"):
    pass
