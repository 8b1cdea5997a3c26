#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# check_install - installs BUILD below a temporary root, looks for everything that should be there,
# runs each command's --version from there, and builds and runs roundtrip.c against the installed
# library the way a stranger would, by pkg-config.
#
# usage: check_install.sh BUILD PREFIX VERSION COMMAND...    (a command in sbin is given as sbin/NAME)
set -euo pipefail
build=$1 prefix=$2 version=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

bad() {
    echo "check_install: $*"
    exit 1
}

meson install -C "$build" --no-rebuild --destdir "$root" >"$root/log" 2>&1 ||
    { cat "$root/log"; bad "meson install failed"; }

for command; do
    case $command in
    sbin/*) program=$root$prefix/$command section=8 ;;
    *) program=$root$prefix/bin/$command section=1 ;;
    esac
    name=${command#sbin/}
    [ -x "$program" ] || bad "$program: not installed"
    [ "$("$program" --version)" = "$name $version" ] ||
        bad "$name --version: $("$program" --version), expected $name $version"
    find "$root$prefix/share/man/man$section" -name "$name.$section*" | grep -q . ||
        bad "$name.$section: man page not installed"
done

for file in bash-completion/completions/sepfs zsh/site-functions/_sepfs \
    fish/vendor_completions.d/sepfs.fish; do
    [ -s "$root$prefix/share/$file" ] || bad "share/$file: not installed"
done
for unit in sepfs-compact@.service sepfs-compact@.timer sepfs-scrub@.service sepfs-scrub@.timer; do
    path=$(find "$root" -path "*/systemd/system/$unit")
    [ -n "$path" ] || bad "$unit: not installed"
    ! grep -q '@[a-z]*@' "$path" || bad "$unit: a place was not filled in"
    if [ "${unit#*.}" = service ]; then
        command=$(sed -n 's/^ExecStart=\([^ ]*\) .*/\1/p' "$path")
        [ -x "$root$command" ] || bad "$unit: $command: not installed"
    fi
done

[ -f "$root$prefix/include/sep.h" ] || bad "sep.h: not installed"
pc=$(find "$root$prefix" -name libsep.pc)
[ -n "$pc" ] || bad "libsep.pc: not installed"
export PKG_CONFIG_PATH=${pc%/*}
# Exactly the public symbols' prefix may be visible to a program that links the archive.
foreign=$(nm -g --defined-only "$(find "$root$prefix" -name libsep.a)" | awk 'NF == 3 { print $3 }' |
    grep -vE '^(sep_|__asan|__odr_asan|__gcov)' || true)
[ -z "$foreign" ] || bad "libsep.a: global symbols without the prefix sep_: $foreign"
read -ra flags < <(pkg-config --define-variable=prefix="$root$prefix" --static --cflags --libs libsep)
${CC:-cc} -std=c17 -Wall -Wextra -Werror -o "$root/roundtrip" "$here/roundtrip.c" "${flags[@]}" ||
    bad "roundtrip.c does not build with: ${flags[*]}"
"$root/roundtrip" || bad "roundtrip failed"
echo "$# commands, their man pages and libsep are installed and work"
