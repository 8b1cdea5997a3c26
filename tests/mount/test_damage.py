# SPDX-License-Identifier: BSD-2-Clause
"""Full disks and damaged records: the right error to the right caller, and nothing else is lost."""
import errno
import os

import sepfs_test
from sepfs_test import BLOCK, data_of, run, tool


class FullDisk(sepfs_test.MountTest):
    def setUp(self):
        super().setUp()
        self.need(os.geteuid() == 0, 'needs root to mount a small host file system')
        self.host = os.path.join(self.dir, 'host')
        self.image = os.path.join(self.dir, 'image')
        os.mkdir(self.host)

    def tearDown(self):
        for mount in reversed(self.mounts):
            mount.cleanup()
        self.mounts = []
        if sepfs_test.mounted(self.host):
            run('umount', '-l', self.host)
        super().tearDown()

    def host_of(self, kind):
        if kind == 'tmpfs':
            run('mount', '-t', 'tmpfs', '-o', 'size=96M', 'tmpfs', self.host)
        else:
            with open(self.image, 'wb') as file:
                file.truncate(96 << 20)
            run('mkfs.ext4', '-q', '-m', '0', self.image)
            run('mount', '-o', 'loop', self.image, self.host)
        self.store = os.path.join(self.host, 'store')

    def fill(self, kind):
        self.host_of(kind)
        self.mount()
        kept = data_of(1, 2 << 20)
        self.write('kept', kept)
        acknowledged = []
        with open(self.path('big'), 'wb', buffering=0) as file:
            with self.assertRaises(OSError) as caught:
                while len(acknowledged) < 200:
                    chunk = os.urandom(1 << 20)
                    written = file.write(chunk)
                    acknowledged.append(chunk[:written])
                    self.assertLess(len(acknowledged), 200, 'no ENOSPC on a host of 96 MiB')
            self.assertEqual(caught.exception.errno, errno.ENOSPC)
            self.assertGreater(len(acknowledged), 30)
            os.fsync(file.fileno())
        self.assertEqual(self.read('big'), b''.join(acknowledged))
        self.assertEqual(self.read('kept'), kept)
        self.remount()
        self.assertEqual(self.read('big'), b''.join(acknowledged))
        os.unlink(self.path('big'))
        run(tool('sepfs-compact'), self.mp, '--gc', '--wait')
        again = os.urandom(20 << 20)
        self.write('again', again)
        self.remount()
        self.assertEqual(self.read('again'), again)
        self.assertEqual(self.read('kept'), kept)
        self.unmount()
        self.fsck()

    def test_tmpfs(self):
        self.fill('tmpfs')

    def test_ext4(self):
        self.fill('ext4')

    def test_full_of_small_files(self):
        self.host_of('tmpfs')
        self.mount()
        names = []
        with self.assertRaises(OSError) as caught:
            for number in range(200000):
                with open(self.path(f'f{number}'), 'wb', buffering=0) as file:
                    file.write(os.urandom(3000))
                names.append(number)
        self.assertEqual(caught.exception.errno, errno.ENOSPC)
        self.assertGreater(len(names), 3000)
        os.sync()
        for number in names:
            self.assertEqual(os.path.getsize(self.path(f'f{number}')), 3000)
        for number in names:
            os.unlink(self.path(f'f{number}'))
        self.remount()
        self.assertEqual([name for name in os.listdir(self.mp) if name != f'f{len(names)}'], [])
        self.write('again', os.urandom(10 << 20))
        self.unmount()
        self.fsck()


class Damage(sepfs_test.MountTest):
    def test_one_flipped_byte(self):
        self.mount(foreground=True)
        contents = {f'f{number}': data_of(number, 2 * BLOCK) for number in range(6)}
        for name, data in contents.items():
            self.write(name, data)
            with open(self.path(name), 'r+b') as file:
                os.fsync(file.fileno())
        self.unmount()
        packs = os.path.join(self.store, 'packs')
        pack = max((os.path.join(packs, name) for name in os.listdir(packs)), key=os.path.getsize)
        with open(pack, 'r+b') as file:
            file.seek(os.path.getsize(pack) // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 0x10]))
        said = self.fsck('-n', '--scrub', expect=4)
        self.assertIn('checksum', said)
        self.mount(foreground=True)
        bad = []
        for name, data in contents.items():
            try:
                self.assertEqual(self.read(name), data)
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
                bad.append(name)
        self.assertEqual(len(bad), 1, 'exactly the file whose block was hit')
        name = bad[0]
        self.assertIn(f'/{name}', said, 'fsck names the file')
        good = 0
        with open(self.path(name), 'rb', buffering=0) as file:
            for number in range(2):
                try:
                    self.assertEqual(os.pread(file.fileno(), 4096, number * BLOCK),
                                     contents[name][number * BLOCK:number * BLOCK + 4096])
                    good += 1
                except OSError as error:
                    self.assertEqual(error.errno, errno.EIO)
        self.assertEqual(good, 1, 'the other block of the file reads')
        # The damage is not copied into another block, and the rest is compacted.
        done = run(tool('sepfs-compact'), self.mp, '--all', '--wait', check=False)
        self.assertIn('failed', done.stdout + done.stderr)
        self.assert_errno(errno.EIO, self.read, name)
        log = self.m.read_log()
        self.assertIn(f'/{name}', log)
        self.assertRegex(log, r'block \d+')
        self.assertIn('pack', log)
        for other, data in contents.items():
            if other != name:
                self.assertEqual(self.read(other), data)
        os.unlink(self.path(name))
        self.unmount()
        self.fsck('-n', '--deep')

    def test_missing_pack(self):
        self.mount()
        self.write('f', data_of(1, 3 * BLOCK))
        self.write('small', b'inline')
        self.unmount()
        packs = os.path.join(self.store, 'packs')
        for name in os.listdir(packs):
            os.unlink(os.path.join(packs, name))
        self.fsck('-n', expect=4)
        self.mount()
        self.assert_errno(errno.EIO, self.read, 'f')
        self.assertEqual(self.read('small'), b'inline')
        self.assertEqual(os.path.getsize(self.path('f')), 3 * BLOCK)


if __name__ == '__main__':
    sepfs_test.main()
