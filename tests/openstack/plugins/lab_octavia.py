"""Octavia provider `lab`: there is no data plane, and whatever is PENDING_* settles. It has a second name, `lab2`, for tests
in which the provider of a load balancer changes. `lab-l4` is as OVN's provider: it knows nothing of HTTP, and refuses (501)
listeners and pools of it, and L7 policies.

Octavia calls a driver before it commits, so the driver only wakes a thread. The thread looks for committed load balancers
that are PENDING_*, walks their trees, and reports how they ended through Octavia's own code for drivers' reports.

Tests steer it with rules (lab_rules.py), or, where objects are their own, with tags on any object:

    lab:stall          it stays PENDING_*
    lab:prov=ERROR     the provisioning status that it ends in
    lab:op=ERROR       its operating status; on a member, what its health monitor says

and with words in an object's description, which the driver refuses to make or change:

    lab:unsupported    501, as a provider does that lacks an option
    lab:fails          500, as a provider does whose driver fails

Pools and load balancers take their operating status from what is below them, as with Octavia's own health manager: a pool
is in ERROR when all its members are, DEGRADED when some are, and a load balancer is as its worst pool.

LAB_SETTLE_DELAY   seconds that each change stays PENDING_*
LAB_NEUTRON_VIP    1: Octavia makes the port of a VIP in Neutron; else the driver invents it
LAB_DATA_PLANE     the socket of a data plane (lab_haproxy.py), which has each change before it is ACTIVE, and whose checks say
                   how members that have a monitor are
"""

import collections
import os
import threading
import time

from octavia.api.drivers.driver_agent import driver_updater
from octavia.api.drivers.noop_driver import driver as noop
from octavia.common import data_models
from octavia.db import api as db_api
from octavia.db import base_models, models, repositories
from octavia_lib.api.drivers import exceptions, provider_base
from oslo_log import log as logging
from sqlalchemy import delete, select, update

import lab_haproxy
import lab_rules

LOG = logging.getLogger(__name__)
PROVIDERS = ("lab", "lab2", "lab-l4")
DELAY = float(os.environ.get("LAB_SETTLE_DELAY", "0"))
NEUTRON_VIP = os.environ.get("LAB_NEUTRON_VIP") == "1"
# How long the thread looks on after the last thing that it found: calls overlap, and a commit follows its call.
LINGER = 1.0
SHORTEST, LONGEST = 0.004, 0.1
OPERATING = "lab:op="
LEAVING = "PENDING_DELETE"
BELOW = {
    "members": models.Member,
    "healthmonitors": models.HealthMonitor,
    "pools": models.Pool,
    "l7rules": models.L7Rule,
    "l7policies": models.L7Policy,
    "listeners": models.Listener,
}
REFUSALS = {
    "lab:unsupported": lambda: exceptions.UnsupportedOptionError(
        user_fault_string="it lacks that option", operator_fault_string="asked for by a test"
    ),
    "lab:fails": lambda: exceptions.DriverError(user_fault_string="it broke", operator_fault_string="asked for by a test"),
}


def tags_of(thing):
    return dict(tag.partition("=")[::2] for tag in thing.tags or [] if tag.startswith("lab:"))


def of_members(statuses):
    """The operating status of a pool whose monitor says this of its members."""
    failing = sum(status == "ERROR" for status in statuses)
    if not failing:
        return "ONLINE"
    return "ERROR" if failing == len(statuses) else "DEGRADED"


def worst(statuses):
    return next((bad for bad in ("ERROR", "DEGRADED") if bad in statuses), "ONLINE")


