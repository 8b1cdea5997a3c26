#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""check_man.py - holds a man page and --help to each other.

Every long option that --help prints must be described in the page's OPTIONS section, and the other
way round; the same for mount options (the words before "=" in a section MOUNT OPTIONS of either).
The page must render without a warning where groff is installed.

usage: check_man.py MANPAGE PROGRAM [SUBCOMMAND...]     the --help of each SUBCOMMAND counts too
"""
import re
import shutil
import subprocess
import sys

LONG = re.compile(r'(?<![\w-])--([a-z][a-z0-9-]*)')


def help_text(program, subcommands):
    texts = []
    for arguments in [[]] + [[name] for name in subcommands]:
        run = subprocess.run([program, *arguments, '--help'], stdout=subprocess.PIPE, text=True,
                             check=True, timeout=60)
        texts.append(run.stdout)
    return '\n'.join(texts)


def sections(page):
    """Plain text by section: macros' names and escapes removed."""
    found, name = {}, None
    for line in page.splitlines():
        heading = re.match(r'\.SH\s+"?([^"]*)"?$', line)
        if heading:
            name = heading[1].strip()
            found[name] = []
        elif name and not line.startswith('.\\"'):
            line = re.sub(r'\\f[BIRP]', '', line).replace('\\-', '-').replace('\\&', '')
            found[name].append(re.sub(r'^\.[A-Z]+\s*', '', line))
    return {name: '\n'.join(lines) for name, lines in found.items()}


def mount_options_of_help(text):
    """The indented lines after "Mount options": the first word of each, up to "="."""
    found, inside = set(), False
    for line in text.splitlines():
        if re.match(r'mount options', line, re.I):
            inside = True
        elif inside and line and not line.startswith(' '):
            inside = False
        elif inside:
            word = re.match(r' {2,6}(?:-o )?([a-z][a-z_]*)(?=[=\s,\[]|$)', line)
            if word:
                found.add(word[1])
    return found


def mount_options_of_page(page):
    """Words in bold that a .TP introduces in the section MOUNT OPTIONS."""
    match = re.search(r'^\.SH "?MOUNT OPTIONS"?$(.*?)(?=^\.SH|\Z)', page, re.M | re.S)
    return set(re.findall(r'^\.TP\n\.BR?I? "?([a-z][a-z_]*)', match[1], re.M)) if match else set()


def differences(what, of_help, of_page):
    return ([f'{what}{name} is in --help, not in the page' for name in sorted(of_help - of_page)] +
            [f'{what}{name} is in the page, not in --help' for name in sorted(of_page - of_help)])


def main(manpage, program, *subcommands):
    with open(manpage, encoding='utf-8') as source:
        page = source.read()
    text = help_text(program, subcommands)
    parts = sections(page)
    of_help = set(LONG.findall(text))
    of_page = set(LONG.findall(parts.get('OPTIONS', '')))
    problems = differences('--', of_help, of_page)
    problems += differences('mount option ', mount_options_of_help(text),
                            mount_options_of_page(page))
    if not {'help', 'version'} <= of_help:
        problems.append('--help does not name --help and --version: was it understood?')
    problems += [f'no section {name}' for name in ('NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS',
                                                   'EXIT STATUS', 'SEE ALSO') if name not in parts]
    if shutil.which('groff'):
        run = subprocess.run(['groff', '-man', '-ww', '-z', '-Tascii', manpage],
                             stderr=subprocess.PIPE, text=True, check=False)
        problems += run.stderr.splitlines()
    for problem in problems:
        print(f'{manpage}: {problem}')
    return 1 if problems else 0


sys.exit(main(*sys.argv[1:]))
