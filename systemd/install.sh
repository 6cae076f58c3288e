#!/bin/sh
# Installs the programs, units and reference configuration; or removes exactly those. Called by make.
#
#   install.sh install|uninstall
#
# PREFIX=/opt/edge        where the programs go         DESTDIR=             staging directory put before every path
# LIBDIR=/usr/local/lib   for systemd, sysusers, tmpfiles    SYSCONFDIR=/etc    BINDIR=/usr/local/bin
# PYTHON=/usr/bin/python3 the system's, which sees GStreamer and TensorRT      EXTRAS=jetson adds pycuda and jetson-stats
# PIP_ARGS=               more arguments for pip install
#
# Each release is a virtual environment of its own under PREFIX/releases, and PREFIX/current leads to the newest. The one
# before stays, because a running daemon starts its children from it until it is restarted.
set -eu
umask 022

PREFIX=${PREFIX:-/opt/edge} DESTDIR=${DESTDIR:-} LIBDIR=${LIBDIR:-/usr/local/lib} SYSCONFDIR=${SYSCONFDIR:-/etc}
BINDIR=${BINDIR:-/usr/local/bin} PYTHON=${PYTHON:-/usr/bin/python3} EXTRAS=${EXTRAS:-} PIP_ARGS=${PIP_ARGS:-}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
cd "$(dirname "$0")/.."
root=$DESTDIR$PREFIX
units=$DESTDIR$LIBDIR/systemd/system
config=$DESTDIR$SYSCONFDIR/edge/edge.yaml

say() { printf '==> %s\n' "$1"; }

# fail EXIT_CODE WHAT_HAPPENED WHAT_TO_DO
fail() {
    printf 'install: %s\n         %s\n' "$2" "$3" >&2
    exit "$1"
}

check_arguments() {
    for path in "$PREFIX" "$LIBDIR" "$SYSCONFDIR" "$BINDIR" "${DESTDIR:-/}"; do
        case $path in
            *[!A-Za-z0-9_./+~-]*) fail 64 "$path: units and scripts cannot hold such a path" "use letters, digits and ._+~-" ;;
            *..*) fail 64 "$path: has .. in it" "give the path itself" ;;
            /*) ;;
            *) fail 64 "$path: is not absolute" "begin it with /" ;;
        esac
    done
    case $PREFIX in
        / | /usr | /usr/local | /opt | /home | /etc | /var) fail 64 "PREFIX=$PREFIX belongs to others too" "take one of its own, such as /opt/edge" ;;
    esac
}

# What is no release of ours stays as it is.
check_prefix() {
    for name in bin share current; do
        [ -L "$root/$name" ] || [ ! -e "$root/$name" ] || fail 64 "$root/$name is there and not from make install" \
            "remove it, or take another PREFIX"
    done
}

check_python() {
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || fail 69 "$PYTHON does not start" \
        "install python3, or set PYTHON=/path/to/python3"
    case $version in
        3.10 | 3.11 | 3.12) ;;
        *) fail 69 "$PYTHON is Python $version, and 3.10 to 3.12 is needed" "see docs/installation.md" ;;
    esac
}

# Changes whenever the program, its packages or the interpreter do.
release_name() {
    number=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' edge/__init__.py)
    digest=$({
        echo "$("$PYTHON" -VV) $PREFIX $EXTRAS $PIP_ARGS"
        find edge calibration build_engines configs systemd docs setup.cfg pyproject.toml README.md LICENSE -type f \
            ! -path '*/__pycache__/*' | LC_ALL=C sort | while IFS= read -r file; do sha256sum "$file"; done
    } | sha256sum | cut -c1-10)
    echo "$number-$digest"
}

build_release() {
    say "$PREFIX/releases/$release"
    mkdir -p "$root/releases"
    rm -rf "$root/releases/$release"
    work=$(mktemp -d)
    trap 'rm -rf "$work" "$root/releases/$release"' EXIT
    trap 'exit 130' INT TERM HUP
    # pip leaves build/ in the folder that it installs from.
    cp -R edge calibration build_engines configs systemd docs setup.cfg pyproject.toml README.md LICENSE "$work"
    find "$work" -name __pycache__ -prune -exec rm -rf {} +
    "$PYTHON" -m venv --system-site-packages "$root/releases/$release" || fail 69 "$PYTHON could not make an environment" \
        "is the package python3-venv installed, and $root writable?"
    # PIP_ARGS is a list of words
    # shellcheck disable=SC2086
    "$root/releases/$release/bin/python3" -m pip install --quiet $PIP_ARGS "$work${EXTRAS:+[$EXTRAS]}" ||
        fail 69 "pip could not install the packages" "see its message above; without a network see docs/installation.md"
    settle_release "$root/releases/$release"
    trap - EXIT INT TERM HUP
    rm -rf "$work"
}

# What holds the staging directory in it, and what people want to read.
settle_release() {
    rm -f "$1"/bin/activate* "$1"/bin/Activate* "$1"/bin/pip*
    for script in "$1"/bin/*; do
        # Not through the links to the system's python3. Of a long path pip makes three lines of sh.
        [ -L "$script" ] || sed -i "1,3s|$root/|$PREFIX/|g" "$script"
    done
    sed -i "s|$root|$PREFIX|g" "$1/pyvenv.cfg"
    mkdir -p "$1/share/doc/edge" "$1/share/edge"
    cp docs/*.md README.md LICENSE "$1/share/doc/edge"
    cp -R systemd/examples "$1/share/edge/systemd"
    [ ! -f configs/edge.yaml ] || cp configs/edge.yaml "$1/share/edge"
    touch "$1/complete"
}

# replace_link TARGET LINK: in one step, so that there is never none
replace_link() {
    mkdir -p "$(dirname "$2")"
    ln -sfn "$1" "$2.new"
    mv -fT "$2.new" "$2"
}

remove_old_releases() {
    for old in "$root"/releases/*/; do
        old=$(basename "$old")
        case $old in "$release" | "$previous") ;; *) rm -rf "$root/releases/$old" ;; esac
    done
}

