# SPDX-License-Identifier: BSD-2-Clause
"""Mounting: the ways in, and one clear line for everything that must be refused."""
import errno
import os
import re
import shutil
import stat

import sepfs_test
from sepfs_test import TOOLS, mounted, run, tool, wait_for


class Mounting(sepfs_test.MountTest):
    def refused(self, *arguments, says, code=1, user=None, prefix='sepfs: '):
        """sepfs ARGUMENTS exits with CODE after one line that contains SAYS."""
        command = [tool('sepfs'), *arguments]
        if user is not None:
            command = ['setpriv', f'--reuid={user}', f'--regid={user}', '--clear-groups'] + command
        done = run(*command, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        lines = done.stderr.strip().splitlines()
        self.assertIn(says, done.stderr)
        self.assertTrue(lines[0].startswith(prefix), done.stderr)
        self.assertLessEqual(len(lines), 2, done.stderr)
        self.assertFalse(mounted(self.mp))
        return done.stderr

    def setUp(self):
        super().setUp()
        os.mkdir(self.mp)

    def test_mount_type(self):
        """mount(8) clears PATH, so the commands must be where it looks: here, in a name space of our
        own, the build stands in for /usr/local/bin."""
        self.need(os.geteuid() == 0, 'needs root for a mount name space')
        script = (f'set -e; mount --bind {TOOLS} /usr/local/bin\n'
                  f'mount -t fuse.sepfs -o noatime,nosuid,nodev,cold_after=2h {self.store} {self.mp}\n'
                  f'echo x >{self.mp}/a; grep " {self.mp} " /proc/self/mountinfo\n'
                  f'sepfs-umount {self.mp}')
        line = run('unshare', '-m', '--propagation', 'private', 'sh', '-c', script).stdout
        self.assertIn('nosuid', line)
        self.assertIn('noatime', line)
        self.assertIn(' fuse.sepfs ', line)
        self.mount()
        self.assertEqual(self.read('a'), b'x\n')

    def test_store_is_private(self):
        self.mount()
        self.write('a', b'x')
        self.unmount()
        for top, _, names in os.walk(self.store):
            self.assertEqual(stat.S_IMODE(os.stat(top).st_mode) & 0o77, 0, top)
            for name in names:
                self.assertEqual(stat.S_IMODE(os.stat(os.path.join(top, name)).st_mode) & 0o77, 0, name)

    def store_files(self):
        """All files of the store but LMDB's table of readers."""
        seen = sepfs_test.tree_of(self.store)
        return {name: value for name, value in seen.items() if name not in (b'index', b'index/lock.mdb')}

    def test_read_only(self):
        self.mount()
        self.write('a', b'x')
        self.unmount()
        before = self.store_files()
        self.mount('ro')
        self.assertEqual(self.read('a'), b'x')
        self.assert_errno(errno.EROFS, open, self.path('b'), 'wb')
        self.assert_errno(errno.EROFS, open, self.path('a'), 'r+b')
        self.assert_errno(errno.EROFS, os.mkdir, self.path('d'))
        self.assert_errno(errno.EROFS, os.unlink, self.path('a'))
        self.assert_errno(errno.EROFS, os.setxattr, self.path('a'), 'user.a', b'')
        self.unmount()
        self.assertEqual(before, self.store_files())

    def test_read_only_needs_a_store(self):
        self.refused(self.store, self.mp, '-o', 'ro', says=self.store)
        self.assertFalse(os.path.exists(self.store))

    def test_usage(self):
        self.refused(says='')
        self.refused(self.store, says='mount point')
        self.refused(self.store, self.mp, 'third', says='')
        self.refused('--nonsense', says='nonsense')
        self.assertFalse(os.path.exists(self.store))

    def test_options(self):
        for option, name in (('colour=red', 'colour'), ('cache=lots', 'cache'), ('cache=-1', 'cache'),
                             ('dirty=1Q', 'dirty'), ('cold_after=soon', 'cold_after'),
                             ('cold_after=5y', 'cold_after'), ('hot=gzip', 'hot'), ('hot=zstd:99', 'hot'),
                             ('cold=sep:77', 'cold'), ('compact=perhaps', 'compact'),
                             ('cpu_share=500', 'cpu_share'), ('threads=none', 'threads'),
                             ('block_size=100000', 'block_size'), ('block_size=8M', 'block_size'),
                             ('commit=', 'commit'), ('ro=1', 'ro')):
            with self.subTest(option):
                self.refused(self.store, self.mp, '-o', 'cold_after=2h,' + option, says=name)
        self.assertFalse(os.path.exists(self.store))

    def test_foreign_store(self):
        os.mkdir(self.store)
        with open(os.path.join(self.store, 'thesis.tex'), 'w', encoding='utf-8') as file:
            file.write('years of work')
        self.refused(self.store, self.mp, says='store')
        self.assertEqual(os.listdir(self.store), ['thesis.tex'])

    def test_store_paths(self):
        self.refused(os.path.join(self.dir, 'no', 'where'), self.mp, says='no')
        file = os.path.join(self.dir, 'file')
        with open(file, 'wb'):
            pass
        self.refused(file, self.mp, says=file)
        os.mkdir(self.store)
        self.refused(self.store, self.store, says='')

    def test_empty_directory_becomes_a_store(self):
        os.mkdir(self.store)
        self.mount()
        self.write('a', b'1')
        self.unmount()
        self.fsck()

    def test_mount_points(self):
        self.refused(self.store, os.path.join(self.dir, 'nothing'), says='nothing')
        file = os.path.join(self.dir, 'file')
        with open(file, 'wb'):
            pass
        self.refused(self.store, file, says='directory')
        with open(os.path.join(self.mp, 'x'), 'wb'):
            pass
        self.refused(self.store, self.mp, says='empty')
        self.mount('nonempty')
        self.assertEqual(os.listdir(self.mp), [])

    def test_second_mount(self):
        self.mount()
        self.write('a', b'1')
        other = os.path.join(self.dir, 'other')
        os.mkdir(other)
        done = run(tool('sepfs'), self.store, other, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, rf'process {self.m.pid}\b')
        self.assertEqual(self.read('a'), b'1')

    def test_newer_format(self):
        self.mount()
        self.unmount()
        conf = os.path.join(self.store, 'sepfs.conf')
        with open(conf, encoding='utf-8') as file:
            text = file.read()
        with open(conf, 'w', encoding='utf-8') as file:
            file.write(re.sub(r'^format *=.*$', 'format=999', text, flags=re.M))
        self.refused(self.store, self.mp, says='newer')
        with open(conf, 'w', encoding='utf-8') as file:
            file.write(text + 'block_size=banana\n')
        self.refused(self.store, self.mp, says='sepfs.conf')

    def test_damaged_index(self):
        self.mount()
        self.write('a', b'1')
        self.unmount()
        data = os.path.join(self.store, 'index', 'data.mdb')
        with open(data, 'r+b') as file:
            file.write(os.urandom(16384))
        self.refused(self.store, self.mp, says='index')

    def test_missing_index(self):
        self.mount()
        self.write('a', b'1')
        self.unmount()
        os.unlink(os.path.join(self.store, 'index', 'data.mdb'))
        self.refused(self.store, self.mp, says='index')

    def test_no_permission(self):
        self.need(os.geteuid() == 0 and shutil.which('setpriv'), 'needs root and setpriv')
        os.chmod(self.dir, 0o755)
        self.mount()
        self.unmount()
        # The commands may lie where another user cannot go.
        local = os.path.join(self.dir, 'sepfs')
        shutil.copy(tool('sepfs'), local)
        done = run('setpriv', '--reuid=65534', '--regid=65534', '--clear-groups', local, self.store, self.mp,
                   check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r'(?i)permission|not permitted')
        self.assertFalse(mounted(self.mp))

    def test_no_fuse_device(self):
        self.need(os.geteuid() == 0, 'needs root')
        script = f'mount --bind /dev/null /dev/fuse && exec {tool("sepfs")} {self.store} {self.mp}'
        done = run('unshare', '-m', '--propagation', 'private', 'sh', '-c', script, check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('/dev/fuse', done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_umount(self):
        done = run(tool('sepfs-umount'), self.mp, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(self.mp, done.stderr)
        self.mount()
        with open(self.path('a'), 'wb') as file:
            file.write(b'1')
            file.flush()
            done = run(tool('sepfs-umount'), self.mp, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn('busy', done.stderr)
            self.assertTrue(mounted(self.mp))
        pid = self.m.pid
        self.unmount()
        self.assertFalse(sepfs_test.alive(pid))
        self.mount()
        self.assertEqual(self.read('a'), b'1')

    def test_signal_ends_cleanly(self):
        self.mount(foreground=True)
        self.write('a', b'kept')
        self.m.process.terminate()
        wait_for(lambda: self.m.process.poll() is not None, 'exit after SIGTERM')
        self.assertEqual(self.m.process.returncode, 0, self.m.read_log())
        self.assertFalse(mounted(self.mp))
        self.mount()
        self.assertEqual(self.read('a'), b'kept')

    def test_block_sizes(self):
        for size, number in (('16K', 16384), ('4M', 4 << 20)):
            store, where = os.path.join(self.dir, 's' + size), os.path.join(self.dir, 'm' + size)
            mount = self.mount(f'block_size={size}', store=store, mountpoint=where)
            self.assertEqual(os.stat(where).st_blksize, number)
            with open(os.path.join(where, 'f'), 'wb') as file:
                file.write(sepfs_test.data_of(1, 5 << 20))
            run(tool('sepfs-compact'), where, '--all', '--wait')
            mount.unmount()
            mount = self.mount(store=store, mountpoint=where)
            with open(os.path.join(where, 'f'), 'rb') as file:
                self.assertEqual(file.read(), sepfs_test.data_of(1, 5 << 20))
            mount.unmount()


if __name__ == '__main__':
    sepfs_test.main()
