# SPDX-License-Identifier: BSD-2-Clause
"""What the kill tests know of a directory: a writer's manifest, and what may be found after it.

A writer is one process with one directory. It logs, on the host, each operation before the call that
begins it, and each promise once the call that makes it has returned. Operations on names, links and
attributes of one directory are found as they were after some number of them: at least those that a
promise covers, at most those that were begun; so a rename is old or new, never neither, never both.
A block of a file is as it was after some number of the operations on the file's contents since the
last promise, and its size is one that the file had.

Lines of the log: "N OPERATION ..." names, "C OPERATION ..." contents, "I FILE INODE" its number, "S FILE"
the file's contents and all names are promised, "D" all names are, "E ERRNO KIND" the daemon was gone,
"X TEXT" an error that no writer may meet.
"""
import errno
import hashlib
import os
import random
import signal
import stat
import sys

BLOCK = 16384
NAMES = 12
FILE_MAX = 6 * BLOCK
TAG = 'user.tag'
GONE = {errno.ECONNABORTED, errno.ENOTCONN}  # in the middle of a call; at the next one
LETTERS = bytes(b'acgtACGT \n012345'[byte & 15] for byte in range(256))


def data_of(seed, size):
    """SIZE bytes that SEED decides, of four bits each; a fifth of the seeds: of eight."""
    data = hashlib.shake_128(str(seed).encode()).digest(size)
    return data if seed % 5 == 0 else data.translate(LETTERS)


class File:
    """What a name stands for. kind: file, link or dir; states: its contents, from the last promise on; ino:
    its inode number, None if it is not known."""

    def __init__(self, kind, data=b'', ino=None):
        self.kind, self.states, self.cut, self.ino = kind, [data], False, ino

    def now(self):
        return self.states[-1]

    def promise(self):
        self.states, self.cut = self.states[-1:], False

    def change(self, operation, offset, length, seed):
        old = self.now()
        if operation == 'cut':
            self.cut = True
            self.states.append(old[:offset].ljust(offset, b'\0'))
        else:
            self.states.append(old[:offset].ljust(offset, b'\0') + data_of(seed, length)
                               + old[offset + length:])

    def unlike(self, found):
        """Why FOUND cannot be the contents; None if it can."""
        if found in self.states:
            return None
        sizes = [len(state) for state in self.states]
        if not min(sizes) <= len(found) <= max(sizes):
            return f'{len(found)} bytes, not {min(sizes)} to {max(sizes)}'
        for at in range(0, len(found), BLOCK):
            part = found[at:at + BLOCK]
            past = [state[at:at + len(part)].ljust(len(part), b'\0') for state in self.states]
            # Cutting reaches what is stored before earlier writes do: then bytes may differ in age.
            if part not in past and not (self.cut and all(
                    any(byte == state[i] for state in past) for i, byte in enumerate(part))):
                return (f'at {at} of {len(found)} bytes it is like none of {len(past)} states '
                        f'(starts {part[:16]!r})')
        return None


def apply_name(names, tags, operation, words):
    """One operation on NAMES (name -> number of the file) and TAGS (number -> value)."""
    if operation in ('create', 'symlink', 'mkdir'):
        names[words[1]] = int(words[0])
    elif operation == 'link':
        names[words[1]] = names[words[0]]
    elif operation == 'rename':
        names[words[1]] = names.pop(words[0])
    elif operation == 'tag':
        tags[int(words[0])] = words[1]
    else:
        del names[words[0]]


