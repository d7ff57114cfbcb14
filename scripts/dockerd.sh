#!/usr/bin/env bash
# A Docker daemon for machines that run none: its data, socket, pid file and log lie in one folder.
# Usage: scripts/dockerd.sh start|stop|status [FOLDER]     (default: .cache/docker of this checkout)
# Of the machine it changes what any dockerd does when it starts: the bridge docker0, its firewall rules and forwarding.
set -euo pipefail

say() { printf 'dockerd: %s\n' "$*" >&2; }
die() { printf 'dockerd: %s\n' "$1" >&2; [ -z "${2:-}" ] || printf '  fix: %s\n' "$2" >&2; exit 1; }

folder=$(realpath -m "${2:-$(dirname "$0")/../.cache/docker}")
socket=$folder/docker.sock
pidfile=$folder/docker.pid
log=$folder/log
machine=/var/run/docker.sock

# The pid in a file, if it is of a process started with a certain argument: a file may outlive its process, and the
# number belong to another one or, for a while, to a dead one that nobody has waited for.
pid_in() { # pid_in FILE ARGUMENT
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 0
    if tr '\0' '\n' 2>/dev/null <"/proc/$pid/cmdline" | grep -qxF -- "$2"; then echo "$pid"; fi
}

own_pid() { pid_in "$pidfile" "$pidfile"; }

# The daemon of the machine, where there is one: two would share a bridge and firewall rules.
machine_runs() {
    local pid
    pid=$(cat /var/run/docker.pid 2>/dev/null) || return 1
    [ -S "$machine" ] && [ -d "/proc/$pid" ]
}

start() {
    local pid
    if [ -n "$(own_pid)" ]; then
        say "running already"
    elif machine_runs; then
        say "the machine has a daemon of its own"
        socket=$machine
    else
        [ "$(id -u)" = 0 ] || die "a daemon has to be started as root" "sudo scripts/dockerd.sh start"
        command -v dockerd >/dev/null || die "Docker is not installed" "apt-get install docker.io"
        [ ${#socket} -lt 100 ] || die "$socket is too long for a socket" "give a folder with a shorter path"
        rm -f "$pidfile" "$socket"
        # dockerd would wait in vain for a containerd whose number is taken.
        containerd=$folder/exec/containerd
        [ -n "$(pid_in "$containerd/containerd.pid" "$containerd/containerd.toml")" ] || rm -f "$containerd/containerd.pid"
        setsid dockerd --data-root "$folder/data" --exec-root "$folder/exec" --pidfile "$pidfile" \
            --host "unix://$socket" --shutdown-timeout 5 >"$log" 2>&1 </dev/null 9>&- &
        pid=$!
        for _ in $(seq 300); do
            kill -0 "$pid" 2>/dev/null || die "it ended: $(grep -v level=info "$log" | tail -n 1)" "read $log"
            if grep -q "API listen on" "$log"; then break; fi
            sleep 0.1
        done
        grep -q "API listen on" "$log" || { kill "$pid"; die "not ready after 30 s" "read $log"; }
        say "started"
    fi
    printf 'export DOCKER_HOST=unix://%s\n' "$socket"
}

# A daemon leaves the network of the machine mounted in its folder, where a container was given that one.
unmount() {
    local left
    for left in "$folder"/exec/netns/*; do
        if mountpoint -q "$left"; then umount "$left"; fi
    done
}

stop() {
    local pid
    pid=$(own_pid)
    [ -n "$pid" ] || { say "not running"; return 0; }
    kill "$pid"
    for _ in $(seq 300); do
        [ -d "/proc/$pid" ] || { unmount; say "stopped"; return 0; }
        sleep 0.1
    done
    die "still running after 30 s" "read $log"
}

status() {
    [ -n "$(own_pid)" ] || die "not running" "scripts/dockerd.sh start"
    say "running"
    printf 'export DOCKER_HOST=unix://%s\n' "$socket"
}

case "${1:-}" in
    start | stop)
        # One at a time: two that start would remove each other's socket.
        mkdir -p "$folder"
        chmod 711 "$folder"
        exec 9>"$folder/lock"
        flock 9
        "$1"
        ;;
    status) status ;;
    *) die "say start, stop or status" "scripts/dockerd.sh start" ;;
esac
