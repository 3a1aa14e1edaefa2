"""The data plane of a test: haproxy, members and clients in one network namespace that has no route to anywhere else.

    unshare --user --map-root-user --net --pid --fork --kill-child=KILL python3 data_plane.py FOLDER HAPROXY

Every private address and every test network is local to the namespace, so that VIPs, members and clients are wherever
the rows of a load balancer say. Questions come over the unix socket FOLDER/control, a line of JSON each, and are answered by
a line of JSON, with `error` if it went wrong:

    version                                      haproxy's
    load {id, config}                            haproxy serves this configuration, and the one before ends what it has begun
    unload {id}                                  it ends
    config {id}                                  {config}, what haproxy serves; null where there is no load balancer
    member {address, port, name}                 an HTTP server that answers with its name, says what arrived (X-Arrived), and
        answers to /client with the address of the client: the one that the PROXY line or X-Forwarded-For gives, else the one
        that it sees
    no-member {address, port}                    it ends, with its connections
    get {address, port, source, path, headers, method}  one request; {status, body, location, arrived}, or {failed}
        with `tls`, a host or "": over TLS, and which certificate that was, by its SHA-256
        with `ca`, a file, as well: the certificate has to be of that authority and for that host
    client {name, address, port, source, every, tls}  a request each `every` seconds, each on a connection of its own; with
        `kept`, all on one, and with the next one where that has ended
    tally {name, end}                            what the client got: {sent, answered, failed, by: {body: count}, gap}
"""

import asyncio
import collections
import hashlib
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time

FOLDER, HAPROXY = sys.argv[1:3]
LOCAL = (
    "10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.0.2.0/24", "192.168.0.0/16", "198.51.100.0/24", "203.0.113.0/24",
    "fd00::/8", "2001:db8::/32",
)
# A request that takes longer has failed.
PATIENCE = 5
# A client with this many unanswered requests waits for one of them. Otherwise a busy machine, on which requests come in faster
# than they are answered, would soon answer none.
UNANSWERED = 25


def set_up():
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    for network in LOCAL:
        family = "-6" if ":" in network else "-4"
        subprocess.run(["ip", family, "route", "add", "local", network, "dev", "lo"], check=family == "-4")
    for family in ("-4", "-6"):
        found = subprocess.run(["ip", family, "route", "show", "default"], check=False, capture_output=True, text=True)
        if found.stdout.strip():
            raise RuntimeError(f"this namespace has a way out: {found.stdout}")
    with open("/proc/sys/net/ipv6/ip_nonlocal_bind", "w", encoding="utf-8") as file:
        file.write("1")


class Proxies:
    """The haproxy of each load balancer."""

    def __init__(self):
        self.configs = {}

    def path(self, which, suffix):
        return os.path.join(FOLDER, f"{which}.{suffix}")

    def pids(self, which):
        try:
            with open(self.path(which, "pid"), encoding="utf-8") as file:
                return file.read().split()
        except FileNotFoundError:
            return []

    async def load(self, which, config):
        if self.configs.get(which) == config:
            return
        path, stats = self.path(which, "cfg"), self.path(which, "sock")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        command = [HAPROXY, "-D", "-f", path, "-p", self.path(which, "pid")]
        before = self.pids(which)
        if before:
            command += ["-x", stats, "-sf", *before]
        # It returns when the new process serves.
        run = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        said, _ = await run.communicate()
        if run.returncode != 0:
            raise RuntimeError(f"haproxy ended with {run.returncode}: {said.decode()}\n{config}")
        self.configs[which] = config

    async def unload(self, which):
        if self.configs.pop(which, None) is None:
            return
        for pid in map(int, self.pids(which)):
            os.kill(pid, signal.SIGTERM)
            # It went into the background, so it is a child of the first process of the namespace, which is this one.
            await asyncio.to_thread(os.waitpid, pid, 0)
        os.remove(self.path(which, "pid"))