class Tree:
    """What is to be reported of one load balancer."""

    KINDS = ("members", "healthmonitors", "pools", "l7rules", "l7policies", "listeners", "loadbalancers")

    def __init__(self, balancer, ending=None):
        self.report = {kind: [] for kind in self.KINDS}
        # What goes with its pool, by kind; all of it is in one project.
        self.with_pools = collections.Counter()
        self.project = balancer.project_id
        self.ending = ending
        self.all_gone = balancer.provisioning_status == LEAVING
        pools = [self.pool(pool) for pool in balancer.pools]
        for listener in balancer.listeners:
            if not self.goes(listener):
                for policy in listener.l7policies:
                    self.policy(policy)
            self.add("listeners", listener, "ONLINE")
        self.add("loadbalancers", balancer, worst(pools))

    def pool(self, pool):
        if self.goes(pool) and "lab:stall" not in tags_of(pool):
            self.with_pools[data_models.Member] += len(pool.members)
            self.with_pools[data_models.HealthMonitor] += pool.health_monitor is not None
            return self.add("pools", pool, "ONLINE")
        checked = pool.health_monitor is not None and pool.health_monitor.provisioning_status != LEAVING
        health = lab_haproxy.HEALTH
        members = [
            self.add("members", member, health.get(member.id, "ONLINE") if checked else "NO_MONITOR") for member in pool.members
        ]
        if pool.health_monitor is not None:
            self.add("healthmonitors", pool.health_monitor, "ONLINE")
        members = [status for status in members if status is not None]
        return self.add("pools", pool, of_members(members) if checked else "ONLINE")

    def policy(self, policy):
        """As in Octavia's own worker, what goes with its listener or policy is not given back to the quota."""
        if not self.goes(policy):
            for rule in policy.l7rules:
                self.add("l7rules", rule, "ONLINE")
        self.add("l7policies", policy, "ONLINE")

    def goes(self, thing):
        return self.all_gone or thing.provisioning_status == LEAVING

    def add(self, kind, thing, computed):
        """Notes what changes about `thing`, and returns its operating status; None if it goes."""
        tags, was = tags_of(thing), thing.provisioning_status
        operating = tags.get("lab:op") or (computed if thing.enabled else "OFFLINE")
        entry = {"id": thing.id}
        gone = self.goes(thing)
        if gone:
            entry["provisioning_status"] = "DELETED"
        else:
            if was.startswith("PENDING_"):
                entry["provisioning_status"] = self.ending or tags.get("lab:prov", "ACTIVE")
            if thing.operating_status != operating:
                entry["operating_status"] = operating
        if len(entry) > 1 and "lab:stall" not in tags:
            self.report[kind].append(entry)
        return None if gone else operating


class Reporter:
    """Reports in the order of Octavia's own worker: pools that go, with their members and monitors in one transaction, then
    what these give back to the quota, which Octavia's code for reports leaves to the driver, and last the load balancer."""

    def __init__(self):
        self.updater = driver_updater.DriverUpdater()
        self.repositories = repositories.Repositories()

    def __call__(self, tree):
        self.send({kind: tree.report[kind] for kind in ("members", "healthmonitors", "pools")})
        self.give_back(tree.project, +tree.with_pools)
        self.send({kind: tree.report[kind] for kind in ("l7rules", "l7policies", "listeners", "loadbalancers")})

    def send(self, report):
        self.set_statuses(report)
        answer = self.updater.update_loadbalancer_status(report)
        if answer["status_code"] != 200:
            raise RuntimeError(answer.get("fault_string"))

    def set_statuses(self, report):
        """Sets the statuses of what stays below the load balancer, and takes it out of the report. Octavia's code for reports
        sets them one by one, and reads everything below the load balancer for each L7 rule: minutes for some hundred."""
        session = db_api.get_session()
        try:
            with session.begin():
                for kind in filter(report.__contains__, BELOW):
                    alike = collections.defaultdict(list)
                    for entry in report[kind]:
                        if entry.get("provisioning_status") != "DELETED":
                            alike[frozenset((key, value) for key, value in entry.items() if key != "id")].append(entry["id"])
                    for statuses, ids in alike.items():
                        session.execute(
                            update(BELOW[kind]).where(BELOW[kind].id.in_(ids)).values(**dict(statuses)),
                            execution_options={"synchronize_session": False},
                        )
                    report[kind] = [entry for entry in report[kind] if entry.get("provisioning_status") == "DELETED"]
        finally:
            session.close()

    def give_back(self, project, counts):
        if not counts:
            return
        session = db_api.get_session()
        try:
            with session.begin():
                for kind, count in counts.items():
                    self.repositories.decrement_quota(session, kind, project, quantity=count)
        finally:
            session.close()


