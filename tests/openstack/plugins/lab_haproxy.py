"""What an amphora would run: haproxy's configuration by Octavia's own template, given to the data plane that LAB_DATA_PLANE names.

The data plane (data_plane.py) is asked over a unix socket, a line of JSON each way. Without LAB_DATA_PLANE nothing is done.

What is not haproxy's part of a load balancer is done as closely as haproxy allows:
- `allowed_cidrs` are rules of the VIP port's security group; here the connection is closed at once.
- A floating IP is a translation in a router; here it is one more address that the listeners bind.
- UDP and SCTP have no data plane.

What haproxy's checks say of members goes back as an amphora's health messages do: see follow_health.
"""

import hashlib
import ipaddress
import json
import logging
import os
import re
import socket
import threading
import time
import types

from octavia.amphorae.backends.utils import haproxy_query
from octavia.common.jinja.haproxy.combined_listeners import jinja_cfg
from octavia.common.tls_utils import cert_parser
from octavia.db import api as db_api
from octavia.db import models
from oslo_config import cfg
from sqlalchemy import select, text
from stevedore import driver as stevedore_driver

LOG = logging.getLogger(__name__)
SOCKET = os.environ.get("LAB_DATA_PLANE")
HAS_NEUTRON = os.environ.get("LAB_NEUTRON_VIP") == "1"
# How often Neutron's floating IPs are looked at, of which Octavia hears nothing, and haproxy's checks.
LOOK = 0.1
# Octavia's words for haproxy's; what has no check is not reported.
SAYS = {"UP": "ONLINE", "DOWN": "ERROR", "DRAIN": "DRAINING"}
LEAVING = "PENDING_DELETE"
TLS = "TERMINATED_HTTPS"
FLOATING = "select fixed_port_id, floating_ip_address from neutron.floatingips where fixed_port_id is not null"
AMPHORA = dict.fromkeys(
    ("lb_network_ip", "vrrp_ip", "ha_ip", "vrrp_port_id", "ha_port_id", "role", "status", "vrrp_interface", "vrrp_priority")
)


def apply(balancer):
    """Makes the data plane serve a load balancer as its rows say."""
    if SOCKET is None:
        return
    watch_floating_ips()
    addresses = floating_ips().get(balancer.vip.port_id, ())
    config = "" if balancer.provisioning_status == LEAVING else rendered(balancer, addresses)
    if "\n    bind " in config:
        ask({"do": "load", "id": balancer.id, "config": config})
    else:
        ask({"do": "unload", "id": balancer.id})
    if " check " in config:
        CHECKED.add(balancer.id)
        watch_health()
    else:
        CHECKED.discard(balancer.id)


def rendered(balancer, floating):
    # The rows leave out what Octavia's worker, which works with these, has filled in.
    balancer = balancer.to_data_model()
    listeners = [
        one for one in balancer.listeners if one.provisioning_status != LEAVING and one.protocol in jinja_cfg.PROTOCOL_MAP
    ]
    if not listeners:
        return ""
    # The descriptors of the listening sockets pass to the next process, so that no connection is refused meanwhile.
    path = f"{stats_socket(balancer.id)} expose-fd listeners"
    amphora = types.SimpleNamespace(id=balancer.id, **AMPHORA)
    versions = ask({"do": "version"})["version"].split(".")[:2]
    # Without a key manager there is nothing to serve TLS with.
    has_keys = cfg.CONF.certificates.cert_manager == "barbican_cert_manager"
    listeners = [one for one in listeners if has_keys or one.protocol != TLS]
    if not listeners:
        return ""
    stored = "".join(certificates(balancer.id, one) for one in listeners if one.protocol == TLS)
    templater = jinja_cfg.JinjaTemplater(connection_logging=False)
    config = templater.build_config(amphora, listeners, {}, versions, {}, path)
    # What is the same is not loaded again, and only the files differ.
    config += f"# certificates {hashlib.sha256(stored.encode()).hexdigest()}\n"
    # In the namespace there is no user but one, who may not open more files than anybody.
    config = config.replace("    user nobody\n", "    no strict-limits\n")
    for listener in listeners:
        ranges = [cidr.cidr for cidr in listener.allowed_cidrs]
        limits = ""
        if ranges:
            ranges = " ".join(str(ipaddress.ip_network(cidr, strict=False)) for cidr in ranges)
            limits = f"    tcp-request connection reject if !{{ src {ranges} }}\n"
        # What a listener speaks it speaks at each address.
        bind = re.compile(rf"(frontend {listener.id}\n(?:.*\n)*?    bind \S+(.*)\n)")
        if found := bind.search(config):
            more = "".join(f"    bind {address}:{listener.protocol_port}{found[2]}\n" for address in floating)
            config = config[: found.end()] + more + limits + config[found.end() :]
    return config


