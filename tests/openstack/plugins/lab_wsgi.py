"""What gunicorn serves: the service that LAB_APP names, behind a log of what it answers and the faults that a test asks for.

LAB_APP     keystone, octavia, neutron or barbican
LAB_CONF    its configuration file
LAB_CALLS   the log: a line of JSON for each request, with the time when it came (seconds since 1970), written before the
            answer leaves, so that a client that has its answer finds the line there
LAB_RULES   the file of the rules (lab_rules.py)

    GET /lab/rules            the rules, with how often each was applied
    POST /lab/rules           one more
    DELETE /lab/rules[/ID]    one less, or none left
    PUT /lab/health           Octavia: {member id: operating status or null}, what a health monitor has found out
"""

import json
import os
import socket
import sys
import time
from http import HTTPStatus

import lab_rules

APP = os.environ["LAB_APP"]
CALLS = os.open(os.environ["LAB_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
LAB = "/lab/"

# Octavia's and Neutron's loaders read the command line.
sys.argv = [APP] + (["--config-file", os.environ["LAB_CONF"]] if APP == "octavia" else [])
if APP == "keystone":
    from keystone.wsgi.api import application as service
elif APP == "octavia":
    from octavia.wsgi.api import application as service

    import lab_octavia
elif APP == "barbican":
    from oslo_config import cfg
    from paste import deploy

    # Each of its modules reads the file by itself, from where it usually is.
    cfg.find_config_files = lambda *_, **__: [os.environ["LAB_CONF"]]
    service = deploy.loadapp(f"config:{sys.prefix}/etc/barbican/barbican-api-paste.ini")
else:
    from neutron.wsgi.api import application as service


def application(environ, start_response):
    if environ["PATH_INFO"].startswith(LAB):
        return lab(environ, start_response)
    facts = {
        "method": environ["REQUEST_METHOD"],
        "path": environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"],
        "query": environ.get("QUERY_STRING", ""),
        "user_agent": environ.get("HTTP_USER_AGENT", ""),
    }
    came = time.time()

    def answer(status, headers, *rest):
        call = facts | {"status": int(status.split()[0]), "came": came}
        os.write(CALLS, (json.dumps(call) + "\n").encode())
        return start_response(status, headers, *rest)

    rule = lab_rules.take("call", **facts)
    if rule is None:
        return served(environ, answer)
    return faulty(rule["act"], environ, answer)


def served(environ, answer):
    body = service(environ, answer)
    if APP == "octavia" and environ["REQUEST_METHOD"] != "GET":
        # The driver was called before the commit, which may have taken longer than its thread looks on.
        lab_octavia.kick()
    return body


def faulty(act, environ, answer):
    if "answer" in act:
        return given(act["answer"], answer)
    time.sleep(act.get("before", 0))
    body = b"".join(served(environ, answer))
    time.sleep(act.get("after", 0))
    if act.get("lose"):
        close(environ)
    if act.get("cut"):
        return broken(environ, body)
    return [body]


def given(wanted, answer):
    status, text = wanted["status"], wanted.get("body", "").encode()
    headers = {"Content-Type": "application/json", "Content-Length": str(len(text))} | wanted.get("headers", {})
    answer(f"{status} {HTTPStatus(status).phrase}", list(headers.items()))
    return [text]


def broken(environ, body):
    yield body[: len(body) // 2]
    close(environ)


def close(environ):
    """Closes the connection; what is written afterwards goes nowhere."""
    environ["gunicorn.socket"].shutdown(socket.SHUT_RDWR)


def lab(environ, start_response):
    try:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        result = hook(environ["REQUEST_METHOD"], environ["PATH_INFO"].removeprefix(LAB), json.loads(body or "null"))
        status, text = "200 OK", json.dumps(result)
    except Exception as error:  # a test's mistake comes back as text, whatever it is
        status, text = "400 Bad Request", json.dumps({"faultstring": repr(error)})
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text.encode()]


def hook(method, path, body):
    what, _, which = path.partition("/")
    if (method, path, APP) == ("PUT", "health", "octavia"):
        lab_octavia.report_health(body)
        return {}
    if what != "rules":
        raise ValueError(f"no hook {method} {path}")
    if method == "POST":
        return lab_rules.add(body)
    if method == "DELETE":
        lab_rules.remove(int(which) if which else None)
        if APP == "octavia":
            # What stalled goes on.
            lab_octavia.kick()
        return {}
    return {"rules": lab_rules.rules()}
