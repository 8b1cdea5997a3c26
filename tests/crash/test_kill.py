# SPDX-License-Identifier: BSD-2-Clause
"""kill -9 of the daemon at random moments, in writing and in compaction: what fsync acknowledged is
there afterwards, names and bytes; a rename is old or new; the store mounts without a repair.

usage: test_kill.py [KILLS [SEED]]

A writer process works on the mount and logs, on the host, each promise once the call that makes it
has returned ("must") and each intention before the call ("may"). Contents follow from a file's name
and version. After each kill a file must hold its last promised version or one that was begun later.
"""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), 'mount'))
from sepfs_test import Mount, TOOLS, data_of, run, tool  # noqa: E402  pylint: disable=wrong-import-position

FILES = 24
SIZES = (0, 10, 200, 3000, 50000, 131072, 131073, 400000)


def content(name, version):
    size = SIZES[(name * 7 + version * 3) % len(SIZES)]
    return b'%d %d\n' % (name, version) + data_of(name * 100003 + version, size)


def writer(top, log_path, seed, version):
    """Runs until killed or until the mount is gone. One of: rewrite in place and fsync; write a new
    file, fsync, rename over the old one, fsync the directory; unlink and fsync the directory."""
    source = random.Random(seed)
    log = open(log_path, 'a', encoding='ascii')

    def say(*words):
        log.write(' '.join(map(str, words)) + '\n')
        log.flush()
    directory = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    while True:
        name = source.randrange(FILES)
        path = f'{top}/f{name}'
        version += 1
        what = source.choice(('rename', 'rename', 'rewrite', 'unlink', 'noise'))
        if what == 'noise':
            with open(f'{top}/noise-{version % 5}', 'wb') as file:
                file.write(data_of(version, 300000))
            continue
        if what == 'unlink':
            say('may', name, 'gone')
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass
            os.fsync(directory)
            say('must', name, 'gone')
            continue
        data = content(name, version)
        target = f'{top}/new' if what == 'rename' else path
        if what == 'rewrite':
            # Written in place a file passes through mixtures: neither version is promised meanwhile.
            say('may', name, 'mixed')
        else:
            say('may', name, version)
        with open(target, 'wb') as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if what == 'rename':
            os.rename(target, path)
        os.fsync(directory)
        say('must', name, version)


def promises(log_path):
    """name -> the states it may be in."""
    allowed = {name: {'gone'} for name in range(FILES)}
    with open(log_path, encoding='ascii') as lines:
        for line in lines:
            if not line.endswith('\n'):
                break
            kind, name, state = line.split()
            name = int(name)
            state = state if state in ('gone', 'mixed') else int(state)
            if kind == 'must':
                allowed[name] = {state}
            else:
                allowed[name].add(state)
    return allowed


def check(top, log_path):
    problems = []
    seen = {}
    for name, states in promises(log_path).items():
        try:
            with open(f'{top}/f{name}', 'rb') as file:
                data = file.read()
        except FileNotFoundError:
            if not states & {'gone', 'mixed'}:
                problems.append(f'f{name} is missing, may be {sorted(map(str, states))}')
            seen[name] = 'gone'
            continue
        match = [state for state in states if isinstance(state, int) and data == content(name, state)]
        if not match and 'mixed' not in states:
            problems.append(f'f{name}: {len(data)} bytes starting {data[:20]!r}, may be '
                            f'{sorted(map(str, states))}')
        seen[name] = match[0] if match else 'mixed'
    for entry in os.listdir(top):
        with open(f'{top}/{entry}', 'rb') as file:
            file.read()
    return problems, seen


def kill_once(number, seed, directory, store, mountpoint):
    """One life of the daemon. Returns the problems found after it."""
    source = random.Random(seed * 1000003 + number)
    log_path = os.path.join(directory, f'log-{number}')
    mount = Mount(store, mountpoint, 'commit=1,dirty=8M,cold_after=1s,cache=16M', foreground=True)
    # What this life starts from is what the one before left.
    _, states = check(mountpoint, os.path.join(directory, f'log-{number - 1}')) if number else ([], {})
    with open(log_path, 'w', encoding='ascii') as log:
        for name, state in states.items():
            if state == 'mixed':
                log.write(f'must {name} gone\nmay {name} mixed\n')
            else:
                log.write(f'must {name} {state}\n')
    child = subprocess.Popen([sys.executable, __file__, 'writer', mountpoint, log_path,
                              str(seed + number), str(number * 100000)], stderr=subprocess.DEVNULL)
    compaction = None
    if number % 2:
        compaction = subprocess.Popen([tool('sepfs-compact'), mountpoint, '--all', '--gc', '--wait'],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(source.uniform(0.05, 2.5))  # the random moment
    os.kill(mount.pid, signal.SIGKILL)
    mount.process.wait(60)
    child.kill()  # before the mount goes: it must not write into the directory below
    child.wait()
    mount.cleanup()
    if compaction is not None:
        compaction.wait(60)
    after = Mount(store, mountpoint, 'compact=off', foreground=True)
    problems, _ = check(mountpoint, log_path)
    after.unmount()
    fsck = run(tool('sepfs-fsck'), store, '-n', '--deep' if number % 5 == 0 else '--scrub', check=False)
    if fsck.returncode != 0:
        problems.append(f'fsck exit {fsck.returncode}: {fsck.stdout}{fsck.stderr}')
    return problems


def main():
    if not os.path.isdir(TOOLS):
        sys.exit('SEPFS_BUILD: the build directory is not set')
    if not os.access('/dev/fuse', os.R_OK | os.W_OK):
        print('/dev/fuse cannot be opened')
        sys.exit(1 if os.environ.get('CI') == 'true' else 77)
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else 25
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
    print(f'seed {seed}', flush=True)
    bad = promised = 0
    with tempfile.TemporaryDirectory(prefix='sepfs-kill-', dir=os.environ.get('SEPFS_TEST_DIR')) as directory:
        store, mountpoint = os.path.join(directory, 'store'), os.path.join(directory, 'mnt')
        for number in range(kills):
            problems = kill_once(number, seed, directory, store, mountpoint)
            with open(os.path.join(directory, f'log-{number}'), encoding='ascii') as log:
                promised += sum(line.startswith('must') for line in log) - (FILES if number else 0)
            bad += len(problems) > 0
            for problem in problems:
                print(f'kill {number}: {problem}', flush=True)
            if problems:
                break
    print(f'{kills if not bad else number + 1} kills, {promised} promises, {bad} with losses')
    sys.exit(bad > 0)


if __name__ == '__main__':
    if len(sys.argv) == 6 and sys.argv[1] == 'writer':
        try:
            writer(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        except OSError:
            sys.exit(0)
    main()