class Pending:
    """A load balancer that was seen PENDING_*, and the rule that applies to this change."""

    def __init__(self, balancer, now):
        self.since = now
        op = balancer.provisioning_status.removeprefix("PENDING_").lower()
        self.rule = lab_rules.take("settle", op=op, project=balancer.project_id, name=balancer.name or "")
        self.act = self.rule["act"] if self.rule else {}

    def stalls(self):
        return "stall" in self.act and lab_rules.is_there(self.rule["id"])

    def is_due(self, now):
        return now - self.since >= self.act.get("delay", DELAY)


class Settler(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True, name="lab-settler")
        self.wake = threading.Event()
        self.reporter = Reporter()
        self.pending = {}

    def run(self):
        while True:
            self.wake.wait()
            self.wake.clear()
            end, pause = time.monotonic() + LINGER, SHORTEST
            while time.monotonic() < end:
                time.sleep(pause)
                try:
                    settled, waiting = self.settle()
                except Exception:
                    LOG.exception("lab: settling failed")
                    settled, waiting = 0, 1
                if settled or waiting:
                    end = time.monotonic() + LINGER
                pause = SHORTEST if settled else min(pause * 2, LONGEST)

    def ending(self, balancer):
        """The provisioning status that a change ends in; None for ACTIVE, or what tags say."""
        if "lab:stall" in tags_of(balancer):
            return None
        try:
            lab_haproxy.apply(balancer)
        except Exception:
            LOG.exception("lab: the data plane does not take %s", balancer.id)
            return "ERROR"
        return self.pending[balancer.id].act.get("status")

    def settle(self):
        """How many were settled, and how many wait for their time."""
        session = db_api.get_session()
        try:
            with session.begin():
                found = session.execute(
                    select(models.LoadBalancer).where(
                        models.LoadBalancer.provisioning_status.like("PENDING_%"),
                        models.LoadBalancer.provider.in_(PROVIDERS),
                    )
                ).scalars().all()
                now = time.monotonic()
                self.pending = {one.id: self.pending.get(one.id) or Pending(one, now) for one in found}
                moving = [one for one in found if not self.pending[one.id].stalls()]
                due = [one for one in moving if self.pending[one.id].is_due(now)]
                trees = [Tree(one, self.ending(one)) for one in due]
        finally:
            session.close()
        # A load balancer that stalls holds up what is below it too.
        trees = [tree for tree in trees if tree.report["loadbalancers"]]
        for tree in trees:
            self.reporter(tree)
            self.pending.pop(tree.report["loadbalancers"][0]["id"], None)
        return len(trees), len(moving) - len(due)


LOCK = threading.Lock()
SETTLER = None


def kick(*_, **__):
    global SETTLER
    with LOCK:
        if SETTLER is None:
            SETTLER = Settler()
            SETTLER.start()
    SETTLER.wake.set()


def report_health(found):
    """Operating statuses of members as a health monitor reports them: no change of anybody's passes the API."""
    session = db_api.get_session()
    try:
        with session.begin():
            balancers = set()
            for member_id, status in found.items():
                member = session.get(models.Member, member_id)
                if member is None:
                    raise ValueError(f"there is no member {member_id}")
                # Kept as a tag, so that a later change of the load balancer does not heal it.
                session.execute(
                    delete(base_models.Tags).where(base_models.Tags.resource_id == member_id, base_models.Tags.tag.like(OPERATING + "%"))
                )
                if status is not None:
                    session.add(base_models.Tags(resource_id=member_id, tag=OPERATING + status))
                balancers.add(member.pool.load_balancer_id)
        session.expire_all()
        with session.begin():
            trees = [Tree(session.get(models.LoadBalancer, one)) for one in balancers]
    finally:
        session.close()
    reporter = Reporter()
    for tree in trees:
        reporter(tree)