def certificates(which, listener):
    """Writes the certificates of a listener, and the list of them, as an amphora's agent does. Returns that list."""
    manager = stevedore_driver.DriverManager(
        namespace="octavia.cert_manager", name=cfg.CONF.certificates.cert_manager, invoke_on_load=True
    ).driver
    data = cert_parser.load_certificates_data(manager, listener)
    folder = f"{cfg.CONF.haproxy_amphora.base_cert_dir}/{which}"
    os.makedirs(folder, exist_ok=True)
    paths = []
    for one in [data["tls_cert"], *data["sni_certs"]]:
        paths.append(f"{folder}/{one.id}.pem")
        with open(paths[-1], "wb") as file:
            file.write(cert_parser.build_pem(one))
    listed = "".join(f"{path}\n" for path in paths)
    with open(f"{folder}/{listener.id}.pem", "w", encoding="utf-8") as file:
        file.write(listed)
    return listed


def stats_socket(which):
    return f"{os.path.dirname(SOCKET)}/{which}.sock"


def ask(question):
    """The data plane's answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(SOCKET)
        connection.sendall((json.dumps(question) + "\n").encode())
        with connection.makefile() as lines:
            answer = json.loads(lines.readline())
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


def floating_ips():
    """The floating IPs by port."""
    if not HAS_NEUTRON:
        return {}
    session = db_api.get_session()
    try:
        with session.begin():
            rows = session.execute(text(FLOATING)).all()
    finally:
        session.close()
    found = {}
    for port, address in sorted(rows):
        found.setdefault(port, []).append(address)
    return found


LOCK = threading.Lock()
WATCH = None


def watch_floating_ips():
    global WATCH
    with LOCK:
        if WATCH is None and HAS_NEUTRON:
            WATCH = threading.Thread(target=follow, daemon=True, name="lab-floating-ips")
            WATCH.start()


def follow():
    """Applies a load balancer again whenever its floating IPs have changed."""
    seen = {}
    while True:
        time.sleep(LOOK)
        try:
            found = floating_ips()
            changed = {port for port in found.keys() | seen.keys() if found.get(port) != seen.get(port)}
            later = again(changed) if changed else set()
            # What is left for later differs from what is found then, too.
            seen = {port: seen.get(port) if port in later else found.get(port) for port in found.keys() | later}
        except Exception:
            LOG.exception("lab: looking at floating IPs failed")


def again(ports):
    """Applies the load balancers of these ports. Returns the ports of those that are changing: what a change brings may not
    be served before it settles, and it may have been applied, with the floating IPs of before, a moment ago."""
    later = set()
    session = db_api.get_session()
    try:
        with session.begin():
            query = select(models.LoadBalancer).join(models.Vip).where(models.Vip.port_id.in_(ports))
            # A router changes its rules at once: an address that moves answers at the new port before it ends at the old one.
            gaining = floating_ips()
            found = sorted(session.execute(query).scalars(), key=lambda one: one.vip.port_id not in gaining)
            for balancer in found:
                if balancer.provisioning_status.startswith("PENDING_"):
                    later.add(balancer.vip.port_id)
                else:
                    apply(balancer)
    finally:
        session.close()
    return later


# Load balancers that this process has applied whose members are checked.
CHECKED = set()
# What the checks say: the operating status by the member's ID.
HEALTH = {}
HEALTH_WATCH = None
# Takes members whose health has changed, and returns those that are to be reported again; set by the provider.
report = None


def watch_health():
    global HEALTH_WATCH
    with LOCK:
        if HEALTH_WATCH is None:
            HEALTH_WATCH = threading.Thread(target=follow_health, daemon=True, name="lab-health")
            HEALTH_WATCH.start()


def follow_health():
    """Reports the health of members whenever it has changed."""
    known = {}
    while True:
        time.sleep(LOOK)
        try:
            found = {member: status for which in list(CHECKED) for member, status in checks(which)}
            HEALTH.clear()
            HEALTH.update(found)
            changed = {member for member in found if found[member] != known.get(member)}
            later = report(changed) if changed else set()
            known = {member: known.get(member) if member in later else status for member, status in found.items()}
        except Exception:
            LOG.exception("lab: looking at members failed")


def checks(which):
    """The members that a haproxy checks, with their operating status."""
    try:
        pools = haproxy_query.HAProxyQuery(stats_socket(which)).get_pool_status()
    except Exception:
        # It has just ended.
        return
    for pool in pools.values():
        for member, status in pool["members"].items():
            # `UP 1/2` is on its way down.
            status = SAYS.get(status.split(" ")[0])
            if status is not None:
                yield member, status
