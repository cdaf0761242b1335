#!/usr/bin/env python3
"""An S3 for tests: s3_server.py DIR PORTFILE LOG ADDRESS serves DIR/BUCKET/KEY as /BUCKET/KEY, GET and HEAD, with ETag, Last-Modified, ranges
and If-Range. Signatures (AWS Signature Version 4, as published for S3) are verified by what stands here; it proves itself first, by the
published example.

public/    for everybody
private/   for who signs with one of the keys in DIR/.keys: lines "ID SECRET [TOKEN]"
abroad/    is in eu-west-1 (301, without a Location, as S3 does)
moved/     is below the URL that DIR/.moved says (307)

Who signs must do so rightly, wherever he asks. While DIR/.hold has a number, no body goes beyond that byte. LOG gets a line for each answer
(ANONYMOUS or the key's ID, and what was signed), and one for each hold: "GET /B/K RANGE -> STATUS ID host;x-amz-date", "held /B/K"."""
import calendar
import email.utils
import hashlib
import hmac
import http.server
import os
import re
import sys
import time
from urllib.parse import quote, unquote_to_bytes

PIECE = 64 << 10
REGION = "us-east-1"
NOTHING = hashlib.sha256(b"").hexdigest()
WORDS = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "InvalidAccessKeyId": 403,
    "InvalidToken": 400,
    "NoSuchKey": 404,
    "RequestTimeTooSkewed": 403,
    "SignatureDoesNotMatch": 403,
    "XAmzContentSHA256Mismatch": 400,
}


class Refused(Exception):
    pass


# ---- Signatures


def spelled(path):
    """Each byte but those that are unreserved as %XX; slashes stay."""
    return quote(unquote_to_bytes(path), safe="/-._~")


def signature(secret, scope, stamp, request):
    """`request` as (method, path, query, [(name, value)], hash of the body), its headers sorted by name."""
    method, path, query, headers, body = request
    lines = [method, spelled(path), "&".join(sorted(query.split("&"))) if query else ""]
    lines += [f"{name}:{' '.join(value.split())}" for name, value in headers]
    lines += ["", ";".join(name for name, _ in headers), body]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    key = ("AWS4" + secret).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, digest])
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def prove():
    """The example of the Amazon S3 API Reference, "Signature calculations", GET Object."""
    headers = [("host", "examplebucket.s3.amazonaws.com"), ("range", "bytes=0-9"), ("x-amz-content-sha256", NOTHING), ("x-amz-date", "20130524T000000Z")]
    request = ("GET", "/test.txt", "", headers, NOTHING)
    made = signature("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524/us-east-1/s3/aws4_request", "20130524T000000Z", request)
    assert made == "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", made


def keys():
    with open(os.path.join(directory, ".keys"), encoding="ascii") as file:
        return {line.split()[0]: line.split()[1:] for line in file}


