# SPDX-License-Identifier: BSD-2-Clause
"""Runs every command line of the pages given: in each page the lines that begin with "$ " in console
blocks, one after the other in one shell with an empty home directory and the build's commands in
PATH. Each must succeed; what it prints is not compared. A page leaves no mount behind."""
import os
import re
import signal
import subprocess
import sys
import tempfile

BUILD = os.path.join(os.environ['SEPFS_BUILD'], 'tools')
SECONDS = 300


def commands(page):
    with open(page, encoding='utf-8') as file:
        text = file.read()
    found = []
    for block in re.findall(r'^```console\n(.*?)^```', text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith('$ '):
                found.append(line[2:])
            elif found and found[-1].endswith('\\'):
                found[-1] = found[-1][:-1] + line
    return found


def mounts_below(directory):
    with open('/proc/self/mountinfo', encoding='utf-8') as lines:
        paths = [line.split()[4] for line in lines]
    return [path for path in paths if path.startswith(directory + '/')]


def run(page):
    """Returns the number of commands that ran; raises SystemExit at the first that fails."""
    lines = commands(page)
    if not lines:
        raise SystemExit(f'{page}: no commands')
    with tempfile.TemporaryDirectory(prefix='sepfs-docs-') as home:
        home = os.path.realpath(home)
        script = 'set -o pipefail\n' + ''.join(
            f"{line} || {{ echo \"failed with $?: \"{quote(line)} >&2; exit 1; }}\n"
            for line in lines)
        environment = dict(os.environ, HOME=home, PATH=f'{BUILD}:{os.environ["PATH"]}')
        process = subprocess.Popen(['bash', '-c', script], cwd=home, env=environment,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = b'not within %d s' % SECONDS
        left = mounts_below(home)
        for path in left:
            subprocess.run(['fusermount3', '-uz', path], check=False)
        if process.returncode != 0:
            sys.stdout.write(output.decode(errors='replace')[-3000:])
            raise SystemExit(f'{page}: a command failed')
        if left:
            raise SystemExit(f'{page}: leaves {", ".join(left)} mounted')
    return len(lines)


def quote(text):
    return "'" + text.replace("'", "'\\''") + "'"


if not os.path.exists('/dev/fuse'):
    print('skipped: no /dev/fuse')
    sys.exit(77)
for name in sys.argv[1:]:
    print(f'{name}: {run(name)} commands')
