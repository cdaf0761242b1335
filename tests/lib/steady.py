#!/usr/bin/env python3
"""Steady writers and verifying readers, to be run while servers fail; then says what they saw.

    steady.py NAME WRITE_DIR READ_DIR [--blocks N] [--seconds S] [--errors-allowed] [--progress FILE] [--full FILE]

Two writers write blocks of the file NAME in WRITE_DIR, each its own half, again and again, and sync now and then. Two readers
read any block through READ_DIR and check that each part of it is no older than what was acknowledged before the read
began and than what was read before, and no newer than what was ever written (a read beside a write may have parts of both,
as on any file system). It ends after S seconds, or with
SIGTERM; then everything is read once more through both directories. A call that failed leaves its block as it was or
as it was to be (--errors-allowed; otherwise a failed call is a failure). While the file of --full is there ENOSPC is
none, and neither is the ENOSPC that the next sync behind it tells. FILE of --progress gets a line for each hundredth write, so
that somebody can wait for work to go on. The last line of the output is JSON; exit 1: something was wrong.
"""
import argparse, errno, json, os, random, signal, struct, threading, time

BLOCK = 64 << 10
HEAD = struct.Struct("<QQ")  # block, version; repeated through the whole block


def block_bytes(block, version):
    return HEAD.pack(block, version) * (BLOCK // HEAD.size)


class Steady:
    def __init__(self, options):
        self.options = options
        self.stop = threading.Event()
        self.lock = threading.Lock()
        count = options.blocks
        self.acked, self.tried, self.seen = [0] * count, [0] * count, [0] * count
        self.writes = self.reads = self.syncs = 0
        self.longest = {"write": 0.0, "read": 0.0, "sync": 0.0}
        self.errors, self.wrong = [], []
        self.refused = 0  # For a full disk.
        self.writing, self.untold = set(), set()  # Descriptors; those whose next sync may tell of a full disk once more.
        self.began = time.monotonic()

    def is_full(self):
        return self.options.full is not None and os.path.exists(self.options.full)

    def excused(self, what, error, fd, full):
        """A full disk: of what a write met, the next sync of each descriptor may tell, too."""
        if error.errno != errno.ENOSPC or not (full or self.is_full() or (what == "sync" and fd in self.untold)):
            return False
        with self.lock:
            self.refused += 1
            self.untold = self.untold - {fd} if what == "sync" else set(self.writing)
        return True

    def timed(self, what, fd, call):
        """What the call gives; None: it failed."""
        begun, full = time.monotonic(), self.is_full()
        try:
            return call()
        except OSError as error:
            if self.excused(what, error, fd, full):
                return None
            with self.lock:
                self.errors.append("%s at %.2f s: %s" % (what, time.monotonic() - self.began, error.strerror))
            self.stop.wait(0.05)
            return None
        finally:
            with self.lock:
                self.longest[what] = max(self.longest[what], time.monotonic() - begun)

    def write(self, fd, block):
        with self.lock:
            version = self.tried[block] + 1
            self.tried[block] = version
        count = self.timed("write", fd, lambda: os.pwrite(fd, block_bytes(block, version), block * BLOCK))
        with self.lock:
            if count == BLOCK:
                self.acked[block] = version
                self.writes += 1
                if self.writes % 100 == 0 and self.options.progress:
                    with open(self.options.progress, "a") as progress:
                        progress.write("%d\n" % self.writes)

    def writer(self, half, seed):
        draw = random.Random(seed)
        fd = os.open(os.path.join(self.options.write_dir, self.options.name), os.O_RDWR)
        blocks = [b for b in range(self.options.blocks) if b % 2 == half]
        with self.lock:
            self.writing.add(fd)
        while not self.stop.is_set():
            self.write(fd, draw.choice(blocks))
            if draw.random() < 0.05 and self.timed("sync", fd, lambda: os.fsync(fd) or True):
                with self.lock:
                    self.syncs += 1
            self.stop.wait(0.002)
        self.timed("sync", fd, lambda: os.fsync(fd))
        self.timed("sync", fd, lambda: os.close(fd))

    def check(self, block, got, low, where):
        with self.lock:
            high = self.tried[block]
        parts = set(HEAD.iter_unpack(got[:len(got) // HEAD.size * HEAD.size]))
        versions = [version if number == block or (number, version) == (0, 0) else -1 for number, version in parts]
        oldest, newest = (min(versions), max(versions)) if len(got) == BLOCK else (-1, -1)
        with self.lock:
            # Another reader may have seen a newer one meanwhile.
            self.seen[block] = max(self.seen[block], oldest)
            if not low <= oldest <= newest <= high:
                self.wrong.append("%s: block %d at %.2f s: %d bytes of versions %s, not of %d to %d (-1: of another block)" % (
                    where, block, time.monotonic() - self.began, len(got), sorted(set(versions)), low, high))

    def read(self, fd, block, where):
        with self.lock:
            low = max(self.acked[block], self.seen[block])
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        got = self.timed("read", fd, lambda: os.pread(fd, BLOCK, block * BLOCK))
        if got is not None:
            self.check(block, got, low, where)
            with self.lock:
                self.reads += 1

    def reader(self, seed):
        draw = random.Random(seed)
        fd = os.open(os.path.join(self.options.read_dir, self.options.name), os.O_RDONLY)
        while not self.stop.is_set():
            self.read(fd, draw.randrange(self.options.blocks), "reading")
            self.stop.wait(0.002)
        os.close(fd)

    def all_again(self, directory):
        fd = os.open(os.path.join(directory, self.options.name), os.O_RDONLY)
        for block in range(self.options.blocks):
            self.read(fd, block, "in the end")
        os.close(fd)

    def run(self):
        options = self.options
        path = os.path.join(options.write_dir, options.name)
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(fd, options.blocks * BLOCK)
        for block in range(options.blocks):
            self.write(fd, block)
        os.fsync(fd)
        os.close(fd)
        threads = [threading.Thread(target=self.writer, args=(half, half)) for half in (0, 1)]
        threads += [threading.Thread(target=self.reader, args=(seed,)) for seed in (2, 3)]
        for thread in threads:
            thread.start()
        self.stop.wait(options.seconds)
        self.stop.set()
        for thread in threads:
            thread.join()
        for directory in (options.read_dir, options.write_dir):
            self.all_again(directory)
        longest = {what: round(1000 * seconds) for what, seconds in self.longest.items()}
        print(json.dumps({"writes": self.writes, "reads": self.reads, "syncs": self.syncs, "longest_ms": longest,
                          "refused_full": self.refused, "errors": len(self.errors), "first_errors": self.errors[:5], "wrong": self.wrong[:10]}))
        return 1 if self.wrong or (self.errors and not options.errors_allowed) else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("write_dir")
    parser.add_argument("read_dir")
    parser.add_argument("--blocks", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--errors-allowed", action="store_true")
    parser.add_argument("--progress")
    parser.add_argument("--full")
    steady = Steady(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: steady.stop.set())
    raise SystemExit(steady.run())


main()