class Members:
    """HTTP servers by address and port."""

    def __init__(self):
        self.servers = {}
        self.connections = collections.defaultdict(set)

    async def start(self, address, port, name):
        key = (address, port)

        async def serve(reader, writer):
            self.connections[key].add(writer)
            client = writer.get_extra_info("peername")[0]
            try:
                while True:
                    request = await reader.readuntil(b"\r\n\r\n")
                    # `PROXY TCP4 CLIENT ...` comes once, before all else.
                    if request.startswith(b"PROXY "):
                        line, _, request = request.partition(b"\r\n")
                        client = line.split()[2].decode()
                    method, path = request.decode(errors="replace").split(" ", 2)[:2]
                    text = f"{name}{path if path != '/' else ''}".encode()
                    if path == "/client":
                        forwarded = re.search(rb"\r\nx-forwarded-for: *([^\r]*)", request, re.IGNORECASE)
                        text = forwarded[1] if forwarded else client.encode()
                    lines = [
                        "HTTP/1.1 200 OK",
                        "Content-Type: text/plain",
                        f"Content-Length: {len(text)}",
                        f"X-Arrived: {method} {header(request, 'Host') or ''}",
                    ]
                    head = "\r\n".join([*lines, "", ""]).encode()
                    writer.write(head + (text if method != "HEAD" else b""))
                    await writer.drain()
                    if b"\r\nconnection: close\r\n" in request.lower():
                        break
            except (asyncio.IncompleteReadError, ConnectionError):
                pass
            finally:
                self.connections[key].discard(writer)
                writer.close()

        self.servers[key] = await asyncio.start_server(serve, address, port)

    def stop(self, address, port):
        self.servers.pop((address, port)).close()
        for writer in self.connections.pop((address, port), ()):
            writer.transport.abort()


def header(head, name):
    """The value of a header, if it is there."""
    found = re.search(rb"\r\n" + name.encode() + rb": *([^\r]*)", head, re.IGNORECASE)
    return found and found[1].decode(errors="replace").strip()


async def get(address, port, source=None, path="/", headers=None, tls=None, method="GET", ca=None):
    """One request on a connection of its own."""
    try:
        exchanged = exchange(address, port, source, method, path, headers or {}, tls, ca)
        answer, certificate = await asyncio.wait_for(exchanged, PATIENCE)
    except asyncio.TimeoutError:
        return {"failed": f"no answer in {PATIENCE} s"}
    except OSError as error:
        return {"failed": str(error)}
    head, _, body = answer.partition(b"\r\n\r\n")
    if not head:
        return {"failed": "the connection was closed without an answer"}
    return {
        "status": int(head.split(b" ", 2)[1]),
        "body": body.decode(errors="replace"),
        "location": header(head, "Location"),
        "arrived": header(head, "X-Arrived"),
        "certificate": certificate,
    }