class Manifest:
    """One writer's directory: files by number, names, and operations on names since the promise."""

    def __init__(self):
        self.files, self.names, self.tags, self.pending = {}, {}, {}, []
        self.promises = self.last = 0
        self.errors, self.ends = [], set()  # what no writer may meet; (errno, kind) of its end

    def now(self):
        """Names with all that was begun, done."""
        names = dict(self.names)
        for operation, words in self.pending:
            apply_name(names, {}, operation, words)
        return names

    def promise_names(self):
        for operation, words in self.pending:
            apply_name(self.names, self.tags, operation, words)
        self.pending = []

    def promise_all(self):
        self.promise_names()
        for file in self.files.values():
            file.promise()

    def read(self, log_path):
        with open(log_path, encoding='ascii') as lines:
            for line in lines:
                if not line.endswith('\n'):
                    break
                self.take(line.split())

    def take(self, words):
        kind, rest = words[0], words[1:]
        if kind == 'N':
            operation, rest = rest[0], rest[1:]
            if operation in ('create', 'symlink', 'mkdir'):
                what = {'create': 'file', 'symlink': 'link', 'mkdir': 'dir'}[operation]
                target = rest[2].encode() if operation == 'symlink' else b''
                self.last = int(rest[0])
                self.files[self.last] = File(what, target)
            self.pending.append((operation, rest))
        elif kind == 'C':
            number, offset, length, seed = map(int, rest[1:])
            self.files[number].change(rest[0], offset, length, seed)
        elif kind == 'I':
            self.files[int(rest[0])].ino = int(rest[1])
        elif kind == 'E':
            self.ends.add((int(rest[0]), rest[1]))
        elif kind == 'X':
            self.errors.append(' '.join(rest))
        else:
            if kind == 'S':
                self.files[int(rest[0])].promise()
            self.promise_names()
            self.promises += 1

    def forget(self, top, share, source):
        """Unlinks a share of the files: garbage. What was begun is as good as lost or kept."""
        for name, number in self.now().items():
            if self.files[number].kind == 'file' and source.random() < share:
                self.pending.append(('unlink', [name]))
                os.unlink(os.path.join(top, name))

    # ---- what is found ----

    def states_of_names(self):
        names, tags = dict(self.names), dict(self.tags)
        yield names, tags
        for operation, words in self.pending:
            apply_name(names, tags, operation, words)
            yield names, tags

    def compare(self, top):
        """Problems. What is found is what the manifest holds from then on: a kill loses nothing that
        a mount has shown, for it was read from the store."""
        found = look(top)
        problems = [f'{top}: names are those after none of {len(self.pending) + 1} states: '
                    f'{sorted((name, seen[1:3]) for name, seen in found.items())}, promised '
                    f'{sorted(self.names.items())} {sorted(self.tags.items())}, begun {self.pending}']
        for names, tags in self.states_of_names():
            if self.same_names(found, names, tags):
                problems = self.compare_contents(top, found, names)
                if not problems:
                    break
        if problems:
            return problems
        self.files = {number: self.files[number] for number in set(names.values())}
        self.tags = {number: tag for number, tag in tags.items() if number in self.files}
        self.names, self.pending = dict(names), []
        for name, (kind, ino, _, data, _) in found.items():
            self.files[names[name]] = File(kind, data, ino)
        return []

    def compare_contents(self, top, found, names):
        problems = []
        for name, (_, _, _, data, _) in found.items():
            reason = self.files[names[name]].unlike(data)
            if reason:
                problems.append(f'{top}/{name}: {reason}')
        return problems

    def same_names(self, found, names, tags):
        if found.keys() != names.keys():
            return False
        inodes = {}
        for name, (kind, ino, tag, _, links) in found.items():
            number = names[name]
            same = inodes.setdefault(number, ino) == ino and self.files[number].kind == kind
            if not same or tag != tags.get(number) or self.files[number].ino not in (None, ino):
                return False
            if kind == 'file' and links != sum(other == number for other in names.values()):
                return False
        return len(set(inodes.values())) == len(inodes)


def look(top):
    """name -> kind, inode, tag, contents, links"""
    found = {}
    for name in os.listdir(top):
        path = os.path.join(top, name)
        status = os.lstat(path)
        tag, data, kind = None, b'', 'dir'
        if stat.S_ISREG(status.st_mode):
            kind = 'file'
            with open(path, 'rb') as file:
                data = file.read()
            if os.listxattr(path):
                tag = os.getxattr(path, TAG).decode()
        elif stat.S_ISLNK(status.st_mode):
            kind, data = 'link', os.readlink(path).encode()
        found[name] = (kind, status.st_ino, tag, data, status.st_nlink)
    return found


# ---- the writer -------------------------------------------------------------------------------------

