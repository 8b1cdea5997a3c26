# SPDX-License-Identifier: BSD-2-Clause
"""A host without a free byte, under a mounted store: what is there stays readable and can be deleted,
what cannot be done fails with the reason, and the room that comes back is used."""
import errno
import os

import sepfs_test
from sepfs_test import data_of, run, tool, wait_for

MIB = 1 << 20


class FullHost(sepfs_test.MountTest):
    def setUp(self):
        super().setUp()
        self.need(os.geteuid() == 0, 'needs root to mount a small host file system')
        self.host = os.path.join(self.dir, 'host')
        os.mkdir(self.host)
        run('mount', '-t', 'tmpfs', '-o', 'size=32M', 'tmpfs', self.host)
        self.store = os.path.join(self.host, 'store')

    def tearDown(self):
        for mount in reversed(self.mounts):
            mount.cleanup()
        self.mounts = []
        if sepfs_test.mounted(self.host):
            run('umount', '-l', self.host)
        super().tearDown()

    def free(self):
        status = os.statvfs(self.mp)
        return status.f_bavail * status.f_frsize

    def put(self, name, data):
        """Writes and syncs; what this returns from is acknowledged."""
        with open(self.path(name), 'wb', buffering=0) as file:
            done = 0
            while done < len(data):
                done += file.write(data[done:])
            os.fsync(file.fileno())
        self.kept[name] = data

    def fill(self):
        """Text that compaction would make smaller, then noise until nothing fits any more, and at last
        the few bytes of the host that the daemon did not take."""
        self.kept = {}
        self.mount()
        for number in range(8):
            self.put(f'text {number}', data_of(number, 512 << 10))
        for size in (MIB, 16 << 10):
            number = 0
            while True:
                try:
                    self.put(f'noise {size} {number}', os.urandom(size))
                except OSError as error:
                    self.assertEqual(error.errno, errno.ENOSPC)
                    os.unlink(self.path(f'noise {size} {number}'))
                    break
                number += 1
                self.assertLess(number, 4096, 'no ENOSPC on a host of 32 MiB')
        with open(os.path.join(self.host, 'ballast'), 'wb', buffering=0) as file:
            try:
                while file.write(bytes(4096)) == 4096:
                    pass
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)

    def check(self):
        for name, data in self.kept.items():
            self.assertEqual(self.read(name), data, name)
        self.assertEqual(sorted(os.listdir(self.mp)), sorted(self.kept))

    def remove(self, name):
        os.unlink(self.path(name))
        del self.kept[name]

    def test_deleting(self):
        self.fill()
        self.assertLess(self.free(), 2 * MIB, 'df tells of room that is not there')
        self.check()
        self.assert_errno(errno.ENOSPC, self.put, 'new', os.urandom(MIB))
        os.unlink(self.path('new'))
        self.kept['moved'] = self.kept.pop('text 0')
        os.rename(self.path('text 0'), self.path('moved'))
        os.truncate(self.path('text 1'), 1000)
        self.kept['text 1'] = self.kept['text 1'][:1000]
        self.remount()
        self.check()
        for name in [name for name in self.kept if name.startswith('noise 1048576')]:
            self.remove(name)
        wait_for(lambda: self.free() > 8 * MIB, 'the room of deleted files')
        self.put('again', os.urandom(4 * MIB))
        self.remount()
        self.check()
        self.unmount()
        self.fsck()

    def test_compaction(self):
        self.fill()
        done = run(tool('sepfs-compact'), self.mp, '--all', '--wait', check=False)
        if done.returncode != 0: # a block's new form needs room beside the old one
            self.assertIn('No space left on device', done.stdout + done.stderr)
            status = run(tool('sepfs-compact'), self.mp, '--status').stdout
            self.assertIn('No space left on device', status)
        self.check()
        for name in [name for name in self.kept if name.startswith('noise 1048576')][:6]:
            self.remove(name)
        wait_for(lambda: self.free() > 3 * MIB, 'the room of deleted files')
        self.compact()
        self.check()
        self.remount()
        self.check()
        self.unmount()
        self.fsck()


if __name__ == '__main__':
    sepfs_test.main()
