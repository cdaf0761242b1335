"""writers.py DIRECTORY MODELS WHO [WAY...]: writes to files of a directory in all ways, never closing them, and looks at what it reads; until it is told "end".

Files NAME.WHO are of this writer alone; "blocks" and "log" are written to by two of them ("one" and "two"), each its own blocks and records. What they must
be in the end lies in MODELS then. "round" is answered when each was written to once more ("round NAME": that one), and "longest" with the longest call at each since the last time, in ms. The
pages of "database" that were synced are in MODELS/database.WHO all the time."""
import ctypes, fcntl, mmap, os, random, struct, sys, threading, time, zlib
top, models, who = sys.argv[1:4]
size = 256 << 10
BLOCK, PAGE = 4096, 4096
libc = ctypes.CDLL(None, use_errno=True)
KEEP_SIZE, PUNCH_HOLE = 1, 2
ending, lock = threading.Event(), threading.Lock()
longest, rounds, synced = {}, {}, {}

class Timed:
    def __init__(self, name): self.name = name
    def __enter__(self): self.began = time.monotonic()
    def __exit__(self, *_):
        ms = (time.monotonic() - self.began) * 1000
        with lock:
            longest[self.name] = max(longest.get(self.name, 0), ms)

def check(got, wanted, at, what):
    if got != wanted:
        where = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        raise AssertionError(f"{what}: {len(got)} bytes at {at}, of {len(wanted)}, differ from {at + where} on: {got[where:where + 16].hex()}, not {wanted[where:where + 16].hex()}")

def grow(model, end):
    if len(model) < end:
        model += bytes(end - len(model))

def overwrite(f):
    at, data = f.chance.randrange(size), f.chance.randbytes(f.chance.randrange(1, 20000))
    with f.timed: assert os.pwrite(f.fd, data, at) == len(data)
    grow(f.model, at + len(data))
    f.model[at:at + len(data)] = data
    at = f.chance.randrange(len(f.model))
    with f.timed: got = os.pread(f.fd, 30000, at)
    check(got, f.model[at:at + 30000], at, "read")

def append(f):
    data = f.chance.randbytes(f.chance.choice((7, 1000, 70000) * 9 + (1500000,))) # Some are longer than one request of the kernel.
    with f.timed: assert os.write(f.fd, data) == len(data)
    f.model += data
    if len(f.model) > 8 * size:
        with f.timed: os.ftruncate(f.fd, 100)
        del f.model[100:]
    at = max(0, len(f.model) - 100000)
    with f.timed: got = os.pread(f.fd, 200000, at)
    check(got, f.model[at:], at, "read")

def shape(f):
    what, at, count = f.chance.randrange(6), f.chance.randrange(size), f.chance.randrange(1, 50000)
    with f.timed:
        if what == 0:
            os.ftruncate(f.fd, at)
            del f.model[at:]
            grow(f.model, at)
        elif what == 1:
            assert libc.fallocate(f.fd, KEEP_SIZE | PUNCH_HOLE, ctypes.c_long(at), ctypes.c_long(count)) == 0, ctypes.get_errno()
            end = min(at + count, len(f.model))
            f.model[at:end] = bytes(max(0, end - at))
        elif what == 2:
            os.posix_fallocate(f.fd, at, count)
            grow(f.model, at + count)
        elif what == 3 and len(f.model) > 0:
            source = f.chance.randrange(min(size, len(f.model)))
            copied = os.copy_file_range(f.fd, f.fd, count, source, 2 * size)
            grow(f.model, 2 * size + copied)
            f.model[2 * size:2 * size + copied] = f.model[source:source + copied]
        else:
            data = f.chance.randbytes(count)
            assert os.pwrite(f.fd, data, at) == count
            grow(f.model, at + count)
            f.model[at:at + count] = data
    assert os.fstat(f.fd).st_size == len(f.model), f"{os.fstat(f.fd).st_size} bytes long, not {len(f.model)}"
    at = f.chance.randrange(len(f.model) + 1)
    with f.timed: got = os.pread(f.fd, 50000, at)
    check(got, f.model[at:at + 50000], at, "read")

def mapped(f):
    if f.state is None:
        f.state = mmap.mmap(f.fd, size)
    at, data = f.chance.randrange(size - 900), f.chance.randbytes(900)
    with f.timed: f.state[at:at + 900] = data
    f.model[at:at + 900] = data
    if f.chance.random() < 0.1:
        with f.timed: f.state.flush()
    with f.timed: check(f.state[at:at + 4000], bytes(f.model[at:at + 4000]), at, "mapped")

