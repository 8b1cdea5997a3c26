# SPDX-License-Identifier: BSD-2-Clause
"""Compaction as users see it: contents never change, the store shrinks, it ends, it can be steered,
and policies, writers and duplicates get what they were promised."""
import json
import os
import shutil
import threading
import time

import sepfs_test
from sepfs_test import BLOCK, SOURCE, data_of, run, sample_tree, tool, wait_for


def text_of(number, size):
    """Prose-like bytes that every codec shrinks."""
    words = [f'w{number}x{i * i}' for i in range(300)]
    parts = []
    for i in range(size // 4):
        parts.append(words[(i * 7919 + (i * i) % 101) % 300])
    return (' '.join(parts)).encode()[:size]


class Compact(sepfs_test.MountTest):
    def setUp(self):
        super().setUp()
        self.mount()

    def stats(self):
        return json.loads(run(tool('sepfs-stats'), '--json', self.mp).stdout)

    def codecs(self, name):
        return os.getxattr(self.path(name), 'user.sepfs.codecs').decode()

    def stored(self, name):
        return int(os.getxattr(self.path(name), 'user.sepfs.stored'))

    def test_contents_stay_and_a_second_pass_is_empty(self):
        source = sample_tree(os.path.join(self.dir, 'source'))
        shutil.copytree(os.path.join(SOURCE, 'fs'), os.path.join(source, 'code'))
        run('cp', '-a', source, self.path('copy'))
        self.compact()
        self.assert_same_tree(source, self.path('copy'))
        start = time.monotonic()
        again = self.compact()
        self.assertLess(time.monotonic() - start, 1.0)
        self.assertIn('nothing to compact', again)
        self.remount()
        self.assert_same_tree(source, self.path('copy'))
        self.unmount()
        self.fsck()

    def test_sizes_and_attributes(self):
        data = text_of(1, 8 * BLOCK)
        path = self.write('file', data)
        with open(path, 'rb') as file:
            os.fsync(file)
        before = self.stored('file')
        self.assertEqual(os.getxattr(path, 'user.sepfs.cold'), b'0')
        self.assertIn('zstd', self.codecs('file'))
        self.compact()
        after = self.stored('file')
        self.assertLess(after, before)
        self.assertEqual(os.getxattr(path, 'user.sepfs.cold'), b'100')
        self.assertIn('sep', self.codecs('file'))
        self.assertNotIn('zstd', self.codecs('file'))
        ratio = float(os.getxattr(path, 'user.sepfs.ratio'))
        self.assertAlmostEqual(ratio, len(data) / after, delta=0.01 * ratio)
        self.assertEqual(os.listxattr(path), [])
        du = int(run('du', '--block-size=1', path).stdout.split()[0])
        self.assertLess(abs(du - after), 4096)
        self.assertEqual(int(run('du', '--apparent-size', '--block-size=1', path).stdout.split()[0]),
                         len(data))
        self.assertEqual(self.read('file'), data)

    def test_small_files_share_blocks(self):
        os.mkdir(self.path('d'))
        expected = {}
        for number in range(300):
            expected[f'd/f{number}.c'] = text_of(5, 2000)[number:] + str(number).encode()
            self.write(f'd/f{number}.c', expected[f'd/f{number}.c'])
        self.compact()
        seen = self.stats()
        store = seen['paths'][0] if 'paths' in seen else seen
        self.assertIn('shared_blocks', json.dumps(store))
        total = sum(self.stored(name) for name in expected)
        logical = sum(map(len, expected.values()))
        self.assertGreater(logical / total, 20, 'packed together they are nearly one file')
        for name, data in expected.items():
            self.assertEqual(self.read(name), data)
        self.write('d/f7.c', b'changed')
        os.unlink(self.path('d/f8.c'))
        del expected['d/f8.c']
        expected['d/f7.c'] = b'changed'
        self.compact()
        self.remount()
        for name, data in expected.items():
            self.assertEqual(self.read(name), data)
        self.unmount()
        self.fsck()

    def test_policies(self):
        os.mkdir(self.path('never'))
        os.setxattr(self.path('never'), 'user.sepfs.policy', b'cold=never')
        os.mkdir(self.path('fast'))
        os.setxattr(self.path('fast'), 'user.sepfs.policy', b'hot=lz4,cold=zstd:19')
        self.write('never/f', text_of(1, 3 * BLOCK))
        self.write('fast/f', text_of(2, 3 * BLOCK))
        self.assertEqual(os.getxattr(self.path('never/f'), 'user.sepfs.policy'), b'cold=never')
        self.assertEqual(os.listxattr(self.path('never/f')), [])
        os.sync()
        wait_for(lambda: 'lz4' in self.codecs('fast/f'), 'write-back with the policy\'s codec')
        self.compact()
        self.assertIn('zstd:3', self.codecs('never/f'))
        self.assertIn('zstd:19', self.codecs('fast/f'))
        self.assertNotIn('lz4', self.codecs('fast/f'))
        self.assert_errno(22, os.setxattr, self.path('fast'), 'user.sepfs.policy', b'cold=maybe')
        os.removexattr(self.path('never/f'), 'user.sepfs.policy')
        self.compact()
        self.assertIn('sep', self.codecs('never/f'))

    def test_cold_at_once(self):
        os.setxattr(self.mp, 'user.sepfs.policy', b'cold=now')
        self.write('f', text_of(3, 2 * BLOCK))
        self.remount('cold_after=4h')
        wait_for(lambda: 'sep' in self.codecs('f'), 'compaction without being asked', 90)

    def test_old_data_by_itself(self):
        self.remount('cold_after=1s')
        self.write('f', text_of(4, 2 * BLOCK))
        wait_for(lambda: 'sep' in self.codecs('f'), 'compaction without being asked', 90)
        self.assertEqual(self.read('f'), text_of(4, 2 * BLOCK))

    def test_off(self):
        self.remount('compact=off')
        self.write('f', text_of(4, BLOCK))
        done = run(tool('sepfs-compact'), self.mp, '--all', '--wait', check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn('compact', done.stderr)

    def test_writers_win(self):
        """Files overwritten while they are compacted hold what was written last."""
        versions = {}
        for number in range(20):
            versions[number] = text_of(number, 2 * BLOCK + number)
            self.write(f'f{number}', versions[number])
        os.sync()
        compaction = threading.Thread(target=self.compact)
        compaction.start()
        step = 0
        while compaction.is_alive() or step < 100:
            number, at = step % 20, (step * 7919) % (2 * BLOCK)
            piece = b'%d.' % step
            with open(self.path(f'f{number}'), 'r+b') as file:
                file.seek(at)
                file.write(piece)
            old = versions[number]
            versions[number] = (old[:at] + piece + old[at + len(piece):])
            step += 1
        compaction.join()
        for number, data in versions.items():
            self.assertEqual(self.read(f'f{number}'), data, f'f{number}')
        self.compact()
        self.remount()
        for number, data in versions.items():
            self.assertEqual(self.read(f'f{number}'), data, f'f{number}')
        self.unmount()
        self.fsck()

    def test_duplicates_cost_nothing(self):
        data = data_of(9, 16 * BLOCK)
        self.write('one', data)
        os.sync()

        def space():
            self.remount()
            return sum(os.path.getsize(os.path.join(self.store, 'packs', name))
                       for name in os.listdir(os.path.join(self.store, 'packs')))
        before = space()
        self.write('two', data)
        run('cp', '--reflink=never', '--sparse=never', self.path('one'), self.path('three'))
        self.assertLess(space() - before, 1000)
        os.unlink(self.path('one'))
        self.compact()
        self.remount()
        self.assertEqual(self.read('two'), data)
        self.assertEqual(self.read('three'), data)
        self.unmount()
        self.fsck()

    def test_back_to_a_fast_codec(self):
        data = text_of(6, 5 * BLOCK)
        self.write('f', data)
        self.write('g', data[:100000])
        self.compact()
        self.assertEqual(self.codecs('f').split(':')[0], 'sep')
        run(tool('sepfs-compact'), self.path('f'), '--codec=zstd:3', '--wait')
        self.assertIn('zstd:3', self.codecs('f'))
        self.assertNotIn('sep', self.codecs('f'))
        self.assertIn('sep', self.codecs('g'))
        self.assertEqual(self.read('f'), data)
        self.unmount()
        self.fsck()

    def test_subtree_only(self):
        os.mkdir(self.path('a'))
        os.mkdir(self.path('b'))
        self.write('a/f', text_of(1, 2 * BLOCK))
        self.write('b/f', text_of(2, 2 * BLOCK))
        run(tool('sepfs-compact'), self.path('a'), '--all', '--wait')
        self.assertIn('sep', self.codecs('a/f'))
        self.assertNotIn('sep', self.codecs('b/f'))

    def test_pause_and_status(self):
        run(tool('sepfs-compact'), self.mp, '--pause')
        self.write('f', text_of(1, 4 * BLOCK))
        run(tool('sepfs-compact'), self.mp, '--all')
        self.assertTrue(json.loads(run(tool('sepfs-compact'), self.mp, '--status', '--json').stdout)
                        ['paused'])
        self.assertNotIn('sep', self.codecs('f'))
        run(tool('sepfs-compact'), self.mp, '--resume')
        wait_for(lambda: 'sep' in self.codecs('f'), 'compaction after --resume')

    def test_incompressible_is_left_alone(self):
        data = os.urandom(6 * BLOCK)
        self.write('f', data)
        self.compact()
        self.assertIn('raw', self.codecs('f'))
        self.assertLess(self.stored('f'), len(data) + 6 * 200)
        self.assertIn('nothing to compact', self.compact())
        self.remount()
        self.assertEqual(self.read('f'), data)

    def test_space_comes_back(self):
        for number in range(8):
            self.write(f'f{number}', os.urandom(16 * BLOCK))
        self.remount()
        for number in range(1, 8):
            os.unlink(self.path(f'f{number}'))
        run(tool('sepfs-compact'), self.mp, '--gc', '--wait')
        self.unmount()
        used = int(run('du', '-s', '--block-size=1', self.store).stdout.split()[0])
        self.assertLess(used, 16 * BLOCK * 1.2 + (1 << 20))
        self.fsck()


if __name__ == '__main__':
    sepfs_test.main()
