# SPDX-License-Identifier: BSD-2-Clause
"""What docs/security.md promises of a mount and of a store: who may do what, and what a store with
planted files, a program set to a user or a slow client of the control socket cannot do."""
import errno
import os
import shutil
import socket
import stat
import subprocess
import sys

import sepfs_test
from sepfs_test import mounted, run, tool, wait_for

USER, OTHER = 20001, 20002

# Runs a Python expression and prints the name of the errno, or "ok".
TRY = ('import errno, os, sys\n'
       'try:\n'
       '    exec(sys.argv[1])\n'
       '    print("ok")\n'
       'except OSError as error:\n'
       '    print(errno.errorcode[error.errno])\n')


def as_user(user, code, groups=()):
    """What CODE ends with when USER, without capabilities, runs it: "ok" or the name of an errno."""
    command = ['setpriv', f'--reuid={user}', f'--regid={user}']
    command += [f'--groups={",".join(map(str, groups))}'] if groups else ['--clear-groups']
    return run(*command, sys.executable, '-c', TRY, code).stdout.strip()


class SecurityTest(sepfs_test.MountTest):
    def setUp(self):
        super().setUp()
        self.need(os.geteuid() == 0, 'needs root to be several users')
        os.chmod(self.dir, 0o755)
        os.mkdir(self.mp)

    def options(self):
        with open('/proc/self/mountinfo', encoding='utf-8') as lines:
            return next(line for line in lines if line.split()[4] == os.path.realpath(self.mp))


