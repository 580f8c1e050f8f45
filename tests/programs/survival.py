#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Faults, one after the other and several at a time, for those who lock.

	survival.py DIR MNT LIB SECONDS SEED [NAME=VALUE...] HOST=PID...

On each host (process 1 has PID) as many survivors (survivor.c) as `workers` run
under LIB, by a proxy of the host's own to one Redis; for SECONDS they are killed,
stopped, frozen and cut off, as SEED has it.  DIR gets their logs and the data.

	ttl, delay, timeout	of the rule, in ms
	on_lost		its policy
	workers		on each host; each kind by one of them, by default
	kinds		of survivors, separated by commas
	faults		which, by name or class: calm, keeper, lossy
	hold		how long a lock is held at most, ms
	at_once		how many faults at a time
	redis		the options of its server
	servers		"rig": there are servers, and HOST.conf in MNT/.. for each
			host; nothing is done to them or to the network here

SECONDS 0: each of those that go on at a time is one fault.

calm: what excludes all the same whatever on_lost says.  holder: of that, what
befalls those who lock.  keeper: the keeper dies, perhaps as the only one.  lossy:
a holder sits beyond its lease.  stopped: the same, and nobody of its host runs
meanwhile, its keepers neither.  outlive: a holder sits beyond its lease, until
another host has it; by checkpoints, and not by chance.

Prints "faults N killed N left N idle N": who was killed by nobody here, keys that
are left when all are gone, cells that nobody had again once all was well.
"""
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
import check_intervals

HERE = os.path.dirname(os.path.abspath(__file__))
BIN = os.path.join(HERE, "..", "..", "build", "tests")
FREEZER = "/sys/fs/cgroup/freezer"


class Redis:
    """The server; it may be killed and come back with what it had once."""

    def __init__(self, top, options):
        self.dir = os.path.join(top, "server")
        os.mkdir(self.dir)
        self.sock = os.path.join(self.dir, "s")
        self.options = options
        self.port = 0
        self.lock = threading.Lock()
        # Its death signal comes with the end of the thread that started it: so
        # that is the main one.
        self.wanted = queue.Queue()
        self.start()

    def call(self, *words):
        return subprocess.run(["redis-cli", "-s", self.sock, *words],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL,
                              check=False).stdout.decode().strip()

    def start(self):
        while True:
            port = self.port or random.SystemRandom().randrange(20000, 32000)
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "redis-server",
                 "--bind", "127.0.0.1", "--port", str(port), "--dir", self.dir,
                 "--unixsocket", self.sock, "--save", "", "--appendonly", "no",
                 "--enable-debug-command", "yes", *self.options],
                stdout=subprocess.DEVNULL)
            while self.process.poll() is None:
                if self.call("ping") == "PONG":
                    self.port = port
                    return
                time.sleep(0.02)

    def restart(self, away, dump):
        self.process.kill()
        self.process.wait()
        if not dump:
            for name in os.listdir(self.dir):
                if name.endswith(".rdb"):
                    os.unlink(os.path.join(self.dir, name))
        time.sleep(away)
        up = threading.Event()
        self.wanted.put(up)
        up.wait()

    def serve(self, threads):
        """The main thread's: until all of them have ended."""
        while any(t.is_alive() for t in threads):
            try:
                up = self.wanted.get(timeout=0.05)
            except queue.Empty:
                continue
            self.start()
            up.set()


class RigsOwn:
    """Servers that somebody else has started, and looks after."""

    @staticmethod
    def serve(threads):
        for t in threads:
            t.join()


class Proxy:
    def __init__(self, port):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "/usr/bin/python3",
             os.path.join(HERE, "tcpproxy.py"), "127.0.0.1:%d" % port],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline())
        self.lock = threading.Lock()

    def tell(self, command):
        self.process.stdin.write(command.encode() + b"\n")
        self.process.stdin.flush()
        self.process.stdout.readline()


