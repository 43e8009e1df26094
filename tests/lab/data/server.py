"""A local web server with configurable failures."""

import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """Files by path, how they are served, and the requests that came."""

    files: dict[str, bytes] = field(default_factory=dict)
    lengths: bool = True
    cut_after: int | None = None
    stall_after: int | None = None
    cuts_left: int = 10**9
    fail_with: list[int] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    released: threading.Event = field(default_factory=threading.Event)
    address: str = ""


@contextmanager
def serve(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(site))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    site.address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield site
    finally:
        site.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(site):
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            site.requests.append(self.path)
            if site.fail_with:
                return self.send_error(site.fail_with.pop(0))
            if self.path not in site.files:
                return self.send_error(404)
            content = site.files[self.path]
            self.send_response(200)
            if site.lengths:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self._send(content)

        def _send(self, body):
            if site.stall_after is not None:
                self.wfile.write(body[: site.stall_after])
                self.wfile.flush()
                site.released.wait(30)
            elif site.cut_after is not None and site.cuts_left > 0:
                site.cuts_left -= 1
                self.wfile.write(body[: site.cut_after])
            else:
                self.wfile.write(body)

    return Handler
