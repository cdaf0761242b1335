#!/usr/bin/env python3
"""Programs on mounts whose daemons run out of memory now and then.

    no_memory.py SECONDS SEED BEGUN ENOUGH DIR DIR2      the same directory through two mounts

Each process does random things to files of its own and to some of all, through both mounts, and notes what was promised: bytes that
an fsync covered, lines that were appended and synced. Errors that memory may cause are counted; another error, or a read that gives
other bytes than were promised, ends it. BEGUN is made when all run. Behind SECONDS, and not before ENOUGH is there (enough has
failed), it says what was done in one line, waits for one on its standard input (there is memory again), and looks for everything that was promised, through both mounts.
"""
import collections
import errno
import fcntl
import multiprocessing
import os
import queue
import random
import sys
import time

PROGRAMS = 4
CALM_ROUNDS_MIN = 10  # That each does without an error, however long that takes,
LATE_S_MAX = 60  # up to this.
# EDEADLK: two who read-lock the same bytes, and both want to write there. ENOSPC: storage servers have lost the manager, and are not back yet.
FAULTS = {errno.ENOMEM, errno.EIO, errno.ENOBUFS, errno.EAGAIN, errno.ENOLCK, errno.EDEADLK, errno.ENOSPC}
# What comes of one that has failed before: a name that is there or is not, a file that is empty.
AFTER = {errno.ENOENT, errno.EEXIST, errno.ESTALE, errno.ENODATA, errno.ENXIO, errno.ENOTEMPTY}


class File:
    """An open file that is closed in any case; an error of the close counts."""

    def __init__(self, path, flags):
        self.fd = os.open(path, flags | os.O_CLOEXEC, 0o644)

    def __enter__(self):
        return self.fd

    def __exit__(self, *_):
        os.close(self.fd)


def write_all(fd, data):
    done = 0
    while done < len(data):
        done += os.write(fd, data[done:done + 300000])


def read_all(path):
    with File(path, os.O_RDONLY) as fd:
        pieces = []
        while piece := os.read(fd, 1 << 20):
            pieces.append(piece)
    return b"".join(pieces)


