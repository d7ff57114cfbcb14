"""Reaching anything but the trial's own session."""

from lego_rl.selfcheck.attack import Attack, Defence, Kind

_TCP = """python3 - <<'PY'
import os, socket
with socket.create_connection(("127.0.0.1", int(os.environ["HOST_TCP"])), 2) as server:
    print(server.recv(100).decode())
PY
"""
_NAME_SERVICE = """python3 - <<'PY'
import os, socket
client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
client.settimeout(1)
question = b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\3com\\0\\0\\1\\0\\1"
client.sendto(question, ("127.0.0.1", int(os.environ["HOST_UDP"])))
print(client.recv(100).decode())
PY
"""
_ABSTRACT = """python3 - <<'PY'
import os, socket
with socket.socket(socket.AF_UNIX) as client:
    client.connect("\\0" + os.environ["HOST_ABSTRACT"])
    print(client.recv(100).decode())
PY
"""
_SCAN = """python3 - <<'PY'
import select, socket, time
clients = []
for table in ("/proc/net/tcp", "/proc/net/tcp6"):
    for line in open(table).read().splitlines()[1:]:
        local, _, state = line.split()[1:4]
        port = int(local.rpartition(":")[2], 16)
        if state == "0A" and port != 8100:
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            clients.append(client)
until = time.monotonic() + 2
while clients and time.monotonic() < until:
    for client in select.select(clients, [], [], 0.1)[0]:
        clients.remove(client)
        try:
            print(client.recv(100).decode(errors="replace"), flush=True)
        except OSError as error:
            print(error)
PY
"""
_ANSWER = """python3 - <<'PY'
import socket
for address in {addresses}:
    try:
        socket.create_connection((address, {port}), 2).close()
        print("reached:", address)
    except ConnectionRefusedError:
        print("reached: a refusal of", address)
    except OSError as error:
        print(error)
PY
"""
_INTERFACES = """python3 - <<'PY'
import os, socket
own = os.environ["OWN_INTERFACES"].split()
names = [name for _, name in socket.if_nameindex() if name != "lo" and name not in own]
print("reached: interfaces", *names) if names else print("none")
PY
"""
_ASK = """python3 - <<'PY'
import http.client, json, os
OWN = os.environ["SESSION"]
OTHER = os.environ["NEIGHBOUR"]
BODY = json.dumps({{"model": "policy", "messages": [{{"role": "user", "content": "hello"}}]}})
for method, path in {requests}:
    client = http.client.HTTPConnection("127.0.0.1", 8100, timeout=5)
    client.request(method, path, BODY if method == "POST" else None, {{"Content-Type": "application/json"}})
    answer = client.getresponse()
    print(("reached: " if answer.status not in (400, 404, 405) else "") + method, path, answer.status)
PY
"""

NETWORK = (
    Attack("host-loopback", Kind.NETWORK, _TCP, Defence.NETWORK_NAMESPACE),
    Attack("name-service", Kind.NETWORK, _NAME_SERVICE, Defence.NETWORK_NAMESPACE),
    Attack("abstract-socket", Kind.NETWORK, _ABSTRACT, Defence.NETWORK_NAMESPACE),
    Attack("listener-scan", Kind.NETWORK, _SCAN, Defence.NETWORK_NAMESPACE),
    Attack("interfaces", Kind.NETWORK, _INTERFACES, Defence.NETWORK_NAMESPACE),
    Attack(
        "other-session",
        Kind.NETWORK,
        _ASK.format(requests='[("GET", OTHER + "/v1/models"), ("POST", OTHER + "/v1/chat/completions")]'),
        Defence.OWN_SESSION,
    ),
    Attack(
        "guessed-session",
        Kind.NETWORK,
        _ASK.format(
            requests='[("GET", "/s/x/v1/models"), ("POST", "/s//v1/chat/completions"), ("GET", "/s/*/v1/models")]'
        ),
        Defence.OWN_SESSION,
    ),
    Attack(
        "session-by-detour",
        Kind.NETWORK,
        _ASK.format(
            requests='[("GET", OWN + "/.." + OTHER[2:] + "/v1/models"),'
            ' ("GET", OWN + "/%2e%2e" + OTHER[2:] + "/v1/models"),'
            ' ("GET", "/" + OTHER + "/v1/models"), ("GET", OTHER + "/v1/models?" + OWN)]'
        ),
        Defence.OWN_SESSION,
    ),
    # Unproven: what leads there is no part of this machine, or there is nothing to switch off.
    Attack(
        "admin-routes",
        Kind.NETWORK,
        _ASK.format(
            requests='[("GET", path) for path in ("/", "/admin", "/sessions", "/s", "/metrics", "/health",'
            ' "/v1/models",'
            ' "/docs", "/debug", OWN + "/admin", OWN + "/sessions", OWN + "/trajectory", OWN + "/../")]'
        ),
    ),
    Attack("metadata-address", Kind.NETWORK, _ANSWER.format(addresses=("169.254.169.254", "fd00:ec2::254"), port=80)),
    Attack("cluster-api", Kind.NETWORK, _ANSWER.format(addresses=("10.96.0.1", "fd00:10:96::1"), port=443)),
)
