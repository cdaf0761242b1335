"""Writes to its half of a large file, in all ways, with hardly a rest, until it hears "end"; then the half is what is in MODEL. Who has the upper half
makes the file shorter and longer as well. Arguments: FILE MODEL HALF(0|1) BYTES-OF-A-HALF [LARGEST-WRITE]. Answers "count" with how many changes it
has made so far ("broken": it has read something else than it had written, or met an error), and "longest" with the longest of them in ms."""
import ctypes, os, random, sys, threading, time

path, model_path, half, bytes_of_half = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
largest = int(sys.argv[5]) if len(sys.argv) > 5 else 100_000
KEEP_SIZE, PUNCH_HOLE = 1, 2
REST = 0.005  # Others need the processor, too.
libc = ctypes.CDLL("libc.so.6", use_errno=True)
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
base = half * bytes_of_half
fd = os.open(path, os.O_RDWR)
model = bytearray(os.pread(fd, 0, 0))
while len(model) < bytes_of_half:
    got = os.pread(fd, min(1 << 24, bytes_of_half - len(model)), base + len(model))
    assert got, "the file is too short"
    model += got
chance, stop, count, longest, broken = random.Random(path + str(half)), threading.Event(), 0, 0.0, []


def overwrite():
    at = chance.randrange(len(model))
    data = chance.randbytes(min(chance.randrange(1, largest), len(model) - at))
    assert os.pwrite(fd, data, base + at) == len(data)
    model[at:at + len(data)] = data


def punch():
    at = chance.randrange(len(model))
    length = min(chance.randrange(1, 500_000), len(model) - at)
    assert libc.fallocate(fd, PUNCH_HOLE | KEEP_SIZE, base + at, length) == 0, os.strerror(ctypes.get_errno())
    model[at:at + length] = bytes(length)


def reshape():
    """Shorter, and as long again: what was cut off reads as zeros, or as what is written there."""
    cut = chance.randrange(1, min(3_000_000, len(model)))
    os.ftruncate(fd, base + len(model) - cut)
    grown = chance.randrange(1, 2 * cut) if len(model) < bytes_of_half else chance.randrange(1, cut + 1)
    del model[len(model) - cut:]
    if chance.random() < 0.5:
        os.ftruncate(fd, base + len(model) + grown)
        model.extend(bytes(grown))
    else:
        data = chance.randbytes(grown)
        done = 0
        while done < grown:
            done += os.pwrite(fd, data[done:], base + len(model) + done)
        model.extend(data)


def check():
    at = chance.randrange(len(model))
    assert os.pread(fd, 70_000, base + at)[:len(model) - at] == model[at:at + 70_000], f"reads something else than was written at {base + at}"


def work():
    global count, longest
    while not stop.is_set():
        begun, draw = time.monotonic(), chance.random()
        if draw < 0.02:
            os.fsync(fd)
        elif draw < 0.1:
            check()
        elif draw < 0.15:
            punch()
        elif draw < 0.2 and half == 1:
            reshape()
        else:
            overwrite()
        longest = max(longest, time.monotonic() - begun)
        count += 1
        time.sleep(REST)


threading.excepthook = lambda args: (broken.append(args), sys.__excepthook__(args.exc_type, args.exc_value, args.exc_traceback))
thread = threading.Thread(target=work)
thread.start()
print("ready", flush=True)
for line in sys.stdin:
    if line.strip() == "end":
        break
    if line.strip() == "count":
        print("broken" if broken else count, flush=True)
    else:
        print(int(longest * 1000), flush=True)
        longest = 0.0
stop.set()
thread.join()
os.fsync(fd)
os.close(fd)
with open(model_path, "wb") as file:
    file.write(model)
print("broken" if broken else "ended", flush=True)
sys.exit(bool(broken))
