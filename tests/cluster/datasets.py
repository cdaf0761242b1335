"""Works on a file of class scavenged as programs do, and knows what is to be in it.

  datasets.py random FILE COPY SEED   writes at random, through one handle, with syncs, truncations, mappings; what is in it goes to COPY, too
  datasets.py direct FILE COPY SEED   the same of a file that is open with O_DIRECT
  datasets.py slowly FILE COPY MIB    a MiB at a time, each followed by a word on the standard output, with fsync; waits for a line of the standard input
                                      before each
  datasets.py cuts FILE COPY END SIZE...
                                      writes as much as END, and syncs; truncates to each SIZE, and to END again; says a word and waits for
                                      one when all is written, and when it is truncated and as long as it was
  datasets.py interrupted FILE COPY END FIRST SECOND
                                      writes as much as END, and syncs; truncates to FIRST, to SECOND, which is interrupted, and to END again; says a word
                                      and waits for one behind each
  datasets.py ranges FILE COPY MORSEL reads all morsels at a time: prints the numbers of those that say EIO; all else has to be that of COPY
  datasets.py damage FILE OFFSET      one bit of the byte there is another one
"""

import concurrent.futures
import errno
import mmap
import os
import random
import signal
import sys

MIB = 1 << 20


def draw(rng, length):
    return rng.randbytes(length)


def step_write(fd, model, rng, align):
    offset = rng.randrange(0, 5 * MIB) // align * align
    length = max(align, rng.choice([1, 100, 4096, 5000, 65536, 300000, MIB, 2 * MIB + 17]) // align * align)
    data = draw(rng, length)
    if align > 1:
        room = mmap.mmap(-1, length)
        room.write(data)
        assert os.pwrite(fd, room, offset) == length
    else:
        assert os.pwrite(fd, data, offset) == length
    if len(model) < offset + length:
        model.extend(bytes(offset + length - len(model)))
    model[offset : offset + length] = data


def step_map(fd, model, rng):
    if len(model) < 8192:
        return
    with mmap.mmap(fd, len(model)) as m:
        at = rng.randrange(0, len(model) - 4096)
        data = draw(rng, rng.randrange(1, 4096))
        m[at : at + len(data)] = data
        model[at : at + len(data)] = data
        m.flush()


def check(fd, model, rng, align):
    at = rng.randrange(0, len(model) + 1) // align * align
    length = rng.choice([4096, 100000, 3 * MIB]) // align * align
    if align > 1:
        room = mmap.mmap(-1, max(length, align))
        got = os.preadv(fd, [room], at)
        data = room[:got]
    else:
        data = os.pread(fd, length, at)
    assert data == bytes(model[at : at + max(length, align if align > 1 else 0)]), f"other bytes at {at}"


def write_at_random(path, copy, seed, direct):
    rng = random.Random(seed)
    align = 4096 if direct else 1
    model = bytearray()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | (os.O_DIRECT if direct else 0))
    for _ in range(60):
        what = rng.randrange(12)
        if what < 6:
            step_write(fd, model, rng, align)
        elif what < 7 and not direct:
            step_map(fd, model, rng)
        elif what < 8 and not direct:
            size = rng.randrange(0, 6 * MIB)
            if size > len(model) or rng.randrange(3) == 0:
                os.ftruncate(fd, size)
                del model[size:]
                model.extend(bytes(size - len(model)))
        elif what < 9:
            os.fsync(fd)
        else:
            check(fd, model, rng, align)
        assert os.fstat(fd).st_size == len(model)
    os.close(fd)
    with open(copy, "wb") as f:
        f.write(model)


def write_slowly(path, copy, count):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    with open(copy, "wb") as f:
        for i in range(count):
            if not sys.stdin.readline():
                return
            data = os.urandom(MIB)
            f.write(data)
            f.flush()
            assert os.write(fd, data) == MIB
            os.fsync(fd)
            print(i, flush=True)
    os.close(fd)


def read_morsel(fd, data, at, end):
    got = b""
    try:
        while at + len(got) < end:
            part = os.pread(fd, min(65536, end - at - len(got)), at + len(got))
            assert part, "the file ends early"
            got += part
    except OSError as e:
        assert e.errno == errno.EIO, e
        return False
    assert got == data[at:end], f"other bytes at {at}"
    return True


def step(word):
    print(word, flush=True)
    assert sys.stdin.readline()


def cut_often(path, copy, end, sizes):
    model = bytearray(os.urandom(end))
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    assert os.pwrite(fd, model, 0) == end
    os.fsync(fd)
    step("written")
    for size in (*sizes, end):
        os.ftruncate(fd, size)
        del model[size:]
        model.extend(bytes(size - len(model)))
    at = min(sizes)
    assert os.pread(fd, end - at, at) == bytes(model[at:]), "what was cut off is back"
    with open(copy, "wb") as f:
        f.write(model)
    step("cut")
    assert os.pread(fd, end, 0) == bytes(model), "what was cut off is back when it is stored"
    os.close(fd)


class Interrupted(Exception):
    pass


def interrupt(*_):
    raise Interrupted


def cut_interrupted(path, copy, end, first, second):
    data = os.urandom(end)
    signal.signal(signal.SIGALRM, interrupt)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    assert os.pwrite(fd, data, 0) == end
    os.fsync(fd)
    step("written")
    os.ftruncate(fd, first)
    step("cut")
    signal.alarm(1)
    try:
        os.ftruncate(fd, second)
    except Interrupted:
        step("interrupted")
    else:
        step("through")
    os.ftruncate(fd, end)
    now = os.pread(fd, end, 0)
    either = [data[:size] + bytes(end - size) for size in (first, second)]
    assert now in either, "it was cut neither here nor there"
    step("grown")
    assert os.pread(fd, end, 0) == now, "what was cut off is back when it is stored"
    with open(copy, "wb") as f:
        f.write(now)
    os.close(fd)


def read_ranges(path, copy, morsel):
    with open(copy, "rb") as f:
        data = f.read()
    fd = os.open(path, os.O_RDONLY)
    assert os.fstat(fd).st_size == len(data)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    starts = range(0, len(data), morsel)
    with concurrent.futures.ThreadPoolExecutor(len(starts)) as pool:
        good = list(pool.map(lambda at: read_morsel(fd, data, at, min(at + morsel, len(data))), starts))
    print(*(number for number, well in enumerate(good) if not well))


def damage(path, offset):
    with open(path, "r+b") as f:
        f.seek(offset)
        byte = f.read(1)[0]
        f.seek(offset)
        f.write(bytes([byte ^ 1]))


command, path = sys.argv[1:3]
if command in ("random", "direct"):
    write_at_random(path, sys.argv[3], int(sys.argv[4]), command == "direct")
elif command == "slowly":
    write_slowly(path, sys.argv[3], int(sys.argv[4]))
elif command == "cuts":
    cut_often(path, sys.argv[3], int(sys.argv[4]), [int(size) for size in sys.argv[5:]])
elif command == "interrupted":
    cut_interrupted(path, sys.argv[3], *(int(size) for size in sys.argv[4:7]))
elif command == "ranges":
    read_ranges(path, sys.argv[3], int(sys.argv[4]))
elif command == "damage":
    damage(path, int(sys.argv[3]))