def trusting(ca):
    """Trust in the certificates of one authority; without one in any, for which one comes is what is asked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if ca is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    else:
        context.load_verify_locations(ca)
    return context


async def exchange(address, port, source, method, path, headers, tls, ca):
    secured = {} if tls is None else {"ssl": trusting(ca), "server_hostname": tls}
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(address, port, local_addr=local, **secured)
    try:
        certificate = None
        if tls is not None:
            der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            certificate = hashlib.sha256(der).hexdigest()
            headers = ({"Host": tls} if tls else {}) | headers
        wanted = {"Host": address, "Connection": "close"} | headers
        # HTTP/1.1 requires a host; one that is null is left out.
        version = "1.0" if wanted["Host"] is None else "1.1"
        lines = [f"{name}: {value}" for name, value in wanted.items() if value is not None]
        lines = [f"{method} {path} HTTP/{version}", *lines, "", ""]
        writer.write("\r\n".join(lines).encode())
        return await reader.read(), certificate
    finally:
        writer.close()


class Client:
    """Requests at a steady pace, whether or not the few before are answered."""

    at_once = UNANSWERED

    def __init__(self, every, **target):
        self.target = target
        self.sent, self.failed, self.by = 0, [], collections.Counter()
        self.last, self.gap = time.monotonic(), 0.0
        self.running = set()
        self.task = asyncio.create_task(self.run(every))

    async def run(self, every):
        due = time.monotonic()
        while True:
            self.sent += 1
            one = asyncio.create_task(self.one())
            self.running.add(one)
            one.add_done_callback(self.running.discard)
            due += every
            await asyncio.sleep(max(0, due - time.monotonic()))
            while len(self.running) >= self.at_once:
                await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
                # What could not be sent in time is not sent all at once.
                due = max(due, time.monotonic())

    async def answer(self):
        return await get(**self.target)

    async def one(self):
        try:
            answer = await self.answer()
        except Exception as error:  # no HTTP, for example
            answer = {"failed": repr(error)}
        now = time.monotonic()
        if answer.get("status") == 200:
            self.by[answer["body"]] += 1
            self.gap, self.last = max(self.gap, now - self.last), now
        else:
            self.failed.append(str(answer.get("failed", answer.get("status"))))

    async def tally(self, end):
        if end:
            self.task.cancel()
            await asyncio.gather(*self.running)
            self.close()
        answered = sum(self.by.values())
        return {"sent": self.sent, "answered": answered, "failed": self.failed, "by": dict(self.by), "gap": self.gap}

    def close(self):
        pass


class KeptClient(Client):
    """The same on one connection, a request when the one before is answered."""

    at_once = 1
    connection = None

    async def answer(self):
        try:
            return await asyncio.wait_for(self.exchange(**self.target), PATIENCE)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            self.close()
            return {"failed": repr(error)}

    async def exchange(self, address, port, source=None):
        if self.connection is None:
            local = (source, 0) if source else None
            self.connection = await asyncio.open_connection(address, port, local_addr=local)
        reader, writer = self.connection
        writer.write(f"GET / HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1]))
        return {"status": int(head.split(b" ", 2)[1]), "body": body.decode()}

    def close(self):
        if self.connection is not None:
            self.connection[1].close()
            self.connection = None


class Control:
    def __init__(self):
        self.proxies, self.members, self.clients = Proxies(), Members(), {}
        said = subprocess.run([HAPROXY, "-v"], check=True, capture_output=True, text=True).stdout
        # `HAProxy version 2.6.12-1+deb12u4 2026/...`
        self.version = said.split()[2].partition("-")[0]
        # A change is made when the one before it is.
        self.lock = asyncio.Lock()

    async def answer(self, do, **rest):
        if do == "version":
            return {"version": self.version}
        if do == "load":
            async with self.lock:
                await self.proxies.load(rest["id"], rest["config"])
        elif do == "unload":
            async with self.lock:
                await self.proxies.unload(rest["id"])
        elif do == "config":
            return {"config": self.proxies.configs.get(rest["id"])}
        elif do == "member":
            await self.members.start(**rest)
        elif do == "no-member":
            self.members.stop(**rest)
        elif do == "get":
            return await get(**rest)
        elif do == "client":
            name = rest.pop("name")
            kind = KeptClient if rest.pop("kept", False) else Client
            self.clients[name] = kind(**rest)
        elif do == "tally":
            client = self.clients.pop(rest["name"]) if rest["end"] else self.clients[rest["name"]]
            return await client.tally(rest["end"])
        else:
            raise ValueError(f"no way to {do}")
        return {}

    async def serve(self, reader, writer):
        while line := await reader.readline():
            try:
                answer = await self.answer(**json.loads(line))
            except Exception as error:
                answer = {"error": repr(error)}
            writer.write((json.dumps(answer) + "\n").encode())
            await writer.drain()
        writer.close()


async def main():
    set_up()
    control = Control()
    path = os.path.join(FOLDER, "control")
    server = await asyncio.start_unix_server(control.serve, path + ".new", limit=2**24)
    # There once it answers.
    os.rename(path + ".new", path)
    async with server:
        await server.serve_forever()


asyncio.run(main())
