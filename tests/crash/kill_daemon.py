# SPDX-License-Identifier: BSD-2-Clause
"""A daemon that is there to be killed: started in the foreground, asked through its control socket,
stopped to be looked at, killed, and its mount removed. Waits are for conditions, with deadlines that
only a hang reaches.
"""
import ctypes
import os
import select
import signal
import socket
import subprocess
import time

BUILD = os.environ.get('SEPFS_BUILD', '')
TOOLS = os.path.join(BUILD, 'tools')
DEADLINE = 120  # seconds
MNT_DETACH = 2


def wait_for(condition, what):
    deadline = time.monotonic() + DEADLINE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f'not within {DEADLINE} s: {what}')
        time.sleep(0.001)


def tool(name):
    return os.path.join(TOOLS, name)


def run(*command):
    """Exit status and output."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=False,
                          stderr=subprocess.STDOUT, text=True, errors='replace', timeout=5 * DEADLINE)
    return done.returncode, done.stdout


def detach(path):
    """Removes the mount of a daemon that is dead."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.umount2(os.fsencode(path), MNT_DETACH) != 0:
        subprocess.run(['fusermount3', '-uz', path], check=False, stderr=subprocess.DEVNULL)


def is_mounted(path):
    path = os.path.realpath(os.path.dirname(path)) + '/' + os.path.basename(path)
    with open('/proc/self/mountinfo', encoding='utf-8', errors='surrogateescape') as lines:
        return any(line.split()[4] == path for line in lines)


def has_open(pid, name):
    """Whether the process has a file of that name open."""
    try:
        for fd in os.listdir(f'/proc/{pid}/fd'):
            try:
                if os.path.basename(os.readlink(f'/proc/{pid}/fd/{fd}')) == name:
                    return True
            except FileNotFoundError:
                continue
    except OSError:
        return False
    return False


def is_stopped(pid):
    with open(f'/proc/{pid}/stat', encoding='utf-8') as file:
        return file.read().rsplit(')', 1)[1].split()[0] in 'TZX'


def stop(process):
    """Stops all its threads, so that what is seen of it then is what a kill meets."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_for(lambda: is_stopped(process.pid), 'a stopped process')


class Control:
    """A connection to the control socket; None from ask(): the daemon is gone."""

    def __init__(self, store):
        self.socket = wait_for(lambda: self.connect(os.path.join(store, 'control.sock')), 'the control socket')
        self.file = self.socket.makefile('rb')

    @staticmethod
    def connect(path):
        """None while what a killed daemon left is still there, or nothing yet."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            made.connect(path)
            return made
        except (ConnectionRefusedError, FileNotFoundError):
            made.close()
            return None

    def send(self, line):
        self.socket.sendall(line.encode() + b'\n')

    def answer(self):
        fields = {}
        try:
            for line in self.file:
                word = line.decode().rstrip('\n')
                if word == 'ok':
                    return fields
                if word.startswith('error '):
                    return {'failed': word}
                key, value = word.split('=', 1)
                fields[key] = int(value) if value.isdigit() else value
        except OSError:
            pass
        return None

    def is_answered(self):
        """Whether an answer, or the end, can be read."""
        return bool(select.select([self.socket], [], [], 0)[0])

    def ask(self, line):
        try:
            self.send(line)
        except OSError:
            return None
        return self.answer()

    def close(self):
        self.file.close()
        self.socket.close()


class Daemon:
    def __init__(self, store, path, options):
        self.store, self.path = store, path
        self.log_path = store + '.log'
        os.makedirs(path, exist_ok=True)
        with open(self.log_path, 'ab') as log:
            self.process = subprocess.Popen([tool('sepfs'), store, path, '-f', '-o', options],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def ended(self):
        return self.process.poll() is not None

    def wait_mounted(self):
        wait_for(lambda: is_mounted(self.path) or self.ended(), 'a mount')
        if self.ended():
            with open(self.log_path, encoding='utf-8', errors='replace') as log:
                raise AssertionError(f'{self.store} does not mount: exit {self.process.returncode}: '
                                     f'{log.read()[-2000:]}')
        os.stat(self.path)

    def kill(self):
        if not self.ended():
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)

    def clear(self):
        """Behind a kill, when its writers have ended."""
        if is_mounted(self.path):
            detach(self.path)

    def unmount(self):
        status, text = run(tool('sepfs-umount'), self.path)
        self.process.wait(DEADLINE)
        if status != 0 or self.process.returncode != 0:
            raise AssertionError(f'unmounting: {status}, daemon {self.process.returncode}: {text}')


class Moment:
    """A random moment of something whose length is learnt: from hits and misses, so that it settles
    where seven of ten meet what they are to meet, whatever the machine is doing otherwise."""

    def __init__(self, seconds):
        self.seconds = seconds

    def learn(self, hit):
        self.seconds = min(max(self.seconds * (1.15 if hit else .7), 1e-4), 5)

    def sleep(self, source):
        time.sleep(source.uniform(0, self.seconds))
