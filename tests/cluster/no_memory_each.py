#!/usr/bin/env python3
"""Programs on two mounts, while each single allocation of a daemon fails once.

    no_memory_each.py WORK BIN SECONDS SEED [ONLY]...   WORK/mnt/a and b are the mounts; WORK/run/memory-NAME says what fails in the
                                                        daemon NAME (tests/lib/failing_memory.h); BIN has the daemons

Two processes play scenes, one at each mount, line by line. First it is seen on which ways (who calls whom) each daemon comes to an
allocation in each scene. Then the scenes are played again and again, and each time one allocation fails, the first on one of these ways, or
one by chance, in an order by chance, for SECONDS (0: until all ways have been gone). Whatever the two ask for must be answered within ANSWER_S. In
between there is memory: then everything must work, through both mounts, within CALM_S. ONLY: daemons, or scenes.
"""
import collections
import errno
import fcntl
import mmap
import multiprocessing
import os
import random
import struct
import subprocess
import sys
import time

ANSWER_S = 20
CALM_S = 10
CALM_EVERY = 4  # So often it is tried whether all works.
POINTS_MIN = 200  # A slow machine takes longer for them, up to LONGER times as long.
LONGER = 10
COUNTS, NTH, AT, STACK, PLACES = 4 * 8, 5 * 8, 6 * 8, 7 * 8, 17 * 8  # In struct failing_memory.
PLACE_BYTES = 3 * 8
# ENOSPC: storage servers have lost the manager, and are not back yet.
FAULTS = {errno.ENOMEM, errno.EIO, errno.ENOBUFS, errno.EAGAIN, errno.ENOLCK, errno.ENOSPC}
# What comes of one that has failed before.
AFTER = {errno.ENOENT, errno.EEXIST, errno.ESTALE, errno.ENODATA, errno.ENXIO, errno.ENOTEMPTY, errno.EBADF}
PROGRAMS = {"meta": "morsel-meta", "iod1": "morsel-iod", "mount-a": "morsel-mount", "mount-b": "morsel-mount"}


class Broken(Exception):
    pass