class Host:
    def __init__(self, run, name, pid):
        self.run, self.name, self.pid = run, name, pid
        self.space = os.readlink("/proc/%d/ns/pid" % pid)
        self.frozen = threading.Lock()  # held while it is
        # All of it is in there from the start: to move a process stops each
        # fork, exec and exit of the machine for tens of milliseconds.
        self.freezer = "%s/dlock-%s-%d" % (FREEZER, name, os.getpid())
        os.mkdir(self.freezer)
        self.conf = os.path.join(os.path.dirname(run.mnt), name + ".conf")
        if not run.rigs_own:
            self.proxy = Proxy(run.redis.port)
            self.conf = os.path.join(run.top, name + ".conf")
            self.config()

    def config(self):
        run = self.run
        with open(self.conf, "w", encoding="utf-8") as f:
            f.write("""host_id = "%s"
redis "main" { url = "redis://127.0.0.1:%d/0"
    connect_timeout = "%dms"
    restart_delay = "%dms" }
path "%s/" { redis = "main"
    ttl = "%dms"
    timeout = "%dms"
    on_lost = "%s"
    pause_at_most = "%dms" }
""" % (self.name, self.proxy.port, run.ttl // 7, run.delay, run.mnt, run.ttl,
                run.timeout, run.on_lost, run.pause))

    def pids(self, name):
        """Those of its processes that are called so; all: name ''."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink("/proc/%s/ns/pid" % pid) != self.space:
                    continue
                with open("/proc/%s/comm" % pid, encoding="utf-8") as f:
                    comm = f.read().strip()
            except OSError:
                continue
            if (not name and int(pid) != self.pid) or comm == name:
                found.append(int(pid))
        return sorted(found)


class Worker(threading.Thread):
    """A survivor, and another one when that has died."""

    def __init__(self, run, host, kind, number):
        super().__init__(daemon=True)
        self.run_, self.host, self.kind, self.number = run, host, kind, number
        self.log, self.process = "", None
        self.start()

    def run(self):
        run, n = self.run_, 0
        while not run.over:
            with self.host.frozen:
                self.log = os.path.join(run.top, "%s-%d-%s-%d.log" % (
                    self.host.name, self.number, self.kind, n))
                process = subprocess.Popen(
                    [os.path.join(BIN, "in_host"), str(self.host.pid),
                     run.mnt, "env",
                     "LD_PRELOAD=" + run.lib,
                     "DLOCK_CONFIG=" + self.host.conf,
                     "DLOCK_LOG=warning:%s/%s.said" % (run.top, self.host.name),
                     os.path.join(BIN, "survivor"), self.kind, self.log,
                     os.path.join(run.top, "data"),
                     str(run.seed * 1000003 + self.number * 1009 + n),
                     str(run.hold)],
                    stdin=subprocess.DEVNULL,
                    preexec_fn=lambda: write(
                        self.host.freezer + "/cgroup.procs", "0"))
            n += 1
            self.process = process
            process.wait()
            if process.returncode in (-9, 137):
                run.died()
            elif not run.over and process.returncode not in (0, -15, 143):
                print("# a survivor ended with %d" % process.returncode)
                time.sleep(0.2)


class Run:
    def __init__(self, argv):
        self.top, self.mnt, self.lib = argv[0:3]
        self.seconds, self.seed = float(argv[3]), int(argv[4])
        given = dict(word.split("=", 1) for word in argv[5:])
        self.ttl = int(given.pop("ttl", 2000))
        self.delay = int(given.pop("delay", self.ttl))
        self.timeout = int(given.pop("timeout", 2 * self.ttl))
        self.on_lost = given.pop("on_lost", "report")
        self.pause = 10 * self.ttl
        self.hold = int(given.pop("hold", 3 * self.ttl // 2))
        kinds = given.pop("kinds", "ex,mixed,range,fork,exec").split(",")
        n = int(given.pop("workers", max(4, len(kinds))))
        self.at_once = int(given.pop("at_once", 3))
        names = given.pop("faults", "calm").split(",")
        options = given.pop("redis", "").split()
        self.faults = [f for name in names for f in faults_of(name)]
        self.random = random.Random(self.seed)
        self.over = False
        self.mutex = threading.Lock()
        self.outage = threading.Lock()  # one at a time, where a lease is to live
        self.dead = self.killed_by_us = self.done = 0
        self.log = open(os.path.join(self.top, "faults"), "w",
                        encoding="utf-8")
        self.rigs_own = given.pop("servers", "") == "rig"
        self.redis = RigsOwn() if self.rigs_own else Redis(self.top, options)
        self.hosts = [Host(self, name, int(pid))
                      for name, pid in sorted(given.items())]
        self.wait_for(self.is_old, 10 + 3 * self.delay / 1000)
        self.workers = [Worker(self, host, kinds[i % len(kinds)], i)
                        for host in self.hosts for i in range(n)]

    def is_old(self):
        """The server: a new one grants nothing."""
        if self.rigs_own:
            return True
        for line in self.redis.call("info", "server").split("\n"):
            if line.startswith("uptime_in_seconds:"):
                return int(line.split(":")[1]) * 1000 >= self.delay
        return False

    @staticmethod
    def wait_for(what, seconds):
        """Until it is so; False if it is not within the time."""
        until = time.monotonic() + seconds
        while not what():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        return True

    def died(self):
        with self.mutex:
            self.dead += 1

    def kill(self, pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        with self.mutex:
            self.killed_by_us += 1

    def to_stop(self, pids):
        """Whom a keeper has stopped is nobody else's to continue (dlock(7))."""
        if self.on_lost != "pause":
            return pids
        return [pid for pid in pids if not is_stopped(pid)]

    def some(self, host, name, rnd):
        pids = host.pids(name)
        return rnd.choice(pids) if pids else 0

    def beyond(self, rnd):
        """Longer than a lease, s."""
        return self.ttl * rnd.uniform(1.3, 2.5) / 1000

    def within(self, rnd):
        """Not so long that one is lost."""
        return self.ttl * rnd.uniform(0.02, 0.25) / 1000

    def one(self, rnd):
        fault = rnd.choice(self.faults)
        host = rnd.choice(self.hosts)
        self.log.write("%.3f %s %s\n" % (time.monotonic(), fault.__name__,
                                         host.name))
        self.log.flush()
        if fault in ALONE:
            with self.outage:
                fault(self, host, rnd)
                time.sleep(self.ttl / 2000)
        else:
            fault(self, host, rnd)
        with self.mutex:
            self.done += 1

    def some_faults(self, rnd):
        until = time.monotonic() + self.seconds
        while True:
            if self.faults:
                self.one(rnd)
            time.sleep(rnd.uniform(0, 0.15))
            if time.monotonic() >= until:
                return

    def idle(self, before):
        """How many cells were not had by somebody, and somebody after him."""
        return sum(0 < a and b < a + 3
                   for a, b in zip(before, self.counters()))

    def finish(self):
        """All is well again: does everything go on?"""
        before = self.counters()
        self.wait_for(lambda: not self.idle(before), 13 * self.ttl / 1000)
        idle = self.idle(before)
        self.over = True
        for host in self.hosts:
            for pid in host.pids("survivor"):
                send(pid, signal.SIGKILL)
        for worker in self.workers:
            worker.join(10)
        # (Who died while he was stopped has left his lease to linger.)
        self.wait_for(lambda: not self.keys(), 3 + 2 * self.ttl / 1000 +
                      (self.on_lost == "pause") * self.pause / 1000)
        left = self.keys()
        self.wait_for(lambda: all([is_removed(h) for h in self.hosts]), 10)
        for key in left[:5]:
            print("# left: " + key)
        return idle, len(left)

    def keys(self):
        if self.rigs_own:
            return []
        return [k for k in self.redis.call("--scan").split("\n")
                if k and not k.startswith("dlock%run:")
                and not k.endswith("%h")]  # the history of losses

    def counters(self):
        """Of each cell but those that only a second range reaches at times."""
        with open(os.path.join(self.top, "data"), "rb") as f:
            return [c for c, _ in check_intervals.CELL.iter_unpack(f.read())][:7]

    def main(self):
        threads = [threading.Thread(target=self.some_faults, args=(
            random.Random(self.random.random()),))
                   for _ in range(self.at_once)]
        for t in threads:
            t.start()
        self.redis.serve(threads)
        killed = self.dead
        idle, left = self.finish()
        by_us = min(killed, self.killed_by_us)
        print("faults %d killed %d left %d idle %d" % (
            self.done, killed - by_us, left, idle))


