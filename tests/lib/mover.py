"""mover.py FILE: what morsel recopy does with a file that others write to (src/common/fs/exchange.h), step by step, as it is told: pause, begin, copy, commit,
resume, end. Each is answered with "good", or with the name of an error. mover.py FILE COUNT: all of it, so often, one behind the other; says how often it has moved."""
import errno, fcntl, os, struct, sys
NONE, WRITE, READ = 0, 1, 2

def ioctl_number(way, number, size):
    return way << 30 | size << 16 | ord("M") << 8 | number

BEGIN, COMMIT, PAUSE, RESUME = ioctl_number(READ, 1, 16), ioctl_number(WRITE, 2, 24), ioctl_number(NONE, 3, 0), ioctl_number(NONE, 4, 0)

class Move:
    def __init__(self, path):
        self.file = os.open(path, os.O_RDONLY)
        self.copy = os.open(os.path.dirname(path), os.O_TMPFILE | os.O_RDWR, 0o600)
        os.fsync(self.copy)
        self.state = b""
    def step(self, step):
        try:
            if step == "pause":
                fcntl.ioctl(self.file, PAUSE)
            elif step == "begin":
                self.state = fcntl.ioctl(self.file, BEGIN, bytes(16))
            elif step == "copy":
                data = os.pread(self.file, os.fstat(self.file).st_size + 1, 0)
                os.ftruncate(self.copy, 0)
                assert os.pwrite(self.copy, data, 0) == len(data)
            elif step == "commit":
                fcntl.ioctl(self.file, COMMIT, self.state + struct.pack("=Q", os.fstat(self.copy).st_ino))
            elif step == "resume":
                fcntl.ioctl(self.file, RESUME)
        except OSError as error:
            return errno.errorcode[error.errno]
        return "good"
    def close(self):
        os.close(self.file)
        os.close(self.copy)

if len(sys.argv) > 2:
    moved = 0
    for _ in range(int(sys.argv[2])):
        move = Move(sys.argv[1])
        moved += all(move.step(step) == "good" for step in ("pause", "begin", "copy", "commit"))
        move.step("resume")
        move.close()
    print(moved)
else:
    move = Move(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "end":
            break
        print(move.step(line.strip()), flush=True)