def blocks(f): # Every other one is the other mount's.
    at = 2 * BLOCK * f.chance.randrange(size // BLOCK // 2) + (BLOCK if who == "two" else 0)
    data = f.chance.randbytes(BLOCK)
    with f.timed: assert os.pwrite(f.fd, data, at) == BLOCK
    f.model[at:at + BLOCK] = data
    with f.timed: check(os.pread(f.fd, BLOCK, at), data, at, "read")

# Records: whose, which, how long, a checksum, bytes. Some are nearly as long as a request of the kernel, until the file is as long as is copied in a moment.
# A record of several requests is in one piece only while its mount keeps the place for it; one that is stopped, or late, does not.
def log(f):
    f.count = getattr(f, "count", 0) + 1
    is_long = f.count % 64 == 0 and os.fstat(f.fd).st_size < 8 << 20
    data = f.chance.randbytes(900000 if is_long else f.chance.choice((10, 100, 1000)))
    record = struct.pack("<4sIII", who.encode(), f.count, len(data), zlib.crc32(data)) + data
    with f.timed: assert os.write(f.fd, record) == len(record)

def database(f): # Two pages with one number; what was synced is noted where no fault comes.
    number = f.state = (f.state or 0) + 1
    page = f.chance.randrange(size // PAGE // 2)
    data = struct.pack("<QQ", number, page) + f.chance.randbytes(PAGE - 16)
    for at in (2 * page * PAGE, (2 * page + 1) * PAGE):
        with f.timed: assert os.pwrite(f.fd, data, at) == PAGE
    with f.timed: os.fdatasync(f.fd)
    f.model[2 * page * PAGE:(2 * page + 2) * PAGE] = data * 2
    os.pwrite(f.durable, data * 2, 2 * page * PAGE)

WAYS = {overwrite: f"overwrite.{who}", append: f"append.{who}", shape: f"shape.{who}", mapped: f"mapped.{who}", blocks: "blocks", log: "log",
        database: f"database.{who}"}
broken = []

class File:
    def __init__(self, way):
        self.way, self.name, self.state = way, WAYS[way], None
        self.chance, self.timed = random.Random(f"{who} {self.name}"), Timed(self.name)
        self.fd = os.open(f"{top}/{self.name}", os.O_RDWR | (os.O_APPEND if way in (append, log) else 0))
        self.model = bytearray(os.pread(self.fd, 16 * size, 0))
        if way == database:
            self.durable = os.open(f"{models}/{self.name}", os.O_RDWR | os.O_CREAT, 0o600)
            os.pwrite(self.durable, self.model, 0)
    def run(self):
        try:
            while not ending.is_set():
                self.way(self)
                rounds[self.name] = rounds.get(self.name, 0) + 1
                if self.chance.random() < 0.02:
                    with self.timed: os.fsync(self.fd)
                time.sleep(0.005)
            if self.way == mapped:
                self.state.flush()
            os.fsync(self.fd)
            if self.way not in (log, database):
                with open(f"{models}/{self.name}" + (f".{who}" if self.way == blocks else ""), "wb") as out:
                    out.write(self.model)
        except BaseException as why:
            broken.append(f"{self.name}: {type(why).__name__} {why}")
            print(f"{time.time()} {broken[-1]}", file=sys.stderr, flush=True)

files = [File(way) for way in WAYS if way.__name__ in (sys.argv[4:] or way.__name__)]
threads = [threading.Thread(target=file.run, daemon=True) for file in files]
for thread in threads:
    thread.start()
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        break
    if line.strip() == "longest":
        with lock:
            print(f"{max(longest.values(), default=0):.0f} " + " ".join(f"{name}={ms:.0f}" for name, ms in sorted(longest.items())), flush=True)
            longest.clear()
    elif line.split()[:1] == ["round"]: # Each once more.
        before, meant = dict(rounds), line.split()[1:]
        while any(rounds.get(file.name, 0) <= before.get(file.name, 0) + 1 for file in files if file.name in (meant or file.name)) and not broken:
            time.sleep(0.01)
        print("; ".join(broken) or "went round", flush=True)
ending.set()
for thread in threads:
    thread.join(60)
    if thread.is_alive():
        broken.append("a call does not end")
print("; ".join(broken) or "ended", flush=True)
os._exit(bool(broken))
