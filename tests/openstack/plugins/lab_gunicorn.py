"""gunicorn's configuration: workers that never outlive the master, one unless LAB_WORKERS says otherwise.

The master is killed when a test ends, and a worker that lingered would answer where a test says "Keystone is down".
"""

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1

workers = int(os.environ.get("LAB_WORKERS", "1"))
threads = 4
worker_class = "gthread"
timeout = 120
# The default of 2 s closes connections while a client pauses between polls.
keepalive = 30
# It would write to the home folder.
control_socket_disable = True


def post_fork(server, worker):
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The master may have gone before we asked.
    if os.getppid() != server.pid:
        os._exit(1)
