#!/usr/bin/env python3
"""A web server for tests of origins: origin.py DIR PORTFILE LOG [ADDRESS [PORT]] serves the files of DIR, on 127.0.0.1 unless an address is given.

/NAME          with ETag, Last-Modified and ranges (If-Range)
/undated/NAME  without either, without ranges, and without saying how long it is
/norange/NAME  with ETag, but all of it in any case
/untagged/NAME Last-Modified, but no ETag
/blind/NAME    with ranges, whatever If-Range says
/drip/NAME     is elsewhere for who asks for one byte, with some words about that, of which four come each second
/moved/NAME    is elsewhere (302)
/inward/NAME   is on 127.0.0.1, at the port that DIR/.inward says (302)

While DIR/.pace has a number, each answer goes on with so many bytes a second. While DIR/.hold has one, no body goes beyond that byte of its file. LOG gets a line for each request, and one for each
answer that has reached a hold: "GET /NAME RANGE -> STATUS", "held /NAME". Ranges are "bytes=FROM-" or "bytes=FROM-LAST"."""
import http.server
import os
import re
import sys
import time
import email.utils

directory, port_file, log_file = sys.argv[1:4]
address = sys.argv[4] if len(sys.argv) > 4 else "127.0.0.1"
port = int(sys.argv[5]) if len(sys.argv) > 5 else 0
PIECE = 64 << 10


def note(line):
    with open(log_file, "a", encoding="ascii") as log:
        log.write(line + "\n")


def number(name):
    try:
        with open(os.path.join(directory, name), encoding="ascii") as file:
            return int(file.read() or 0)
    except (FileNotFoundError, ValueError):
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format, *args):
        pass

    def drip(self, name):
        self.close_connection = True
        try:
            self.wfile.write(f"HTTP/1.1 302 Found\r\nLocation: /{name}\r\nContent-Length: 100000\r\n\r\n".encode())
            while True:
                self.wfile.write(b"drop")
                self.wfile.flush()
                time.sleep(1)
        except OSError:
            pass

    def do_GET(self):
        kind, name = re.fullmatch(r"/(?:(undated|norange|untagged|blind|drip|moved|inward)/)?([^/?]*)", self.path).groups()
        asked = self.headers.get("Range", "-")
        if kind == "moved":
            return self.answer(302, asked, {"Location": "/" + name, "Content-Length": "0"})
        if kind == "drip" and re.fullmatch(r"bytes=(\d+)-\1", asked):
            note(f"GET {self.path} {asked} -> drips")
            return self.drip(name)
        if kind == "inward":
            with open(os.path.join(directory, ".inward"), encoding="ascii") as at:
                return self.answer(302, asked, {"Location": f"http://127.0.0.1:{at.read().strip()}/{name}", "Content-Length": "0"})
        try:
            file = open(os.path.join(directory, name), "rb")
        except OSError:
            return self.answer(404, asked, {"Content-Length": "0"})
        with file:
            self.give(kind, file, asked)

    def give(self, kind, file, asked):
        stat = os.fstat(file.fileno())
        modified = email.utils.formatdate(stat.st_mtime, usegmt=True)
        tag = f'"{stat.st_ino:x}-{stat.st_size:x}-{stat.st_mtime_ns:x}"'
        begin, end = 0, stat.st_size
        headers = {}
        if kind != "undated":
            headers["Last-Modified"] = modified
            headers["Accept-Ranges"] = "bytes"
        if kind not in ("undated", "untagged"):
            headers["ETag"] = tag
        status = 200
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        same = kind == "blind" or self.headers.get("If-Range") in (None, tag, modified)
        if match and kind in (None, "untagged", "blind") and same:
            begin = int(match[1])
            if begin >= end:
                return self.answer(416, asked, {"Content-Length": "0", "Content-Range": f"bytes */{end}"})
            status = 206
            whole = end
            end = min(end, int(match[2]) + 1) if match[2] else end
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{whole}"
        if kind == "undated":
            headers["Connection"] = "close"
            self.close_connection = True
        else:
            headers["Content-Length"] = str(end - begin)
        self.answer(status, asked, headers)
        try:
            self.body(file, begin, end)
        except OSError:
            self.close_connection = True

    def answer(self, status, asked, headers):
        note(f"GET {self.path} {asked} -> {status}")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def body(self, file, at, end):
        file.seek(at)
        noted = False
        began, first, pace = time.monotonic(), at, number(".pace")
        while at < end:
            limit = number(".hold")
            if limit is not None and at >= limit:
                if not noted:
                    note(f"held {self.path}")
                    noted = True
                time.sleep(0.02)  # It looks whether it may go on: what it does is what the test waits for.
                continue
            count = min(PIECE, end - at, limit - at if limit is not None else PIECE)
            self.wfile.write(file.read(count))
            at += count
            if pace:
                time.sleep(max(0, began + (at - first) / pace - time.monotonic()))


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


server = Server((address, port), Handler)
with open(port_file + ".new", "w", encoding="ascii") as file:
    file.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