# --- the faults ---------------------------------------------------------------

def kill_survivor(run, host, rnd):
    pid = run.some(host, "survivor", rnd)
    if pid:
        run.kill(pid)


def children_of(pid):
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid),
                  encoding="utf-8") as f:
            return [int(word) for word in f.read().split()]
    except OSError:
        return []


class LongHold:
    """One that is seen to last: of the few that may for `hold`."""

    def __init__(self, run):
        self.run, self.worker = run, None
        run.wait_for(self.look, 10 * run.ttl / 1000)

    def open_(self, log):
        """Since when it has what it has now; 0: nothing."""
        return max((r[2] for r in check_intervals.read(log)[1][-2:]
                    if not r[4]), default=0)

    def look(self):
        before = time.monotonic_ns() - self.run.hold * 1000000 // 80
        for worker in self.run.workers:
            if (worker.process and worker.process.poll() is None and
                    os.path.exists(worker.log) and
                    0 < self.open_(worker.log) < before):
                self.worker, self.log = worker, worker.log
                return True
        return False

    def wait(self, seconds):
        self.run.wait_for(lambda: not self.open_(self.log), seconds)


def orphan(run, host, rnd):
    """Who has taken a lock dies; another process has it, for long."""
    del host, rnd
    held = LongHold(run)
    if held.worker:
        for pid in children_of(held.worker.process.pid):
            run.kill(pid)
        held.wait(3 * run.ttl / 1000)


