#!/usr/bin/env python3
"""Random work on files of its own, through several mounts by turns, every byte of it verified, while servers fail.

    own_files.py SEED PROGRESS FULL SUMS DIRECTORY...

Each of six workers has files that nobody else changes, so it knows what is in them: it makes, overwrites, appends to, cuts, copies, renames and removes them,
each time through another of the DIRECTORYs (the same directory on different mounts), and reads them through any. PROGRESS gets a line for each
hundredth operation. While the file FULL is there, ENOSPC is no failure: the file that met it is removed. It ends with SIGTERM; then all files are read
through all directories, and SUMS says what is in them, for sha256sum. The last line of the output is JSON; exit 1: a byte or a name was wrong, or a call failed.
"""
import errno, hashlib, json, os, random, signal, sys, threading, time

WORKERS, FILES, SMALL, LARGE = 6, 24, 64 << 10, 3 << 20


class Shared:
    def __init__(self, seed, progress, full, directories):
        self.seed, self.progress, self.full, self.directories = seed, progress, full, directories
        self.stop, self.lock = threading.Event(), threading.Lock()
        self.operations, self.refused, self.kinds = 0, 0, {}
        self.written = self.verified = 0  # Bytes.
        self.longest, self.wrong = 0.0, []

    def note(self, kind, seconds):
        with self.lock:
            self.operations += 1
            self.kinds[kind] = self.kinds.get(kind, 0) + 1
            self.longest = max(self.longest, seconds)
            if self.operations % 100 == 0:
                with open(self.progress, "a") as progress:
                    progress.write("%d\n" % self.operations)

    def count(self, written=0, verified=0):
        with self.lock:
            self.written += written
            self.verified += verified

    def fail(self, words):
        with self.lock:
            self.wrong.append(words)
        self.stop.set()