programs() { (cd "$root/current/bin" && for each in edge-*; do echo "$each"; done); }

install_units() {
    mkdir -p "$units" "$DESTDIR$LIBDIR/sysusers.d" "$DESTDIR$LIBDIR/tmpfiles.d"
    for unit in systemd/*.service; do
        sed "s|/opt/edge/|$PREFIX/|g; s|/etc/edge/|$SYSCONFDIR/edge/|g" "$unit" >"$units/$(basename "$unit")"
    done
    cp systemd/edge.sysusers "$DESTDIR$LIBDIR/sysusers.d/edge.conf"
    sed "s|/etc/edge|$SYSCONFDIR/edge|g" systemd/edge.tmpfiles >"$DESTDIR$LIBDIR/tmpfiles.d/edge.conf"
}

# A configuration that somebody changed is theirs; one that is as a release brought it follows the new release.
install_config() {
    [ -f configs/edge.yaml ] || return 0
    if [ ! -e "$config" ]; then
        mkdir -p "$(dirname "$config")"
        cp configs/edge.yaml "$config"
    elif [ -n "$previous" ] && cmp -s "$config" "$root/releases/$previous/share/edge/edge.yaml"; then
        cp configs/edge.yaml "$config.new"
        mv -f "$config.new" "$config"
    fi
}

# Only where systemd runs this very system.
tell_systemd() {
    if [ -n "$DESTDIR" ] || [ ! -d /run/systemd/system ] || [ "$(id -u)" != 0 ]; then return 0; fi
    "$@"
}

do_install() {
    check_prefix
    check_python
    release=$(release_name)
    previous=$(basename "$(readlink "$root/current" 2>/dev/null || true)")
    [ -f "$root/releases/$release/complete" ] || build_release
    [ -n "$previous" ] && [ "$previous" != "$release" ] || previous=$(ls -t "$root/releases" | grep -vx "$release" | head -1)
    install_config
    replace_link "releases/$release" "$root/current"
    replace_link current/bin "$root/bin"
    replace_link current/share "$root/share"
    install_units
    for program in $(programs); do replace_link "$PREFIX/bin/$program" "$DESTDIR$BINDIR/$program"; done
    remove_old_releases
    tell_systemd systemd-sysusers "$LIBDIR/sysusers.d/edge.conf"
    tell_systemd systemd-tmpfiles --create "$LIBDIR/tmpfiles.d/edge.conf"
    tell_systemd systemctl daemon-reload
    say "installed $release. Cameras go into $SYSCONFDIR/edge/edge.yaml; then: systemctl enable --now edge"
}

do_uninstall() {
    tell_systemd systemctl disable --now edge.service || true
    for program in "$DESTDIR$BINDIR"/edge-*; do
        case $(readlink "$program" || true) in "$PREFIX"/bin/edge-*) rm -f "$program" ;; esac
    done
    for unit in systemd/*.service; do rm -f "$units/$(basename "$unit")"; done
    rm -f "$DESTDIR$LIBDIR/sysusers.d/edge.conf" "$DESTDIR$LIBDIR/tmpfiles.d/edge.conf"
    rm -rf "$root/releases"
    rm -f "$root/current" "$root/bin" "$root/share"
    for folder in "$root" "$units" "$DESTDIR$LIBDIR/systemd" "$DESTDIR$LIBDIR/sysusers.d" "$DESTDIR$LIBDIR/tmpfiles.d"; do
        rmdir "$folder" 2>/dev/null || true
    done
    tell_systemd systemctl daemon-reload
    say "removed. Still there: $SYSCONFDIR/edge, recordings, models and engines in /var/lib/edge, the user edge"
}

check_arguments
case ${1:-} in
    install) do_install ;;
    uninstall) do_uninstall ;;
    *) fail 64 "say install or uninstall" "make install" ;;
esac
