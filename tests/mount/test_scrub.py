# SPDX-License-Identifier: BSD-2-Clause
"""A store that is mounted, written, compacted and collected is checked from outside and inside: what
moves is no damage, and a rest or a remount loses no progress."""
import json
import os
import random
import threading

import packs
import sepfs_test
from sepfs_test import BLOCK, data_of, run, tool, wait_for


class Busy(sepfs_test.MountTest):
    """The load: threads that write, overwrite, cut, copy and delete, and one that compacts."""

    def setUp(self):
        super().setUp()
        self.stop = threading.Event()
        self.failures = []
        self.done = {'write': 0, 'compact': 0}
        self.threads = []

    def tearDown(self):
        self.end_load()
        super().tearDown()

    def loop(self, kind, step, *arguments):
        def work():
            try:
                while not self.stop.is_set():
                    step(*arguments)
                    self.done[kind] += 1
            except Exception as error:  # shown by the test, which has the main thread
                self.failures.append(error)
        self.threads.append(threading.Thread(target=work))
        self.threads[-1].start()

    def write_some(self, source, directory):
        name = os.path.join(directory, str(source.randrange(40)))
        kind = source.randrange(6)
        # few seeds: some of it is there already
        data = data_of(source.randrange(300), source.choice([300, 5000, 40000, BLOCK, 2 * BLOCK + 77]))
        if kind == 0 and os.path.exists(name):
            os.unlink(name)
        elif kind == 1 and os.path.exists(name):
            os.truncate(name, source.randrange(3 * BLOCK))
        elif kind == 2 and os.path.exists(name):
            with open(name, 'rb') as from_file, open(name + '.copy', 'wb') as to_file:
                os.copy_file_range(from_file.fileno(), to_file.fileno(), 1 << 20)
        elif kind == 3 and os.path.exists(name):
            with open(name, 'r+b') as file:
                file.seek(source.randrange(BLOCK))
                file.write(data)
        else:
            with open(name, 'wb') as file:
                file.write(data)
        if source.random() < 0.05:
            os.sync()

    def begin_load(self):
        for number in range(2):
            directory = self.path(str(number))
            os.mkdir(directory)
            self.loop('write', self.write_some, random.Random(number), directory)
        self.loop('compact', run, tool('sepfs-compact'), self.mp, '--all', '--gc', '--wait')

    def end_load(self):
        self.stop.set()
        for thread in self.threads:
            thread.join()
        self.threads = []

    def test_fsck_beside_it(self):
        self.mount('cold=zstd:6,commit=1s')
        self.begin_load()
        for arguments in (['--scrub'], ['--deep']) * 3:
            before = dict(self.done)
            said = self.fsck('-n', *arguments)
            self.assertIn(': clean, ', said)
            self.assertEqual(self.failures, [])
            wait_for(lambda: all(self.done[kind] > before[kind] for kind in before) or self.failures,
                     'a pass of the compactor and a write between two checks', 120)
        self.end_load()
        self.assertEqual(self.failures, [])
        self.unmount()
        self.fsck('-n', '--deep')

    def test_scrub_inside_it(self):
        self.mount('cold=zstd:6,commit=1s', foreground=True)
        self.begin_load()
        for _ in range(4):
            before = dict(self.done)
            seen = json.loads(run(tool('sepfs-scrub'), self.mp, '--wait', '--json').stdout)
            self.assertEqual((seen['last_damaged_blocks'], seen['last_damaged_packs']), (0, 0))
            self.assertEqual(self.failures, [])
            wait_for(lambda: all(self.done[kind] > before[kind] for kind in before) or self.failures,
                     'a pass of the compactor and a write between two rounds', 120)
        self.end_load()
        self.assertEqual(self.failures, [])
        log = self.m.read_log()
        self.assertNotIn('checksum', log)
        self.assertNotIn('damaged:', log)
        self.unmount()
        self.fsck('-n', '--deep')


class GoesOn(sepfs_test.MountTest):
    def progress(self):
        return json.loads(run(tool('sepfs-scrub'), self.mp, '--status', '--json', check=False).stdout)

    def test_after_a_remount_and_a_kill(self):
        """A round stops where it is told to, also within the first blocks, and ends with all counted
        once; damage found before the rest is still counted after it."""
        contents = random.Random(5).randbytes(60 * BLOCK)
        self.mount()
        self.write('f', contents)
        ino = os.stat(self.path('f')).st_ino
        self.unmount()
        packs.damage(packs.record_of(self.store, ino, 0))
        # A day for 7.5 MiB: the first 4 MiB are read at once, for the rest it waits for its rate.
        self.mount('scrub=1d')
        seen = wait_for(lambda: (p := self.progress())['blocks'] > 0 and p, 'the first blocks')
        run(tool('sepfs-scrub'), self.mp, '--stop')
        self.remount()
        seen = self.progress()
        if seen['rounds'] == 0:  # else the machine was slow to tell it to stop
            self.assertTrue(seen['under_way'])
            self.assertTrue(0 < seen['blocks'] < 60, seen)
            self.assertEqual(seen['damaged_blocks'], 1)
            done = run(tool('sepfs-scrub'), self.mp, '--wait', '--json', check=False)
            self.assertEqual(done.returncode, 4)
            seen = json.loads(done.stdout)
        self.assertEqual((seen['last_blocks'], seen['last_damaged_blocks']), (60, 1))
        self.m.kill()
        self.mounts.remove(self.m)
        self.mount()
        seen = self.progress()
        self.assertFalse(seen['under_way'])
        self.assertEqual((seen['rounds'], seen['last_blocks']), (1, 60))
        self.assertEqual(seen['last_damaged_blocks'], 1)


if __name__ == '__main__':
    sepfs_test.main()
