#!/bin/sh
# Makes this machine ready: system packages, .venv, the project in it. Safe to repeat; does nothing when all is there.
#
#   setup.sh [run|test]      test adds what the tests need
#
# PYTHON=/path/to/python3    the interpreter that .venv is made from; default /usr/bin/python3, which sees GStreamer
# EDGE_SYSTEM_PACKAGES=skip  do not look at system packages (images without dpkg)
set -eu

profile=${1:-run}
python=${PYTHON:-/usr/bin/python3}
cd "$(dirname "$0")/../.."
PATH=$PATH:/usr/sbin:/sbin
export PIP_DISABLE_PIP_VERSION_CHECK=1

case $profile in
    run) target=. ;;
    test) target='.[dev]' ;;
    *) echo "setup: unknown profile '$profile'; it is run or test" >&2; exit 64 ;;
esac

packages='ca-certificates python3 python3-venv python3-gi
    gir1.2-gstreamer-1.0 gir1.2-gst-plugins-base-1.0 gir1.2-gst-rtsp-server-1.0
    gstreamer1.0-plugins-base gstreamer1.0-plugins-good gstreamer1.0-plugins-bad
    gstreamer1.0-plugins-ugly gstreamer1.0-libav'

say() { printf '==> %s\n' "$1"; }

# fail EXIT_CODE WHAT_HAPPENED WHAT_TO_DO
fail() {
    printf 'setup: %s\n       %s\n' "$2" "$3" >&2
    exit "$1"
}

missing_packages() {
    for name in $packages; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null)" = installed ] || printf '%s ' "$name"
    done
}

# Runs apt-get as root; sudo may ask for a password only where somebody can type it.
apt() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
    elif [ -t 0 ]; then
        sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=120 "$@"
    fi
}

install_packages() {
    [ "${EDGE_SYSTEM_PACKAGES:-}" != skip ] || return 0
    command -v dpkg-query >/dev/null || fail 69 "this system has no dpkg, so its packages cannot be checked" \
        "install what corresponds to: $(echo $packages); then set EDGE_SYSTEM_PACKAGES=skip"
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    by_hand="apt-get update && apt-get install --no-install-recommends $missing"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail 69 "system packages are missing and there is no sudo: $missing" \
            "as root, run: $by_hand"
        [ -t 0 ] || sudo -n true 2>/dev/null || fail 69 "system packages are missing and sudo wants a password: $missing" \
            "run this in a terminal, or as root: $by_hand"
    fi
    say "system packages (some minutes): $missing"
    apt update -qq || echo "setup: apt-get update failed; trying with the package lists that are there" >&2
    # $missing is a list of words
    # shellcheck disable=SC2086
    apt install -qq -y --no-install-recommends $missing >/dev/null || fail 69 "apt-get could not install: $missing" \
        "see its message above (no network? another apt running? on Ubuntu, is the component universe enabled?); by hand: $by_hand"
}

check_platform() {
    [ -x "$python" ] || fail 69 "there is no $python" "install python3 (3.10 to 3.12), or set PYTHON=/path/to/python3"
    version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    case $version in
        3.10 | 3.11 | 3.12) ;;
        3.[0-9]) fail 69 "$python is Python $version, and 3.10 to 3.12 is needed" \
            "JetPack 5 and Ubuntu 20.04 cannot run this; use JetPack 6 or 7.2, Ubuntu 22.04 or later, Debian 12" ;;
        *) fail 69 "$python is Python $version, and 3.10 to 3.12 is needed" \
            "use the python3 of Debian 12, Ubuntu 22.04 or 24.04, JetPack 6 or 7.2, or set PYTHON=/path/to/python3" ;;
    esac
    # L4T 38 is JetPack 7.0 and 7.1, which NVIDIA releases for Thor only; Orin (tegra234) gets 7.2.
    if grep -qs '^# R38 ' /etc/nv_tegra_release && tr '\0' '\n' </proc/device-tree/compatible | grep -qs tegra234; then
        fail 69 "JetPack 7.0 and 7.1 do not support Orin" "use JetPack 6.0 to 6.2, or 7.2"
    fi
}

# The environment belongs to one interpreter and one folder: scripts in it hold absolute paths.
make_environment() {
    wanted="$("$python" -c 'import sys; print(sys.version)') $(pwd)"
    if [ "$(cat .venv/made-for 2>/dev/null)" != "$wanted" ] || ! .venv/bin/python -c '' 2>/dev/null; then
        say "virtual environment .venv from $python ($version)"
        "$python" -m venv --clear --system-site-packages .venv || fail 69 "$python could not make .venv" \
            "is the package python3-venv installed, and this folder writable?"
        printf '%s\n' "$wanted" >.venv/made-for
    fi
}

has_profile() { [ "$(cat ".venv/installed-$1" 2>/dev/null)" = "$key" ]; }

install_project() {
    key=$(cat setup.cfg pyproject.toml tests/harness/setup.sh | sha256sum)
    if has_profile test || has_profile "$profile"; then return 0; fi
    say "Python packages ($target)"
    .venv/bin/python -m pip install --quiet --editable "$target" || fail 69 "pip could not install the project" \
        "see its message above; without a network, set PIP_NO_INDEX=1 and PIP_FIND_LINKS=FOLDER with the wheels"
    if [ "$profile" = test ]; then
        # Not into the environment itself: they would pass for TensorRT there, and they depend on it.
        .venv/bin/python -m pip install --quiet --upgrade --no-deps --target .venv/stubs tensorrt-stubs==10.13.0.35.1 ||
            fail 69 "pip could not install the types of TensorRT" "see its message above"
        # From NVIDIA's own index, which is not always there; the tests that build with it say that they are skipped.
        .venv/bin/python -m pip install --quiet --editable '.[rtx]' ||
            echo "setup: TensorRT-RTX could not be installed (see above); tests that build with it are skipped" >&2
    fi
    printf '%s\n' "$key" >".venv/installed-$profile"
}

install_packages
check_platform
make_environment
install_project