class Memory:
    """Of one daemon."""

    def __init__(self, path):
        with open(path, "r+b") as shared:
            self.words = mmap.mmap(shared.fileno(), 0)

    def get(self, at):
        return struct.unpack_from("<Q", self.words, at)[0]

    def put(self, at, value):
        struct.pack_into("<Q", self.words, at, value)

    def places(self):
        return struct.iter_unpack("<3Q", self.words[PLACES:PLACES + (len(self.words) - PLACES) // PLACE_BYTES * PLACE_BYTES])

    def count(self, play):
        """{way: how often it was gone while `play` ran}"""
        self.words[PLACES:] = bytes(len(self.words) - PLACES)
        self.put(COUNTS, 1)
        play()
        self.put(COUNTS, 0)
        return {way: count for way, count, _ in self.places() if count > 0}

    def fail_nth(self, number, way):
        self.put(AT, way)
        self.put(NTH, number)

    def has_failed(self):
        """And none will. The stack of the one that did, or nothing."""
        left = self.get(NTH)
        self.put(NTH, 0)
        return [] if left > 0 else [address for address, in struct.iter_unpack("<Q", self.words[STACK:PLACES]) if address != 0]


class Files(dict):
    """Descriptors by name; one that could not be opened is none."""

    def __missing__(self, key):
        raise OSError(errno.EBADF, f"{key} is not open")


class Actor:
    """A program at one mount; its files are open under names."""

    def __init__(self, root):
        self.root = root
        self.fds = Files()

    def path(self, name):
        return f"{self.root}/{name}"

    def open(self, name, flags=os.O_RDWR | os.O_CREAT, key=None):
        self.close(key or name)
        self.fds[key or name] = os.open(self.path(name), flags | os.O_CLOEXEC, 0o644)

    def close(self, key):
        if key in self.fds:
            os.close(self.fds.pop(key))

    def close_all(self):
        for key in list(self.fds):
            try:
                self.close(key)
            except OSError as error:
                if error.errno not in FAULTS | AFTER:
                    raise

    def put(self, name, data, append=False):
        self.open(name, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else 0))
        done = 0
        while done < len(data):
            done += os.write(self.fds[name], data[done:])
        os.fsync(self.fds[name])
        self.close(name)

    def get(self, name):
        self.open(name, os.O_RDONLY)
        pieces = []
        while piece := os.read(self.fds[name], 1 << 20):
            pieces.append(piece)
        self.close(name)
        return b"".join(pieces)

    def write(self, key, data, at):
        os.pwrite(self.fds[key], data, at)

    def read(self, key, count, at):
        return os.pread(self.fds[key], count, at)

    def fsync(self, key):
        os.fsync(self.fds[key])

    def lock(self, key, how, length=0, start=0):
        fcntl.lockf(self.fds[key], how, length, start)

    def flock(self, key, how):
        fcntl.flock(self.fds[key], how)

    def make_names(self, name):
        here = self.path(name)
        os.mkdir(here)
        os.symlink("nowhere", here + "/s")
        os.mkfifo(here + "/p")
        self.open(name + "/f")
        self.close(name + "/f")
        os.link(here + "/f", here + "/l")
        os.rename(here + "/l", here + "/m")

    def see_names(self, name):
        names = sorted(os.listdir(self.path(name)))
        for entry in os.scandir(self.path(name)):
            entry.stat(follow_symlinks=False)
        os.readlink(self.path(name + "/s"))
        return names

    def sweep_names(self, name):
        for entry in os.listdir(self.path(name)):
            os.unlink(self.path(f"{name}/{entry}"))
        os.rmdir(self.path(name))

    def attributes(self, name):
        path = self.path(name)
        os.chmod(path, 0o640)
        os.utime(path)
        os.chown(path, 1, 2)
        os.setxattr(path, "user.key", b"value")
        assert os.getxattr(path, "user.key") == b"value"
        os.listxattr(path)
        os.removexattr(path, "user.key")
        os.statvfs(path)

    def shape(self, key):
        fd = self.fds[key]
        os.ftruncate(fd, 300000)
        os.posix_fallocate(fd, 100000, 500000)
        os.pwrite(fd, b"x" * 70000, 2000000)
        os.ftruncate(fd, 2010000)
        os.lseek(fd, 0, os.SEEK_DATA)
        os.lseek(fd, 0, os.SEEK_HOLE)
        os.fdatasync(fd)

    def stat(self, name):
        return os.stat(self.path(name)).st_size

    def copy(self, source, target):
        self.open(source, os.O_RDONLY)
        self.open(target)
        left = os.stat(self.path(source)).st_size
        while left > 0:
            count = os.copy_file_range(self.fds[source], self.fds[target], left)
            assert count > 0
            left -= count
        os.fsync(self.fds[target])
        self.close(source)
        self.close(target)

    def unlink(self, name):
        os.unlink(self.path(name))

    def serve(self, pipe):
        while True:
            method, arguments = pipe.recv()
            try:
                pipe.send((None, getattr(self, method)(*arguments)))
            except OSError as error:
                pipe.send((error.errno, str(error)))
            except Exception as error:  # pylint: disable=broad-except
                pipe.send(("broken", repr(error)))


class Stage:
    """The two actors, and what they were told."""

    def __init__(self, roots):
        self.pipes, self.waiting = {}, {}
        self.errors = collections.Counter()
        for name, root in roots.items():
            ours, its = multiprocessing.Pipe()
            multiprocessing.Process(target=Actor(root).serve, args=(its,), daemon=True).start()
            self.pipes[name] = ours

    def begin(self, who, method, *arguments):
        self.waiting[who] = f"{who}: {method}{arguments!r:.60}"
        self.pipes[who].send((method, arguments))

    def end(self, who):
        """(error, answer)"""
        if not self.pipes[who].poll(ANSWER_S):
            raise Broken(f"{self.waiting[who]} has no answer")
        error, answer = self.pipes[who].recv()
        if error is not None and error not in FAULTS | AFTER:
            raise Broken(f"{self.waiting[who]}: {answer}")
        if error is not None:
            self.errors[errno.errorcode[error]] += 1
        del self.waiting[who]
        return error, answer

    def do(self, who, method, *arguments):
        self.begin(who, method, *arguments)
        return self.end(who)

    def must(self, who, method, *arguments):
        """Until it is done: there is memory."""
        end = time.monotonic() + CALM_S
        while True:
            error, answer = self.do(who, method, *arguments)
            if error is None:
                return answer
            if time.monotonic() >= end:
                raise Broken(f"{who}: {method}{arguments!r:.60}: {answer}, {CALM_S} s after there was memory again")
            time.sleep(0.02)


# ---- Scenes: with the file or directory `name`.

def write_and_read(stage, name):
    data = os.urandom(70000)
    error, _ = stage.do("a", "put", name, data)
    got = stage.do("b", "get", name)
    if error is None and got[0] is None and got[1] != data:
        raise Broken(f"{name}: {len(got[1])} bytes, not those that were synced")
    stage.do("b", "unlink", name)


def names(stage, name):
    made = stage.do("a", "make_names", name)
    seen = stage.do("b", "see_names", name)
    if made[0] is None and seen[0] is None and seen[1] != ["f", "m", "p", "s"]:
        raise Broken(f"{name}: {seen[1]}")
    stage.do("b", "sweep_names", name)


def attributes(stage, name):
    stage.do("a", "open", name)
    stage.do("a", "close", name)
    stage.do("a", "attributes", name)
    stage.do("b", "attributes", name)
    stage.do("b", "unlink", name)


def shapes(stage, name):
    for who in "ab":
        if stage.do(who, "open", name)[0] is None:
            stage.do(who, "shape", name)
        stage.do(who, "stat", name)
    stage.do("a", "close", name)
    stage.do("b", "close", name)
    stage.do("a", "copy", name, name + "-copy")
    stage.do("b", "stat", name + "-copy")
    stage.do("a", "unlink", name + "-copy")
    stage.do("b", "unlink", name)


def two_writers(stage, name):
    if stage.do("a", "open", name)[0] is None and stage.do("b", "open", name)[0] is None:
        for i in range(2):
            for who in "ab":
                stage.do(who, "write", name, who.encode() * 5000, i * 10000)
                stage.do("b" if who == "a" else "a", "read", name, 4000, i * 10000)
        stage.do("a", "fsync", name)
    stage.do("a", "close", name)
    stage.do("b", "close", name)
    stage.do("a", "unlink", name)


def appends(stage, name):
    lines = []
    for i in range(2):
        for who in "ab":
            line = b"%s-%d\n" % (who.encode(), i)
            if stage.do(who, "put", name, line, True)[0] is None:
                lines.append(line)
    for who in "ab":
        error, got = stage.do(who, "get", name)
        if error is None and any(got.count(line) != 1 for line in lines):
            raise Broken(f"{name}: {got} of {lines}")
    stage.do("b", "unlink", name)


def orphans(stage, name):
    stage.do("a", "put", name, b"orphan")
    for who in "ab":
        stage.do(who, "open", name)
    stage.do("a", "unlink", name)
    for who in "ab":
        stage.do(who, "read", name, 6, 0)
    stage.do("b", "close", name)
    stage.do("a", "close", name)


def locks(stage, name):
    """Whoever waits gets the lock with the close of the holder, or hears that it cannot."""
    for kind, arguments in (("lock", (fcntl.LOCK_EX,)), ("lock", (fcntl.LOCK_SH, 10, 5)), ("flock", (fcntl.LOCK_EX,))):
        for one, other in (("a", "b"), ("b", "a")):
            if stage.do(one, "open", name)[0] is None and stage.do(other, "open", name)[0] is None:
                stage.do(one, kind, name, *arguments)
                stage.begin(other, kind, name, fcntl.LOCK_EX)
                stage.do(one, "close", name)
                stage.end(other)
            stage.do(one, "close", name)
            stage.do(other, "close", name)


def conversions(stage, name):
    for who in "ab":
        if stage.do(who, "open", name)[0] is None:
            stage.do(who, "lock", name, fcntl.LOCK_EX, 10, 0)
            stage.do(who, "lock", name, fcntl.LOCK_SH, 5, 2)
            stage.do(who, "lock", name, fcntl.LOCK_UN, 2, 3)
            stage.do(who, "flock", name, fcntl.LOCK_SH)
            stage.do(who, "flock", name, fcntl.LOCK_EX)
        stage.do(who, "close", name)


SCENES = {"write_and_read": write_and_read, "names": names, "attributes": attributes, "shapes": shapes, "two_writers": two_writers,
          "appends": appends, "orphans": orphans, "locks": locks, "conversions": conversions}
FIXED = {"locks", "conversions"}  # Whose file is always the same one: what is left of a lock is in the way of the next one.


def calm(stage, name):
    """There is memory: everything works."""
    for who in "ab":
        stage.must(who, "close_all")
    for who, other in (("a", "b"), ("b", "a")):
        data = f"{name} {who}".encode() * 100
        stage.must(who, "put", "work/calm", data)
        if stage.must(other, "get", "work/calm")[:len(data)] != data:
            raise Broken(f"{name}: what {who} has synced {other} does not read")
    for scene in sorted(FIXED):
        for who in "ab":
            stage.must(who, "open", f"work/{scene}")
            stage.must(who, "lock", f"work/{scene}", fcntl.LOCK_EX | fcntl.LOCK_NB)
            stage.must(who, "flock", f"work/{scene}", fcntl.LOCK_EX | fcntl.LOCK_NB)
            stage.must(who, "close", f"work/{scene}")


class Sweep:
    def __init__(self, work, binaries, rng):
        self.binaries, self.random = binaries, rng
        self.memory = {name: Memory(f"{work}/run/memory-{name}") for name in PROGRAMS}
        self.stage = Stage({name: f"{work}/mnt/{name}" for name in "ab"})
        self.played = 0
        self.since_calm = []

    def play(self, scene):
        self.played += 1
        SCENES[scene](self.stage, f"work/{scene}" + ("" if scene in FIXED else f"-{self.played}"))

    def calm(self):
        calm(self.stage, f"after {self.played}")
        self.since_calm.clear()

    def points(self, only):
        """(daemon, scene, way, number)"""
        points = []
        for daemon, memory in self.memory.items():
            for scene in SCENES:
                if only and daemon not in only and scene not in only:
                    continue
                for way, count in memory.count(lambda scene=scene: self.play(scene)).items():
                    points.append((daemon, scene, way, self.random.choice((1, self.random.randint(1, count)))))
        self.random.shuffle(points)
        return points

    def fail_one(self, daemon, scene, way, number):
        """Did it?"""
        memory = self.memory[daemon]
        self.since_calm.append((daemon, scene, number, []))
        memory.fail_nth(number, way)
        try:
            self.play(scene)
        finally:
            stack = memory.has_failed()
            self.since_calm[-1] = (daemon, scene, number, stack)
        if len(self.since_calm) >= CALM_EVERY:
            self.calm()
        return stack

    def where(self, daemon, scene, number, stack):
        binary = f"{self.binaries}/{PROGRAMS[daemon]}"
        said = subprocess.run(["addr2line", "-f", "-s", "-e", binary, *(hex(address - 1) for address in stack)],
                              capture_output=True, text=True, check=False).stdout.split()
        return f"{scene}: allocation {number} in {daemon}: " + " ".join(name for name in said[6::2] if name != "??")


def main():
    work, binaries, seconds, seed, *only = sys.argv[1:]
    sweep = Sweep(work, binaries, random.Random(int(seed)))
    failed, slowest = 0, (0, "")
    try:
        sweep.calm()
        points = sweep.points(only)
        end = time.monotonic() + int(seconds) if int(seconds) > 0 else float("inf")
        for point in points:
            begun = time.monotonic()
            if begun >= end and (failed >= POINTS_MIN or only or begun >= end + (LONGER - 1) * int(seconds)):
                break
            stack = sweep.fail_one(*point)
            failed += len(stack) > 0
            took = time.monotonic() - begun
            if took > slowest[0]:
                slowest = (took, sweep.where(point[0], point[1], point[3], stack))
        sweep.calm()
    except Broken as broken:
        print(broken, *(f"when this had failed: {sweep.where(*point)}" for point in sweep.since_calm), sep="\n")
        sys.exit(1)
    print(f"{failed} of {len(points)} allocations failed, {dict(sweep.stage.errors)}; the slowest took {slowest[0]:.1f} s: {slowest[1]}")
    if not only and failed < POINTS_MIN:
        sys.exit("too few")


main()