def kill_all(run, host, rnd):
    del rnd
    for pid in host.pids("survivor"):
        run.kill(pid)


def stop(run, pids, seconds):
    pids = run.to_stop(pids)
    for pid in pids:
        send(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        send(pid, signal.SIGCONT)


def is_stopped(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[0] in "TtZX"
    except OSError:
        return True


def send(pid, what):
    try:
        os.kill(pid, what)
    except ProcessLookupError:
        pass


def stop_one(run, host, name, rnd, seconds):
    pid = run.some(host, name, rnd)
    if pid:
        stop(run, [pid], seconds)


def stop_survivor(run, host, rnd):
    stop_one(run, host, "survivor", rnd, run.within(rnd))


def stop_keeper(run, host, rnd):
    stop_one(run, host, "dlock-keeper", rnd, run.beyond(rnd))


def kill_keeper(run, host, rnd):
    pid = run.some(host, "dlock-keeper", rnd)
    if pid:
        send(pid, signal.SIGKILL)


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def freeze(host, seconds):
    with host.frozen:
        write(host.freezer + "/freezer.state", "FROZEN")
        time.sleep(seconds)
        write(host.freezer + "/freezer.state", "THAWED")


def is_removed(host):
    try:
        os.rmdir(host.freezer)
    except OSError:
        pass
    return not os.path.exists(host.freezer)


def freeze_short(run, host, rnd):
    freeze(host, run.within(rnd))


def freeze_long(run, host, rnd):
    freeze(host, run.beyond(rnd))


def all_of(host):
    """Holders, waiters and keepers."""
    return [pid for name in ("survivor", "dlock-keeper", "dlock-standby")
            for pid in host.pids(name)]


def stop_all_long(run, host, rnd):
    """As by SIGSTOP."""
    with host.frozen:
        stop(run, all_of(host), run.beyond(rnd))


def last_of(run, host):
    """What each survivor of that host has had last: (start, end, cells)."""
    found = []
    for worker in run.workers:
        if worker.host is host and os.path.exists(worker.log):
            for r in check_intervals.read(worker.log)[1][-1:]:
                start, _, end, cell, n, writes = r[2:8]
                found.append((start, end, set(range(cell, cell + n)), writes))
    return found


def is_granted_elsewhere(run, host, held, since):
    return any(start > since and cells & held
               for other in run.hosts if other is not host
               for start, _, cells, _ in last_of(run, other))


def outlive(run, host, rnd):
    """Stopped with a lock in hand until another host has it."""
    del rnd
    until = time.monotonic() + 30 * run.ttl / 1000
    while time.monotonic() < until:
        with host.frozen:
            pids = run.to_stop(all_of(host))
            for pid in pids:
                send(pid, signal.SIGSTOP)
            run.wait_for(lambda: all(map(is_stopped, pids)), 5)
            now = time.monotonic_ns()
            held = [cells for _, end, cells, writes in last_of(run, host)
                    if writes and not end]
            seen = held and run.wait_for(
                lambda: is_granted_elsewhere(run, host, set.union(*held), now),
                5 * run.ttl / 1000)
            for pid in pids:
                send(pid, signal.SIGCONT)
        if seen:
            return
        time.sleep(0.02)
    print("# nobody was granted what a stopped holder had")


def net(host, modes, seconds):
    with host.proxy.lock:
        for mode in modes:
            host.proxy.tell(mode)
            time.sleep(seconds)
        host.proxy.tell("pass")


def net_slow(run, host, rnd):
    net(host, ["delay %d" % (run.ttl * rnd.uniform(0.005, 0.02))],
        2 * run.within(rnd))


def net_reset(run, host, rnd):
    net(host, [rnd.choice(["close", "reset", "refuse"])], run.within(rnd))


def net_short(run, host, rnd):
    net(host, [rnd.choice(["hang", "drop"])], run.within(rnd))


def net_long(run, host, rnd):
    net(host, [rnd.choice(["hang", "drop", "refuse"])], run.beyond(rnd))


def redis_restart(run, host, rnd):
    """With nothing, or all that it had."""
    restart(run, rnd, rnd.random() < 0.5, 0)
    del host


def redis_forgets(run, host, rnd):
    """With nothing, while somebody has a lock for long."""
    LongHold(run)
    restart(run, rnd, False, 0)
    del host


def redis_snapshot(run, host, rnd):
    """With what it had a while ago: others have the leases by now."""
    restart(run, rnd, True, run.within(rnd))
    del host


def restart(run, rnd, dump, old):
    with run.redis.lock:
        if dump and old:
            run.redis.call("save")
            time.sleep(old)
        elif dump:
            # (Nothing is done between the two.)
            run.redis.call("shutdown", "save")
        run.redis.restart(run.within(rnd), dump)
        time.sleep(2.2 * run.delay / 1000)


def redis_empty(run, host, rnd):
    del host
    with run.redis.lock:
        run.redis.call(rnd.choice(["flushall", "flushdb"]))
        time.sleep(1.5 * run.delay / 1000)


def redis_scripts(run, host, rnd):
    del host, rnd
    run.redis.call("script", "flush")


def redis_clients(run, host, rnd):
    del host, rnd
    run.redis.call("client", "kill", "type", "normal")


def redis_pause(run, seconds):
    with run.redis.lock:
        run.redis.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        run.redis.process.send_signal(signal.SIGCONT)


def redis_pause_short(run, host, rnd):
    del host
    redis_pause(run, run.within(rnd))


def redis_pause_long(run, host, rnd):
    del host
    redis_pause(run, run.beyond(rnd))


def redis_sleep(run, host, rnd):
    del host
    with run.redis.lock:
        run.redis.call("debug", "sleep", "%.3f" % run.within(rnd))


# Each is short, but together they would be long.
OUTAGES = [stop_survivor, freeze_short, net_slow, net_reset, net_short,
           redis_restart, redis_snapshot, redis_empty, redis_pause_short,
           redis_sleep]
ALONE = OUTAGES + [outlive, orphan, redis_forgets]
CLASSES = {
    "calm": OUTAGES + [kill_survivor, kill_survivor, kill_all, redis_scripts,
                       redis_clients],
    "holder": [stop_survivor, freeze_short, kill_survivor, kill_survivor,
               kill_all],
    "keeper": [kill_keeper, stop_keeper],
    "lossy": [net_long, redis_pause_long],
    "stopped": [freeze_long, stop_all_long],
    "none": [],
}


def faults_of(name):
    if name in CLASSES:
        return CLASSES[name]
    return [globals()[name]]


if __name__ == "__main__":
    Run(sys.argv[1:]).main()
