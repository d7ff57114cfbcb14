#!/usr/bin/env bash
# A Kubernetes for the tests of its sandboxes: API server, controllers, scheduler and kubelet, built once for this user
# from Debian's source package with Debian's compiler (about 5 minutes), and Debian's etcd, Docker and network plug-ins.
# Idempotent; a finished one costs nothing. It starts nothing: the tests do, in network and mount namespaces of their own.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$1" >&2; printf '  fix: %s\n' "$2" >&2; exit 1; }

version=1.20.2
sums='b83c0780efb182d928dc63d46488a847f161f04e40a94b96bf5247dd671ecdfc  kubernetes_1.20.5+really1.20.2.orig.tar.gz
33f6680406698b60370322aa5710be199006b3d66fbb0974b44da012de3aa82a  golang-1.15-go_1.15.15-1~deb11u4_amd64.deb
e580f570f706d801191f9a17e55156736fc5979a6a878bab9304ca007ae29941  golang-1.15-src_1.15.15-1~deb11u4_amd64.deb'
# They were released for Debian 11 and are part of no later one: no other version is in the archive with all its sources.
release=bullseye
source=kubernetes=1.20.5+really1.20.2-1
compiler='golang-1.15-go golang-1.15-src'
packages='etcd-server containernetworking-plugins docker.io iptables iproute2 python3'

folder=${XDG_CACHE_HOME:-$HOME/.cache}/lego-rl/kubernetes-$version
build=$folder/build

missing=''
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q '^install ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    [ "$(id -u)" = 0 ] || die "these packages are missing:$missing" "sudo apt-get install -y --no-install-recommends$missing"
    say "installing$missing"
    apt-get update -qq
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

[ ! -e "$folder/done" ] || exit 0
[ "$(dpkg --print-architecture)" = amd64 ] || die "the compiler is pinned for amd64" "run these tests on amd64"
say "building Kubernetes $version (about 5 minutes, once)"
rm -rf "$folder"
mkdir -p "$folder/bin" "$build"/{apt/lists/partial,apt/cache/archives/partial,go,gopath/src/k8s.io/kubernetes}

# Debian's archive with lists and sources of our own: what the machine installs from is not changed.
mirror=$(sed -n 's/^URIs: *//p; s/^deb *\(\[[^]]*\] *\)\{0,1\}\([^ ]*\).*/\2/p' \
    /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources 2>/dev/null |
    grep '/debian/*$' | sort -u | head -n 1) || true
[ -n "$mirror" ] || die "no Debian archive is among the sources of apt" "add one to /etc/apt/sources.list.d"
keyring='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
printf 'deb %s %s %s main\ndeb-src %s %s %s main\n' \
    "$keyring" "$mirror" "$release" "$keyring" "$mirror" "$release" >"$build/apt/sources.list"
apt() {
    apt-get -qq -o Dir::Etc::sourcelist="$build/apt/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State::lists="$build/apt/lists" -o Dir::Cache="$build/apt/cache" -o APT::Sandbox::User=root "$@"
}
apt update
(
    cd "$build"
    # shellcheck disable=SC2086
    apt download $compiler
    # Only the upstream part is wanted; that Debian's own parts are refused without it does not matter.
    apt --download-only --only-source source "$source" >/dev/null 2>&1 || true
    printf '%s\n' "$sums" | sha256sum --quiet --check
    for package in golang-1.15-*.deb; do dpkg -x "$package" go; done
    tar -C gopath/src/k8s.io/kubernetes --strip-components=1 -xzf kubernetes_*.orig.tar.gz
)

export GOROOT=$build/go/usr/lib/go-1.15 GOPATH=$build/gopath GOCACHE=$build/cache GOPROXY=off GO111MODULE=off CGO_ENABLED=0
export PATH=$GOROOT/bin:$PATH
cd "$GOPATH/src/k8s.io/kubernetes"
# The one generated file that the source lacks: the API's own description.
go build -o "$build/openapi-gen" ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
tagged=$(grep -rl --include='*.go' '+k8s:openapi-gen=' pkg vendor/k8s.io/*/ |
    grep -v -e code-generator -e sample-apiserver -e _examples | xargs -n1 dirname | LC_ALL=C sort -u |
    sed 's#^#k8s.io/kubernetes/#' | paste -sd,)
"$build/openapi-gen" -i "$tagged" -p k8s.io/kubernetes/pkg/generated/openapi -O zz_generated.openapi \
    -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt -r "$build/violations" >/dev/null 2>&1
flags='-s -w'
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    prefix=k8s.io/kubernetes/vendor/$package
    flags="$flags -X $prefix.gitVersion=v$version -X $prefix.gitMajor=1 -X $prefix.gitMinor=20"
done
for program in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
    go build -ldflags "$flags" -o "$folder/bin/$program" "./cmd/$program"
done
cat >"$build/pause.c" <<'C'
#include <unistd.h>
int main(void) { for (;;) pause(); }
C
gcc -static -O1 -o "$folder/bin/pause" "$build/pause.c"
rm -rf "$build"
touch "$folder/done"