class Mount(SecurityTest):
    def test_defaults(self):
        """Nobody else without allow_other; the kernel checks modes; no set-user-ID, no devices."""
        self.mount()
        line = self.options()
        for word in ('nosuid', 'nodev', 'default_permissions'):
            self.assertIn(word, line)
        self.assertNotIn('allow_other', line)
        os.chmod(self.mp, 0o777)
        self.write('open', b'x')
        os.chmod(self.path('open'), 0o666)
        self.assertEqual(as_user(USER, f'os.stat({self.mp!r})'), 'EACCES')
        self.assertEqual(as_user(USER, f'open({self.path("open")!r})'), 'EACCES')

    def program(self):
        """A program that prints the user it acts for, and a device, both in the mount."""
        shutil.copy(shutil.which('id'), self.path('id'))
        os.chmod(self.path('id'), 0o4755)
        os.mknod(self.path('null'), stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.chmod(self.path('null'), 0o666)

    def acts_for(self):
        return run('setpriv', f'--reuid={USER}', f'--regid={USER}', '--clear-groups', self.path('id'),
                   '-u').stdout.strip()

    def test_set_user_id_and_devices(self):
        self.mount('allow_other')
        self.program()
        self.assertEqual(self.acts_for(), str(USER))
        self.assertEqual(as_user(USER, f'open({self.path("null")!r})'), 'EACCES')
        self.assert_errno(errno.EACCES, open, self.path('null'), 'rb')
        self.remount('allow_other,suid,dev')
        self.assertNotIn('nosuid', self.options())
        self.assertEqual(self.acts_for(), '0')
        self.assertEqual(as_user(USER, f'open({self.path("null")!r})'), 'ok')

    def test_modes_decide(self):
        """With allow_other, another user gets what the modes give, and nothing that needs privilege."""
        self.mount('allow_other')
        os.chmod(self.mp, 0o777)
        self.write('private', b'secret')
        os.chmod(self.path('private'), 0o600)
        self.write('shared', b'x' * 100)
        os.chmod(self.path('shared'), 0o666)
        os.setxattr(self.path('shared'), 'trusted.note', b'x')
        private, shared = self.path('private'), self.path('shared')
        cases = {
            f'open({private!r})': 'EACCES',
            f'os.truncate({private!r}, 0)': 'EACCES',
            f'os.chmod({private!r}, 0o666)': 'EPERM',
            f'os.chmod({shared!r}, 0o4777)': 'EPERM',
            f'os.chown({shared!r}, {USER}, -1)': 'EPERM',
            f'os.utime({shared!r}, (1, 1))': 'EPERM',
            f'os.setxattr({shared!r}, "trusted.note", b"y")': 'EPERM',
            f'os.getxattr({shared!r}, "trusted.note")': 'ENODATA',
            f'assert "trusted.note" not in os.listxattr({shared!r})': 'ok',
            f'os.setxattr({shared!r}, "security.capability", b"\\x01\\0\\0\\2" + bytes(16))': 'EPERM',
            f'os.setxattr({private!r}, "user.x", b"")': 'EACCES',
            f'os.mknod({self.path("device")!r}, 0o20666, os.makedev(1, 3))': 'EPERM',
            f'os.mknod({self.path("fifo")!r}, 0o10666)': 'ok',
            f'os.link({private!r}, {self.path("second")!r})': 'EPERM',
            f'open({shared!r}, "r+b").write(b"y")': 'ok',
        }
        with open('/proc/sys/fs/protected_hardlinks', encoding='utf-8') as file:
            protected = file.read().strip()
        for code, expected in cases.items():
            if 'os.link' in code and protected == '0':
                continue
            with self.subTest(code):
                self.assertEqual(as_user(USER, code), expected)
        self.assertEqual(self.read('private'), b'secret')

    def test_set_id_bits_are_lost(self):
        """A program that another user may change does not keep the rights of its owner."""
        self.mount('allow_other')
        os.chmod(self.mp, 0o777)
        path = self.path('program')
        for what, code in (('write', f'open({path!r}, "r+b").write(b"x")'),
                           ('truncate', f'os.truncate({path!r}, 1)'),
                           ('allocate', f'f = open({path!r}, "r+b"); os.posix_fallocate(f.fileno(), 0, 300000)')):
            with self.subTest(what):
                self.write('program', b'#!/bin/sh\n')
                os.chmod(path, 0o6777)
                self.assertEqual(as_user(USER, code), 'ok')
                self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o777)
        self.write('program', b'#!/bin/sh\n')
        os.chmod(path, 0o6777)
        os.chown(path, USER, USER)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o777)
        self.assertEqual(as_user(USER, f'os.chmod({path!r}, 0o2755)', (USER,)), 'ok')
        os.chown(path, USER, OTHER) # now of a group that its owner is not in
        self.assertEqual(as_user(USER, f'os.chmod({path!r}, 0o2755)', (USER,)), 'ok')
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o755)

    def test_deep_tree(self):
        """Tools follow no tree by recursion: 3,000 directories one in the other, and links in circles."""
        self.mount()
        here = os.open(self.mp, os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(3000):
            os.mkdir('d', dir_fd=here)
            below = os.open('d', os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
        os.symlink('loop', self.path('loop'))
        self.assert_errno(errno.ELOOP, open, self.path('loop'))
        self.assertIn(self.mp, run(tool('sepfs-stats'), self.path('d')).stdout)
        run(tool('sepfs-compact'), self.mp, '--all', '--wait')
        self.unmount()
        self.assertIn('3,001 directories', self.fsck())


class Terminal(SecurityTest):
    def test_names_do_not_reach_the_terminal(self):
        """Escape sequences in names, in one byte and in two, are shown as question marks."""
        evil = os.fsencode(self.mp) + b'/\x1b]0;owned\x07\xc2\x9b31m\nforged'
        self.mount('', foreground=True)
        os.mkdir(evil)
        with open(evil + b'/file', 'wb') as file:
            file.write(sepfs_test.data_of(1, 300000))
        outputs = []
        for command in ('sepfs-stats', 'sepfs-stats -r', 'sepfs-stats --json', 'sepfs-compact --status',
                        'sep -l', 'sepfs-fsck'):
            name, *rest = command.split()
            if name == 'sepfs-fsck':
                self.unmount()
            done = subprocess.run([tool(name), *rest, evil], check=False, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            outputs.append((command, done.stdout + done.stderr))
        with open(self.store + '.log', 'rb') as file:
            outputs.append(('daemon', file.read()))
        for command, output in outputs:
            with self.subTest(command):
                for byte in (b'\x1b', b'\x07', b'\xc2\x9b', b'\nforged'):
                    self.assertNotIn(byte, output)
                if command not in ('daemon', 'sepfs-compact --status'):
                    self.assertIn(b'forged', output)


class Store(SecurityTest):
    def make(self):
        self.mount()
        self.write('a', sepfs_test.data_of(2, 500000))
        self.unmount()
        self.victim = os.path.join(self.dir, 'victim')
        with open(self.victim, 'wb') as file:
            file.write(b'years of work')
        os.chmod(self.victim, 0o644)

    def pack(self):
        return 'packs/' + next(name for name in sorted(os.listdir(os.path.join(self.store, 'packs')))
                               if name.endswith('.pack'))

    def refused(self, command, name):
        done = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0, f'{command} with {name}: {done.stdout}')
        self.assertFalse(mounted(self.mp))
        return done.stdout

    def planted(self, name, plant):
        """Puts something else in the place of a store's file, has it refused, and puts it back."""
        path, aside = os.path.join(self.store, name), os.path.join(self.dir, 'aside')
        there = os.path.lexists(path)
        if there:
            os.rename(path, aside)
        plant(path)
        seen = os.lstat(path)
        commands = [[tool('sepfs'), self.store, self.mp], [tool('sepfs-fsck'), '-y', self.store]]
        if name != 'lock': # which a reader does not look at
            commands.append([tool('sepfs-fsck'), '-n', self.store])
        try:
            for command in commands:
                self.assertIn(f'{self.store}/{name}: ', self.refused(command, name))
        finally:
            after = os.lstat(path)
            os.rmdir(path) if stat.S_ISDIR(after.st_mode) else os.unlink(path)
            if there:
                os.rename(aside, path)
        self.assertEqual((seen.st_ino, seen.st_mode), (after.st_ino, after.st_mode))
        with open(self.victim, 'rb') as file:
            self.assertEqual(file.read(), b'years of work')
        self.assertEqual(stat.S_IMODE(os.stat(self.victim).st_mode), 0o644)

    def plants(self):
        return {
            'link': lambda path: os.symlink(self.victim, path),
            'fifo': os.mkfifo,
            'device': lambda path: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3)),
            'directory': os.mkdir,
        }

    def test_planted_files(self):
        """A store's file that is a link, a FIFO, a device or a directory is refused by name: neither
        followed, waited for nor changed."""
        self.make()
        for kind, plant in self.plants().items():
            for name in ('lock', 'index/data.mdb', 'index/lock.mdb', 'sepfs.conf'):
                with self.subTest(f'{name}: {kind}'):
                    self.planted(name, plant)
        self.mount()
        self.unmount()
        self.fsck()

    def test_planted_directories(self):
        """The same for its directories, which may not be links to others either."""
        self.make()
        other = os.path.join(self.dir, 'other')
        os.mkdir(other)
        for name in ('index', 'packs'):
            for kind, plant in (('link', lambda path: os.symlink(other, path)), ('fifo', os.mkfifo)):
                with self.subTest(f'{name}: {kind}'):
                    self.planted(name, plant)
        self.assertEqual(os.listdir(other), [])
        self.mount()
        self.unmount()
        self.fsck()

    def test_planted_packs(self):
        """A pack that is none is an error of the blocks in it, and only of those."""
        self.make()
        self.mount('cache=1M')
        run(tool('sepfs-compact'), self.mp, '--all', '--wait')
        self.unmount()
        name = self.pack()
        path, aside = os.path.join(self.store, name), os.path.join(self.dir, 'aside')
        os.rename(path, aside)
        for kind, plant in self.plants().items():
            with self.subTest(kind):
                plant(path)
                self.mount('ro')
                self.assert_errno(errno.EIO, self.read, 'a')
                self.unmount()
                self.fsck('-n', '--scrub', expect=4)
                with open(self.victim, 'rb') as file:
                    self.assertEqual(file.read(), b'years of work')
                os.rmdir(path) if kind == 'directory' else os.unlink(path)
        os.rename(aside, path)
        self.fsck()

    def test_foreign_names_in_packs(self):
        """Names that lead elsewhere, or are none of a pack, are left alone."""
        self.make()
        names = ('0000002a.PACK', '+000002a.pack', '..pack', '0000002A.pack', ' 000002a.pack')
        for name in names:
            os.symlink(self.victim, os.path.join(self.store, 'packs', name))
        self.mount()
        self.unmount()
        for name in names:
            self.assertTrue(os.path.islink(os.path.join(self.store, 'packs', name)))
        self.fsck()

    def test_private_whatever_the_umask(self):
        """Created with umask 0 and with 0777: all of it is its owner's alone."""
        for mask in (0, 0o777):
            with self.subTest(oct(mask)):
                store = f'{self.store}-{mask:o}'
                run(tool('sepfs'), store, self.mp, preexec_fn=lambda: os.umask(mask))
                os.mkdir(self.path('d'))
                with open(self.path('d/f'), 'wb') as file:
                    file.write(b'x' * 300000)
                for top, names, files in os.walk(store):
                    for name in names + files + ['.']:
                        mode = stat.S_IMODE(os.stat(os.path.join(top, name)).st_mode)
                        self.assertIn(mode, (0o600, 0o700), os.path.join(top, name))
                run(tool('sepfs-umount'), self.mp)
                run(tool('sepfs-fsck'), '-n', store, preexec_fn=lambda: os.umask(mask))

    def test_store_of_another_user(self):
        """One that may not read it is refused by every command; nothing is left behind."""
        self.make()
        os.chmod(self.store, 0o755)
        before = sorted(os.listdir(self.store))
        for command in (['sepfs-fsck', '-n', self.store], ['sepfs-fsck', '-y', self.store],
                        ['sepfs-stats', self.store]):
            said = self.refused(['setpriv', f'--reuid={USER}', f'--regid={USER}', '--clear-groups',
                                 tool(command[0]), *command[1:]], self.store)
            self.assertIn('Permission denied', said)
        self.assertEqual(sorted(os.listdir(self.store)), before)


