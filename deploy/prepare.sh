# shellcheck shell=sh
# Brings a Debian or Ubuntu machine to the point where Ensemble can be built and tested.
# Sourced by deploy/demo/run, tests/run and .ci/run, with $root set to the repository.
: "${root:?is set by the script that sources this file}"

say() { printf '%s\n' "$*" >&2; }
give_up() { say "error: $*"; exit 1; }

# Packages for what this machine lacks, under their Debian names.
missing_packages() {
    command -v protoc >/dev/null || echo protobuf-compiler
    command -v git >/dev/null || echo git
    # The demo and its checks need these modules; a bare interpreter of one's own may lack them.
    command -v python3 >/dev/null || echo python3
    command -v cc >/dev/null || echo gcc libc6-dev
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# Ends the script unless as_root can work; without a terminal nobody could type a password, so it never waits for one.
need_root() {
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null || give_up "installing needs root and there is no sudo; run as root: apt-get install $*"
    [ -t 0 ] || sudo -n true 2>/dev/null || give_up "installing needs a password; run it yourself: sudo apt-get install $*"
}

install_packages() {
    if ! command -v apt-get >/dev/null; then
        say "This script installs packages on Debian and Ubuntu only. Missing here, by Debian's names: $*"
        say "  Fedora      dnf install protobuf-compiler protobuf-devel git python3 gcc"
        say "  Arch        pacman -S protobuf git python gcc"
        say "  Alpine      apk add protoc protobuf-dev git python3 build-base"
        say "  elsewhere   protoc, git, Python 3 and a C compiler on the PATH"
        give_up "install these, then start again (Ensemble runs on Linux; on other systems use a container or a virtual machine)"
    fi
    need_root "$@"
    say "Installing with apt-get: $*"
    as_root apt-get update -qq || say "warning: apt-get update failed; trying with the lists that are there"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" </dev/null >&2
}

# Finds cargo where rustup puts it, even if this shell does not know yet, and checks its age.
find_cargo() {
    if ! command -v cargo >/dev/null; then
        PATH=$PATH:${CARGO_HOME:-${HOME:-/root}/.cargo}/bin
        export PATH
    fi
    needed=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/Cargo.toml")
    if ! command -v cargo >/dev/null; then
        say "Rust is missing. Install it (no root needed), then start again:"
        say "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
        give_up "cargo was not found; Ensemble needs Rust $needed or newer"
    fi
    found=$(cargo --version | cut -d ' ' -f 2)
    [ -n "$found" ] || give_up "cargo is there, but no toolchain; try: rustup default stable"
    oldest=$(printf '%s\n%s\n' "$needed" "$found" | sort -V | head -n 1)
    [ "$oldest" = "$needed" ] || give_up "Rust $found is too old, Ensemble needs $needed or newer; try: rustup update stable"
}

# Everything above; says nothing when nothing is missing.
prepare() {
    packages=$(missing_packages)
    # shellcheck disable=SC2086 # one word a package
    [ -z "$packages" ] || install_packages $packages
    python3 -c 'import http.server, sqlite3' || give_up "this python3 lacks sqlite3; put Debian's own (/usr/bin) first in PATH"
    find_cargo
    # A relative CARGO_TARGET_DIR counts from where the user is; the builds run in $root.
    case ${CARGO_TARGET_DIR:-/} in
    /*) ;;
    *) export CARGO_TARGET_DIR="$PWD/$CARGO_TARGET_DIR" ;;
    esac
}