# Weights of what a writer does, by the class of the kill.
MIXES = {
    'write': {'over': 40, 'create': 4, 'cut': 4, 'unlink': 2, 'sync': 1},
    'fsync': {'small': 10, 'sync': 10, 'replace': 6, 'create': 2, 'unlink': 1},
    'names': {'create': 6, 'rename': 12, 'link': 6, 'unlink': 8, 'tag': 6, 'mkdir': 3, 'symlink': 3,
              'replace': 3, 'syncdir': 3},
    'mixed': {'over': 6, 'small': 6, 'create': 6, 'rename': 4, 'link': 2, 'unlink': 4, 'tag': 2,
              'cut': 2, 'mkdir': 1, 'symlink': 1, 'replace': 4, 'sync': 6, 'syncdir': 2},
}


class Writer:
    """Works on the directory DIR (a descriptor: never on what lies below a mount that is gone)."""

    def __init__(self, manifest, directory, log_path, mix, seed, lie=False):
        self.manifest, self.directory, self.random, self.lie = manifest, directory, random.Random(seed), lie
        self.names, self.files, self.number = manifest.now(), manifest.files, manifest.last
        self.log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.choices, self.weights = list(MIXES[mix]), list(MIXES[mix].values())
        self.kind, self.held, self.stop, self.data = 'other', [], False, {}

    def say(self, *words):
        os.write(self.log, (' '.join(map(str, words)) + '\n').encode('ascii'))

    def promise(self, call, *words):
        """CALL makes the promise. A lying writer, of the self-test, says so without it."""
        self.kind = 'fsync'
        if not self.lie:
            call()
        self.say(*words)
        self.kind = 'other'

    def name(self, kind=None, free=False):
        names = [f'n{i}' for i in range(NAMES)]
        if free:
            fitting = [name for name in names if name not in self.names]
        else:
            fitting = [name for name in names if name in self.names
                       and (kind is None or self.files[self.names[name]].kind == kind)]
        return self.random.choice(fitting) if fitting else None

    def named(self, call, operation, *words):
        """An operation on names: said, then done."""
        if operation in ('create', 'symlink', 'mkdir'):
            self.files[words[0]] = File({'create': 'file', 'symlink': 'link', 'mkdir': 'dir'}[operation])
        self.say('N', operation, *words)
        apply_name(self.names, {}, operation, [str(word) for word in words])
        self.kind = 'names'
        result = call()
        self.kind = 'other'
        return result

    def new(self, name):
        self.number += 1
        fd = self.named(lambda: os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644,
                                        dir_fd=self.directory), 'create', self.number, name)
        self.say('I', self.number, os.fstat(fd).st_ino)
        return fd

    def open(self, name):
        return os.open(name, os.O_RDWR, dir_fd=self.directory)

    def put(self, fd, number, offset, length):
        if len(self.data) < 40:  # some are the same for all writers: blocks that are stored once
            seed = self.random.randrange(1 << 40) if self.data else self.random.randrange(4)
            self.data[seed] = data_of(seed, FILE_MAX)
        seed = self.random.choice(list(self.data))
        data = self.data[seed][:length]
        self.say('C', 'over', number, offset, length, seed)
        self.kind = 'write'
        while data:
            done = os.pwrite(fd, data, offset)
            data, offset = data[done:], offset + done

    def close(self, fd):
        """Of a file that was written to: that is part of writing."""
        os.close(fd)
        self.kind = 'other'

    # ---- operations ----

    def create(self):
        name = self.name(free=True)
        if name:
            fd = self.new(name)
            self.put(fd, self.number, 0, self.random.choice((1, 200, 3000, BLOCK, 3 * BLOCK + 5)))
            self.close(fd)

    def over(self, most=4 * BLOCK):
        name = self.name('file')
        if not name:
            return self.create()
        offset = self.random.randrange(FILE_MAX // BLOCK) * BLOCK
        if self.random.random() < .3:
            offset = self.random.randrange(FILE_MAX)
        fd = self.open(name)
        self.put(fd, self.names[name], offset, self.random.randint(1, min(most, FILE_MAX - offset)))
        self.close(fd)
        return None

    def small(self):
        self.over(3000)

    def cut(self):
        name = self.name('file')
        if name:
            size = self.random.choice((0, self.random.randrange(FILE_MAX)))
            self.say('C', 'cut', self.names[name], size, 0, 0)
            fd = self.open(name)
            self.kind = 'write'
            os.ftruncate(fd, size)
            self.close(fd)

    def sync(self):
        name = self.name('file')
        if name:
            fd = self.open(name)
            self.promise(lambda: os.fsync(fd), 'S', self.names[name])
            os.close(fd)

    def syncdir(self):
        self.promise(lambda: os.fsync(self.directory), 'D')

    def replace(self):
        """What editors do: a new file, synced, renamed over the old one, the directory synced."""
        name, to = self.name(free=True), self.name('file')
        if name and to:
            fd = self.new(name)
            number = self.number
            self.put(fd, number, 0, self.random.choice((100, 5000, BLOCK + 1)))
            self.promise(lambda: os.fsync(fd), 'S', number)
            os.close(fd)
            self.rename_to(name, to)
            self.syncdir()

    def rename_to(self, name, to):
        self.named(lambda: os.rename(name, to, src_dir_fd=self.directory, dst_dir_fd=self.directory),
                   'rename', name, to)

    def rename(self):
        name = self.name()
        if not name:
            return
        to = self.name(free=True)
        if self.random.random() < .5 and self.files[self.names[name]].kind != 'dir':
            to = self.name(self.random.choice(('file', 'link')))
        if to and to != name and self.names.get(to) != self.names[name]:
            self.rename_to(name, to)

    def link(self):
        name, to = self.name('file'), self.name(free=True)
        if name and to:
            self.named(lambda: os.link(name, to, src_dir_fd=self.directory, dst_dir_fd=self.directory),
                       'link', name, to)

    def unlink(self):
        """Some files stay open: recovery has to end them."""
        name = self.name()
        if not name:
            return
        kind = self.files[self.names[name]].kind
        if kind == 'dir':
            self.named(lambda: os.rmdir(name, dir_fd=self.directory), 'rmdir', name)
            return
        if kind == 'file' and self.random.random() < .5:
            self.held.append(self.open(name))
            if len(self.held) > 4:
                os.close(self.held.pop(0))
        self.named(lambda: os.unlink(name, dir_fd=self.directory), 'unlink', name)

    def tag(self):
        name = self.name('file')
        if name:
            value = str(self.random.randrange(10**6))
            fd = self.open(name)
            self.named(lambda: os.setxattr(fd, TAG, value.encode()), 'tag', self.names[name], value)
            os.close(fd)

    def mkdir(self):
        name = self.name(free=True)
        if name:
            self.number += 1
            self.named(lambda: os.mkdir(name, dir_fd=self.directory), 'mkdir', self.number, name)

    def symlink(self):
        name = self.name(free=True)
        if name:
            self.number += 1
            target = f'target-{self.number}'
            self.named(lambda: os.symlink(target, name, dir_fd=self.directory), 'symlink', self.number,
                       name, target)

    def is_gone(self):
        """The kernel says EIO when a write needs the rest of a page and the daemon dies meanwhile: that of
        a daemon that answers is an error of its own."""
        try:
            os.fstatvfs(self.directory)
        except OSError as error:
            return error.errno in GONE
        return False

    def work(self):
        """Until the daemon is gone, or SIGTERM asks for the end between two operations."""
        def end(*_):
            self.stop = True
        signal.signal(signal.SIGTERM, end)
        try:
            while not self.stop:
                getattr(self, self.random.choices(self.choices, self.weights)[0])()
            for fd in self.held:
                os.close(fd)
            os.close(self.directory)
        except OSError as error:
            if error.errno in GONE:
                self.say('E', error.errno, self.kind)
            elif error.errno == errno.EIO and self.is_gone():
                self.say('E', errno.ECONNABORTED, self.kind)
            else:
                self.say('X', self.kind, str(error).replace('\n', ' '))
        except Exception as error:  # pylint: disable=broad-except
            self.say('X', type(error).__name__, str(error).replace('\n', ' '))


def start_writer(*arguments, **options):
    """Forks one; returns its process id. It ends by itself when the mount dies."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        try:
            Writer(*arguments, **options).work()
        finally:
            os._exit(0)
    return pid
