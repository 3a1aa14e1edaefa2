"""What gunicorn serves: the service that LAB_APP names, behind a log of what it answers.

LAB_APP     keystone, octavia or neutron
LAB_CONF    its configuration file
LAB_CALLS   the log: a line of JSON for each request, written before the answer leaves, so that a client that has its
            answer finds the line there
"""

import json
import os
import sys

APP = os.environ["LAB_APP"]
CALLS = os.open(os.environ["LAB_CALLS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
HEALTH = "/lab/health"

# Octavia's and Neutron's loaders read the command line.
sys.argv = [APP] + (["--config-file", os.environ["LAB_CONF"]] if APP == "octavia" else [])
if APP == "keystone":
    from keystone.wsgi.api import application as service
elif APP == "octavia":
    from octavia.wsgi.api import application as service

    import lab_octavia
else:
    from neutron.wsgi.api import application as service


def application(environ, start_response):
    if APP == "octavia" and environ["PATH_INFO"] == HEALTH:
        return health(environ, start_response)

    def answer(status, headers, *rest):
        call = {
            "method": environ["REQUEST_METHOD"],
            "path": environ.get("SCRIPT_NAME", "") + environ["PATH_INFO"],
            "query": environ.get("QUERY_STRING", ""),
            "status": int(status.split()[0]),
            "user_agent": environ.get("HTTP_USER_AGENT", ""),
        }
        os.write(CALLS, (json.dumps(call) + "\n").encode())
        return start_response(status, headers, *rest)

    return service(environ, answer)


def health(environ, start_response):
    """PUT {member id: operating status or null}: what a health monitor has found out."""
    try:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        lab_octavia.report_health(json.loads(body))
        status, text = "200 OK", "{}"
    except Exception as error:  # a test's mistake comes back as text, whatever it is
        status, text = "400 Bad Request", json.dumps({"faultstring": repr(error)})
    start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
    return [text.encode()]