def report_members(changed):
    """Reports load balancers whose members' health the data plane has seen change. Returns the members of those that are
    changing: their own settling comes first."""
    later, trees = set(), []
    session = db_api.get_session()
    try:
        with session.begin():
            members = [member for member in map(lambda one: session.get(models.Member, one), changed) if member is not None]
            balancers = {}
            for member in members:
                balancers.setdefault(member.pool.load_balancer_id, set()).add(member.id)
            for which, its in balancers.items():
                balancer = session.get(models.LoadBalancer, which)
                if balancer.provisioning_status.startswith("PENDING_"):
                    later |= its
                else:
                    trees.append(Tree(balancer))
    finally:
        session.close()
    reporter = Reporter()
    for tree in trees:
        reporter(tree)
    return later


lab_haproxy.report = report_members


def text(thing, name):
    """A field of a driver's object; empty if it is not set."""
    value = getattr(thing, name, None)
    return value if isinstance(value, str) else ""


def is_given(thing, name):
    return "yes" if isinstance(getattr(thing, name, None), list) and getattr(thing, name) else "no"


def facts(op, thing):
    return {
        "op": op,
        "project": text(thing, "project_id"),
        "name": text(thing, "name"),
        "protocol": text(thing, "protocol"),
        "populated": "yes" if "yes" in (is_given(thing, "listeners"), is_given(thing, "pools")) else "no",
        "allowed_cidrs": is_given(thing, "allowed_cidrs"),
    }


def handled(op):
    """The driver's method `op`: refuses, takes its time, or wakes the thread."""

    def call(_, *things, **__):
        for thing in things:
            refusal = REFUSALS.get(getattr(thing, "description", None))
            if refusal is not None:
                raise refusal()
        # Of an update, the last one is the new object; a batch update gives the pool's ID and its members.
        subject = things[-1][0] if isinstance(things[-1], list) and things[-1] else things[-1]
        rule = lab_rules.take("driver", **facts(op, subject))
        act = rule["act"] if rule else {}
        if "refuse" in act:
            raise REFUSALS["lab:" + act["refuse"]]()
        kick()
        time.sleep(act.get("hold", 0))

    return call


class Driver(noop.NoopProviderDriver):
    def create_vip_port(self, loadbalancer_id, project_id, vip, additional_vips=None):
        if NEUTRON_VIP:
            raise exceptions.NotImplementedError()
        return super().create_vip_port(loadbalancer_id, project_id, vip, additional_vips)


for _kind in ("loadbalancer", "listener", "pool", "member", "health_monitor", "l7policy", "l7rule"):
    for _op in (f"{_kind}_create", f"{_kind}_update", f"{_kind}_delete"):
        setattr(Driver, _op, handled(_op))
for _op in ("member_batch_update", "loadbalancer_failover"):
    setattr(Driver, _op, handled(_op))


class L4Driver(Driver):
    def loadbalancer_create(self, loadbalancer):
        for thing in (getattr(loadbalancer, "listeners", None) or []) + (getattr(loadbalancer, "pools", None) or []):
            refuse_http(thing)
        super().loadbalancer_create(loadbalancer)

    def listener_create(self, listener):
        refuse_http(listener)
        super().listener_create(listener)

    def pool_create(self, pool):
        refuse_http(pool)
        super().pool_create(pool)


for _kind in ("l7policy", "l7rule"):
    for _op in (f"{_kind}_create", f"{_kind}_update", f"{_kind}_delete"):
        setattr(L4Driver, _op, getattr(provider_base.ProviderDriver, _op))


def refuse_http(thing):
    protocol = text(thing, "protocol")
    if protocol not in ("TCP", "UDP", "SCTP"):
        raise exceptions.UnsupportedOptionError(
            user_fault_string=f"protocol {protocol}", operator_fault_string="as OVN's provider"
        )
