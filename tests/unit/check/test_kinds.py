#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Every kind of problem that sepfs-fsck can report occurs in a test that makes it: a kind is the
text behind check_problem(c, or check_damage_add(..., or assigned to *kind."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
KIND = re.compile(r'"([a-z]+(?:-[a-z]+)*)"')
CALL = re.compile(r'(?:check_problem|check_damage_add|\bbad|check_list)\s*\(([^;]*?);|\*kind = ([^;]*);',
                  re.S)


def text_of(*parts):
    with open(os.path.join(ROOT, *parts), encoding='utf-8') as file:
        return file.read()


def kinds():
    """The first word in quotes of each call; both of a choice with ? and :."""
    found = set()
    for name in sorted(os.listdir(os.path.join(ROOT, 'index'))):
        if not re.match(r'(check.*|verify|salvage.*|pages.*)\.c$', name):
            continue
        for call in CALL.finditer(text_of('index', name)):
            words = KIND.findall((call[1] or call[2]).split('"%')[0])
            found.update(word for word in words if '-' in word or word == 'counter')
    return found


def main():
    tests = []
    for directory, _, names in os.walk(os.path.join(ROOT, 'tests')):
        tests += [text_of(directory, name) for name in names if name.endswith(('.c', '.py'))]
    found = kinds()
    if len(found) < 40:
        sys.exit(f'only {len(found)} kinds found: has the code changed its ways? {sorted(found)}')
    missing = [kind for kind in sorted(found)
               if not any(re.search(rf'(?<![a-z-]){kind}(?![a-z-])', text) for text in tests)]
    for kind in missing:
        print(f'no test makes the problem "{kind}"')
    print(f'{len(found)} kinds')
    return 1 if missing else 0


sys.exit(main())