class Control(SecurityTest):
    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        here = os.open(self.store, os.O_PATH)
        try:
            client.connect(f'/proc/self/fd/{here}/control.sock')
        finally:
            os.close(here)
        client.settimeout(60)
        self.addCleanup(client.close)
        return client

    def test_peers(self):
        """The socket's mode keeps others out; if it were open, who they are would."""
        self.mount()
        path = os.path.join(self.store, 'control.sock')
        self.assertEqual(stat.S_IMODE(os.lstat(path).st_mode), 0o600)
        ask = ('import socket; s = socket.socket(socket.AF_UNIX); '
               f's.connect({path!r}); s.settimeout(60); answer = s.recv(200)\n'
               'assert answer.startswith(b"error 1 "), answer')
        os.chmod(self.store, 0o755)
        self.assertEqual(as_user(USER, ask), 'EACCES')
        os.chmod(path, 0o666)
        self.assertEqual(as_user(USER, ask), 'ok')
        os.chmod(path, 0o600)
        os.chmod(self.store, 0o700)
        self.assertIn('idle', run(tool('sepfs-compact'), self.mp, '--status').stdout)

    def test_slow_and_endless_clients(self):
        """Clients that say nothing, half a line, too much, or never read do not hold up the others."""
        self.mount()
        for number in range(24):
            client = self.connect()
            client.sendall((b'', b'sta', b'stats\n' * 50)[number % 3])
        endless = self.connect()
        with self.assertRaises(OSError):
            for _ in range(10000):
                endless.sendall(b'x' * 4096)
        done = run(tool('sepfs-compact'), self.mp, '--status', timeout=60)
        self.assertIn('idle', done.stdout)

    def test_planted_socket(self):
        """What lies in the socket's place is replaced, not followed or written to."""
        self.mount()
        self.unmount()
        victim, path = os.path.join(self.dir, 'victim'), os.path.join(self.store, 'control.sock')
        with open(victim, 'wb') as file:
            file.write(b'years of work')
        os.symlink(victim, path)
        self.mount()
        self.assertTrue(stat.S_ISSOCK(os.lstat(path).st_mode))
        with open(victim, 'rb') as file:
            self.assertEqual(file.read(), b'years of work')
        run(tool('sepfs-compact'), self.mp, '--status')
        self.unmount()
        wait_for(lambda: not os.path.lexists(path), 'removal of the socket')


if __name__ == '__main__':
    sepfs_test.main()
