#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
#
# check_completion.sh MAKER NAME PROGRAM - the completions of a command parse in their shells (those
# that are installed), offer every option of --help and nothing else, and complete what was begun.
set -euo pipefail
maker=$1 name=$2 program=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    printf '%s: %s\n' "$name" "$*" >&2
    exit 1
}

for shell in bash zsh fish; do
    "$maker" $shell "$name" "$program" >"$work/$shell"
done

# Long options as --help shows them, by another way than the maker's.
"$program" --help | sed -nE '/^Mount options:/q; s/^  (-[A-Za-z0-9], |    )(--[a-z-]+).*/\2/p' |
    sort -u >"$work/want"
[ -s "$work/want" ] || fail 'its help has no long options'

# What bash offers for COMP_WORDS "$@", one a line.
offered() {
    bash --norc -c '
        compopt() { :; } # works inside a running completion only
        source "$1"
        shift
        COMP_WORDS=("$@")
        COMP_CWORD=$(($# - 1))
        "_${1//-/_}"
        printf "%s\n" "${COMPREPLY[@]}"' bash "$work/bash" "$@"
}
offered "$name" -- | sed 's/=$//' | sort -u >"$work/got"
diff "$work/want" "$work/got" >&2 || fail 'bash offers (>) what the help does not say (<)'
[ "$(offered "$name" --hel)" = --help ] || fail 'bash does not complete --hel'
touch "$work/a file"
[ "$(offered "$name" "$work/a f")" = "$work/a file" ] || fail 'bash does not complete a file name'

for shell in zsh fish; do
    if command -v $shell >/dev/null; then
        $shell -n "$work/$shell" >&2 || fail "$shell does not accept its completion"
    fi
    while read -r option; do
        grep -q -- "${option#--}" "$work/$shell" || fail "$shell does not offer $option"
    done <"$work/want"
done

if [ "$name" = sepfs ]; then
    [ "$(offered sepfs -o cold_)" = cold_after= ] || fail 'mount options are not completed'
    [ "$(offered sepfs -o ro,cold_)" = ro,cold_after= ] || fail 'a second mount option is not completed'
fi
