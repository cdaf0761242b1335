"""A relay between a mount in a network namespace and servers outside, which damages, loses or delays what it carries.

    relay.py NETWORK PORT... --ready FILE [--at ADDRESS] [--to ADDRESS] [--damage FILE] [--lose FILE] [--lose-size FILE] [--lose-layout FILE]
             [--lose-exchange FILE] [--lose-rename FILE] [--lose-create FILE] [--break-flush FILE] [--delay FILE]

In the namespace NETWORK (a path below /run/netns) it listens on 127.0.0.1:PORT for each PORT, and carries everything from and to the same
address outside; with --at it listens there, and with --to it carries to there. While the file of --damage exists, one bit in the payload of each frame from the server is turned; the file gets a byte for
each of them. While the file of --lose exists, the answer to a change of data is lost: the file gets a byte, nothing more is carried to the mount
on that connection, and when the file has gone, or is empty again, the connection breaks. While the file of --lose-size exists, the answer to a
question for the attributes of a file is lost: the file gets a byte, and when it has gone, or is empty again, the connection breaks. Likewise
with --lose-layout the answer to who wants a file to lie elsewhere, with --lose-exchange to who wants two files to exchange their bytes, with --lose-rename to who renames, and with --lose-create to who makes a name.
While the file of --break-flush exists, the connection breaks behind the first answer to the report of a file that a mount makes when it was asked for
a lease: the file gets a byte. While the file of --delay exists, a change of data waits on its way to the
server, and with it all behind it on its connection: the file gets a byte, and when it has gone they go on. It writes to the file of --ready
when it listens, and ends with SIGTERM.
"""
import argparse, ctypes, os, selectors, socket, struct, threading, time

HEADER = 40  # src/common/rpc/frame.h
CHANGES = (17, 18, 19, 25, 26)  # src/common/rpc/messages.h: WRITE, TRUNCATE, PUNCH, ALLOCATE, COPY
GETATTR = 66
CREATE = 68
RENAME = 70
RECALL = 83
REPORT = 76
SET_LAYOUT = 87
EXCHANGE = 93


def exactly(sock, count):
    parts = []
    while count > 0:
        part = sock.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def tell(path):
    """The file gets a byte. False: it does not exist."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:
        return False
    os.write(fd, b"x")
    os.close(fd)
    return True


def wait_gone(path):
    """Until the file has gone, or is empty again."""
    try:
        while os.stat(path).st_size > 0:
            time.sleep(0.01)
    except FileNotFoundError:
        pass


def damage(payload, path):
    if not tell(path):
        return payload
    changed = bytearray(payload)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


def end(*connection):
    for sock in connection:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def end_when_gone(path, *connection):
    wait_gone(path)
    end(*connection)


def carry(source, target, spoil=None, lose=None, lose_kind=(), delay=None, break_flush=None):
    recalled = False
    try:
        while True:
            header = exactly(source, HEADER)
            (kind,) = struct.unpack_from("<H", header, 6)
            body, payload = struct.unpack_from("<II", header, 16)
            rest = exactly(source, body)
            bulk = exactly(source, payload)
            if lose and kind in CHANGES and tell(lose):
                wait_gone(lose)
                raise OSError("the answer is lost")
            lost = [path for of, path in lose_kind if of == kind and path and tell(path)]
            if lost:
                threading.Thread(target=end_when_gone, args=(lost[0], source, target), daemon=True).start()
                continue
            if delay and kind in CHANGES and tell(delay):
                wait_gone(delay)
            if spoil and bulk:
                bulk = damage(bulk, spoil)
            target.sendall(header + rest + bulk)
            recalled = recalled or kind == RECALL
            if break_flush and kind == REPORT and recalled and tell(break_flush):
                raise OSError("the link is lost")
    except OSError:
        end(source, target)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("network")
    options.add_argument("ports", type=int, nargs="+")
    options.add_argument("--ready", required=True)
    options.add_argument("--at", default="127.0.0.1")
    options.add_argument("--to", default="127.0.0.1")
    options.add_argument("--damage")
    options.add_argument("--lose")
    options.add_argument("--lose-size")
    options.add_argument("--lose-layout")
    options.add_argument("--lose-exchange")
    options.add_argument("--lose-rename")
    options.add_argument("--lose-create")
    options.add_argument("--break-flush")
    options.add_argument("--delay")
    options = options.parse_args()
    libc = ctypes.CDLL(None, use_errno=True)
    here = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open(options.network, os.O_RDONLY)
    up = {"delay": options.delay}
    kinds = ((GETATTR, options.lose_size), (SET_LAYOUT, options.lose_layout), (EXCHANGE, options.lose_exchange), (RENAME, options.lose_rename), (CREATE, options.lose_create))
    down = {"spoil": options.damage, "lose": options.lose, "lose_kind": kinds, "break_flush": options.break_flush}
    listeners = selectors.DefaultSelector()
    assert libc.setns(there, 0) == 0
    for port in options.ports:
        sock = socket.create_server((options.at, port))
        listeners.register(sock, selectors.EVENT_READ, port)
    assert libc.setns(here, 0) == 0
    with open(options.ready, "w") as f:
        f.write("ready\n")
    while True:
        for key, _ in listeners.select():
            near, _ = key.fileobj.accept()
            try:
                far = socket.create_connection((options.to, key.data))
            except OSError:
                near.close()
                continue
            threading.Thread(target=carry, args=(near, far), kwargs=up, daemon=True).start()
            threading.Thread(target=carry, args=(far, near), kwargs=down, daemon=True).start()


main()