def verify(method, target, headers):
    """Who has signed that, and which headers. None: nobody."""
    said = headers.get("Authorization")
    if said is None:
        return None, ""
    match = re.fullmatch(r"AWS4-HMAC-SHA256 Credential=([^/]+)/((\d{8})/([^/]+)/s3/aws4_request), ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})", said)
    stamp = headers.get("x-amz-date", "")
    if not match or not re.fullmatch(r"\d{8}T\d{6}Z", stamp) or stamp[:8] != match[3] or match[4] != REGION:
        raise Refused("AuthorizationHeaderMalformed")
    identity, names = match[1], match[5].split(";")
    if abs(time.time() - calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ"))) > 900:
        raise Refused("RequestTimeTooSkewed")
    if identity not in keys():
        raise Refused("InvalidAccessKeyId")
    secret, *token = keys()[identity]
    if headers.get("x-amz-content-sha256") not in (NOTHING, "UNSIGNED-PAYLOAD"):
        raise Refused("XAmzContentSHA256Mismatch")
    needed = {"host"} | {name.lower() for name in headers if name.lower().startswith("x-amz-")}
    if names != sorted(names) or not needed <= set(names):
        raise Refused("AccessDenied")
    path, _, query = target.partition("?")
    request = (method, path, query, [(name, headers.get(name, "")) for name in names], headers["x-amz-content-sha256"])
    if not hmac.compare_digest(signature(secret, match[2], stamp, request), match[6]):
        raise Refused("SignatureDoesNotMatch")
    if [headers[name] for name in headers if name.lower() == "x-amz-security-token"] != token:
        raise Refused("InvalidToken")
    return identity, match[5]


# ---- Serving


def note(line):
    with open(log_file, "a", encoding="ascii") as log:
        log.write(line + "\n")


def said(name):
    try:
        with open(os.path.join(directory, name), encoding="ascii") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    who = "REFUSED"

    def log_message(self, format, *args):
        pass

    def do_GET(self):
        self.who = "REFUSED"
        try:
            identity, names = verify(self.command, self.path, self.headers)
            self.who = f"{identity} {names}" if identity else "ANONYMOUS"
            self.serve(identity)
        except Refused as refused:
            self.refuse(WORDS[str(refused)], str(refused))

    do_HEAD = do_GET

    def serve(self, identity):
        _, bucket, key = self.path.split("/", 2)
        if bucket == "abroad":
            return self.refuse(301, "PermanentRedirect", {"x-amz-bucket-region": "eu-west-1"})
        if bucket == "moved":
            return self.refuse(307, "TemporaryRedirect", {"Location": said(".moved") + "/" + key})
        if self.path != spelled(self.path) or (bucket != "public" and not identity):
            raise Refused("AccessDenied")
        try:
            file = open(os.path.join(os.fsencode(directory), bucket.encode(), unquote_to_bytes(key)), "rb")
        except OSError:
            raise Refused("NoSuchKey") from None
        with file:
            self.give(file)

    def refuse(self, status, code, headers=None):
        body = f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{code}</Code><Message>No.</Message></Error>'.encode()
        self.answer(status, {"Content-Type": "application/xml", "Content-Length": str(len(body)), **(headers or {})})
        if self.command != "HEAD":
            self.wfile.write(body)

    def give(self, file):
        size, tag = os.fstat(file.fileno()).st_size, f'"{hashlib.md5(file.read()).hexdigest()}"'
        modified = email.utils.formatdate(os.fstat(file.fileno()).st_mtime, usegmt=True)
        headers = {"ETag": tag, "Last-Modified": modified, "Accept-Ranges": "bytes"}
        status, begin, end = 200, 0, size
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if match and self.headers.get("If-Range") in (None, tag, modified):
            begin = int(match[1])
            if begin >= size:
                return self.refuse(416, "InvalidRange", {"Content-Range": f"bytes */{size}"})
            status, end = 206, min(size, int(match[2]) + 1) if match[2] else size
            headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        self.answer(status, {**headers, "Content-Length": str(end - begin)})
        try:
            self.body(file, begin, end if self.command != "HEAD" else begin)
        except OSError:
            self.close_connection = True

    def answer(self, status, headers):
        note(f"{self.command} {self.path} {self.headers.get('Range', '-')} -> {status} {self.who}")
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def body(self, file, at, end):
        file.seek(at)
        noted = False
        while at < end:
            limit = int(said(".hold") or end)
            if at >= limit:
                if not noted:
                    note(f"held {self.path}")
                    noted = True
                time.sleep(0.02)  # It looks whether it may go on: what it does is what the test waits for.
                continue
            piece = file.read(min(PIECE, end - at, limit - at))
            self.wfile.write(piece)
            at += len(piece)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


prove()
directory, port_file, log_file, address = sys.argv[1:]
server = Server((address, 0), Handler)
with open(port_file + ".new", "w", encoding="ascii") as port:
    port.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