class Program:
    def __init__(self, number, seed, roots):
        self.number, self.roots = number, roots
        self.random = random.Random(seed * 100 + number)
        self.promised = {}  # Name: the bytes that it has.
        self.lines = []  # That were appended.
        self.appends = 0
        self.orphans = []

    def path(self, name):
        return os.path.join(self.random.choice(self.roots), name)

    def own(self):
        return f"own-{self.number}-{self.random.randrange(6)}"

    def write(self):
        name = self.own()
        data = self.random.randbytes(self.random.choice([10, 5000, 200000, 3000000]))
        self.promised.pop(name, None)
        with File(self.path(name), os.O_RDWR | os.O_CREAT | os.O_TRUNC) as fd:
            write_all(fd, data)
            os.fsync(fd)
            self.promised[name] = data

    def read(self):
        if self.promised:
            name = self.random.choice(sorted(self.promised))
            got = read_all(self.path(name))
            assert got == self.promised[name], f"{name}: {len(got)} bytes, not the {len(self.promised[name])} that were synced"

    def shape(self):
        name = self.own()
        self.promised.pop(name, None)
        with File(self.path(name), os.O_RDWR | os.O_CREAT) as fd:
            os.ftruncate(fd, self.random.randrange(2000000))
            os.posix_fallocate(fd, self.random.randrange(1000000), 100000)
            os.pwrite(fd, b"x" * 70000, self.random.randrange(3000000))
            os.ftruncate(fd, self.random.randrange(2000000))
            os.lseek(fd, 0, os.SEEK_DATA)
            os.lseek(fd, 0, os.SEEK_HOLE)
            os.fdatasync(fd)

    def copy(self):
        other = f"copy-{self.number}"
        names = sorted(name for name in self.promised if name != other)
        if not names:
            return
        name, root = self.random.choice(names), self.random.choice(self.roots)
        self.promised.pop(other, None)
        with File(f"{root}/{name}", os.O_RDONLY) as source, \
                File(f"{root}/{other}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) as target:
            left = len(self.promised[name])
            while left > 0:
                count = os.copy_file_range(source, target, left)
                assert count > 0, f"{name} ends {left} bytes before what was synced"
                left -= count
            os.fsync(target)
            self.promised[other] = self.promised[name]

    def names(self):
        name = f"dir-{self.number}-{self.random.randrange(3)}"
        here = self.path(name)
        os.mkdir(here)
        os.symlink("nowhere", self.path(name + "/s"))
        with File(self.path(name + "/f"), os.O_CREAT | os.O_WRONLY):
            pass
        os.link(here + "/f", here + "/l")
        os.rename(here + "/l", here + "/m")
        os.readlink(self.path(name + "/s"))
        os.mkfifo(self.path(name + "/p"))
        assert len(os.listdir(self.path(name))) == 4
        for entry in os.scandir(self.path(name)):
            entry.stat(follow_symlinks=False)
        self.sweep(name)

    def sweep(self, name=None):
        name = name or f"dir-{self.number}-{self.random.randrange(3)}"
        for entry in os.listdir(self.path(name)):
            os.unlink(self.path(f"{name}/{entry}"))
        os.rmdir(self.path(name))

    def attributes(self):
        name = self.own()
        mode = 0o600 + self.random.randrange(64)
        with File(self.path(name), os.O_RDONLY) as fd:
            os.fchmod(fd, mode)
            os.fsync(fd)  # Set and not synced, it is lost with the lease of a mount that has no memory to answer a recall.
        assert os.stat(self.path(name)).st_mode & 0o777 == mode, f"{name}: chmod is not there"
        os.utime(self.path(name))
        os.chown(self.path(name), self.random.randrange(3), 0)
        value = b"v" * self.random.randrange(1000)
        os.setxattr(self.path(name), "user.key", value)
        assert os.getxattr(self.path(name), "user.key") == value, f"{name}: setxattr is not there"
        os.listxattr(self.path(name))
        os.removexattr(self.path(name), "user.key")
        os.statvfs(self.path(name))

    def orphan(self):
        if len(self.orphans) > 5:
            os.close(self.orphans.pop(0))
        path = self.path(f"orphan-{self.number}")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.orphans.append(fd)
        os.write(fd, b"orphan")
        os.unlink(path)
        os.pread(fd, 10, 0)

    def unnamed(self):
        with File(self.random.choice(self.roots), os.O_RDWR | os.O_TMPFILE) as fd:
            os.write(fd, b"unnamed" * 1000)

    def lock(self):
        with File(self.path("locked"), os.O_RDWR | os.O_CREAT) as fd:
            fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 10, self.random.randrange(50))
            fcntl.lockf(fd, fcntl.LOCK_EX, 5, 20)
            fcntl.lockf(fd, fcntl.LOCK_UN, 2, 21)
            os.pwrite(fd, b"%d" % self.number, 20)

    def flock(self):
        with File(self.path("flocked"), os.O_RDWR | os.O_CREAT) as fd:
            fcntl.flock(fd, fcntl.LOCK_SH)
            fcntl.flock(fd, fcntl.LOCK_EX)
            fcntl.flock(fd, fcntl.LOCK_UN)

    def append(self):
        line = b"%d-%d" % (self.number, self.appends)
        self.appends += 1
        with File(self.path("appended"), os.O_WRONLY | os.O_APPEND | os.O_CREAT) as fd:
            os.write(fd, line + b"\n")
            os.fsync(fd)
            self.lines.append(line)

    def run(self, end, enough, report):
        done, failed = collections.Counter(), collections.Counter()
        works = [self.write, self.write, self.read, self.read, self.shape, self.copy, self.names, self.sweep, self.attributes,
                 self.orphan, self.unnamed, self.lock, self.flock, self.append]
        while time.monotonic() < end or (time.monotonic() < end + LATE_S_MAX and
                                         (sum(done.values()) < CALM_ROUNDS_MIN or not os.path.exists(enough))):
            work = self.random.choice(works)
            try:
                work()
                done[work.__name__] += 1
            except OSError as error:
                if error.errno not in FAULTS | AFTER:
                    raise
                failed[errno.errorcode[error.errno]] += 1
        report.put((done, failed, self.promised, self.lines))


def run_all(seconds, seed, begun, enough, roots):
    report = multiprocessing.Queue()
    end = time.monotonic() + seconds
    programs = [multiprocessing.Process(target=Program(n, seed, roots).run, args=(end, enough, report), daemon=True)
                for n in range(PROGRAMS)]
    for program in programs:
        program.start()
    open(begun, "w").close()
    done, failed, promised, lines = collections.Counter(), collections.Counter(), {}, []
    while len(programs) > 0:
        try:
            its = report.get(timeout=0.2)
        except queue.Empty:
            assert all(program.exitcode in (None, 0) for program in programs), "a program broke"
            continue
        done.update(its[0])
        failed.update(its[1])
        promised.update(its[2])
        lines += its[3]
        programs.pop()
        assert sum(its[0].values()) >= CALM_ROUNDS_MIN, f"a program did too little: {its[0]}, {its[1]}"
    print(f"{sum(done.values())} rounds without an error, {sum(failed.values())} with one: {dict(failed)}", flush=True)
    return promised, lines


def look_at_all(promised, lines, roots):
    for root in roots:
        for name, data in promised.items():
            got = read_all(f"{root}/{name}")
            assert got == data, f"{name} through {root}: {len(got)} bytes, not the {len(data)} that were synced"
        # An append that failed may have left a hole.
        appended = collections.Counter(read_all(f"{root}/appended").replace(b"\0", b"\n").split(b"\n"))
        for line in lines:
            assert appended[line] == 1, f"the append {line} is there {appended[line]} times, through {root}"
    assert len(promised) > 0 and len(lines) > 0, "nothing was promised"
    print(f"{len(promised)} files and {len(lines)} appends are there as promised")


def main():
    begun, enough, *roots = sys.argv[3:]
    promised, lines = run_all(int(sys.argv[1]), int(sys.argv[2]), begun, enough, roots)
    sys.stdin.readline()
    look_at_all(promised, lines, roots)


main()
