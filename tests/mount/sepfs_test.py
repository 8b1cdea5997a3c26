# SPDX-License-Identifier: BSD-2-Clause
"""What the tests of a real mount share: stores, mounts, commands, comparison, deadlines.

A test class derives from MountTest. Each test gets an empty directory self.dir, removed afterwards
together with every mount and daemon it started. Where the tests run is SEPFS_TEST_DIR, else the
temporary directory; the commands come from the build directory SEPFS_BUILD.
"""
import errno
import hashlib
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ.get('SEPFS_BUILD', '')
TOOLS = os.path.join(BUILD, 'tools')
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BLOCK = 128 << 10


def tool(name):
    return os.path.join(TOOLS, name)


def run(*command, check=True, timeout=300, **options):
    """Runs a command with its output captured as text; check: it must exit with 0."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          errors='surrogateescape', timeout=timeout, **options)
    if check and done.returncode != 0:
        raise AssertionError(f'{" ".join(map(str, command))}: exit {done.returncode}\n'
                             f'{done.stdout}{done.stderr}')
    return done


def wait_for(condition, what, seconds=30):
    """Waits until CONDITION() is true and returns its value; fails after SECONDS."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'not within {seconds} s: {what}')
        time.sleep(0.01)


def mounted(path):
    path = os.path.realpath(path)
    with open('/proc/self/mountinfo', encoding='utf-8', errors='surrogateescape') as lines:
        return any(line.split()[4] == path for line in lines)