class Worker(threading.Thread):
    def __init__(self, shared, number):
        super().__init__()
        self.shared, self.number = shared, number
        self.draw = random.Random(shared.seed * 1000 + number)
        self.files, self.made = {}, 0  # Name to bytes.

    def path(self, name, directory=None):
        return os.path.join(directory or self.draw.choice(self.shared.directories), "w%d" % self.number, name)

    def new_name(self):
        self.made += 1
        return "f%d" % self.made

    def some(self):
        return self.draw.choice(sorted(self.files))

    def bytes(self):
        return self.draw.randbytes(self.draw.randrange(1, LARGE if self.draw.random() < 0.1 else SMALL))

    def write(self, name, flags, data, offset=None):
        """All of it, and every second time on the disks."""
        fd = os.open(self.path(name), flags, 0o644)
        try:
            at = 0
            while at < len(data):
                piece = data[at:at + (1 << 20)]
                at += os.write(fd, piece) if offset is None else os.pwrite(fd, piece, offset + at)
            if self.draw.random() < 0.5:
                os.fsync(fd)
        finally:
            os.close(fd)
        self.shared.count(written=len(data))

    # Each does it to the file, and then to what is known of it. `self.at_work` are the files that may be anything when it fails.

    def make(self):
        name, data = self.new_name(), self.bytes()
        self.at_work = [name]
        self.write(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, data)
        self.files[name] = bytearray(data)

    def overwrite(self):
        name, data = self.some(), self.bytes()
        offset = self.draw.randrange(len(self.files[name]) + SMALL)
        self.at_work = [name]
        self.write(name, os.O_WRONLY, data, offset)
        known = self.files[name]
        known.extend(bytes(max(0, offset + len(data) - len(known))))
        known[offset:offset + len(data)] = data

    def append(self):
        name, data = self.some(), self.bytes()[:SMALL]
        self.at_work = [name]
        self.write(name, os.O_WRONLY | os.O_APPEND, data)
        self.files[name] += data

    def cut(self):
        name = self.some()
        size = self.draw.randrange(len(self.files[name]) + SMALL)
        self.at_work = [name]
        os.truncate(self.path(name), size)
        known = self.files[name]
        del known[size:]
        known.extend(bytes(size - len(known)))

    def copy(self):
        name, new = self.some(), self.new_name()
        self.at_work = [new]
        directory = self.draw.choice(self.shared.directories)
        source = os.open(self.path(name, directory), os.O_RDONLY)
        target = os.open(self.path(new, directory), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            while os.copy_file_range(source, target, 64 << 20) > 0:
                pass
        finally:
            os.close(source)
            os.close(target)
        self.files[new] = bytearray(self.files[name])

    def rename(self):
        name, new = self.some(), self.some() if self.draw.random() < 0.3 else self.new_name()
        self.at_work, directory = [], self.draw.choice(self.shared.directories)
        os.rename(self.path(name, directory), self.path(new, directory))
        self.files[new] = self.files.pop(name)

    def remove(self):
        name = self.some()
        self.at_work = []
        os.unlink(self.path(name))
        del self.files[name]

    def read(self):
        self.at_work = []
        name = self.some()
        self.check(self.path(name), name)

    def names(self):
        self.at_work = []
        path = self.path("")
        found = sorted(os.listdir(path))
        if found != sorted(self.files):
            self.shared.fail("%s has %s, and not %s" % (path, found, sorted(self.files)))

    def check(self, path, name):
        fd = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            found = bytearray()
            while piece := os.read(fd, 1 << 20):
                found += piece
        finally:
            os.close(fd)
        known = self.files[name]
        self.shared.count(verified=len(found))
        if found != known:
            at = next((i for i, (a, b) in enumerate(zip(found, known)) if a != b), min(len(found), len(known)))
            self.shared.fail("%s differs from byte %d on: %d bytes, and not %d" % (path, at, len(found), len(known)))

    def one(self):
        kinds = [self.make] if len(self.files) < 4 else [self.overwrite] * 4 + [self.append] * 2 + [self.cut] * 2 + [self.read] * 6 + [
            self.rename, self.names] + ([self.remove] * 4 if len(self.files) >= FILES else [self.make, self.make, self.copy, self.remove])
        kind, full, begun = self.draw.choice(kinds), os.path.exists(self.shared.full), time.monotonic()
        try:
            kind()
        except OSError as error:
            if error.errno != errno.ENOSPC or not (full or os.path.exists(self.shared.full)):
                self.shared.fail("worker %d, %s of %s after %.1f s: %s" % (self.number, kind.__name__, self.at_work, time.monotonic() - begun, error))
                return
            self.give_up()
        self.shared.note(kind.__name__, time.monotonic() - begun)

    def give_up(self):
        with self.shared.lock:
            self.shared.refused += 1
        for name in self.at_work:
            self.files.pop(name, None)
            try:
                os.unlink(self.path(name))
            except FileNotFoundError:
                pass

    def run(self):
        try:
            os.mkdir(self.path(""))
            while not self.shared.stop.is_set():
                self.one()
            for directory in self.shared.directories:
                for name in self.files:
                    self.check(self.path(name, directory), name)
        except Exception as error:  # A worker that is silent would look like one that is content.
            self.shared.fail("worker %d: %r" % (self.number, error))


def main():
    seed, progress, full, sums, *directories = sys.argv[1:]
    shared = Shared(int(seed), progress, full, directories)
    signal.signal(signal.SIGTERM, lambda *_: shared.stop.set())
    workers = [Worker(shared, number) for number in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    with open(sums, "w") as out:
        for worker in workers:
            for name, data in worker.files.items():
                out.write("%s  w%d/%s\n" % (hashlib.sha256(data).hexdigest(), worker.number, name))
    files = sum(len(worker.files) for worker in workers)
    size = sum(len(data) for worker in workers for data in worker.files.values())
    print(json.dumps({"operations": shared.operations, "kinds": shared.kinds, "refused_full": shared.refused, "written": shared.written,
                      "verified": shared.verified, "files": files, "bytes": size,
                      "longest_ms": round(1000 * shared.longest), "wrong": shared.wrong[:10]}))
    return 1 if shared.wrong else 0


raise SystemExit(main())
