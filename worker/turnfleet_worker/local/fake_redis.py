"""fakeredis' TCP server as a process: `python -P fake_redis.py PORT`. Nothing persists.

Run as a file: importing its package would load Celery, which this process has no use for.
"""

import signal
import sys
import threading

READY = "the fake server is ready"


def main(port: int) -> None:
    """Serve on loopback until SIGTERM or SIGINT; say `READY` on stdout once the port is ours."""
    from fakeredis import TcpFakeServer  # noqa: PLC0415 - whoever asks for READY needs no server
    from fakeredis._clients._tcp_server import TCPFakeRequestHandler  # noqa: PLC0415

    # Without this a reply waits for the client's delayed acknowledgement: 11 tasks a second instead of a thousand.
    TCPFakeRequestHandler.disable_nagle_algorithm = True
    server = TcpFakeServer(("127.0.0.1", port), server_type="redis", server_version=(7, 4))
    # A handler thread that waits for its client must not hold the process.
    server.daemon_threads = True

    def stop(*_: object) -> None:
        # shutdown() waits for serve_forever(), which runs in this very thread: ask from another one.
        threading.Thread(target=server.shutdown, daemon=True).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    sys.stdout.write(f"{READY}\n")
    sys.stdout.flush()
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
