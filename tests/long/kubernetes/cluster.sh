#!/usr/bin/env bash
# A whole Kubernetes in the network, mount and process namespaces that it is started in; it ends with them.
# Usage: cluster.sh FOLDER PROGRAMS CGROUP OUTSIDE INSIDE   (addresses of the two ends of a veth pair named up0 inside)
#
# Outside its namespaces it changes nothing but the control group CGROUP: the switches of the kernel that a kubelet wants
# set are shown to it as files of FOLDER, and /run and /var/log are folders there.
set -euo pipefail
folder=$1 programs=$2 cgroup=$3 outside=$4 inside=$5
pods=10.88.0.0/16 services=10.96.0.0/24 api=10.96.0.1 metadata=169.254.169.254
cd "$folder"
mkdir -p etcd run kubelet log pki cni switches docker varlog

mount --make-rshared /
mount -t proc proc /proc
mount --bind run /run
mount --bind varlog /var/log
show() { # show SWITCH VALUE: what a kubelet finds there, and need not change
    printf '%s\n' "$2" >"switches/$(basename "$1")"
    mount --bind "switches/$(basename "$1")" "/proc/sys/$1"
}
show vm/overcommit_memory 1
show vm/panic_on_oom 0
show kernel/panic 10
show kernel/panic_on_oops 1
show kernel/keys/root_maxkeys 1000000
show kernel/keys/root_maxbytes 25000000

until ip link show up0 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip addr add "$inside/30" dev up0
ip link set up0 up
ip addr add "$metadata/32" dev lo
echo 1 >/proc/sys/net/ipv4/ip_forward # of this network namespace
iptables -t nat -A POSTROUTING -s "$pods" -o up0 -j MASQUERADE
iptables -t nat -A PREROUTING -d "$api" -p tcp --dport 443 -j DNAT --to-destination "$inside:6443"

run() { # run NAME PROGRAM ARGUMENT...
    local name=$1
    shift
    "$@" >"log/$name" 2>&1 </dev/null &
}
# What pods find as the metadata service and the name server: something that takes connections.
answer='import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True: server.accept()[0].close()'
run metadata python3 -c "$answer" "$metadata" 80
run resolver python3 -c "$answer" "$inside" 53

run etcd etcd --data-dir etcd --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
    --listen-peer-urls http://127.0.0.1:2380 --unsafe-no-fsync
openssl genrsa -out pki/accounts.key 2048 2>/dev/null
cat >pki/tokens.csv <<'T'
admin-token,admin,admin,system:masters
runner-token,runner,runner
stranger-token,stranger,stranger
T
run apiserver "$programs/kube-apiserver" --etcd-servers=http://127.0.0.1:2379 --cert-dir=pki --advertise-address="$inside" \
    --bind-address=0.0.0.0 --secure-port=6443 --insecure-port=0 --service-cluster-ip-range="$services" \
    --authorization-mode=RBAC --token-auth-file=pki/tokens.csv --service-account-issuer=https://kubernetes.default.svc \
    --service-account-signing-key-file=pki/accounts.key --service-account-key-file=pki/accounts.key \
    --kubelet-preferred-address-types=InternalIP
# Neither a bridge nor rules of its own: pods get their network from the plug-in below.
run dockerd dockerd --data-root docker --exec-root /run/docker --host unix:///run/docker.sock --pidfile /run/docker.pid \
    --iptables=false --bridge=none --add-runtime "plain=$(dirname "$0")/runc-plain" --default-runtime plain

until [ -f pki/apiserver.crt ] && [ "$(curl -sk "https://$inside:6443/readyz")" = ok ]; do sleep 0.1; done
for user in admin runner stranger; do
    cat >"pki/$user.kubeconfig" <<K
apiVersion: v1
kind: Config
clusters: [{name: test, cluster: {server: "https://$inside:6443", certificate-authority: "$folder/pki/apiserver.crt"}}]
users: [{name: $user, user: {token: $user-token}}]
contexts: [{name: test, context: {cluster: test, user: $user}}]
current-context: test
K
done
docker() { command docker --host unix:///run/docker.sock "$@"; }
until docker version >/dev/null 2>&1; do sleep 0.1; done
tar -C "$programs" -c pause | docker import --change 'ENTRYPOINT ["/pause"]' - lego-test/pause:1 >/dev/null
docker import --change 'ENV COLOUR=blue' - lego-test/base:1 <base.tar >/dev/null

cat >cni/10-test.conf <<N
{"cniVersion": "0.3.1", "name": "test", "type": "ptp", "ipMasq": false, "mtu": 1500, "ipam": {"type": "host-local",
 "ranges": [[{"subnet": "$pods"}]], "dataDir": "/run/cni", "routes": [{"dst": "0.0.0.0/0"}]}}
N
run controllers "$programs/kube-controller-manager" --kubeconfig=pki/admin.kubeconfig --leader-elect=false --port=0 \
    --service-account-private-key-file=pki/accounts.key --cert-dir=pki/controllers --node-monitor-grace-period=8s \
    --controllers=garbagecollector,namespace,serviceaccount,serviceaccount-token,nodelifecycle,podgc
run scheduler "$programs/kube-scheduler" --kubeconfig=pki/admin.kubeconfig --leader-elect=false --port=0 --cert-dir=pki/scheduler
touch resolv.conf
# The paths that a kubelet gives to others have to be whole. The feature is every kubelet's from 1.22 on.
run kubelet "$programs/kubelet" --kubeconfig=pki/admin.kubeconfig --root-dir="$folder/kubelet" --cert-dir="$folder/kubelet/pki" \
    --hostname-override=node --node-ip="$inside" --anonymous-auth=true --authorization-mode=AlwaysAllow \
    --container-runtime=docker --docker-endpoint=unix:///run/docker.sock --container-runtime-endpoint=unix:///run/dockershim.sock \
    --experimental-dockershim-root-directory="$folder/dockershim" --network-plugin=cni --cni-bin-dir=/usr/lib/cni \
    --cni-conf-dir="$folder/cni" --cni-cache-dir=/run/cni-cache --pod-infra-container-image=lego-test/pause:1 \
    --cgroup-driver=cgroupfs --cgroup-root="/$cgroup" --fail-swap-on=false --protect-kernel-defaults=true \
    --pod-max-pids=256 --cluster-dns="$inside" --cluster-domain=cluster.local --resolv-conf="$folder/resolv.conf" \
    --volume-plugin-dir="$folder/kubelet/plugins" --healthz-port=0 --eviction-hard= --image-gc-high-threshold=100 \
    --node-status-update-frequency=2s --feature-gates=SizeMemoryBackedVolumes=true
wait