def alive(pid):
    """Whether process PID runs; one that has ended and was not waited for does not."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
            return file.read().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except FileNotFoundError:
        return False


def data_of(seed, size):
    """SIZE deterministic bytes that compress somewhat: words of a small vocabulary and noise."""
    source = random.Random(seed)
    words = [source.randbytes(source.randrange(2, 9)) for _ in range(200)]
    parts, have = [], 0
    while have < size:
        part = source.choice(words) if source.random() < 0.95 else source.randbytes(16)
        parts.append(part)
        have += len(part)
    return b''.join(parts)[:size]


def describe(path, times=True):
    """Everything a user can see of one file, directory, link or special file."""
    status = os.lstat(path)
    kind = stat.S_IFMT(status.st_mode)
    seen = [oct(status.st_mode), status.st_uid, status.st_gid]
    if kind != stat.S_IFDIR:
        seen.append(status.st_nlink)
    if times:
        seen.append(status.st_mtime_ns)
    if kind == stat.S_IFREG:
        seen.append(status.st_size)
        with open(path, 'rb') as file:
            seen.append(hashlib.blake2b(file.read()).hexdigest())
    elif kind == stat.S_IFLNK:
        seen.append(os.readlink(path))
    elif kind in (stat.S_IFCHR, stat.S_IFBLK):
        seen.append(status.st_rdev)
    if kind != stat.S_IFLNK:
        for name in sorted(os.listxattr(path)):
            seen.append((name, os.getxattr(path, name)))
    return seen


def tree_of(top, times=True):
    """Name -> describe() of everything below TOP."""
    seen = {}
    for directory, names, files in os.walk(os.fsencode(top)):
        for name in names + files:
            path = os.path.join(directory, name)
            seen[os.path.relpath(path, os.fsencode(top))] = describe(path, times)
    return seen


def sample_tree(top, files=150, seed=1):
    """A tree of small and middling files, links, holes, odd names and attributes."""
    source = random.Random(seed)
    os.makedirs(top)
    directories = [top]
    for number in range(12):
        directories.append(os.path.join(source.choice(directories), f'dir {number}'))
        os.mkdir(directories[-1])
    for number in range(files):
        path = os.path.join(source.choice(directories), f'file-{number}.' + source.choice('chtm'))
        size = source.choice([0, 1, 100, 1000, 5000, 20000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
        with open(path, 'wb') as file:
            file.write(data_of(seed * 1000 + number, size))
        os.chmod(path, source.choice([0o644, 0o600, 0o755, 0o444, 0o4755]))
        os.utime(path, ns=(10**18 + number, 10**18 + number * 1001))
    os.symlink('dir 1/none', os.path.join(top, 'dangling'))
    os.symlink('x' * 3000, os.path.join(top, 'long link'))
    os.link(os.path.join(top, 'long link'), os.path.join(top, 'hard link to a link'),
            follow_symlinks=False)
    os.mkfifo(os.path.join(top, 'fifo'))
    for name in ('dangling', 'long link', 'fifo'):
        os.utime(os.path.join(top, name), ns=(10**18, 10**18 + 9), follow_symlinks=False)
    for directory in directories:
        os.utime(directory, ns=(10**18, 10**18 + 7))
    odd = os.path.join(os.fsencode(top), b'\xff\xfe name\n')
    with open(odd, 'wb') as file:
        file.write(b'odd')
    os.link(odd, os.path.join(os.fsencode(top), b'second name'))
    os.setxattr(odd, 'user.colour', b'blue\0green')
    with open(os.path.join(top, 'holes'), 'wb') as file:
        file.seek(10 * BLOCK + 5)
        file.write(b'end')
        file.truncate(20 * BLOCK)
    os.utime(top, ns=(10**18, 10**18 + 8))
    return top


class Mount:
    """One mounted store. pid is the daemon's."""

    def __init__(self, store, mountpoint, options='', foreground=False):
        self.store, self.path, self.process = store, mountpoint, None
        os.makedirs(mountpoint, exist_ok=True)
        command = [tool('sepfs'), store, mountpoint] + (['-o', options] if options else [])
        if foreground:
            self.log = open(store + '.log', 'ab')
            self.process = subprocess.Popen(command + ['-f'], stdin=subprocess.DEVNULL,
                                            stdout=self.log, stderr=self.log)
            self.log.close()
            wait_for(lambda: mounted(mountpoint) or self.process.poll() is not None, 'mount')
            if self.process.poll() is not None:
                raise AssertionError(f'sepfs exited with {self.process.returncode}: {self.read_log()}')
            os.stat(mountpoint)
            self.pid = self.process.pid
        else:
            run(*command)
            self.pid = self.find_pid()

    def read_log(self):
        with open(self.store + '.log', encoding='utf-8', errors='replace') as file:
            return file.read()

    def find_pid(self):
        """The process that has the store's lock file open (root sees all)."""
        lock = os.path.realpath(self.store)
        for entry in os.listdir('/proc'):
            if not entry.isdigit():
                continue
            try:
                with open(f'/proc/{entry}/comm', encoding='utf-8') as file:
                    if file.read().strip() != 'sepfs':
                        continue
                for fd in os.listdir(f'/proc/{entry}/fd'):
                    if os.readlink(f'/proc/{entry}/fd/{fd}').startswith(lock + '/'):
                        return int(entry)
            except OSError:
                continue
        return None

    def unmount(self):
        run(tool('sepfs-umount'), self.path)
        if self.process is not None:
            self.process.wait(60)
            if self.process.returncode != 0:
                raise AssertionError(f'daemon exited with {self.process.returncode}: {self.read_log()}')

    def kill(self):
        """kill -9 and what is left of the mount removed."""
        os.kill(self.pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(60)
        else:
            wait_for(lambda: not alive(self.pid), 'end of the daemon')
        self.cleanup()

    def cleanup(self):
        if mounted(self.path):
            subprocess.run(['umount', '-l', self.path], check=False, stderr=subprocess.DEVNULL)
        if self.process is not None and self.process.poll() is None:
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        elif self.pid and alive(self.pid):
            try:
                wait_for(lambda: not alive(self.pid), 'end of the daemon', 20)
            except AssertionError:
                os.kill(self.pid, signal.SIGKILL)


class MountTest(unittest.TestCase):
    def setUp(self):
        if not os.access('/dev/fuse', os.R_OK | os.W_OK):
            self.need(False, '/dev/fuse cannot be opened')
        self.dir = tempfile.mkdtemp(prefix='sepfs-test-', dir=os.environ.get('SEPFS_TEST_DIR'))
        self.store = os.path.join(self.dir, 'store')
        self.mp = os.path.join(self.dir, 'mnt')
        self.mounts = []

    def tearDown(self):
        for mount in reversed(self.mounts):
            mount.cleanup()
        shutil.rmtree(self.dir, ignore_errors=True)

    def need(self, condition, reason):
        """A test that cannot run here: skipped, but an error on a CI machine."""
        if condition:
            return
        if os.environ.get('CI') == 'true':
            self.fail(f'must not skip on a CI machine: {reason}')
        self.skipTest(reason)

    def mount(self, options='', foreground=False, store=None, mountpoint=None):
        self.m = Mount(store or self.store, mountpoint or self.mp, options, foreground)
        self.mounts.append(self.m)
        return self.m

    def unmount(self):
        self.m.unmount()
        self.mounts.remove(self.m)

    def remount(self, options='', foreground=False):
        self.unmount()
        self.mount(options, foreground)

    def fsck(self, *arguments, expect=0):
        done = run(tool('sepfs-fsck'), self.store, *(arguments or ['-n', '--deep']), check=False)
        self.assertEqual(done.returncode, expect, f'sepfs-fsck: {done.stdout}{done.stderr}')
        return done.stdout + done.stderr

    def path(self, *names):
        return os.path.join(self.mp, *names)

    def write(self, name, data):
        with open(self.path(name), 'wb') as file:
            file.write(data)
        return self.path(name)

    def read(self, name):
        with open(self.path(name), 'rb') as file:
            return file.read()

    def compact(self, *arguments):
        return run(tool('sepfs-compact'), self.mp, *(arguments or ['--all', '--wait'])).stdout

    def assert_errno(self, number, call, *arguments, **options):
        with self.assertRaises(OSError) as caught:
            call(*arguments, **options)
        self.assertEqual(errno.errorcode.get(caught.exception.errno), errno.errorcode[number])

    def assert_same_tree(self, one, other, times=True):
        left, right = tree_of(one, times), tree_of(other, times)
        self.assertEqual(sorted(left), sorted(right))
        for name, seen in left.items():
            self.assertEqual(seen, right[name], name)


def main():
    if not BUILD:
        sys.exit('SEPFS_BUILD: the build directory is not set')
    unittest.main(verbosity=2)
