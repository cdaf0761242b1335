#!/usr/bin/env python3
"""A long way between two network namespaces: packets that go in at one end come out at the other a time later.

    slow_path.py NAMESPACE_A ADDRESS_A NAMESPACE_B ADDRESS_B DELAY_MS

makes a tun device "path" with that address (a /24) in each namespace, says "ready" on its output, and carries packets
between them until it is killed, each way in DELAY_MS. Nothing is lost, nothing gets out of order. (For kernels without
netem.)
"""
import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x0001, 0x1000, 0x40000000
PACKET_MAX = 65536


def enter(name):
    with open(f"/run/netns/{name}") as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET) != 0:
            sys.exit(f"cannot enter the network namespace {name}: {os.strerror(ctypes.get_errno())}")


def tun(name, address):
    enter(name)
    fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"path", IFF_TUN | IFF_NO_PI))
    for command in (f"address add {address}/24 dev path", "link set path txqueuelen 10000", "link set path up"):
        subprocess.run(["ip", *command.split()], check=True)
    return fd


def main():
    ends = [tun(sys.argv[1], sys.argv[2]), tun(sys.argv[3], sys.argv[4])]
    delay = float(sys.argv[5]) / 1000
    waiting = [collections.deque(), collections.deque()]  # (when it is due, packet), from end 0 and from end 1
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        due = [queue[0][0] for queue in waiting if queue]
        readable, _, _ = select.select(ends, [], [], max(0, min(due) - now) if due else None)
        now = time.monotonic()
        for fd in readable:
            try:
                while True:
                    waiting[ends.index(fd)].append((now + delay, os.read(fd, PACKET_MAX)))
            except BlockingIOError:
                pass
        for i in (0, 1):
            while waiting[i] and waiting[i][0][0] <= now:
                os.write(ends[1 - i], waiting[i].popleft()[1])


main()
